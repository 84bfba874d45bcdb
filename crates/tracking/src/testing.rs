//! Runs for tests.

use std::fs;
use std::path::Path;

use kindling_runs::{Event, EventLog, RunDir};

pub(crate) fn started() -> Event {
    Event::Started {
        time: "2026-03-01T13:00:00+01:00".into(),
        model: "resnet18".into(),
        data: "phantoms".into(),
        classes: vec!["a".into(), "b".into()],
        parameters: 7,
        device: "cpu".into(),
        image_size: 64,
        global_batch: 8,
        micro_batch: 8,
        steps_total: 100,
    }
}

pub(crate) fn step(step: u64, epoch: u64) -> Event {
    Event::Step {
        step,
        epoch,
        loss: 1.0 / step as f64,
        lr: 0.1,
        images_per_second: 10.0,
        micro_batch: 4,
        peak_memory_bytes: 1 << 20,
        gradient_norm: 1.5 + step as f64,
        waiting_seconds: 0.0,
        seconds: step as f64,
        together: None,
    }
}

pub(crate) fn evaluated(step: u64, split: &str) -> Event {
    let (split, accuracy, dice, mae, r2) = (split.into(), Some(0.75), None, None, None);
    Event::Evaluated { step, epoch: 1, split, loss: 0.5, accuracy, samples: 4, dice, mae, r2 }
}

pub(crate) fn checkpoint(step: u64) -> Event {
    Event::Checkpoint { step, path: format!("checkpoints/{step}"), seconds: 0.5 }
}

pub(crate) fn warned(step: u64, text: &str) -> Event {
    Event::Warned { step, text: text.into() }
}

/// A run with a configuration, and nothing in its log.
pub(crate) fn run(folder: &Path) -> RunDir {
    let path = folder.join("first");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("config.toml"), "seed = 7\n[model]\nname = \"resnet18\"\n[train]\nlr = 0.1\n").unwrap();
    RunDir::open(&path).unwrap()
}

/// Appends to the run's log.
pub(crate) fn append(run: &RunDir, events: &[Event]) {
    let mut log = EventLog::open(&run.events()).unwrap();
    events.iter().for_each(|event| log.append(event).unwrap());
}
