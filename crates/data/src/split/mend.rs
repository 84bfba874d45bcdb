//! The best assignment of groups to sides where the order of keys leaves a class out or far from its share.
//!
//! What is best is told in this order: no split is empty; every class can be learnt; every class is in every split; and then the
//! share of each class in each split lies within 5 points of what is wanted, traded against how many samples are moved away
//! from where the order of keys has them. With few groups all assignments are tried, with many a local search from that order
//! and, while a class is missing that need not be, from others.

use kindling_random::{Purpose, rng};

use super::HELD_OUT;
use crate::order::shuffle;

/// How far a share of train, val or test may be from what is wanted before anything is moved for it.
const TOLERANCE: f64 = 0.05;
/// What moving all samples costs, in shares that are too far off.
const MOVING: f64 = 0.1;
/// All assignments are tried if their number, times the columns, is at most this.
const EXACT: f64 = 2e7;
/// The epoch of the stream that shuffles groups for another start; the shuffled rule has 0 and 1.
const STARTS: u64 = 2;
/// The most other starts.
const MOST_STARTS: u64 = 16;
/// The most groups that are looked at for a move, and for each half of an exchange.
const MOST_MOVED: usize = 2000;
const MOST_EXCHANGED: usize = 100;
/// The most moves from one start.
const MOST_MOVES: usize = 2000;

/// Samples that go to one side together.
pub(super) struct Unit {
    pub(super) key: u128,
    pub(super) members: Vec<usize>,
    /// Samples of each class it has, sorted by class; the last entry counts all samples.
    pub(super) counts: Vec<(usize, usize)>,
}

/// The sides, by number, with the shares that are wanted.
pub(super) struct Sides {
    wanted: Vec<f64>,
    /// The side that should lack no class above all: what is learnt from.
    learnt: Option<usize>,
    /// How far a share may be from what is wanted before anything is moved for it.
    tolerance: f64,
}

impl Sides {
    /// Train, and behind it so many splits that are split off.
    pub(super) fn of_splits(missing: usize) -> Self {
        let train = 1.0 - HELD_OUT * missing as f64;
        let wanted = std::iter::once(train).chain(std::iter::repeat_n(HELD_OUT, missing)).collect();
        Self { wanted, learnt: Some(0), tolerance: TOLERANCE }
    }

    /// So many folds of one size, each of which is learnt from in its turn.
    pub(super) fn of_folds(folds: usize) -> Self {
        let share = 1.0 / folds as f64;
        // A fold of its size and a third more, at most.
        Self { wanted: vec![share; folds], learnt: None, tolerance: share / 3.0 }
    }

    fn count(&self) -> usize {
        self.wanted.len()
    }
}

/// What is wrong with an assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    /// Classes that splits lack, by weight.
    missing: i64,
    /// Shares beyond the tolerance, and samples that were moved.
    shares: f64,
}

impl Cost {
    /// Whether it is better by more than rounding.
    fn is_below(self, other: Self) -> bool {
        self.missing < other.missing || (self.missing == other.missing && self.shares < other.shares - 1e-9)
    }

    fn plus(self, other: Self) -> Self {
        Self { missing: self.missing + other.missing, shares: self.shares + other.shares }
    }

    fn minus(self, other: Self) -> Self {
        Self { missing: self.missing - other.missing, shares: self.shares - other.shares }
    }
}

/// The best side of every unit that is found: `home`, those of the order of keys, where nothing is wrong with it.
/// `start` gives the sides of another order.
pub(super) fn mend(
    units: &[Unit],
    classes: usize,
    sides: &Sides,
    home: Vec<usize>,
    seed: u64,
    start: impl Fn(&[usize]) -> Vec<usize>,
) -> Vec<usize> {
    let mut state = State::new(units, classes, sides, &home);
    let unavoidable = state.unavoidable();
    let at_home = state.cost();
    if at_home.missing <= unavoidable && at_home.shares <= 0.0 {
        return home;
    }
    if (sides.count() as f64).powi(units.len() as i32) * (classes + 1) as f64 <= EXACT {
        let mut best = (at_home, home.clone());
        state.try_all(0, &mut best);
        return best.1;
    }
    state.improve();
    let mut best = (state.cost(), state.given.clone());
    for attempt in 0..MOST_STARTS {
        if best.0.missing <= unavoidable {
            break;
        }
        let mut order: Vec<usize> = (0..units.len()).collect();
        shuffle(&mut order, &mut rng(seed, Purpose::Split, STARTS + attempt, 0));
        state.become_other(&start(&order));
        state.improve();
        if state.cost().is_below(best.0) {
            best = (state.cost(), state.given.clone());
        }
    }
    best.1
}

