//! Arguments that are easily given wrong are understood, or refused with what to give instead.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use kindling_tests::{Bench, CLASSES, Outcome, assert_says, kindling, picture, resume, train};

fn with(words: &str, paths: &[&Path]) -> Outcome {
    Outcome::of(kindling().env_remove("RUST_BACKTRACE").args(words.split_whitespace()).args(paths))
}

#[test]
fn a_run_of_the_other_kind_is_named_with_the_command_for_it() {
    let bench = Bench::of_two_networks(4);
    let flags = "--model dcgan_64 --features 4 --iterations 1 --batch-size 4 --compare 0 --workers 1";
    let gan = bench.run("gan", flags, "");
    for words in ["eval", "train --resume", "predict", "export --out x.onnx"] {
        let image = bench.data().join("dark/00.png");
        let paths: &[&Path] = if words == "predict" { &[&gan, &image] } else { &[&gan] };
        let sentence = with(words, paths).refused();
        assert_says(&sentence, &["the run of a GAN", "kindling gan evaluate", gan.to_str().unwrap()]);
    }
    let run = bench.path("run");
    Outcome::of(&mut train(bench.data(), &run, "--batch-size 8 --max-steps 1")).succeeded();
    let sentence = with("gan evaluate", &[&run]).refused();
    assert_says(&sentence, &["the run of a classifier", "kindling eval"]);
}

#[test]
fn a_folder_of_images_is_predicted_image_by_image() {
    let bench = Bench::new(8);
    let run = bench.path("run");
    Outcome::of(&mut train(bench.data(), &run, "--batch-size 8 --max-steps 1")).succeeded();
    let images: Vec<String> = CLASSES
        .iter()
        .flat_map(|class| (0..8).map(move |index| format!("{class}/{index:02}.png")))
        .map(|name| bench.data().join(name).display().to_string())
        .collect();
    fs::write(bench.data().join("dark/notes.txt"), "not an image").unwrap();
    let of_folder = with("predict --device cpu", &[&run, bench.data()]).succeeded().stdout;
    let one_by_one: Vec<&Path> = std::iter::once(run.as_path()).chain(images.iter().map(Path::new)).collect();
    assert_eq!(of_folder, with("predict --device cpu", &one_by_one).succeeded().stdout);
    assert_eq!(of_folder.lines().count(), 1 + images.len());
    let empty = bench.path("empty");
    fs::create_dir(&empty).unwrap();
    assert_says(&with("predict --device cpu", &[&run, &empty]).refused(), &["empty", "holds no images"]);
}

#[test]
fn the_weights_of_a_run_are_its_best() {
    let bench = Bench::new(8);
    let run = bench.path("run");
    Outcome::of(&mut train(bench.data(), &run, "--batch-size 8 --max-steps 1")).succeeded();
    let first_loss = |name: &str, weights: &Path| {
        let mut command = train(bench.data(), &bench.path(name), "--batch-size 8 --max-steps 1 --weights");
        Outcome::of(command.arg(weights)).succeeded();
        kindling_tests::losses(&bench.path(name))
    };
    assert_eq!(first_loss("of-run", &run), first_loss("of-file", &run.join("weights.safetensors")));
    assert_eq!(
        fs::read(bench.path("of-run/config.toml")).unwrap(),
        fs::read(bench.path("of-file/config.toml")).unwrap(),
        "a run remembers the file"
    );
    // A folder that is no run.
    let mut command = train(bench.data(), &bench.path("none"), "--weights");
    assert_says(&Outcome::of(command.arg(bench.data())).refused(), &["data", "holds no run"]);
}

