//! A file system that only one process sees, for tests that fill a disk.

use std::process::Command;

use tempfile::tempdir;

/// The options with which `unshare` lets us mount something that nobody else sees; none where that is not allowed.
///
/// # Panics
/// If there is no temporary folder.
pub fn private_mounts() -> Option<&'static str> {
    let folder = tempdir().expect("a temporary folder");
    let works = |options: &&str| {
        let mut command = Command::new("unshare");
        command.args([options, "sh", "-c", "mount -t tmpfs -o size=1m none \"$1\"", "sh"]).arg(folder.path());
        command.output().is_ok_and(|output| output.status.success())
    };
    ["-rm", "-m"].into_iter().find(works)
}
