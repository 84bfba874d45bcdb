//! Forest plots: differences with their intervals, a row each, and where none is.

use std::borrow::Cow;

use maud::{Markup, html};

use super::axis::Axis;
use super::coordinate;
use crate::scored;

/// The plot in the units of its view box.
const WIDTH: f64 = 360.0;
const LEFT: f64 = 30.0;
/// Values with their intervals stand in here.
const RIGHT: f64 = 190.0;
const TOP: f64 = 6.0;
const ROW: f64 = 24.0;
const BOTTOM: f64 = 24.0;
/// Half of the shortest axis: differences below it are none that anybody would act on, and are not to look large.
const SHORTEST: f64 = 0.001;
/// Equal scores that were added up in another order differ by less.
const ROUNDING: f64 = 1e-9;

/// A difference with its interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ForestRow {
    /// At most three characters.
    pub(crate) label: String,
    /// A colour of the style sheet.
    pub(crate) colour: &'static str,
    /// The difference; NaN where it is not defined.
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
}

/// Differences of one score.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Forest<'a> {
    pub(crate) title: Cow<'a, str>,
    /// Beside the title: which direction is the better one.
    pub(crate) note: &'static str,
    pub(crate) rows: Vec<ForestRow>,
}

impl ForestRow {
    /// Whether the interval leaves out 0, by more than what sums round to.
    fn is_clear(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > ROUNDING || high < -ROUNDING)
    }

    fn text(&self) -> String {
        let value = scored::difference(self.value);
        match self.interval {
            Some((low, high)) => format!("{value} ({} to {})", scored::difference(low), scored::difference(high)),
            None => value,
        }
    }
}

impl Forest<'_> {
    pub(crate) fn figure(&self) -> Markup {
        let bottom = TOP + ROW * self.rows.len() as f64;
        let axis = self.axis();
        let place = |value: f64| coordinate(LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT));
        html! {
            figure.chart.forest {
                figcaption { h3 { (self.title) } span.note { (self.note) } }
                svg viewBox={ "0 0 " (WIDTH) " " (bottom + BOTTOM) } role="img" aria-label=(self.summary()) {
                    @for &tick in &axis.ticks {
                        line.grid x1=(place(tick)) x2=(place(tick)) y1=(TOP) y2=(bottom) {}
                        text.tick x=(place(tick)) y=(bottom + 16.0) text-anchor="middle" { (axis.label(tick).replace('-', "−")) }
                    }
                    line.zero x1=(place(0.0)) x2=(place(0.0)) y1=(TOP - 4.0) y2=(bottom + 4.0) {}
                    @for (row, middle) in self.rows.iter().zip(0..).map(|(row, at)| (row, TOP + ROW * (f64::from(at) + 0.5))) {
                        g class=(row.colour) {
                            text.tick x=(LEFT - 10.0) y=(middle + 4.0) text-anchor="end" { (row.label) }
                            @if let Some((low, high)) = row.interval {
                                line.range x1=(place(low)) x2=(place(high)) y1=(middle) y2=(middle) {}
                                @for end in [low, high] {
                                    line.range x1=(place(end)) x2=(place(end)) y1=(middle - 4.0) y2=(middle + 4.0) {}
                                }
                            }
                            @if row.value.is_finite() { circle.dot cx=(place(row.value)) cy=(middle) r="4.5" {} }
                        }
                        text.tick.clear[row.is_clear()] x=(WIDTH) y=(middle + 4.0) text-anchor="end" { (row.text()) }
                    }
                }
            }
        }
    }

    /// An axis around all of it, 0 included.
    fn axis(&self) -> Axis {
        let ends = self.rows.iter().filter_map(|row| row.interval).flat_map(|(low, high)| [low, high]);
        let values = self.rows.iter().map(|row| row.value).chain(ends);
        Axis::around(values.chain([-SHORTEST, SHORTEST]), 2)
    }

    /// The plot in words, for those who do not see it.
    fn summary(&self) -> String {
        let rows = self.rows.iter().map(|row| format!("run {}: {}", row.label, row.text()));
        std::iter::once(self.title.to_string()).chain(rows).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f64, interval: Option<(f64, f64)>) -> ForestRow {
        ForestRow { label: "2".into(), colour: "second", value, interval }
    }

    fn places(svg: &str, class: &str, attribute: &str) -> Vec<f64> {
        let of = |piece: &str| piece.split(&format!(" {attribute}=\"")).nth(1)?.split('"').next()?.parse().ok();
        svg.split(&format!("class=\"{class}\"")).skip(1).filter_map(of).collect()
    }

    #[test]
    fn zero_is_marked_and_lies_where_the_axis_has_it() {
        let rows = vec![row(0.1, Some((0.05, 0.2))), row(-0.1, Some((-0.2, 0.1)))];
        let svg = Forest { title: "Accuracy".into(), note: "", rows }.figure().into_string();
        let (zero, dots) = (places(&svg, "zero", "x1"), places(&svg, "dot", "cx"));
        assert_eq!((zero.len(), dots.len()), (1, 2), "{svg}");
        assert!(dots[1] < zero[0] && zero[0] < dots[0], "{zero:?} {dots:?}");
        assert!(((zero[0] - dots[1]) - (dots[0] - zero[0])).abs() < 0.2, "equal differences lie equally far from 0");
        assert_eq!(svg.matches("tick clear").count(), 1, "one interval leaves out 0: {svg}");
        assert!(svg.contains("run 2: +0.100 (+0.050 to +0.200)"), "{svg}");
    }

    #[test]
    fn differences_that_are_not_defined_or_none_are_drawn_all_the_same() {
        for value in [f64::NAN, 0.0, 1e-9, f64::INFINITY] {
            let svg = Forest { title: "Kappa".into(), note: "", rows: vec![row(value, None)] }.figure().into_string();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{value}: {svg}");
            assert_eq!(places(&svg, "dot", "cx").len(), usize::from(value.is_finite()), "{value}");
            assert_eq!(places(&svg, "zero", "x1").len(), 1);
        }
    }
}
