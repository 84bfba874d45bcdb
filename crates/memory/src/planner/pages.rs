//! CubeCL's pools on paper: which pages a sequence of allocations fetches from the driver (`cubecl-server` 0.11.3,
//! `src/memory_management/dynamic/`).
//!
//! Small pieces are carved from pages of 8 MiB, all others from pages as large as the largest piece so far and a mebibyte.
//! A piece goes to the first place that has room for it. When a larger piece comes, pages of the former size serve nobody
//! any more and go back as they empty.

const MEBIBYTE: u64 = 1 << 20;
const ALIGNMENT: u64 = 512;
/// The largest piece that is carved from a small page, and that page.
const SMALL: (u64, u64) = (64 << 10, 8 * MEBIBYTE);
/// The least page of larger pieces.
const LEAST_PAGE: u64 = 2 * MEBIBYTE;

/// Where a piece lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    page: usize,
    offset: u64,
}

/// Pages, in the order they are searched.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pages: Vec<Page>,
    made: usize,
    /// The size of pages for large pieces now.
    current: u64,
    reserved: u64,
    peak: u64,
}

#[derive(Clone, Debug)]
struct Page {
    id: usize,
    small: bool,
    size: u64,
    /// What is taken: offset and size, ascending.
    taken: Vec<(u64, u64)>,
}

impl Page {
    /// The first gap with room for so many bytes.
    fn gap(&self, bytes: u64) -> Option<u64> {
        let mut start = 0;
        for &(offset, size) in &self.taken {
            if offset - start >= bytes {
                return Some(start);
            }
            start = offset + size;
        }
        (self.size - start >= bytes).then_some(start)
    }

    fn take(&mut self, offset: u64, bytes: u64) {
        let at = self.taken.partition_point(|(other, _)| *other < offset);
        self.taken.insert(at, (offset, bytes));
    }
}

impl Pages {
    pub(super) fn new() -> Self {
        Self { pages: Vec::new(), made: 0, current: LEAST_PAGE, reserved: 0, peak: 0 }
    }

