//! What several processes do not do, each in one sentence.

use std::fs;
use std::path::Path;
use std::process::Command;

use kindling_tests::{Bench, Outcome, kindling, picture_folder, private_mounts};

use crate::together::{EACH, in_processes};

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "a_batch_with_fewer_groups_than_processes_names_the_ways_out",
        a_batch_with_fewer_groups_than_processes_names_the_ways_out,
    ),
    ("another_build_or_other_data_in_one_process_is_refused", another_build_or_other_data_in_one_process_is_refused),
    ("other_samples_to_score_in_one_process_are_refused", other_samples_to_score_in_one_process_are_refused),
    ("another_setting_in_one_process_is_refused", another_setting_in_one_process_is_refused),
    ("what_runs_in_one_process_says_so_once", what_runs_in_one_process_says_so_once),
    ("what_the_first_cannot_write_at_the_end_is_one_sentence", what_the_first_cannot_write_at_the_end_is_one_sentence),
    ("a_mistake_on_the_command_line_is_told_once", a_mistake_on_the_command_line_is_told_once),
    ("a_library_that_is_not_there_is_one_sentence", a_library_that_is_not_there_is_one_sentence),
];

pub(crate) const TESTS_OF_MOUNTS: &[(&str, fn())] =
    &[("another_processor_in_one_process_is_refused", another_processor_in_one_process_is_refused)];
pub(crate) const TESTS_OF_TWO_MPIS: &[(&str, fn())] =
    &[("a_library_that_is_not_the_launchers_is_refused", a_library_that_is_not_the_launchers_is_refused)];

/// Three groups, which two processes can divide.
const SHORT: &str = "--image-size 32 --batch-size 12 --ghost-batch-size 4 --max-steps 1";

fn refused(size: usize, command: &Command, own: &str) -> String {
    Outcome::of(&mut in_processes(size, command, own)).refused_by_one()
}

fn a_batch_with_fewer_groups_than_processes_names_the_ways_out() {
    let bench = Bench::new(EACH);
    let sentence = refused(3, &bench.command("run", "--image-size 32 --batch-size 8", ""), "");
    for words in ["1 group", "3 processes", "--batch-size 24", "--ghost-batch-size 2"] {
        assert!(sentence.contains(words), "`{words}` is not said: {sentence}");
    }
    assert!(!bench.path("run").exists(), "a run is left behind");
}

fn another_build_or_other_data_in_one_process_is_refused() {
    let bench = Bench::new(EACH);
    let copy = bench.path("another-kindling");
    let mut bytes = fs::read(kindling().get_program()).expect("the command can be read");
    bytes.push(0);
    fs::write(&copy, bytes).expect("the test may write");
    let own =
        format!("if test $OMPI_COMM_WORLD_RANK = 1; then shift; set -- {0} \"$@\"; chmod +x {0}; fi", copy.display());
    let sentence = refused(2, &bench.command("build", SHORT, ""), &own);
    assert!(sentence.contains("rank 1 on ") && sentence.contains("runs another build"), "{sentence}");
    assert!(!bench.path("build").exists(), "a run is left behind");

    // The same names, and in one of them another picture: to the last process alone, whose folder lies elsewhere.
    let (mine, others) = (bench.path("mine"), bench.path("others"));
    picture_folder(&mine, EACH);
    picture_folder(&others, EACH);
    let file = first_file(&others.join("dark"));
    fs::copy(first_file(&others.join("bright")), &file).expect("the test may write");
    let mut command = kindling();
    command.args(["train", "--device", "cpu", "--quiet", "--data"]).arg(&mine).arg("--out").arg(bench.path("data-run"));
    command.args(SHORT.split_whitespace());
    let own = format!("if test $OMPI_COMM_WORLD_RANK = 1; then set -- \"$@\" --data-at {}; fi", others.display());
    let sentence = refused(2, &command, &own);
    assert!(sentence.contains("rank 1 on ") && sentence.contains("sees other data"), "{sentence}");
    // The same command begins the run when the data is right.
    Outcome::of(&mut in_processes(2, &command, "")).succeeded();
}

