//! Ranks under real launchers. The test program starts itself under `mpirun`, with what a rank is to do as its first argument.

mod rank;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use kindling_processes::mpi::Flavour;
use kindling_tests::{Optional, Suite, Test, cuda_folder, cuda_on_cpu};

/// No launcher gets more time than this.
const AT_MOST: Duration = Duration::from_secs(120);

/// A launcher with the library that belongs to it.
#[derive(Clone)]
struct Mpi {
    name: &'static str,
    mpirun: PathBuf,
    arguments: &'static [&'static str],
    library: PathBuf,
    /// What it calls itself.
    version: &'static str,
    sizes: &'static [usize],
    /// How to get it, after "needs".
    from: &'static str,
    required_by: &'static str,
}

fn main() -> ExitCode {
    if let Some(task) = std::env::var_os(rank::TASK) {
        return rank::run(&task.to_string_lossy());
    }
    let mut suite = Suite::new();
    // Each takes all cores by itself.
    suite.one_at_a_time();
    for mpi in [open_mpi(), mpich(), standard()] {
        let tests = [
            ("any_number_of_ranks_gets_the_bits_of_one", any_number_of_ranks_gets_the_bits_of_one as fn(&Mpi)),
            ("a_killed_rank_ends_all", a_killed_rank_ends_all),
            (
                "a_stopped_rank_is_named_and_all_end_within_the_timeout",
                a_stopped_rank_is_named_and_all_end_within_the_timeout,
            ),
            ("an_abort_ends_all_with_its_code", an_abort_ends_all_with_its_code),
            ("an_error_of_the_library_comes_back_as_a_sentence", an_error_of_the_library_comes_back_as_a_sentence),
            ("the_library_is_found_without_a_launcher", the_library_is_found_without_a_launcher),
        ];
        let tests = tests.map(|(name, test)| {
            let mpi = mpi.clone();
            Test::new(format!("{}::{name}", mpi.name), move || test(&mpi))
        });
        suite.add(&need(&[&mpi]), tests.into());
    }
    let cuda = cuda_on_cpu();
    let gpus = Optional { missing: need(&[&open_mpi()]).missing.or(cuda.missing), required_by: cuda.required_by };
    let tests: [(&str, fn()); 3] = [
        ("what_nccl_moves_and_devices_add_has_the_bits_of_mpi", what_nccl_moves_and_devices_add_has_the_bits_of_mpi),
        ("a_failure_of_nccl_is_told_on_every_rank", a_failure_of_nccl_is_told_on_every_rank),
        ("what_nccl_cannot_connect_is_told_alike", what_nccl_cannot_connect_is_told_alike),
    ];
    suite.add(&gpus, tests.into_iter().map(|(name, test)| Test::new(name, test)).collect());
    let (first, second) = (open_mpi(), mpich());
    let need = need(&[&first, &second]);
    suite.add(
        &need,
        vec![Test::new("a_launcher_of_another_mpi_is_refused", move || {
            a_launcher_of_another_mpi_is_refused(&first, &second);
        })],
    );
    suite.run()
}

fn open_mpi() -> Mpi {
    Mpi {
        name: "open_mpi",
        mpirun: program(&["mpirun.openmpi", "mpirun"]),
        arguments: &["--allow-run-as-root", "--oversubscribe"],
        library: "libmpi.so.40".into(),
        version: "Open MPI",
        sizes: &[1, 2, 3, 4, 8],
        from: "Open MPI (apt-get install openmpi-bin)",
        required_by: "KINDLING_REQUIRE_MPI",
    }
}

/// With more ranks than cores it waits by counting, so two have to do.
fn mpich() -> Mpi {
    Mpi {
        name: "mpich",
        mpirun: program(&["mpirun.mpich", "mpiexec.hydra"]),
        arguments: &[],
        library: "libmpich.so.12".into(),
        version: "MPICH",
        sizes: &[1, 2],
        from: "MPICH (apt-get install mpich)",
        required_by: "KINDLING_REQUIRE_MPI",
    }
}

/// The standard ABI of MPI 5, in MPICH's wheel.
fn standard() -> Mpi {
    let place = PathBuf::from(std::env::var_os("KINDLING_MPI_ABI").unwrap_or_default());
    Mpi {
        name: "standard",
        mpirun: place.join("bin/mpiexec.hydra"),
        library: place.join("lib/libmpi_abi.so.1"),
        from: "MPI's standard ABI (python3 -m venv FOLDER; FOLDER/bin/pip install 'mpich>=5'; KINDLING_MPI_ABI=FOLDER)",
        required_by: "KINDLING_REQUIRE_MPI_ABI",
        ..mpich()
    }
}

