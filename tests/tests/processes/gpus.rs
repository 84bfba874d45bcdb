//! Several processes with a GPU each, which are the stand-ins for CUDA and NCCL.

use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{
    Outcome, ShortRuns, assert_same_bits, assert_says, cuda_folder, events, json_of, kindling, on_cuda, steps,
};

use crate::together::in_processes;

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "gradients_that_nccl_moves_have_the_bits_of_those_that_mpi_moves",
        gradients_that_nccl_moves_have_the_bits_of_those_that_mpi_moves,
    ),
    (
        "what_nccl_cannot_connect_is_refused_where_it_is_asked_for",
        what_nccl_cannot_connect_is_refused_where_it_is_asked_for,
    ),
];

/// Of the twelve images of [`ShortRuns`] a batch has eight, two normalisation groups, and the last of an epoch one group, of which the
/// first process has nothing: it goes through host memory in any case.
const FLAGS: &str =
    "--model mobilenet_v3_small --image-size 32 --batch-size 8 --ghost-batch-size 4 --max-steps 3 --workers 1";
/// Steps of two groups.
const SHARED_STEPS: u64 = 2;

/// Two processes of a training, each with its GPU.
fn on_two_gpus(runs: &ShortRuns, name: &str, flags: &str, own: &str) -> Command {
    let mut command = kindling();
    let flags = if flags.contains("--device") { flags.to_string() } else { format!("{flags} --device auto") };
    command.arg("train").args(FLAGS.split_whitespace()).args(flags.split_whitespace());
    command.arg("--data").arg(runs.path("data")).arg("--out").arg(runs.path(name));
    on_cuda(&mut command, "6.1").env("CUDASIM_DEVICES", "2");
    let mut launched = in_processes(2, &command, own);
    launched.current_dir(cuda_folder().join("settings")).env_remove("CUDA_VISIBLE_DEVICES").env_remove("KINDLING_NCCL");
    launched
}

/// Lines on standard error that have these words.
fn lines_with<'a>(outcome: &'a Outcome, words: &str) -> Vec<&'a str> {
    outcome.stderr.lines().filter(|line| line.contains(words)).collect()
}

fn sent(run: &Path) -> u64 {
    events(run).iter().filter_map(|event| event["together"]["sent_bytes"].as_u64()).sum()
}

fn gradients_that_nccl_moves_have_the_bits_of_those_that_mpi_moves() {
    let runs = ShortRuns::new();
    let run = |name: &str, flags: &str, own: &str| -> (PathBuf, Outcome) {
        (runs.path(name), Outcome::of(&mut on_two_gpus(&runs, name, flags, own)).succeeded())
    };
    let (by_mpi, said) = run("mpi", "--exchange mpi", "");
    assert!(lines_with(&said, "NCCL").is_empty(), "{}", said.all());
    assert_eq!(steps(&by_mpi), [1, 2, 3]);

    let stats = runs.path("moved");
    let own = format!("export NCCLSIM_STATS='{}'", stats.display());
    let (by_nccl, said) = run("nccl", "", &own);
    assert_eq!(lines_with(&said, "gradients go from GPU to GPU by NCCL 2.21.5").len(), 1, "{}", said.all());
    assert_same_bits(&by_mpi, &by_nccl, "sums that NCCL has moved");
    let moved = json_of(&stats.with_extension("0"));
    let number = |name: &str| moved[name].as_u64().unwrap_or_default();
    // Two exchanges a round, and in each step as much as MPI would move: half of the gradients out, half of the sum back.
    assert!(number("groups") > 0 && number("groups").is_multiple_of(2 * SHARED_STEPS), "{moved}");
    assert!(
        number("bytes") * 10 > sent(&by_mpi) * 6 && number("bytes") < sent(&by_nccl),
        "{moved} of {}",
        sent(&by_mpi)
    );

    for (rank, fault) in [(1, "group:3=3"), (0, "async:5=6")] {
        let own = format!("if test $OMPI_COMM_WORLD_RANK = {rank}; then export NCCLSIM_FAULTS={fault}; fi");
        let (failed, said) = run(&format!("failed-{rank}"), "", &own);
        assert_same_bits(&by_mpi, &failed, fault);
        let told = lines_with(&said, "NCCL has failed");
        assert_eq!(told.len(), 1, "{}", said.all());
        assert_says(told[0], &["warning: ", "through host memory", "with the same result"]);
    }
}

fn what_nccl_cannot_connect_is_refused_where_it_is_asked_for() {
    let runs = ShortRuns::new();
    for (name, flags, told) in [
        ("cpu", "--device cpu", "it does not compute on an NVIDIA GPU"),
        ("library", "--nccl-library /nowhere/libnccl.so", "/nowhere/libnccl.so"),
        ("one", "--device cuda:0", "compute on the same GPU"),
    ] {
        let mut command = on_two_gpus(&runs, name, &format!("--exchange nccl {flags}"), "");
        let sentence = Outcome::of(&mut command).refused_by_one();
        assert_says(&sentence, &["--exchange nccl cannot be: rank ", told, "--exchange mpi"]);
    }
}
