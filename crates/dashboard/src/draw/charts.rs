//! Curves.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Borders, Chart, Dataset, GraphType, Paragraph};

use crate::dashboard::Curves;
use crate::numbers::{overlap, percent, short};
use crate::series::Point;

/// Between two charts.
const GAP: u16 = 2;

/// Two charts side by side.
pub(super) fn draw(curves: &Curves, area: Rect, frame: &mut Frame<'_>) {
    if area.height == 0 {
        return;
    }
    let width = area.width.saturating_sub(GAP) / 2;
    let left = Rect { width, ..area };
    let right = Rect { x: area.x + width + GAP, width: area.width.saturating_sub(width + GAP), ..area };
    match curves {
        Curves::Classifier { training, validation, accuracy, dice, mae } => {
            let title = "training loss, validation •";
            Picture { title, line: training.points(), dots: validation.points(), value: short }.draw(left, frame);
            // Most pixels are background, so accuracy says little where there is Dice.
            match (dice.points(), mae.points()) {
                ([], []) => {
                    score("validation accuracy", accuracy.points(), f64::max, |share| percent(share, 1), right, frame);
                }
                ([], mae) => score("validation MAE", mae, f64::min, short, right, frame),
                (dice, _) => score("validation Dice", dice, f64::max, overlap, right, frame),
            }
        }
        Curves::Gan { discriminator, generator } => {
            let (d, g) = (discriminator.points(), generator.points());
            Picture { title: "discriminator loss (D)", line: d, dots: &[], value: short }.draw(left, frame);
            Picture { title: "generator loss (G)", line: g, dots: &[], value: short }.draw(right, frame);
        }
    }
}

/// A chart of a score, with its best value, the better of any two, in the title.
fn score(
    name: &str,
    points: &[Point],
    better: fn(f64, f64) -> f64,
    value: fn(f64) -> String,
    area: Rect,
    frame: &mut Frame<'_>,
) {
    let title = match points.iter().map(|point| point.1).reduce(better) {
        Some(best) => format!("{name}, best {}", value(best)),
        None => name.into(),
    };
    Picture { title: &title, line: points, dots: points, value }.draw(area, frame);
}

/// A chart: a line, and dots over it. They differ in shape, whatever colours a terminal has.
struct Picture<'a> {
    title: &'a str,
    line: &'a [Point],
    dots: &'a [Point],
    /// How a height is written.
    value: fn(f64) -> String,
}

impl Picture<'_> {
    fn draw(&self, area: Rect, frame: &mut Frame<'_>) {
        let block = Block::new().borders(Borders::TOP).title(format!("{} ", self.title));
        let Some((across, up)) = self.bounds() else {
            frame.render_widget(Paragraph::new(Line::from("nothing to draw yet")).block(block), area);
            return;
        };
        // A line without a colour has the terminal's own, which is readable on whatever lies behind it.
        let line = Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).data(self.line);
        let style = Style::new().fg(Color::Magenta);
        let dots = Dataset::default().marker(Marker::Dot).graph_type(GraphType::Scatter).style(style).data(self.dots);
        let x = Axis::default().bounds(across).labels(across.map(|step| format!("{step:.0}")));
        let heights = [up[0], (up[0] + up[1]) / 2.0, up[1]];
        let y = Axis::default().bounds(up).labels(heights.map(self.value));
        frame.render_widget(Chart::new(vec![line, dots]).block(block).x_axis(x).y_axis(y).legend_position(None), area);
    }

    /// From where to where the axes go, across and up; `None` if there is nothing to draw.
    fn bounds(&self) -> Option<([f64; 2], [f64; 2])> {
        let points = || self.line.iter().chain(self.dots);
        let first = points().map(|point| point.0).reduce(f64::min)?;
        let last = points().map(|point| point.0).reduce(f64::max)?;
        let mut heights: Vec<f64> = points().map(|point| point.1).collect();
        heights.sort_by(f64::total_cmp);
        let (low, high) = (*heights.first()?, usual(&heights)?);
        // A flat line lies in the middle.
        let room = if high > low { (high - low) * 0.05 } else { low.abs().max(1.0) * 0.05 };
        let up = [low - room, high + room];
        (up[1] - up[0]).is_finite().then_some(([first, last.max(first + 1.0)], up))
    }
}

/// The highest of these heights, in ascending order; where a few would flatten all others, a height that all others keep below.
fn usual(heights: &[f64]) -> Option<f64> {
    let highest = *heights.last()?;
    let most = *heights.get(heights.len() * 19 / 20)?;
    Some(if heights.len() >= 20 && most > 0.0 && highest > 4.0 * most { 1.5 * most } else { highest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(line: &[Point]) -> Option<([f64; 2], [f64; 2])> {
        Picture { title: "", line, dots: &[], value: short }.bounds()
    }

    #[test]
    fn axes_hold_all_points_but_a_few_that_would_flatten_the_rest() {
        assert_eq!(bounds(&[]), None);
        assert_eq!(bounds(&[(3.0, 2.0)]), Some(([3.0, 4.0], [1.9, 2.1])));
        assert_eq!(bounds(&[(1.0, 0.0), (5.0, 100.0)]), Some(([1.0, 5.0], [-5.0, 105.0])));
        let mut points: Vec<Point> = (0..100).map(|step| (f64::from(step), 1.0 + f64::from(step % 2))).collect();
        points[0].1 = 1e6;
        let (_, up) = bounds(&points).unwrap();
        assert!(up[1] < 4.0, "{up:?}");
        assert_eq!(bounds(&[(1.0, f64::MIN), (2.0, f64::MAX)]), None, "no axis is that long");
    }
}
