//! Tests that need something a machine may lack, or a night: they are counted, and never silently left out.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// What a file of tests needs.
#[derive(Debug)]
pub struct Optional {
    /// What is missing here and how to get it, as the end of "not run: 3 tests need ..."; none if all is here.
    pub missing: Option<String>,
    /// With this environment variable at 1 a missing thing is a failure.
    pub required_by: &'static str,
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

/// Runs the tests of a file as `cargo test` would, or counts them as ignored and says why in a last line.
pub fn run_optional(need: Optional, tests: &[(&str, fn())]) -> ExitCode {
    run(need, tests.iter().map(|&(name, test)| Test::new(name, test)).collect()).0
}

/// [`run_optional`] with long forms of the tests, which run where `KINDLING_NIGHTLY` is 1. Elsewhere a last line
/// says that they were not run; `so_long` says how long they take.
pub fn run_optional_and_nightly(
    need: Optional,
    mut tests: Vec<Test>,
    nightly: impl FnOnce() -> Vec<Test>,
    so_long: &str,
) -> ExitCode {
    if is_one("KINDLING_NIGHTLY") && need.missing.is_none() {
        tests.extend(nightly());
        return run(need, tests).0;
    }
    let (code, listed) = run(need, tests);
    if !listed {
        println!(
            "not run: the long forms of these tests, which KINDLING_NIGHTLY=1 asks for and which take {so_long}\n"
        );
    }
    code
}

fn is_one(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "1")
}

/// The exit code, and whether tests were listed rather than run.
fn run(need: Optional, tests: Vec<Test>) -> (ExitCode, bool) {
    let arguments = Arguments::from_args();
    let required = is_one(need.required_by);
    let trial = |Test { name, run }: Test| match need.missing.clone() {
        Some(missing) if required => {
            let sentence = format!("{} is 1, but this test needs {missing}", need.required_by);
            Trial::test(name, || Err(sentence.into()))
        }
        missing => Trial::test(name, move || {
            run();
            Ok(())
        })
        .with_ignored_flag(missing.is_some()),
    };
    let conclusion = libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect());
    if let (Some(missing), 1.., false) = (&need.missing, conclusion.num_ignored, arguments.list) {
        let (count, verb) = match conclusion.num_ignored {
            1 => ("1 test".to_string(), "needs"),
            more => (format!("{more} tests"), "need"),
        };
        println!("not run: {count} {verb} {missing}\n");
    }
    (conclusion.exit_code(), arguments.list)
}
