//! Failures on demand: `KINDLING_FAULT="oom@step=3,phase=backward,micro=1;panic@step=7,phase=forward"`.
//!
//! A promise about failures has to be tested against failures. Each entry fires once, at the place it names, with a text
//! that Burn's runtimes really produce, by the way they produce it: a panic.
//!
//! And a test that compares runs has to be tested against wrong ones: `wrong@step=2,scale=0.5` gives a wrong result and
//! no failure. It is wrong at every attempt of the step (`step=every` in all steps), for both networks of a GAN:
//!
//! | entry | what is wrong |
//! |---|---|
//! | `wrong@step=2,scale=0.5` | the sum of the gradients is multiplied by this; `-1` turns it round |
//! | `wrong@step=2,rate=0.5` | the learning rate is multiplied by this |
//! | `wrong@step=2,lost=1` | the second micro-batch is left out |
//! | `wrong@step=2,doubled=0` | the first micro-batch is added twice |
//! | `wrong@step=2,stale=statistics` | the running statistics stay as they were; also `network` (all that a forward pass reads), `optimizer` and `average` |

mod wrong;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wrong::Wrong;

/// A place in a step where a device may fail. The second name of some is what earlier versions called them. Where two networks
/// are trained against each other, those without `Generator` are in the discriminator's half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Phase {
    /// A micro-batch goes to the device.
    Upload,
    /// The part of a micro-batch in the first of two passes begins, where a loss asks for two.
    FirstPass,
    /// A forward pass begins.
    Forward,
    /// A backward pass begins.
    Backward,
    /// The loss and the norm of the gradients are read.
    #[strum(to_string = "finite-check", serialize = "gate")]
    FiniteCheck,
    /// The optimizer makes new weights.
    Optimizer,
    /// All is computed, and the step is about to be committed.
    Commit,
    /// A checkpoint is saved.
    Checkpoint,
    /// A part of the validation samples is scored.
    Eval,
    /// The fake images that a discriminator is taught with are being made.
    #[strum(to_string = "fake-images", serialize = "imagine")]
    FakeImages,
    /// As [`Phase::Forward`], in the generator's half.
    GeneratorForward,
    /// As [`Phase::Backward`], in the generator's half.
    GeneratorBackward,
    /// As [`Phase::FiniteCheck`], in the generator's half.
    #[strum(to_string = "generator-finite-check", serialize = "generator-gate")]
    GeneratorFiniteCheck,
    /// As [`Phase::Optimizer`], in the generator's half.
    GeneratorOptimizer,
}

/// What happens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
enum Kind {
    /// The device's memory is used up.
    #[strum(to_string = "oom")]
    OutOfMemory,
    /// One tensor is larger than the device can ever hold.
    TooLarge,
    /// The runtime panics because nothing of what it tried could be launched, as autotune does without memory.
    Panic,
    /// An error that has nothing to do with memory.
    Error,
    /// The device is lost to the process.
    Lost,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out of device memory allocating 1048576 bytes",
            Self::TooLarge => "can't allocate buffer of size: 68719476736",
            Self::Panic => "Should run when selected by autotune.",
            Self::Error => "The tensors have incompatible shapes",
            Self::Lost => "The device is poisoned\nCaused by:\n  cuLaunchKernel failed with status 700",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    kind: Kind,
    step: u64,
    phase: Phase,
    micro: Option<usize>,
}

/// The failures that are still to come, which clones share, and what is to go wrong without one.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    left: Arc<Mutex<Vec<Fault>>>,
    wrong: Vec<Wrong>,
}

impl Faults {
    /// Those of the environment variable `KINDLING_FAULT`; none if it is not set.
    ///
    /// # Errors
    /// A sentence about what in it cannot be understood.
    pub fn of_environment() -> Result<Self, String> {
        match std::env::var("KINDLING_FAULT") {
            Ok(text) => text.parse().map_err(|reason| format!("KINDLING_FAULT: {reason}")),
            Err(_) => Ok(Self::default()),
        }
    }

    fn left(&self) -> MutexGuard<'_, Vec<Fault>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are still to come, as [`Faults::of_environment`] reads them: for the process that goes on after this one.
    pub fn remaining(&self) -> String {
        self.left().iter().map(Fault::to_string).collect::<Vec<_>>().join(";")
    }

    /// Fails if that was asked for here.
    ///
    /// # Panics
    /// If so.
    pub fn at(&self, step: u64, phase: Phase, micro: usize) {
        let here = |fault: &Fault| {
            fault.step == step && fault.phase == phase && fault.micro.is_none_or(|asked| asked == micro)
        };
        let mut left = self.left();
        if let Some(index) = left.iter().position(here) {
            let fault = left.remove(index);
            drop(left);
            panic!("{}", fault.kind.text());
        }
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut left, mut wrong) = (Vec::new(), Vec::new());
        for entry in text.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            match entry.strip_prefix("wrong@") {
                Some(what) => wrong.push(what.parse()?),
                None => left.push(entry.parse()?),
            }
        }
        Ok(Self { left: Arc::new(Mutex::new(left)), wrong })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@step={},phase={}", self.kind, self.step, self.phase)?;
        self.micro.map_or(Ok(()), |micro| write!(f, ",micro={micro}"))
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let not = |what: &dyn fmt::Display| format!("`{what}` in `{text}` is not understood");
        let (kind, place) = text.split_once('@').ok_or_else(|| not(&text))?;
        let kind = kind.parse().map_err(|_| not(&kind))?;
        let (mut step, mut phase, mut micro) = (None, None, None);
        for pair in place.split(',') {
            match pair.split_once('=') {
                Some(("step", number)) => step = Some(number.parse().map_err(|_| not(&pair))?),
                Some(("micro", number)) => micro = Some(number.parse().map_err(|_| not(&pair))?),
                Some(("phase", name)) => phase = name.parse().ok(),
                _ => return Err(not(&pair)),
            }
        }
        match (step, phase) {
            (Some(step), Some(phase)) => Ok(Self { kind, step, phase, micro }),
            _ => Err(format!("`{text}` names no step or no phase that there is")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_fault_fires_once_and_only_where_it_was_asked_for() {
        let faults: Faults =
            "oom@step=3,phase=backward,micro=1; panic@step=7,phase=forward".parse().expect("two faults");
        let fails = |step, phase, micro| catch_unwind(AssertUnwindSafe(|| faults.at(step, phase, micro))).is_err();
        assert!(!fails(3, Phase::Backward, 0) && !fails(2, Phase::Backward, 1) && !fails(3, Phase::Forward, 1));
        assert_eq!(faults.clone().remaining(), "oom@step=3,phase=backward,micro=1;panic@step=7,phase=forward");
        assert!(fails(3, Phase::Backward, 1));
        assert_eq!(faults.remaining(), "panic@step=7,phase=forward");
        assert!(!fails(3, Phase::Backward, 1));
        assert!(fails(7, Phase::Forward, 5));
    }

    #[test]
    fn a_fault_that_is_not_understood_is_a_sentence() {
        for text in [
            "oom",
            "oom@step=x,phase=finite-check",
            "boom@step=1,phase=finite-check",
            "oom@step=1,phase=lunch",
            "oom@phase=finite-check",
        ] {
            assert!(text.parse::<Faults>().is_err(), "{text}");
        }
    }
}
