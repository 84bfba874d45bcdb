//! Numbers without a pattern, the same for the same seed.

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// From a seed; near seeds give unrelated numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number of `range`, which is not empty.
    pub fn within(&mut self, range: std::ops::RangeInclusive<u64>) -> u64 {
        range.start() + self.bits() % (range.end() - range.start() + 1)
    }

    /// One of several.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.within(0..=all.len() as u64 - 1) as usize]
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, share: u64) -> bool {
        self.within(0..=99) < share
    }
}

#[cfg(test)]
mod tests {
    use super::Chance;

    #[test]
    fn every_number_of_a_range_comes_about_equally_often() {
        let mut chance = Chance::new(1);
        let mut found = [0; 6];
        for _ in 0..6000 {
            found[chance.within(5..=10) as usize - 5] += 1;
        }
        assert!(found.iter().all(|&count| (850..1150).contains(&count)), "{found:?}");
        assert_eq!(Chance::new(7).bits(), Chance::new(7).bits());
        assert_ne!(Chance::new(7).bits(), Chance::new(8).bits());
    }
}
