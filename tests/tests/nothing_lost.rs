//! Steps that are done are not lost when a run has to stop, and its log agrees with its checkpoints.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use kindling_tests::{
    Bench, Outcome, Started, assert_same_bits, budget_with_room_for, checkpoints, events, resume, steps, toml_value,
    train,
};
use serde_json::Value;

/// A step that fills the memory and cannot be made smaller.
const TIGHT: &str = "--model resnet18 --image-size 96 --batch-size 6 --ghost-batch-size 6 --micro-batch 6 --activation-checkpointing none \
                     --augment none --workers 1 --max-steps 12 --epochs 1";

#[test]
fn giving_up_for_lack_of_memory_saves_the_steps_that_were_done() {
    let bench = Bench::new(36);
    let straight = Outcome::of(&mut bench.command("straight", TIGHT, "")).succeeded();
    // What a step takes, and less beside it than the state of 128 MiB. What the process takes differs by more than 10 MiB between
    // machines, so the budget is not the least that would do.
    let budget = budget_with_room_for(straight.result()["peak_memory_bytes"].as_u64().unwrap()) + (56 << 20);
    let flags = format!("{TIGHT} --memory-budget {budget}");
    for (name, trace) in [("plain", "0"), ("with-traces", "1")] {
        let faults = "oom@step=9,phase=backward;oom@step=9,phase=backward";
        let outcome = Outcome::of(bench.command(name, &flags, faults).env("RUST_BACKTRACE", trace));
        assert_eq!(outcome.code, Some(1), "{}", outcome.all());
        assert!(outcome.stderr.contains("do not fit"), "{}", outcome.all());
        assert!(outcome.stderr.contains("what would fit into"), "{}", outcome.all());
        let run = bench.path(name);
        let last = checkpoints(&run).pop().unwrap_or_else(|| panic!("{name}: nothing was saved\n{}", outcome.all()));
        assert_eq!(toml_value(&last.join("state.toml"), "step"), "8", "{name}");
        assert_eq!(steps(&run), (1..=8).collect::<Vec<_>>(), "{name}");
        Outcome::of(resume(&run).args(["--memory-budget", "8GiB"])).succeeded();
        assert_same_bits(&bench.path("straight"), &run, name);
    }
}

/// Found by the attack: the failure that ends a run and a failure to read its state can happen together.
#[test]
fn the_last_checkpoint_of_a_run_that_ends_is_tried_twice() {
    let bench = Bench::new(12);
    let flags = "--image-size 32 --batch-size 4 --ghost-batch-size 4 --micro-batch 4 --activation-checkpointing none --max-steps 6 --checkpoint-steps 100";
    let faults = "toolarge@step=4,phase=optimizer;error@step=3,phase=checkpoint";
    let outcome = Outcome::of(&mut bench.command("run", flags, faults));
    assert_eq!(outcome.code, Some(1), "{}", outcome.all());
    assert!(bench.path("run").join("checkpoints/step-00000003").is_dir(), "{}", outcome.all());
}

/// The lines of a log without what depends on the time, and without what was done with the run.
fn told(run: &Path) -> Vec<String> {
    let history = ["resumed", "interrupted", "started"];
    let mut events = events(run);
    events.retain(|event| !history.contains(&event["event"].as_str().unwrap()));
    for event in &mut events {
        for key in ["seconds", "waiting_seconds", "images_per_second", "peak_memory_bytes"] {
            event.as_object_mut().unwrap().remove(key);
        }
    }
    events.iter().map(ToString::to_string).collect()
}

#[test]
fn a_log_that_lost_or_gained_lines_is_brought_in_line_with_the_checkpoint() {
    let bench = Bench::new(36);
    let flags = "--batch-size 4 --epochs 1 --checkpoint-steps 2 --max-steps 9";
    Outcome::of(&mut train(bench.data(), &bench.path("straight"), flags)).succeeded();
    let run = bench.path("run");
    let mut started = Started::new(train(bench.data(), &run, flags), &run);
    started.until(r#""event":"checkpoint","step":4"#, 1);
    started.kill();
    let log = run.join("events.jsonl");
    let whole = fs::read_to_string(&log).unwrap();
    let newest = checkpoints(&run).pop().unwrap();
    let step: u64 = toml_value(&newest.join("state.toml"), "step").parse().unwrap();
    // The log as it is after the disk was full while the last event before the checkpoint was written.
    let lost = format!(r#""event":"step","step":{step},"#);
    let without = |line: &&str| !line.contains(&lost);
    fs::write(&log, whole.lines().filter(without).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    Outcome::of(&mut resume(&run)).succeeded();
    assert_eq!(steps(&run), (1..=9).collect::<Vec<_>>(), "every step once");
    assert_eq!(told(&run), told(&bench.path("straight")));
}

/// Three of ten steps that worked only after memory was freed are too many: the fourth step had been computed, and the next
/// one is smaller.
#[test]
fn a_plan_that_is_left_because_it_worked_only_just_is_told_in_the_log() {
    let bench = Bench::new(12);
    let flags = "--image-size 32 --batch-size 8 --ghost-batch-size 2 --micro-batch 2 --max-steps 6";
    let faults = "oom@step=2,phase=backward;oom@step=3,phase=forward;oom@step=4,phase=backward";
    let run = bench.run("run", flags, faults);
    let events = events(&run);
    let number = |event: &Value, key: &str| event[key].as_u64().unwrap();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    let freed: Vec<&Value> = of("recovered").iter().map(|event| &event["lever"]).collect();
    assert_eq!(freed, ["freed what was cached"; 3]);
    let replanned = of("replanned");
    assert_eq!(replanned.len(), 1, "{replanned:?}");
    assert_eq!(number(replanned[0], "step"), 4);
    assert_eq!(replanned[0]["reason"], "the plan before worked only just");
    assert_eq!(replanned[0]["lever"], "activation checkpointing none -> stages");
}
