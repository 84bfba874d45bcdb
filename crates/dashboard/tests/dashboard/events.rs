//! Events of a run that might have been.

use kindling_runs::Event;

/// The start of a run of so many steps.
pub(crate) fn started(steps_total: u64) -> Event {
    Event::Started {
        time: "2026-01-02T03:04:05+00:00".into(),
        model: "mobilenet_v3_small".into(),
        data: "phantoms".into(),
        classes: vec!["none".into(), "one".into(), "two".into()],
        parameters: 1_520_905,
        device: "NVIDIA H100 80GB HBM3".into(),
        image_size: 512,
        global_batch: 64,
        micro_batch: 64,
        steps_total,
    }
}

/// A step that took two seconds, of which it waited a tenth of one.
pub(crate) fn step(step: u64) -> Event {
    Event::Step {
        step,
        epoch: (step - 1) / 100 + 1,
        loss: 1.2 * (-(step as f64) / 150.0).exp() + 0.1 + 0.05 * (step as f64 * 1.7).sin(),
        lr: 0.003,
        images_per_second: 32.0,
        micro_batch: if step > 210 { 32 } else { 64 },
        peak_memory_bytes: 12_345_678_901,
        gradient_norm: 1.25,
        waiting_seconds: 0.1,
        seconds: 2.0 * step as f64,
        together: None,
    }
}

/// An evaluation after a step.
pub(crate) fn evaluated(step: u64) -> Event {
    Event::Evaluated {
        step,
        epoch: step / 100,
        split: "validation".into(),
        loss: 1.1 * (-(step as f64) / 150.0).exp() + 0.2,
        accuracy: Some(0.9 - 0.5 * (-(step as f64) / 200.0).exp()),
        mae: None,
        r2: None,
        samples: 300,
        dice: None,
    }
}

/// A lack of memory after a step.
pub(crate) fn recovered(step: u64) -> Event {
    Event::Recovered {
        step,
        during: "training".into(),
        reason: "out of memory: 512 MiB asked for".into(),
        lever: "micro-batch 32 instead of 64".into(),
        seconds: 1.4,
    }
}

/// An iteration of two networks that took half a second.
pub(crate) fn iteration(step: u64) -> Event {
    Event::Iteration {
        step,
        epoch: 1,
        discriminator_loss: 0.7 + 0.2 * (step as f64 / 20.0).sin(),
        generator_loss: 1.2 + 0.5 * (step as f64 / 30.0).cos(),
        discriminator_norm: 2.5,
        generator_norm: 1.5,
        real_believed: 0.81,
        made_believed: 0.24,
        spread: 0.93,
        images_per_second: 128.0,
        micro_batch: 64,
        peak_memory_bytes: 0,
        seconds: step as f64 / 2.0,
    }
}
