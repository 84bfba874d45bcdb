//! Lets the command say which commit it was built from.

use std::path::Path;
use std::process::Command;

fn main() {
    // A commit moves the branch HEAD names; both files are watched, and nothing else needs a rebuild.
    let git = Path::new("../../.git");
    println!("cargo::rerun-if-changed=build.rs");
    if let Ok(head) = std::fs::read_to_string(git.join("HEAD")) {
        println!("cargo::rerun-if-changed=../../.git/HEAD");
        if let Some(branch) = head.trim().strip_prefix("ref: ").filter(|branch| git.join(branch).exists()) {
            println!("cargo::rerun-if-changed=../../.git/{branch}");
        }
    }
    let commit = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    if let Ok(output) = commit
        && output.status.success()
    {
        println!("cargo::rustc-env=KINDLING_COMMIT={}", String::from_utf8_lossy(&output.stdout).trim());
    }
}
