//! The cases that run on a device: each operation for many shapes and layouts, and blocks of several operations.

use burn::tensor::{DType, Device, FloatDType, Tensor, Tolerance, capture};
use kindling_layers::blocks::{Block, BlockConfig, InvertedResidualConfig};
use kindling_layers::init::initialise;
use kindling_layers::pass::{TrainingPass, training};
use kindling_layers::{AveragePool, DropPath, SqueezeExciteConfig, Upsample};
use kindling_ops::{
    Activation, Interpolation, Places, Pooling, channel_multiply, dense, depthwise, global_average_pool, lerp, resize,
    upload,
};

use crate::naive::convolutions::{Case, check_convolution, check_convolution_within};
use crate::naive::deferred::{
    check_norm_act, check_norm_act_add, check_norm_act_conv, check_norm_act_max_pool, check_norm_act_means,
};
use crate::naive::gates::check_pool_and_multiply;
use crate::naive::resize::{INTERPOLATIONS, check_resize};
use crate::naive::{FACTORS_ARE_ROUNDED, Ground, TF32, close, norm::ACTIVATIONS, random, rng, state, vec};

/// Maps in both layouts.
fn grounds(device: &Device) -> [Ground; 2] {
    [Ground::channels_last(device), Ground::planes(device)]
}

/// Every activation, channels that are taken one, two and four at a time, more pixels than a cube takes, and groups of
/// different sizes. A kernel is compiled for each activation and number of channels, so not all are combined.
pub(crate) fn norm_act(device: &Device) {
    let shapes = [([2, 4, 5, 7], 8), ([5, 6, 3, 4], 2), ([1, 3, 1, 5], 8), ([7, 1, 40, 33], 3), ([3, 300, 2, 2], 2)];
    for (case, activation) in ACTIVATIONS.into_iter().enumerate() {
        let (shape, group) = shapes[case % shapes.len()];
        check_norm_act(&grounds(device)[case % 2], shape, group, activation, 1000 + case as u64);
    }
    for (case, (shape, group)) in shapes.into_iter().enumerate() {
        for ground in grounds(device) {
            check_norm_act(&ground, shape, group, Activation::Relu6, 1100 + case as u64);
        }
    }
}

pub(crate) fn pool_and_multiply(device: &Device) {
    for ground in grounds(device) {
        for (case, shape) in [[1, 1, 1, 1], [2, 3, 5, 7], [3, 16, 16, 16], [1, 4, 33, 40]].into_iter().enumerate() {
            check_pool_and_multiply(&ground, shape, case as u64);
        }
        for (case, activation) in [Activation::Silu, Activation::HardSwish].into_iter().enumerate() {
            check_norm_act_means(&ground, [5, 4, 11, 7], activation, case as u64);
        }
    }
}

pub(crate) fn sums_with_a_shortcut(device: &Device) {
    let cases = [(4, Activation::Identity, false), (3, Activation::Relu, false), (4, Activation::Relu, true)];
    for (case, (channels, activation, again)) in cases.into_iter().enumerate() {
        for ground in grounds(device) {
            check_norm_act_add(&ground, channels, activation, again, case as u64);
        }
    }
}

pub(crate) fn maxima(device: &Device) {
    let pooling = Pooling { kernel: 3, stride: 2, padding: 1 };
    check_norm_act_max_pool(&Ground::channels_last(device), [9, 8], pooling, 0);
}

pub(crate) fn dense_convolutions(device: &Device) {
    let [channels_last, planes] = grounds(device);
    let cases = [
        (&channels_last, Case::dense([2, 4, 5, 7], 8, 1, 1, 0)),
        (&planes, Case::dense([2, 3, 5, 7], 5, 1, 1, 0)),
        (&channels_last, Case::dense([2, 3, 9, 8], 6, 3, 2, 1)),
        // TensorFlow's padding: fewer zeros before than after.
        (&planes, Case { before: [0; 2], ..Case::dense([2, 3, 8, 8], 4, 3, 2, 1) }),
        (&channels_last, Case::dense([1, 4, 7, 9], 4, 1, 2, 0)),
        // What the kernel sees of this map takes more than the memory that is written at a time.
        (&channels_last, Case::dense([1, 64, 130, 128], 4, 3, 1, 1)),
    ];
    for (number, (ground, case)) in cases.into_iter().enumerate() {
        check_convolution(ground, &case, 1000 + number as u64);
    }
}

