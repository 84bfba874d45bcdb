//! Two networks against each other: faults and kills through both halves, samples, refusals.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{
    CLASSES, Flags, Outcome, Started, assert_same_bits, checkpoints, events, iterations, json_of, kindling, picture,
    picture_folder, read_tensors, train,
};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

/// Everything on, small: two rounds of the discriminator, micro-batches, spectral norm, average, augmentation, LeCam.
const FLAGS: &str = "--model dcgan_64 --features 4 --iterations 12 --batch-size 8 --discriminator-steps 2 --ghost-batch-size 4 \
                     --micro-batch 4 --diff-augment colour,translation,cutout --spectral-norm on --lecam 0.1 --ema 0.9 \
                     --checkpoint-iterations 3 --sample-iterations 6 --compare 0 --seed 5 --device cpu";

fn gan(data: &Path, run: &Path, flags: &str) -> Command {
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").args(["gan", "train", "--quiet", "--data"]).arg(data);
    command.arg("--out").arg(run).args(flags.split_whitespace());
    command
}

fn resume(run: &Path) -> Command {
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").args(["gan", "train", "--quiet", "--resume"]).arg(run);
    command
}

/// A folder of images and a finished run on it.
struct Place {
    folder: TempDir,
    data: PathBuf,
    run: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("run"));
        picture_folder(&data, 12);
        Self { folder, data, run }
    }

    fn trained() -> Self {
        Self::trained_with(FLAGS)
    }

    fn trained_with(flags: &str) -> Self {
        let place = Self::new();
        Outcome::of(&mut gan(&place.data, &place.run, flags)).succeeded();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Tries to train, expects a refusal before anything was written, and returns the sentence.
    fn refused(&self, data: &Path, flags: &str) -> String {
        let run = self.path("refused");
        let sentence = Outcome::of(&mut gan(data, &run, flags)).refused();
        assert!(!run.exists(), "a run that was refused left a folder; {sentence}");
        sentence
    }
}

/// Fails unless two runs went through the same iterations and ended with the same bits, and left the files that they should.
fn assert_same(run: &Path, other: &Path, when: &str) {
    let last = checkpoints(run).pop().unwrap();
    let mut names: Vec<String> =
        fs::read_dir(&last).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let expected = [
        "SHA256SUMS",
        "discriminator-optimizer.safetensors",
        "discriminator-weights.safetensors",
        "events.jsonl",
        "generator-average.safetensors",
        "generator-optimizer.safetensors",
        "generator-weights.safetensors",
        "spectral.safetensors",
        "state.toml",
    ];
    assert_eq!(names, expected, "{when}");
    for name in ["weights.safetensors", "samples/step-00000006.png", "samples/step-00000012.png"] {
        assert!(run.join(name).is_file(), "{when}: no {name}");
    }
    assert_same_bits(run, other, when);
}

fn faults_in_both_halves_leave_the_bits(flags: &str) {
    let place = Place::trained_with(flags);
    let phases = [
        "fake-images",
        "upload",
        "forward",
        "backward",
        "finite-check",
        "optimizer",
        "generator-forward",
        "generator-backward",
        "generator-finite-check",
        "generator-optimizer",
        "commit",
    ];
    // One fault an iteration, so that cached memory is given back and the same micro-batch is tried again. Iterations whose gradients
    // are beyond a half format end before the optimizer, so the first phases are theirs.
    let skipped = events(&place.run).into_iter().filter(|event| event["event"] == "skipped");
    let skipped: Vec<u64> = skipped.filter_map(|event| event["step"].as_u64()).collect();
    let others = (1..).filter(|step| !skipped.contains(step));
    let schedule: Vec<String> = phases
        .iter()
        .zip(skipped.iter().copied().chain(others))
        .map(|(phase, step)| {
            let kind = if step % 2 == 0 { "oom" } else { "panic" };
            // An epoch's last batch is small: only the generator's half always has two micro-batches.
            let second = ["generator-forward", "generator-backward"].contains(phase);
            let micro = if second { ",micro=1" } else { "" };
            format!("{kind}@step={step},phase={phase}{micro}")
        })
        .chain(["oom@step=6,phase=checkpoint".to_string()])
        .collect();
    let run = place.path("faults");
    let mut command = gan(&place.data, &run, flags);
    Outcome::of(command.env("KINDLING_FAULT", schedule.join(";"))).succeeded();
    let recovered = events(&run).into_iter().filter(|event| event["event"] == "recovered").count();
    assert_eq!(recovered, schedule.len(), "every fault was met");
    assert_same(&place.run, &run, "with faults");
    assert_eq!(json_of(&run.join("metrics.json"))["recoveries"], schedule.len());
}

