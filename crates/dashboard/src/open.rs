//! The screen that is open, for those who do not hold it.
//!
//! A process has one standard error. Whoever writes a line to it while a dashboard is there (a handler of Ctrl-C, a library's log, a
//! hook of panics) would write into the picture, and the line would be gone a second later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::backend::leave;
use crate::outlet::Outlet;
use crate::painter::Shared;

static OPEN: Mutex<Option<Open>> = Mutex::new(None);

/// Whether there is one, for those who must not wait for a lock.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

struct Open {
    shared: Weak<Shared>,
    outlet: Outlet,
}

/// Notes which screen is on standard error.
pub(crate) fn opened(shared: &Arc<Shared>, outlet: &Outlet) {
    let open = Open { shared: Arc::downgrade(shared), outlet: outlet.clone() };
    *OPEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
    IS_OPEN.store(true, Ordering::Relaxed);
}

/// Forgets a screen, if it is the one that is open.
pub(crate) fn closed(shared: &Arc<Shared>) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if open.as_ref().is_some_and(|open| open.shared.as_ptr() == Arc::as_ptr(shared)) {
        *open = None;
        IS_OPEN.store(false, Ordering::Relaxed);
    }
}

/// Whether a screen is open on standard error. It waits for nothing, so that a handler of a signal may ask before it writes
/// [`LEAVE`](crate::LEAVE).
pub fn is_open() -> bool {
    IS_OPEN.load(Ordering::Relaxed)
}

/// Adds a line to the messages of the screen on standard error. False if there is none: the line is the caller's to write then.
pub fn tell(line: &str) -> bool {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let shared = open.as_ref().and_then(|open| open.shared.upgrade());
    drop(open);
    shared.map(|shared| shared.change(|dashboard| dashboard.say(line))).is_some()
}

/// Gives the terminal back at once, for a process that ends without dropping what it has (`std::process::exit`, or another program in
/// its place). Nothing happens where no screen is open on standard error, or if the terminal takes nothing for a while.
pub fn give_back() {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    IS_OPEN.store(false, Ordering::Relaxed);
    if let Some(Open { shared, outlet }) = open {
        if let Some(shared) = shared.upgrade() {
            shared.close();
        }
        outlet.close_now(&leave());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;
    use crate::outlet::Outlet;
    use crate::{Dashboard, LEAVE};

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    // One test, for there is one screen that is open.
    #[test]
    fn lines_reach_the_open_screen_until_the_terminal_is_given_back_once() {
        assert!(!tell("nobody is there"));
        give_back();

        let paper = Paper::default();
        let text = || String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        let (shared, outlet) = (Arc::new(Shared::new(Dashboard::new("run", 1))), Outlet::new(paper.clone()));
        opened(&shared, &outlet);
        assert!(tell("finishing the step") && is_open());
        let mut lines = Vec::new();
        shared.change(|dashboard| lines.extend(dashboard.messages.newest_first().cloned()));
        assert_eq!(lines[0].text, "finishing the step");

        give_back();
        assert_eq!(text(), LEAVE);
        assert!(!is_open() && !tell("the terminal is everyone's again") && outlet.write(b"a picture").is_err());
        give_back();
        outlet.close(&leave());
        assert_eq!(text(), LEAVE, "once");

        // Another screen that ends is not this one.
        opened(&shared, &outlet);
        closed(&Arc::new(Shared::new(Dashboard::new("another", 1))));
        assert!(tell("still here"));
        closed(&shared);
        assert!(!tell("gone"));
    }

    #[test]
    fn giving_back_does_not_wait_for_a_terminal_that_takes_nothing() {
        struct Never;
        impl Write for Never {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                sleep(Duration::from_secs(5));
                Err(io::ErrorKind::Other.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let outlet = Outlet::new(Never);
        let drawing = outlet.clone();
        let drawing = std::thread::spawn(move || drawing.write(b"a picture"));
        sleep(Duration::from_millis(100));
        let began = std::time::Instant::now();
        outlet.close_now(b"");
        assert!(began.elapsed() < Duration::from_secs(3));
        drop(drawing);
    }
}
