//! onnxruntime, behind `run_onnx.py`.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use burn::tensor::Tensor;
use serde::Deserialize;
use serde_json::Value;

/// Names the Python that has the packages, instead of `python3`.
const PYTHON: &str = "KINDLING_PYTHON";

fn python() -> Command {
    Command::new(env::var_os(PYTHON).unwrap_or_else(|| "python3".into()))
}

/// What is missing here and how to get it.
pub(crate) fn missing() -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run_onnx.py");
    let usable = python().arg(script).output().is_ok_and(|output| output.status.success());
    (!usable).then(|| format!("Python with numpy, onnx and onnxruntime: set {PYTHON} to one that has them"))
}

/// The script's report about a file.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    /// The input's name and shape.
    pub(crate) input: Value,
    /// The output's name and shape.
    pub(crate) output: Value,
    /// The operations, each once, in alphabetical order.
    pub(crate) operations: Vec<String>,
    /// The version of their set.
    pub(crate) opset: i64,
}

/// What onnxruntime computes from the images, and the script's report about the file.
///
/// # Panics
/// If the file is not one that the format's own checks accept and onnxruntime runs.
pub(crate) fn run<const D: usize>(file: &[u8], images: Tensor<D>) -> (Vec<f32>, Report) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let images: Vec<f32> = images.into_data().try_to_vec().expect("float32 images");
    fs::write(at("model.onnx"), file).expect("a temporary file");
    fs::write(at("input.bin"), images.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
        .expect("a temporary file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run_onnx.py");
    let output = python().arg(script).arg(folder.path()).output().expect("Python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let bytes = fs::read(at("output.bin")).expect("the script writes its output");
    let (numbers, _) = bytes.as_chunks::<4>();
    let report = serde_json::from_slice(&output.stdout).expect("the script prints a line of JSON");
    (numbers.iter().map(|number| f32::from_le_bytes(*number)).collect(), report)
}

/// Fails unless `found` is `expected` within 1e-4 of its largest number.
pub(crate) fn assert_equal<const D: usize>(what: &str, expected: Tensor<D>, found: &[f32]) {
    let samples = expected.dims()[0];
    let expected: Vec<f32> = expected.into_data().try_to_vec().expect("float32 output");
    assert_eq!(expected.len(), found.len(), "{what}");
    assert!(found.iter().all(|value| value.is_finite()), "{what}: not all of the output is finite");
    let largest = expected.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    let difference = expected.iter().zip(found).map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max);
    // A network that says the same of everything would agree too easily.
    let (first, rest) = expected.split_at(expected.len() / samples);
    let heard = first.iter().zip(rest).map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max);
    assert!(largest.is_finite() && heard > 0.01 * largest, "{what}: at most {largest}, changing by {heard}");
    assert!(difference <= 1e-4 * largest, "{what}: differs by {difference} where the largest number is {largest}");
    println!("{what}: {:.1e} of the largest; samples differ by {:.1e}", difference / largest, heard / largest);
}