#[test]
fn faults_in_both_halves_leave_the_bits_of_a_gan() {
    faults_in_both_halves_leave_the_bits(FLAGS);
}

#[test]
fn faults_in_both_halves_leave_the_bits_of_a_gan_in_half_formats() {
    for precision in ["bf16", "f16"] {
        for recompute in ["none", "stages"] {
            faults_in_both_halves_leave_the_bits(&format!(
                "{FLAGS} --precision {precision} --activation-checkpointing {recompute}"
            ));
        }
    }
}

#[test]
fn a_gan_in_a_half_format_keeps_float32_weights_and_begins_where_float32_does() {
    let first = |precision: &str| -> Vec<f64> {
        let place = Place::trained_with(&format!("{FLAGS} --precision {precision}"));
        let newest = checkpoints(&place.run).pop().unwrap();
        for file in ["generator-weights", "generator-average", "discriminator-weights", "discriminator-optimizer"] {
            let tensors = read_tensors(&newest.join(file).with_extension("safetensors"));
            assert!(tensors.values().all(|tensor| tensor.dtype == "F32"), "{precision}: {file} is float32");
        }
        let metrics = json_of(&place.run.join("metrics.json"));
        assert_eq!(metrics["precision"], precision);
        let skipped = events(&place.run).into_iter().filter(|event| event["event"] == "skipped").count();
        assert_eq!(metrics["skipped_iterations"], skipped);
        let first = iterations(&place.run).swap_remove(0);
        ["discriminator_loss", "generator_loss", "spread"].map(|key| first[key].as_f64().unwrap()).to_vec()
    };
    let full = first("f32");
    let half = first("bf16");
    assert!(half != full, "bf16 rounds somewhere");
    let near = half.iter().zip(&full).all(|(half, full)| (half - full).abs() < 2e-2 * full.abs().max(1.0));
    assert!(near, "{half:?} in bf16, {full:?} in f32");
    // The first iterations of f16 are left out until the loss scale has been found, so its first is another.
    assert!(first("f16").iter().all(|number| number.is_finite()));
}

