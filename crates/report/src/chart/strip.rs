//! Strip plots: every value of a group as a dot on a line of its own, with the group's mean.

use maud::{Markup, html};

use super::axis::Axis;
use super::coordinate;
use crate::scored;

/// The plot in the units of its view box.
const WIDTH: f64 = 360.0;
const LEFT: f64 = 30.0;
/// The mean stands in here.
const RIGHT: f64 = 70.0;
const TOP: f64 = 6.0;
const ROW: f64 = 24.0;
const BOTTOM: f64 = 24.0;

/// A group of values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StripRow {
    /// At most three characters.
    pub(crate) label: String,
    /// Its values; those that are not finite are not drawn.
    pub(crate) values: Vec<f64>,
}

/// The values of one score.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strip<'a> {
    pub(crate) title: &'a str,
    /// Beside the title: which direction is the better one.
    pub(crate) note: &'static str,
    pub(crate) rows: Vec<StripRow>,
}

impl StripRow {
    fn finite(&self) -> impl Iterator<Item = f64> {
        self.values.iter().copied().filter(|value| value.is_finite())
    }

    fn mean(&self) -> Option<f64> {
        let count = self.finite().count();
        (count > 0).then(|| self.finite().sum::<f64>() / count as f64)
    }
}

impl Strip<'_> {
    pub(crate) fn figure(&self) -> Markup {
        let bottom = TOP + ROW * self.rows.len() as f64;
        let axis = Axis::around(self.rows.iter().flat_map(StripRow::finite), 3);
        let place = |value: f64| coordinate(LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT));
        html! {
            figure.chart.forest {
                figcaption { h3 { (self.title) } span.note { (self.note) } }
                svg viewBox={ "0 0 " (WIDTH) " " (bottom + BOTTOM) } role="img" aria-label=(self.summary()) {
                    @for &tick in &axis.ticks {
                        line.grid x1=(place(tick)) x2=(place(tick)) y1=(TOP) y2=(bottom) {}
                        text.tick x=(place(tick)) y=(bottom + 16.0) text-anchor="middle" { (axis.label(tick)) }
                    }
                    @for (row, middle) in self.rows.iter().zip(0..).map(|(row, at)| (row, TOP + ROW * (f64::from(at) + 0.5))) {
                        g.first {
                            text.tick x=(LEFT - 10.0) y=(middle + 4.0) text-anchor="end" { (row.label) }
                            @for value in row.finite() { circle.dot.faded cx=(place(value)) cy=(middle) r="4" {} }
                            @if let Some(mean) = row.mean() {
                                line.zero x1=(place(mean)) x2=(place(mean)) y1=(middle - 8.0) y2=(middle + 8.0) {}
                            }
                        }
                        text.tick x=(WIDTH) y=(middle + 4.0) text-anchor="end" { (row.mean().map_or("–".to_owned(), scored::number)) }
                    }
                }
            }
        }
    }

    /// The plot in words, for those who do not see it.
    fn summary(&self) -> String {
        let row = |row: &StripRow| {
            let mean = row.mean().map_or("no value".to_owned(), scored::number);
            format!("{}: mean {mean} of {}", row.label, row.finite().count())
        };
        std::iter::once(self.title.to_owned()).chain(self.rows.iter().map(row)).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_value_is_a_dot_and_the_mean_lies_among_them() {
        let rows = vec![
            StripRow { label: "1".into(), values: vec![0.8, 0.9, f64::NAN] },
            StripRow { label: "2".into(), values: vec![f64::NAN] },
        ];
        let svg = Strip { title: "Accuracy", note: "", rows }.figure().into_string();
        assert_eq!((svg.matches("<circle").count(), svg.matches("class=\"zero\"").count()), (2, 1), "{svg}");
        assert!(svg.contains("1: mean 0.850 of 2; 2: mean no value of 0") && !svg.contains("NaN"), "{svg}");
    }
}