/// An assignment, with the samples of each class on each side.
struct State<'a> {
    units: &'a [Unit],
    sides: &'a Sides,
    /// By unit, where the order of keys has it.
    home: &'a [usize],
    /// By unit.
    given: Vec<usize>,
    /// By column, then by side; the last column counts samples.
    counts: Vec<Vec<usize>>,
    totals: Vec<usize>,
}

impl<'a> State<'a> {
    fn new(units: &'a [Unit], classes: usize, sides: &'a Sides, home: &'a [usize]) -> Self {
        let mut totals = vec![0; classes + 1];
        units.iter().flat_map(|unit| &unit.counts).for_each(|&(column, count)| totals[column] += count);
        let counts = vec![vec![0; sides.count()]; classes + 1];
        let mut state = Self { units, sides, home, given: Vec::new(), counts, totals };
        state.become_other(home);
        state
    }

    fn become_other(&mut self, given: &[usize]) {
        self.counts.iter_mut().for_each(|sides| sides.fill(0));
        for (unit, &side) in self.units.iter().zip(given) {
            unit.counts.iter().for_each(|&(column, count)| self.counts[column][side] += count);
        }
        self.given = given.to_vec();
    }

    /// What is wrong with a class.
    fn cost_of(&self, column: usize) -> Cost {
        let total = self.totals[column];
        if total == 0 {
            return Cost::default();
        }
        let mut cost = Cost::default();
        for (side, &count) in self.counts[column].iter().enumerate() {
            if count == 0 {
                cost.missing += self.weight(column, side);
            }
            let off = (count as f64 / total as f64 - self.sides.wanted[side]).abs();
            cost.shares += (off - self.sides.tolerance).max(0.0);
        }
        cost
    }

    /// How bad it is that a side lacks a class: a split without samples is worst, then a class that cannot be learnt.
    fn weight(&self, column: usize, side: usize) -> i64 {
        match column + 1 == self.totals.len() {
            true => 1 << 40,
            false if self.sides.learnt == Some(side) => 1 << 20,
            false => 1,
        }
    }

    fn moving(&self, unit: usize, side: usize) -> f64 {
        let away = usize::from(side != self.home[unit]) * self.units[unit].members.len();
        MOVING * away as f64 / self.totals[self.totals.len() - 1].max(1) as f64
    }

    fn cost(&self) -> Cost {
        let columns = (0..self.totals.len()).fold(Cost::default(), |cost, column| cost.plus(self.cost_of(column)));
        let moved = self.given.iter().enumerate().map(|(unit, &side)| self.moving(unit, side)).sum::<f64>();
        columns.plus(Cost { missing: 0, shares: moved })
    }

    /// What no assignment does without: a class of fewer groups than splits.
    fn unavoidable(&self) -> i64 {
        let mut groups = vec![0; self.totals.len()];
        self.units.iter().flat_map(|unit| &unit.counts).for_each(|(column, _)| groups[*column] += 1);
        let lacking = |groups: &usize| if *groups == 0 { 0 } else { self.sides.count().saturating_sub(*groups) };
        groups.iter().map(|groups| lacking(groups) as i64).sum()
    }

    fn shift(&mut self, unit: usize, side: usize) {
        let before = std::mem::replace(&mut self.given[unit], side);
        for &(column, count) in &self.units[unit].counts {
            self.counts[column][before] -= count;
            self.counts[column][side] += count;
        }
    }

    /// By how much the cost grows if units go elsewhere.
    fn change(&mut self, moves: &[(usize, usize)]) -> Cost {
        let mut columns: Vec<usize> =
            moves.iter().flat_map(|(unit, _)| self.units[*unit].counts.iter().map(|(column, _)| *column)).collect();
        columns.sort_unstable();
        columns.dedup();
        let price = |state: &Self| {
            let columns = columns.iter().fold(Cost::default(), |cost, &column| cost.plus(state.cost_of(column)));
            let moved = moves.iter().map(|&(unit, _)| state.moving(unit, state.given[unit])).sum();
            columns.plus(Cost { missing: 0, shares: moved })
        };
        let before = price(self);
        let back: Vec<(usize, usize)> = moves.iter().map(|&(unit, _)| (unit, self.given[unit])).collect();
        moves.iter().for_each(|&(unit, side)| self.shift(unit, side));
        let after = price(self);
        back.into_iter().for_each(|(unit, side)| self.shift(unit, side));
        after.minus(before)
    }

