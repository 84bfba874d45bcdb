//! Line charts as SVG, by hand: a page that is sent around should not bring a chart library.

mod axis;
mod distribution;
mod forest;
mod plane;
mod points;
mod square;
mod strip;

use std::borrow::Cow;
use std::fmt::Write;

use maud::{Markup, html};

use self::axis::Axis;
use crate::{scored, words};

pub(crate) use distribution::{Distribution, DistributionRow};
pub(crate) use forest::{Forest, ForestRow};
pub(crate) use plane::{Guide, Plane};
pub(crate) use points::{Point, smooth, thin};
pub(crate) use square::{Place, Square};
pub(crate) use strip::{Strip, StripRow};

/// How a series is drawn. Series differ by more than their colour: faint, solid, dotted, or single marks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stroke {
    /// A faint line behind the others.
    Faint,
    /// A solid line.
    Line,
    /// A dashed line with a dot at each point.
    Dots,
    /// Marks only.
    Marks,
    /// A line with one of the style sheet's dash patterns, of which 0 is none.
    Pattern(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: Cow<'static, str>,
    /// `first`, `second`: colours of the style sheet.
    pub(crate) colour: &'static str,
    pub(crate) stroke: Stroke,
    pub(crate) points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unit {
    Plain,
    Percent,
    /// From 0 to 1, written with three digits: Dice, for one.
    Share,
    /// Behind the number.
    Of(&'static str),
}

impl Unit {
    /// A value with its unit.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Self::Plain => words::number(value),
            Self::Percent => words::percent(value),
            Self::Share => scored::number(value),
            Self::Of(unit) => format!("{}\u{a0}{unit}", words::number(value)),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    /// What is counted along the horizontal axis: `step` or `epoch`.
    pub(crate) along: &'static str,
    pub(crate) unit: Unit,
    pub(crate) series: Vec<Series>,
    /// A dashed horizontal line with its name.
    pub(crate) level: Option<(f64, String)>,
    /// Vertical lines with their names.
    pub(crate) marks: Vec<(f64, String)>,
    pub(crate) small: bool,
}

impl Chart {
    /// The chart with its title, legend and notes.
    pub(crate) fn figure(&self) -> Markup {
        let limit = self.limit();
        let frame = self.frame(limit);
        let summary = self.summary();
        html! {
            figure.chart.small[self.small] {
                figcaption {
                    h3 {
                        (self.title)
                        @if let Unit::Of(unit) = self.unit { span.unit { " in " (unit) } }
                    }
                    @if self.series.len() > 1 || self.level.is_some() { (self.legend()) }
                }
                div.plot {
                    svg viewBox={ "0 0 " (frame.width) " " (frame.height) } role="img" aria-label=(summary)
                        data-along=(self.along) data-points=(self.hover(&frame)) {
                        (self.grid(&frame))
                        @if let Some((level, _)) = &self.level {
                            line.level x1=(LEFT) x2=(frame.width - RIGHT)
                                y1=(coordinate(frame.top(*level))) y2=(coordinate(frame.top(*level))) {}
                        }
                        @for (x, name) in &self.marks { (mark(&frame, *x, name)) }
                        @for series in &self.series { (draw(&frame, series)) }
                        line.cursor y1=(TOP) y2=(frame.height - BOTTOM) hidden {}
                    }
                    div.tip hidden {}
                }
                @for note in self.notes(limit.map(|_| frame.y.high)) { p.note { (note) } }
            }
        }
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.series.iter().flat_map(|series| series.points.iter().map(|point| point.1))
    }

    /// A height above which values are drawn at the upper edge, if a few outliers would flatten all the rest.
    fn limit(&self) -> Option<f64> {
        points::limit(self.values())
    }

    fn frame(&self, limit: Option<f64>) -> Frame {
        let (width, height) = if self.small { (340.0, 190.0) } else { (560.0, 300.0) };
        let xs = self.series.iter().flat_map(|series| series.points.iter().map(|point| point.0));
        let shown = self.values().map(|value| limit.map_or(value, |limit| value.min(limit)));
        // Zero belongs on every axis here: all of these are sizes, and their ratio is what one compares.
        let mut ys: Vec<f64> = shown.chain([0.0]).collect();
        if matches!(self.unit, Unit::Percent | Unit::Share) {
            ys.push(1.0);
        }
        Frame {
            width,
            height,
            x: Axis::of_counts(xs, if self.small { 4 } else { 7 }),
            y: Axis::around(ys.into_iter(), if self.small { 3 } else { 5 }),
        }
    }

    fn grid(&self, frame: &Frame) -> Markup {
        let bottom = frame.height - BOTTOM;
        let y_label = |tick: f64| match self.unit {
            Unit::Percent => format!("{:.0}\u{a0}%", tick * 100.0),
            _ => frame.y.label(tick),
        };
        html! {
            @for &tick in &frame.y.ticks {
                line.grid x1=(LEFT) x2=(frame.width - RIGHT)
                    y1=(coordinate(frame.top(tick))) y2=(coordinate(frame.top(tick))) {}
                text.tick x=(LEFT - 8.0) y=(coordinate(frame.top(tick) + 4.0)) text-anchor="end" { (y_label(tick)) }
            }
            line.axis x1=(LEFT) x2=(frame.width - RIGHT) y1=(bottom) y2=(bottom) {}
            @for &tick in &frame.x.ticks {
                line.axis x1=(coordinate(frame.left(tick))) x2=(coordinate(frame.left(tick))) y1=(bottom) y2=(bottom + 4.0) {}
                text.tick x=(coordinate(frame.left(tick))) y=(bottom + 17.0) text-anchor="middle" { (frame.x.label(tick)) }
            }
            text.tick x=(frame.width - RIGHT) y=(frame.height - 4.0) text-anchor="end" { (self.along) }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            ul.legend {
                @for series in &self.series {
                    li { (sample(series.colour, series.stroke)) span { (series.name) } }
                }
                @if let Some((value, name)) = &self.level {
                    li {
                        svg.sample viewBox="0 0 28 10" aria-hidden="true" { line.level x1="0" x2="28" y1="5" y2="5" {} }
                        (name) " " (self.unit.text(*value))
                    }
                }
            }
        }
    }

    /// The points for the script that shows values: `name|left,top,x,text;...`, a series a line. JSON would be larger,
    /// for each of its quotes has to be escaped.
    fn hover(&self, frame: &Frame) -> String {
        let mut text = String::new();
        for series in &self.series {
            if !text.is_empty() {
                text.push('\n');
            }
            // The script ends a name at the first bar, and a series at the end of the line.
            text.push_str(&series.name.replace(['|', '\n'], " "));
            text.push('|');
            for &(x, y) in series.points.iter().filter(|(_, y)| y.is_finite()) {
                // Writing to a String cannot fail.
                let _ = write!(
                    text,
                    "{},{},{x},{};",
                    coordinate(frame.left(x)),
                    coordinate(frame.top(y)),
                    self.unit.text(y)
                );
            }
        }
        text
    }

    /// The chart in words, for those who do not see it.
    fn summary(&self) -> String {
        let mut text = self.title.to_owned();
        for series in &self.series {
            let finite = || series.points.iter().filter(|(_, y)| y.is_finite());
            if let (Some(first), Some(last)) = (finite().next(), finite().next_back()) {
                let (along, name) = (self.along, &series.name);
                let (from, to) = (self.unit.text(first.1), self.unit.text(last.1));
                let _ = write!(text, "; {name}: {from} at {along} {}, {to} at {along} {}", first.0, last.0);
            }
        }
        if let Some((value, name)) = &self.level {
            let _ = write!(text, "; {name}: {}", self.unit.text(*value));
        }
        text
    }

    /// What has to be said of the drawing; `edge` is where the axis ends, if that is below some of the values.
    fn notes(&self, edge: Option<f64>) -> Vec<String> {
        let mut notes = Vec::new();
        let highest = self.values().filter(|value| value.is_finite()).fold(0.0, f64::max);
        if let Some(edge) = edge.filter(|edge| highest > *edge) {
            notes.push(format!(
                "Values above {} are drawn at the upper edge; the highest is {}.",
                self.unit.text(edge),
                self.unit.text(highest)
            ));
        }
        let mut strange: Vec<f64> = self.series.iter().flat_map(not_finite).map(|point| point.0).collect();
        strange.sort_by(f64::total_cmp);
        strange.dedup();
        if let Some(first) = strange.first() {
            let last = strange.last().filter(|last| *last > first);
            let until = last.map(|last| format!(" and up to {last}")).unwrap_or_default();
            notes.push(format!("Not a finite number at {} {first}{until} (marked ×).", self.along));
        }
        notes
    }
}

/// Space around the plot for the labels.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 38.0;

/// The plot with its axes, in the units of the view box.
struct Frame {
    width: f64,
    height: f64,
    x: Axis,
    y: Axis,
}

impl Frame {
    fn left(&self, x: f64) -> f64 {
        LEFT + self.x.place(x) * (self.width - LEFT - RIGHT)
    }

    fn top(&self, y: f64) -> f64 {
        self.height - BOTTOM - self.y.place(y) * (self.height - TOP - BOTTOM)
    }
}

fn not_finite(series: &Series) -> impl Iterator<Item = &Point> {
    series.points.iter().filter(|point| !point.1.is_finite())
}

/// One digit behind the point is finer than any screen.
fn coordinate(value: f64) -> String {
    format!("{value:.1}")
}

fn draw(frame: &Frame, series: &Series) -> Markup {
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
    // A line through one point cannot be seen.
    let alone = || {
        html! {
            @if series.points.len() == 1 {
                @for (x, y) in places() { circle.dot cx=(coordinate(x)) cy=(coordinate(y)) r="4" {} }
            }
        }
    };
    html! {
        g class={ (series.colour) } {
            @match series.stroke {
                Stroke::Faint => path.faint d=(path) {},
                Stroke::Line => {
                    path.line d=(path) {}
                    (alone())
                }
                Stroke::Pattern(pattern) => {
                    path class={ "line pattern" (pattern) } d=(path) {}
                    (alone())
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
fn mark(frame: &Frame, x: f64, name: &str) -> Markup {
    let left = frame.left(x);
    let (place, anchor) = if left > frame.width / 2.0 { (left - 5.0, "end") } else { (left + 5.0, "start") };
    html! {
        line.mark x1=(coordinate(left)) x2=(coordinate(left)) y1=(TOP) y2=(frame.height - BOTTOM) {}
        text.tick x=(coordinate(place)) y=(TOP - 4.0) text-anchor=(anchor) { (name) }
    }
}

/// A short piece of a series for a legend.
pub(crate) fn sample(colour: &str, stroke: Stroke) -> Markup {
    html! {
        svg.sample viewBox="0 0 28 10" aria-hidden="true" {
            g class=(colour) {
                @match stroke {
                    Stroke::Faint => path.faint d="M1 8L7 2L13 8L20 3L27 6" {},
                    Stroke::Line => path.line d="M1 5H27" {},
                    Stroke::Pattern(pattern) => path class={ "line pattern" (pattern) } d="M1 5H27" {},
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<Point>) -> Chart {
        Chart {
            title: "Loss",
            along: "step",
            unit: Unit::Plain,
            series: vec![Series { name: "training".into(), colour: "first", stroke: Stroke::Line, points }],
            level: None,
            marks: Vec::new(),
            small: false,
        }
    }

    #[test]
    fn no_curve_breaks_the_drawing() {
        let cases: [Vec<Point>; 5] = [
            vec![],
            vec![(1.0, 0.7)],
            vec![(1.0, f64::NAN)],
            vec![(1.0, 0.0), (2.0, 0.0)],
            vec![(1.0, 1.0), (2.0, f64::INFINITY), (3.0, f64::NAN), (4.0, 2.0)],
        ];
        for points in cases {
            let svg = chart(points.clone()).figure().into_string();
            let path = svg.split("class=\"line\" d=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
            assert!(!path.contains("NaN") && !path.contains("inf"), "{points:?}: {path}");
            assert!(svg.contains("aria-label"));
        }
    }

    #[test]
    fn a_loss_that_is_not_finite_is_marked_and_told() {
        let svg = chart(vec![(1.0, 1.0), (2.0, f64::NAN), (3.0, 1.0)]).figure().into_string();
        assert!(svg.contains("Not a finite number at step 2"), "{svg}");
        assert!(svg.contains("class=\"cross\""), "{svg}");
    }

    #[test]
    fn a_name_cannot_pass_for_points() {
        let mut chart = chart(vec![(1.0, 1.0)]);
        chart.series[0].name = "a|9,9,9,9;\n<b>".into();
        let svg = chart.figure().into_string();
        let points = svg.split("data-points=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert!(points.starts_with("a 9,9,9,9; &lt;b&gt;|") && points.lines().count() == 1, "{points}");
    }

    #[test]
    fn one_outlier_does_not_flatten_the_rest() {
        let mut points: Vec<Point> = (1..100).map(|x| (f64::from(x), 1.0 + 0.01 * f64::from(x))).collect();
        points[3].1 = 1e6;
        let chart = chart(points);
        let edge = chart.frame(chart.limit()).y.high;
        assert!(edge < 10.0);
        let svg = chart.figure().into_string();
        // The axis ends on a round number above the limit, and that is where values are cut.
        assert!(svg.contains(&format!("Values above {edge} are drawn")), "{svg}");
        assert_eq!(chart.frame(chart.limit()).y.ticks.last(), Some(&edge));
        assert!(svg.contains("the highest is 1e6"), "{svg}");
    }
}
