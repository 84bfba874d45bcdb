//! Checkpoints that are saved by the clock, and what they cost.
#![allow(clippy::unwrap_used)]

use std::fs;

use kindling_tests::{Bench, Outcome, Started, assert_says, events, newest_step};

/// No checkpoint by the number of steps.
const NOT_BY_STEPS: &str = "--batch-size 4 --checkpoint-steps 1000000";

#[test]
fn without_a_second_that_has_passed_the_end_alone_is_saved_and_the_report_says_what_that_took() {
    let bench = Bench::new(24);
    let short = format!("{NOT_BY_STEPS} --image-size 32 --epochs 1 --max-steps 5");
    let run = bench.run("run", &short, "");
    let events = events(&run);
    let saved: Vec<_> = events.iter().filter(|event| event["event"] == "checkpoint").collect();
    let [last] = saved.as_slice() else { panic!("no ten minutes have passed: {saved:?}") };
    assert_eq!(last["step"], 5);
    assert!(last["seconds"].as_f64().unwrap() > 0.0, "{last}");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("1\u{a0}checkpoint saved in "), "the report does not say what it took");
    let sentence = Outcome::of(&mut bench.command("never", &format!("{short} --checkpoint-every 0s"), "")).refused();
    assert_says(&sentence, &["time between checkpoints"]);
}

/// In the middle of an epoch, which takes several seconds.
#[test]
fn a_checkpoint_is_saved_every_second() {
    let bench = Bench::new(200);
    let flags = format!("{NOT_BY_STEPS} --model resnet18 --image-size 160 --augment none --checkpoint-every 1s");
    let run = bench.path("run");
    let mut started = Started::new(bench.command("run", &flags, ""), &run);
    started.until(r#""event":"checkpoint","#, 2);
    assert!(newest_step(&run) > 0);
    // Which saves one more, however soon.
    started.interrupt();
    let (mut now, mut times) = (0.0, vec![0.0]);
    for event in events(&run) {
        match event["event"].as_str().unwrap() {
            "step" => now = event["seconds"].as_f64().unwrap(),
            "checkpoint" => times.push(now),
            "evaluated" => panic!("an epoch ended, and a checkpoint is saved then in any case: {event}"),
            _ => {}
        }
    }
    assert!(times.len() > 2, "{times:?}");
    times.truncate(3);
    // The time of a checkpoint is that of the step before it.
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] > 0.9), "a second has not passed: {times:?}");
}
