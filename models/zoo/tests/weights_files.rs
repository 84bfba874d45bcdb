//! Weights files: as PyTorch writes them, damaged, and meant to do harm. `files/make.py` made them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kindling_layers::tensors::Tensors;
use kindling_random::{Purpose, rng};
use kindling_zoo::weights::read;
use rand::RngExt;
use serde_json::Value;

/// What reading any of these files, none of which has 10 kB, may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most memory that this process may ever have had.
const MOST_KIB: u64 = 1 << 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

/// What `files/expected.json` says under a key, by file.
fn expected(key: &str) -> BTreeMap<String, Value> {
    let text = fs::read_to_string(folder().join("expected.json")).expect("expected.json is there");
    let mut all: Value = serde_json::from_str(&text).expect("expected.json is JSON");
    serde_json::from_value(all[key].take()).expect("an object")
}

/// A file of the folder.
struct Fixture {
    name: String,
    bytes: Vec<u8>,
    /// Whether it can be read.
    good: bool,
}

/// Every file but the script and its JSON.
fn fixtures() -> Vec<Fixture> {
    let of = |key: &str| {
        let read = |name: String| {
            let bytes = fs::read(folder().join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            Fixture { name, bytes, good: key == "tensors" }
        };
        expected(key).into_keys().map(read).collect::<Vec<_>>()
    };
    let all: Vec<Fixture> = of("tensors").into_iter().chain(of("refused")).collect();
    assert!(all.len() > 25, "{} files", all.len());
    all
}

/// Reads a file, within the limits and without a panic.
///
/// # Panics
/// If it was not so, with `what` was read.
fn read_quickly(path: &Path, what: &str) -> Result<Tensors, String> {
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| read(path)));
    let took = began.elapsed();
    let outcome = outcome.unwrap_or_else(|_| panic!("reading {what} panicked"));
    assert!(took < PATIENCE, "reading {what} took {took:?}");
    outcome.map_err(|error| error.to_string())
}

/// Fails if the process has ever had too much memory.
fn assert_small(after: &str) {
    if let Some(peak) = peak_kib() {
        assert!(peak < MOST_KIB, "after reading {after} the process has had {peak} KiB");
    }
}

/// The most memory the process has had, where Linux says it.
fn peak_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The file for the changed copies of one test, written over again and again: a new file each time would wait for the
/// disk.
struct Scratch {
    path: PathBuf,
    file: File,
}

impl Scratch {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("weights-files-{test}"));
        let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, file }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.file.rewind().expect("a file goes back to its start");
        self.file.write_all(bytes).expect("writable");
        self.shorten(bytes.len());
    }

    fn shorten(&mut self, length: usize) {
        self.file.set_len(length as u64).expect("a length");
    }
}

#[test]
fn files_of_pytorch_are_read_with_their_types_shapes_and_values() {
    for (file, tensors) in expected("tensors") {
        let found = read_quickly(&folder().join(&file), &file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let tensors = tensors.as_object().expect("tensors by name");
        assert_eq!(found.keys().collect::<Vec<_>>(), tensors.keys().collect::<Vec<_>>(), "{file}");
        for (name, data) in found {
            let expected = &tensors[&name];
            let values: Vec<f64> = serde_json::from_value(expected["values"].clone()).expect("numbers");
            let shape: Vec<usize> = serde_json::from_value(expected["shape"].clone()).expect("a shape");
            assert_eq!(Some(format!("{:?}", data.dtype()).as_str()), expected["dtype"].as_str(), "{file}: {name}");
            assert_eq!(data.shape().as_slice(), shape, "{file}: {name}");
            let found: Vec<f64> = data.iter().collect();
            // Numbers of JSON are not always read to their last bit.
            let same = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-15 * b.abs();
            assert!(
                found.len() == values.len() && found.iter().zip(&values).all(same),
                "{file}: {name} is {found:?} instead of {values:?}"
            );
        }
    }
}

#[test]
fn files_that_claim_much_or_hold_no_tensors_are_refused_in_one_sentence() {
    for (file, words) in expected("refused") {
        let sentence = read_quickly(&folder().join(&file), &file).expect_err(&file);
        let words = words.as_str().expect("words");
        assert!(sentence.contains(words) && sentence.contains(&file), "{file}: `{words}` is not said: {sentence}");
        assert!(!sentence.contains('\n'), "{file}: {sentence}");
        assert_small(&file);
    }
    let mut scratch = Scratch::new("refused");
    for (content, words) in [("", "not a PyTorch"), ("This is a text, and a short one.", "not a PyTorch")] {
        scratch.write(content.as_bytes());
        let sentence = read_quickly(&scratch.path, content).expect_err("no weights");
        assert!(sentence.contains(words), "{sentence}");
    }
}

/// No code of a pickle has ever been run where this test runs.
#[test]
fn reading_runs_nothing_that_a_file_asks_for() {
    let asks: Vec<_> = fixtures().into_iter().filter(|fixture| fixture.name.starts_with("runs_code")).collect();
    assert_eq!(asks.len(), 3);
    for Fixture { name, bytes, .. } in asks {
        let says = b"kindling-was-here";
        assert!(bytes.windows(says.len()).any(|part| part == says), "{name} does not ask for it");
        let _ = read_quickly(&folder().join(&name), &name);
        assert!(!Path::new("kindling-was-here").exists(), "{name}'s code was run");
    }
}

#[test]
fn a_file_cut_short_anywhere_is_an_error() {
    let mut scratch = Scratch::new("cut");
    for Fixture { name, bytes, good } in fixtures() {
        scratch.write(&bytes);
        for length in (0..bytes.len()).rev().step_by(if good { 1 } else { 16 }) {
            scratch.shorten(length);
            let what = format!("{length} bytes of {name}");
            assert!(read_quickly(&scratch.path, &what).is_err(), "{what} were accepted");
        }
        assert_small(&name);
    }
}

#[test]
fn changed_bytes_give_an_error_or_other_tensors_but_never_a_crash() {
    let mut scratch = Scratch::new("changed");
    let mut random = rng(1, Purpose::MadeUp, 0, 0);
    for Fixture { name, bytes, good } in fixtures() {
        for _ in 0..if good { 1500 } else { 100 } {
            let mut changed = bytes.clone();
            let mut what = name.clone();
            for _ in 0..=random.random_range(0..4) {
                let at = random.random_range(0..bytes.len());
                // Any byte, or one that makes a number large, zero or negative.
                changed[at] = match random.random_range(0..4) {
                    0 => [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)],
                    1 => changed[at] ^ (1 << random.random_range(0..8)),
                    _ => random.random(),
                };
                what = format!("{what}, byte {at} {:#04x}", changed[at]);
            }
            scratch.write(&changed);
            let _ = read_quickly(&scratch.path, &what);
        }
        assert_small(&name);
    }
}
