//! The newest numbers, in a grid whose cells do not move when a number gets longer.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};

use super::count;
use crate::dashboard::Dashboard;

/// Columns of a cell, and of what is in it.
const CELL: u16 = 20;
const INSIDE: u16 = CELL - 1;

/// Names and values, some a row.
pub(super) struct Grid {
    pairs: Vec<(&'static str, String)>,
    /// Cells side by side.
    across: u16,
}

impl Grid {
    pub(super) fn new(dashboard: &Dashboard, width: u16) -> Self {
        // The last cell of a row needs no gap behind it.
        Self { pairs: dashboard.latest.pairs(), across: (width.saturating_add(1) / CELL).max(1) }
    }

    /// Rows it takes.
    pub(super) fn rows(&self) -> u16 {
        count(self.pairs.len()).div_ceil(self.across)
    }

    pub(super) fn draw(self, area: Rect, frame: &mut Frame<'_>) {
        for (place, (name, value)) in (0..).zip(self.pairs) {
            let (row, column): (u16, u16) = (place / self.across, place % self.across * CELL);
            let cell = Rect { x: area.x + column, y: area.y + row, width: INSIDE, height: 1 }.intersection(area);
            if row < area.height {
                let line = Line::from(vec![Span::raw(name), Span::raw(" "), Span::raw(value).bold()]);
                frame.render_widget(line, cell);
            }
        }
    }
}
