//! Every number that is read has a range, on the command line and in files. A number outside it is refused with one sentence that
//! names the number and the range, before anything is started.
#![allow(clippy::unwrap_used)]

use std::fs;

use kindling_tests::{Bench, Outcome, assert_says, kindling, train};

/// Tries to train, expects a refusal before anything was written, and returns the sentence.
fn refused(bench: &Bench, flags: &str) -> String {
    let sentence = Outcome::of(&mut train(bench.data(), &bench.path("run"), flags)).refused();
    assert!(!bench.path("run").exists(), "a run that was refused left a folder; {sentence}");
    sentence
}

#[test]
fn values_that_cannot_be_are_refused_before_anything_is_written() {
    let bench = Bench::new(8);
    let values = [
        ("--epochs 0", "epochs is 0; it must lie between 1 and 1000000000"),
        ("--max-steps 0", "steps is 0; it must lie between 1 and 1000000000"),
        ("--lr 0", "learning rate is 0"),
        ("--lr NaN", "learning rate is NaN"),
        ("--lr inf", "learning rate is inf"),
        ("--lr=-0.1", "learning rate is -0.1"),
        ("--lr fast", "'fast'"),
        ("--ghost-batch-size 0", "ghost batch size is 0"),
        ("--warmup 1.5", "warm-up"),
        ("--label-smoothing 1", "smoothing is 1"),
        ("--drop-rate 1", "--drop-rate"),
        ("--drop-rate NaN", "--drop-rate"),
        ("--clip-norm 0", "clip at is 0"),
        ("--weight-decay -1", "-1"),
        ("--momentum 0.5", "--optimizer sgd"),
        ("--optimizer sgd --momentum 1", "momentum is 1"),
        ("--optimizer adam", "'adam'"),
        ("--class-weights 1,2", "2 class weights for 3"),
        ("--class-weights 1,0,1", "weight of class 2 is 0"),
        ("--class-weights a,b,c", "--class-weights"),
        ("--augment strong", "light"),
        ("--auxiliary-loss 0.5", "--task segmentation"),
        ("--focal-gamma 3", "--task segmentation"),
        ("--checkpoint-steps 0", "checkpoints is 0"),
        ("--seed 9223372036854775808", "seed is 9223372036854775808"),
        ("--seed -1", "-1"),
        ("--batch-size 9223372036854775807", "batch size is 9223372036854775807; it must lie between 1 and 1048576"),
        ("--batch-size 4611686018427387904", "batch size is 4611686018427387904"),
        ("--batch-size 1000000000", "batch size is 1000000000"),
        ("--ghost-batch-size 9223372036854775807", "ghost batch size is 9223372036854775807"),
        ("--micro-batch 9223372036854775807", "micro-batch is 9223372036854775807"),
        ("--class-weights 1,1e308,1", "weight of class 2 is 1"),
        ("--workers 1000000", "loader threads is 1000000; it must lie between 0 and 1024"),
        ("--lr 1e30", "and 1000"),
        ("--max-steps 18446744073709551615", "steps is 18446744073709551615"),
        ("--batch-size 4 --batch-size 8", "--batch-size"),
        ("--quiet --verbose", "--verbose"),
        ("--epoch 3", "'--epoch'"),
    ];
    let wrong = |&(flags, word): &(&str, &str)| {
        let sentence = refused(&bench, flags);
        (!sentence.contains(word)).then(|| format!("{flags}: `{word}` is not said: {sentence}"))
    };
    let wrong: Vec<String> = values.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn numbers_of_a_configuration_that_cannot_be_are_refused_with_their_range() {
    let bench = Bench::new(8);
    let run = bench.run("run", "--image-size 32 --batch-size 4 --max-steps 1 --epochs 1", "");
    let config = run.join("config.toml");
    let good = fs::read_to_string(&config).unwrap();
    let line = |key: &str| good.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap().to_string();
    let cases = [
        ("channels", "1000000000", "the number of channels is 1000000000; images have 1 (grey) or 3 (RGB)"),
        ("std", "[0.5, 0.5]", "std has 2 entries for 1 channels"),
        ("std", "[-0.5]", "the std of a channel is -0.5; it must lie between 0.000001 and 1000"),
        ("mean", "[nan]", "the mean of a channel is NaN"),
        ("batch_size", "1000000000", "the batch size is 1000000000; it must lie between 1 and 1048576"),
        ("workers", "100000", "loader threads is 100000"),
    ];
    for (key, value, said) in cases {
        fs::write(&config, good.replacen(&line(key), &format!("{key} = {value}"), 1)).unwrap();
        for command in [&["train", "--resume"][..], &["eval"]] {
            let sentence = Outcome::of(kindling().args(command).arg(&run)).refused();
            assert_says(&sentence, &[said, "config.toml"]);
        }
    }
    fs::write(&config, good).unwrap();
}

#[test]
fn numbers_of_other_commands_are_refused_with_their_range() {
    let bench = Bench::new(8);
    let data = bench.data().to_str().unwrap();
    let (measure, sheet) = ("bench train --device cpu --image-size 32", format!("data sheet {data}"));
    let bench_data = format!("bench data --data {data} --images 4");
    let cases = [
        (measure, "--micro-batch 0", "0; it must lie between 1 and 1048576"),
        (measure, "--micro-batch 4611686018427387904", "4611686018427387904; it must lie between 1 and 1048576"),
        (measure, "--micro-batch few", "(or auto)"),
        (measure, "--threads 0", "1..=1024"),
        (measure, "--threads 1000000", "1..=1024"),
        (measure, "--window-seconds 0", "0; it must lie between 0.001 and 86400"),
        (measure, "--window-seconds 1e30", "it must lie between 0.001 and 86400"),
        (measure, "--window-seconds NaN", "NaN; it must lie between 0.001 and 86400"),
        (measure, "--row-timeout 0", "1..=86400"),
        (measure, "--channels 0", "at least 1 channel"),
        (measure, "--channels 1000000000", "at most 1024"),
        (measure, "--classes 1", "at least 2 classes"),
        (measure, "--batch-size 0", "1..=1048576"),
        (&bench_data, "--image-size 0", "the image size is 0; it must lie between 1 and 16384"),
        (&bench_data, "--image-size 1000000000", "the image size is 1000000000; it must lie between 1 and 16384"),
        (&bench_data, "--image-size 4611686018427387904", "it must lie between 1 and 16384"),
        (&bench_data, "--batch-size 0", "1..=1048576"),
        (&bench_data, "--workers 1000000", "0..=1024"),
        (&sheet, "--per-class 0", "1..=1048576"),
        (&sheet, "--side 0", "16..=1024"),
        (&sheet, "--side 1000000000", "16..=1024"),
        ("predict run image.png", "--top 0", "1..=1000000000"),
        ("eval run", "--micro-batch 0", "1..=1048576"),
        ("gan sample run --out made", "--count 0", "1..=1048576"),
        ("gan sample run --out made", "--count 4611686018427387904", "1..=1048576"),
        ("gan sample run --out made", "--micro-batch 0", "1..=1048576"),
        ("gan evaluate run", "--micro-batch 1000000000", "1..=1048576"),
        ("gan train", "--compare 4611686018427387904", "4611686018427387904; it must lie between 0 and 1048576"),
        ("profile --model mobilenet_v2", "--steps 0", "1..=1000000000"),
        ("profile --model unet-resnet18", "--classes 256", "a mask has at most 255 classes"),
    ];
    let wrong = |&(command, flags, said): &(&str, &str, &str)| {
        let words = command.split(' ').chain(flags.split(' '));
        let sentence = Outcome::of(kindling().current_dir(bench.data()).args(words)).refused();
        (!sentence.contains(said)).then(|| format!("{command} {flags}: `{said}` is not said: {sentence}"))
    };
    let wrong: Vec<String> = cases.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn numbers_of_an_augmentation_file_are_refused_with_their_range() {
    let bench = Bench::new(8);
    let policy = bench.path("policy.toml");
    let cases = [
        ("flip = 1.5", "the flip is 1.5; it must lie between 0 and 1"),
        ("flip = nan", "the flip is NaN; it must lie between 0 and 1"),
        ("rotate = -1.0", "the rotate is -1; it must lie between 0 and 180"),
        ("rotate = 1e30", "it must lie between 0 and 180"),
        ("scale = 1.0", "the scale is 1; it must lie between 0 and 0.9"),
        ("shear = 90.0", "the shear is 90; it must lie between 0 and 60"),
        ("gamma = inf", "the gamma is inf; it must lie between 0 and 10"),
        ("mixup = 1000.0", "the mixup is 1000; it must lie between 0 and 100"),
        ("mix_probability = 2.0", "the mix_probability is 2; it must lie between 0 and 1"),
        (
            "elastic = { probability = 1.0, strength = 0.1, cells = 1000000000 }",
            "elastic.cells is 1000000000; it must lie between 2 and 64",
        ),
        ("noise = { probability = 1.0, deviation = 2.0 }", "noise.deviation is 2; it must lie between 0 and 1"),
        ("blur = { probability = 1.0, sigma = 1e9 }", "blur.sigma is 1000000000; it must lie between 0 and 16"),
        ("cutout = { probability = -1.0, size = 0.5 }", "cutout.probability is -1; it must lie between 0 and 1"),
    ];
    for (line, said) in cases {
        fs::write(&policy, line).unwrap();
        let sentence = refused(&bench, &format!("--augment {}", policy.display()));
        assert_says(&sentence, &[said, "policy.toml"]);
    }
}

/// The words that stand for a number in `--help`.
const NUMBERS: [&str; 11] =
    ["N", "PIXELS", "RATE", "SHARE", "DECAY", "STRENGTH", "NORM", "SECONDS", "auto|N", "auto|STRENGTH", "SHARE|N"];
/// How far a flag's text is indented.
const TEXT: &str = "          ";
/// Flags that take one or two numbers; the help says what they are.
const CHOICES: [&str; 2] = ["gan train --image-size", "gan train --channels"];

/// The flags of a command and those under it that take a number, each with its help.
fn flags_with_numbers(command: &str) -> Vec<(String, String)> {
    let help = Outcome::of(kindling().args(command.split_whitespace()).arg("--help")).succeeded().stdout;
    let listed = help.split_once("\nCommands:\n").map_or("", |(_, after)| after.split("\n\n").next().unwrap());
    let names =
        listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|name| !name.is_empty());
    let mut found: Vec<_> = names
        .filter(|name| *name != "help")
        .flat_map(|name| flags_with_numbers(format!("{command} {name}").trim()))
        .collect();
    let mut lines = help.lines().peekable();
    while let Some(line) = lines.next() {
        let (Some(at), true) = (line.find("--"), !line.starts_with(TEXT)) else { continue };
        let mut text = String::new();
        while let Some(more) = lines.next_if(|more| more.is_empty() || more.starts_with(TEXT)) {
            text = text + " " + more.trim();
        }
        let (flag, value) = line[at..].split_once(" <").unwrap_or((&line[at..], ""));
        if NUMBERS.contains(&value.trim_end_matches('>')) {
            found.push((format!("{command} {flag}").trim().to_string(), text));
        }
    }
    found
}

/// Whether a text says between what a number must lie: `1 to 8`, `0 to below 1`, `at most 8`, `above 0`, `1 or more`.
fn says_a_range(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |at: usize| words.get(at).is_some_and(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    (1..words.len()).any(|at| match words[at] {
        "to" => number(at - 1) && (number(at + 1) || words.get(at + 1) == Some(&"below")),
        "most" | "least" | "above" => number(at + 1),
        "or" => number(at - 1) && words.get(at + 1).is_some_and(|word| word.starts_with("more")),
        _ => false,
    })
}

#[test]
fn the_help_of_every_flag_that_takes_a_number_says_its_range() {
    let flags = flags_with_numbers("");
    assert!(flags.len() > 70, "only {} flags were found", flags.len());
    let silent: Vec<&(String, String)> =
        flags.iter().filter(|(flag, help)| !CHOICES.contains(&flag.as_str()) && !says_a_range(help)).collect();
    assert!(silent.is_empty(), "{silent:#?}");
}
