//! Points in a plane with axes of their own, and straight lines to compare them with.

use maud::{Markup, html};

use super::axis::Axis;

/// The plot in the units of its view box.
const SIDE: f64 = 260.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 14.0;
const BOTTOM: f64 = 42.0;
/// About so many ticks on an axis.
const TICKS: usize = 4;
/// A label stands so far above its line.
const ABOVE: f64 = 4.0;

/// A straight line, with what it is.
pub(crate) enum Guide {
    /// Where both coordinates are equal.
    Identity,
    /// A height, with its name, and where it is known the 95 % interval that is drawn around it.
    Height(f64, String, Option<(f64, f64)>),
}

/// A plot of points.
pub(crate) struct Plane<'a> {
    pub(crate) title: &'a str,
    pub(crate) note: String,
    pub(crate) along: &'static str,
    pub(crate) up: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) guides: Vec<Guide>,
}

impl Plane<'_> {
    pub(crate) fn figure(&self) -> Markup {
        let (width, height) = (LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM);
        let (x, y) = self.axes();
        html! {
            figure.chart.square.plane {
                figcaption { h3 { (self.title) } span.note { (self.note) } }
                svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label={ (self.title) "; " (self.note) } {
                    @for tick in &y.ticks {
                        line.grid x1=(LEFT) x2=(LEFT + SIDE) y1=(top(&y, *tick)) y2=(top(&y, *tick)) {}
                        text.tick x=(LEFT - 6.0) y=(top(&y, *tick)) dy="4" text-anchor="end" { (y.label(*tick)) }
                    }
                    @for tick in &x.ticks {
                        line.grid y1=(TOP) y2=(TOP + SIDE) x1=(left(&x, *tick)) x2=(left(&x, *tick)) {}
                        text.tick x=(left(&x, *tick)) y=(TOP + SIDE + 16.0) text-anchor="middle" { (x.label(*tick)) }
                    }
                    text.tick x=(LEFT + SIDE / 2.0) y=(height - 6.0) text-anchor="middle" { (self.along) }
                    text.tick x="11" y=(TOP + SIDE / 2.0) text-anchor="middle"
                        transform={ "rotate(-90 11 " (TOP + SIDE / 2.0) ")" } { (self.up) }
                    g.second { @for guide in &self.guides { (band(guide, &y)) } }
                    g.first {
                        @for (at, height) in &self.points {
                            circle.point cx=(left(&x, *at)) cy=(top(&y, *height)) r="3" {}
                        }
                    }
                    @for guide in &self.guides { (line(guide, &x, &y)) }
                }
            }
        }
    }

    /// Around the points and the heights; of an identity both are alike, so that it is the diagonal.
    fn axes(&self) -> (Axis, Axis) {
        let heights = self.guides.iter().flat_map(|guide| match guide {
            Guide::Height(height, _, range) => {
                let (low, high) = range.unwrap_or((*height, *height));
                vec![*height, low, high]
            }
            Guide::Identity => Vec::new(),
        });
        let (along, up) = (self.points.iter().map(|point| point.0), self.points.iter().map(|point| point.1));
        if self.guides.iter().any(|guide| matches!(guide, Guide::Identity)) {
            let both = Axis::around(along.chain(up), TICKS);
            return (both.clone(), both);
        }
        (Axis::around(along, TICKS), Axis::around(up.chain(heights), TICKS))
    }
}

/// The interval around a height.
fn band(guide: &Guide, y: &Axis) -> Markup {
    html! {
        @if let Guide::Height(_, _, Some((low, high))) = guide {
            rect.band x=(LEFT) width=(SIDE) y=(top(y, *high)) height=(format!("{:.1}", (y.place(*high) - y.place(*low)) * SIDE)) {}
        }
    }
}

fn line(guide: &Guide, x: &Axis, y: &Axis) -> Markup {
    match guide {
        Guide::Identity => html! {
            line.level x1=(left(x, x.low)) y1=(top(y, x.low)) x2=(left(x, x.high)) y2=(top(y, x.high)) {}
        },
        Guide::Height(height, name, _) => html! {
            line.level x1=(LEFT) x2=(LEFT + SIDE) y1=(top(y, *height)) y2=(top(y, *height)) {}
            text.tick.named x=(LEFT + SIDE - 2.0) y=(top(y, *height)) dy=(-ABOVE) text-anchor="end" { (name) }
        },
    }
}

fn left(axis: &Axis, value: f64) -> String {
    format!("{:.1}", LEFT + axis.place(value) * SIDE)
}

fn top(axis: &Axis, value: f64) -> String {
    format!("{:.1}", TOP + (1.0 - axis.place(value)) * SIDE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_the_diagonal_whatever_the_points_are() {
        let plane = Plane {
            title: "t",
            note: String::new(),
            along: "a",
            up: "b",
            points: vec![(10.0, 70.0), (40.0, 20.0)],
            guides: vec![Guide::Identity],
        };
        let html = plane.figure().into_string();
        assert!(html.contains(r#"x1="52.0" y1="272.0" x2="312.0" y2="12.0""#), "{html}");
        assert_eq!(html.matches("<circle").count(), 2);
    }

    #[test]
    fn a_height_beyond_all_points_is_in_the_plot_with_its_interval() {
        let plane = Plane {
            title: "t",
            note: String::new(),
            along: "a",
            up: "b",
            points: vec![(0.0, 0.0), (1.0, 1.0)],
            guides: vec![Guide::Height(4.0, "limit".into(), Some((3.0, 5.0)))],
        };
        let (_, y) = plane.axes();
        assert!(y.low <= 0.0 && y.high >= 5.0, "{y:?}");
        assert!(plane.figure().into_string().contains("<rect class=\"band\""));
    }
}
