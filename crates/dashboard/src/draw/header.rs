//! What is trained, on what.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::text::flow;
use crate::dashboard::Dashboard;

/// Lines for what a run was started with.
const MOST: usize = 3;

/// The title, and what the run was started with.
pub(super) fn lines(dashboard: &Dashboard, width: u16) -> Vec<Line<'static>> {
    let facts = dashboard.facts.iter().map(|facts| facts.words(dashboard.micro_batch));
    let facts = facts.flat_map(|facts| flow(&facts, usize::from(width))).take(MOST);
    std::iter::once(Line::from(dashboard.title.clone()).bold()).chain(facts.map(Line::from)).collect()
}

pub(super) fn draw(lines: Vec<Line<'static>>, area: Rect, frame: &mut Frame<'_>) {
    frame.render_widget(Paragraph::new(lines), area);
}
