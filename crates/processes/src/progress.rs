//! Where a process is, for its watchdog: which step ended last, and what it waits for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shared between a group, whose calls say what is waited for, and the watchdog.
#[derive(Debug)]
pub(crate) struct Progress(Mutex<State>);

/// A moment of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// When something last ended that the watchdog waits for.
    pub(crate) since: Instant,
    /// The last step that ended.
    pub(crate) step: Option<u64>,
    /// Collective calls so far, the open one included. Ranks make the same calls, so who has made fewer is behind.
    pub(crate) calls: u64,
    /// What the open call is for.
    pub(crate) waits_for: Option<&'static str>,
    /// Time in collective calls.
    pub(crate) waited: Duration,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let start = State { since: Instant::now(), step: None, calls: 0, waits_for: None, waited: Duration::ZERO };
        Self(Mutex::new(start))
    }

    pub(crate) fn now(&self) -> State {
        *self.state()
    }

    /// Counts from now on.
    pub(crate) fn restart(&self) {
        self.state().since = Instant::now();
    }

    pub(crate) fn beat(&self, step: u64) {
        let mut state = self.state();
        state.since = Instant::now();
        state.step = Some(step);
    }

    /// Runs a collective call.
    pub(crate) fn waiting_for<T>(&self, what: &'static str, call: impl FnOnce() -> T) -> T {
        {
            let mut state = self.state();
            state.calls += 1;
            state.waits_for = Some(what);
        }
        let began = Instant::now();
        let result = call();
        let mut state = self.state();
        state.waited += began.elapsed();
        state.waits_for = None;
        result
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
