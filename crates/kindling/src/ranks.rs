//! Several processes of this command that a launcher has started, and what they must have in common.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, bail};
use data_encoding::HEXLOWER;
use kindling_data::{Dataset, Source, Split};
use kindling_layers::pass::normalisation_groups;
use kindling_memory::panic_message;
use kindling_processes::{Group, launcher};
use kindling_runs::RunDir;
use kindling_trainer::{Ranks, TrainConfig, TrainError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Done;
use crate::budget;
use crate::output::note;
use crate::threads;

/// What several processes end with: the first has said why, for all.
#[derive(Debug)]
pub(crate) struct Said;

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the first process says why")
    }
}

impl std::error::Error for Said {}

/// Launchers end all processes when one has failed, and the first could not say why any more. A process that has not joined it yet
/// can only give it time.
pub(crate) fn let_the_first_say() -> Said {
    std::thread::sleep(Duration::from_secs(2));
    Said
}

/// Whether this process is one of several and not the first, as its launcher says it.
pub(crate) fn is_another() -> bool {
    launcher::launched().and_then(|launched| launched.rank).is_some_and(|rank| rank > 0)
}

/// Fails if a launcher has started several processes of a command that runs in one.
pub(crate) fn check_alone(command: &str) -> Result<()> {
    let Some(launched) = launcher::launched() else { return Ok(()) };
    match launched.size {
        Some(size) if size > 1 && is_another() => Err(let_the_first_say().into()),
        Some(size) if size > 1 => bail!(
            "kindling {command} runs in one process, and {} has started {size}: start it without a launcher, or one process of it",
            launched.launcher
        ),
        _ => Ok(()),
    }
}

/// Joins the processes that a launcher has started, and runs `work` in each. Where it fails in one, all end, and the first says why.
pub(crate) fn together(library: Option<&Path>, work: impl FnOnce(&Rc<Ranks>) -> Result<Done>) -> Result<Done> {
    let group = match Group::join(library) {
        Ok(group) => group,
        Err(_) if is_another() => return Err(let_the_first_say().into()),
        Err(error) => return Err(error.into()),
    };
    let ranks = Ranks::of(group);
    if ranks.is_alone() {
        threads::compute_here(threads::usual());
        return work(&ranks);
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| -> Result<Done> {
        share_machine(&ranks)?;
        let done = work(&ranks)?;
        // The first writes what all have found, when the others have nothing left to do. If it cannot, they learn it here.
        ranks.agree("end", ())?;
        Ok(done)
    }));
    let outcome = outcome.unwrap_or_else(|panic| Err(anyhow!("{}", panic_message(panic.as_ref()))));
    if let Err(error) = &outcome
        && (is_of_processes(error) || ranks.fail(&format!("{error:#}")).is_err())
    {
        abort(&ranks, error);
    }
    let outcome = said_by_the_first(&ranks, outcome);
    if let Err(error) = ranks.finish() {
        abort(&ranks, &error.into());
    }
    outcome
}

/// Has the first say what went wrong while all are still there. What could not be written to the output is told where the command ends.
fn said_by_the_first(ranks: &Ranks, outcome: Result<Done>) -> Result<Done> {
    match outcome {
        Err(error) if ranks.is_first() && error.is::<std::io::Error>() => Err(error),
        Err(error) => {
            if ranks.is_first() {
                note!("error: {error:#}");
            }
            Err(Said.into())
        }
        done => done,
    }
}

/// Whether what failed is the connection between processes, so that nothing can be said over it.
fn is_of_processes(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(TrainError::Processes(_)))
}

/// Ends all processes at once.
fn abort(ranks: &Ranks, error: &anyhow::Error) -> ! {
    note!("error: {error:#}");
    ranks.group().abort(1)
}

/// Divides cores and memory of a machine among the processes on it. Where a launcher has bound them to cores of their own, each keeps
/// its own.
fn share_machine(ranks: &Ranks) -> Result<()> {
    let allowed = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let group = ranks.group();
    let all = ranks.agree("cores", allowed.trim().to_owned())?;
    let mine = cores_of(group.rank(), group.hosts(), &all, threads::cores());
    threads::compute_here(if std::env::var_os("RAYON_NUM_THREADS").is_some() { threads::usual() } else { mine });
    budget::share_among(group.local_size());
    Ok(())
}

/// The cores of `cores` that a process computes on, at least one: it divides them with those on its host that may use the same ones. What
/// cores each process may use is in the words of the system.
fn cores_of(rank: usize, hosts: &[String], allowed: &[String], cores: usize) -> usize {
    let place = |rank: usize| (hosts.get(rank), allowed.get(rank));
    let alike = (0..hosts.len()).filter(|other| place(*other) == place(rank)).count();
    (cores / alike.max(1)).max(1)
}

