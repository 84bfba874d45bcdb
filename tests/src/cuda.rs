//! CUDA without a GPU: the command on the stand-in in `tests/cuda-on-cpu`.
//!
//! ```ignore
//! fn main() -> ExitCode {
//!     run_optional(cuda_on_cpu(), &[("a_promise", a_promise)])
//! }
//!
//! fn a_promise() {
//!     let outcome = Outcome::of(on_cuda(&mut kindling(), "8.0").args(["devices", "--json"])).succeeded();
//! }
//! ```
//!
//! Everything lies in `target/cuda-on-cpu`: what was built, and in `cache/` every kernel that was ever compiled.
//! What else can be asked of the stand-in (memory, faults, counters) are environment variables; its README has them all.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{Optional, kindling};

/// What tests on the stand-in need: give it to [`crate::run_optional`].
pub fn cuda_on_cpu() -> Optional {
    let here = cfg!(all(target_os = "linux", target_arch = "x86_64"))
        && Command::new("g++").arg("--version").output().is_ok_and(|output| output.status.success());
    let missing = (!here).then(|| "x86-64 Linux with g++ (Debian's g++)".to_string());
    Optional { missing, required_by: "KINDLING_REQUIRE_CUDA_ON_CPU" }
}

/// Lets a command find the stand-in in the places of CUDA's driver and compiler, claiming to be one GPU of this compute
/// capability (`"6.1"`, `"8.0"`, ...). Kernels are executed, and the choice among them is the same in every run.
///
/// The command gets a working folder of its own (CubeCL reads its settings there): name files by absolute paths.
///
/// # Panics
/// If the stand-in cannot be built.
pub fn on_cuda<'a>(command: &'a mut Command, capability: &str) -> &'a mut Command {
    let folder = cuda_folder();
    let before = |name: &str, ours: &str| {
        let others = std::env::var_os(name).unwrap_or_default();
        let folders = std::iter::once(folder.join(ours)).chain(std::env::split_paths(&others));
        std::env::join_paths(folders).expect("the paths of the build have no colons")
    };
    command.current_dir(folder.join("settings"));
    command.env("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", "lib")).env("PATH", before("PATH", "bin"));
    command.env("CUDA_PATH", folder).env("CUDASIM_KERNELS", "host").env("CUDASIM_CC", capability);
    // Results of one test must not choose the kernels of the next.
    command.env("CUBECL_AUTOTUNE_CACHE", "false").env_remove("CUDA_VISIBLE_DEVICES")
}

/// `kindling train` on the stand-in, a GPU without tensor cores (6.1), in the working folder that [`on_cuda`] gives; `flags` are
/// separated by spaces.
///
/// # Panics
/// As [`on_cuda`].
pub fn train_on_cuda(data: &Path, out: &Path, flags: &str) -> Command {
    let mut command = kindling();
    command.arg("train").arg("--data").arg(data).arg("--out").arg(out).args(["--device", "cuda"]);
    on_cuda(command.args(flags.split_whitespace()), "6.1");
    command
}

/// The folder with the built stand-in: `target/cuda-on-cpu`. It is built at first use, once for all tests.
///
/// # Panics
/// If it cannot be built.
pub fn cuda_folder() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let test = std::env::current_exe().expect("a test knows where it lies");
        let target = test.ancestors().nth(3).expect("a test lies in target/<profile>/deps");
        let folder = target.join("cuda-on-cpu");
        build(&folder).unwrap_or_else(|error| panic!("the stand-in for CUDA cannot be built: {error}"));
        folder
    })
}

/// Builds the stand-in unless the folder holds it, built from these very files.
fn build(folder: &Path) -> Result<(), String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("cuda-on-cpu");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    // Tests run side by side: the first one builds, the others wait.
    let lock = File::create(folder.join("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let stamp = folder.join("built-from");
    let sum = format!("{:016x}", sum_of(&sources).map_err(failed)?);
    if fs::read_to_string(&stamp).is_ok_and(|built| built == sum) {
        return Ok(());
    }
    let output = Command::new("sh").arg(sources.join("build.sh")).arg(folder).output().map_err(failed)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    fs::write(&stamp, sum).map_err(failed)
}

/// A number that changes with the names and contents of the files in a folder.
fn sum_of(folder: &Path) -> std::io::Result<u64> {
    let mut sum = DefaultHasher::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let mut paths = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        paths.sort();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
            } else {
                path.hash(&mut sum);
                fs::read(&path)?.hash(&mut sum);
            }
        }
    }
    Ok(sum.finish())
}
