//! What tests measure, for files in `benchmarks/`.

use std::fs::File;
use std::io::Write;

use serde_json::Value;

/// Adds a line to the file that `KINDLING_RECORD` names, if it names one.
///
/// # Panics
/// If the file cannot be written.
pub fn record(line: &Value) {
    let Some(path) = std::env::var_os("KINDLING_RECORD") else { return };
    let file = File::options().create(true).append(true).open(path);
    file.and_then(|mut file| writeln!(file, "{line}")).expect("the record can be written");
}