/// Convolutions of images and of maps, whose filter gradients fill the tiles of tensor cores or do not.
pub(crate) fn dense_convolutions_on_tensor_cores(device: &Device) {
    let [channels_last, planes] = grounds(device);
    let cases = [
        (&planes, Case::dense([4, 3, 64, 64], 16, 3, 2, 1)),
        (&channels_last, Case::dense([4, 3, 64, 64], 32, 3, 1, 1)),
        (&channels_last, Case::dense([2, 8, 33, 33], 12, 5, 2, 2)),
        (&planes, Case::dense([2, 8, 32, 32], 16, 4, 2, 1)),
        (&channels_last, Case::dense([2, 16, 16, 16], 16, 3, 1, 1)),
    ];
    for (number, (ground, case)) in cases.into_iter().enumerate() {
        check_convolution_within(TF32, ground, &case, 1200 + number as u64);
    }
}

/// Every kernel side, strides 1, 2 and 3, maps smaller than the kernel, both layouts, and TensorFlow's padding.
pub(crate) fn depthwise_convolutions(device: &Device) {
    let [channels_last, planes] = grounds(device);
    let same = |kernel: usize| [(kernel - 1) / 2; 2];
    let cases = [
        (&channels_last, Case::depthwise([2, 8, 9, 13], 3, 1, same(3))),
        (&channels_last, Case::depthwise([1, 8, 10, 12], 3, 2, same(3))),
        (&planes, Case::depthwise([2, 3, 7, 6], 3, 1, same(3))),
        (&planes, Case::depthwise([2, 3, 7, 6], 3, 2, same(3))),
        (&channels_last, Case::depthwise([2, 4, 8, 8], 3, 2, [0, 0])),
        (&channels_last, Case::depthwise([2, 8, 11, 9], 5, 1, same(5))),
        (&channels_last, Case::depthwise([3, 6, 11, 14], 5, 2, same(5))),
        (&planes, Case::depthwise([2, 3, 2, 3], 5, 2, [1, 1])),
        (&channels_last, Case::depthwise([1, 4, 17, 16], 7, 1, same(7))),
        (&channels_last, Case::depthwise([2, 4, 5, 3], 7, 2, same(7))),
        (&channels_last, Case::depthwise([1, 4, 13, 21], 9, 1, same(9))),
        (&planes, Case::depthwise([1, 2, 12, 11], 11, 2, same(11))),
        (&channels_last, Case::depthwise([1, 4, 10, 11], 3, 3, same(3))),
        (&channels_last, Case::depthwise([2, 300, 3, 3], 3, 1, same(3))),
        (&channels_last, Case::depthwise([2, 4, 11, 14], 3, 1, same(3)).dilated()),
        (&channels_last, Case::depthwise([1, 4, 12, 9], 5, 2, same(5)).dilated()),
    ];
    for (number, (ground, case)) in cases.into_iter().enumerate() {
        check_convolution(ground, &case, number as u64);
    }
}

pub(crate) fn deferred_convolutions(device: &Device) {
    let [channels_last, planes] = grounds(device);
    let cases = [
        (&channels_last, Case::dense([2, 8, 7, 7], 4, 1, 1, 0), false, Activation::Relu6),
        (&channels_last, Case::dense([3, 8, 7, 7], 4, 1, 1, 0), true, Activation::HardSwish),
        (&planes, Case::dense([3, 4, 9, 8], 6, 3, 2, 1), false, Activation::Relu),
        (&channels_last, Case::depthwise([5, 4, 10, 9], 3, 1, [1, 1]), false, Activation::Relu6),
        (&channels_last, Case::depthwise([2, 8, 17, 33], 5, 2, [2, 2]), true, Activation::Silu),
        (&planes, Case::depthwise([2, 3, 8, 7], 3, 2, [1, 1]), true, Activation::HardSwish),
        (&channels_last, Case::depthwise([3, 2, 6, 5], 7, 1, [3, 3]), false, Activation::Identity),
    ];
    for (number, (ground, case, gated, activation)) in cases.into_iter().enumerate() {
        check_norm_act_conv(ground, &case, gated, activation, 4000 + number as u64);
    }
}

