//! How long each of cubek's kernels takes for the products and convolutions of the zoo's networks, on the GPU that is here: from
//! these times the kernels of `src/cube/product.rs` and `src/convolution/cube/dense.rs` are named. Most of the time goes into
//! compiling, so a run may be divided into parts, one after the other: processes that share a GPU get slices of some 2 ms, even while
//! all but one wait.
//!
//! ```text
//! for part in $(seq 0 11); do cargo bench --bench kernels -- $part/12 >$part.jsonl; done
//! ```
//!
//! Writes a line of JSON for each kernel and shape: the shortest of several rounds in microseconds, or why there is none.

use std::time::Instant;

use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Distribution, FloatDType, Shape};
use burn_cubecl::ops::permute;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice, cubecl};
use cubecl::ir::ElemType;
use cubecl::prelude::*;
use cubek::convolution::{AcceleratedTileKind, ConvAlgorithm, ConvolutionArgs, ConvolutionInputs};
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::multi_level::Strategy;
use cubek::matmul::multi_level::components::tile::TileMatmulKind::{Cmma, Mma};
use cubek::matmul::multi_level::routines::batch::double_buffering::DoubleBufferingArgs;
use cubek::matmul::multi_level::routines::batch::ordered_double_buffering::OrderedSelectionArgs;
use cubek::matmul::multi_level::routines::batch::simple::SimpleArgs;
use cubek::matmul::routine::BlueprintStrategy::Inferred;
use cubek::std::InputBinding;
use kindling_ops::most_stretches;
use serde_json::{Value, json};

/// Rounds of which the shortest counts, and the time that one takes at least.
const ROUNDS: usize = 5;
const ROUND_SECONDS: f64 = 4e-3;

/// 1x1 convolutions of 32 images of 512x512 pixels: pixels, channels in, channels out. MobileNetV2's, ResNet-50's, and a classifier.
const PRODUCTS: [[usize; 3]; 10] = [
    [32 * 256 * 256, 16, 96],
    [32 * 128 * 128, 96, 24],
    [32 * 64 * 64, 144, 32],
    [32 * 32 * 32, 384, 64],
    [32 * 32 * 32, 96, 576],
    [32 * 16 * 16, 960, 160],
    [32 * 128 * 128, 64, 256],
    [32 * 64 * 64, 512, 128],
    [32 * 16 * 16, 512, 2048],
    [32, 1280, 1000],
];

/// Dense convolutions: side of the input, channels in and out, kernel, stride.
const CONVOLUTIONS: [[usize; 5]; 8] = [
    [512, 3, 32, 3, 2],
    [512, 3, 64, 7, 2],
    [128, 64, 64, 3, 1],
    [128, 64, 128, 3, 2],
    [64, 128, 128, 3, 1],
    [32, 256, 256, 3, 1],
    [16, 512, 512, 3, 1],
    [128, 24, 96, 3, 1],
];
const BATCH: usize = 32;

fn main() {
    let part = std::env::args().find_map(|word| {
        let (at, of) = word.split_once('/')?;
        Some((at.parse::<usize>().ok()?, of.parse::<usize>().ok()?))
    });
    let (at, of) = part.unwrap_or((0, 1));
    let device = CubeDevice::Cuda(Default::default());
    // Shapes of one kind share kernels, so they are measured by one process.
    let mut kinds = Vec::new();
    for dtype in [DType::F32, DType::BF16] {
        for role in ["forward", "of_input", "of_filters"] {
            kinds.extend([(dtype, role, true), (dtype, role, false)]);
        }
    }
    for (dtype, role, pointwise) in kinds.into_iter().skip(at).step_by(of.max(1)) {
        if pointwise {
            PRODUCTS.into_iter().for_each(|shape| products(&device, dtype, shape, role));
        } else {
            CONVOLUTIONS.into_iter().for_each(|shape| convolutions(&device, dtype, shape, role));
        }
    }
}

