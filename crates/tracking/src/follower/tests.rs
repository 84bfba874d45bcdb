use std::collections::BTreeMap;

use kindling_runs::{Event, EventLog};

use super::*;
use crate::testing::{append, checkpoint, evaluated, run, started, step, warned};

const FOREVER: Duration = Duration::from_secs(600);

/// The end of a run for TensorBoard's table of hyperparameters.
const SESSION_END: &str = "_hparams_/session_end_info";

/// The trackers that are files.
const FILES: [Target; 3] = [Target::TensorBoard, Target::Wandb, Target::Csv];

fn export(run: &RunDir, target: &Target) {
    Follower::new(run, target).unwrap().finish(FOREVER).unwrap();
}

/// The one file that a tracker reads.
fn file_of(run: &RunDir, target: &Target) -> PathBuf {
    let mut place = target.place(run);
    while place.is_dir() {
        let mut inside: Vec<PathBuf> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()).collect();
        // W&B's folder of pictures.
        inside.retain(|path| !path.ends_with("files"));
        assert_eq!(inside.len(), 1, "{inside:?}");
        place = inside.remove(0);
    }
    place
}

/// Every series that has arrived, with its steps in order.
fn arrived(run: &RunDir, target: &Target) -> BTreeMap<String, Vec<u64>> {
    let bytes = fs::read(file_of(run, target)).unwrap();
    let pairs = match target {
        Target::TensorBoard => crate::tensorboard::arrived(&bytes),
        Target::Wandb => crate::wandb::arrived(&bytes),
        Target::Csv => crate::csv::arrived(&bytes),
        Target::Mlflow(_) => Vec::new(),
    };
    let mut series = BTreeMap::<String, Vec<u64>>::new();
    for (name, step) in pairs {
        series.entry(name).or_default().push(step);
    }
    series
}

fn steps(numbers: std::ops::RangeInclusive<u64>) -> Vec<Event> {
    numbers.map(|number| step(number, number.div_ceil(4))).collect()
}

fn complete() -> Vec<Event> {
    let mut events = vec![started()];
    events.extend(steps(1..=4));
    events.extend([evaluated(4, "validation"), checkpoint(4), warned(4, "one"), warned(4, "other")]);
    events.extend(steps(5..=8));
    events.extend([evaluated(8, "validation"), evaluated(8, "test"), Event::Finished { step: 8, seconds: 8.0 }]);
    events
}

#[test]
fn a_run_arrives_whole_while_it_is_in_progress_and_afterwards_alike() {
    for target in FILES {
        let folder = tempfile::tempdir().unwrap();
        let (during, after) = (run(&folder.path().join("a")), run(&folder.path().join("b")));
        let mut follower = Follower::new(&during, &target).unwrap();
        for event in complete() {
            append(&during, std::slice::from_ref(&event));
            append(&after, &[event]);
            while follower.poll().unwrap().behind {}
        }
        follower.finish(FOREVER).unwrap();
        export(&after, &target);
        let [during, after_it] = [&during, &after].map(|run| fs::read(file_of(run, &target)).unwrap());
        // Offline runs have names of their own, of one length.
        let is_same = if target == Target::Wandb { during.len() == after_it.len() } else { during == after_it };
        assert!(is_same, "{target}");
        let arrived = arrived(&after, &target);
        assert_eq!(arrived["train/loss"], (1..=8).collect::<Vec<_>>(), "{target}");
        assert_eq!(arrived["val/loss"], [4, 8], "{target}");
        assert_eq!(arrived["test/loss"], [8], "{target}");
        if target == Target::TensorBoard {
            assert_eq!(arrived["log/warned"], [4, 4]);
            assert_eq!(arrived["train/gradient_norm_in_epoch"], [4, 8]);
        }
    }
}

#[test]
fn a_run_that_resumes_from_an_earlier_step_repeats_none() {
    for target in FILES {
        for is_restarted in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let run = run(folder.path());
            append(&run, &[started()]);
            append(&run, &steps(1..=3));
            append(&run, &[checkpoint(3)]);
            append(&run, &steps(4..=6));
            let mut follower = Follower::new(&run, &target).unwrap();
            follower.poll().unwrap();
            if is_restarted {
                drop(follower);
                follower = Follower::new(&run, &target).unwrap();
            }
            EventLog::open(&run.events()).unwrap().rewind_to(3).unwrap();
            append(&run, &[Event::Resumed { step: 3 }]);
            append(&run, &steps(4..=5));
            follower.poll().unwrap();
            append(&run, &steps(6..=8));
            follower.finish(FOREVER).unwrap();
            drop(follower);
            export(&run, &target);
            let arrived = arrived(&run, &target);
            assert_eq!(arrived["train/loss"], (1..=8).collect::<Vec<_>>(), "{target}, restarted: {is_restarted}");
        }
    }
}

#[test]
fn a_kill_at_any_byte_leaves_what_is_continued_to_the_same_file() {
    let mut events = vec![started(), step(1, 1), evaluated(1, "validation"), warned(1, "one"), warned(1, "other")];
    events.extend([step(2, 1), evaluated(2, "test"), Event::Finished { step: 2, seconds: 2.0 }]);
    for target in FILES {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        append(&run, &events);
        export(&run, &target);
        let path = file_of(&run, &target);
        let whole = fs::read(&path).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            export(&run, &target);
            assert!(fs::read(&path).unwrap() == whole, "{target}: cut at byte {end} of {}", whole.len());
        }
    }
}

