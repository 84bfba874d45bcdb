//! Where a process is, for its watchdog: which step ended last, and what it waits for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shared between a group, whose calls say what is waited for, and the watchdog.
#[derive(Debug)]
pub(crate) struct Progress(Mutex<State>);

/// A moment of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// When something last ended that the watchdog waits for: a step, a part of one that has no number, or a collective call, to which all
    /// had come.
    pub(crate) since: Instant,
    /// Whether what follows may take as long as it takes.
    pub(crate) takes_time: bool,
    /// The last step that ended.
    pub(crate) step: Option<u64>,
    /// Collective calls so far, the open one included. Ranks make the same calls, so who has made fewer is behind.
    pub(crate) calls: u64,
    /// What the open call is for.
    pub(crate) waits_for: Option<&'static str>,
    /// Time in collective calls.
    pub(crate) waited: Duration,
}

impl State {
    /// Whether work goes on: something has ended within `timeout`, or what is done takes its time.
    pub(crate) fn works(&self, timeout: Duration) -> bool {
        self.waits_for.is_none() && (self.takes_time || self.since.elapsed() <= timeout)
    }

    /// Whether a watchdog of this `timeout` looks what has become of the others.
    pub(crate) fn is_over(&self, timeout: Duration) -> bool {
        !self.works(timeout) && self.since.elapsed() > timeout
    }
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            since: Instant::now(),
            takes_time: false,
            step: None,
            calls: 0,
            waits_for: None,
            waited: Duration::ZERO,
        }))
    }

    pub(crate) fn now(&self) -> State {
        *self.state()
    }

    /// Counts from now on.
    pub(crate) fn restart(&self) {
        let mut state = self.state();
        state.since = Instant::now();
        state.takes_time = false;
    }

    pub(crate) fn beat(&self, step: u64) {
        self.restart();
        self.state().step = Some(step);
    }

    /// Does not count until something has ended.
    pub(crate) fn take_time(&self) {
        self.state().takes_time = true;
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
        // All had come. What the others took is not this process's silence.
        (state.since, state.takes_time) = (Instant::now(), false);
        result
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_over_where_nothing_ends_and_not_where_work_takes_its_time() {
        let (progress, timeout) = (Progress::new(), Duration::from_millis(100));
        let late = || std::thread::sleep(timeout * 2);
        assert!(progress.now().works(timeout) && !progress.now().is_over(timeout));
        late();
        assert!(progress.now().is_over(timeout));
        progress.restart();
        assert!(progress.now().works(timeout));
        progress.take_time();
        late();
        assert!(progress.now().works(timeout) && !progress.now().is_over(timeout));
        let waits = progress.waiting_for("others", || {
            late();
            progress.now()
        });
        assert!(waits.is_over(timeout) && !waits.works(timeout), "who waits is not at work");
        progress.beat(7);
        late();
        assert!(progress.now().is_over(timeout), "a step ends what takes its time");
        progress.waiting_for("others", || ());
        assert!(!progress.now().is_over(timeout), "a call that ended is a sign that all go on");
        assert_eq!(progress.now().step, Some(7));
        progress.take_time();
        progress.waiting_for("others", || ());
        late();
        assert!(progress.now().is_over(timeout), "and what is done after it is counted");
    }
}