#[test]
fn a_gan_killed_again_and_again_and_resumed_ends_with_the_same_bits() {
    let place = Place::trained();
    let run = place.path("killed");
    let mut started = Started::new(gan(&place.data, &run, FLAGS), &run);
    // In the middle between checkpoints, right after one, and before the end.
    for step in [4, 6, 8, 11] {
        started.until(&format!(r#""event":"iteration","step":{step},"#), 1);
        started.kill();
        started = Started::new(resume(&run), &run);
    }
    started.end().succeeded();
    assert_same(&place.run, &run, "killed four times");
}

#[test]
fn a_gan_that_runs_out_of_memory_for_good_keeps_fewer_maps_and_ends_with_the_same_bits() {
    let place = Place::new();
    let flags = Flags::of(FLAGS).with("--micro-batch 8").to_string();
    // Twice in one iteration: freeing memory did not help.
    let faults = "oom@step=2,phase=forward;oom@step=2,phase=generator-backward";
    Outcome::of(gan(&place.data, &place.run, &flags).env("KINDLING_FAULT", faults)).succeeded();
    let levers: Vec<Value> = events(&place.run).into_iter().filter(|event| event["event"] == "recovered").collect();
    let levers: Vec<&Value> = levers.iter().map(|event| &event["lever"]).collect();
    assert_eq!(levers, ["freed what was cached", "activation checkpointing none -> stages"]);
    for (name, micro_batch) in [("whole", "8"), ("halves", "4")] {
        let run = place.path(name);
        let flags = Flags::of(&flags).with(&format!("--micro-batch {micro_batch}")).to_string();
        Outcome::of(&mut gan(&place.data, &run, &flags)).succeeded();
        assert_same(&run, &place.run, &format!("micro-batches of {micro_batch}"));
    }
}

#[test]
fn a_run_shows_what_it_made() {
    let place = Place::trained();
    let report = fs::read_to_string(place.run.join("report.html")).unwrap();
    assert_eq!(report.matches("data:image/png").count(), 3, "grids before, on the way and at the end");
    let grid = image::open(place.run.join("samples/step-00000012.png")).unwrap();
    // Eight by eight images of 64, and lines between them.
    assert_eq!((grid.width(), grid.height()), (8 * 66 + 2, 8 * 66 + 2));
    let told = iterations(&place.run);
    assert_eq!(told.len(), 12);
    assert!(told.iter().all(|event| event["spread"].as_f64().is_some_and(|spread| spread > 0.0)));
    let metrics = json_of(&place.run.join("metrics.json"));
    assert_eq!((metrics["iterations"].as_u64(), metrics["model"].as_str()), (Some(12), Some("dcgan_64")));
}

#[test]
fn a_sample_depends_on_seed_and_number_alone() {
    let place = Place::trained();
    let sample = |name: &str, flags: &str| {
        let out = place.path(name);
        let mut command = kindling();
        command.args(["gan", "sample"]).arg(&place.run).args(["--device", "cpu", "--out"]).arg(&out);
        Outcome::of(command.args(flags.split_whitespace())).succeeded();
        out
    };
    let [one, many, other] = [
        ("one", "--seed 7 --count 5 --micro-batch 1"),
        ("many", "--seed 7 --count 11 --micro-batch 8"),
        ("other", "--seed 8 --count 5"),
    ]
    .map(|(name, flags)| sample(name, flags));
    assert_eq!(fs::read_dir(&many).unwrap().count(), 11);
    for index in 0..5 {
        let name = format!("{index:05}.png");
        let read = |folder: &Path| fs::read(folder.join(&name)).unwrap();
        assert_eq!(read(&one), read(&many), "{name}");
        assert_ne!(read(&one), read(&other), "{name}");
    }
    let grid = image::open(sample("grid.png", "--seed 7 --count 16 --interpolate")).unwrap().to_luma8();
    assert_eq!(grid.dimensions(), (8 * 66 + 2, 2 * 66 + 2));
    // The first image of an interpolation is the sample of its number.
    let first = image::open(one.join("00000.png")).unwrap().to_luma8();
    let corner = image::imageops::crop_imm(&grid, 2, 2, 64, 64).to_image();
    assert_eq!(first.as_raw(), corner.as_raw());
    let refused = Outcome::of(kindling().args(["gan", "sample"]).arg(&place.run).args(["--count", "0", "--out", "x"]));
    assert!(refused.refused().contains("--count"));
}

#[test]
fn a_generator_is_exported() {
    let place = Place::trained();
    let out = place.path("generator.safetensors");
    let mut command = kindling();
    Outcome::of(command.args(["gan", "export"]).arg(&place.run).arg("--output").arg(&out)).succeeded();
    let (exported, kept) = (read_tensors(&out), read_tensors(&place.run.join("weights.safetensors")));
    assert_eq!(exported.len(), kept.len());
    assert!(exported.contains_key("image.weight"));
    let onnx = place.path("generator.onnx");
    let mut command = kindling();
    command.args(["gan", "export", "--format", "onnx"]).arg(&place.run).arg("--output").arg(&onnx);
    Outcome::of(&mut command).succeeded();
    assert!(fs::metadata(&onnx).unwrap().len() > 20_000);
}

#[test]
fn images_that_cannot_be_learnt_from_are_one_sentence() {
    let place = Place::new();
    let single = place.path("single");
    fs::create_dir_all(&single).unwrap();
    picture("dark", 0).save(single.join("a.png")).unwrap();
    let told = place.refused(&single, "--model dcgan_64 --device cpu");
    assert!(told.contains("1 training image") && told.contains("two"), "{told}");

    fs::write(single.join("a.png"), "no picture").unwrap();
    let told = place.refused(&single, "--model dcgan_64 --device cpu");
    assert!(told.contains("a.png"), "{told}");

    let told = place.refused(&place.data, "--channels 3 --device cpu");
    assert!(told.contains("grey") && told.contains("--channels"), "{told}");
    let told = place.refused(&place.data, "--model dcgan_64 --image-size 128 --device cpu");
    assert!(told.contains("64x64") && told.contains("128"), "{told}");
    let told = place.refused(&place.data, "--model stylegan --device cpu");
    assert!(told.contains("dcgan_64") && told.contains("fastgan_512"), "{told}");
    let told = place.refused(&place.data, "--model fastgan_512 --upsampling transposed --device cpu");
    assert!(told.contains("--upsampling"), "{told}");
    let told = place.refused(&place.data, "--batch-size 1 --device cpu");
    assert!(told.contains("batch"), "{told}");
    let told = place.refused(&place.data, "--diff-augment colours --device cpu");
    assert!(told.contains("colour"), "{told}");
    let told = place.refused(&place.path("nowhere"), "--device cpu");
    assert!(told.contains("nowhere"), "{told}");
}

#[test]
fn a_run_is_not_resumed_as_something_else() {
    let place = Place::trained();
    let refused = |run: &Path, flags: &str| Outcome::of(resume(run).args(flags.split_whitespace())).refused();
    for (flags, told) in [
        ("--model fastgan_512", "dcgan_64"),
        ("--features 8", "--features"),
        ("--spectral-norm off", "--spectral-norm"),
        ("--loss least-squares", "hinge"),
        ("--iterations 99", "12"),
        ("--precision bf16", "f32"),
        ("--micro-batch 2", "--ghost-batch-size"),
    ] {
        let sentence = refused(&place.run, flags);
        assert!(sentence.contains(told), "{flags}: {sentence}");
    }
    // A classifier's run, and the other way round.
    let classifier = place.path("classifier");
    let flags = "--model mobilenet_v3_small --max-steps 1 --batch-size 4";
    Outcome::of(&mut train(&place.data, &classifier, flags)).succeeded();
    assert!(refused(&classifier, "").contains("classifier"));
    let other = Outcome::of(kindling().args(["train", "--resume"]).arg(&place.run)).refused();
    assert!(other.contains("the run of a GAN"), "{other}");
}

/// A shorter run on which both learning rates fall in the second half.
const COOLING: &str = "--iterations 6 --cooldown 0.5";

fn extend(run: &Path, iterations: u64) -> Command {
    let mut command = resume(run);
    command.args(["--extend-to", &iterations.to_string()]);
    command
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

#[test]
fn a_gan_that_is_extended_has_the_rates_of_the_longer_run_and_ends_with_the_same_bits_when_it_is_killed() {
    let place = Place::trained_with(&Flags::of(FLAGS).with(COOLING).to_string());
    let (run, killed) = (&place.run, place.path("killed"));
    assert!(Command::new("cp").arg("-r").args([run, &killed]).status().unwrap().success());
    let before = iterations(run);
    let result = Outcome::of(&mut extend(run, 12)).succeeded().result();
    assert_eq!(result["iterations"], 12);
    let told = events(run);
    assert_eq!(iterations(run).len(), 12);
    assert_eq!(iterations(run)[..6], before, "what was done stays");
    // Of 12 iterations the seventh is the first of the second half: it has the whole rate, which had been a third of it.
    let [extended] = named(&told, "extended")[..] else { panic!("one extension: {told:?}") };
    assert_eq!((extended["step"].as_u64(), extended["steps_total"].as_u64()), (Some(6), Some(12)));
    assert_eq!(extended["lr"], 2e-4);
    assert_eq!(named(&told, "finished").len(), 2);
    let history = fs::read_to_string(run.join("history.jsonl")).unwrap();
    assert!(history.contains(r#""how":"extended","from_step":6,"changed":[["train.iterations","12"]]"#), "{history}");
    assert!(fs::read_to_string(run.join("report.html")).unwrap().contains("extended to 12 steps"));

    // Said again it changes nothing, and less than there is cannot be.
    Outcome::of(&mut extend(run, 12)).succeeded();
    let sentence = Outcome::of(&mut extend(run, 8)).refused();
    assert!(sentence.contains("--extend-to is 8") && sentence.contains("12 iterations"), "{sentence}");
    assert_eq!(fs::read_to_string(run.join("history.jsonl")).unwrap(), history);

    let mut started = Started::new(extend(&killed, 12), &killed);
    started.until(r#""event":"iteration","step":8,"#, 1);
    started.kill();
    Outcome::of(&mut resume(&killed)).succeeded();
    assert_same(run, &killed, "killed after it was extended");
}

#[test]
fn without_a_cooldown_an_extended_gan_is_the_longer_run() {
    let place = Place::trained_with(&Flags::of(FLAGS).with("--iterations 6").to_string());
    Outcome::of(&mut extend(&place.run, 12)).succeeded();
    let whole = place.path("whole");
    Outcome::of(&mut gan(&place.data, &whole, FLAGS)).succeeded();
    assert_same(&whole, &place.run, "6 iterations and 6 more");
}

/// A manifest of the pictures of a folder; of each class those that are listed have the split `test` or `val`.
fn manifest(place: &Place, name: &str, held_out: Option<[&[&str]; 2]>) -> PathBuf {
    let mut text = format!("path,label{}\n", if held_out.is_some() { ",split" } else { "" });
    for class in CLASSES {
        for index in 0..12 {
            let picture = format!("{class}/{index:02}.png");
            let split = held_out.map(|held_out| {
                let side = held_out.iter().position(|names| names.contains(&&*picture));
                side.map_or("train", |side| ["val", "test"][side])
            });
            let split = split.map_or(String::new(), |split| format!(",{split}"));
            text.push_str(&format!("data/{picture},{class}{split}\n"));
        }
    }
    let path = place.path(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_gan_on_a_manifest_without_splits_has_the_training_images_of_a_classifier_and_an_earlier_run_its_own() {
    const SHORT: &str = "--iterations 2 --checkpoint-iterations 100 --seed 0";
    let place = Place::new();
    let flags = Flags::of(FLAGS).with(SHORT).to_string();
    let plain = manifest(&place, "plain.csv", None);
    let on = |data: &Path, name: &str| {
        let run = place.path(name);
        Outcome::of(&mut gan(data, &run, &flags)).succeeded();
        run
    };
    let run = on(&plain, "run");
    let text = fs::read_to_string(run.join("config.toml")).unwrap();
    assert!(text.contains("split_rule = \"keyed\"\n"), "{text}");
    let split = place.path("split.csv");
    Outcome::of(kindling().args(["data", "split"]).arg(&plain).arg("--out").arg(&split)).succeeded();
    let losses = |run: &Path| -> Vec<Value> {
        iterations(run).iter().flat_map(|it| [it["discriminator_loss"].clone(), it["generator_loss"].clone()]).collect()
    };
    let of_split = on(&split, "of-split");
    assert_eq!(losses(&run), losses(&of_split), "it trains on what `data split` says");
    assert!(!fs::read_to_string(of_split.join("config.toml")).unwrap().contains("split_rule"), "nothing was split");

    // A run that an earlier version began, killed in its first moments: it begins again with the images it had. They are those of
    // `a_run_of_an_earlier_version_keeps_the_split_it_was_trained_on`.
    let earlier = place.path("earlier");
    let mut started =
        Started::new(gan(&plain, &earlier, &Flags::of(&flags).with("--iterations 100").to_string()), &earlier);
    started.until(r#""event":"iteration","step":1,"#, 1);
    started.kill();
    let text = fs::read_to_string(earlier.join("config.toml")).unwrap();
    let text = text.replace("split_rule = \"keyed\"\n", "").replace("iterations = 100\n", "iterations = 2\n");
    fs::write(earlier.join("config.toml"), text).unwrap();
    fs::remove_file(earlier.join("data.csv")).unwrap();
    Outcome::of(&mut resume(&earlier)).succeeded();
    let val: &[&str] =
        &["bright/04.png", "bright/08.png", "dark/04.png", "dark/10.png", "striped/07.png", "striped/11.png"];
    let test: &[&str] =
        &["bright/03.png", "bright/10.png", "dark/01.png", "dark/08.png", "striped/05.png", "striped/08.png"];
    let then = on(&manifest(&place, "then.csv", Some([val, test])), "then");
    assert_eq!(losses(&earlier), losses(&then));
    assert_ne!(losses(&run), losses(&then), "the rule by name gives another split");
}

#[test]
fn a_gan_knows_its_images_and_goes_on_with_others_only_when_told() {
    let place = Place::trained_with(&Flags::of(FLAGS).with("--iterations 3").to_string());
    let list = fs::read_to_string(place.run.join("data.csv")).unwrap();
    assert_eq!(list.lines().count(), 1 + 36, "every image once: {list}");
    assert!(list.contains("train,,image,bright/00.png,"), "{list}");
    picture("dark", 40).save(place.data.join("dark/40.png")).unwrap();
    let sentence = Outcome::of(&mut extend(&place.run, 4)).refused();
    assert!(sentence.contains("36 unchanged, 1 added (\"dark/40.png\")"), "{sentence}");
    assert!(sentence.contains("--accept-changed-data"), "{sentence}");
    assert_eq!(fs::read_to_string(place.run.join("data.csv")).unwrap(), list);
    let finished = Outcome::of(resume(&place.run).arg("--accept-changed-data")).refused();
    assert!(finished.contains("is finished"), "{finished}");
    Outcome::of(extend(&place.run, 4).arg("--accept-changed-data")).succeeded();
    let told = events(&place.run);
    let warned = named(&told, "warned").pop().unwrap()["text"].as_str().unwrap().to_string();
    assert!(warned.contains("1 added") && warned.contains("train 36 -> 37"), "{warned}");
    assert!(fs::read_to_string(place.run.join("data.csv")).unwrap().contains("dark/40.png"));
    assert_eq!(fs::read_to_string(place.run.join("data-1.csv")).unwrap(), list);
}
