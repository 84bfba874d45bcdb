//! A terminal as `ratatui` draws on it.
//!
//! `ratatui` has a backend on `crossterm` of its own, with three properties that do not suit a program that only watches. It asks
//! for the size of whatever standard output is, and starts `tput` where that is no terminal. To clear the screen it asks for the
//! cursor's place, and reads the answer from the keyboard. And it brings `crossterm`'s event loop, with a second version of
//! `signal-hook`. This one writes with `crossterm`'s sequences, and reads nothing.

use std::io;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::queue;
use crossterm::style::{Attribute, Color as Paint, Print, SetAttribute, SetBackgroundColor, SetForegroundColor};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType as Kind, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen,
};
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};

use crate::outlet::Outlet;

/// What gives a terminal back, as it is written: the last picture ends, and colours, the screen that was there before and the
/// cursor return. For handlers of signals, which may write bytes and little else; everyone else drops the
/// [`Screen`](crate::Screen) or calls [`give_back`](crate::give_back).
pub const LEAVE: &str = "\x1b[?2026l\x1b[0m\x1b[?1049l\x1b[?25h";

/// The largest picture, in columns and rows: a terminal may claim any size, and each cell takes memory.
const LARGEST: Size = Size { width: 1000, height: 500 };
/// The size of a terminal that does not tell its own.
const USUAL: Size = Size { width: 80, height: 24 };

/// How a terminal's size is asked for.
pub(crate) type AskSize = Box<dyn Fn() -> Option<Size> + Send>;

/// Writes a picture as one piece, and nothing where nothing has changed.
pub(crate) struct TerminalBackend {
    outlet: Outlet,
    size: AskSize,
    /// The picture, as far as it is known.
    picture: Vec<u8>,
    cursor: Position,
}

/// Bytes that take over a terminal.
///
/// # Errors
/// None on a terminal that knows sequences.
pub(crate) fn enter() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    queue!(bytes, EnterAlternateScreen, Hide, Clear(Kind::All))?;
    Ok(bytes)
}

/// Bytes that give it back, whatever came last.
pub(crate) fn leave() -> Vec<u8> {
    let mut bytes = Vec::new();
    match queue!(bytes, EndSynchronizedUpdate, SetAttribute(Attribute::Reset), LeaveAlternateScreen, Show) {
        Ok(()) => bytes,
        Err(_) => LEAVE.into(),
    }
}

impl TerminalBackend {
    pub(crate) fn new(outlet: Outlet, size: AskSize) -> Self {
        Self { outlet, size, picture: Vec::new(), cursor: Position::ORIGIN }
    }
}

impl Backend for TerminalBackend {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let out = &mut self.picture;
        // Where the terminal will write next, and how.
        let mut next = None;
        let mut style = None;
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                queue!(out, MoveTo(x, y))?;
            }
            let wanted = (cell.fg, cell.bg, cell.modifier);
            if style != Some(wanted) {
                queue!(out, SetAttribute(Attribute::Reset))?;
                for (modifier, attribute) in ATTRIBUTES {
                    if cell.modifier.contains(modifier) {
                        queue!(out, SetAttribute(attribute))?;
                    }
                }
                if cell.fg != Color::Reset {
                    queue!(out, SetForegroundColor(paint(cell.fg)))?;
                }
                if cell.bg != Color::Reset {
                    queue!(out, SetBackgroundColor(paint(cell.bg)))?;
                }
                style = Some(wanted);
            }
            queue!(out, Print(cell.symbol()))?;
            // Behind anything wider than a letter the place is set anew, for terminals differ in how wide they draw it.
            next = cell.symbol().is_ascii().then_some((x.saturating_add(1), y));
        }
        if style.is_some() {
            queue!(out, SetAttribute(Attribute::Reset))?;
        }
        Ok(())
    }

    /// Nothing: the cursor is hidden from beginning to end.
    fn hide_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Nothing, too.
    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The place that was set last: asking the terminal would mean to read its answer among keys that were typed.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(self.cursor)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        // Nobody sees it, and each cell is placed anew.
        self.cursor = position.into();
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        queue!(self.picture, Clear(Kind::All))
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        let kind = match region {
            ClearType::All => Kind::All,
            ClearType::AfterCursor => Kind::FromCursorDown,
            ClearType::BeforeCursor => Kind::FromCursorUp,
            ClearType::CurrentLine => Kind::CurrentLine,
            ClearType::UntilNewLine => Kind::UntilNewLine,
        };
        queue!(self.picture, MoveTo(self.cursor.x, self.cursor.y), Clear(kind))
    }

    fn size(&self) -> io::Result<Size> {
        let Size { width, height } = (self.size)().unwrap_or(USUAL);
        Ok(Size { width: width.min(LARGEST.width), height: height.min(LARGEST.height) })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.picture.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(self.picture.len() + 16);
        queue!(bytes, BeginSynchronizedUpdate)?;
        bytes.append(&mut self.picture);
        queue!(bytes, EndSynchronizedUpdate)?;
        self.outlet.write(&bytes)
    }
}

const ATTRIBUTES: [(Modifier, Attribute); 5] = [
    (Modifier::BOLD, Attribute::Bold),
    (Modifier::DIM, Attribute::Dim),
    (Modifier::ITALIC, Attribute::Italic),
    (Modifier::UNDERLINED, Attribute::Underlined),
    (Modifier::REVERSED, Attribute::Reverse),
];

/// `crossterm`'s name of a colour. It calls the eight first ones dark, which `ratatui` does not.
fn paint(color: Color) -> Paint {
    match color {
        Color::Reset => Paint::Reset,
        Color::Black => Paint::Black,
        Color::Red => Paint::DarkRed,
        Color::Green => Paint::DarkGreen,
        Color::Yellow => Paint::DarkYellow,
        Color::Blue => Paint::DarkBlue,
        Color::Magenta => Paint::DarkMagenta,
        Color::Cyan => Paint::DarkCyan,
        Color::Gray => Paint::Grey,
        Color::DarkGray => Paint::DarkGrey,
        Color::LightRed => Paint::Red,
        Color::LightGreen => Paint::Green,
        Color::LightYellow => Paint::Yellow,
        Color::LightBlue => Paint::Blue,
        Color::LightMagenta => Paint::Magenta,
        Color::LightCyan => Paint::Cyan,
        Color::White => Paint::White,
        Color::Indexed(index) => Paint::AnsiValue(index),
        Color::Rgb(r, g, b) => Paint::Rgb { r, g, b },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_handler_of_signals_writes_is_what_crossterm_writes() {
        assert_eq!(leave(), LEAVE.as_bytes());
    }
}
