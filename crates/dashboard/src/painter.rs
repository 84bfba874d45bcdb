//! The thread that draws.
//!
//! A run does not wait for its terminal: one that is slow, or stopped with Ctrl-S, holds up pictures and no step. And a step
//! may take a minute, in which a window is resized.

use std::io::ErrorKind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ratatui::Terminal;

use crate::backend::TerminalBackend;
use crate::dashboard::Dashboard;

/// The least time between two pictures.
pub(crate) const EVERY: Duration = Duration::from_millis(100);
/// The most: the terminal may have another size meanwhile.
const AT_LEAST_EVERY: Duration = Duration::from_millis(500);
/// Time between two pictures that are drawn whole, over keys that were echoed and whatever else was written meanwhile.
const WHOLE_EVERY: Duration = Duration::from_secs(1);

/// A dashboard between those who know of the run and the one who draws it.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    dashboard: Dashboard,
    /// Whether it is not what was drawn last.
    changed: bool,
    closing: bool,
}

impl Shared {
    pub(crate) fn new(dashboard: Dashboard) -> Self {
        Self { state: Mutex::new(State { dashboard, changed: true, closing: false }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A dashboard is plain values: what a thread left behind that panicked can be drawn.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the dashboard, and has it drawn.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Dashboard)) {
        let mut state = self.state();
        change(&mut state.dashboard);
        state.changed = true;
        drop(state);
        self.changed.notify_all();
    }

    /// The dashboard to be drawn. It is a copy, so that the run does not wait while it is drawn.
    fn newest(&self) -> Dashboard {
        let mut state = self.state();
        state.changed = false;
        state.dashboard.clone()
    }

    /// Lets the painter end.
    pub(crate) fn close(&self) {
        self.state().closing = true;
        self.changed.notify_all();
    }

    /// Waits for so long, or until the painter is to end or, if asked for, the dashboard has changed; says whether to go on.
    fn wait(&self, time: Duration, for_change: bool) -> bool {
        let idle = |state: &mut State| !(state.closing || for_change && state.changed);
        let waited = self.changed.wait_timeout_while(self.state(), time, idle);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.closing
    }
}

/// Draws until it is to end, or until the terminal takes nothing more.
pub(crate) fn paint(shared: &Shared, mut terminal: Terminal<TerminalBackend>) {
    let mut whole: Option<Instant> = None;
    while shared.wait(AT_LEAST_EVERY, true) {
        if whole.is_none_or(|whole| whole.elapsed() >= WHOLE_EVERY) {
            // This clears what is kept to be drawn on, and the terminal within the same picture.
            if terminal.clear().is_err() {
                return;
            }
            whole = Some(Instant::now());
        }
        let dashboard = shared.newest();
        let drawn = terminal.draw(|frame| dashboard.draw(frame));
        match drawn.map(drop) {
            Ok(()) => {}
            // The terminal is behind, and part of this picture is lost.
            Err(error) if error.kind() == ErrorKind::WouldBlock => whole = None,
            Err(_) => return,
        }
        if !shared.wait(EVERY, false) {
            return;
        }
    }
}
