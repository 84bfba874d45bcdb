//! Tests that need something a machine may lack, or a night: they are counted, and never silently left out.
//!
//! What was left out is said in lines that begin with "not run:" and a number of tests. `.ci/run` adds these numbers up
//! and names the reasons at its end.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Trial};

/// What tests need.
#[derive(Clone, Debug)]
pub struct Optional {
    /// What is missing here and how to get it, as the end of "not run: 3 tests need ..."; none if all is here.
    pub missing: Option<String>,
    /// With this environment variable at 1 a missing thing is a failure.
    pub required_by: &'static str,
}

impl Optional {
    /// Nothing that a machine may lack.
    pub fn nothing() -> Self {
        Self { missing: None, required_by: "" }
    }
}

/// A test by name.
pub struct Test {
    name: String,
    run: Box<dyn FnOnce() + Send>,
}

impl Test {
    /// A test that fails if `run` panics.
    pub fn new(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// The tests of a file, in groups that may need different things.
pub struct Suite {
    arguments: Arguments,
    trials: Vec<Trial>,
    left_out: Vec<String>,
}

impl Suite {
    /// No tests yet; the command line says which of them will run.
    #[expect(clippy::new_without_default, reason = "it reads the command line")]
    pub fn new() -> Self {
        Self { arguments: Arguments::from_args(), trials: Vec::new(), left_out: Vec::new() }
    }

    /// Adds tests with the same need. If it is missing they are counted as ignored, or fail where it is required.
    pub fn add(&mut self, need: &Optional, tests: Vec<Test>) {
        let required = is_one(need.required_by);
        let trial = |Test { name, run }: Test| match &need.missing {
            Some(missing) if required => {
                let sentence = format!("{} is 1, but this test needs {missing}", need.required_by);
                Trial::test(name, || Err(sentence.into()))
            }
            missing => Trial::test(name, || {
                run();
                Ok(())
            })
            .with_ignored_flag(missing.is_some()),
        };
        let trials: Vec<Trial> = tests.into_iter().map(trial).collect();
        let is_left_out = |trial: &&Trial| self.arguments.is_ignored(trial) && !self.arguments.is_filtered_out(trial);
        let count = trials.iter().filter(is_left_out).count();
        if let (Some(missing), 1..) = (&need.missing, count) {
            let need = if count == 1 { "test needs" } else { "tests need" };
            self.left_out.push(format!("{count} {need} {missing}"));
        }
        self.trials.extend(trials);
    }

    /// Adds long forms of tests, which run where `KINDLING_NIGHTLY` is 1. Elsewhere they are counted only, for they may be
    /// hundreds; `so_long` says how long they take.
    pub fn add_nightly(&mut self, need: &Optional, tests: Vec<Test>, so_long: &str) {
        if is_nightly() {
            return self.add(need, tests);
        }
        let asked_for = |test: &Test| !self.arguments.is_filtered_out(&Trial::test(test.name.clone(), || Ok(())));
        let count = tests.iter().filter(|test| asked_for(test)).count();
        let tests = if count == 1 { "test" } else { "tests" };
        if count > 0 {
            self.left_out.push(format!("{count} {tests}, which KINDLING_NIGHTLY=1 asks for and which take {so_long}"));
        }
    }

    /// Lets no test run beside another: each takes all cores by itself, or counts the memory of the process.
    pub fn one_at_a_time(&mut self) {
        self.arguments.test_threads = Some(1);
    }

    /// Runs the tests as `cargo test` would, and says in the last lines what was left out.
    pub fn run(self) -> ExitCode {
        let conclusion = libtest_mimic::run(&self.arguments, self.trials);
        if !self.arguments.list {
            let inside = std::mem::take(&mut *INSIDE.lock().unwrap_or_else(PoisonError::into_inner));
            for sentence in self.left_out.into_iter().chain(inside) {
                println!("not run: {sentence}\n");
            }
        }
        conclusion.exit_code()
    }
}

/// What tests said that they had left out.
static INSIDE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Takes the lines of a test program that a test has run, and repeats at the end which of its tests it had left out; `place`
/// says where it ran.
pub fn repeat_what_was_not_run(text: &str, place: &str) {
    let sentences = text.lines().filter_map(|line| line.strip_prefix("not run: "));
    let sentences = sentences.map(|sentence| format!("{sentence} ({place})"));
    INSIDE.lock().unwrap_or_else(PoisonError::into_inner).extend(sentences);
}

/// A [`Suite`] of one group.
pub fn run_optional(need: Optional, tests: &[(&str, fn())]) -> ExitCode {
    let mut suite = Suite::new();
    suite.add(&need, tests.iter().map(|&(name, test)| Test::new(name, test)).collect());
    suite.run()
}

/// A [`Suite`] of one group, which has long forms too.
pub fn run_optional_and_nightly(need: Optional, tests: Vec<Test>, nightly: Vec<Test>, so_long: &str) -> ExitCode {
    let mut suite = Suite::new();
    suite.add(&need, tests);
    suite.add_nightly(&need, nightly, so_long);
    suite.run()
}

/// Whether long forms of tests run.
pub fn is_nightly() -> bool {
    is_one("KINDLING_NIGHTLY")
}

fn is_one(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(filter: Option<&str>) -> Suite {
        let arguments = Arguments { filter: filter.map(str::to_string), ..Arguments::default() };
        Suite { arguments, trials: Vec::new(), left_out: Vec::new() }
    }

    fn two() -> Vec<Test> {
        ["one", "other"].map(|name| Test::new(name, || ())).into()
    }

    fn lacking(required_by: &'static str) -> Optional {
        Optional { missing: Some("a moon".to_string()), required_by }
    }

    #[test]
    fn tests_that_lack_something_are_ignored_and_counted() {
        let mut suite = suite(None);
        suite.add(&Optional::nothing(), two());
        suite.add(&lacking("KINDLING_REQUIRE_NOBODY_SETS_THIS"), two());
        assert_eq!(suite.trials.iter().filter(|trial| trial.has_ignored_flag()).count(), 2);
        assert_eq!(suite.left_out, ["2 tests need a moon"]);
    }

    #[test]
    fn tests_that_nobody_asked_for_are_not_counted() {
        let mut some = suite(Some("oth"));
        some.add(&lacking(""), two());
        assert_eq!(some.left_out, ["1 test needs a moon"]);
        let mut none = suite(Some("neither"));
        none.add(&lacking(""), two());
        assert!(none.left_out.is_empty());
    }

    #[test]
    fn what_a_test_program_left_out_is_repeated_with_its_place() {
        repeat_what_was_not_run("running 2 tests\nnot run: 1 test needs a moon\n\n", "on Mars");
        assert_eq!(*INSIDE.lock().expect("nobody fails with it"), ["1 test needs a moon (on Mars)"]);
    }
}
