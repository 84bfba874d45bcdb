//! A class for each pixel: trained, scored, drawn and written for others, as a user does it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use kindling_tests::{
    Bench, Flags, Outcome, SEGMENTATION, Started, Stored, Tensors, assert_same_bits, columns, disc, events, json_of,
    kindling, losses, read_tensors, resume, write_tensors,
};
use serde_json::Value;

const UNET: &str = SEGMENTATION.model;
/// Images are three times as many: 25 of 36 are trained on, and 5 or 6 validate and test.
const EACH: usize = 12;

fn flags(more: &str) -> String {
    format!("--model {UNET} --image-size 64 --batch-size 4 --workers 1 {more}")
}

/// Dice of a mask of 0 and 1 against the truth; none where both are empty.
fn dice(found: &[u8], truth: &[u8]) -> Option<f64> {
    let count = |of: &dyn Fn(bool, bool) -> bool| {
        found.iter().zip(truth).filter(|(found, truth)| of(**found > 0, **truth > 0)).count() as f64
    };
    let all = count(&|found, _| found) + count(&|_, truth| truth);
    (all > 0.0).then(|| 2.0 * count(&|found, truth| found && truth) / all)
}

/// The Dice of each sample of a split, by its name, as `cases.csv` has it.
fn cases(run: &Path, split: &str) -> Vec<(String, Option<f64>)> {
    let lines = columns(&run.join("cases.csv"), ["sample", "split", "dice"]).into_iter();
    lines.filter(|[_, of, _]| of == split).map(|[sample, _, dice]| (sample, dice.parse().ok())).collect()
}

fn stem(name: &str) -> String {
    PathBuf::from(name).file_stem().unwrap().to_string_lossy().into_owned()
}

#[test]
fn discs_are_found_and_masks_scores_and_files_say_the_same() {
    let bench = Bench::for_model(UNET, EACH);
    let run = bench.path("run");
    let outcome =
        Outcome::of(&mut bench.command("run", &flags("--epochs 12 --lr 0.01 --augment none"), "")).succeeded();
    let result = outcome.result();
    let said = result["test_dice"].as_f64().unwrap();
    assert!(said > 0.6, "{result}");

    // Masks drawn by `predict` give the Dice of `cases.csv`, counted here.
    let images = bench.data().join("images");
    let masks = bench.path("masks");
    let mut predict = kindling();
    predict.args(["predict", "--device", "cpu"]).args([&run, &images]).arg("--out").arg(&masks);
    let drawn = Outcome::of(&mut predict).succeeded();
    assert_eq!(drawn.stdout.lines().count(), 1 + 3 * EACH, "{}", drawn.stdout);
    let tested = cases(&run, "test");
    assert!(tested.len() >= 5, "{tested:?}");
    for (name, of_run) in &tested {
        let index: usize = stem(name).parse().unwrap();
        let mask = image::open(masks.join(format!("{}.png", stem(name)))).unwrap().to_luma8();
        let counted = dice(mask.as_raw(), disc(index).1.as_raw());
        match (of_run, counted) {
            (Some(of_run), Some(counted)) => assert!((of_run - counted).abs() < 1e-12, "{name}: {of_run}, {counted}"),
            (of_run, counted) => assert_eq!((of_run.is_some(), counted.is_some()), (false, false), "{name}"),
        }
    }
    let defined: Vec<f64> = tested.iter().filter_map(|(_, dice)| *dice).collect();
    let mean = defined.iter().sum::<f64>() / defined.len() as f64;
    assert!((mean - said).abs() < 1e-12, "{mean} and {said}");
    let kept = json_of(&run.join("segmentation.json"));
    assert!((kept["dice"]["value"].as_f64().unwrap() - said).abs() < 1e-12, "{kept}");

    // `eval` scores the same once more.
    let mut eval = kindling();
    eval.args(["eval", "--device", "cpu", "--format", "json"]).arg(&run);
    let again: Value = serde_json::from_str(&Outcome::of(&mut eval).succeeded().stdout).unwrap();
    assert_eq!(again["scores"]["dice"], kept["dice"]);

    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("Mean foreground Dice") && page.contains("position"), "the page has score and baseline");
    assert!(page.len() < 3 << 20, "{} bytes", page.len());
    let config = fs::read_to_string(run.join("config.toml")).unwrap();
    assert!(config.contains("loss = \"dice+cross-entropy\"") && config.contains("task = \"segmentation\""), "{config}");

    for (file, keys) in [("weights.safetensors", "decoder.blocks.0.conv1.0.weight"), ("network.onnx", "logits")] {
        let out = bench.path(file);
        Outcome::of(kindling().arg("export").arg(&run).arg("--out").arg(&out)).succeeded();
        let bytes = fs::read(&out).unwrap();
        assert!(bytes.windows(keys.len()).any(|part| part == keys.as_bytes()), "{file} has no {keys}");
    }
}