/// Fails if a batch has fewer normalisation groups than there are processes, of which some would have nothing to do.
pub(crate) fn check_groups(train: &TrainConfig, ranks: &Ranks) -> Result<()> {
    check_divisible(train.batch_size, train.ghost_batch_size, ranks.group().size())
}

/// The same of a batch in ghost batches of at most `ghost` samples, and `size` processes.
pub(crate) fn check_divisible(batch: usize, ghost: usize, size: usize) -> Result<()> {
    let groups = normalisation_groups(batch, ghost).len();
    if groups >= size {
        return Ok(());
    }
    let smaller = match batch / size {
        0 => String::new(),
        smaller => format!(", or --ghost-batch-size {smaller} (it changes what batch norm computes)"),
    };
    bail!(
        "a batch of {batch} with ghost batches of {ghost} is {} of samples that are normalised together, which {size} processes \
         cannot divide: give --batch-size {}{smaller}, or start fewer processes",
        kindling_data::counted(groups, "group"),
        size * ghost.min(batch)
    )
}

/// What the processes of a run must have in common, so that it makes no difference which of them computes what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    /// The command, by a hash of its file.
    build: String,
    /// The processor, or the device.
    computes_on: String,
    /// The samples, by a hash of names, labels and ends of files.
    data: String,
}

impl Fingerprint {
    /// Of a run.
    pub(crate) fn new(device: &str, dataset: &Dataset) -> Self {
        let data = data(&dataset.classes, &Split::ALL.map(|split| dataset.source(split).as_ref()));
        Self { data, ..Self::of_process(device) }
    }

    /// Of samples that are scored.
    pub(crate) fn of_samples(device: &str, samples: &dyn Source) -> Self {
        Self { data: data(&[], &[samples]), ..Self::of_process(device) }
    }

    /// Of a process, whatever it is given.
    pub(crate) fn of_process(device: &str) -> Self {
        let computes_on = if device == "cpu" { processor() } else { device.to_owned() };
        Self { build: build(), computes_on, data: String::new() }
    }

    /// Fails on every rank if one has another.
    pub(crate) fn compare(&self, ranks: &Ranks) -> Result<()> {
        if ranks.is_alone() {
            return Ok(());
        }
        let all = ranks.agree("fingerprints", self.clone())?;
        let first = &all[0];
        let Some((rank, other)) = all.iter().enumerate().find(|(_, other)| *other != first) else { return Ok(()) };
        let (name, zero) = (ranks.group().name_of(rank), ranks.group().name_of(0));
        if other.build != first.build {
            bail!(
                "{name} runs another build of kindling than {zero}: results could differ; start the same file everywhere"
            );
        }
        if other.computes_on != first.computes_on {
            bail!(
                "{name} computes on {}, and {zero} on {}: these round differently, so the result would depend on who computes \
                 what; use machines of one kind",
                other.computes_on,
                first.computes_on
            );
        }
        bail!(
            "{name} sees other data than {zero}: files are missing there or differ; make the same data set visible to all"
        )
    }
}

/// Fails on every rank if one sees another list of files, or of what is in them, than the first.
pub(crate) fn check_same(what: &'static str, names: &[impl AsRef<OsStr>], ranks: &Ranks) -> Result<()> {
    let mut hash = Sha256::new();
    for name in names {
        let name = name.as_ref().as_encoded_bytes();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
    }
    let all = ranks.agree(what, in_digits(hash))?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(()),
        Some(rank) => {
            let (name, zero) = (ranks.group().name_of(rank), ranks.group().name_of(0));
            bail!("{name} sees another {what} than {zero}: make the same files visible to all")
        }
    }
}

fn in_digits(hash: Sha256) -> String {
    HEXLOWER.encode(&hash.finalize())
}

/// A hash of this command's file, or its version where that cannot be read.
fn build() -> String {
    let read = || -> std::io::Result<String> {
        let (mut file, mut hash) = (fs::File::open(std::env::current_exe()?)?, Sha256::new());
        let mut piece = vec![0; 1 << 20];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(in_digits(hash)),
                length => hash.update(&piece[..length]),
            }
        }
    };
    read().unwrap_or_else(|_| env!("CARGO_PKG_VERSION").to_owned())
}

/// What decides how the CPU rounds: its model, which has its vector instructions, its caches, by which matrix products are cut, and what the
/// operating system lets a process use of it.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of = |key: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let model = of("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let mut flags = Sha256::new();
    flags.update(of("flags").or_else(|| of("Features")).unwrap_or_default());
    let caches = (0..4).filter_map(|index| {
        let size = fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        Some(size.trim().to_owned())
    });
    let caches = caches.collect::<Vec<_>>().join(", ");
    let of_bf16 = kindling_ops::bf16_instructions().map_or_else(String::new, |name| format!("; bf16 by {name}"));
    format!("{model} (caches {caches}; instructions {}{of_bf16})", &in_digits(flags)[..8])
}

