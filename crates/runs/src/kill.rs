//! Kills on demand: `KINDLING_KILL="rename@3"` ends the process right before the third time that a file takes its name.
//!
//! What `kill -9`, a power cut or the scheduler do at any moment, a test has to do at the moments that matter. The process
//! ends where it stands: nothing is flushed, no destructor runs. [`POINTS`] has the moments in the order they are passed.
//! Without the variable a point costs one look at a constant.

use std::str::FromStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The moments a process can be killed at, each with what it stands right before.
const POINTS: [(&str, &str); 16] = [
    ("create", "a hidden file is made that will replace another"),
    ("half", "the second half of its bytes is written"),
    ("sync", "its bytes are forced to the disk"),
    ("rename", "it takes its name"),
    ("renamed", "that name is forced to the disk"),
    ("folder", "a hidden folder is made"),
    ("file", "a file is made in it"),
    ("file-half", "the second half of that file reaches the disk"),
    ("file-sync", "that file is forced to the disk"),
    ("folder-sync", "the full folder is forced to the disk"),
    ("aside", "an older folder of the same name makes way"),
    ("folder-rename", "the folder takes its name"),
    ("folder-renamed", "that name is forced to the disk"),
    ("tidy", "something that an earlier kill left is removed"),
    ("line", "a line is added to a log"),
    ("line-half", "the second half of that line is written"),
];

/// `POINT@COUNT`.
#[derive(Debug)]
struct Kill {
    point: String,
    /// How often the point is passed until it is the last time.
    left: AtomicU64,
}

static ASKED: LazyLock<Result<Option<Kill>, String>> = LazyLock::new(|| match std::env::var("KINDLING_KILL") {
    Ok(text) => text.parse().map(Some).map_err(|reason| format!("KINDLING_KILL: {reason}")),
    Err(_) => Ok(None),
});

/// Whether the environment variable `KINDLING_KILL` can be understood.
///
/// # Errors
/// A sentence about what in it cannot.
pub fn check_kill() -> Result<(), String> {
    ASKED.as_ref().map(|_| ()).map_err(Clone::clone)
}

/// Whether the process is to end at this point, this time. Ask once each time it is passed.
pub(crate) fn asked(point: &str) -> bool {
    debug_assert!(POINTS.iter().any(|(known, _)| *known == point));
    let Ok(Some(kill)) = &*ASKED else { return false };
    kill.point == point && kill.left.fetch_sub(1, Ordering::Relaxed) == 1
}

/// Ends the process here if that was asked for.
pub(crate) fn reach(point: &str) {
    if asked(point) {
        now();
    }
}

/// Ends the process as a kill does.
pub(crate) fn now() -> ! {
    std::process::abort()
}

impl FromStr for Kill {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (point, count) = text.split_once('@').ok_or_else(|| format!("`{text}` is not of the form POINT@COUNT"))?;
        let known = || POINTS.map(|(point, _)| point).join(", ");
        if !POINTS.iter().any(|(name, _)| *name == point) {
            return Err(format!("there is no point `{point}`; there are {}", known()));
        }
        match count.parse() {
            Ok(left @ 1..) => Ok(Self { point: point.to_string(), left: AtomicU64::new(left) }),
            _ => Err(format!("`{count}` is no count; 1 is the first time")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_and_a_count_are_understood_and_nothing_else() {
        let kill: Kill = "folder-rename@3".parse().expect("a kill");
        assert_eq!((kill.point.as_str(), kill.left.into_inner()), ("folder-rename", 3));
        for text in ["", "rename", "rename@", "rename@0", "rename@-1", "rename@x", "lunch@1"] {
            assert!(text.parse::<Kill>().is_err(), "{text}");
        }
        assert!(
            "lunch@1".parse::<Kill>().is_err_and(|sentence| sentence.contains("line-half")),
            "it lists what there is"
        );
    }

    #[test]
    fn without_the_variable_nobody_is_killed() {
        for (point, _) in POINTS {
            reach(point);
        }
    }
}