/// The first of the programs that is on the path.
fn program(names: &[&str]) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = || std::env::split_paths(&path);
    let found = names.iter().find_map(|name| places().map(|place| place.join(name)).find(|file| file.is_file()));
    found.unwrap_or_default()
}

fn need(all: &[&Mpi]) -> Optional {
    let lacks = |mpi: &&&Mpi| {
        let found = kindling_processes::mpi::find(Some(&mpi.library));
        !mpi.mpirun.is_file() || !found.is_ok_and(|found| found.version.contains(mpi.version))
    };
    let missing: Vec<&str> = all.iter().filter(lacks).map(|mpi| mpi.from).collect();
    let missing = (!missing.is_empty()).then(|| missing.join(" and "));
    Optional { missing, required_by: all[0].required_by }
}

impl Mpi {
    /// This program under the launcher, every rank with the same task.
    fn command(&self, size: usize, task: &str) -> Command {
        let mut command = Command::new(&self.mpirun);
        command.args(self.arguments).args(["-n", &size.to_string()]);
        command.arg(std::env::current_exe().expect("this program has a path"));
        command.env(rank::TASK, task).env("KINDLING_MPI", &self.library).stdin(Stdio::null());
        command
    }

    fn run(&self, size: usize, task: &str) -> Output {
        finished(self.command(size, task))
    }
}

/// Runs a command to its end, and fails if that takes too long.
fn finished(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the launcher starts");
    finish(child)
}