#[test]
fn a_run_that_is_killed_and_resumed_ends_with_the_same_bits() {
    let bench = Bench::for_model(UNET, EACH);
    let flags = flags("--epochs 2 --checkpoint-steps 2 --augment heavy --ema 0.9 --drop-path-rate 0.2");
    let flags = flags.replace("--augment heavy", "--augment light");
    let straight = bench.run("straight", &flags, "");
    for step in [3, 9] {
        let name = format!("killed-{step}");
        let mut started = Started::new(bench.command(&name, &flags, ""), &bench.path(&name));
        started.until_step(step);
        started.kill();
        Outcome::of(&mut resume(&bench.path(&name))).succeeded();
        assert_same_bits(&straight, &bench.path(&name), &format!("killed after step {step}"));
    }
}

/// Runs with these flags again, with other threads and with another micro-batch.
fn threads_and_micro_batch_change_no_bit(bench: &Bench, flags: &str, straight: &Path) {
    let recomputed = "--activation-checkpointing blocks";
    for (name, other) in [("workers", "--workers 3"), ("micro", "--micro-batch 2"), ("recomputed", recomputed)] {
        let flags = Flags::of(flags).with(other).to_string();
        assert_same_bits(straight, &bench.run(name, &flags, ""), other);
    }
}

#[test]
fn threads_of_the_loader_and_the_micro_batch_change_no_bit() {
    for precision in ["f32", "bf16"] {
        let bench = Bench::for_model(UNET, EACH);
        let flags = flags(&format!("--max-steps 4 --ghost-batch-size 2 --augment light --precision {precision}"));
        let straight = bench.run("straight", &flags, "");
        threads_and_micro_batch_change_no_bit(&bench, &flags, &straight);
    }
}

/// A mean over images or over groups is cut between these alone.
#[test]
fn dice_over_images_and_over_groups_has_the_same_bits_at_any_micro_batch() {
    let bench = Bench::for_model(UNET, EACH);
    let flags = Flags::of(&flags("--max-steps 2 --augment light --drop-path-rate 0.2"));
    for (over, ghost, micro_batches) in [("image", 1, &[1, 2, 4][..]), ("group", 1, &[1, 2, 4]), ("group", 4, &[4])] {
        let flags = flags.with(&format!("--batch-size 8 --ghost-batch-size {ghost} --dice-over {over}"));
        let run = |micro_batch: usize| {
            let flags = flags.with(&format!("--micro-batch {micro_batch}")).to_string();
            bench.run(&format!("{over}-{ghost}-{micro_batch}"), &flags, "")
        };
        let straight = run(8);
        for micro_batch in micro_batches {
            let what = format!("over {over}, groups of {ghost}, micro-batch {micro_batch}");
            assert_same_bits(&straight, &run(*micro_batch), &what);
        }
    }
}

