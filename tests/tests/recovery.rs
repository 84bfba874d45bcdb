//! An out-of-memory error changes the time a run takes, never its result: the built command against failures that are
//! made to happen (`KINDLING_FAULT`), and against memory that is really short.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kindling_tests::{
    Bench, Flags, OfEachTask, Optional, Outcome, SEGMENTATION, Started, Suite, Task, Test, When, assert_same_bits,
    budget_with_room_for, checkpoints, events, read_tensors, resume, steps, toml_value,
};
use serde_json::Value;

/// Everything that could depend on how a batch is cut: augmentation, dropout, drop-path, an average of the weights,
/// clipping, and AdamW, which is the default. Of 12 pictures a class 8 are trained on, so an epoch has batches of 10, 10
/// and 4, and a batch of 10 has normalisation groups of 4, 3 and 3.
const EVERYTHING: &str = "--image-size 64 --batch-size 10 --ghost-batch-size 4 --ema 0.9 --clip-norm 1 --augment light \
                          --drop-path-rate 0.2 --drop-rate 0.2 --checkpoint-steps 3 --max-steps 8 --seed 3";
const EACH: usize = 12;
/// A network for segmentation, which gets images with masks.
const UNET: &str = SEGMENTATION.model;

const TESTS: &[(&str, fn())] = &[
    ("faults_in_every_phase_leave_the_bits_of_mobilenet_v2", || faults_everywhere("mobilenet_v2")),
    ("faults_in_every_phase_leave_the_bits_of_mobilenet_v3_small", || faults_everywhere("mobilenet_v3_small")),
    ("faults_in_every_phase_leave_the_bits_of_efficientnet_b0", || faults_everywhere("efficientnet_b0")),
    ("faults_in_every_phase_leave_the_bits_of_a_network_for_segmentation", || faults_everywhere(UNET)),
    (
        "recomputation_gives_the_same_bits_with_a_frozen_backbone",
        recomputation_gives_the_same_bits_with_a_frozen_backbone,
    ),
    ("the_micro_batch_and_ooms_in_a_row_change_no_bit", the_micro_batch_and_ooms_in_a_row_change_no_bit),
    ("mobilenet_v3_small_in_three_fifths_of_the_memory_it_wants_ends_within_it_and_with_the_same_result", || {
        a_share_of_the_memory_is_enough(0.6, "mobilenet_v3_small", 288)
    }),
    ("mobilenet_v2_in_three_fifths_of_the_memory_it_wants_ends_within_it_and_with_the_same_result", || {
        a_share_of_the_memory_is_enough(0.6, "mobilenet_v2", 192)
    }),
    ("efficientnet_b0_in_three_fifths_of_the_memory_it_wants_ends_within_it_and_with_the_same_result", || {
        a_share_of_the_memory_is_enough(0.6, "efficientnet_b0", 192)
    }),
    // Most of its memory are the maps of the decoder's last block, which are all there while that block is recomputed: four fifths are
    // enough for what is counted, and on some machines not for the gaps that an allocator leaves beside it.
    (
        "a_network_for_segmentation_in_nine_tenths_of_the_memory_it_wants_ends_within_it_and_with_the_same_result",
        || a_share_of_the_memory_is_enough(0.9, UNET, 128),
    ),
    (
        "a_budget_below_what_an_update_takes_ends_with_the_report_and_within_it",
        a_budget_below_what_an_update_takes_ends_with_the_report_and_within_it,
    ),
    (
        "settings_of_memory_that_make_no_sense_are_one_sentence_each",
        settings_of_memory_that_make_no_sense_are_one_sentence_each,
    ),
];