/// Every operation for maps and gradients that are slices of larger ones along each axis: their rows, pixels or samples are further
/// apart than their shapes say, and they do not begin at the start of their buffer.
pub(crate) fn slices(device: &Device) {
    for (number, ground) in grounds(device).into_iter().enumerate() {
        for axis in 0..4 {
            every_operation(&ground.clone().sliced(axis), 4, 5, 9000 + (10 * number + axis) as u64);
        }
    }
}

/// Every operation for maps whose rows CUDA pads to whole vectors: rows of pixels, or of channels where those are last.
pub(crate) fn padded(device: &Device) {
    for (number, ground) in grounds(device).into_iter().enumerate() {
        for (case, (channels, width)) in [(2, 3), (3, 2), (6, 7), (5, 9)].into_iter().enumerate() {
            every_operation(&ground, channels, width, 9100 + (10 * number + case) as u64);
        }
    }
}

/// Each operation once, for maps of so many channels and columns.
fn every_operation(ground: &Ground, channels: usize, width: usize, number: u64) {
    let map = [3, channels, 6, width];
    check_norm_act(ground, map, 2, Activation::HardSwish, number);
    check_norm_act_means(ground, map, Activation::Silu, number);
    check_pool_and_multiply(ground, map, number);
    check_norm_act_add(ground, channels, Activation::Relu, false, number);
    check_resize(ground, map, [13, 2 * width], INTERPOLATIONS[number as usize % 3], number);
    check_norm_act_max_pool(ground, [6, width], Pooling { kernel: 3, stride: 2, padding: 1 }, number);
    let cases = [Case::dense(map, 6, 1, 1, 0), Case::dense(map, 6, 3, 2, 1), Case::depthwise(map, 3, 1, [1, 1])];
    for (case, gated) in cases.into_iter().zip([true, false, true]) {
        check_convolution(ground, &case, number);
        check_norm_act_conv(ground, &case, gated, Activation::HardSwish, number);
    }
}

/// Quarters of maps and of images, which a device may read in place, are upsampled and averaged as on the CPU.
pub(crate) fn quarters(device: &Device) {
    let shapes = [([2, 16, 16, 16], true), ([2, 1, 256, 256], false), ([2, 3, 256, 256], false)];
    for (number, (shape, channels_last)) in shapes.into_iter().enumerate() {
        let [batch, channels, height, width] = shape;
        let (halves, values) = ([height / 2, width / 2], random(&mut rng(8200), shape.iter().product()));
        let of_up = [batch, channels, height, width];
        let of_pooled = [batch, channels, halves[0] / 2, halves[1] / 2];
        let [up_weights, pooled_weights] =
            [of_up, of_pooled].map(|shape| random(&mut rng(8201), shape.iter().product()));
        for quarter in 0..4 {
            let run = |device: &Device| {
                let ground = Ground { channels_last, ..Ground::planes(device) };
                let x = ground.map(&values, shape).require_grad();
                let part = x.clone().narrow(2, quarter / 2 * halves[0], halves[0]);
                let part = part.narrow(3, quarter % 2 * halves[1], halves[1]);
                let up = Upsample { factor: 2 }.forward(part.clone());
                let pooled = AveragePool { kernel: 2 }.forward(part.clone());
                let loss = (up.clone() * ground.map(&up_weights, of_up)).sum()
                    + (pooled.clone() * ground.map(&pooled_weights, of_pooled)).sum();
                let grads = loss.backward();
                [
                    ("part", vec(part)),
                    ("up", vec(up)),
                    ("pooled", vec(pooled)),
                    ("dx", vec(x.grad(&grads).expect("a gradient"))),
                ]
            };
            let (expected, found) = (run(&Device::flex().autodiff()), run(device));
            for ((name, expected), (_, found)) in expected.into_iter().zip(&found) {
                close(&format!("{name} of quarter {quarter} of shape {number}"), found, &expected.numbers);
            }
        }
    }
}

