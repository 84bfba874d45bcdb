//! Any number of processes, and memory that is short in one of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{
    Bench, CLASSES, CLASSIFICATION, Outcome, SEGMENTATION, assert_same_bits, assert_says, events, kindling,
    picture_folder,
};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("any_number_of_processes_ends_with_the_bits_of_one", any_number_of_processes_ends_with_the_bits_of_one),
    (
        "a_number_learnt_in_several_processes_has_the_bits_of_one",
        a_number_learnt_in_several_processes_has_the_bits_of_one,
    ),
    ("a_fault_in_every_phase_on_one_of_three_leaves_the_bits", a_fault_in_every_phase_on_one_of_three_leaves_the_bits),
    (
        "a_process_with_less_memory_than_the_others_leaves_the_bits",
        a_process_with_less_memory_than_the_others_leaves_the_bits,
    ),
    (
        "a_sample_that_cannot_be_read_is_replaced_alike_and_counted_over_all",
        a_sample_that_cannot_be_read_is_replaced_alike_and_counted_over_all,
    ),
    (
        "eval_divides_the_samples_and_says_what_one_process_says",
        eval_divides_the_samples_and_says_what_one_process_says,
    ),
    (
        "predict_divides_the_files_and_says_what_one_process_says",
        predict_divides_the_files_and_says_what_one_process_says,
    ),
];
pub(crate) const LONG_TESTS: &[(&str, fn())] = &[(
    "three_networks_in_each_format_end_with_the_bits_of_one",
    three_networks_in_each_format_end_with_the_bits_of_one,
)];

/// Pictures of each class.
pub(crate) const EACH: usize = 20;
/// Everything that draws random numbers or keeps something between steps. Of 42 training samples the second batch of an epoch has 5: two
/// normalisation groups.
pub(crate) const EVERYTHING: &str = "--image-size 32 --batch-size 37 --ghost-batch-size 4 --epochs 2 --ema 0.9 --clip-norm 1 \
    --drop-rate 0.2 --drop-path-rate 0.2 --augment medium --checkpoint-steps 1 --workers 1";

/// The launcher, if it is here.
pub(crate) fn open_mpi() -> Option<PathBuf> {
    program("mpirun.openmpi")
}

/// Whether a program is on the path.
pub(crate) fn has_program(name: &str) -> bool {
    program(name).is_some()
}

fn program(name: &str) -> Option<PathBuf> {
    let places = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&places).map(|place| place.join(name));
    files.find(|file| file.is_file())
}

