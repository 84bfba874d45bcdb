//! The picture of a dashboard.

mod charts;
mod header;
mod messages;
mod numbers;
mod progress;
mod text;

use ratatui::Frame;
use ratatui::layout::Rect;

use crate::dashboard::Dashboard;

/// Charts are drawn from this width on, and from this height of theirs and the messages' together, of which they take two thirds.
const CHART_COLUMNS: u16 = 50;
const CHART_AND_MESSAGE_ROWS: u16 = 12;

impl Dashboard {
    /// Draws all of it, as far as there is room.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let header = header::lines(self, area.width);
        let grid = numbers::Grid::new(self, area.width);
        let rows = Rows::of(area.height, area.width >= CHART_COLUMNS, count(header.len()), grid.rows());
        let mut below = area.y;
        let mut next = |height: u16| {
            let row = Rect { y: below, height, ..area };
            below += height;
            row
        };
        header::draw(header, next(rows.header), frame);
        progress::draw(self, next(rows.progress), frame);
        charts::draw(&self.curves, next(rows.charts), frame);
        grid.draw(next(rows.numbers), frame);
        messages::draw(&self.messages, next(rows.messages), frame);
    }
}

/// A number of lines as a height.
fn count(lines: usize) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// Rows of each part, from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows {
    header: u16,
    progress: u16,
    charts: u16,
    numbers: u16,
    messages: u16,
}

impl Rows {
    /// Shares a height: where it is short, charts go first, then messages, the header, numbers, and last how far the run is.
    fn of(height: u16, wide: bool, header: u16, numbers: u16) -> Self {
        let mut left = height;
        let mut take = |wanted: u16| {
            let taken = wanted.min(left);
            left -= taken;
            taken
        };
        let progress = take(if height < 4 { 1 } else { 2 });
        let numbers = take(numbers);
        // What does not change is not worth more than this of a low screen.
        let header = take(header.min((height / 5).max(1)));
        let charts = match left {
            CHART_AND_MESSAGE_ROWS.. if wide => left - left / 3,
            _ => 0,
        };
        Self { header, progress, charts, numbers, messages: left - charts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_go_first_then_messages_then_the_header_then_numbers() {
        let rows = |height, wide| {
            let Rows { header, progress, charts, numbers, messages } = Rows::of(height, wide, 3, 2);
            [header, progress, charts, numbers, messages]
        };
        assert_eq!(rows(24, true), [3, 2, 12, 2, 5]);
        assert_eq!(rows(24, false), [3, 2, 0, 2, 17]);
        assert_eq!(rows(19, true), [3, 2, 8, 2, 4]);
        assert_eq!(rows(18, true), [3, 2, 0, 2, 11]);
        assert_eq!(rows(10, true), [2, 2, 0, 2, 4]);
        assert_eq!(rows(7, true), [1, 2, 0, 2, 2]);
        assert_eq!(rows(5, true), [1, 2, 0, 2, 0]);
        assert_eq!(rows(4, true), [0, 2, 0, 2, 0]);
        assert_eq!(rows(2, true), [0, 1, 0, 1, 0]);
        assert_eq!(rows(1, true), [0, 1, 0, 0, 0]);
        assert_eq!(rows(0, true), [0, 0, 0, 0, 0]);
        for height in 0..=u16::MAX {
            assert_eq!(rows(height, true).iter().sum::<u16>(), height);
        }
    }
}