/// Sums of maps of one channel, or gradients of filters for one channel, with tensors stored plane by plane. Burn fuses these sums, and
/// computed them wrongly while the axis of one channel had the stride of neighbours.
pub(crate) fn one_channel(device: &Device) {
    let (sides, mut rng) = ([32, 32], rng(8300));
    let mut of = |shape: [usize; 4]| (shape, random(&mut rng, shape.iter().product()));
    let (map, image) = (of([2, 8, sides[0], sides[1]]), of([2, 1, sides[0], sides[1]]));
    let (to_one, from_one, per_channel) = (of([1, 8, 3, 3]), of([4, 1, 4, 4]), of([4, 1, 3, 3]));
    let (of_halves, of_doubles) = (of([2, 1, 16, 16]), of([2, 1, 64, 64]));
    let run = |device: &Device| {
        let ground = Ground::planes(device);
        let tensor = |(shape, values): &([usize; 4], Vec<f32>)| ground.tensor(values, *shape);
        let x = Ground { channels_last: true, ..ground.clone() }.map(&map.1, map.0).require_grad();
        let weights = [&to_one, &from_one, &per_channel].map(|weight| tensor(weight).require_grad());
        let [to_one, from_one, per_channel] = weights.clone();
        let same = Places { stride: 1, dilation: 1, before: [1; 2], out: sides };
        let halves = Places { stride: 2, out: sides.map(|side| side / 2), ..same };
        let apart = |map: Tensor<4>, other: Tensor<4>| (map - other).abs();
        let distance = apart(dense(x.clone(), to_one, same), tensor(&image));
        let read =
            depthwise(dense(distance.clone(), from_one, halves), per_channel, Places { out: halves.out, ..same });
        let pooled = apart(AveragePool { kernel: 2 }.forward(distance.clone()), tensor(&of_halves));
        let doubled = apart(Upsample { factor: 2 }.forward(distance.clone()), tensor(&of_doubles));
        let loss =
            distance.clone().mean() + read.powi_scalar(2).mean() + pooled.clone().mean() + doubled.clone().mean();
        let mut grads = loss.backward();
        let mut found = vec![vec(distance), vec(pooled), vec(doubled), vec(x.grad(&grads).expect("a gradient"))];
        for weight in weights {
            // Optimizers add a gradient, which nothing else refers to, to their state in this way.
            let gradient = weight.grad_remove(&mut grads).expect("a gradient");
            found.push(vec(gradient * 0.5 + weight.inner() * 2.0));
        }
        found
    };
    let (expected, found) = (run(&Device::flex().autodiff()), run(device));
    for (number, (expected, found)) in expected.into_iter().zip(&found).enumerate() {
        close(&format!("result {number} of maps with one channel"), found, &expected.numbers);
    }
}

/// Larger and smaller maps, channels that are taken one, two and four at a time, single rows and columns, and more pixels than a cube
/// takes.
pub(crate) fn resized(device: &Device) {
    let [channels_last, planes] = grounds(device);
    let cases = [
        (&channels_last, [2, 4, 5, 7], [10, 14]),
        (&channels_last, [2, 8, 9, 6], [4, 17]),
        (&channels_last, [1, 4, 1, 1], [3, 5]),
        (&channels_last, [1, 4, 40, 33], [90, 1]),
        (&planes, [2, 3, 33, 8], [7, 31]),
        (&planes, [1, 1, 6, 5], [6, 5]),
    ];
    for (number, (ground, shape, size)) in cases.into_iter().enumerate() {
        for how in INTERPOLATIONS {
            check_resize(ground, shape, size, how, 100 + number as u64);
        }
    }
}

pub(crate) fn float16(device: &Device) {
    half_format(device, FloatDType::F16, 1.0 / 512.0);
}

pub(crate) fn bfloat16(device: &Device) {
    half_format(device, FloatDType::BF16, 1.0 / 64.0);
}

/// Maps of a half format: sums are float32, so the result is the float32 result up to rounding to the format, and the gradient of a
/// weight is float32.
fn half_format(device: &Device, format: FloatDType, digits: f32) {
    let [channels_last, planes] = grounds(device);
    for ground in [channels_last.clone(), channels_last.sliced(3), planes.clone(), planes.sliced(1)] {
        half_format_on(&ground, format, digits);
    }
}