fn data(classes: &[String], sources: &[&dyn Source]) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: String| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    classes.iter().for_each(|class| part(class.clone()));
    for source in sources {
        part(source.len().to_string());
        for index in 0..source.len() {
            let name = source.name_within(index).unwrap_or_else(|| source.name_of(index));
            let ends = source.fingerprint(index).map(|it| it.to_string());
            part(format!("{name:?} {:?} {ends:?}", source.labels(index)));
        }
    }
    in_digits(hash)
}

/// Ends this process, and with it all, if no step of a run ends for `timeout`. The first that lives says why, and how to go on.
pub(crate) fn watch_run(ranks: &Ranks, timeout: Duration, run: &RunDir, go_on: &str) -> Result<()> {
    watch(ranks, timeout, &run.path().join(SIGNS), format!("continue with: {go_on}"))
}

/// The same of a command that trains nothing: if no batch and no image is done for `timeout`. `run` is what it reads, where it reads one.
/// All ranks call it.
pub(crate) fn watch_reading(ranks: &Ranks, timeout: Duration, run: Option<&Path>) -> Result<()> {
    if ranks.is_alone() {
        return Ok(());
    }
    let mine = ranks.is_first().then(|| folder_for_signs(ranks, run));
    let folders = ranks.agree("folder for signs of life", mine)?;
    let folder = folders.into_iter().flatten().next().context("the first process names no folder")?;
    watch(ranks, timeout, Path::new(&folder), "run it again".to_owned())
}

fn watch(ranks: &Ranks, timeout: Duration, signs: &Path, advice: String) -> Result<()> {
    use kindling_processes::watchdog::{OtherState, Silence};

    let tell = move |silence: &Silence| {
        let is_silent = |rank| {
            silence.others.iter().any(|other| other.rank == rank && matches!(other.state, OtherState::Silent(_)))
        };
        if (0..silence.rank).all(is_silent) {
            note!("error: {silence}; {advice}");
        }
    };
    ranks.watch(timeout, signs, tell).context("the processes cannot be watched")
}

/// The folder of a run in which the processes that train it leave signs of life.
const SIGNS: &str = "ranks";

/// A new folder for signs of life beside those of a training that may go on in the same run: on one machine a temporary one, and otherwise
/// in the run's folder, which all see. Where that is not to be written to, a temporary one on each machine, so that ranks see those on their
/// own.
fn folder_for_signs(ranks: &Ranks, run: Option<&Path>) -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = format!("ranks-{}-{:x}", std::process::id(), since.as_nanos());
    let is_one_machine = ranks.group().local_size() == ranks.group().size();
    let shared = run.filter(|_| !is_one_machine).and_then(|run| std::path::absolute(run).ok());
    let shared = shared.map(|run| run.join(&name)).filter(|folder| folder.to_str().is_some());
    let folder = shared.filter(|folder| fs::create_dir(folder).is_ok());
    let folder = folder.unwrap_or_else(|| std::env::temp_dir().join(format!("kindling-{name}")));
    folder.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cores_of_a_host_are_divided_among_its_processes_that_are_not_bound_to_their_own() {
        let cores = |rank: usize, ranks: &[(&str, &str)], cores: usize| {
            let (hosts, allowed): (Vec<String>, Vec<String>) =
                ranks.iter().map(|(host, allowed)| ((*host).to_owned(), (*allowed).to_owned())).unzip();
            cores_of(rank, &hosts, &allowed, cores)
        };
        let on_one = [("a", "0-7"); 4];
        assert_eq!((0..4).map(|rank| cores(rank, &on_one, 8)).collect::<Vec<_>>(), [2; 4]);
        assert_eq!(cores(0, &on_one[..3], 8), 2, "what is left over is nobody's");
        assert_eq!(cores(0, &on_one, 2), 1, "a process has a thread");
        // Two hosts, of which the second has more processes.
        let on_two = [("a", "0-7"), ("b", "0-7"), ("b", "0-7")];
        assert_eq!((0..3).map(|rank| cores(rank, &on_two, 8)).collect::<Vec<_>>(), [8, 4, 4]);
        // Bound to cores of their own, of which the system tells a process alone.
        let bound = [("a", "0-3"), ("a", "4-7")];
        assert_eq!((cores(0, &bound, 4), cores(1, &bound, 4)), (4, 4));
        assert_eq!(cores(0, &[("a", "0-7")], 8), 8);
    }
}
