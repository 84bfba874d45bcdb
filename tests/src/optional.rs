//! Tests that need something a machine may lack: they are counted, and never silently left out.

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

/// Runs the tests of a file as `cargo test` would, or counts them as ignored and says why in a last line.
pub fn run_optional(need: Optional, tests: &[(&str, fn())]) -> ExitCode {
    let arguments = Arguments::from_args();
    let required = std::env::var(need.required_by).is_ok_and(|value| value == "1");
    let trial = |&(name, test): &(&str, fn())| match need.missing.clone() {
        Some(missing) if required => {
            let sentence = format!("{} is 1, but this test needs {missing}", need.required_by);
            Trial::test(name, || Err(sentence.into()))
        }
        missing => Trial::test(name, move || {
            test();
            Ok(())
        })
        .with_ignored_flag(missing.is_some()),
    };
    let conclusion = libtest_mimic::run(&arguments, tests.iter().map(trial).collect());
    if let (Some(missing), 1.., false) = (&need.missing, conclusion.num_ignored, arguments.list) {
        let (count, verb) = match conclusion.num_ignored {
            1 => ("1 test".to_string(), "needs"),
            more => (format!("{more} tests"), "need"),
        };
        println!("not run: {count} {verb} {missing}\n");
    }
    conclusion.exit_code()
}
