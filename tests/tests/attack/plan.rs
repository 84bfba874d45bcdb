//! What is done in a case: all of it follows from the seed.

use std::fmt;

use kindling_tests::{Flags, Outcome, Rng, is_classifier, kindling, rng};
use rand::RngExt;
use serde_json::Value;

/// The largest network that is attacked, in parameters: checkpoints of larger ones take the time of many cases.
const MOST_PARAMETERS: u64 = 7_000_000;
/// Runs of a case besides the undisturbed one.
const RUNS: usize = 3;

/// A configuration, and what its runs are disturbed with.
pub(crate) struct Case {
    pub(crate) gan: bool,
    pub(crate) flags: Flags,
    pub(crate) disturbances: Vec<Disturbance>,
}

/// What happens to a run, sitting by sitting; the last one after these is left alone.
pub(crate) struct Disturbance {
    pub(crate) sittings: Vec<Sitting>,
    /// Share of the undisturbed run's peak that the first sittings may use, in percent.
    pub(crate) budget: Option<u64>,
}

/// What happens to a process.
pub(crate) struct Sitting {
    /// `KINDLING_FAULT`.
    pub(crate) faults: String,
    pub(crate) end: End,
}

/// How it ends, if it does not by itself before.
#[derive(Clone)]
pub(crate) enum End {
    Itself,
    /// `KINDLING_KILL`.
    Point(String),
    /// Milliseconds from its start until it is killed from outside.
    After(u64),
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = if self.gan { "gan train" } else { "train" };
        write!(formatter, "kindling {command} {}", self.flags)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Sitting { faults, end } in &self.sittings {
            let end = match end {
                End::Itself => String::new(),
                End::Point(point) => format!(" KINDLING_KILL=\"{point}\""),
                End::After(milliseconds) => format!(" killed after {milliseconds} ms"),
            };
            write!(formatter, "[KINDLING_FAULT=\"{faults}\"{end}]")?;
        }
        self.budget.map_or(Ok(()), |share| write!(formatter, " in {share} % of the memory"))
    }
}

/// The small classifiers of the registry.
pub(crate) fn models() -> Vec<String> {
    let all = Outcome::of(kindling().args(["models", "--format", "json"])).succeeded();
    let models: Vec<String> = all
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|model| is_classifier(model) && model["params"].as_u64().is_some_and(|count| count < MOST_PARAMETERS))
        .filter_map(|model| model["name"].as_str().map(str::to_string))
        .collect();
    assert!(models.len() > 3, "the registry has no small networks: {}", all.stdout);
    models
}

impl Case {
    pub(crate) fn new(seed: u64, models: &[String]) -> Self {
        let mut rng = rng(seed);
        let gan = percent(&mut rng, 15);
        let batch: u64 = rng.random_range(4..=10);
        let most = rng.random_range(2..=5).min(batch);
        // As the command divides a batch: as few groups as possible, as even as possible.
        let group = batch.div_ceil(batch.div_ceil(most));
        let steps = rng.random_range(3..=8);
        let mut flags = format!("--batch-size {batch} --ghost-batch-size {most} --seed {}", rng.random_range(0..=9999));
        flags += &format!(" --precision {}", one_of(&mut rng, &["f32", "f32", "f32", "bf16", "f16"]));
        if percent(&mut rng, 80) {
            flags += &format!(" --micro-batch {}", rng.random_range(group..=batch));
        }
        if percent(&mut rng, 70) {
            flags += &format!(" --activation-checkpointing {}", one_of(&mut rng, &["none", "stages", "blocks"]));
        }
        if percent(&mut rng, 40) {
            flags += " --clip-norm 1";
        }
        flags += &format!(" --workers {}", rng.random_range(1..=3));
        flags += &if gan { of_two_networks(&mut rng, steps) } else { of_a_classifier(&mut rng, steps, models) };
        let disturbances = (0..RUNS).map(|_| Disturbance::new(&mut rng, gan, steps)).collect();
        Self { gan, flags: Flags::of(&flags), disturbances }
    }
}

/// True so many times in a hundred.
fn percent(rng: &mut Rng, share: u32) -> bool {
    rng.random_ratio(share, 100)
}