#[test]
fn weights_that_are_cut_off_say_how_much_of_them_is_there() {
    let bench = Bench::new(8);
    let run = bench.path("run");
    Outcome::of(&mut train(bench.data(), &run, "--batch-size 8 --max-steps 1")).succeeded();
    let path = run.join("weights.safetensors");
    let good = fs::read(&path).unwrap();
    fs::write(&path, &good[..good.len() / 2]).unwrap();
    let sentence = with("eval --device cpu", &[&run]).refused();
    assert_says(&sentence, &["weights.safetensors", "cut off", " MiB of ", "copy or download it again"]);
    fs::write(&path, &good[..100]).unwrap();
    let sentence = with("eval --device cpu", &[&run]).refused();
    assert_says(&sentence, &["weights.safetensors", "cut off in its header", "copy or download it again"]);
    let cut = bench.path("cut.safetensors");
    fs::write(&cut, &good[..100]).unwrap();
    let mut command = train(bench.data(), &bench.path("none"), "--weights");
    assert_says(&Outcome::of(command.arg(&cut)).refused(), &["cut.safetensors", "cut off in its header"]);
    fs::write(&path, [good.as_slice(), &[0; 2048]].concat()).unwrap();
    assert_says(&with("eval --device cpu", &[&run]).refused(), &["2 KiB stand behind its last tensor"]);
}

#[test]
#[cfg(unix)]
fn a_link_that_leads_nowhere_is_told_with_where_it_leads() {
    let bench = Bench::new(8);
    std::os::unix::fs::symlink("/no/such/scan.png", bench.data().join("dark/linked.png")).unwrap();
    let sentence = Outcome::of(&mut train(bench.data(), &bench.path("run"), "")).refused();
    assert_says(&sentence, &["dark/linked.png", "link to \"/no/such/scan.png\"", "repair or remove"]);
    assert!(!bench.path("run").exists());
}

#[test]
fn one_is_not_several() {
    let bench = Bench::new(8);
    let run = bench.path("run");
    let outcome = Outcome::of(&mut train(bench.data(), &run, "--batch-size 8 --max-steps 1")).succeeded();
    assert!(outcome.stderr.contains("after 1 step in "), "{}", outcome.stderr);
    let plan = with("plan --channels 1 --memory 4GiB --device cpu", &[]).succeeded().stdout;
    assert!(plan.contains("1 channel,"), "{plan}");
}

#[test]
fn batch_norm_of_single_images_is_warned_of() {
    let bench = Bench::new(4);
    let says = |name: &str, flags: &str| {
        let outcome = Outcome::of(&mut train(bench.data(), &bench.path(name), &format!("{flags} --max-steps 1")));
        outcome.succeeded().stderr.lines().find(|line| line.starts_with("warning: ")).map(str::to_string)
    };
    assert_says(&says("one", "--batch-size 1").unwrap(), &["--batch-size 1", "batch norm", "4 or more"]);
    assert_says(&says("ghost", "--batch-size 4 --ghost-batch-size 1").unwrap(), &["--ghost-batch-size 1"]);
    assert_eq!(says("two", "--batch-size 2"), None);
    assert_eq!(says("quiet", "--batch-size 1 --quiet"), None);
    let again = Outcome::of(&mut resume(&bench.path("one"))).succeeded();
    assert!(!again.stdout.is_empty());
}

#[test]
fn tables_that_others_write_are_answered_with_what_to_change() {
    let bench = Bench::new(4);
    picture("dark", 0).save(bench.path("a.png")).unwrap();
    let refused = |text: &str| {
        let path = bench.path("list.csv");
        fs::write(&path, text).unwrap();
        Outcome::of(&mut train(&path, &bench.path("run"), "")).refused()
    };
    assert_says(&refused("path;label\na.png;dark\n"), &["list.csv", "line 1", "separated by `;`", "commas"]);
    assert_says(&refused("path\tlabel\na.png\tdark\n"), &["separated by tabs"]);
    assert_says(&refused("Path,Label\na.png,dark\n"), &["rename `Path` to `path`", "path,label"]);
    assert_says(&refused("path,diagnosis\na.png,dark\n"), &["rename `diagnosis` to `label`"]);
    assert!(!refused("place,label\na.png,dark\n").contains("rename"), "nobody knows what is meant");
}
