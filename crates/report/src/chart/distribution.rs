//! Distributions: every case as a dot, a row each class, with the median and the range of the middle half.

use std::borrow::Cow;

use kindling_metrics::Quartiles;
use maud::{Markup, html};

use super::axis::Axis;
use super::{Unit, coordinate};
use crate::words;

/// The plot in the units of its view box.
const WIDTH: f64 = 480.0;
const LEFT: f64 = 12.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 4.0;
/// A row has its name above its dots.
const ROW: f64 = 50.0;
const NAME: f64 = 15.0;
const MIDDLE: f64 = 33.0;
const BOTTOM: f64 = 26.0;
/// Beyond so many dots in a row, some stand for all: more could not be told apart. Rows share those of a whole plot, for dots make pages
/// large.
const MOST_DOTS: usize = 300;
const MOST_IN_ALL: usize = 2400;
const LEAST_DOTS: usize = 10;
/// Of longer names of cases the end is shown, which tells them apart; of classes the beginning.
const LONGEST_NAME: usize = 40;

/// The cases of a class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DistributionRow<'a> {
    pub(crate) name: &'a str,
    /// A case and its value; those that are not finite are not drawn.
    pub(crate) values: Vec<(&'a str, f64)>,
}

/// The values of one score.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Distribution<'a> {
    pub(crate) title: &'a str,
    /// Beside the title: which direction is the better one.
    pub(crate) note: &'static str,
    pub(crate) unit: Unit,
    pub(crate) rows: Vec<DistributionRow<'a>>,
}

impl<'a> DistributionRow<'a> {
    /// The finite values, from the smallest.
    fn sorted(&self) -> Vec<(&'a str, f64)> {
        let mut values: Vec<_> = self.values.iter().copied().filter(|(_, value)| value.is_finite()).collect();
        values.sort_by(|a, b| a.1.total_cmp(&b.1));
        values
    }

    fn quartiles(&self) -> Option<Quartiles> {
        Quartiles::of(self.values.iter().map(|(_, value)| *value))
    }
}

impl Distribution<'_> {
    /// The plot with its title.
    pub(crate) fn figure(&self) -> Markup {
        let bottom = TOP + ROW * self.rows.len() as f64;
        let axis = self.axis();
        let left = |value: f64| LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT);
        let most = (MOST_IN_ALL / self.rows.len().max(1)).clamp(LEAST_DOTS, MOST_DOTS);
        let thinned = self.rows.iter().any(|row| row.sorted().len() > most);
        html! {
            figure.chart.distribution {
                figcaption { h3 { (self.title) @if let Unit::Of(unit) = self.unit { span.unit { " in " (unit) } } } span.note { (self.note) } }
                svg viewBox={ "0 0 " (WIDTH) " " (bottom + BOTTOM) } role="img" aria-label=(self.summary()) {
                    @for &tick in &axis.ticks {
                        line.grid x1=(coordinate(left(tick))) x2=(coordinate(left(tick))) y1=(TOP) y2=(bottom) {}
                        text.tick x=(coordinate(left(tick))) y=(bottom + 16.0) text-anchor="middle" { (axis.label(tick)) }
                    }
                    @for (row, top) in self.rows.iter().zip(0..).map(|(row, at)| (row, TOP + ROW * f64::from(at))) {
                        (self.row(row, top, most, &left))
                    }
                }
                @if thinned {
                    p.note { "Of more than " (most) " cases in a row, as many stand for all, evenly spaced in the order of their values." }
                }
            }
        }
    }

    fn row(&self, row: &DistributionRow<'_>, top: f64, most: usize, left: &impl Fn(f64) -> f64) -> Markup {
        let middle = top + MIDDLE;
        let quartiles = row.quartiles();
        html! {
            g.first {
                text.tick.name x=(LEFT) y=(top + NAME) { (start_of(row.name)) }
                text.tick x=(WIDTH - RIGHT) y=(top + NAME) text-anchor="end" { (self.middle(quartiles)) }
                @if let Some(Quartiles { q1, median, q3 }) = quartiles {
                    rect.band x=(coordinate(left(q1))) y=(middle - 10.0) width=(coordinate((left(q3) - left(q1)).max(1.0))) height="20" {}
                    (dots(&row.sorted(), most, middle, self.unit, left))
                    line.median x1=(coordinate(left(median))) x2=(coordinate(left(median))) y1=(middle - 12.0) y2=(middle + 12.0) {}
                }
            }
        }
    }

    fn middle(&self, quartiles: Option<Quartiles>) -> String {
        let text = |median| match self.unit {
            Unit::Of(unit) => format!("{}\u{a0}{unit}", words::tenths(median)),
            unit => unit.text(median),
        };
        quartiles.map_or_else(|| "no value".to_owned(), |found| format!("median {}", text(found.median)))
    }

    /// An axis from 0, which all of these scores can have, and for shares to 1.
    fn axis(&self) -> Axis {
        let values = self.rows.iter().flat_map(|row| row.values.iter().map(|(_, value)| *value));
        let most = if self.unit == Unit::Share { 1.0 } else { 0.0 };
        Axis::around(values.chain([0.0, most]), 5)
    }

    /// The plot in words, for those who do not see it.
    fn summary(&self) -> String {
        let row = |row: &DistributionRow<'_>| {
            format!("{}: {} of {} cases", row.name, self.middle(row.quartiles()), row.sorted().len())
        };
        std::iter::once(self.title.to_owned()).chain(self.rows.iter().map(row)).collect::<Vec<_>>().join("; ")
    }
}

