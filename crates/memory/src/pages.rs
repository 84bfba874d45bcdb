//! How tensors lie in the memory that CubeCL's pools take from a GPU's driver, and how much of it a run takes in advance.
//!
//! CubeCL 0.11.3 has a pool for tensors of at most 64 KiB, with pages of 8 MiB, and one for all others, whose pages are 1 MiB larger
//! than the largest tensor so far (`cubecl-server`, `memory_management/dynamic/adaptive.rs` and `arena.rs`). Both put a tensor into the
//! first gap that has room for it. Pages are only returned on request. So a tensor that is made and freed before all others decides how
//! large pages are, and if all tensors find room in what was taken at the start, the pools hold exactly that, whatever their order.

const KIBIBYTE: u64 = 1 << 10;
const MEBIBYTE: u64 = 1 << 20;

/// Tensors of at most so many bytes have pages of their own.
const SMALL: u64 = 64 * KIBIBYTE;
/// Bytes of such a page.
const SMALL_PAGE: u64 = 8 * MEBIBYTE;
/// The least bytes of a page for all others.
const LEAST_PAGE: u64 = 2 * MEBIBYTE;
/// Where tensors may start.
const ALIGNMENT: u64 = 512;
/// Shapes, strides and numbers that kernels are given, which lie among the small tensors: CubeCL keeps the newest 4096 of them, most of
/// them of at most 512 bytes (`metadata_cache.rs`).
const SHAPES: u64 = 3 * MEBIBYTE;

/// Bytes in one of the pools.
#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    live: u64,
    peak: u64,
}

/// Bytes in both pools, with those lost to alignment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pools {
    small: Pool,
    large: Pool,
    /// The largest tensor so far.
    largest: u64,
}

impl Pools {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.largest = self.largest.max(bytes);
        let pool = self.of(bytes);
        pool.live += bytes.next_multiple_of(ALIGNMENT);
        pool.peak = pool.peak.max(pool.live);
    }

    pub(crate) fn remove(&mut self, bytes: u64) {
        let pool = self.of(bytes);
        pool.live = pool.live.saturating_sub(bytes.next_multiple_of(ALIGNMENT));
    }

    fn of(&mut self, bytes: u64) -> &mut Pool {
        if bytes <= SMALL { &mut self.small } else { &mut self.large }
    }
}

/// One part in so many of the bytes in use is added for gaps between tensors. Simulated for 308 runs of four networks by CubeCL's rules,
/// gaps took 9 % in the median and 34 % at most, of small networks, and never more than this and the largest tensor.
const GAPS: u64 = 10;
/// The largest tensors, for which gaps are too small, are added so many times: an update makes a weight and its two moments anew. With the
/// largest once, two of eight runs of ResNet-18 found no room.
const LARGEST: u64 = 3;

/// Memory that the pools of a GPU take from its driver before a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Pages for tensors of at most 64 KiB.
    pub small: u64,
    /// Bytes of the pages for all others.
    pub large: u64,
}

impl Pages {
    /// All of them.
    pub fn bytes(&self) -> u64 {
        self.small * SMALL_PAGE + self.large
    }

    /// Sizes of tensors that, made one after the other, have the pools take these pages, if a page may have at most `most` bytes.
    pub fn tensors(self, most: u64) -> impl Iterator<Item = u64> {
        let count = self.large.div_ceil(most.max(LEAST_PAGE));
        let page = self.large.div_ceil(count.max(1)).next_multiple_of(MEBIBYTE).max(LEAST_PAGE);
        let of_page = std::iter::repeat_n(page - MEBIBYTE, count as usize);
        // Half a page less, because a few small tensors may be there already, of whoever opened the device.
        let of_small_page = SMALL_PAGE / SMALL;
        let small = (self.small * of_small_page).saturating_sub(of_small_page / 2);
        of_page.chain(std::iter::repeat_n(SMALL, small as usize))
    }
}

impl Pools {
    /// What has room for the tensors of a run.
    pub(crate) fn pages(&self) -> Pages {
        let with_gaps = |bytes: u64| bytes + bytes / GAPS;
        let large = with_gaps(self.large.peak) + LARGEST * self.largest;
        Pages {
            small: (with_gaps(self.small.peak) + SHAPES).div_ceil(SMALL_PAGE),
            large: large.next_multiple_of(MEBIBYTE).max(LEAST_PAGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages that CubeCL makes for tensors of these sizes, none of which is freed, by its rules: a page is used as long as the tensor
    /// fits behind the others; a tensor that is larger than a page outdates all pages before it.
    fn pages_by_the_rules(tensors: impl Iterator<Item = u64>) -> Vec<u64> {
        let (mut page, mut room, mut made) = (LEAST_PAGE, 0, Vec::new());
        for tensor in tensors.map(|bytes| bytes.next_multiple_of(ALIGNMENT)) {
            if tensor > page {
                page = (tensor + MEBIBYTE).next_multiple_of(MEBIBYTE);
                room = 0;
            }
            if tensor > room {
                made.push(page);
                room = page;
            }
            room -= tensor;
        }
        made
    }

    #[test]
    fn the_pools_take_what_is_asked_for_before_a_run() {
        const CARD: u64 = 80 << 30;
        for large in [5 * MEBIBYTE, 100 * MEBIBYTE, 700 * MEBIBYTE, 20 << 30] {
            for most in [CARD / 4, 160 * MEBIBYTE] {
                let pages = Pages { small: 2, large };
                let (small, large): (Vec<u64>, Vec<u64>) = pages.tensors(most).partition(|bytes| *bytes <= SMALL);
                for there_already in [0, SMALL, SMALL_PAGE / 2] {
                    let taken = there_already + small.iter().sum::<u64>();
                    assert_eq!(taken.div_ceil(SMALL_PAGE), 2, "{there_already}");
                }
                let made = pages_by_the_rules(large.into_iter());
                assert!(made.iter().all(|page| *page <= most), "{made:?}");
                let (taken, wanted) = (made.iter().sum::<u64>(), pages.large);
                assert!((wanted..wanted + made.len() as u64 * MEBIBYTE).contains(&taken), "{taken} for {wanted}");
            }
        }
    }

    #[test]
    fn small_tensors_have_pages_of_their_own_and_each_starts_where_it_may() {
        let mut pools = Pools::default();
        pools.add(SMALL);
        pools.add(1);
        pools.add(SMALL + 1);
        pools.remove(1);
        pools.add(ALIGNMENT);
        assert_eq!(pools.small.peak, SMALL + ALIGNMENT);
        assert_eq!(pools.large.peak, SMALL + ALIGNMENT);
        // 8,000 vectors of 1 KiB fit into a page of 8 MiB, but not with all else that lies there.
        (0..8_000).for_each(|_| pools.add(KIBIBYTE));
        assert_eq!(pools.pages().small, 2);
    }

    /// However little else there is, the largest tensor finds room beside gaps that it does not fit into.
    #[test]
    fn the_largest_tensor_fits_into_what_is_taken() {
        assert_eq!(Pools::default().pages(), Pages { small: 1, large: LEAST_PAGE });
        let mut pools = Pools::default();
        pools.add(10 * MEBIBYTE);
        assert_eq!(pools.pages(), Pages { small: 1, large: 41 * MEBIBYTE });
    }
}
