//! What a dashboard shows, and what it does to a terminal.
#![allow(clippy::unwrap_used)]

mod events;
mod pictures;
mod screen;