fn half_format_on(ground: &Ground, format: FloatDType, digits: f32) {
    let mut rng = rng(3000);
    let mut of = |shape: [usize; 4]| random(&mut rng, shape.iter().product());
    let (x, w, d) = (of([2, 8, 9, 9]), of([4, 8, 1, 1]), of([8, 1, 3, 3]));
    let (w, d) = (ground.tensor(&w, [4, 8, 1, 1]), ground.tensor(&d, [8, 1, 3, 3]));
    let places = Places { stride: 1, dilation: 1, before: [0; 2], out: [9; 2] };
    type Operation = fn(Tensor<4>, Tensor<4>, Places) -> Tensor<4>;
    let operations: [(&Tensor<4>, Operation); 3] = [
        (&w, dense),
        (&d, |x, d, places| depthwise(x, d, Places { before: [1; 2], ..places })),
        (&d, |x, d, _| {
            channel_multiply(x.clone(), global_average_pool(x) * d.reshape([8, 9]).sum_dim(1).reshape([1, 8]))
        }),
    ];
    resized_halves(ground, format);
    for (weight, operation) in &operations {
        let half = Ground { format, ..ground.clone() }.map(&x, [2, 8, 9, 9]);
        // A dense convolution rounds its filters to the format, which adds to the error of a sum.
        let rounded = (*weight).clone().cast(format).cast(FloatDType::F32);
        let run = |x: Tensor<4>| {
            let (x, weight) = (x.detach().require_grad(), rounded.clone().detach().require_grad());
            let y = operation(x.clone(), weight.clone(), places);
            let mut grads = y.clone().sum().backward();
            (y, x.grad_remove(&mut grads).expect("a gradient"), weight.grad_remove(&mut grads).expect("a gradient"))
        };
        let (y, dx, dw) = run(half.clone());
        let (full_y, full_dx, full_dw) = run(half.cast(FloatDType::F32));
        assert_eq!([y.dtype(), dx.dtype(), dw.dtype()], [format.into(), format.into(), DType::F32]);
        let near = Tolerance::<f32>::relative(digits).set_absolute(digits);
        y.cast(FloatDType::F32).into_data().assert_approx_eq::<f32>(&full_y.into_data(), near);
        dx.cast(FloatDType::F32).into_data().assert_approx_eq::<f32>(&full_dx.into_data(), near);
        dw.into_data().assert_approx_eq::<f32>(&full_dw.into_data(), near);
    }
}

/// Resized maps of a half format and their gradients have the bits of the float32 result, rounded. Numbers and weights are multiples of
/// small powers of two, so that float32 sums are exact whether or not a compiler joins products and sums.
fn resized_halves(ground: &Ground, format: FloatDType) {
    let half = Ground { format, ..ground.clone() };
    let sixteenths = |values: Vec<f32>| values.iter().map(|value| (16.0 * value).round() / 16.0).collect::<Vec<_>>();
    let shape = [2, 8, 9, 5];
    for how in INTERPOLATIONS {
        let size = if how == Interpolation::BilinearCorners { [17, 9] } else { [18, 10] };
        let of_output = [2, 8, size[0], size[1]];
        let [x, dy] = [shape, of_output].map(|shape| sixteenths(random(&mut rng(3100), shape.iter().product())));
        let run = |as_it_is: bool| {
            let cast = |map: Tensor<4>| if as_it_is { map } else { map.cast(FloatDType::F32) };
            let x = cast(half.map(&x, shape)).detach().require_grad();
            let y = resize(x.clone(), size, how);
            let mut grads = (y.clone() * cast(half.map(&dy, of_output))).sum().backward();
            [y.inner(), x.grad_remove(&mut grads).expect("a gradient")].map(|map| map.cast(format).into_data())
        };
        for (found, expected) in run(true).into_iter().zip(run(false)) {
            found.assert_eq(&expected, true);
        }
    }
}

/// The gradient of maps of which every pixel becomes four, on sides whose products are no numbers of the format: 256 * 512 lies beyond
/// the largest float16, and 224 * 448 has more digits than bfloat16. The gradients are whole numbers, so that no sum is rounded.
pub(crate) fn doubled_float16(device: &Device) {
    doubled_halves(device, FloatDType::F16, 256);
}

pub(crate) fn doubled_bfloat16(device: &Device) {
    doubled_halves(device, FloatDType::BF16, 224);
}