fn finish(mut child: Child) -> Output {
    let began = Instant::now();
    while child.try_wait().expect("a child can be waited for").is_none() {
        if began.elapsed() > AT_MOST {
            let _ = child.kill();
            panic!("the launcher has not ended in {AT_MOST:?}: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("its output can be read")
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines that ranks wrote. Launchers may add lines of their own.
fn lines(output: &Output, word: &str) -> Vec<String> {
    let text = words(&output.stdout);
    text.lines().filter_map(|line| line.strip_prefix(word)).map(|line| line.trim().to_owned()).collect()
}

fn any_number_of_ranks_gets_the_bits_of_one(mpi: &Mpi) {
    // One process without MPI says what is right.
    let mut alone = Command::new(std::env::current_exe().expect("this program has a path"));
    let alone = finished({
        alone.env(rank::TASK, "sums").env_remove("KINDLING_MPI").stdin(Stdio::null());
        alone
    });
    let expected = lines(&alone, "hash");
    assert!(alone.status.success() && expected.len() == 1, "{alone:?}");
    for size in mpi.sizes {
        let output = mpi.run(*size, "sums");
        assert!(output.status.success(), "{size} ranks: {}", words(&output.stderr));
        assert_eq!(lines(&output, "hash"), vec![expected[0].clone(); *size], "{size} ranks");
        assert!(
            lines(&output, "library").iter().all(|library| library.contains(mpi.version)),
            "{}",
            words(&output.stdout)
        );
    }
}

/// Starts two ranks that never stop working, and waits until they do. Each says its process.
fn working(mpi: &Mpi, timeout: &str, folder: &Path) -> (Child, Vec<String>) {
    let mut command = mpi.command(2, "work");
    command.env("KINDLING_TEST_TIMEOUT", timeout).env("KINDLING_TEST_FOLDER", folder);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the launcher starts");
    match processes(folder) {
        Some(processes) => (child, processes),
        None => panic!("the ranks do not work: {:?}", finish(child)),
    }
}

/// The processes of two ranks, as soon as both work.
fn processes(folder: &Path) -> Option<Vec<String>> {
    let began = Instant::now();
    while began.elapsed() < AT_MOST {
        let processes = (0..2).map(|rank| std::fs::read_to_string(folder.join(format!("pid-{rank}"))));
        if let Ok(processes) = processes.collect() {
            return Some(processes);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

fn signal(name: &str, process: &str) {
    let sent = Command::new("kill").args([name, process]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{process} has ended already");
}

/// Waits until a process has ended. What has ended and was not waited for is a zombie.
fn has_ended(process: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.is_empty() || state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

fn a_killed_rank_ends_all(mpi: &Mpi) {
    let folder = tempfile::tempdir().expect("a folder");
    let (child, processes) = working(mpi, "600", folder.path());
    signal("-KILL", &processes[1]);
    let began = Instant::now();
    let output = finish(child);
    assert!(!output.status.success(), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
    assert!(processes.iter().all(|process| has_ended(process)));
}

fn a_stopped_rank_is_named_and_all_end_within_the_timeout(mpi: &Mpi) {
    let folder = tempfile::tempdir().expect("a folder");
    let (child, processes) = working(mpi, "2", folder.path());
    signal("-STOP", &processes[1]);
    let began = Instant::now();
    let output = finish(child);
    let took = began.elapsed();
    // Launchers that ask politely first are not heard by a stopped process.
    if !has_ended(&processes[1]) {
        signal("-KILL", &processes[1]);
    }
    let said = words(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert!(took < Duration::from_secs(30), "it took {took:?}");
    assert!(said.contains("rank 0 on") && said.contains("waits for the sum of the others"), "{said}");
    assert!(said.contains("rank 1 on") && said.contains("gives no sign of life any more"), "{said}");
    assert!(has_ended(&processes[0]));
}

fn an_abort_ends_all_with_its_code(mpi: &Mpi) {
    let output = mpi.run(2, "abort");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
}

fn an_error_of_the_library_comes_back_as_a_sentence(mpi: &Mpi) {
    let output = mpi.run(1, "error");
    let said = lines(&output, "error");
    assert!(said.len() == 1 && said[0].starts_with("MPI_Bcast failed: "), "{output:?}");
    assert!(said[0].to_lowercase().contains("root"), "{said:?}");
}

fn the_library_is_found_without_a_launcher(mpi: &Mpi) {
    let found = kindling_processes::mpi::find(Some(&mpi.library)).expect("it is here");
    assert!(found.version.starts_with(mpi.version), "{found}");
    assert_eq!(found.flavour == Flavour::Standard, mpi.name == "standard", "{found}");
}

/// Ranks with GPUs, on the stand-ins for the CUDA driver and NCCL.
fn on_gpus(size: usize, more: &[(&str, &str)]) -> Output {
    let mut command = open_mpi().command(size, "sums-on-gpus");
    command.env("LD_LIBRARY_PATH", cuda_folder().join("lib")).env("CUDASIM_DEVICES", size.to_string());
    command.env_remove("KINDLING_NCCL").envs(more.iter().copied());
    finished(command)
}

fn what_nccl_moves_and_devices_add_has_the_bits_of_mpi() {
    for size in [2, 3] {
        let output = on_gpus(size, &[]);
        assert!(output.status.success(), "{size} ranks: {}", words(&output.stderr));
        assert_eq!(lines(&output, "same").len(), 5 * size, "{}", words(&output.stdout));
    }
}

/// The second exchange of the first sum, the first of the second, and in the middle of a sum of several rounds.
fn a_failure_of_nccl_is_told_on_every_rank() {
    for (fault, same, told) in [
        ("group:2=3", 0, "ncclGroupEnd answers 3, internal error"),
        ("async:3=6", 1, "ncclSend or ncclRecv answers 6, remote process exited"),
        ("group:11=1", 4, "ncclGroupEnd answers 1, unhandled cuda error"),
    ] {
        let output = on_gpus(2, &[("NCCLSIM_FAULTS", fault)]);
        assert!(output.status.success(), "{fault}: {}", words(&output.stderr));
        let failed = lines(&output, "failed");
        assert_eq!((lines(&output, "same").len(), failed.len()), (2 * same, 2), "{fault}: {}", words(&output.stdout));
        assert!(failed.iter().any(|why| why.contains(told)), "{failed:?}");
    }
}

fn what_nccl_cannot_connect_is_told_alike() {
    for (variable, value, told) in [
        ("KINDLING_TEST_ONE_GPU", "1", "compute on the same GPU (0000:01:00.0)"),
        ("KINDLING_NCCL", "/nowhere/libnccl.so", "no NCCL library: /nowhere/libnccl.so"),
        ("NCCLSIM_VERSION", "2604", "NCCL 2.6.4, before 2.7"),
        ("NCCLSIM_FAULTS", "init:1=2", "ncclCommInitRank answers 2, unhandled system error"),
        ("CUDASIM_INIT", "803", "cuInit answers 803"),
    ] {
        let output = on_gpus(2, &[(variable, value)]);
        assert!(output.status.success(), "{variable}: {}", words(&output.stderr));
        let why = lines(&output, "unconnected");
        assert!(why.len() == 2 && why[0] == why[1] && why[0].contains(told), "{variable}: {why:?}");
    }
}

fn a_launcher_of_another_mpi_is_refused(first: &Mpi, second: &Mpi) {
    for (launcher, library) in [(first, second), (second, first)] {
        let mixed = Mpi { library: library.library.clone(), ..launcher.clone() };
        let output = mixed.run(2, "sums");
        let said = words(&output.stderr);
        assert!(!output.status.success(), "{output:?}");
        assert!(said.contains("started 2 processes, but ") && said.contains(" sees 1"), "{said}");
        assert!(lines(&output, "hash").is_empty(), "no rank may believe that it is the only one");
    }
}