/// The kernels for products on tensor cores. Those of plain units take NVRTC minutes in bf16.
fn strategies() -> Vec<(&'static str, Strategy)> {
    let simple = |tile_matmul, multi_rows| SimpleArgs { tile_matmul, multi_rows };
    let double = DoubleBufferingArgs { specialized: false, tile_matmul: Mma };
    let ordered = |tile_matmul| OrderedSelectionArgs {
        partition_k: Some(2),
        row_count: Some(8),
        rows_per_plane: Some(2),
        tile_matmul,
    };
    vec![
        ("cmma", Strategy::SimpleCyclicCmma(Inferred(simple(Cmma, false)))),
        ("mma", Strategy::SimpleCyclicMma(Inferred(simple(Mma, false)))),
        ("mma_rows", Strategy::SimpleCyclicMma(Inferred(simple(Mma, true)))),
        ("async_mma", Strategy::SimpleAsyncCyclicMma(Inferred(simple(Mma, false)))),
        ("double_mma", Strategy::DoubleCyclicMma(Inferred(double))),
        ("double_async_mma", Strategy::DoubleAsyncCyclicMma(Inferred(double))),
        ("ordered_mma", Strategy::OrderedDoubleMma(Inferred(ordered(Mma)))),
        ("tma_mma", Strategy::SimpleTmaMma(Inferred(simple(Mma, false)))),
        ("specialized_tma_mma", Strategy::SpecializedTmaMma(Inferred(().into()))),
    ]
}

/// One product with each kernel.
fn products(device: &CubeDevice, dtype: DType, [pixels, input, output]: [usize; 3], role: &str) {
    let (lhs, rhs, out) = match role {
        "forward" => (
            random(device, &[pixels, input], dtype),
            permute(random(device, &[output, input], dtype), &[1, 0]),
            random(device, &[pixels, output], dtype),
        ),
        "of_input" => (
            random(device, &[pixels, output], dtype),
            random(device, &[output, input], dtype),
            random(device, &[pixels, input], dtype),
        ),
        _ => {
            let most = most_stretches(output, input, pixels);
            let parts = (1..=most).rev().find(|parts| pixels.is_multiple_of(*parts)).unwrap_or(1);
            (
                permute(random(device, &[parts, pixels / parts, output], dtype), &[0, 2, 1]),
                random(device, &[parts, pixels / parts, input], dtype),
                random(device, &[parts, output, input], DType::F32),
            )
        }
    };
    let elements = || {
        let of = |tensor: &CubeTensor| element(tensor.dtype);
        MatmulElems::from_globals(&MatmulGlobalElems { lhs: of(&lhs), rhs: of(&rhs), out: of(&out) })
    };
    for (name, strategy) in strategies() {
        let took = shortest(&lhs.client, || {
            let bind = |tensor: &CubeTensor| InputBinding::new(tensor.clone().binding(), element(tensor.dtype));
            let strategy = cubek::matmul::strategy::Strategy::MultiLevel(strategy.clone());
            let out = out.clone().binding();
            cubek::matmul::launch::launch_ref(&strategy, &lhs.client, bind(&lhs), bind(&rhs), out, &mut elements())
                .map_err(|error| format!("{error:?}"))
        });
        tell(json!({"op": "product", "m": pixels, "k": input, "n": output}), role, dtype, name, took);
    }
}

