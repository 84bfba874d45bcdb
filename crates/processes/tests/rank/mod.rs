//! What one rank of the test program does.

mod gpus;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use kindling_processes::reduce::sum;
use kindling_processes::tree::{Accumulator, Node};
use kindling_processes::{Error, Group, Watchdog};
use kindling_random::{Purpose, rng};
use rand::RngExt;

/// The variable that has a rank's task.
pub(crate) const TASK: &str = "KINDLING_TEST_TASK";

/// Not a multiple of anything that ranks divide by.
const LENGTH: usize = 100_003;

pub(crate) fn run(task: &str) -> ExitCode {
    match joined(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(std::io::stderr(), &format!("error: {error}"));
            ExitCode::from(3)
        }
    }
}

fn joined(task: &str) -> Result<(), Error> {
    let group = Group::join(None)?;
    match task {
        "sums" => sums(&group)?,
        "sums-on-gpus" => gpus::sums(&group)?,
        "work" => work(&group)?,
        "abort" => abort(&group)?,
        "error" => {
            let error = group.broadcast("nothing", 99, &mut Vec::new()).expect_err("there is no rank 99");
            say(std::io::stdout(), &format!("error {error}"));
        }
        other => panic!("no rank knows how to do `{other}`"),
    }
    group.finish()
}

/// A whole line at once, so that lines of ranks do not mix.
fn say(mut to: impl Write, line: &str) {
    to.write_all(format!("{line}\n").as_bytes()).expect("the launcher reads");
}

/// One hash (FNV-1a, whose bytes are words here) of sums over several numbers of leaves.
fn sums(group: &Group) -> Result<(), Error> {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for leaves in [1, 5, 7, 12, 16, 33] {
        let total = total(group, leaves, LENGTH)?;
        hash =
            total.iter().fold(hash, |hash, value| (hash ^ u64::from(value.to_bits())).wrapping_mul(0x0100_0000_01b3));
    }
    // Every rank has told its hash, and what it told is what was computed.
    let all = group.agree("hashes", &hash)?;
    assert_eq!((all.len(), all[group.rank()]), (group.size(), hash));
    say(std::io::stdout(), &format!("hash {hash:016x}"));
    if let Some(library) = group.library() {
        say(std::io::stdout(), &format!("library {library}"));
    }
    Ok(())
}

fn total(group: &Group, leaves: usize, length: usize) -> Result<Vec<f32>, Error> {
    let mut total = vec![0.0; length];
    sum(group, "sum", leaves, &nodes_of(group, leaves, length), &mut total)?;
    Ok(total)
}

fn nodes_of(group: &Group, leaves: usize, length: usize) -> Vec<Node<Vec<f32>>> {
    let share = group.share(leaves);
    let mut sums = Accumulator::starting_at(share.start);
    for leaf in share {
        sums.push(values(leaf, length), |mut left, right| {
            left.iter_mut().zip(right).for_each(|(left, right): (&mut f32, f32)| *left += right);
            left
        });
    }
    sums.into_nodes()
}

fn values(leaf: usize, length: usize) -> Vec<f32> {
    let mut rng = rng(0, Purpose::MadeUp, 0, leaf as u64);
    (0..length).map(|_| rng.random_range(-1f32..1.0) * 2f32.powi(rng.random_range(-7..=8))).collect()
}

/// Steps without end, watched.
fn work(group: &Group) -> Result<(), Error> {
    let variable = |name| std::env::var(name).expect("the test sets it");
    let folder = PathBuf::from(variable("KINDLING_TEST_FOLDER"));
    let timeout = Duration::from_secs(variable("KINDLING_TEST_TIMEOUT").parse().expect("seconds"));
    let tell = |silence: &_| say(std::io::stderr(), &format!("error: {silence}"));
    let watchdog = Watchdog::start(group, timeout, Some(&folder.join("signs")), tell).expect("a thread");
    for step in 1.. {
        total(group, 7, LENGTH)?;
        watchdog.beat(step);
        if step == 3 {
            let file = folder.join(format!("pid-{}", group.rank()));
            let whole = file.with_extension("part");
            std::fs::write(&whole, std::process::id().to_string()).expect("the folder is there");
            std::fs::rename(whole, file).expect("the folder is there");
        }
    }
    Ok(())
}

/// Rank 1 gives up while the others wait for it.
fn abort(group: &Group) -> Result<(), Error> {
    if group.rank() == 1 {
        group.abort(7);
    }
    group.meet("end that never comes")
}
