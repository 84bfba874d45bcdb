//! Whether two runs are the same run. All comparisons of the end-to-end tests are here, and
//! `tests/mutations.rs` shows of each which wrong results it sees.
//!
//! - [`same_bits`] where bits are promised: the same plan after a failure, recomputation, a kill and a resume, other threads.
//! - [`Apart`] where another order of sums is allowed: every step's numbers, and all state of the last checkpoint, weights and
//!   their average as a share of how far they moved. AdamW divides by the size of its gradients, so that in weights alone it
//!   cannot be seen that they were all too small; steps' norms and SGD show it.
//! - [`gradients_apart`] for the gradients of one step, tensor by tensor.
//!
//! They return what differs; the functions named `assert_...` fail with it.

mod bits;
mod rounding;

use std::path::Path;
use std::process::Command;

pub use bits::{same_bits, same_scores};
pub use rounding::{Apart, GRADIENTS, gradients_apart, steps_apart};

use crate::kindling;

/// Fails unless [`same_bits`] holds.
///
/// # Panics
/// If it does not.
pub fn assert_same_bits(run: &Path, other: &Path, when: &str) {
    if let Err(difference) = same_bits(run, other) {
        panic!("{when}: {difference}");
    }
}

/// Fails unless `run` is as near to `other` as `most` says; both began at the weights of the run `start`.
///
/// # Panics
/// If it is not.
pub fn assert_near(start: &Path, run: &Path, other: &Path, most: &Apart, when: &str) {
    match Apart::of(start, run, other) {
        Ok(found) => {
            eprintln!("{when}: {found}");
            if let Err(difference) = found.within(most) {
                panic!("{when}: {difference}");
            }
        }
        Err(difference) => panic!("{when}: {difference}"),
    }
}

/// `kindling train --resume RUN`, without the text of panics that are part of the test.
pub fn resume(run: &Path) -> Command {
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").args(["train", "--quiet", "--resume"]).arg(run);
    command
}

/// Changes of flags after which a run ends where it began: one step of no length, for comparisons that ask how far weights
/// moved. A step cannot be of length 0; this one is below the last digit of every weight.
pub const STILL: &str = "--optimizer sgd --momentum 0 --weight-decay 0 --lr 1e-30 --max-steps 1";

/// Changes of flags after which weights show the gradients of one step: what is subtracted is all of them, times a rate so
/// large that the weights' own digits do not round it away, and so small that a network can still be scored.
pub const ONE_STEP: &str = "--optimizer sgd --momentum 0 --weight-decay 0 --warmup 1 --lr 10 --max-steps 1";
