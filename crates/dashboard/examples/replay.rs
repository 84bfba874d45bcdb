//! Shows a run again, a few seconds long: `cargo run -p kindling-dashboard --example replay -- RUN [SECONDS]`.
//!
//! RUN is a run's folder, or its `events.jsonl`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kindling_dashboard::{Dashboard, Screen};
use kindling_runs::{Event, EventLog};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(run) = words.next().map(PathBuf::from) else {
        eprintln!("usage: replay RUN [SECONDS]");
        return ExitCode::from(2);
    };
    let seconds = words.next().and_then(|word| word.to_str()?.parse().ok()).unwrap_or(5.0);
    match replay(&run, seconds) {
        Ok(events) => {
            println!("{events} events");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn replay(run: &Path, seconds: f64) -> Result<usize, Box<dyn std::error::Error>> {
    let log = if run.is_dir() { run.join("events.jsonl") } else { run.to_path_buf() };
    let events = EventLog::read(&log)?;
    let screen = Screen::open(Dashboard::new(format!("kindling train · {}", run.display()), steps_of(&events)))?;
    let all = Duration::try_from_secs_f64(seconds)?;
    let began = Instant::now();
    for (place, event) in events.iter().enumerate() {
        let due = all.mul_f64((place + 1) as f64 / events.len() as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        screen.see(event);
    }
    Ok(events.len())
}

/// Steps of a log that does not tell how it began.
fn steps_of(events: &[Event]) -> u64 {
    events.iter().filter_map(Event::step).max().unwrap_or(0)
}