fn doubled_halves(device: &Device, format: FloatDType, height: usize) {
    const WIDTH: usize = 2;
    for ground in grounds(device) {
        let ground = Ground { format, ..ground };
        let (shape, of_doubled) = ([1, 4, height, WIDTH], [1, 4, 2 * height, 2 * WIDTH]);
        let weights: Vec<f32> = (0..16 * height * WIDTH).map(|place| (place * 7 % 17) as f32 - 8.0).collect();
        let x = ground.map(&random(&mut rng(8400), 4 * height * WIDTH), shape).require_grad();
        let doubled = Upsample { factor: 2 }.forward(x.clone());
        let grads = ground.weighed(doubled, &weights).backward();
        let found = vec(x.grad(&grads).expect("a gradient").cast(FloatDType::F32));
        let weight = |plane: usize, row: usize, column: usize| {
            f64::from(weights[(plane * of_doubled[2] + row) * of_doubled[3] + column])
        };
        let wrong = (0..found.numbers.len()).filter(|place| {
            let (plane, row, column) = (place / WIDTH / height, place / WIDTH % height, place % WIDTH);
            let four = [(0, 0), (0, 1), (1, 0), (1, 1)]
                .map(|(down, across)| weight(plane, 2 * row + down, 2 * column + across));
            found.numbers[*place] != four.iter().sum::<f64>()
        });
        let rows: std::collections::BTreeSet<usize> = wrong.map(|place| place / WIDTH % height).collect();
        assert!(rows.is_empty(), "{} of {height} rows of the gradient are wrong in {format:?}: {rows:?}", rows.len());
    }
}

/// A difference of squares would leave nothing of a variance of 1 beside a mean of 1000.
pub(crate) fn large_means(device: &Device) {
    let ground = Ground::channels_last(&device.clone().without_autodiff());
    let shape = [2, 4, 30, 31];
    let values: Vec<f32> = random(&mut rng(9), shape.iter().product()).iter().map(|value| value + 1000.0).collect();
    let found = kindling_ops::statistics(ground.map(&values, shape), vec![2]);
    let found = found.into_data().try_to_vec::<f32>().expect("float32");
    for channel in 0..4 {
        let plane = 30 * 31;
        let of_channel: Vec<f64> = (0..2)
            .flat_map(|sample| values[(sample * 4 + channel) * plane..][..plane].iter().map(|value| f64::from(*value)))
            .collect();
        let mean = of_channel.iter().sum::<f64>() / of_channel.len() as f64;
        let variance = of_channel.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / of_channel.len() as f64;
        assert!((f64::from(found[channel]) - mean).abs() < 1e-3, "mean {} for {mean}", found[channel]);
        assert!((f64::from(found[4 + channel]) / variance - 1.0).abs() < 1e-4, "{} for {variance}", found[4 + channel]);
    }
}

/// A block with every kind of reading: expansion, depthwise convolution, squeeze-excite, projection, shortcut.
/// An inverted residual block with everything that one can have.
fn whole_block(channels: usize) -> InvertedResidualConfig {
    // Where an activation has a kink, rounded factors give a few numbers the slope of its other side.
    let [activation, squeezed_activation, gate] = if FACTORS_ARE_ROUNDED.get() {
        [Activation::Silu, Activation::Silu, Activation::Sigmoid]
    } else {
        [Activation::HardSwish, Activation::Relu, Activation::HardSigmoid]
    };
    let squeeze =
        SqueezeExciteConfig { channels: 4 * channels, squeezed: channels, activation: squeezed_activation, gate };
    InvertedResidualConfig {
        squeeze_excite: Some(squeeze),
        ..InvertedResidualConfig::new(channels, 4 * channels, channels, 5, 1, activation)
    }
}

/// Nothing in the layers prevents a step from being recorded as a CUDA graph and replayed (`docs/decisions/cuda-graphs.md`). Recording
/// computes nothing: until the first replay the output is whatever its memory held, which is why every call gets another map.
#[allow(unsafe_code)]
pub(crate) fn recorded_block(device: &Device) {
    let channels = 8;
    let block = initialise(whole_block(channels).init(DropPath::default(), device), 3);
    let ground = Ground::planes(device);
    let shape = [2, channels, 9, 7];
    let map = |seed| ground.map(&random(&mut rng(seed), shape.iter().product()), shape);
    let (weights, maps) = (map(8100), (8101..8117).map(map).collect::<Vec<_>>());
    let step = |x: &Tensor<4>| {
        let (y, _) = training(TrainingPass::whole_batch(2), || block.forward(x.clone()));
        let grads = (y * weights.clone()).sum().backward();
        block.depthwise.conv.weight.val().grad(&grads).expect("a gradient")
    };
    let mut calls = maps.iter();
    let mut recorded = None;
    let mut graph = capture(&device.clone().without_autodiff(), || {
        recorded = calls.next();
        step(recorded.expect("fewer warm-ups than maps"))
    });
    assert!(graph.is_hardware(), "this device has no graphs");
    let replayed = [(); 2].map(|()| {
        // SAFETY: the block, the maps and the weights live to the end of this function, and no other thread has them.
        unsafe { vec(graph.replay().clone()) }
    });
    drop(graph);
    let straight = vec(step(recorded.expect("it was called")));
    assert_ne!(vec(step(&maps[0])), straight, "other maps have other gradients");
    assert_eq!(replayed, [straight.clone(), straight], "replayed otherwise than run");
}