    /// Every assignment of the units from `next` on, each at home first, so that of equals the nearest to it is kept.
    fn try_all(&mut self, next: usize, best: &mut (Cost, Vec<usize>)) {
        if next == self.units.len() {
            let cost = self.cost();
            if cost.is_below(best.0) {
                *best = (cost, self.given.clone());
            }
            return;
        }
        let others = (0..self.sides.count()).filter(|&side| side != self.home[next]);
        for side in std::iter::once(self.home[next]).chain(others) {
            self.shift(next, side);
            self.try_all(next + 1, best);
        }
        self.shift(next, self.home[next]);
    }

    /// Moves a unit, or exchanges two, as long as that makes anything better.
    fn improve(&mut self) {
        // The units that have a class.
        let mut having: Vec<Vec<usize>> = vec![Vec::new(); self.totals.len()];
        for (unit, counts) in self.units.iter().map(|unit| &unit.counts).enumerate() {
            for &(column, _) in counts {
                if having[column].len() < MOST_MOVED {
                    having[column].push(unit);
                }
            }
        }
        for _ in 0..MOST_MOVES {
            let Some(moves) = self.best_step(&having) else { return };
            moves.into_iter().for_each(|(unit, side)| self.shift(unit, side));
        }
    }

    /// The step that helps most, for the class that is worst off if one helps it.
    fn best_step(&mut self, having: &[Vec<usize>]) -> Option<Vec<(usize, usize)>> {
        let mut wrong: Vec<(usize, Cost)> = (0..self.totals.len())
            .map(|column| (column, self.cost_of(column)))
            .filter(|(_, cost)| cost.missing > 0 || cost.shares > 0.0)
            .collect();
        wrong.sort_by(|(_, one), (_, other)| other.missing.cmp(&one.missing).then(other.shares.total_cmp(&one.shares)));
        let sides = self.sides.count();
        for &(column, _) in &wrong {
            let steps = having[column].iter().flat_map(|&unit| (0..sides).map(move |side| vec![(unit, side)]));
            if let Some(step) = self.best_of(steps) {
                return Some(step);
            }
        }
        for &(column, _) in &wrong {
            let [units, others] =
                [column, self.totals.len() - 1].map(|column| having[column].iter().take(MOST_EXCHANGED));
            let given = self.given.clone();
            let pairs = units.flat_map(|&one| others.clone().map(move |&other| (one, other)));
            let steps = pairs
                .filter(|(one, other)| given[*one] != given[*other])
                .map(|(one, other)| vec![(one, given[other]), (other, given[one])]);
            if let Some(step) = self.best_of(steps) {
                return Some(step);
            }
        }
        None
    }

