//! Sets of numbers, held as ranges that do not meet.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers. Ranges of it that meet become one.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Ends by beginnings.
    ends: BTreeMap<usize, usize>,
    total: usize,
}

impl Ranges {
    pub(super) const fn new() -> Self {
        Self { ends: BTreeMap::new(), total: 0 }
    }

    /// How many numbers there are.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// All ranges, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// The range that a number is in.
    pub(super) fn around(&self, number: usize) -> Option<Range<usize>> {
        let (start, end) = self.ends.range(..=number).next_back()?;
        (number < *end).then_some(*start..*end)
    }

    /// Adds a range of which no number is in the set.
    pub(super) fn add(&mut self, range: Range<usize>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        self.total += end - start;
        let before = self.ends.range(..start).next_back().map(|(before, met)| (*before, *met));
        if let Some((before, met)) = before
            && met == start
        {
            start = before;
        }
        if let Some(after) = self.ends.remove(&end) {
            end = after;
        }
        self.ends.insert(start, end);
    }

    /// Takes a range's numbers out, and returns how many there were.
    pub(super) fn remove(&mut self, range: Range<usize>) -> usize {
        // What begins before is divided.
        if let Some(around) = self.around(range.start)
            && around.start < range.start
        {
            self.ends.insert(around.start, range.start);
            self.ends.insert(range.start, around.end);
        }
        let mut removed = 0;
        while let Some((start, end)) = self.ends.range(range.clone()).next().map(|(start, end)| (*start, *end)) {
            self.ends.remove(&start);
            if end > range.end {
                self.ends.insert(range.end, end);
            }
            removed += end.min(range.end) - start;
        }
        self.total -= removed;
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_that_meet_become_one() {
        let mut ranges = Ranges::new();
        ranges.add(10..20);
        ranges.add(30..40);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [10..20, 30..40]);
        ranges.add(20..30);
        assert_eq!((ranges.around(10), ranges.total()), (Some(10..40), 30));
        assert_eq!(ranges.remove(15..18), 3);
        assert_eq!(ranges.remove(0..12), 2);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [12..15, 18..40]);
        assert_eq!((ranges.around(14), ranges.around(15), ranges.around(39)), (Some(12..15), None, Some(18..40)));
        assert_eq!((ranges.remove(0..100), ranges.total()), (25, 0));
    }

    /// Against a set of single numbers, for a thousand changes that no pattern made.
    #[test]
    fn ranges_hold_what_a_set_holds() {
        let (mut ranges, mut set) = (Ranges::new(), BTreeSet::new());
        let mut state = 1_u64;
        let mut next = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap_or(0) % most
        };
        for _ in 0..1000 {
            let start = next(200);
            let range = start..start + next(20);
            if range.clone().any(|number| set.contains(&number)) {
                let held = range.clone().filter(|number| set.remove(number)).count();
                assert_eq!(ranges.remove(range), held);
            } else {
                set.extend(range.clone());
                ranges.add(range);
            }
            let held: Vec<usize> = ranges.iter().flatten().collect();
            assert_eq!(held, set.iter().copied().collect::<Vec<_>>());
            assert_eq!(ranges.total(), set.len());
            assert!(ranges.iter().zip(ranges.iter().skip(1)).all(|(one, next)| one.end < next.start));
        }
    }
}