/// Half of what the process is planned to need with everything kept, and takes then, but for a twentieth. One normalisation group is the
/// whole batch, so that only recomputation helps.
#[test]
fn a_run_in_half_the_memory_it_wants_has_the_same_bits() {
    const NETWORK: &str = "--model unet-mobilenet_v2 --image-size 320 --batch-size 8 --workers 1";
    let bench = Bench::for_model(UNET, EACH);
    let mut plan = kindling();
    plan.arg("plan").args(NETWORK.split(' ')).args("--classes 2 --device cpu --memory 1TiB --format json".split(' '));
    let plan = Outcome::of(&mut plan).succeeded().result();
    let kept =
        plan["rows"].as_array().unwrap().iter().find(|row| row["precision"] == "f32" && row["recompute"] == "none");
    let wanted = kept.unwrap()["resident"].as_u64().unwrap();
    let flags = format!("{NETWORK} --max-steps 2 --augment light");
    let resident = |name: &str, flags: &str| {
        let result = Outcome::of(&mut bench.command(name, flags, "")).succeeded().result();
        result["resident_peak_bytes"].as_u64().unwrap()
    };
    let straight = resident("straight", &flags);
    assert!(straight <= wanted * 21 / 20, "{straight} without a budget, planned are {wanted}");
    let in_half = resident("half", &format!("{flags} --memory-budget {}", wanted / 2));
    assert!(in_half <= wanted / 2, "{in_half} of half of {wanted}");
    assert_same_bits(&bench.path("straight"), &bench.path("half"), "half the memory");
}

/// A step has two passes, of which the first adds up the sums over the batch.
#[test]
fn dice_over_the_batch_has_the_same_bits_at_any_micro_batch_and_after_failures_in_both_passes() {
    let bench = Bench::for_model(UNET, EACH);
    let flags = Flags::of(&flags("--max-steps 3 --ghost-batch-size 1 --augment light --drop-path-rate 0.2"));
    let flags = flags.with("--batch-size 8 --micro-batch 8 --dice-over batch");
    let straight = bench.run("straight", &flags.to_string(), "");
    for micro_batch in ["1", "2", "4"] {
        let flags = flags.with(&format!("--micro-batch {micro_batch}")).to_string();
        assert_same_bits(&straight, &bench.run(micro_batch, &flags, ""), &format!("micro-batch {micro_batch}"));
    }
    let faults = "oom@step=1,phase=first-pass,micro=3;panic@step=2,phase=first-pass;oom@step=2,phase=backward,micro=5;\
                  toolarge@step=3,phase=first-pass,micro=7";
    let disturbed = bench.run("disturbed", &flags.to_string(), faults);
    assert_same_bits(&straight, &disturbed, "failures in both passes");
    assert_eq!(events(&disturbed).iter().filter(|event| event["event"] == "recovered").count(), 4);

    let first = |name: &str, more: &str| losses(&bench.run(name, &flags.with(more).to_string(), ""))[0];
    let by_image = first("group-of-one", "--max-steps 1 --dice-over group");
    let over_batch = losses(&straight)[0];
    // Far above rounding, though the discs of all images are of much the same size.
    assert!((by_image - over_batch).abs() > 1e-4, "a mean over images is another loss: {by_image} and {over_batch}");
    let [group, batch] =
        ["group", "batch"].map(|over| first(over, &format!("--max-steps 1 --ghost-batch-size 8 --dice-over {over}")));
    assert!((group - batch).abs() < 1e-5, "one group that is the batch has its sums: {group} and {batch}");
}