/// A command in so many processes. `own` is shell that each runs before it, `$OMPI_COMM_WORLD_RANK` being its number.
pub(crate) fn in_processes(size: usize, command: &Command, own: &str) -> Command {
    let mut launched = Command::new(open_mpi().expect("checked before"));
    launched.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", &size.to_string()]);
    launched
        .args(["sh", "-c", &format!("{own}\nexec \"$@\""), "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    launched.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    launched.env_remove("RUST_BACKTRACE");
    launched
}

/// Trains the run `name` in so many processes.
pub(crate) fn train(bench: &Bench, name: &str, flags: &str, size: usize, own: &str) -> PathBuf {
    Outcome::of(&mut in_processes(size, &bench.command(name, flags, ""), own)).succeeded();
    let run = bench.path(name);
    assert!(!run.join("ranks").exists(), "signs of life are left behind");
    run
}

/// What the levers of a run's first process were.
fn of_kind(run: &Path, kind: &str) -> Vec<serde_json::Value> {
    events(run).into_iter().filter(|event| event["event"] == kind).collect()
}

fn any_number_of_processes_ends_with_the_bits_of_one() {
    for (model, more, sizes) in [
        ("mobilenet_v3_small", "", &[2usize, 3, 4][..]),
        ("resnet18", "--optimizer sgd --batch-size 32", &[3]),
        ("efficientnet_b0", "--precision bf16 --augment heavy", &[2]),
        (SEGMENTATION.model, "--class-weights 1,2 --dice-over batch --sampling foreground", &[3]),
        ("mobilenet_v3_small", "--class-order dark,striped,bright", &[2]),
    ] {
        let bench = Bench::for_model(model, EACH);
        let flags = format!(
            "{} --model {model} {more}",
            EVERYTHING.replace("--batch-size 37", if more.contains("--batch-size") { "" } else { "--batch-size 37" })
        );
        let flags = if more.contains("--augment") { flags.replacen("--augment medium", "", 1) } else { flags };
        let straight = bench.run(model, &flags, "");
        for size in sizes {
            let name = format!("{model}-{size}");
            let run = train(&bench, &name, &flags, *size, "");
            assert_same_bits(&straight, &run, &format!("{model} in {size} processes"));
            let steps = of_kind(&run, "step");
            assert!(
                steps.iter().all(|step| step["together"]["slowest"].as_str().is_some_and(|it| it.contains("rank "))),
                "{steps:?}"
            );
        }
        assert!(of_kind(&straight, "step").iter().all(|step| step.get("together").is_none()));
    }
}

fn a_number_learnt_in_several_processes_has_the_bits_of_one() {
    let bench = Bench::new(EACH);
    let mut rows = String::from("path,value\n");
    for (number, class) in (0..).zip(CLASSES) {
        (0..EACH).for_each(|index| rows += &format!("data/{class}/{index:02}.png,{}\n", 100 * number + index));
    }
    std::fs::write(bench.path("values.csv"), rows).expect("a manifest can be written");
    let command = |name: &str| {
        let mut command = kindling();
        command.args(["train", "--device", "cpu", "--quiet", "--target", "value", "--model", "mobilenet_v3_small"]);
        command.args(EVERYTHING.split_whitespace()).arg("--data").arg(bench.path("values.csv"));
        command.arg("--out").arg(bench.path(name));
        command
    };
    Outcome::of(&mut command("one")).succeeded();
    Outcome::of(&mut in_processes(3, &command("three"), "")).succeeded();
    assert_same_bits(&bench.path("one"), &bench.path("three"), "a number in three processes");
}

fn three_networks_in_each_format_end_with_the_bits_of_one() {
    let bench = Bench::new(EACH);
    for model in ["mobilenet_v2", "efficientnet_b0", "resnet18"] {
        for precision in ["f32", "bf16", "f16"] {
            let flags = format!("{EVERYTHING} --model {model} --precision {precision}").replacen(
                "--image-size 32",
                "--image-size 64",
                1,
            );
            // Of 42 samples the second batch has 5 or 10: two normalisation groups or three.
            let batches = if precision == "f32" { &["37", "32"][..] } else { &["37"] };
            for batch in batches {
                let flags = flags.replacen("--batch-size 37", &format!("--batch-size {batch}"), 1);
                let name = format!("{model}-{precision}-{batch}");
                let straight = bench.run(&name, &flags, "");
                // One process with a launcher is one as well.
                for size in [1, 2, 3, 4] {
                    let run = train(&bench, &format!("{name}-{size}"), &flags, size, "");
                    assert_same_bits(&straight, &run, &format!("{name} in {size} processes"));
                }
            }
        }
    }
}

/// Each lack of memory stays where it is: the others wait, and nothing of it is in the log of the first.
fn a_fault_in_every_phase_on_one_of_three_leaves_the_bits() {
    let faults = "oom@step=1,phase=upload;oom@step=1,phase=backward;oom@step=2,phase=forward;panic@step=3,phase=finite-check;\
                  oom@step=4,phase=optimizer;oom@step=5,phase=backward;oom@step=6,phase=commit;oom@step=4,phase=eval";
    let in_both_passes = format!("{faults};oom@step=7,phase=first-pass;panic@step=8,phase=first-pass");
    for (task, more, faults, ranks) in
        [(CLASSIFICATION, "", faults, &[0, 2][..]), (SEGMENTATION, "--dice-over batch", in_both_passes.as_str(), &[2])]
    {
        let bench = Bench::for_model(task.model, EACH);
        let flags = format!("{EVERYTHING} --epochs 4 --model {} {more}", task.model).replacen("--epochs 2", "", 1);
        let straight = bench.run("straight", &flags, "");
        for rank in ranks {
            let own = format!("if test $OMPI_COMM_WORLD_RANK = {rank}; then export KINDLING_FAULT='{faults}'; fi");
            let run = train(&bench, &format!("rank-{rank}"), &flags, 3, &own);
            assert_same_bits(&straight, &run, &format!("{}: faults on rank {rank}", task.name));
            assert_eq!(of_kind(&run, "recovered").is_empty(), *rank != 0, "{}: rank {rank}", task.name);
        }
    }
}

fn a_process_with_less_memory_than_the_others_leaves_the_bits() {
    let bench = Bench::new(EACH);
    let flags = format!("{EVERYTHING} --model mobilenet_v3_small").replacen("--image-size 32", "--image-size 160", 1);
    let straight = bench.run("straight", &flags, "");
    // What the last gets is enough with activation checkpointing alone.
    let own = "if test $OMPI_COMM_WORLD_RANK = 2; then set -- \"$@\" --activation-checkpointing blocks --memory-budget 400MiB; fi";
    let run = train(&bench, "less", &flags, 3, own);
    assert_same_bits(&straight, &run, "another budget on the last of three");
    let flags = std::fs::read_to_string(run.join("config.toml")).expect("the run has a configuration");
    assert!(
        flags.contains("activation_checkpointing = \"auto\""),
        "what one process is told is not the run's: {flags}"
    );
}

fn a_sample_that_cannot_be_read_is_replaced_alike_and_counted_over_all() {
    let bench = Bench::new(EACH);
    for (class, index) in [("bright", 3), ("dark", 7), ("striped", 11)] {
        let name = std::fs::read_dir(bench.data().join(class))
            .expect("the class is there")
            .flatten()
            .map(|entry| entry.path());
        let mut files: Vec<PathBuf> = name.collect();
        files.sort();
        // It opens, and cannot be decoded.
        let bytes = std::fs::read(&files[index]).expect("a picture");
        std::fs::write(&files[index], &bytes[..bytes.len() / 2]).expect("the test may write");
    }
    let flags = format!("{EVERYTHING} --model mobilenet_v3_small --on-bad-sample skip --max-bad 20%");
    let straight = bench.run("straight", &flags, "");
    let run = train(&bench, "run", &flags, 3, "");
    assert_same_bits(&straight, &run, "samples that cannot be read");
    let list = |run: &Path| {
        let text = std::fs::read_to_string(run.join("bad-samples.jsonl")).expect("the list is there");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(list(&run), list(&straight));
    assert_eq!(list(&run).len(), 3);

    let few = Outcome::of(&mut in_processes(
        3,
        &bench.command("few", &format!("{flags} --max-bad 1").replacen("--max-bad 20%", "", 1), ""),
        "",
    ));
    assert!(few.refused_by_one().contains("cannot be read"), "{}", few.all());
    let strict =
        Outcome::of(&mut in_processes(3, &bench.command("strict", &flags.replacen("skip", "fail", 1), ""), ""));
    let sentence = strict.refused_by_one();
    assert!(sentence.contains(".png"), "{sentence}");
}

fn eval_divides_the_samples_and_says_what_one_process_says() {
    let bench = Bench::new(EACH);
    let run = bench.run("run", "--image-size 32 --epochs 1 --batch-size 4", "");
    let mut eval = kindling();
    eval.arg("eval").arg(&run).args(["--device", "cpu", "--split", "all", "--format", "json"]);
    let alone = Outcome::of(&mut eval).succeeded();
    for size in [2, 3] {
        let together = Outcome::of(&mut in_processes(size, &eval, "")).succeeded();
        assert_eq!(together.stdout, alone.stdout, "{size} processes");
    }
}

/// More files than all processes take at once, of which two cannot be read.
fn predict_divides_the_files_and_says_what_one_process_says() {
    let bench = Bench::new(EACH);
    let run = bench.run("run", "--image-size 32 --max-steps 2 --batch-size 4", "");
    let new = bench.path("new");
    picture_folder(&new, 7);
    for name in ["bright/03a.png", "striped/99.png"] {
        std::fs::write(new.join(name), b"no picture").expect("a folder of the test");
    }
    let mut predict = kindling();
    predict.arg("predict").arg(&run).arg(&new).args(["--device", "cpu"]);
    let alone = Outcome::of(&mut predict);
    assert_eq!((alone.code, alone.stdout.lines().count()), (Some(1), 1 + 21), "{}", alone.all());
    for size in [2, 3] {
        let together = Outcome::of(&mut in_processes(size, &predict, ""));
        assert_eq!((together.code, &together.stdout), (Some(1), &alone.stdout), "{size} processes: {}", together.all());
        let unread = |said: &str| said.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!((unread(&alone.stderr), unread(&together.stderr)), (2, 2), "{}", together.all());
    }
    // The second process sees other files under the same name.
    let mut here = kindling();
    here.arg("predict").arg(&run).args([".", "--device", "cpu"]);
    let own = format!(
        "cd {}/$([ $OMPI_COMM_WORLD_RANK = 1 ] && echo dark || echo bright)",
        new.to_str().expect("a path of the test")
    );
    let sentence = Outcome::of(&mut in_processes(2, &here, &own)).refused_by_one();
    assert_says(&sentence, &["rank 1", "another list of files"]);
}
