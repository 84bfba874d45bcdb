//! One line of a terminal that is written over and over.

use std::io;
use std::time::{Duration, Instant};

use terminal_size::{Width, terminal_size_of};

use crate::output::{draw, note};

/// Between two pictures of the line.
const EVERY: Duration = Duration::from_millis(100);
/// The most cells of the bar, and the fewest: it gives way to words.
const CELLS: usize = 24;
const FEWEST: usize = 6;

/// A line at the bottom of the terminal: a bar, and words behind it.
///
/// The cursor rests at its beginning. Whatever became of the line when the terminal was made narrower, broken in two or cut off,
/// lies behind the cursor then, and is cleared with the next picture.
pub(super) struct Line {
    drawn: Option<Instant>,
    shown: bool,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { drawn: None, shown: false }
    }

    /// Shows how much is done, unless the line has just been written.
    pub(super) fn show(&mut self, done: u64, total: u64, words: &str) {
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < EVERY) {
            return;
        }
        self.drawn = Some(Instant::now());
        self.shown = true;
        draw(&format!("\r\x1b[J{}\r", picture(done, total, words, width())));
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            draw("\r\x1b[J");
        }
        self.drawn = None;
    }

    /// Says a sentence above the line.
    pub(super) fn say(&mut self, sentence: &str) {
        self.clear();
        note!("{sentence}");
    }
}

fn width() -> usize {
    terminal_size_of(io::stderr()).map_or(80, |(Width(columns), _)| usize::from(columns))
}

/// The line, one cell shorter than the terminal, for a line that fills it may be broken.
fn picture(done: u64, total: u64, words: &str, width: usize) -> String {
    let words = format!("{done}/{total} {words}");
    let room = width.saturating_sub(1);
    let cells = room.saturating_sub(words.chars().count() + 1).min(CELLS);
    if cells < FEWEST {
        return words.chars().take(room).collect();
    }
    let full = (cells as u64 * done.min(total) / total.max(1)) as usize;
    format!("{}{} {words}", "█".repeat(full), "░".repeat(cells - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_never_as_wide_as_the_terminal() {
        let words = "steps · epoch 3 · loss 0.412 · 55.2 images/s · peak 340 MiB · 2 min 5 s left";
        for width in [0, 1, 20, 69, 70, 80, 200] {
            assert!(picture(12, 60, words, width).chars().count() < width.max(1), "{width}");
        }
        assert!(picture(12, 60, words, 200).ends_with("left"));
        assert!(
            picture(12, 60, words, 86).ends_with("left") && !picture(12, 60, words, 86).contains('░'),
            "words come first"
        );
        assert_eq!(picture(60, 60, "", 200).matches('█').count(), CELLS);
        assert_eq!(picture(0, 0, "", 200).matches('█').count(), 0);
    }
}