/// Its cross-entropy is part of the loss, its weights are in files under torchvision's names, and a mask has no part of it.
#[test]
fn an_auxiliary_classifier_is_trained_and_written_and_draws_no_mask() {
    let model = "deeplabv3_mobilenet_v3_large";
    let bench = Bench::for_model(model, EACH);
    let flags = format!(
        "--model {model} --image-size 64 --batch-size 4 --workers 1 --augment none --drop-rate 0 --max-steps 2"
    );
    let first = |name: &str, more: &str| losses(&bench.run(name, &format!("{flags} {more}"), ""))[0];
    let alone = first("alone", "");
    let [half, whole] = [("half", 0.5), ("whole", 1.0)]
        .map(|(name, weight)| first(name, &format!("--auxiliary-loss {weight}")) - alone);
    assert!(whole > 0.1 && (2.0 * half - whole).abs() < 1e-5, "{half} and {whole}, beside {alone}");

    let run = bench.path("half");
    let export = |file: &str| {
        let out = bench.path(file);
        Outcome::of(kindling().arg("export").arg(&run).arg("--out").arg(&out)).succeeded();
        out
    };
    let weights = export("weights.safetensors");
    let tensors = read_tensors(&weights);
    assert_eq!(tensors.keys().filter(|key| key.starts_with("aux_classifier.")).count(), 8);
    let graph = fs::read(export("network.onnx")).unwrap();
    assert!(!graph.windows(9).any(|part| part == b"auxiliary"), "what draws masks is without it");
    let mut eval = kindling();
    eval.args(["eval", "--device", "cpu", "--format", "json"]).arg(&run);
    let again: Value = serde_json::from_str(&Outcome::of(&mut eval).succeeded().stdout).unwrap();
    assert_eq!(again["scores"]["dice"], json_of(&run.join("segmentation.json"))["dice"]);

    // What torchvision would load is a start here, with and without it.
    for (name, more) in [("with", "--auxiliary-loss 0.5"), ("without", "")] {
        bench.run(name, &format!("{flags} {more} --weights {}", weights.display()), "");
    }
    let macs = |more: &[&str]| {
        let mut plan = kindling();
        plan.args(["plan", "--model", model, "--memory", "4GiB", "--device", "cpu", "--format", "json"]).args(more);
        Outcome::of(&mut plan).succeeded().result()["macs"].as_u64().unwrap()
    };
    assert!(macs(&["--auxiliary"]) > macs(&[]), "it is counted");
}

/// Every mistake is one sentence that names what is wrong, and nothing is begun.
#[test]
fn mistakes_are_one_sentence_each() {
    let bench = Bench::for_model(UNET, 2);
    let refused = |flags: &str| Outcome::of(&mut bench.command("never", flags, "")).refused();
    for (more, part) in [
        ("--model mobilenet_v2 --task segmentation", "unet-mobilenet_v2"),
        ("--model unet-mobilenetv2x", "did you mean"),
        (&format!("--model {UNET} --task classification"), "gives each pixel a class"),
        ("--model mobilenet_v2", "--task segmentation"),
        (&format!("--model {UNET} --loss dise"), "dice"),
        (&format!("--model {UNET} --freeze backbone"), "--freeze"),
        (&format!("--model {UNET} --sampling balanced"), "even or foreground"),
        (&format!("--model {UNET} --sampling foreground --batch-size 1"), "--batch-size of 2 or more"),
        (&format!("--model {UNET} --image-size 16"), "images of"),
        (&format!("--model {UNET} --auxiliary-loss 0.5"), "has no auxiliary classifier"),
        ("--model fcn_resnet50 --auxiliary-loss 0", "weight of the auxiliary loss is 0"),
        (&format!("--model {UNET} --loss binary-focal --focal-alpha 2"), "alpha of the focal loss is 2"),
    ] {
        let sentence = refused(more);
        assert!(sentence.contains(part), "{more}: {sentence}");
    }
    let of_a_layer = Outcome::of(bench.command("never", &format!("--model {UNET}"), "").args(["--drop-rate", "0.1"]));
    let sentence = of_a_layer.refused();
    assert!(sentence.contains("--drop-rate is about a layer that U-Net has not"), "{sentence}");
    let sentence = Outcome::of(&mut Bench::new(4).command("never", "--sampling foreground", "")).refused();
    assert!(sentence.contains("only --task segmentation has masks"), "{sentence}");
    let masks = bench.data().join("masks");
    let image = fs::read(masks.join("01.png")).unwrap();
    fs::remove_file(masks.join("01.png")).unwrap();
    let sentence = refused(&flags(""));
    assert!(sentence.contains("01.png") && sentence.contains("mask"), "{sentence}");
    fs::write(masks.join("01.png"), &image).unwrap();
    image::GrayImage::new(9, 9).save(masks.join("02.png")).unwrap();
    let sentence = refused(&flags(""));
    assert!(sentence.contains("9") && sentence.contains("48"), "both sizes are said: {sentence}");
    assert!(!bench.path("never").join("events.jsonl").exists());
}

