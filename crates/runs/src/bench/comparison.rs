//! Two files of rows beside each other.

use super::{Row, Rows};

/// Fewer windows say nothing about their spread.
const FEWEST_WINDOWS: usize = 3;

/// Two rows beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// From the first file.
    pub a: Row,
    /// From the second.
    pub b: Row,
    /// What differs between the configurations; empty unless unlike ones were asked to be compared.
    pub differences: Vec<String>,
}

/// Whether the second row is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    /// The quartile ranges of the windows' speeds do not touch, and the second lies higher.
    Faster,
    /// The same, and it lies lower.
    Slower,
    /// The ranges touch: the difference may be noise.
    #[strum(to_string = "within noise")]
    WithinNoise,
    /// Too few windows on one side to tell.
    #[strum(to_string = "too few windows")]
    TooFewWindows,
    /// One of them failed.
    #[strum(to_string = "no figures")]
    NoFigures,
}

impl Verdict {
    /// As the table writes it, such as `within noise`.
    pub fn words(self) -> &'static str {
        self.into()
    }
}

/// What two files have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Rows of both.
    pub pairs: Vec<Pair>,
    /// Rows that only the first file has.
    pub only_a: Vec<Row>,
    /// Rows that only the second file has.
    pub only_b: Vec<Row>,
}

impl Pair {
    /// Images a second of the second row over those of the first, by their medians.
    pub fn speed_ratio(&self) -> Option<f64> {
        let (a, b) = (self.a.measured()?, self.b.measured()?);
        Some(b.images_per_second.median / a.images_per_second.median)
    }

    /// Peak memory of the second row over that of the first, and what it is of: what both engines' allocators held on the
    /// device where both say it, for what one had in use within a step another may not see; then live bytes; then the
    /// processes.
    pub fn memory_ratio(&self) -> Option<(f64, &'static str)> {
        let (a, b) = (&self.a.measured()?.memory, &self.b.measured()?.memory);
        let figures = [
            (a.peak_reserved_bytes, b.peak_reserved_bytes, "reserved"),
            (a.peak_in_use_bytes, b.peak_in_use_bytes, "in use"),
            (a.peak_process_bytes, b.peak_process_bytes, "process"),
        ];
        figures.into_iter().find_map(|(a, b, of)| Some((b? as f64 / a.filter(|&bytes| bytes > 0)? as f64, of)))
    }

    /// Whether the difference in speed exceeds the noise of the windows.
    pub fn verdict(&self) -> Verdict {
        let (Some(a), Some(b)) = (self.a.measured(), self.b.measured()) else { return Verdict::NoFigures };
        if a.windows.len().min(b.windows.len()) < FEWEST_WINDOWS {
            Verdict::TooFewWindows
        } else if a.images_per_second.overlaps(&b.images_per_second) {
            Verdict::WithinNoise
        } else if b.images_per_second.median > a.images_per_second.median {
            Verdict::Faster
        } else {
            Verdict::Slower
        }
    }
}

impl Comparison {
    /// Rows of the same configuration beside each other. Several rounds of a row count together, and of several variants
    /// the fastest counts.
    ///
    /// Rows without a partner are left over where one file has more than the other. Where both have some, the files are
    /// of unlike configurations: with `force` the nearest are compared, in the order of the first file.
    ///
    /// # Errors
    /// A sentence that names what differs.
    pub fn of(a: &Rows, b: &Rows, force: bool) -> Result<Self, String> {
        let (only_a, mut only_b) = (best(a), best(b));
        let mut pairs = Vec::new();
        let mut left_a = Vec::new();
        for row in only_a {
            match only_b.iter().position(|other| other.configuration_hash == row.configuration_hash) {
                Some(at) => pairs.push(Pair { a: row, b: only_b.remove(at), differences: Vec::new() }),
                None => left_a.push(row),
            }
        }
        if !left_a.is_empty() && !only_b.is_empty() {
            if !force {
                let (row, nearest) = (&left_a[0], nearest(&left_a[0], &only_b));
                let differences = row.configuration.differences(&only_b[nearest].configuration).join(", ");
                return Err(format!(
                    "the configurations differ: `{}` has {differences}; --force compares them all the same",
                    row.configuration.label()
                ));
            }
            let mut rest = Vec::new();
            for row in left_a {
                let at = nearest(&row, &only_b);
                // Training beside inference says nothing, forced or not.
                if only_b.get(at).is_none_or(|b| b.configuration.what != row.configuration.what) {
                    rest.push(row);
                    continue;
                }
                let b = only_b.remove(at);
                let differences = row.configuration.differences(&b.configuration);
                pairs.push(Pair { a: row, b, differences });
            }
            left_a = rest;
        }
        if pairs.is_empty() {
            return Err("there is nothing to compare: the files have no rows of the same kind".into());
        }
        Ok(Self { pairs, only_a: left_a, only_b })
    }
}

