//! What is different on CUDA. This follows the sources of Burn 0.22.1, CubeCL 0.11.3 and `crates/ops`, and was compared with what the
//! stand-in's driver gave away (`benchmarks/README.md`). How tensors lie in pages is in `pages.rs`.
//!
//! Maps have channels last, and Burn's kernels pad the innermost rows of their outputs (`cubecl-runtime`'s
//! `src/memory_management/handle.rs`), while our operations do not. Dense convolutions need whole maps, so a map whose normalisation
//! is deferred is computed for them and freed after them. The driver's context is not counted.

use kindling_layers::Activation;
use kindling_layers::trace::FeatureMap;
use kindling_ops::{most_stretches, rows_at_once};

use super::node::{Kind, Node};

/// Bytes of a map of `batch` images, with padded rows or without.
pub(super) fn map_bytes(map: FeatureMap, batch: u64, element_bytes: u64, padded: bool) -> u64 {
    let row = map.channels as u64 * element_bytes;
    let row = if padded { padded_row(row) } else { row };
    row * batch * (map.height * map.width) as u64
}

/// Bytes of the innermost row of an output of Burn's kernels.
fn padded_row(row: u64) -> u64 {
    row.next_multiple_of(row.next_power_of_two().clamp(16, 512))
}

/// Bytes of the rows that a dense convolution multiplies with its filters: for each pixel of the map `from`, what the kernel sees of the
/// map `seen`, some pixels at a time (`crates/ops`, `convolution/cube/columns.rs`).
pub(super) fn columns(seen: FeatureMap, from: FeatureMap, kernel: usize, batch: u64, element_bytes: u64) -> u64 {
    let row = (kernel * kernel * seen.channels) as u64 * element_bytes;
    let pixels = batch * (from.height * from.width) as u64;
    row * pixels.min(rows_at_once(map_bytes(seen, batch, element_bytes, false) as usize, row as usize) as u64)
}

/// For each of `values` values, whether one of Burn's kernels writes its map or the gradient of it, so that rows are padded.
pub(super) fn padded(nodes: &[Node], values: usize) -> Vec<bool> {
    let mut padded = vec![false; values];
    padded[0] = true; // the images
    let of_burn = |kind: Kind| matches!(kind, Kind::MaxPool | Kind::Slice | Kind::Concat | Kind::Other);
    for node in nodes.iter().filter(|node| of_burn(node.kind)) {
        padded[node.output] = true;
        node.inputs.iter().for_each(|input| padded[*input] = true);
    }
    padded
}

/// Number of maps that an activation, as an operation of its own, keeps for the backward pass, including its input.
pub(super) fn kept_by(activation: Activation) -> u64 {
    match activation {
        Activation::Identity => 0,
        Activation::Relu | Activation::Relu6 | Activation::LeakyRelu | Activation::Tanh => 1,
        Activation::Sigmoid | Activation::HardSigmoid | Activation::Silu => 2,
        Activation::HardSwish => 3,
    }
}

/// Bytes of the sums over blocks of pixels that the gradients of a normalisation need: three float32 numbers for 128 pixels of a
/// channel, and three for each plane.
pub(super) fn sums(map: FeatureMap, batch: u64) -> u64 {
    let blocks = ((map.height * map.width) as u64).div_ceil(128) + 1;
    3 * 4 * blocks * map.channels as u64 * batch
}

/// The most bytes of the partial sums of the gradient of the filters of a dense convolution.
pub(super) fn parts(weights: u64, output: FeatureMap, batch: u64) -> u64 {
    let channels = output.channels.max(1);
    let columns = (weights as usize / channels).max(1);
    4 * weights * most_stretches(channels, columns, batch as usize * output.height * output.width) as u64
}

/// The same of a depthwise convolution: as many parts as give 1024 cubes, for each row of the filters and at most 256 channels.
pub(super) fn parts_of_depthwise(weights: u64, output: FeatureMap, batch: u64) -> u64 {
    let channels = (output.channels as u64).max(1);
    let side = (weights / channels).isqrt().max(1);
    let rows = batch * (output.height * output.width.div_ceil(32)) as u64;
    4 * weights * (1024 / (channels.div_ceil(256) * side)).min(rows.div_ceil(4)).max(1)
}
