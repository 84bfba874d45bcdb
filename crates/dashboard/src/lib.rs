//! A run on a terminal: how far it is, its curves, its numbers and what it said last.
//!
//! A [`Dashboard`] is what is known of a run. It learns from [events](kindling_runs::Event) alone, so it shows a run that goes on as
//! well as one that is read from its `events.jsonl`, and it draws itself into any frame of `ratatui`. A [`Screen`] is a
//! terminal that shows a dashboard until it is dropped.
//!
//! | file | holds |
//! |---|---|
//! | `dashboard.rs` | what is known of a run |
//! | `facts.rs`, `latest.rs`, `series.rs`, `messages.rs` | its parts: what was started, the newest numbers, curves, sentences |
//! | `pace.rs` | how long a run still takes |
//! | `words.rs`, `numbers.rs` | events and numbers as people read them |
//! | `draw.rs`, `draw/` | the picture |
//! | `screen.rs`, `painter.rs` | a terminal, and the thread that draws on it |
//! | `open.rs` | lines for the screen that is open, from whoever has one, and its end without `Drop` |
//! | `outlet.rs`, `backend.rs` | bytes for the terminal |
//!
//! # Why not Burn's own
//! Burn has a renderer of this kind in `burn-train`. It is fed by that crate's `Learner`, which Kindling does not use, and it brings
//! data sets, metrics and all of `burn-core` with it. This crate knows no tensor and builds in seconds.
//!
//! # What it does with the terminal
//! The picture lies on the alternate screen, so that what stood on the terminal is there again afterwards. There is no raw mode and
//! no keyboard: Ctrl-C stays the signal that it is without a dashboard, and keys that are typed are echoed until the next whole
//! picture, a second later at most. What cannot be written is dropped: a terminal that is closed does not end a run.

mod backend;
mod dashboard;
mod draw;
mod facts;
mod latest;
mod messages;
mod numbers;
mod open;
mod outlet;
mod pace;
mod painter;
mod screen;
mod series;
mod words;

pub use backend::LEAVE;
pub use dashboard::Dashboard;
pub use open::{give_back, is_open, tell};
pub use pace::{Pace, in_words};
pub use screen::Screen;
pub use words::sentence;