/// By day a segmentation meets every fault once, in [`faults_everywhere`].
const OF_EACH_TASK: &[OfEachTask] = &[
    (
        "a_fault_in_every_phase_of_the_first_step_and_of_the_last_leaves_the_bits",
        When::ByNight,
        a_fault_in_every_phase_of_the_first_step_and_of_the_last_leaves_the_bits,
    ),
    ("recomputation_found_on_the_way_leaves_the_bits", When::ByNight, recomputation_found_on_the_way_leaves_the_bits),
    (
        "a_budget_that_nothing_fits_into_is_one_sentence_and_more_memory_goes_on_with_the_same_bits",
        When::ByNight,
        a_budget_that_nothing_fits_into_is_one_sentence_and_more_memory_goes_on_with_the_same_bits,
    ),
    (
        "a_run_that_gives_up_saves_its_last_step_and_goes_on_with_the_same_bits",
        When::ByNight,
        a_run_that_gives_up_saves_its_last_step_and_goes_on_with_the_same_bits,
    ),
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.add(&Optional::nothing(), TESTS.iter().map(|&(name, run)| Test::new(name, run)).collect());
    suite.add_of_each_task(OF_EACH_TASK, "a minute or two");
    suite.run()
}

/// A run that ended well.
struct Run {
    path: PathBuf,
    result: Value,
}

impl Run {
    /// A run in the folder `name`, with these faults.
    fn of(bench: &Bench, name: &str, flags: &str, faults: &str) -> Self {
        let outcome = Outcome::of(&mut bench.command(name, flags, faults)).succeeded();
        assert_eq!(outcome.stderr, "", "a quiet run stays quiet");
        Self { path: bench.path(name), result: outcome.result() }
    }

    /// Recoveries in the order they happened.
    fn recoveries(&self) -> Vec<Value> {
        let found: Vec<Value> = events(&self.path).into_iter().filter(|event| event["event"] == "recovered").collect();
        assert_eq!(self.result["recoveries"].as_u64(), Some(found.len() as u64), "{}", self.result);
        found
    }

    /// What was done in each recovery.
    fn levers(&self) -> Vec<String> {
        self.recoveries().iter().map(|event| event["lever"].as_str().unwrap().to_string()).collect()
    }

    /// How many recoveries there were during something.
    fn recovered_during(&self, what: &str) -> usize {
        self.recoveries().iter().filter(|event| event["during"] == what).count()
    }

    /// The micro-batch of each step.
    fn micro_batches(&self) -> Vec<u64> {
        let steps = events(&self.path).into_iter().filter(|event| event["event"] == "step");
        steps.map(|event| event["micro_batch"].as_u64().unwrap()).collect()
    }

    fn peak(&self) -> u64 {
        self.result["peak_memory_bytes"].as_u64().unwrap()
    }

    fn assert_same_bits_as(&self, other: &Run, when: &str) {
        assert_same_bits(&other.path, &self.path, when);
    }
}

/// One fault in every step, including the first and the last, and in every phase: 14 in all.
const EVERYWHERE: [&str; 14] = [
    "oom@step=1,phase=optimizer",
    "panic@step=2,phase=upload,micro=2",
    "oom@step=3,phase=forward",
    "oom@step=3,phase=checkpoint",
    "oom@step=3,phase=eval",
    "panic@step=4,phase=backward,micro=1",
    "oom@step=5,phase=finite-check",
    "oom@step=6,phase=commit",
    "oom@step=6,phase=checkpoint",
    "panic@step=6,phase=checkpoint",
    "oom@step=7,phase=forward,micro=1",
    "oom@step=8,phase=backward,micro=2",
    "oom@step=8,phase=eval,micro=1",
    "oom@step=8,phase=checkpoint",
];

fn faults_everywhere(model: &str) {
    let bench = Bench::for_model(model, EACH);
    let flags = format!("{EVERYTHING} --model {model} --micro-batch 4 --activation-checkpointing none");
    let straight = Run::of(&bench, "straight", &flags, "");
    assert!(straight.recoveries().is_empty());
    let disturbed = Run::of(&bench, "disturbed", &flags, &EVERYWHERE.join(";"));
    disturbed.assert_same_bits_as(&straight, model);
    let of = ["training", "evaluation", "checkpoint"].map(|what| disturbed.recovered_during(what));
    assert_eq!(of, [8, 2, 4], "one event for each fault");
    assert_eq!(disturbed.micro_batches(), straight.micro_batches());
}