/// Dots that lie beside each other up and down, so that equal values show.
fn dots(sorted: &[(&str, f64)], most: usize, middle: f64, unit: Unit, left: &impl Fn(f64) -> f64) -> Markup {
    let last = sorted.len().saturating_sub(1);
    let shown = most.min(sorted.len());
    let spread = |place: usize| (place * 3 % 7) as f64 * 2.4 - 7.2;
    html! {
        @for place in 0..shown {
            @let (case, value) = sorted[place * last / shown.saturating_sub(1).max(1)];
            circle.dot cx=(coordinate(left(value))) cy=(coordinate(middle + spread(place))) r="3" {
                title { (end_of(case)) ": " (unit.text(value)) }
            }
        }
    }
}

fn start_of(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((at, _)) => format!("{}…", &name[..at]).into(),
        None => name.into(),
    }
}

fn end_of(name: &str) -> Cow<'_, str> {
    match name.char_indices().rev().nth(LONGEST_NAME) {
        Some((at, letter)) => format!("…{}", &name[at + letter.len_utf8()..]).into(),
        None => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(unit: Unit, values: &[f64]) -> String {
        let values = values.iter().map(|value| ("x<y", *value)).collect();
        let rows = vec![DistributionRow { name: "liver & <b>", values }];
        Distribution { title: "Dice", note: "", unit, rows }.figure().into_string()
    }

    #[test]
    fn every_case_that_has_a_value_is_a_dot_with_its_name() {
        let svg = svg(Unit::Share, &[0.8, f64::NAN, 0.6, 0.6, 1.0]);
        assert_eq!((svg.matches("<circle").count(), svg.matches("class=\"median\"").count()), (4, 1), "{svg}");
        assert!(
            svg.contains("<title>x&lt;y: 0.800</title>")
                && svg.contains("Dice; liver &amp; &lt;b&gt;: median 0.700 of 4")
        );
        assert!(svg.contains(">0<") && svg.contains(">1.0<"), "shares have an axis from 0 to 1: {svg}");
        assert!(!svg.contains("NaN") && !svg.contains("stand for all"), "{svg}");
    }

    #[test]
    fn thousands_of_cases_are_a_few_hundred_dots_with_the_ends_among_them() {
        let values: Vec<f64> = (0..50_000).map(|case| f64::from(case * 7 % 50_000) / 50_000.0).collect();
        let svg = svg(Unit::Share, &values);
        assert_eq!(svg.matches("<circle").count(), MOST_DOTS);
        assert!(svg.contains(": 0.000</title>") && svg.contains(": 1.000</title>") && svg.contains("stand for all"));
        assert!(svg.len() < 60_000, "{}", svg.len());
    }

    #[test]
    fn of_a_long_name_the_part_is_shown_that_tells_it_apart() {
        let name = format!("{}ä{}", "x".repeat(60), "é".repeat(40));
        assert_eq!(end_of(&name), format!("…{}", "é".repeat(40)));
        assert_eq!((end_of("scan-1"), start_of("liver")), ("scan-1".into(), "liver".into()));
        assert_eq!(start_of(&name), format!("{}…", "x".repeat(40)));
    }

    #[test]
    fn a_class_without_values_and_one_with_a_single_one_are_drawn_all_the_same() {
        for values in [&[][..], &[f64::NAN], &[f64::INFINITY], &[0.0], &[1e9]] {
            let svg = svg(Unit::Of("mm"), values);
            assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.contains("in mm"), "{values:?}: {svg}");
        }
        assert!(svg(Unit::Of("mm"), &[f64::NAN]).contains("no value"));
    }
}
