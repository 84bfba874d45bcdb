//! Running the command, and what it answered.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use serde_json::Value;

/// Names the command to test, instead of the one of the same build.
const OVERRIDE: &str = "KINDLING_BIN";

/// The command, ready for arguments.
///
/// # Panics
/// If there is no built command.
pub fn kindling() -> Command {
    let path = std::env::var_os(OVERRIDE).map_or_else(beside_this_test, PathBuf::from);
    assert!(
        path.is_file(),
        "there is no command at {}: build it first (`cargo build --release`, or `cargo test --workspace --release`, \
         which builds it), or name one with {OVERRIDE}",
        path.display()
    );
    let mut command = Command::new(path);
    // A panic must show itself as one.
    command.env("RUST_BACKTRACE", "1");
    command
}

/// `target/<profile>/deps/<test>` lies beside `target/<profile>/kindling`.
fn beside_this_test() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it lies");
    let profile = test.parent().and_then(Path::parent).expect("a test lies in target/<profile>/deps");
    profile.join(format!("kindling{}", std::env::consts::EXE_SUFFIX))
}

/// `kindling train` on the CPU at the smallest size models take, into a folder; `flags` are separated by spaces.
pub fn train(data: &Path, out: &Path, flags: &str) -> Command {
    let mut command = kindling();
    command.arg("train").arg("--data").arg(data).arg("--out").arg(out);
    command.args(["--device", "cpu", "--image-size", "32"]).args(flags.split_whitespace());
    command
}

/// How the command ended and what it said.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    what: String,
}

impl Outcome {
    /// Runs a command to its end.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
        Self::new(format!("{command:?}"), &output)
    }

    pub(crate) fn new(what: String, output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            what,
        }
    }

    /// Itself, if the command ended well.
    ///
    /// # Panics
    /// If it did not.
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "should have ended well\n{}", self.all());
        self
    }

    /// The sentence with which the command refused.
    ///
    /// # Panics
    /// If it did not refuse, or not as promised: a non-zero exit code and one sentence, without a panic.
    pub fn refused(&self) -> String {
        assert!(matches!(self.code, Some(1 | 2)), "should have been refused\n{}", self.all());
        sentence_of(&self.stderr).unwrap_or_else(|fault| panic!("{fault}\n{}", self.all()))
    }

    /// The sentence with which one of several processes refused for all of them. A launcher adds lines of its own.
    ///
    /// # Panics
    /// If they did not refuse, or more than one spoke.
    pub fn refused_by_one(&self) -> String {
        assert_ne!(self.code, Some(0), "should have been refused\n{}", self.all());
        let said: Vec<&str> = self.stderr.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
        match said.as_slice() {
            [sentence] if !self.stderr.contains("panicked at") => (*sentence).to_string(),
            _ => panic!("one process should have said why\n{}", self.all()),
        }
    }

    /// What a child said that has ended, or is about to.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn of_child(what: &str, child: Child) -> Self {
        Self::new(what.to_string(), &child.wait_with_output().expect("a child can be waited for"))
    }

    /// The JSON object in the last line of standard output.
    ///
    /// # Panics
    /// If there is none.
    pub fn result(&self) -> Value {
        let last = self.stdout.lines().last().unwrap_or_default();
        match serde_json::from_str(last) {
            Ok(value @ Value::Object(_)) => value,
            _ => panic!("the last line of standard output is no JSON object\n{}", self.all()),
        }
    }

    /// Everything that is known, for a failure.
    pub fn all(&self) -> String {
        let Self { code, stdout, stderr, what } = self;
        format!("{what}\nexit code {code:?}\n--- standard output\n{stdout}\n--- standard error\n{stderr}")
    }
}

/// The one error sentence in what a command said on standard error, without its `error: `.
///
/// # Errors
/// What is wrong with it: none, several, a panic, more after it, or a cause told twice.
pub fn sentence_of(stderr: &str) -> Result<String, String> {
    for sign in ["panicked at", "stack backtrace", "RUST_BACKTRACE"] {
        if stderr.contains(sign) {
            return Err(format!("it panicked: standard error contains `{sign}`"));
        }
    }
    let lines: Vec<&str> = stderr.lines().collect();
    let errors: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].starts_with("error: ")).collect();
    let &[at] = errors.as_slice() else {
        return Err(format!("there are {} error lines instead of one", errors.len()));
    };
    let sentence = lines[at].trim_start_matches("error: ");
    // Faults of the command line are followed by a hint of where to look.
    let hint = |line: &str| {
        let line = line.trim_start();
        line.is_empty()
            || ["tip: ", "Usage: ", "For more information", "[possible values"].iter().any(|h| line.starts_with(h))
    };
    if let Some(more) = lines[at + 1..].iter().find(|line| !hint(line)) {
        return Err(format!("the sentence goes on after its line: `{more}`"));
    }
    let said_twice = |part: &&str| part.len() > 15 && sentence.matches(part.trim()).count() > 1;
    match sentence.split(": ").flat_map(|part| part.split("; ")).find(said_twice) {
        Some(part) => Err(format!("`{part}` is said twice")),
        None => Ok(sentence.to_string()),
    }
}

/// Fails unless the sentence contains all these words.
///
/// # Panics
/// With the first word that it lacks.
pub fn assert_says(sentence: &str, words: &[&str]) {
    for word in words {
        assert!(sentence.contains(word), "`{word}` is not said: {sentence}");
    }
}

#[cfg(test)]
mod tests {
    use super::sentence_of;

    #[test]
    fn one_sentence_is_accepted_and_anything_else_is_not() {
        assert_eq!(sentence_of("step 1\nerror: no such folder\n"), Ok("no such folder".to_string()));
        let hinted = "error: invalid value 'x'\n\n  tip: try y\n\nFor more information, try '--help'.\n";
        assert!(sentence_of(hinted).is_ok());
        for bad in [
            "",
            "error: a\nerror: b\n",
            "error: a\n  caused by b\n",
            "thread 'main' panicked at src/main.rs\nerror: a\n",
            "error: cannot read a.png: Permission denied: Permission denied\n",
        ] {
            assert!(sentence_of(bad).is_err(), "{bad}");
        }
    }
}