fn a_fault_in_every_phase_of_the_first_step_and_of_the_last_leaves_the_bits(task: Task) {
    let bench = Bench::for_model(task.model, EACH);
    // Running out of memory once in a step is no reason to change the plan.
    let Task { model, image_size, .. } = task;
    let own = format!("--image-size {image_size} --model {model} --micro-batch 10 --max-steps 4");
    let flags = Flags::of(EVERYTHING).with(&own).to_string();
    let straight = Run::of(&bench, "straight", &flags, "");
    for phase in ["upload", "forward", "backward", "finite-check", "optimizer", "commit"] {
        let faults = format!("oom@step=1,phase={phase};panic@step=4,phase={phase}");
        let disturbed = Run::of(&bench, phase, &flags, &faults);
        disturbed.assert_same_bits_as(&straight, phase);
        assert_eq!(disturbed.levers(), ["freed what was cached"; 2], "{phase}");
        assert_eq!(disturbed.micro_batches(), straight.micro_batches(), "{phase}");
    }
}

fn recomputation_found_on_the_way_leaves_the_bits(task: Task) {
    let bench = Bench::for_model(task.model, EACH);
    let flags = format!("{EVERYTHING} --model {} --micro-batch 4", task.model);
    let straight = Run::of(&bench, "straight", &format!("{flags} --activation-checkpointing none"), "");
    // Twice in one step, and at once where nothing freed would help.
    let faults =
        "oom@step=2,phase=backward,micro=1;panic@step=2,phase=backward,micro=1;toolarge@step=5,phase=optimizer";
    let disturbed = Run::of(&bench, "disturbed", &flags, faults);
    disturbed.assert_same_bits_as(&straight, "recomputing more and more");
    let expected = [
        "freed what was cached",
        "activation checkpointing none -> stages",
        "activation checkpointing stages -> blocks",
    ];
    assert_eq!(disturbed.levers(), expected);
}

fn recomputation_gives_the_same_bits_with_a_frozen_backbone() {
    let bench = Bench::new(EACH);
    let source = Run::of(&bench, "source", "--image-size 64 --batch-size 8 --max-steps 1 --model mobilenet_v2", "");
    let weights = source.path.join("weights.safetensors");
    for freeze in ["backbone", "3"] {
        let flags = format!(
            "{EVERYTHING} --model mobilenet_v2 --micro-batch 4 --freeze {freeze} --weights {}",
            weights.display()
        );
        let [none, stages, blocks] = ["none", "stages", "blocks"].map(|level| {
            Run::of(&bench, &format!("{freeze}-{level}"), &format!("{flags} --activation-checkpointing {level}"), "")
        });
        stages.assert_same_bits_as(&none, &format!("freeze {freeze}, stages"));
        blocks.assert_same_bits_as(&none, &format!("freeze {freeze}, blocks"));
        let [first, last] = [&weights, &none.path.join("weights-last.safetensors")].map(|path| {
            let mut tensors = read_tensors(path);
            (tensors.remove("stem.conv.weight").unwrap(), tensors.remove("head.classifier.weight").unwrap())
        });
        assert!(first.0 == last.0 && first.1 != last.1, "the head has trained and the stem has not");
    }
}

/// A batch of 16 in groups of 4, asked for at once. An epoch has batches of 16 and 8.
const SHRINKING: &str = "--batch-size 16 --ghost-batch-size 4 --micro-batch 16 --ema 0.9 --clip-norm 1 --augment light \
                         --drop-path-rate 0.2 --drop-rate 0.2 --seed 3 --max-steps 4";