pub(crate) fn block(device: &Device) {
    let channels = 8;
    let config = whole_block(channels);
    let values = random(&mut rng(8000), 4 * channels * 9 * 7);
    let weights = random(&mut rng(8001), values.len());
    let gradients = |ground: &Ground| {
        let block = initialise(config.init(DropPath::default(), &ground.device), 3);
        let x = ground.map(&values, [4, channels, 9, 7]).require_grad();
        let (y, _) = training(TrainingPass::whole_batch(4), || block.forward(x.clone()));
        let grads = (y * ground.map(&weights, [4, channels, 9, 7])).sum().backward();
        let mut found = vec![("x", vec(x.grad(&grads).expect("a gradient")))];
        for layer in [block.expand.as_ref().expect("an expansion"), &block.depthwise, &block.project] {
            found.push(("filters", vec(layer.conv.weight.val().grad(&grads).expect("a gradient"))));
            found.push(("scale", vec(layer.norm.weight.val().grad(&grads).expect("a gradient"))));
            found.push(("shift", vec(layer.norm.bias.val().grad(&grads).expect("a gradient"))));
        }
        let squeeze = block.squeeze_excite.as_ref().expect("squeeze-excite");
        for layer in [&squeeze.reduce, &squeeze.expand] {
            found.push(("weight", vec(layer.weight.val().grad(&grads).expect("a gradient"))));
            found.push(("bias", vec(layer.bias.val().grad(&grads).expect("a gradient"))));
        }
        found
    };
    let expected = gradients(&Ground::planes(&Device::flex().autodiff()));
    let found = gradients(&Ground::channels_last(device));
    assert_eq!(expected.len(), 14);
    for (number, ((name, expected), (_, found))) in expected.iter().zip(&found).enumerate() {
        close(&format!("{name} {number}"), found, &expected.numbers);
    }
}

/// Of one number, of a task's, and of several tasks' with a rest; twice, since the second finds memory of the first.
pub(crate) fn uploads(device: &Device) {
    let plain = device.clone().without_autodiff();
    for (seed, shape) in [(9000, [1, 1, 1, 1]), (9001, [1, 4, 256, 256]), (9002, [3, 3, 311, 307])].repeat(2) {
        let numbers = random(&mut rng(seed), shape.iter().product());
        let arrived = upload(&numbers, shape, FloatDType::F32, &plain);
        assert_eq!(arrived.dims(), shape);
        let arrived = arrived.into_data().try_to_vec::<f32>().expect("float32");
        assert!(arrived.iter().zip(&numbers).all(|(a, b)| a.to_bits() == b.to_bits()), "{shape:?}");
        assert_eq!(arrived.len(), numbers.len());
    }
}

pub(crate) fn moves_of_many_tensors(device: &Device) {
    const FACTOR: f64 = 0.25;
    const SHARE: f64 = 0.1;
    let device = device.clone().without_autodiff();
    let values = [7100, 7200].map(state::numbers);
    for count in [1, 8, 9, state::LENGTHS.len()] {
        let [from, to] = values.each_ref().map(|values| state::slices(&values[..count], &device).into_iter());
        let pairs: Vec<[Tensor<1>; 2]> = from.zip(to).map(|(from, to)| [from, to]).collect();
        let moved = lerp(&pairs, FACTOR, SHARE).expect("a device where each would be a launch");
        assert_eq!(moved.len(), count);
        for (place, moved) in moved.iter().enumerate() {
            let pairs = state::inside(&values[0][place]).zip(state::inside(&values[1][place]));
            let expected: Vec<f64> = pairs.map(|(from, to)| from + SHARE * (FACTOR * to - from)).collect();
            state::assert_near(moved, &expected);
        }
    }
}
