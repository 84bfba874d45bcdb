//! Processes that are killed, stopped or asked to stop, and disks that are full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kindling_tests::{Bench, Outcome, assert_same_bits, checkpoints, kindling, newest_step, private_mounts, rng};
use rand::RngExt;

use crate::together::{EACH, EVERYTHING, in_processes};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("a_random_process_killed_again_and_again_leaves_the_bits", || killed(4, 60)),
    (
        "a_stopped_process_is_named_and_all_end_within_the_timeout",
        a_stopped_process_is_named_and_all_end_within_the_timeout,
    ),
    (
        "a_stopped_process_of_eval_or_predict_is_named_and_all_end",
        a_stopped_process_of_eval_or_predict_is_named_and_all_end,
    ),
    (
        "a_process_that_is_asked_to_stop_stops_all_and_nothing_is_lost",
        a_process_that_is_asked_to_stop_stops_all_and_nothing_is_lost,
    ),
    (
        "a_launcher_that_is_interrupted_stops_all_and_nothing_is_lost",
        a_launcher_that_is_interrupted_stops_all_and_nothing_is_lost,
    ),
    ("what_does_not_fit_on_one_is_one_sentence_that_names_it", what_does_not_fit_on_one_is_one_sentence_that_names_it),
    ("a_process_with_other_weights_is_named_and_its_steps_are_not_saved", || other_weights(7, 9)),
];
pub(crate) const LONG_TESTS: &[(&str, fn())] = &[
    ("a_random_process_killed_fifty_times_leaves_the_bits", || killed(50, 400)),
    ("a_process_with_other_weights_is_named_every_hundred_steps", || other_weights(97, 120)),
];
pub(crate) const TESTS_OF_DISKS: &[(&str, fn())] = &[
    (
        "a_full_disk_under_the_first_is_one_sentence_and_nothing_is_lost",
        a_full_disk_under_the_first_is_one_sentence_and_nothing_is_lost,
    ),
    ("a_process_other_than_the_first_needs_no_disk", a_process_other_than_the_first_needs_no_disk),
];

/// No launcher takes longer, on a machine that builds something else at the same time.
const PATIENCE: Duration = Duration::from_secs(240);

/// A launcher with its processes.
struct Launched {
    child: Child,
    folder: PathBuf,
}

impl Launched {
    /// Starts a command in so many processes, each of which says its number in a file of `folder`.
    fn start(folder: &Path, size: usize, command: &Command) -> Self {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir(folder).expect("a folder of the test can be made");
        let own = format!("echo $$ > {}/$OMPI_COMM_WORLD_RANK", folder.display());
        let mut launched = in_processes(size, command, &own);
        let child = launched.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self { child: child.expect("the launcher starts"), folder: folder.to_owned() }
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked whether it has ended").is_some()
    }

    /// Sends a signal to one of the processes, if it is there.
    fn signal(&self, rank: usize, signal: &str) -> bool {
        let Ok(id) = fs::read_to_string(self.folder.join(rank.to_string())) else { return false };
        let sent = Command::new("kill").args([signal, id.trim()]).stderr(Stdio::null()).status();
        sent.is_ok_and(|status| status.success())
    }

