//! Kernels that do not compile are told. Where several could do a job, CubeCL's autotuning leaves such a one out, and all
//! that is seen of it is a slower run; it says so only to the `log` of the process, which is read here.

use std::fmt;
use std::sync::{Mutex, Once};

use log::{LevelFilter, Log, Metadata, Record};

use crate::output::note;

struct Watch {
    told: Mutex<Vec<Reason>>,
}

static WATCH: Watch = Watch { told: Mutex::new(Vec::new()) };

/// The reason that was told last, if there is one.
pub(crate) fn last() -> Option<Reason> {
    WATCH.told.lock().ok()?.last().cloned()
}

/// Tells of each reason once, on standard error, from now on.
pub(super) fn watch() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        if log::set_logger(&WATCH).is_ok() {
            log::set_max_level(LevelFilter::Warn);
        }
    });
}

impl Log for Watch {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= LevelFilter::Warn
    }

    fn log(&self, record: &Record<'_>) {
        let Some(reason) = reason(&record.args().to_string()) else { return };
        let new = self.told.lock().is_ok_and(|mut told| {
            let new = !told.contains(&reason);
            told.extend(new.then(|| reason.clone()));
            new
        });
        if new {
            note!(
                "warning: a GPU kernel does not compile; if another can do its work, the run goes on and may be slower: {reason}"
            );
        }
    }

    fn flush(&self) {}
}

/// Why a kernel does not compile, if that is what a line of the log says: the compiler's first error, or the driver's
/// about the compiled kernel.
fn reason(text: &str) -> Option<Reason> {
    if let Some((_, driver)) = text.split_once("Unable to load the PTX:") {
        return Some(Reason::Driver(driver.lines().next().unwrap_or_default().trim().to_string()));
    }
    let (_, log) = text.split_once("[Compilation Error]")?;
    let log = log.split("[Source]").next().unwrap_or_default();
    let error = log.lines().map(str::trim).find(|line| line.contains("error"));
    let told = error.or_else(|| log.lines().map(str::trim).find(|line| !line.is_empty()))?;
    Some(Reason::Compiler(told.to_string()))
}

/// Why a kernel does not compile, in the words of whoever refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Compiler(String),
    Driver(String),
}

impl Reason {
    /// Whether a text has these words.
    pub(crate) fn said_in(&self, text: &str) -> bool {
        let (Self::Compiler(words) | Self::Driver(words)) = self;
        text.contains(words)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compiler(words) => f.write_str(words),
            Self::Driver(words) => write!(f, "the driver cannot load it: {words}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_first_error_is_the_reason() {
        let text = "A kernel failed\n[Compilation Error] \n    default_program(5): catastrophic error: cannot open \
                    source file \"crt/mma.h\"\n    1 catastrophic error detected\n[Source]\n#include <mma.h> // error";
        let found = reason(text);
        assert_eq!(
            found.map(|reason| reason.to_string()).as_deref(),
            Some("default_program(5): catastrophic error: cannot open source file \"crt/mma.h\"")
        );
        assert_eq!(reason("device allocation of 5 B failed"), None);
    }
}
