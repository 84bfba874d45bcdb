//! Where bytes for the terminal go, until it is given back.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

/// A writer that one thread draws on and another one may close. What one of them writes is written whole.
#[derive(Clone)]
pub(crate) struct Outlet(Arc<Mutex<Option<Box<dyn Write + Send>>>>);

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outlet")
    }
}

/// How often, and after what time again, a lock is tried by someone who cannot wait for it.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(10);

impl Outlet {
    pub(crate) fn new(to: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(to)))))
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// What the writer says; [`ErrorKind::NotConnected`] after the end.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let to = to.as_mut().ok_or(ErrorKind::NotConnected)?;
        to.write_all(bytes)?;
        to.flush()
    }

    /// Writes the last bytes, once. What cannot be written is dropped, as the terminal has gone.
    pub(crate) fn close(&self, last: &[u8]) {
        end(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), last);
    }

    /// As [`close`](Self::close), but without waiting for a terminal that takes nothing (Ctrl-S).
    pub(crate) fn close_now(&self, last: &[u8]) {
        for _ in 0..TRIES {
            match self.0.try_lock() {
                Ok(mut to) => return end(&mut to, last),
                Err(TryLockError::Poisoned(to)) => return end(&mut to.into_inner(), last),
                Err(TryLockError::WouldBlock) => thread::sleep(BETWEEN),
            }
        }
    }
}

fn end(to: &mut MutexGuard<'_, Option<Box<dyn Write + Send>>>, last: &[u8]) {
    if let Some(mut to) = to.take() {
        let _ = to.write_all(last).and_then(|()| to.flush());
    }
}
