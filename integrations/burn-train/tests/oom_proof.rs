//! What the strategy promises.

mod common;

use burn::module::Module;
use common::{Ended, Fault, Net, Norm, Phase, Run, bits, everything, largest_difference};

/// An undisturbed run of a network with Burn's batch normalisation and dropout.
fn stock() -> Run {
    Run { norm: Norm::Burn, dropout: true, ..Run::default() }
}

fn same(a: &Ended, b: &Ended) {
    assert!(a.error.is_none() && b.error.is_none(), "{:?} {:?}", a.error, b.error);
    assert!(bits(&a.net) == bits(&b.net), "weights and running statistics differ");
    assert!(a.metrics == b.metrics, "the metrics saw something else");
    for (part, (a, b)) in ["model", "optimizer", "scheduler"].iter().zip(a.checkpoint.iter().zip(&b.checkpoint)) {
        assert!(a == b, "the {part} of the last checkpoint differs");
    }
}

#[test]
fn while_everything_fits_the_run_is_burns_own_to_the_bit() {
    for accumulation in [None, Some(3)] {
        let ours = Run { accumulation, ..stock() };
        let burns = Run { burns_own: true, ..ours.clone() };
        same(&ours.go(), &burns.go());
    }
}

#[test]
fn an_interruption_ends_the_run_where_it_ends_burns_own() {
    let ours = Run { stop_after: Some(2), ..stock() };
    let burns = Run { burns_own: true, ..ours.clone() };
    same(&ours.go(), &burns.go());
}

#[test]
fn early_stopping_ends_the_run_where_it_ends_burns_own() {
    let ours = Run { early_stopping: true, epochs: 9, ..stock() };
    let burns = Run { burns_own: true, ..ours.clone() };
    let (ours, burns) = (ours.go(), burns.go());
    same(&ours, &burns);
    assert!(!ours.metrics.iter().any(|line| line.starts_with("9 ")), "it was stopped");
}

#[test]
fn an_oom_at_any_place_leaves_the_run_unchanged() {
    for (seed, accumulation, micro_batch) in [(Some(5), None, None), (Some(5), Some(3), Some(8))] {
        let run = Run { seed, accumulation, micro_batch, ..stock() };
        let undisturbed = run.go();
        assert!(undisturbed.recoveries.is_empty());
        let phases = [Phase::Upload, Phase::Forward, Phase::Backward, Phase::Optimizer, Phase::Optimized, Phase::Infer];
        for phase in phases {
            for call in [0, 2] {
                let disturbed = Run { faults: vec![Fault::oom(phase, call)], ..run.clone() }.go();
                assert_eq!(disturbed.recoveries, ["freed what was cached"], "{phase:?} {call}");
                same(&disturbed, &undisturbed);
            }
        }
    }
}

#[test]
fn a_smaller_micro_batch_changes_rounding_only() {
    for (norm, dropout) in [(Norm::None, false), (Norm::Kindling, true)] {
        let whole = Run { norm, dropout, ..Run::default() };
        let undisturbed = whole.go();
        let small = Run { holds: 8, ..whole.clone() }.go();
        let levers = ["freed what was cached", "micro-batch 24 -> 16", "micro-batch 16 -> 8"];
        assert_eq!(small.recoveries[..3], levers, "in training; the validation batch of 16 follows");
        let from_the_start = Run { micro_batch: Some(8), ..whole }.go();
        assert!(bits(&small.net) == bits(&from_the_start.net), "{norm:?}");
        let difference = largest_difference(&small.net, &undisturbed.net);
        assert!(difference > 0.0 && difference < 1e-5, "{norm:?}: {difference}");
    }
}

#[test]
fn a_run_that_needed_smaller_parts_resumes_from_burns_checkpoint() {
    // A resumed loader of Burn's starts with the first epoch's order again.
    let run = Run { holds: 8, norm: Norm::Kindling, shuffle: false, ..Run::default() };
    let through = run.go();
    let first = Run { epochs: 1, ..run.clone() }.go();
    let resumed = Run { resume: Some((1, first.folder.clone())), ..run }.go();
    assert!(through.error.is_none() && resumed.error.is_none());
    assert!(bits(&through.net) == bits(&resumed.net));
}

#[test]
fn what_never_fits_ends_the_run_with_the_weights_of_the_last_good_step() {
    let run = Run { epochs: 1, ..Run::default() };
    let never = Run { holds: 0, ..run.clone() }.go();
    let error = never.error.as_deref().unwrap_or_default();
    assert!(error.contains("even 8 images at once do not fit"), "{error}");
    assert!(bits(&never.net) == bits(&Net::new(&run).valid()), "not a step was taken");

    // The third step and everything after it.
    let later = Run { faults: (2..20).map(|call| Fault::oom(Phase::Optimizer, call)).collect(), ..run.clone() }.go();
    assert!(later.error.is_some());
    assert!(bits(&later.net) == bits(&Run { stop_after: Some(2), ..run }.go().net), "two steps were");
}

#[test]
fn a_tensor_that_can_never_fit_is_not_tried_again() {
    let fault = Fault { phase: Phase::Forward, call: 0, text: "can't allocate buffer of size: 68719476736" };
    let ended = Run { faults: vec![fault], ..Run::default() }.go();
    assert_eq!(ended.recoveries, ["micro-batch 24 -> 16"]);
}

#[test]
#[should_panic(expected = "The tensors have incompatible shapes")]
fn a_panic_that_is_no_lack_of_memory_goes_on() {
    let fault = Fault { phase: Phase::Forward, call: 1, text: "The tensors have incompatible shapes" };
    Run { faults: vec![fault], ..Run::default() }.go();
}

#[test]
fn burns_statistics_move_once_for_each_micro_batch_and_ours_once_a_step() {
    let moved = |norm, micro_batch| {
        let run = Run { norm, micro_batch: Some(micro_batch), epochs: 1, batches: 1, rate: 0.0, ..Run::default() };
        everything(&run.go().net)
    };
    let distance = |norm| {
        let (whole, parts) = (moved(norm, 24), moved(norm, 8));
        whole.iter().zip(&parts).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    assert!(distance(Norm::Kindling) < 1e-6);
    assert!(distance(Norm::Burn) > 1e-3, "as the documentation says");
}
