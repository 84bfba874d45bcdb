//! Notes which compiler builds this crate, for `environment.json`.

use std::process::Command;

fn main() {
    // Cargo runs build scripts again by itself when the compiler changes, so only this file needs naming.
    println!("cargo::rerun-if-changed=build.rs");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if let Ok(answer) = Command::new(compiler).arg("--version").output()
        && let Ok(version) = String::from_utf8(answer.stdout)
    {
        println!("cargo::rustc-env=KINDLING_RUSTC={}", version.trim());
    }
}