/// One convolution with each kernel. Burn's direct ones were 10 to 30 times slower.
fn convolutions(device: &CubeDevice, dtype: DType, [side, input, output, kernel, stride]: [usize; 5], role: &str) {
    let (padding, after) = ((kernel - 1) / 2, side / stride);
    let x = random(device, &[BATCH, side, side, input], dtype);
    let weight = random(device, &[output, kernel, kernel, input], dtype);
    let y = random(device, &[BATCH, after, after, output], dtype);
    let shape =
        json!({"op": "convolution", "side": side, "in": input, "out": output, "kernel": kernel, "stride": stride});
    let client = x.client.clone();
    use AcceleratedTileKind as Tile;
    use ConvAlgorithm as With;
    let kernels = [
        ("sync_cyclic_cmma", With::SimpleSyncCyclic, Tile::Cmma),
        ("sync_strided_mma", With::SimpleSyncStrided, Tile::Mma),
        ("async_cyclic_cmma", With::SimpleAsyncCyclic, Tile::Cmma),
        ("async_strided_mma", With::SimpleAsyncStrided, Tile::Mma),
        ("tma_cmma", With::SimpleAsyncTma, Tile::Cmma),
        ("tma_mma", With::SimpleAsyncTma, Tile::Mma),
        ("specialized_tma_mma", With::SpecializedTma, Tile::Mma),
    ];
    for (name, algorithm, tile_kind) in kernels {
        let took = shortest(&client, || {
            let bind = |tensor: &CubeTensor| InputBinding::new(tensor.clone().binding(), element(tensor.dtype));
            let to = |tensor: &CubeTensor| tensor.clone().binding();
            let inputs = match role {
                "forward" => {
                    ConvolutionInputs::Forward { input: bind(&x), weight: bind(&weight), bias: None, out: to(&y) }
                }
                "of_input" => {
                    ConvolutionInputs::BackwardData { out_grad: bind(&y), weights: bind(&weight), in_grad: to(&x) }
                }
                _ => {
                    ConvolutionInputs::BackwardWeight { input: bind(&x), out_grad: bind(&y), weight_grad: to(&weight) }
                }
            };
            let of = element(dtype);
            let elements = MatmulElems::from_globals(&MatmulGlobalElems { lhs: of, rhs: of, out: of });
            let args = ConvolutionArgs { stride: [stride; 2], padding: [padding; 2], dilation: [1; 2] };
            let strategy = cubek::convolution::Strategy::Inferred { algorithm, tile_kind };
            cubek::convolution::launch_ref(&strategy, &client, inputs, args, elements)
                .map_err(|error| format!("{error:?}"))
        });
        tell(shape.clone(), role, dtype, name, took);
    }
}

fn random(device: &CubeDevice, shape: &[usize], dtype: DType) -> CubeTensor {
    let format = if dtype == DType::BF16 { FloatDType::BF16 } else { FloatDType::F32 };
    CubeBackend::float_random(Shape::from(shape.to_vec()), Distribution::Uniform(-1.0, 1.0), device, format)
}

fn element(dtype: DType) -> ElemType {
    if dtype == DType::BF16 { half::bf16::elem_type_native() } else { f32::elem_type_native() }
}

/// The shortest time of a call in microseconds, and how long the first one took, with compiling, in milliseconds.
fn shortest(client: &Client, call: impl Fn() -> Result<(), String>) -> Result<(f64, f64), String> {
    let timed = |calls: usize| -> Result<f64, String> {
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        cubecl::future::block_on(client.sync()).map_err(|error| error.to_string())?;
        Ok(start.elapsed().as_secs_f64())
    };
    let first = timed(1)?;
    let calls = ((ROUND_SECONDS / timed(3)? * 3.0) as usize).clamp(3, 200);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        best = best.min(timed(calls)? / calls as f64);
    }
    Ok((best * 1e6, first * 1e3))
}

fn tell(mut row: Value, role: &str, dtype: DType, kernel: &str, took: Result<(f64, f64), String>) {
    row["role"] = role.into();
    row["dtype"] = format!("{dtype:?}").to_lowercase().into();
    row["kernel"] = kernel.into();
    match took {
        Ok((microseconds, first)) => {
            row["us"] = ((microseconds * 10.0).round() / 10.0).into();
            row["first_ms"] = first.round().into();
        }
        Err(reason) => row["not"] = reason.chars().take(90).collect::<String>().into(),
    }
    println!("{row}");
}