fn the_micro_batch_and_ooms_in_a_row_change_no_bit() {
    for (model, more) in [
        ("mobilenet_v2", "--optimizer sgd"),
        ("mobilenet_v3_small", "--precision bf16"),
        ("efficientnet_b0", "--augment heavy"),
        (UNET, "--loss generalised-dice+binary-focal --dice-over image"),
        // The maps that its decoder reads have two readers in the next block.
        ("unet-resnet18", ""),
        ("deeplabv3_mobilenet_v3_large", "--auxiliary-loss 0.5"),
    ] {
        let bench = Bench::for_model(model, EACH);
        let flags = Flags::of(&format!("{SHRINKING} --image-size 64 --model {model}")).with(more);
        let straight = Run::of(&bench, model, &flags.with("--micro-batch 4").to_string(), "");
        assert_eq!(straight.micro_batches(), [4; 4], "one normalisation group at a time");
        for micro_batch in ["16", "auto"] {
            let flags = flags.with(&format!("--micro-batch {micro_batch}")).to_string();
            let other = Run::of(&bench, &format!("{model}-{micro_batch}"), &flags, "");
            other.assert_same_bits_as(&straight, &format!("{model}, micro-batch {micro_batch}"));
        }
        let faults = "oom@step=1,phase=backward;oom@step=1,phase=backward,micro=2;toolarge@step=3,phase=forward";
        let at_once = Run::of(&bench, &format!("{model}-at-once"), &flags.to_string(), faults);
        at_once.assert_same_bits_as(&straight, &format!("{model}, groups at once, disturbed"));
        let one = flags.with("--micro-batch 4").to_string();
        let disturbed = Run::of(&bench, &format!("{model}-disturbed"), &one, faults);
        let levers = [
            "freed what was cached",
            "activation checkpointing none -> stages",
            "activation checkpointing stages -> blocks",
        ];
        assert_eq!(disturbed.levers(), levers);
        disturbed.assert_same_bits_as(&straight, &format!("{model}, disturbed"));
    }
}

fn a_share_of_the_memory_is_enough(share: f64, model: &str, size: usize) {
    let bench = Bench::for_model(model, EACH);
    // One group of 16: most of it are feature maps, of which activation checkpointing keeps less, and not weights, moments and gradients.
    let flags = Flags::of(&format!("{SHRINKING} --image-size {size} --model {model}")).with("--ghost-batch-size 16");
    let straight = Run::of(&bench, "straight", &flags.to_string(), "");
    let budget = budget_with_room_for((straight.peak() as f64 * share) as u64);
    let squeezed = Run::of(&bench, "squeezed", &format!("{flags} --memory-budget {budget}"), "");
    let (levers, peak) = (squeezed.levers(), squeezed.peak());
    eprintln!("{model} wants {}, may have {budget}, took {peak}; {levers:?}", straight.peak());
    assert!(peak < straight.peak(), "{model}: nothing was short");
    squeezed.assert_same_bits_as(&straight, model);
    assert!(peak as f64 <= 1.05 * budget as f64, "{model} took {peak} of {budget}");
}

/// Weights, moments, their average and the copies that an update makes do not get smaller with the micro-batch.
fn a_budget_below_what_an_update_takes_ends_with_the_report_and_within_it() {
    let bench = Bench::new(EACH);
    let flags = format!("{SHRINKING} --image-size 128 --model efficientnet_b0");
    let straight = Run::of(&bench, "straight", &flags, "");
    let weights = fs::metadata(straight.path.join("weights.safetensors")).unwrap().len();
    // Weights, velocity and the average, twice, and gradients.
    for copies in [3, 4, 6] {
        let budget = budget_with_room_for(copies * weights);
        let name = format!("{copies}-copies");
        let refused = Outcome::of(&mut bench.command(&name, &format!("{flags} --memory-budget {budget}"), ""));
        assert!(refused.stderr.contains("what would fit into"), "{}", refused.all());
        let sentence = refused.refused();
        assert!(sentence.contains("do not fit") && sentence.contains("memory budget"), "{sentence}");
        let peaks = events(&bench.path(&name)).into_iter().filter_map(|event| event["peak_memory_bytes"].as_u64());
        for peak in peaks {
            assert!(peak as f64 <= 1.05 * budget as f64, "it took {peak} of {budget}");
        }
    }
}

