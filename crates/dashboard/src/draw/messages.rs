//! The last sentences, newest at the bottom.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph};

use super::text::wrap;
use crate::messages::{Message, Messages};

/// What stands before a sentence, and before one that a person should look at; also without colours.
const PLAIN: &str = "· ";
const TROUBLE: &str = "! ";
const MARK: usize = 2;

/// Rows from which on there is a title.
const TITLED: u16 = 3;

pub(super) fn draw(messages: &Messages, area: Rect, frame: &mut Frame<'_>) {
    let block = match area.height {
        TITLED.. => Block::new().borders(Borders::TOP).title("messages "),
        _ => Block::new(),
    };
    let inside = block.inner(area);
    frame.render_widget(block, area);
    frame.render_widget(Paragraph::new(newest(messages, inside)), inside);
}

/// As many of the newest lines as there are rows. Of a sentence that is longer than all of them the beginning is shown.
fn newest(messages: &Messages, area: Rect) -> Vec<Line<'static>> {
    let mut free = usize::from(area.height);
    let mut lines: Vec<Line<'static>> = Vec::new();
    for message in messages.newest_first() {
        if free == 0 {
            break;
        }
        let mut sentence = shown(message, usize::from(area.width));
        match sentence.len().checked_sub(free) {
            Some(over) if lines.is_empty() => sentence.truncate(sentence.len() - over),
            Some(over) => drop(sentence.drain(..over)),
            None => {}
        }
        free -= sentence.len();
        lines.splice(0..0, sentence);
    }
    lines
}

fn shown(message: &Message, width: usize) -> Vec<Line<'static>> {
    let lines = wrap(&message.text, width.saturating_sub(MARK).max(1)).into_iter().enumerate();
    lines
        .map(|(place, line)| match (place, message.trouble) {
            (0, true) => Line::from(format!("{TROUBLE}{line}")).bold(),
            (0, false) => Line::from(format!("{PLAIN}{line}")),
            (_, true) => Line::from(format!("  {line}")).bold(),
            (_, false) => Line::from(format!("  {line}")),
        })
        .collect()
}