/// The processor is what the system says it is: to one process, in a file of ours.
fn another_processor_in_one_process_is_refused() {
    let bench = Bench::new(EACH);
    let about = fs::read_to_string("/proc/cpuinfo").expect("the system says what processor it has");
    let other = bench.path("cpuinfo");
    fs::write(&other, format!("model name : Another processor\n{about}")).expect("the test may write");
    let own = format!(
        "if test $OMPI_COMM_WORLD_RANK = 1; then exec unshare {} sh -c 'mount --bind \"$0\" /proc/cpuinfo && exec \"$@\"' {} \"$@\"; fi",
        private_mounts().expect("checked before"),
        other.display()
    );
    let mut command = bench.command("run", SHORT, "");
    // Processes in other user namespaces must not read each other's memory.
    command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    let sentence = refused(2, &command, &own);
    for words in ["rank 1 on ", "computes on Another processor", "round differently"] {
        assert!(sentence.contains(words), "`{words}` is not said: {sentence}");
    }
    assert!(!bench.path("run").exists(), "a run is left behind");
}

/// Each process would believe that it is the only one, and all would write the same folder.
fn a_library_that_is_not_the_launchers_is_refused() {
    let bench = Bench::new(EACH);
    let flags = format!("{SHORT} --mpi-library libmpich.so.12");
    let sentence = refused(2, &bench.command("run", &flags, ""), "");
    for words in ["mpirun started 2 processes, but MPICH", "sees 1", "--mpi-library"] {
        assert!(sentence.contains(words), "`{words}` is not said: {sentence}");
    }
    assert!(!bench.path("run").exists(), "a run is left behind");
}

fn other_samples_to_score_in_one_process_are_refused() {
    let bench = Bench::new(EACH);
    let run = bench.run("run", "--image-size 32 --max-steps 1 --batch-size 4", "");
    let others = bench.path("others");
    picture_folder(&others, EACH);
    let file = first_file(&others.join("dark"));
    fs::copy(first_file(&others.join("bright")), &file).expect("the test may write");
    let mut eval = kindling();
    eval.arg("eval").arg(&run).args(["--device", "cpu", "--split", "all"]);
    let own = format!("if test $OMPI_COMM_WORLD_RANK = 1; then set -- \"$@\" --data-at {}; fi", others.display());
    let outcome = Outcome::of(&mut in_processes(2, &eval, &own));
    let sentence = outcome.refused_by_one();
    assert!(sentence.contains("rank 1 on ") && sentence.contains("sees other data"), "{sentence}");
    assert!(!outcome.stderr.contains("not what the run began with"), "the first alone tells: {}", outcome.all());
}

fn first_file(folder: &Path) -> std::path::PathBuf {
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the class is there").flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.remove(0)
}

fn another_setting_in_one_process_is_refused() {
    let bench = Bench::new(EACH);
    let own = "if test $OMPI_COMM_WORLD_RANK = 1; then set -- \"$@\" --lr 0.5; fi";
    let sentence = refused(2, &bench.command("run", SHORT, ""), own);
    assert!(sentence.contains("rank 1 on ") && sentence.contains("--lr"), "{sentence}");
    assert!(!bench.path("run").exists(), "a run is left behind");
}

fn what_runs_in_one_process_says_so_once() {
    let bench = Bench::of_two_networks(EACH);
    let sentence = refused(2, &bench.command("run", "--iterations 1", ""), "");
    assert!(sentence.contains("kindling gan runs in one process") && sentence.contains("has started 2"), "{sentence}");
    let mut card = kindling();
    card.args(["card", "run"]);
    let sentence = refused(3, &card, "");
    assert!(sentence.contains("kindling card runs in one process"), "{sentence}");
}

/// When the others have nothing left to do.
fn what_the_first_cannot_write_at_the_end_is_one_sentence() {
    let bench = Bench::new(EACH);
    let run = bench.run("run", "--image-size 32 --max-steps 1 --batch-size 4", "");
    let mut eval = kindling();
    eval.arg("eval").arg(&run).args(["--device", "cpu", "--predictions"]).arg(bench.path("no/table.csv"));
    let sentence = refused(2, &eval, "");
    assert!(sentence.contains("table.csv"), "{sentence}");
}

fn a_mistake_on_the_command_line_is_told_once() {
    let bench = Bench::new(EACH);
    let sentence = refused(3, &bench.command("run", "--batch-sise 8", ""), "");
    assert!(sentence.contains("--batch-sise"), "{sentence}");
    let sentence = refused(3, &bench.command("run", "--model mobilenet_v9", ""), "");
    assert!(sentence.contains("mobilenet_v9"), "{sentence}");
}

fn a_library_that_is_not_there_is_one_sentence() {
    let bench = Bench::new(EACH);
    let sentence = refused(2, &bench.command("run", "--image-size 32 --mpi-library /nowhere/libmpi.so", ""), "");
    assert!(sentence.contains("/nowhere/libmpi.so"), "{sentence}");
}