fn a_budget_that_nothing_fits_into_is_one_sentence_and_more_memory_goes_on_with_the_same_bits(task: Task) {
    let bench = Bench::for_model(task.model, EACH);
    let flags = format!("{EVERYTHING} --model {} --micro-batch 4 --activation-checkpointing none", task.model);
    let straight = Run::of(&bench, "straight", &flags, "");

    // From the first step: it begins again.
    let sentence = Outcome::of(&mut bench.command("never", &format!("{flags} --memory-budget 10MiB"), "")).refused();
    assert!(sentence.contains("do not fit") && sentence.contains("memory budget"), "{sentence}");
    Outcome::of(resume(&bench.path("never")).args(["--memory-budget", "8GiB"])).succeeded();
    assert_same_bits(&straight.path, &bench.path("never"), "after a budget that no step fitted into");

    // Later, because less memory is given: the run is as it was.
    let started = bench.command("less", &flags, "");
    let mut started = Started::new(started, &bench.path("less"));
    started.until_step(4);
    started.kill();
    let (run, before) = (bench.path("less"), checkpoints(&bench.path("less")));
    let sentence = Outcome::of(resume(&run).args(["--memory-budget", "10MiB"])).refused();
    assert!(sentence.contains("do not fit"), "{sentence}");
    assert_eq!(checkpoints(&run), before);
    Outcome::of(resume(&run).args(["--memory-budget", "8GiB"])).succeeded();
    assert_same_bits(&straight.path, &run, "after too small a budget");
}

fn a_run_that_gives_up_saves_its_last_step_and_goes_on_with_the_same_bits(task: Task) {
    let bench = Bench::for_model(task.model, EACH);
    let flags = format!("{EVERYTHING} --model {} --micro-batch 4 --activation-checkpointing none", task.model);
    let straight = Run::of(&bench, "straight", &flags, "");
    let cases = [
        // Freeing memory does not help, and there is nothing smaller.
        ("memory", "oom@step=5,phase=backward;oom@step=5,phase=backward", "do not fit"),
        ("at-once", "toolarge@step=5,phase=finite-check", "do not fit"),
        // Not a lack of memory, so it is not retried.
        ("device", "error@step=5,phase=commit", "the device failed at step 5"),
    ];
    for (name, faults, said) in cases {
        let sentence = Outcome::of(&mut bench.command(name, &flags, faults)).refused();
        assert!(sentence.contains(said), "{sentence}");
        let run = bench.path(name);
        let last = checkpoints(&run).pop().unwrap();
        assert_eq!(toml_value(&last.join("state.toml"), "step"), "4", "{name}: the step before it is saved");
        assert_eq!(steps(&run), [1, 2, 3, 4], "{name}");
        Outcome::of(&mut resume(&run)).succeeded();
        assert_same_bits(&straight.path, &run, name);
    }
}

fn settings_of_memory_that_make_no_sense_are_one_sentence_each() {
    let bench = Bench::new(EACH);
    let refused = |flags: &str, faults: &str| -> String {
        let sentence = Outcome::of(&mut bench.command("never", flags, faults)).refused();
        assert!(!bench.path("never").join("events.jsonl").exists(), "{flags} {faults}: nothing was begun");
        sentence
    };
    for (flags, part) in [
        ("--memory-budget banana", "`banana` is no amount of memory"),
        ("--memory-budget 120%", "`120%` is no share"),
        ("--memory-budget 0", "--memory-budget"),
        ("--micro-batch 0", "the micro-batch is 0"),
        ("--micro-batch half", "--micro-batch"),
        ("--micro-batch 2 --batch-size 8 --ghost-batch-size 4", "--ghost-batch-size 2"),
        ("--activation-checkpointing some", "none, stages or blocks"),
    ] {
        let sentence = refused(flags, "");
        assert!(sentence.contains(part), "{flags}: {sentence}");
    }
    for faults in [
        "boom",
        "oom@step=1",
        "boom@step=1,phase=finite-check",
        "oom@step=one,phase=finite-check",
        "oom@step=1,phase=lunch",
        "wrong@step=1",
        "wrong@step=1,scale=much",
        "wrong@step=1,stale=bread",
    ] {
        let sentence = refused("--max-steps 1", faults);
        assert!(sentence.contains("KINDLING_FAULT"), "{faults}: {sentence}");
        let left: &Path = &bench.path("never");
        std::fs::remove_dir_all(left).unwrap();
    }
}
