//! Buffers that the tasks of an operation borrow in turn.
//!
//! Rayon makes them anew for each range that it hands to a thread (`for_each_init`), several times as often as there are threads, and large
//! ones are filled with zeros each time.

use std::sync::{Mutex, PoisonError};

/// As many as were borrowed at the same time; see the module.
pub(crate) struct Pool<S>(Mutex<Vec<S>>);

impl<S> Default for Pool<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> Pool<S> {
    /// Lends one that nobody else has, or makes it. It comes back unless `work` panics.
    pub(crate) fn lend<R>(&self, make: impl FnOnce() -> S, work: impl FnOnce(&mut S) -> R) -> R {
        let idle = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = idle().pop();
        let mut lent = there.unwrap_or_else(make);
        let made = work(&mut lent);
        idle().push(lent);
        made
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_comes_back_is_lent_again_and_nobody_shares_it() {
        let (pool, made) = (Pool::default(), AtomicUsize::new(0));
        let make = || made.fetch_add(1, Ordering::Relaxed);
        pool.lend(make, |one| pool.lend(make, |two| assert_ne!(one, two)));
        for _ in 0..5 {
            pool.lend(make, |_| {});
        }
        assert_eq!(made.into_inner(), 2);
    }
}
