//! What a tracker has already.

use std::collections::BTreeMap;

/// Up to which step a tracker has what it is told.
///
/// What is told belongs to series: the values of training, those of a split, the warnings, and so on. A series is told in the order
/// of its steps, so one number each says what has arrived, whatever happened to the run in between: a run that resumes from an
/// earlier step computes the same values once more, and they have arrived. Of one step there may be several warnings, which are
/// counted. What comes late, of an earlier step than the last of its series, counts as arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// All series have arrived up to this step, for trackers that take whole steps.
    floor: Option<u64>,
    /// The last step of a series, and how many entries of it have arrived.
    last: BTreeMap<String, (u64, u32)>,
}

impl Marks {
    /// Everything up to a step has arrived, and nothing after it.
    pub(crate) fn up_to(floor: Option<u64>) -> Self {
        Self { floor, ..Self::default() }
    }

    /// Counts an entry that has arrived, and returns which one of its step it is, from 1.
    pub(crate) fn count(&mut self, series: &str, step: u64) -> u32 {
        let Some(last) = self.last.get_mut(series) else {
            self.last.insert(series.to_owned(), (step, 1));
            return 1;
        };
        match step.cmp(&last.0) {
            std::cmp::Ordering::Greater => *last = (step, 1),
            std::cmp::Ordering::Equal => last.1 = last.1.saturating_add(1),
            std::cmp::Ordering::Less => return 1,
        }
        last.1
    }

    /// Whether the `nth` entry of this step has arrived.
    pub(crate) fn has(&self, series: &str, step: u64, nth: u32) -> bool {
        self.floor.is_some_and(|floor| step <= floor)
            || self.last.get(series).is_some_and(|&(last, count)| step < last || (step == last && nth <= count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_arrives_once_and_several_warnings_of_it_are_told_apart() {
        let mut marks = Marks::default();
        assert!(!marks.has("log/warned", 3, 1));
        assert_eq!([marks.count("log/warned", 3), marks.count("log/warned", 3)], [1, 2]);
        assert!(marks.has("log/warned", 3, 2) && !marks.has("log/warned", 3, 3));
        assert!(marks.has("log/warned", 2, 9) && !marks.has("log/warned", 4, 1));
        assert!(!marks.has("train/loss", 3, 1), "another series");
        let whole = Marks::up_to(Some(3));
        assert!(whole.has("train/loss", 3, 1) && !whole.has("train/loss", 4, 1));
    }
}