#[test]
fn exporting_again_changes_nothing() {
    for target in FILES {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        append(&run, &complete());
        export(&run, &target);
        let once = fs::read(file_of(&run, &target)).unwrap();
        export(&run, &target);
        assert!(fs::read(file_of(&run, &target)).unwrap() == once, "{target}");
    }
}

#[test]
fn two_followers_of_one_run_never_tell_the_same_tracker() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let first = Follower::new(&run, &Target::Csv).unwrap();
    assert!(matches!(Follower::new(&run, &Target::Csv), Err(TrackingError::Busy { .. })));
    Follower::new(&run, &Target::TensorBoard).unwrap();
    drop(first);
    Follower::new(&run, &Target::Csv).unwrap();
}

#[test]
fn what_cannot_be_written_arrives_when_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    append(&run, &complete());
    let place = Target::Csv.place(&run);
    let mut follower = Follower::new(&run, &Target::Csv).unwrap();
    fs::create_dir(&place).unwrap();
    for _ in 0..2 {
        assert!(matches!(follower.poll(), Err(TrackingError::Io { .. })));
    }
    fs::remove_dir(&place).unwrap();
    follower.finish(FOREVER).unwrap();
    assert_eq!(arrived(&run, &Target::Csv)["train/loss"], (1..=8).collect::<Vec<_>>());
}

#[test]
fn a_loss_that_is_no_number_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let evaluated = |step, loss| Event::Evaluated {
        step,
        epoch: 1,
        split: "validation".into(),
        loss,
        accuracy: Some(f64::INFINITY),
        mae: None,
        r2: None,
        samples: 1,
        dice: None,
    };
    append(&run, &[started(), evaluated(1, f64::NAN), evaluated(2, f64::NEG_INFINITY)]);
    for target in FILES {
        export(&run, &target);
        export(&run, &target);
        assert_eq!(arrived(&run, &target)["val/loss"], [1, 2], "{target}");
    }
    let table = fs::read_to_string(Target::Csv.place(&run)).unwrap();
    assert!(table.contains("\n1,1,val,0,NaN,,inf,") && table.contains("\n2,1,val,0,-inf,,inf,"), "{table}");
}

#[test]
fn a_run_that_is_made_longer_after_its_end_goes_on_where_it_was_told() {
    for target in FILES {
        let folder = tempfile::tempdir().unwrap();
        let [told_twice, told_once] = ["a", "b"].map(|name| run(&folder.path().join(name)));
        let mut longer = vec![Event::Extended { step: 8, steps_total: 10, lr: 0.1 }];
        longer.extend(steps(9..=10));
        longer.push(Event::Finished { step: 10, seconds: 10.0 });
        append(&told_twice, &complete());
        export(&told_twice, &target);
        append(&told_twice, &longer);
        export(&told_twice, &target);
        append(&told_once, &[complete(), longer].concat());
        export(&told_once, &target);
        let [mut twice, mut once] = [&told_twice, &told_once].map(|run| arrived(run, &target));
        // An event file has both ends.
        assert_eq!(twice.remove(SESSION_END).is_some(), once.remove(SESSION_END).is_some());
        assert_eq!(once["train/loss"], (1..=10).collect::<Vec<_>>(), "{target}");
        assert_eq!(twice, once, "{target}");
    }
}

#[test]
fn a_gan_is_told_with_its_pictures_and_distances_from_before_its_first_iteration_on() {
    let iteration = |step: u64| Event::Iteration {
        step,
        epoch: 1,
        discriminator_loss: 0.5,
        generator_loss: 1.5,
        discriminator_norm: 1.0,
        generator_norm: 2.0,
        real_believed: 0.75,
        made_believed: 0.25,
        spread: 0.5,
        images_per_second: 10.0,
        micro_batch: 4,
        peak_memory_bytes: 1 << 20,
        seconds: step as f64,
    };
    let compared = |step| Event::Compared { step, frechet: 20.0, kernel: 0.5, samples: 64 };
    let sampled = |step| Event::Sampled { step, path: "samples/a.png".into() };
    for target in FILES {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        fs::create_dir(run.samples()).unwrap();
        let mut png = png::Encoder::new(File::create(run.samples().join("a.png")).unwrap(), 3, 2);
        png.set_color(png::ColorType::Grayscale);
        png.write_header().unwrap().write_image_data(&[0; 6]).unwrap();
        append(&run, &[started(), compared(0), sampled(0), iteration(1), iteration(2), compared(2), sampled(2)]);
        append(&run, &[Event::Finished { step: 2, seconds: 2.0 }]);
        export(&run, &target);
        let arrived = arrived(&run, &target);
        assert_eq!(arrived["train/discriminator_loss"], [1, 2], "{target}");
        assert_eq!(arrived["val/frechet_distance"], [0, 2], "{target}");
        if target != Target::Csv {
            assert_eq!(arrived["samples"], [0, 2], "{target}");
        }
        let once = fs::read(file_of(&run, &target)).unwrap();
        export(&run, &target);
        assert!(fs::read(file_of(&run, &target)).unwrap() == once, "{target}");
    }
}
