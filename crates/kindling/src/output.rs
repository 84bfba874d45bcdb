//! The only place that writes to the terminal.
//!
//! Whoever watches a run may go away: a terminal is closed, `| head` has seen enough, a disk that a log goes to is full.
//! What is told to them ([`note!`], [`result`]) is dropped then, and the run goes on. What a command is for ([`out!`],
//! [`product`]) is not dropped silently: [`finish`] says whether all of it was written.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

use kindling_runs::Table;

/// The first failure of standard output, after which nothing more is written to it.
static FAILED: Mutex<Option<(ErrorKind, String)>> = Mutex::new(None);

/// Tells whoever watches, a line on standard error.
macro_rules! note {
    ($($text:tt)*) => { $crate::output::tell(format_args!($($text)*)) };
}

/// A line of what a command is for, on standard output.
macro_rules! out {
    () => { $crate::output::line(format_args!("")) };
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

pub(crate) use {note, out};

/// See [`note!`]. What cannot be written is dropped. A dashboard on the terminal takes it among its messages.
pub(crate) fn tell(text: impl Display) {
    let text = text.to_string();
    if kindling_dashboard::tell(&text) {
        return;
    }
    // In one piece, so that threads do not write into each other's lines.
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

/// Text for whoever watches, as it stands: what moves a terminal's cursor. What cannot be written is dropped.
pub(crate) fn draw(text: &str) {
    let mut terminal = io::stderr().lock();
    let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
}

/// The line with which a run ends, on standard output. What the run is for lies in its folder, so what cannot be written is
/// dropped.
pub(crate) fn result(text: impl Display) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(format!("{text}\n").as_bytes()).and_then(|()| stdout.flush());
}

/// See [`out!`].
pub(crate) fn line(text: impl Display) {
    text_of_product(&format!("{text}\n"));
}

/// Text of what a command is for, on standard output, as it stands.
pub(crate) fn text_of_product(text: &str) {
    // `finish` says what became of it.
    let _ = product().write_all(text.as_bytes());
}

/// A paragraph of what a command is for, in lines that a terminal has room for.
pub(crate) fn paragraph(text: &str) {
    let mut lines = Table::new(&["<"]);
    lines.row([text]);
    text_of_product(&lines.to_string());
}

/// Standard output for what a command is for.
pub(crate) fn product() -> impl Write {
    Product
}

struct Product;

impl Write for Product {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        told(|| io::stdout().lock().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        told(|| io::stdout().lock().flush())
    }
}

/// Does something with standard output unless it has failed, and remembers if it fails.
fn told<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((kind, _)) = *failed {
        return Err(kind.into());
    }
    write().inspect_err(|error| {
        if error.kind() != ErrorKind::Interrupted {
            *failed = Some((error.kind(), error.to_string()));
        }
    })
}

/// Hands over what standard output holds back, for those who have written to it by themselves.
///
/// # Errors
/// What the operating system says.
pub(crate) fn flush() -> io::Result<()> {
    product().flush()
}

/// What became of standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// All of it was written.
    Complete,
    /// Whoever read it has gone: it had enough.
    Unwanted,
    /// It could not be written; what the operating system said.
    Failed(String),
}

/// Writes what is still held back, and says what became of everything.
pub(crate) fn finish() -> Delivery {
    let _ = product().flush();
    match FAILED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        None => Delivery::Complete,
        Some((ErrorKind::BrokenPipe, _)) => Delivery::Unwanted,
        Some((_, reason)) => Delivery::Failed(reason),
    }
}