    /// The most bytes fetched from the driver at once.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// Carves a piece; of no bytes there is none.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Piece> {
        if bytes == 0 {
            return None;
        }
        let needed = bytes.next_multiple_of(ALIGNMENT);
        let small = bytes <= SMALL.0;
        if !small && needed > self.current {
            self.current = (bytes + MEBIBYTE).next_multiple_of(MEBIBYTE);
        }
        let (current, of_pool) = (self.current, if small { SMALL.1 } else { self.current });
        // Pages of a former size went back when they emptied.
        self.keep(|page| page.small || page.size == current || !page.taken.is_empty());
        let serves = |page: &&mut Page| page.small == small && page.size == of_pool;
        let found = self.pages.iter_mut().filter(serves).find_map(|page| Some((page.gap(needed)?, page)));
        if let Some((offset, page)) = found {
            page.take(offset, needed);
            return Some(Piece { page: page.id, offset });
        }
        let id = self.made;
        self.made += 1;
        self.pages.push(Page { id, small, size: of_pool, taken: vec![(0, needed)] });
        self.reserved += of_pool;
        self.peak = self.peak.max(self.reserved);
        Some(Piece { page: id, offset: 0 })
    }

    pub(super) fn give_back(&mut self, piece: Piece) {
        if let Some(page) = self.pages.iter_mut().find(|page| page.id == piece.page) {
            page.taken.retain(|(offset, _)| *offset != piece.offset);
        }
    }

    /// What asking for memory back does: pieces on pages of a former size move to room on current ones where a page can be
    /// emptied, those with the fewest bytes first, and empty pages go back.
    pub(super) fn clean(&mut self, mut moved: impl FnMut(Piece, Piece)) {
        let current = self.current;
        let outdated = |page: &Page| !page.small && page.size != current && !page.taken.is_empty();
        let mut old: Vec<Page> = self.pages.iter().filter(|page| outdated(page)).cloned().collect();
        old.sort_by_key(|page| page.taken.iter().map(|(_, size)| size).sum::<u64>());
        for page in old {
            let before = self.pages.clone();
            let mut targets = Vec::new();
            for &(offset, bytes) in &page.taken {
                let fits = |page: &&mut Page| !page.small && page.size == current;
                let found = self.pages.iter_mut().filter(fits).find_map(|page| Some((page.gap(bytes)?, page)));
                let Some((at, target)) = found else { break };
                target.take(at, bytes);
                targets.push((Piece { page: page.id, offset }, Piece { page: target.id, offset: at }));
            }
            if targets.len() < page.taken.len() {
                self.pages = before;
                continue;
            }
            targets.into_iter().for_each(|(from, to)| moved(from, to));
            self.pages.iter_mut().filter(|other| other.id == page.id).for_each(|page| page.taken.clear());
        }
        self.keep(|page| !page.taken.is_empty());
    }

    fn keep(&mut self, wanted: impl Fn(&Page) -> bool) {
        let mut freed = 0;
        self.pages.retain(|page| {
            let keep = wanted(page);
            freed += if keep { 0 } else { page.size };
            keep
        });
        self.reserved -= freed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pages: &mut Pages, mebibytes: u64) -> Piece {
        pages.take(mebibytes * MEBIBYTE).expect("there are bytes")
    }

    #[test]
    fn pages_are_as_large_as_the_largest_piece_and_a_mebibyte() {
        let mut pages = Pages::new();
        let first = take(&mut pages, 1);
        assert_eq!(pages.peak(), 2 * MEBIBYTE);
        let large = take(&mut pages, 10);
        assert_eq!(pages.peak(), 13 * MEBIBYTE);
        // The first page is of a former size: it takes nothing any more, and goes back when it is empty.
        pages.give_back(first);
        pages.give_back(large);
        let again = take(&mut pages, 1);
        assert_eq!((again.page, again.offset, pages.peak()), (large.page, 0, 13 * MEBIBYTE));
        assert_eq!(pages.reserved, 11 * MEBIBYTE);
    }

    #[test]
    fn small_pieces_have_pages_of_their_own() {
        let mut pages = Pages::new();
        for _ in 0..128 {
            pages.take(64 << 10);
        }
        assert_eq!(pages.peak(), 8 * MEBIBYTE);
        pages.take(4);
        assert_eq!(pages.peak(), 16 * MEBIBYTE);
        assert_eq!(pages.take(0), None);
    }

    #[test]
    fn a_piece_goes_to_the_first_gap_that_holds_it() {
        let mut pages = Pages::new();
        let large = take(&mut pages, 9); // pages of 10 MiB
        pages.give_back(large);
        let pieces: Vec<Piece> = [3, 2, 4].map(|size| take(&mut pages, size)).to_vec();
        pages.give_back(pieces[0]);
        pages.give_back(pieces[1]);
        let joined = take(&mut pages, 5);
        assert_eq!((joined.offset, pages.reserved), (0, 10 * MEBIBYTE));
        let elsewhere = take(&mut pages, 2);
        assert_ne!(elsewhere.page, joined.page);
    }

    #[test]
    fn cleaning_empties_pages_of_a_former_size() {
        let mut pages = Pages::new();
        let kept = take(&mut pages, 1);
        let large = take(&mut pages, 10);
        let beside = take(&mut pages, 5);
        pages.give_back(large);
        let mut moves = Vec::new();
        pages.clean(|from, to| moves.push((from, to)));
        assert_eq!(moves.len(), 1);
        assert_eq!(moves[0].0, kept);
        // The kept piece lies on a page of the new size now; the second such page keeps what is on it.
        assert_eq!(pages.reserved, 22 * MEBIBYTE);
        pages.give_back(moves[0].1);
        pages.give_back(beside);
        pages.clean(|_, _| {});
        assert_eq!(pages.reserved, 0);
    }
}
