//! A row in a process of its own: what one row does to memory, kernels and clocks does not reach the next, and a row that
//! is killed takes nobody with it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kindling_runs::DeviceFacts;
use kindling_runs::bench::{Configuration, Failure, FailureKind, Outcome, Protocol, Row};

use super::row;
use crate::output::note;

/// How often a child is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// Measures a row in a child process. Whatever happens to the child is a row.
///
/// Fails only if no child can be started.
pub(super) fn run(configuration: &Configuration, protocol: Protocol, limit: Option<Duration>) -> Result<Row> {
    let command = std::env::current_exe().context("finding this command to start it again")?;
    let asked = serde_json::to_string(&row::Asked { configuration: configuration.clone(), protocol })?;
    let mut child = Command::new(command)
        .args(["bench", "row", &asked])
        .env("RAYON_NUM_THREADS", configuration.threads.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting a process for a row")?;
    let output = child.stdout.take().map(|pipe| thread::spawn(move || all(pipe)));
    let errors = child.stderr.take().map(|pipe| thread::spawn(move || passed_on(pipe)));
    let ended = wait(&mut child, limit);
    let output = output.and_then(|thread| thread.join().ok()).unwrap_or_default();
    let said = errors.and_then(|thread| thread.join().ok()).flatten();
    let answer = output.lines().last().and_then(|line| serde_json::from_str::<Row>(line).ok());
    if let (Some(row), Ok(status)) = (answer, &ended)
        && status.success()
    {
        return Ok(row);
    }
    let failure = match ended {
        Ok(status) => explain(status, said),
        Err(failure) => failure,
    };
    let facts = DeviceFacts { device: configuration.device.clone(), ..DeviceFacts::default() };
    Ok(row::assemble(configuration, protocol, Outcome::Failed(failure), facts))
}

fn all(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // What could be read until then is what there is.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Shows a child's progress and keeps its last line.
fn passed_on(pipe: impl Read) -> Option<String> {
    let mut last = None;
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        note!("{line}");
        if !line.trim().is_empty() {
            last = Some(line.trim().trim_start_matches("error: ").to_string());
        }
    }
    last
}

fn wait(child: &mut Child, limit: Option<Duration>) -> Result<ExitStatus, Failure> {
    let error = |error: std::io::Error| Failure { kind: FailureKind::Error, reason: error.to_string() };
    let Some(limit) = limit else { return child.wait().map_err(error) };
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(error)? {
            return Ok(status);
        }
        if began.elapsed() > limit {
            // It may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
            let reason = format!("it had not ended after {} s", limit.as_secs());
            return Err(Failure { kind: FailureKind::Timeout, reason });
        }
        thread::sleep(PAUSE);
    }
}

/// Why a child without an answer ended.
fn explain(status: ExitStatus, said: Option<String>) -> Failure {
    let said = said.map_or(String::new(), |line| format!("; it last said: {line}"));
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let why = if signal == 9 { ", as systems do when memory runs out" } else { "" };
        let reason = format!("its process was ended by signal {signal}{why}{said}");
        return Failure { kind: FailureKind::Killed, reason };
    }
    Failure { kind: FailureKind::Error, reason: format!("its process ended with {status} and no answer{said}") }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).spawn().expect("a shell")
    }

    #[test]
    fn a_killed_child_is_told_from_one_that_failed() {
        let killed = wait(&mut shell("kill -9 $$"), None).unwrap();
        let failure = explain(killed, Some("step 3".into()));
        assert_eq!(failure.kind, FailureKind::Killed);
        assert!(failure.reason.contains("signal 9") && failure.reason.contains("step 3"), "{}", failure.reason);
        let failed = wait(&mut shell("exit 3"), None).unwrap();
        assert_eq!(explain(failed, None).kind, FailureKind::Error);
    }

    #[test]
    fn a_child_that_takes_too_long_is_ended() {
        let began = Instant::now();
        let failure = wait(&mut shell("exec sleep 60"), Some(Duration::from_millis(100))).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Timeout);
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
