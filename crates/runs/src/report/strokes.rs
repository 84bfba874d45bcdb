//! What is drawn inside a chart: lines, dots and marks, placed in the view box of an SVG.

use std::fmt::Write;

use maud::{Markup, html};

use super::axis::Axis;
use super::curves::Point;

/// How a series is drawn. Series differ by more than their colour: faint, solid, dotted, or single marks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stroke {
    /// A faint line behind the others.
    Faint,
    /// A line.
    Line,
    /// A dashed line with a dot at each point.
    Dots,
    /// Marks only.
    Marks,
}

#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: &'static str,
    /// `first`, `second`: colours of the style sheet.
    pub(super) colour: &'static str,
    pub(super) stroke: Stroke,
    pub(super) points: Vec<Point>,
}

/// Space around the plot for the labels.
pub(super) const LEFT: f64 = 58.0;
pub(super) const RIGHT: f64 = 24.0;
pub(super) const TOP: f64 = 16.0;
pub(super) const BOTTOM: f64 = 38.0;

/// The plot with its axes, in the units of the view box.
pub(super) struct Frame {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: Axis,
    pub(super) y: Axis,
}

impl Frame {
    pub(super) fn left(&self, x: f64) -> f64 {
        LEFT + self.x.place(x) * (self.width - LEFT - RIGHT)
    }

    pub(super) fn top(&self, y: f64) -> f64 {
        self.height - BOTTOM - self.y.place(y) * (self.height - TOP - BOTTOM)
    }
}

pub(super) fn not_finite(series: &Series) -> impl Iterator<Item = &Point> {
    series.points.iter().filter(|point| !point.1.is_finite())
}

/// One digit behind the point is finer than any screen.
pub(super) fn coordinate(value: f64) -> String {
    format!("{value:.1}")
}

pub(super) fn draw(frame: &Frame, series: &Series) -> Markup {
    let runs = series.points.split(|point| !point.1.is_finite()).filter(|run| !run.is_empty());
    let mut path = String::new();
    for run in runs {
        for (index, &(x, y)) in run.iter().enumerate() {
            let pen = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{pen}{} {}", coordinate(frame.left(x)), coordinate(frame.top(y)));
        }
    }
    let radius = if series.points.len() > 30 { "2.5" } else { "4" };
    let places = || {
        let finite = series.points.iter().filter(|point| point.1.is_finite());
        finite.map(|&(x, y)| (frame.left(x), frame.top(y)))
    };
    html! {
        g class={ (series.colour) } {
            @match series.stroke {
                Stroke::Faint => path.faint d=(path) {},
                Stroke::Line => {
                    path.line d=(path) {}
                    // A line through one point cannot be seen.
                    @if series.points.len() == 1 {
                        @for (x, y) in places() { circle.dot cx=(coordinate(x)) cy=(coordinate(y)) r="4" {} }
                    }
                }
                Stroke::Dots => {
                    path.dashed d=(path) {}
                    @for (x, y) in places() { circle.dot cx=(coordinate(x)) cy=(coordinate(y)) r=(radius) {} }
                }
                Stroke::Marks => @for (x, y) in places() { path.diamond d=(diamond(x, y)) {} },
            }
            @for point in not_finite(series).take(60) {
                text.cross x=(coordinate(frame.left(point.0))) y=(TOP + 5.0) text-anchor="middle" { "×" }
            }
        }
    }
}

fn diamond(x: f64, y: f64) -> String {
    format!("M{} {}l6 6l-6 6l-6-6z", coordinate(x), coordinate(y - 6.0))
}

/// A vertical line whose name stands on the side that has room.
pub(super) fn mark(frame: &Frame, x: f64, name: &str) -> Markup {
    let left = frame.left(x);
    let (place, anchor) = if left > frame.width / 2.0 { (left - 5.0, "end") } else { (left + 5.0, "start") };
    html! {
        line.mark x1=(coordinate(left)) x2=(coordinate(left)) y1=(TOP) y2=(frame.height - BOTTOM) {}
        text.tick x=(coordinate(place)) y=(TOP - 4.0) text-anchor=(anchor) { (name) }
    }
}

/// A short piece of a series for the legend.
pub(super) fn sample(colour: &str, stroke: Stroke) -> Markup {
    html! {
        svg.sample viewBox="0 0 28 10" aria-hidden="true" {
            g class=(colour) {
                @match stroke {
                    Stroke::Faint => path.faint d="M1 8L7 2L13 8L20 3L27 6" {},
                    Stroke::Line => path.line d="M1 5H27" {},
                    Stroke::Dots => {
                        path.dashed d="M1 5H27" {}
                        circle.dot cx="14" cy="5" r="4" {}
                    }
                    Stroke::Marks => path.diamond d=(diamond(14.0, 5.0)) {},
                }
            }
        }
    }
}
