//! Plots of shares against shares: both axes from 0 to 1. ROC curves, precision-recall curves, reliability.

use std::fmt::Write;

use maud::{Markup, html};

/// The plot in the units of its view box.
const SIDE: f64 = 220.0;
const LEFT: f64 = 40.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 12.0;
const BOTTOM: f64 = 40.0;
/// Where lines and numbers stand.
const TICKS: [f64; 3] = [0.0, 0.5, 1.0];

/// A point with, where it is known, the range that goes with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) range: Option<(f64, f64)>,
}

/// A plot of one series.
pub(crate) struct Square<'a> {
    pub(crate) title: &'a str,
    /// Beside the title: what the curve is worth.
    pub(crate) note: String,
    pub(crate) along: &'static str,
    pub(crate) up: &'static str,
    pub(crate) places: Vec<Place>,
    /// Dots with ranges instead of a line with a band.
    pub(crate) dots: bool,
    /// A dashed line from one point to another: what says nothing, or is perfect.
    pub(crate) level: ((f64, f64), (f64, f64)),
}

impl Square<'_> {
    pub(crate) fn figure(&self) -> Markup {
        let (width, height) = (LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM);
        let ((x1, y1), (x2, y2)) = self.level;
        html! {
            figure.chart.square {
                figcaption { h3 { (self.title) } span.note { (self.note) } }
                svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label={ (self.title) "; " (self.note) } {
                    @for tick in TICKS {
                        line.grid x1=(LEFT) x2=(LEFT + SIDE) y1=(top(tick)) y2=(top(tick)) {}
                        line.grid y1=(TOP) y2=(TOP + SIDE) x1=(left(tick)) x2=(left(tick)) {}
                        text.tick x=(LEFT - 6.0) y=(top(tick - 0.018)) text-anchor="end" { (tick) }
                        text.tick x=(left(tick)) y=(TOP + SIDE + 16.0) text-anchor="middle" { (tick) }
                    }
                    text.tick x=(LEFT + SIDE / 2.0) y=(height - 6.0) text-anchor="middle" { (self.along) }
                    text.tick x="11" y=(TOP + SIDE / 2.0) text-anchor="middle"
                        transform={ "rotate(-90 11 " (TOP + SIDE / 2.0) ")" } { (self.up) }
                    line.level x1=(left(x1)) y1=(top(y1)) x2=(left(x2)) y2=(top(y2)) {}
                    g.first { @if self.dots { (self.dots()) } @else { (self.curve()) } }
                }
            }
        }
    }

    fn curve(&self) -> Markup {
        let known = || self.places.iter().filter_map(|place| Some((place.x, place.range?)));
        let upper = known().map(|(x, (_, high))| (x, high));
        let lower = known().map(|(x, (low, _))| (x, low));
        let band: Vec<(f64, f64)> = upper.chain(lower.collect::<Vec<_>>().into_iter().rev()).collect();
        html! {
            @if !band.is_empty() { path.band d={ (path(band.into_iter())) "Z" } {} }
            path.line d=(path(self.places.iter().map(|place| (place.x, place.y)))) {}
        }
    }

    fn dots(&self) -> Markup {
        html! {
            @for place in &self.places {
                @if let Some((low, high)) = place.range {
                    line.range x1=(left(place.x)) x2=(left(place.x)) y1=(top(low)) y2=(top(high)) {}
                }
                circle.dot cx=(left(place.x)) cy=(top(place.y)) r="4" {}
            }
        }
    }
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    for (index, (x, y)) in points.enumerate() {
        let pen = if index == 0 { 'M' } else { 'L' };
        // Writing to a String cannot fail.
        let _ = write!(text, "{pen}{} {}", left(x), top(y));
    }
    text
}

fn left(x: f64) -> String {
    format!("{:.1}", LEFT + x.clamp(0.0, 1.0) * SIDE)
}

/// A little beyond an edge is allowed, for labels.
fn top(y: f64) -> String {
    format!("{:.1}", TOP + (1.0 - y.clamp(-0.1, 1.0)) * SIDE)
}
