//! A bar for what takes a while before a command can say more.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on a terminal, nothing elsewhere.
pub(crate) fn progress_bar(total: usize, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total as u64);
    if let Ok(style) = ProgressStyle::with_template(&format!(
        "{{bar:30.cyan/dim}} {{pos}}/{{len}} {what} · {{per_sec}} · {{eta}} left"
    )) {
        bar.set_style(style);
    }
    bar
}