/// The index of the row that differs in the fewest fields, of the same kind if there is one; 0 of none.
fn nearest(row: &Row, others: &[Row]) -> usize {
    let distance = |other: &Row| {
        let unlike = row.configuration.what != other.configuration.what;
        (unlike, row.configuration.differences(&other.configuration).len())
    };
    (0..others.len()).min_by_key(|&at| distance(&others[at])).unwrap_or(0)
}

/// Each configuration once: its fastest variant, or a failed one if none has figures.
fn best(rows: &Rows) -> Vec<Row> {
    let speed = |row: &Row| row.measured().map_or(0.0, |measured| measured.images_per_second.median);
    let mut found: Vec<Row> = Vec::new();
    for row in rows.pooled() {
        match found.iter_mut().find(|known| known.configuration_hash == row.configuration_hash) {
            Some(known) if speed(&row) > speed(known) => *known = row,
            Some(_) => {}
            None => found.push(row),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::configuration::tests::example;
    use super::super::rows::tests::{failed, row};
    use super::super::{Configuration, What};
    use super::*;

    fn rows(rows: Vec<Row>) -> Rows {
        Rows::new(rows)
    }

    #[test]
    fn a_difference_counts_only_if_the_quartiles_of_the_windows_do_not_touch() {
        let against = |speeds: &[f64]| {
            let a = rows(vec![row("kindling", example(), &[10.0, 11.0, 12.0, 13.0])]);
            let b = rows(vec![row("pytorch", example(), speeds)]);
            Comparison::of(&a, &b, false).unwrap().pairs.remove(0)
        };
        assert_eq!(against(&[20.0, 21.0, 22.0]).verdict(), Verdict::Faster);
        assert_eq!(against(&[5.0, 5.5, 6.0]).verdict(), Verdict::Slower);
        assert_eq!(against(&[5.0, 12.0, 20.0]).verdict(), Verdict::WithinNoise);
        assert_eq!(against(&[50.0, 51.0]).verdict(), Verdict::TooFewWindows);
        let ratio = against(&[23.0, 23.0, 23.0]).speed_ratio().unwrap();
        assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn unlike_configurations_are_refused_with_what_differs_and_compared_when_forced() {
        let other = Configuration { precision: "bf16".into(), ..example() };
        let a = rows(vec![row("kindling", example(), &[4.0])]);
        let b = rows(vec![row("kindling", other, &[4.0])]);
        let refusal = Comparison::of(&a, &b, false).unwrap_err();
        assert!(refusal.contains("precision f32 against bf16") && refusal.contains("--force"), "{refusal}");
        let forced = Comparison::of(&a, &b, true).unwrap();
        assert_eq!(forced.pairs[0].differences, ["precision f32 against bf16"]);
    }

    #[test]
    fn a_file_with_more_rows_than_the_other_is_compared_in_what_they_share() {
        let infer = Configuration { what: What::Infer, ..example() };
        let a = rows(vec![row("kindling", example(), &[4.0]), row("kindling", infer, &[9.0])]);
        let b = rows(vec![row("pytorch", example(), &[4.0])]);
        let found = Comparison::of(&a, &b, false).unwrap();
        assert_eq!((found.pairs.len(), found.only_a.len(), found.only_b.len()), (1, 1, 0));
        assert!(Comparison::of(&a, &rows(vec![]), false).is_err());
    }

    #[test]
    fn of_two_layouts_the_faster_one_counts_and_a_failure_has_no_ratio() {
        let mut slow = row("pytorch", example(), &[3.0]);
        slow.variant = Some("contiguous".into());
        let mut fast = row("pytorch", example(), &[5.0]);
        fast.variant = Some("channels_last".into());
        let a = rows(vec![failed("kindling", example())]);
        let found = Comparison::of(&a, &rows(vec![slow, fast]), false).unwrap();
        assert_eq!(found.pairs[0].b.engine_label(), "pytorch (channels_last)");
        assert_eq!((found.pairs[0].speed_ratio(), found.pairs[0].verdict()), (None, Verdict::NoFigures));
    }

    #[test]
    fn memory_is_compared_where_both_were_counted_alike() {
        let a = row("kindling", example(), &[4.0]);
        let mut b = row("pytorch", example(), &[4.0]);
        let pair = |a: &Row, b: &Row| Pair { a: a.clone(), b: b.clone(), differences: Vec::new() };
        assert_eq!(pair(&a, &b).memory_ratio(), Some((1.0, "in use")));
        let (mut on_gpu, mut other) = (a.clone(), b.clone());
        for (row, reserved) in [(&mut on_gpu, 100), (&mut other, 150)] {
            let super::super::Outcome::Measured(measured) = &mut row.outcome else { unreachable!() };
            measured.memory.peak_reserved_bytes = Some(reserved);
        }
        assert_eq!(pair(&on_gpu, &other).memory_ratio(), Some((1.5, "reserved")));
        let super::super::Outcome::Measured(measured) = &mut b.outcome else { unreachable!() };
        measured.memory.peak_in_use_bytes = None;
        assert_eq!(pair(&a, &b).memory_ratio(), None);
    }
}