/// One of several.
fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.random_range(0..all.len())]
}

fn of_a_classifier(rng: &mut Rng, steps: u64, models: &[String]) -> String {
    let mut flags = format!(
        " --model {} --image-size {} --max-steps {steps} --checkpoint-steps {}",
        one_of(rng, &models.iter().collect::<Vec<_>>()),
        one_of(rng, &[32, 32, 64]),
        rng.random_range(1..=4)
    );
    flags +=
        one_of(rng, &["", " --lr 0.0005", " --optimizer sgd --lr 0.001", " --optimizer sgd --momentum 0 --lr 0.002"]);
    for (share, more) in [
        (50, " --ema 0.9"),
        (50, " --augment light"),
        (40, " --drop-rate 0.2"),
        (30, " --drop-path-rate 0.2"),
        (20, " --label-smoothing 0.1"),
        (20, " --class-weights 1,2,0.5"),
    ] {
        if percent(rng, share) {
            flags += more;
        }
    }
    flags
}

fn of_two_networks(rng: &mut Rng, steps: u64) -> String {
    let mut flags = format!(
        " --model dcgan_64 --features 4 --iterations {steps} --compare 0 --checkpoint-iterations {} --sample-iterations {}",
        rng.random_range(1..=4),
        rng.random_range(2..=8)
    );
    flags += &format!(" --discriminator-steps {}", rng.random_range(1..=2));
    flags += one_of(rng, &["", " --loss non-saturating", " --loss least-squares"]);
    flags += one_of(rng, &["", " --spectral-norm off"]);
    flags += one_of(rng, &["", " --lecam 0"]);
    flags += one_of(rng, &["", " --diff-augment none"]);
    flags
}

const OF_A_CLASSIFIER: [&str; 8] =
    ["upload", "forward", "backward", "finite-check", "optimizer", "commit", "checkpoint", "eval"];
const OF_TWO_NETWORKS: [&str; 12] = [
    "fake-images",
    "upload",
    "forward",
    "backward",
    "finite-check",
    "optimizer",
    "commit",
    "checkpoint",
    "generator-forward",
    "generator-backward",
    "generator-finite-check",
    "generator-optimizer",
];
/// All points of `KINDLING_KILL`; `tests/tests/kill_points.rs` holds this list against the command's.
const POINTS: [&str; 16] = [
    "create",
    "half",
    "sync",
    "rename",
    "renamed",
    "folder",
    "file",
    "file-half",
    "file-sync",
    "folder-sync",
    "aside",
    "folder-rename",
    "folder-renamed",
    "tidy",
    "line",
    "line-half",
];

impl Disturbance {
    fn new(rng: &mut Rng, gan: bool, steps: u64) -> Self {
        let sittings = rng.random_range(1..=4);
        let sittings = (0..sittings).map(|_| Sitting::new(rng, gan, steps)).collect();
        let budget = percent(rng, 25).then(|| rng.random_range(40..=110));
        Self { sittings, budget }
    }
}

impl Sitting {
    fn new(rng: &mut Rng, gan: bool, steps: u64) -> Self {
        let count = one_of(rng, &[0, 1, 1, 2, 3, 4]);
        let mut fault = || {
            let kind = one_of(rng, &["oom", "oom", "oom", "panic", "panic", "panic", "toolarge", "error"]);
            let phase = one_of(rng, if gan { &OF_TWO_NETWORKS[..] } else { &OF_A_CLASSIFIER });
            let step = rng.random_range(1..=steps);
            let micro = if percent(rng, 30) { format!(",micro={}", rng.random_range(0..=2)) } else { String::new() };
            format!("{kind}@step={step},phase={phase}{micro}")
        };
        let faults: Vec<String> = (0..count).map(|_| fault()).collect();
        let end = match rng.random_range(0..=9) {
            0..=1 => End::Itself,
            2..=3 => End::After(rng.random_range(20..=1500)),
            _ => End::Point(format!("{}@{}", one_of(rng, &POINTS), rng.random_range(1..=12))),
        };
        Self { faults: faults.join(";"), end }
    }
}