/// Which images a step sees is a matter of seed, epoch and place, also where they are drawn by what their masks show.
#[test]
fn sampling_from_the_foreground_changes_the_run_and_nothing_else_changes_its_bits() {
    let bench = Bench::for_model(UNET, EACH);
    let flags = flags("--epochs 2 --checkpoint-steps 2 --ghost-batch-size 2 --augment light --sampling foreground");
    let straight = bench.run("straight", &flags, "");
    threads_and_micro_batch_change_no_bit(&bench, &flags, &straight);
    let mut started = Started::new(bench.command("killed", &flags, ""), &bench.path("killed"));
    started.until_step(3);
    started.kill();
    Outcome::of(&mut resume(&bench.path("killed"))).succeeded();
    assert_same_bits(&straight, &bench.path("killed"), "killed after step 3");
    let config = fs::read_to_string(straight.join("config.toml")).unwrap();
    assert!(config.contains("sampling = \"foreground\""), "{config}");
    let even = Flags::of(&flags).with("--sampling even").to_string();
    let even = bench.run("even", &even, "");
    assert_ne!(losses(&straight), losses(&even), "what is drawn is trained on");
}

/// Shards of masks hold what their folder holds: a run on the one is scored on the other, and shards are trained on as any data.
#[test]
fn shards_of_masks_are_checked_scored_and_trained_on_as_their_folder_is() {
    let bench = Bench::for_model(UNET, EACH);
    let shards = bench.path("shards");
    let mut pack = kindling();
    pack.args(["data", "pack", "--task", "segmentation", "--shard-bytes", "16KiB"]).arg(bench.data());
    let packed = Outcome::of(pack.arg("--out").arg(&shards)).succeeded().result();
    assert_eq!(packed["samples"], 3 * EACH);
    assert!(packed["shards"].as_u64().is_some_and(|shards| shards > 3), "{packed}");

    let check = |data: &Path| -> Value {
        let mut check = kindling();
        check.args(["data", "check", "--task", "segmentation", "--format", "json"]).arg(data);
        serde_json::from_str(&Outcome::of(&mut check).stdout).unwrap()
    };
    let (of_folder, of_shards) = (check(bench.data()), check(&shards));
    for same in ["classes", "by_class", "sizes", "masks", "unreadable"] {
        assert_eq!(of_folder[same], of_shards[same], "{same}");
    }

    let run = bench.run("run", &flags("--max-steps 8 --lr 0.01 --augment none"), "");
    let mut eval = kindling();
    eval.args(["eval", "--device", "cpu", "--format", "json", "--split", "test"]).arg(&run).arg("--data").arg(&shards);
    let scored: Value = serde_json::from_str(&Outcome::of(&mut eval).succeeded().stdout).unwrap();
    let dice = |scores: &Value| scores["dice"]["value"].as_f64().unwrap();
    let (of_folder, of_shards) = (dice(&json_of(&run.join("segmentation.json"))), dice(&scored["scores"]));
    assert!((of_folder - of_shards).abs() < 1e-12, "{of_folder} and {of_shards}");

    let train = |name: &str, flags: &str| {
        let mut train = kindling();
        train.args(["train", "--device", "cpu", "--quiet", "--data"]).arg(&shards).arg("--out").arg(bench.path(name));
        Outcome::of(train.args(flags.split_whitespace()))
    };
    let flags = flags("--max-steps 4 --augment light --sampling foreground");
    train("one", &flags).succeeded();
    train("other", &Flags::of(&flags).with("--workers 3").to_string()).succeeded();
    assert_same_bits(&bench.path("one"), &bench.path("other"), "threads of the loader");
    let sentence = train("never", "--model mobilenet_v2").refused();
    assert!(sentence.contains("has a mask and no label; --task segmentation"), "{sentence}");
}

