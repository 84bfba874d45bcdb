//! The model, how it was trained, and on what.

use kindling_runs::{Event, Metrics, Record};

use super::Card;
use super::markdown::{facts, short, text, to_fill_in};
use crate::words;

/// Settings with these beginnings say how a model was trained, but for those that have no influence on the result.
const TRAINING: [&str; 5] = ["train.", "model.", "data.augment", "data.sampling", "data.preprocess"];
const WITHOUT_INFLUENCE: [&str; 5] = [
    "model.name",
    "train.activation_checkpointing",
    "train.checkpoint_every",
    "train.checkpoint_steps",
    "train.micro_batch",
];

pub(super) fn details(card: &Card<'_>) -> String {
    let record = card.record;
    let architecture = card.architecture;
    let metrics = record.metrics.as_ref();
    let setting = |key: &str| record.setting(key).map(short);
    let size = |side: &str| format!("{} × {} pixels", text(side), text(side));
    let input = record.setting("data.preprocess.size").map(size);
    let input = input.map(|size| match record.setting("data.preprocess.channels") {
        Some("1") => format!("{size}, grey"),
        Some("3") => format!("{size}, colour"),
        _ => size,
    });
    let best =
        |metrics: &Metrics| metrics.best_epoch.map(|epoch| format!("those of epoch {epoch}, the best on validation"));
    let began = record.environment.as_ref().map(|environment| text(&environment.time)).filter(|time| !time.is_empty());
    let rows = [
        ("Model", Some(text(record.model()))),
        ("Family", architecture.map(|it| text(it.family))),
        ("Paper", architecture.map(|it| text(it.paper))),
        ("Numbers equal to", architecture.map(|it| text(it.reference))),
        ("Parameters", metrics.map(|metrics| metrics.parameters.to_string())),
        ("Input", input),
        ("Task", Some(task(record))),
        (
            if record.regresses() { "Number" } else { "Classes" },
            Some(names(record.classes())).filter(|names| !names.is_empty()),
        ),
        ("Started from", start(record)),
        ("Kept as it was", setting("model.freeze").filter(|what| what != "none")),
        ("Weights", metrics.and_then(best)),
        ("Training began", began),
    ];
    format!(
        "## Model details\n\n{}{}",
        facts(&rows),
        to_fill_in("who made the model, its version, its licence, how to cite it, and where to ask.")
    )
}

fn task(record: &Record) -> String {
    if record.segments() {
        return "which pixels of an image are of which class".to_owned();
    }
    match record.setting("data.task") {
        Some("regression") => "which number an image has",
        Some("ordinal") => "which one of the classes, which have an order, an image is of",
        Some("multi-label") => "which of the classes an image has: several, one or none",
        _ => "which one of the classes an image is of",
    }
    .to_owned()
}

/// Names in a row; of very many the first.
fn names(classes: &[String]) -> String {
    const SHOWN: usize = 50;
    let shown: Vec<String> = classes.iter().take(SHOWN).map(|class| short(class)).collect();
    let more = classes.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &rest
}

/// The weights that training began with.
fn start(record: &Record) -> Option<String> {
    let of = |key: &str| record.setting(key).map(short);
    let pretrained = of("model.start.pretrained").map(|sum| format!("the zoo's pretrained weights (SHA-256 {sum})"));
    let file = || of("model.start.file").map(|path| format!("the file {path}"));
    let drawn = || Some("weights drawn with the seed".to_owned());
    pretrained
        .or_else(file)
        .or_else(|| record.setting("model.start").filter(|start| *start == "none").and_then(|_| drawn()))
}

/// The settings that decide what a model becomes, for the section on training data.
pub(super) fn training_settings(record: &Record) -> String {
    let matters =
        |key: &str| TRAINING.iter().any(|beginning| key.starts_with(beginning)) && !WITHOUT_INFLUENCE.contains(&key);
    let shown = record.settings.iter().filter(|(key, _)| matters(key));
    let rows: Vec<(String, String)> = shown.map(|(key, value)| (text(key), short(value))).collect();
    let rows: Vec<(&str, Option<String>)> =
        rows.iter().map(|(key, value)| (key.as_str(), Some(value.clone()))).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("### Training settings\n\n`config.toml` has all of them.\n\n{}", facts(&rows)),
    }
}

/// What it ran on and what it took.
pub(super) fn environment(record: &Record) -> String {
    let environment = record.environment.as_ref();
    let metrics = record.metrics.as_ref();
    let plain = |value: Option<&String>| value.filter(|value| !value.is_empty()).map(|value| text(value));
    let version = environment.map(|it| match &it.commit {
        Some(commit) => format!("{} ({})", text(&it.kindling), text(commit)),
        None => text(&it.kindling),
    });
    let resumed = record.events.iter().filter(|event| matches!(event, Event::Resumed { .. })).count();
    let rows = [
        ("Kindling", version.filter(|version| !version.is_empty())),
        ("Burn", plain(environment.map(|it| &it.burn))),
        ("Compiler", plain(environment.and_then(|it| it.rustc.as_ref()))),
        ("Device", plain(environment.map(|it| &it.device.device))),
        ("Device memory", environment.and_then(|it| it.device.device_memory_bytes).map(words::bytes)),
        ("Driver", plain(environment.and_then(|it| it.device.driver.as_ref()))),
        ("CUDA", plain(environment.and_then(|it| it.device.cuda.as_ref()))),
        ("Processor", plain(environment.and_then(|it| it.cpu.as_ref()))),
        ("Main memory", environment.and_then(|it| it.memory_bytes).map(words::bytes)),
        ("System", plain(environment.map(|it| &it.os))),
        ("Precision of feature maps", plain(metrics.map(|it| &it.precision))),
        ("Optimizer steps", metrics.map(|it| format!("{} in {}", it.steps, words::epochs(it.epochs)))),
        ("Time of training", metrics.map(|it| words::duration(it.seconds))),
        ("Images per second", metrics.map(|it| words::number(it.images_per_second))),
        ("Peak memory", metrics.filter(|it| it.peak_memory_bytes > 0).map(|it| words::bytes(it.peak_memory_bytes))),
        ("Resumed", (resumed > 0).then(|| words::plural(resumed as u64, "time", "times"))),
    ];
    let facts = facts(&rows);
    if facts.is_empty() { facts } else { format!("## Environment\n\n{facts}") }
}