    /// The best of some steps, if it is one forward.
    fn best_of(&mut self, steps: impl Iterator<Item = Vec<(usize, usize)>>) -> Option<Vec<(usize, usize)>> {
        let mut best: Option<(Cost, Vec<(usize, usize)>)> = None;
        for step in steps {
            if step.iter().all(|&(unit, side)| self.given[unit] == side) {
                continue;
            }
            let change = self.change(&step);
            if change.is_below(best.as_ref().map_or(Cost::default(), |(cost, _)| *cost)) {
                best = Some((change, step));
            }
        }
        best.map(|(_, step)| step)
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    /// Groups by how many samples of each class they have.
    fn units(groups: &[&[usize]]) -> Vec<Unit> {
        let mut next = 0;
        let unit = |counts: &&[usize]| {
            let size: usize = counts.iter().sum();
            let all = (counts.len(), size);
            next += size;
            Unit {
                key: 0,
                members: (next - size..next).collect(),
                counts: counts.iter().copied().enumerate().filter(|(_, count)| *count > 0).chain([all]).collect(),
            }
        };
        groups.iter().map(unit).collect()
    }

    fn mended(groups: &[Vec<usize>], sides: &Sides, home: &[usize]) -> Vec<usize> {
        let groups: Vec<&[usize]> = groups.iter().map(Vec::as_slice).collect();
        let start = |order: &[usize]| {
            let mut given = vec![0; order.len()];
            order.iter().enumerate().for_each(|(place, unit)| given[*unit] = place % sides.count());
            given
        };
        mend(&units(&groups), groups[0].len(), sides, home.to_vec(), 0, start)
    }

    /// Samples of a class, or of all, on each side.
    fn counts(groups: &[Vec<usize>], given: &[usize], class: Option<usize>, sides: usize) -> Vec<usize> {
        let of = |group: &Vec<usize>| class.map_or_else(|| group.iter().sum(), |class| group[class]);
        let on = |side| groups.iter().zip(given).filter(|(_, at)| **at == side).map(|(group, _)| of(group)).sum();
        (0..sides).map(on).collect()
    }

    /// How bad an assignment is, in the order in which the head of this file tells it: empty sides, classes that are not on side 0,
    /// classes that other sides lack, and then shares that are off, with what is moved.
    fn badness(groups: &[Vec<usize>], sides: &Sides, home: &[usize], given: &[usize]) -> ([usize; 3], f64) {
        let columns = (0..groups[0].len()).map(Some).chain([None]);
        let (mut missing, mut off) = ([0; 3], 0.0);
        for class in columns {
            let found = counts(groups, given, class, sides.count());
            let total: usize = found.iter().sum();
            for (side, count) in found.into_iter().enumerate() {
                let kind = match class {
                    None => 0,
                    Some(_) if sides.learnt == Some(side) => 1,
                    Some(_) => 2,
                };
                missing[kind] += usize::from(count == 0);
                off += ((count as f64 / total as f64 - sides.wanted[side]).abs() - sides.tolerance).max(0.0);
            }
        }
        let moved: usize = groups
            .iter()
            .zip(home.iter().zip(given))
            .filter(|(_, (home, at))| home != at)
            .map(|(group, _)| group.iter().sum::<usize>())
            .sum();
        let all: usize = groups.iter().flatten().sum();
        (missing, off + MOVING * moved as f64 / all as f64)
    }

    fn random(count: usize, classes: usize, most: usize, number: u64) -> Vec<Vec<usize>> {
        let mut rng = rng(number, Purpose::Split, 0, 0);
        let group = |_| {
            let mut group: Vec<usize> = (0..classes).map(|_| rng.random_range(0..=most)).collect();
            let own = rng.random_range(0..classes);
            group[own] += 1;
            group
        };
        (0..count).map(group).collect()
    }

    #[test]
    fn of_few_groups_no_assignment_is_better_and_none_as_good_is_nearer() {
        for number in 0..30 {
            let groups = random(6, 3, 3, number);
            for sides in [Sides::of_splits(2), Sides::of_folds(3)] {
                let home: Vec<usize> = (0..6).map(|at| (at + number as usize) % 2).collect();
                let found = badness(&groups, &sides, &home, &mended(&groups, &sides, &home));
                for assignment in 0..3_usize.pow(6) {
                    let given: Vec<usize> = (0..6).map(|at| assignment / 3_usize.pow(at) % 3).collect();
                    let (missing, off) = badness(&groups, &sides, &home, &given);
                    let is_better = missing < found.0 || missing == found.0 && off < found.1 - 1e-9;
                    assert!(!is_better, "{number}: {given:?} has {missing:?} {off}, and not {found:?}");
                }
            }
        }
    }

    #[test]
    fn no_split_is_empty_though_classes_of_one_group_cannot_be_learnt_then() {
        let groups = vec![vec![1, 0, 0], vec![0, 1, 0], vec![0, 0, 1]];
        let given = mended(&groups, &Sides::of_splits(2), &[0, 0, 0]);
        assert!((0..3).all(|side| given.contains(&side)), "{given:?}");
    }

    #[test]
    fn many_groups_that_lie_wrong_are_spread_by_moves() {
        for number in 0..5 {
            let groups = random(80, 3, 4, number);
            for sides in [Sides::of_splits(2), Sides::of_folds(5)] {
                // A few groups on each side, so that no class is missing, and all others on the first.
                let few = 4 * sides.count();
                let home: Vec<usize> = (0..80).map(|at| if at < few { at % sides.count() } else { 0 }).collect();
                let given = mended(&groups, &sides, &home);
                for class in [None, Some(0), Some(1), Some(2)] {
                    let found = counts(&groups, &given, class, sides.count());
                    let total: usize = found.iter().sum();
                    for (count, wanted) in found.iter().zip(&sides.wanted) {
                        let off = (*count as f64 / total as f64 - wanted).abs();
                        assert!(*count > 0 && off <= sides.tolerance + 0.02, "{number}, {class:?}: {found:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn where_moves_end_with_a_class_missing_other_starts_are_tried() {
        let mut missing = 0;
        for number in 0..60 {
            // Five rare classes of three groups each, of which there is one on every side where group n is on side n % 3.
            let mut groups = random(20, 1, 9, number);
            let mut rng = rng(number, Purpose::Split, 1, 0);
            groups.iter_mut().for_each(|group| group.extend([0; 5]));
            for (class, side) in (1..6).flat_map(|class| (0..3).map(move |side| (class, side))) {
                groups[3 * rng.random_range(0..6) + side][class] = 1;
            }
            let sides = Sides::of_splits(2);
            let given = mended(&groups, &sides, &[0; 20]);
            missing += badness(&groups, &sides, &[0; 20], &given).0.iter().sum::<usize>();
        }
        assert_eq!(missing, 0);
    }
}