#[test]
fn the_layout_of_nnu_net_is_trained_on_with_its_names_and_splits() {
    let bench = Bench::for_model(UNET, 1);
    let data = bench.path("Dataset001_Discs");
    for part in ["imagesTr", "labelsTr"] {
        fs::create_dir_all(data.join(part)).unwrap();
    }
    for index in 0..12 {
        let (image, mask) = disc(index);
        image.save(data.join(format!("imagesTr/disc_{index:03}_0000.png"))).unwrap();
        let mask =
            image::GrayImage::from_fn(mask.width(), mask.height(), |x, y| image::Luma([mask[(x, y)].0[0].min(1)]));
        mask.save(data.join(format!("labelsTr/disc_{index:03}.png"))).unwrap();
    }
    let declared = serde_json::json!({
        "channel_names": {"0": "grey"}, "labels": {"background": 0, "disc": 1}, "numTraining": 12, "file_ending": ".png",
    });
    fs::write(data.join("dataset.json"), declared.to_string()).unwrap();
    let mut train = kindling();
    train.args(["train", "--device", "cpu", "--quiet", "--data"]).arg(&data).arg("--out").arg(bench.path("run"));
    train.args(flags("--max-steps 1").split_whitespace());
    Outcome::of(&mut train).succeeded();
    let scores = json_of(&bench.path("run").join("segmentation.json"));
    assert_eq!(scores["classes"][0]["name"], "disc");
}

/// A file with another library's keys, written from a run, is read without one; its head says how many classes there are.
#[test]
fn weights_of_a_file_are_run_and_written_as_they_came() {
    let bench = Bench::for_model(UNET, 2);
    let run = bench.run("run", &flags("--max-steps 1"), "");
    let file = |name: &str| bench.path(name);
    let command = |words: &str, paths: &[(&str, &Path)]| {
        let mut command = kindling();
        command.args(words.split(' '));
        for (flag, path) in paths {
            command.arg(flag).arg(path);
        }
        command
    };
    let (first, again) = (file("first.safetensors"), file("again.safetensors"));
    Outcome::of(command("export", &[("--out", &first)]).arg(&run)).succeeded();
    let stem = read_tensors(&first).into_iter().find(|(key, _)| key.contains("conv_stem.weight"));
    let channels = stem.expect("the encoder has a stem").1.shape[1];
    let of_model = format!("export --model {UNET} --channels {channels}");
    Outcome::of(&mut command(&of_model, &[("--weights", &first), ("--out", &again)])).succeeded();
    assert!(read_tensors(&first) == read_tensors(&again));
    let graph = file("network.onnx");
    Outcome::of(&mut command(&of_model, &[("--weights", &first), ("--out", &graph)])).succeeded();
    assert!(graph.metadata().unwrap().len() > first.metadata().unwrap().len() * 9 / 10);

    let (input, output) = (file("input.safetensors"), file("output.safetensors"));
    let pixels = (0..2 * channels * 64 * 96).map(|at| (at % 251) as f32 / 251.0);
    let images = Stored::floats(&[2, channels, 64, 96], pixels);
    write_tensors(&input, &Tensors::from([("input".to_string(), images)]));
    let forward = format!("forward --device cpu --model {UNET}");
    let paths: [(&str, &Path); 3] = [("--weights", &first), ("--input", &input), ("--out", &output)];
    Outcome::of(&mut command(&forward, &paths)).succeeded();
    assert_eq!(read_tensors(&output)["logits"].shape, [2, 2, 64, 96]);
    let asked = Outcome::of(&mut command(&format!("{forward} --features"), &paths)).refused();
    assert!(asked.contains("encoder"), "{asked}");
    let asked = Outcome::of(&mut command(&format!("{forward} --pretrained"), &paths[1..])).refused();
    assert!(asked.contains("encoder"), "{asked}");
    let asked = Outcome::of(&mut command(&format!("{of_model} --pretrained"), &[("--out", &again)])).refused();
    assert!(asked.contains("--weights") && asked.contains("encoder"), "{asked}");
}

/// The network that was trained on other data goes on here, and another number of classes gets a new head.
#[test]
fn weights_of_another_run_are_a_start() {
    let bench = Bench::for_model(UNET, 2);
    let first = bench.run("first", &flags("--max-steps 1"), "");
    let second = flags(&format!("--max-steps 1 --weights {}", first.display()));
    let outcome = Outcome::of(bench.command("second", &second, "").args(["--seed", "3"])).succeeded();
    assert!(outcome.result()["test_dice"].is_number() || outcome.result()["test_dice"] == "NaN");
}