    fn end(mut self) -> Outcome {
        let began = Instant::now();
        while !self.has_ended() {
            if began.elapsed() > PATIENCE {
                for rank in 0..8 {
                    self.signal(rank, "-KILL");
                }
                panic!("the launcher has not ended in {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Outcome::of_child("mpirun", self.child)
    }
}

/// A run of so many steps, of which a process is killed so many times; each time it goes on with another number of processes.
fn killed(times: usize, steps: u64) {
    let bench = Bench::new(EACH);
    let flags = EVERYTHING.replacen("--epochs 2", "", 1);
    let flags = format!("{flags} --epochs 1000 --max-steps {steps} --model mobilenet_v3_small --resume-or-start");
    let straight = bench.run("straight", &flags, "");
    let run = bench.path("run");
    let mut rng = rng(17);
    let (mut kills, mut begun) = (0, 0);
    loop {
        let size = [1, 2, 3][begun % 3];
        begun += 1;
        assert!(begun < 4 * times + 10, "killed {kills} times in {begun} starts");
        let mut launched = Launched::start(&bench.path("ids"), size, &bench.command("run", &flags, ""));
        if kills < times {
            // Some steps later, or before the first, at a random moment; a machine that makes many steps in
            // that time is not given so many, because a run that has ended cannot be killed.
            let until = newest_step(&run) + rng.random_range(0..=3);
            while newest_step(&run) < until && !launched.has_ended() {
                std::thread::sleep(Duration::from_millis(2));
            }
            let (waiting, delay) = (Instant::now(), Duration::from_millis(rng.random_range(0..=399)));
            while waiting.elapsed() < delay && newest_step(&run) < until + steps / (2 * times as u64) {
                std::thread::sleep(Duration::from_millis(2));
            }
            // The launcher may not have started that process yet.
            let rank = rng.random_range(0..size);
            while !launched.has_ended() {
                if launched.signal(rank, "-KILL") {
                    kills += 1;
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let outcome = launched.end();
        if outcome.code == Some(0) {
            break;
        }
    }
    assert_eq!(kills, times, "it ended before");
    assert_same_bits(&straight, &run, &format!("killed {kills} times"));
}

/// The timeout is longer than a step, and a checkpoint on a slow disk, may take.
fn a_stopped_process_is_named_and_all_end_within_the_timeout() {
    let bench = Bench::new(EACH);
    let flags = EVERYTHING.replacen("--epochs 2", "", 1);
    let flags = format!("{flags} --epochs 1000 --max-steps 100000 --model mobilenet_v3_small --rank-timeout 8s");
    let run = bench.path("run");
    let launched = Launched::start(&bench.path("ids"), 3, &bench.command("run", &flags, ""));
    let began = Instant::now();
    while newest_step(&run) < 3 {
        assert!(began.elapsed() < PATIENCE, "no step ends");
        std::thread::sleep(Duration::from_millis(10));
    }
    is_named_when_stopped(launched, "continue with: kindling train --resume");
    assert!(newest_step(&run) >= 3);
}

/// Stops the second process: all end, and one sentence names it and says how to go on.
fn is_named_when_stopped(launched: Launched, advice: &str) {
    assert!(launched.signal(1, "-STOP"));
    let stopped = Instant::now();
    let outcome = launched.end();
    let lasted = stopped.elapsed();
    assert!(lasted < Duration::from_secs(40), "it took {lasted:?}");
    assert_ne!(outcome.code, Some(0));
    let said: Vec<&str> = outcome.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    let [sentence] = said.as_slice() else { panic!("{}", outcome.all()) };
    for words in ["rank 1 on ", "gives no sign of life any more", advice] {
        assert!(sentence.contains(words), "`{words}` is not said: {sentence}");
    }
}

/// It is stopped when it has left its first sign of life. Neither has come to its end then: many resamples keep the first process of `eval`
/// busy, and many files both of `predict`.
fn a_stopped_process_of_eval_or_predict_is_named_and_all_end() {
    let bench = Bench::new(EACH);
    let run = bench.run("run", "--image-size 32 --max-steps 2 --batch-size 4", "");
    let many = bench.path("many");
    fs::create_dir(&many).expect("a folder of the test can be made");
    for number in 0..6000 {
        let link = fs::hard_link(bench.path("data/dark/00.png"), many.join(format!("{number}.png")));
        link.expect("a file of the test can have many names");
    }
    let scored = ["--split", "all", "--resamples", "20000"].map(str::to_owned).to_vec();
    for (command, given) in [("eval", scored), ("predict", vec![many.display().to_string()])] {
        let signs = bench.path(&format!("signs-{command}"));
        fs::create_dir(&signs).expect("a folder of the test can be made");
        let kindling = kindling();
        let mut watched = Command::new("env");
        watched.envs(kindling.get_envs().filter_map(|(name, value)| Some((name, value?))));
        watched.arg(format!("TMPDIR={}", signs.display())).arg(kindling.get_program()).args(kindling.get_args());
        watched.arg(command).arg(&run).args(given).args(["--device", "cpu", "--rank-timeout", "5s"]);
        let mut launched = Launched::start(&bench.path("ids"), 2, &watched);
        let began = Instant::now();
        while !has_left_a_sign(&signs, 1) {
            assert!(began.elapsed() < PATIENCE && !launched.has_ended(), "{command} is not watched");
            std::thread::sleep(Duration::from_millis(2));
        }
        is_named_when_stopped(launched, "run it again");
        assert!(!run.join("ranks").exists(), "a training may go on in the run");
    }
}

/// Whether a process has left a sign of life in a folder of this one.
fn has_left_a_sign(folder: &Path, rank: usize) -> bool {
    let folders = fs::read_dir(folder).expect("the folder of the test").filter_map(Result::ok);
    folders.map(|entry| entry.path().join(format!("rank-{rank}.json"))).any(|sign| sign.is_file())
}

/// A run of so many epochs in the first number of processes, which is stopped in the middle by `ask`, and ends in the second number of them
/// as if it had not been.
fn stopped(epochs: u64, [size, again]: [usize; 2], variables: &[(&str, &str)], ask: impl FnOnce(&Launched) -> bool) {
    let bench = Bench::new(EACH);
    let flags = EVERYTHING.replacen("--epochs 2", &format!("--epochs {epochs}"), 1);
    let flags = format!("{flags} --model mobilenet_v3_small");
    let straight = bench.run("straight", &flags, "");
    let run = bench.path("run");
    let mut command = bench.command("run", &flags, "");
    command.envs(variables.iter().copied());
    let mut launched = Launched::start(&bench.path("ids"), size, &command);
    while newest_step(&run) < 2 && !launched.has_ended() {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(ask(&launched), "it had ended before it could be stopped");
    let outcome = launched.end();
    let stopped = newest_step(&run);
    // Two steps an epoch.
    assert!((2..2 * epochs).contains(&stopped), "{stopped}: {}", outcome.all());
    assert!(outcome.stderr.contains(&format!("stopped after step {stopped}")), "{}", outcome.all());
    assert_eq!(outcome.stderr.matches("stopped after step").count(), 1, "{}", outcome.all());
    let mut resume = kindling();
    resume.args(["train", "--quiet", "--resume"]).arg(&run);
    Outcome::of(&mut in_processes(again, &resume, "")).succeeded();
    assert_same_bits(&straight, &run, "stopped and continued");
}

fn a_process_that_is_asked_to_stop_stops_all_and_nothing_is_lost() {
    stopped(8, [3, 2], &[], |launched| launched.signal(2, "-TERM"));
}

/// Ctrl-C reaches the launcher as well. Open MPI's waits as long as it is told, asks the processes to stop, and waits as long again before
/// it kills them. The run takes several times as long as that.
fn a_launcher_that_is_interrupted_stops_all_and_nothing_is_lost() {
    stopped(40, [2, 3], &[("OMPI_MCA_odls_base_sigkill_timeout", "3")], |launched| {
        let sent = Command::new("kill").args(["-INT", &launched.child.id().to_string()]).status();
        sent.is_ok_and(|status| status.success())
    });
}

/// An update of one process is wrong in the step `wrong`, of `steps` in all. All hold the same weights after each hundredth step, each
/// epoch and the last step, or say so; what the others have computed by then has gradients of wrong weights in it.
fn other_weights(wrong: u64, steps: u64) {
    let bench = Bench::new(EACH);
    // Six batches an epoch, after which there is a checkpoint.
    let flags = format!(
        "--image-size 32 --batch-size 8 --ghost-batch-size 4 --epochs 50 --max-steps {steps} --workers 1 --model mobilenet_v3_small"
    );
    let straight = bench.run("straight", &flags, "");
    let own =
        format!("if test $OMPI_COMM_WORLD_RANK = 1; then export KINDLING_FAULT='wrong@step={wrong},rate=0.5'; fi");
    let sentence = Outcome::of(&mut in_processes(2, &bench.command("run", &flags, ""), &own)).refused_by_one();
    let found = steps.min(wrong.next_multiple_of(100));
    let agreed = (wrong - 1) / 6 * 6;
    for words in [
        format!("after step {found} rank 1 on "),
        "has other weights".to_string(),
        format!("steps after {agreed} may hold its gradients"),
        "are not saved".to_string(),
    ] {
        assert!(sentence.contains(&words), "`{words}` is not said: {sentence}");
    }
    let run = bench.path("run");
    assert_eq!(newest_step(&run), agreed, "no checkpoint has a step in it that was computed with wrong weights");
    let mut resume = kindling();
    resume.args(["train", "--quiet", "--resume"]).arg(&run);
    Outcome::of(&mut in_processes(2, &resume, "")).succeeded();
    assert_same_bits(&straight, &run, "after other weights in one process");
}

fn what_does_not_fit_on_one_is_one_sentence_that_names_it() {
    let bench = Bench::new(EACH);
    let flags = EVERYTHING.replacen("--epochs 2", "--epochs 4", 1);
    let flags = format!("{flags} --model mobilenet_v3_small");
    let straight = bench.run("straight", &flags, "");
    let faults = "toolarge@step=3,phase=forward;".repeat(9);
    let own = format!("if test $OMPI_COMM_WORLD_RANK = 1; then export KINDLING_FAULT='{faults}'; fi");
    let refused = Outcome::of(&mut in_processes(3, &bench.command("run", &flags, ""), &own));
    let sentence = refused.refused_by_one();
    assert!(sentence.contains("rank 1 on ") && sentence.contains("do not fit"), "{sentence}");
    let run = bench.path("run");
    assert_eq!(newest_step(&run), 2, "the steps before it are saved");
    let mut resume = kindling();
    resume.args(["train", "--quiet", "--resume"]).arg(&run);
    Outcome::of(&mut in_processes(2, &resume, "")).succeeded();
    assert_same_bits(&straight, &run, "after what did not fit");
}

fn a_full_disk_under_the_first_is_one_sentence_and_nothing_is_lost() {
    let bench = Bench::new(EACH);
    let flags = EVERYTHING.replacen("--epochs 2", "--epochs 4", 1).replacen("--ema 0.9", "", 1);
    let flags = format!("{flags} --model mobilenet_v3_small");
    let (disk, kept) = (bench.path("disk"), bench.path("kept"));
    fs::create_dir(&disk).expect("a folder of the test can be made");
    let mut command = bench.command("disk/run", &flags, "");
    let launched = in_processes(3, &command, "");
    // Two checkpoints of 18 MB and weights fit, a third checkpoint does not.
    let script = "mount -t tmpfs -o size=50m none \"$1\" || exit 99\ndisk=$1 kept=$2; shift 2\n\"$@\"; code=$?\ncp -a \"$disk/run\" \"$kept\" || exit 98\nexit $code";
    command = Command::new("unshare");
    command.args([private_mounts().expect("checked before"), "sh", "-c", script, "sh"]).arg(&disk).arg(&kept);
    command.arg(launched.get_program()).args(launched.get_args());
    command.envs(launched.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let sentence = Outcome::of(&mut command).refused_by_one();
    assert!(sentence.contains("No space left on device"), "{sentence}");
    assert!(!checkpoints(&kept).is_empty());

    let straight = bench.run("straight", &flags, "");
    Outcome::of(kindling().args(["train", "--quiet", "--resume"]).arg(&kept)).succeeded();
    assert_same_bits(&straight, &kept, "with space again");
}

/// The second process can read the data and the run, and write nowhere among them: a full disk would not be noticed there.
fn a_process_other_than_the_first_needs_no_disk() {
    let bench = Bench::new(EACH);
    let flags = format!("{EVERYTHING} --model mobilenet_v3_small");
    let straight = bench.run("straight", &flags, "");
    let (all, tried) = (bench.path(""), bench.path("tried"));
    let script = format!(
        "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && ! touch {} 2>/dev/null && exec \"$@\"",
        tried.display()
    );
    let own = format!(
        "if test $OMPI_COMM_WORLD_RANK = 1; then exec unshare {} sh -c '{script}' {} \"$@\"; fi",
        private_mounts().expect("checked before"),
        all.display()
    );
    let mut command = bench.command("run", &flags, "");
    // Processes in other user namespaces must not read each other's memory.
    command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    Outcome::of(&mut in_processes(2, &command, &own)).succeeded();
    assert!(!tried.exists(), "the second process could write");
    assert_same_bits(&straight, &bench.path("run"), "nothing can be written by the second");
}
