//! The CPU's own operations compute what their definitions say.

mod blocks;
mod naive;

use std::ops::RangeInclusive;

use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
use burn::tensor::{DType, Device, FloatDType, Tensor, Tolerance, module};
use kindling_layers::{Activation, ConvTranspose2dConfig, Padding};
use kindling_ops::{
    Interpolation, InvertedResidualShape, Places, Pooling, channel_multiply, dense, depthwise, global_average_pool,
    resize,
};

use proptest::prelude::*;

use blocks::{Block, check_end_of_block, check_inverted_residual};
use naive::convolutions::{Case, Naive, check_convolution};
use naive::deferred::{
    check_norm_act, check_norm_act_add, check_norm_act_conv, check_norm_act_max_pool, check_norm_act_means,
};
use naive::gates::check_pool_and_multiply;
use naive::norm::{ACTIVATIONS, check_sums_over_groups};
use naive::resize::{INTERPOLATIONS, check_resize};
use naive::state::{check_many_tensors, check_sums, check_updates_of_many_tensors};
use naive::{COMPUTED, Ground, close, random, rng, vec};

/// Maps of float32, and of float64, on which the same kernels are exact to its last digits.
fn cpu() -> [Ground; 2] {
    let ground = Ground::planes(&Device::flex().autodiff());
    [ground.clone(), Ground { format: FloatDType::F64, ..ground }]
}

/// Maps of the half formats.
fn halves() -> [Ground; 2] {
    [FloatDType::BF16, FloatDType::F16].map(|format| Ground { format, ..Ground::planes(&Device::flex().autodiff()) })
}

/// A check of the kernels, on maps of both formats.
fn on_each_format(check: impl Fn(&Ground)) {
    cpu().iter().for_each(check);
}

#[test]
fn many_tensors_at_once_equal_the_naive_sums() {
    check_many_tensors(&Device::flex());
}

#[test]
fn sums_and_their_gradients_equal_the_naive_ones() {
    check_sums(&Device::flex().autodiff());
}

#[test]
fn sums_over_groups_equal_the_naive_ones() {
    check_sums_over_groups(&Device::flex());
}

#[test]
fn adamws_updates_equal_the_papers() {
    check_updates_of_many_tensors(&Device::flex());
}

#[test]
fn depthwise_and_its_gradients_equal_the_naive_sums() {
    let mut cases = 0;
    for kernel in [3, 5, 7, 9, 11] {
        for stride in [1, 2, 3] {
            for (height, width) in [(1, 1), (2, 3), (5, 4), (7, 16), (16, 17), (33, 31), (9, 70)] {
                for (padding, batch, channels) in
                    [(Padding::Symmetric, 1, 1), (Padding::Symmetric, 2, 3), (Padding::Same, 2, 2)]
                {
                    let before = padding.of_map(height, width, kernel, stride).before;
                    let case = Case::depthwise([batch, channels, height, width], kernel, stride, before);
                    on_each_format(|ground| check_convolution(ground, &case, cases));
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 315);
}

#[test]
fn depthwise_takes_tensors_that_are_not_contiguous() {
    let case = Case::depthwise([2, 4, 6, 6], 3, 2, [1, 1]);
    check_convolution(&Ground::channels_last(&Device::flex().autodiff()), &case, 0);
}

#[test]
fn convolutions_take_slices_of_larger_maps() {
    for axis in 0..4 {
        for ground in cpu().into_iter().flat_map(|ground| [Ground { channels_last: true, ..ground.clone() }, ground]) {
            let ground = ground.sliced(axis);
            check_convolution(&ground, &Case::depthwise([2, 4, 6, 6], 3, 2, [1, 1]), axis as u64);
            check_convolution(&ground, &Case::dense([2, 4, 5, 7], 8, 1, 1, 0), axis as u64);
        }
    }
}

/// Every kernel side, stride and padding there is a model for, at odd and even sizes.
fn dense_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let kernels = [(1, 1, 0), (1, 2, 0), (3, 1, 1), (3, 2, 1), (5, 2, 2), (7, 2, 3), (4, 2, 1), (4, 1, 0)];
    for (kernel, stride, padding) in kernels {
        for (height, width) in [(4, 4), (5, 7), (8, 6), (17, 16), (33, 9)] {
            for (batch, input, output) in [(1, 1, 1), (2, 3, 5), (3, 17, 4)] {
                cases.push(Case::dense([batch, input, height, width], output, kernel, stride, padding));
            }
        }
    }
    cases.extend(winograd_cases());
    cases.push(Case::dense([2, 17, 12, 9], 18, 3, 1, 1).dilated());
    // TensorFlow's padding: fewer zeros before than after.
    cases.push(Case { before: [0; 2], ..Case::dense([2, 3, 8, 8], 4, 3, 2, 1) });
    cases
}

/// 3x3 filters between many channels, on maps of one place and of several blocks of them, of 2x2 and of 4x4 pixels, with zeros on
/// either side, on both or on none.
fn winograd_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let sizes = [(1, 1), (2, 5), (4, 4), (7, 16), (17, 33), (70, 9), (32, 32), (31, 35), (130, 30)]
        .map(|(height, width)| ([2, 16, height, width], 20));
    let others = [([1, 70, 37, 40], 150), ([2, 2, 32, 33], 3), ([1, 16, 33, 34], 2)];
    for (shape, output) in sizes.into_iter().chain(others) {
        for (before, after) in [(1, 1), (0, 1), (0, 2), (2, 0), (2, 2)] {
            let out = [shape[2], shape[3]].map(|size: usize| size + before + after - 2);
            // One pixel and no zeros on a side make no output.
            if !out.contains(&0) {
                cases.push(Case { before: [before, before.min(1)], out, ..Case::dense(shape, output, 3, 1, 1) });
            }
        }
    }
    cases
}

#[test]
fn dense_and_transposed_convolutions_and_their_gradients_equal_the_naive_sums() {
    let mut transposed = 0;
    for (number, case) in dense_cases().into_iter().enumerate() {
        on_each_format(|ground| check_convolution(ground, &case, 1000 + number as u64));
        let side = |size: usize| (size - 1) * case.stride + case.kernel - 2 * case.before[0];
        let even = case.before[0] == case.before[1];
        if even && case.out.map(side) == [case.height, case.width] {
            on_each_format(|ground| check_transposed(ground, &case, 1000 + number as u64));
            transposed += 1;
        }
    }
    assert!(transposed > 60, "only {transposed} convolutions have an input that their output and they alone decide");
}

/// The convolution backwards, as the layer has it: from the output's shape to the input's.
fn check_transposed(ground: &Ground, case: &Case, number: u64) {
    let naive = Naive::of(case, number);
    let Case { input, output, kernel, stride, before: [padding, _], .. } = *case;
    let mut layer =
        ConvTranspose2dConfig { input: output, output: input, kernel, stride, padding }.init(&ground.device);
    let weight = ground.tensor(&naive.w, case.filters()).require_grad();
    layer.weight = burn::module::Param::from_tensor(weight);
    let yt = ground.map(&naive.y, case.output_shape()).require_grad();
    let out = layer.forward(yt.clone());
    let grads = (out.clone() * ground.map(&naive.x, case.input_shape())).sum().backward();
    close(&format!("{case:?} transposed y"), &vec(out), &naive.of_y);
    close(&format!("{case:?} transposed dx"), &vec(yt.grad(&grads).expect("a gradient")), &naive.of_x);
    close(&format!("{case:?} transposed dw"), &vec(layer.weight.val().grad(&grads).expect("a gradient")), &naive.of_w);
}

#[test]
fn global_average_pool_and_channel_multiply_and_their_gradients_equal_the_naive_sums() {
    for (case, shape) in [[1, 1, 1, 1], [2, 3, 5, 7], [3, 17, 16, 16], [1, 4, 33, 40]].into_iter().enumerate() {
        on_each_format(|ground| check_pool_and_multiply(ground, shape, case as u64));
    }
}

#[test]
fn norm_act_and_its_gradients_equal_the_naive_sums() {
    let mut case = 1000;
    for activation in ACTIVATIONS {
        for (shape, group) in [([2, 3, 5, 4], 8), ([1, 2, 1, 3], 8), ([5, 2, 3, 7], 2), ([7, 1, 17, 16], 3)] {
            on_each_format(|ground| check_norm_act(ground, shape, group, activation, case));
            case += 1;
        }
    }
}

/// With and without a gate, with every activation, on planes that make several pieces and on odd ones.
#[test]
fn convolutions_that_normalise_while_they_read_and_their_gradients_equal_the_naive_sums() {
    let cases = [
        Case::dense([2, 3, 7, 7], 5, 1, 1, 0),
        Case::dense([2, 300, 33, 33], 4, 1, 1, 0),
        Case::dense([3, 4, 9, 8], 6, 3, 2, 1),
        Case::dense([1, 17, 5, 5], 3, 3, 1, 1),
        Case::dense([2, 18, 9, 12], 21, 3, 1, 1),
        Case::depthwise([5, 3, 10, 9], 3, 1, [1, 1]),
        Case::depthwise([2, 5, 17, 33], 5, 2, [2, 2]),
    ];
    let mut number = 4000;
    for (index, case) in cases.iter().enumerate() {
        for gated in [false, true] {
            for (of_activation, activation) in ACTIVATIONS.into_iter().enumerate() {
                // The large one once.
                if index != 1 || of_activation == 3 {
                    on_each_format(|ground| check_norm_act_conv(ground, case, gated, activation, number));
                    number += 1;
                }
            }
        }
    }
}

#[test]
fn means_that_normalise_while_they_read_and_their_gradients_equal_the_naive_sums() {
    for (case, activation) in ACTIVATIONS.into_iter().enumerate() {
        on_each_format(|ground| check_norm_act_means(ground, [5, 3, 11, 7], activation, case as u64));
    }
}

#[test]
fn sums_with_a_shortcut_and_their_gradients_equal_the_naive_sums() {
    for (case, activation) in [Activation::Identity, Activation::Relu].into_iter().enumerate() {
        for again in [false, true] {
            on_each_format(|ground| check_norm_act_add(ground, 3, activation, again, case as u64));
        }
    }
}

#[test]
fn maxima_that_normalise_while_they_read_and_their_gradients_equal_the_naive_ones() {
    for (case, (size, kernel, stride)) in [([9, 8], 3, 2), ([5, 5], 3, 1), ([8, 6], 2, 2)].into_iter().enumerate() {
        let pooling = Pooling { kernel, stride, padding: usize::from(kernel == 3) };
        on_each_format(|ground| check_norm_act_max_pool(ground, size, pooling, case as u64));
    }
}

/// Blocks with and without expansion and projection, of one band and of several, with zeros around the map that differ from side to
/// side, a dilated kernel, and numbers of channels that no register holds.
fn blocks(batch: usize) -> Vec<Block> {
    let depthwise = |channels, [height, width]: [usize; 2], kernel, stride, padding: Padding| {
        let before = padding.of_map(height, width, kernel, stride).before;
        Case::depthwise([batch, channels, height, width], kernel, stride, before)
    };
    let of = |depthwise: Case, input, output, activation| Block { depthwise, input, output, activation };
    let wide = |kernel, stride, padding| depthwise(32, [48, 300], kernel, stride, padding);
    let dilated = depthwise(32, [40, 133], 3, 1, Padding::Symmetric).dilated();
    vec![
        of(wide(3, 1, Padding::Symmetric), 8, 12, Activation::Relu6),
        of(wide(3, 2, Padding::Symmetric), 8, 12, Activation::HardSwish),
        of(wide(5, 2, Padding::Same), 8, 0, Activation::Silu),
        of(wide(3, 1, Padding::Symmetric), 32, 9, Activation::Relu),
        of(dilated, 6, 5, Activation::Silu),
        of(dilated, 6, 0, Activation::Relu6),
        of(depthwise(520, [18, 20], 3, 1, Padding::Symmetric), 20, 70, Activation::HardSwish),
        of(depthwise(13, [7, 5], 3, 1, Padding::Symmetric), 3, 4, Activation::Identity),
        of(depthwise(6, [9, 1], 5, 2, Padding::Same), 3, 2, Activation::Tanh),
        of(depthwise(6, [1, 8], 7, 1, Padding::Symmetric), 3, 0, Activation::Sigmoid),
    ]
}

#[test]
fn inverted_residuals_in_bands_equal_the_naive_sums_and_have_the_bits_of_their_layers() {
    let mut in_bands = 0;
    for (number, block) in blocks(2).iter().enumerate() {
        on_each_format(|ground| check_inverted_residual(ground, block, 8200 + number as u64));
        for ground in &halves() {
            if InvertedResidualShape::has_bands(ground.format.into()) {
                check_inverted_residual(ground, block, 8200 + number as u64);
            }
        }
        in_bands += usize::from(block.shape().is_in_bands());
    }
    assert_eq!(in_bands, 7);
}

/// Products of several pieces, strips of one and of several, and what goes neither way; more samples than threads, and one.
#[test]
fn ends_of_blocks_equal_the_naive_sums_and_have_the_bits_of_their_operations() {
    let cases = [
        Case::dense([9, 7, 11, 6], 5, 1, 1, 0),
        Case::dense([1, 300, 33, 31], 4, 1, 1, 0),
        Case::dense([1, 24, 64, 65], 20, 3, 1, 1),
        Case::dense([2, 130, 20, 40], 3, 3, 1, 1),
        Case::dense([3, 4, 9, 12], 6, 3, 2, 1),
        Case::dense([2, 3, 8, 8], 2, 5, 1, 2),
    ];
    for (number, case) in cases.into_iter().enumerate() {
        on_each_format(|ground| check_end_of_block(ground, case, 8600 + number as u64));
        halves().iter().for_each(|ground| check_end_of_block(ground, case, 8600 + number as u64));
    }
}

#[test]
fn maps_of_another_size_and_their_gradients_equal_the_naive_sums() {
    let sizes = [1, 2, 3, 5, 8, 16, 17, 33];
    let mut case = 0;
    for height in sizes {
        for rows in sizes {
            // Every pair of sizes for the columns too, beside another pair for the rows.
            let (width, columns) = (rows, sizes[(height + rows) % sizes.len()]);
            for how in INTERPOLATIONS {
                on_each_format(|ground| check_resize(ground, [2, 3, height, width], [rows, columns], how, case));
                case += 1;
            }
        }
    }
    assert_eq!(case, 192);
}

/// What PyTorch computes, written by `golden/resize.py`.
fn of_pytorch() -> serde_json::Value {
    serde_json::from_str(include_str!("golden/resize.json")).expect("the script writes JSON")
}

#[test]
fn resized_maps_and_their_gradients_equal_pytorch_in_float64() {
    let [_, ground] = cpu();
    let golden = of_pytorch();
    let cases = golden["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 21);
    for case in cases {
        let list = |name: &str| -> Vec<f64> {
            case[name].as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
        };
        let sides = |name: &str| list(name).into_iter().map(|side| side as usize).collect::<Vec<_>>();
        let (shape, size, mode) = (sides("shape"), sides("size"), case["mode"].as_str().expect("a mode"));
        let how = INTERPOLATIONS.into_iter().find(|how| format!("{how:?}") == mode).expect("a mode that exists");
        let numbers = |count: usize, factor: usize, shift: usize| -> Vec<f32> {
            (0..count).map(|index| ((factor * index + shift) % 64) as f32 / 16.0 - 2.0).collect()
        };
        let (shape, of_output) = ([1, shape[0], shape[1], shape[2]], [1, shape[0], size[0], size[1]]);
        let x = ground.map(&numbers(shape.iter().product(), 37, 11), shape).require_grad();
        let y = resize(x.clone(), [size[0], size[1]], how);
        let grads = ground.weighed(y.clone(), &numbers(of_output.iter().product(), 29, 5)).backward();
        close(&format!("{mode} {shape:?} to {size:?}"), &vec(y), &list("y"));
        let dx = x.grad(&grads).expect("a gradient");
        close(&format!("dx of {mode} {shape:?} to {size:?}"), &vec(dx), &list("dx"));
    }
}

/// PyTorch computes the places of nearest in float32. At some sizes, one of two columns gets fewer pixels there than the other.
#[test]
fn nearest_divides_a_map_evenly_where_pytorch_does_not() {
    let golden = of_pytorch();
    let sizes = golden["uneven"].as_array().expect("sizes");
    assert!(sizes.iter().any(|size| size == 82), "{sizes:?}");
    let two = Tensor::<4>::from_floats([[[[0.0, 1.0]]]], &Device::flex());
    for size in sizes {
        let size = size.as_u64().expect("a size") as usize;
        let ones = resize(two.clone(), [1, size], Interpolation::Nearest).sum();
        assert_eq!(ones.into_scalar::<f32>(), (size / 2) as f32, "of {size}");
    }
}

/// So runs of generators on the CPU keep their bits. In float16, Burn rounds after every addition, and a bit may differ.
#[test]
fn nearest_and_its_gradient_have_the_bits_of_burns() {
    let [ground, _] = cpu();
    for (shape, size) in [([2, 3, 8, 8], [16, 16]), ([1, 2, 9, 7], [18, 14]), ([1, 2, 4, 5], [12, 15])] {
        let dy = random(&mut rng(8700), 6 * size[0] * size[1]);
        for format in [FloatDType::F32, FloatDType::BF16] {
            let run = |burns: bool| {
                let values = random(&mut rng(8701), shape.iter().product());
                let x = ground.map(&values, shape).cast(format).detach().require_grad();
                let options = InterpolateOptions::new(InterpolateMode::Nearest).with_output_size(size);
                let y = if burns {
                    module::interpolate(x.clone(), options)
                } else {
                    resize(x.clone(), size, Interpolation::Nearest)
                };
                let of_output = y.dims();
                let dy = ground.map(&dy[..of_output.iter().product()], of_output).cast(format);
                let mut grads = (y.clone() * dy).sum().backward();
                [y.inner(), x.grad_remove(&mut grads).expect("a gradient")].map(Tensor::into_data)
            };
            assert!(run(false) == run(true), "{format:?} {shape:?}");
        }
    }
}

/// Of a half format, each number is read as float32 and each result is rounded once; nearest moves numbers as they are.
#[test]
fn resized_maps_of_half_formats_are_the_float32_result_rounded_once() {
    let [ground, _] = cpu();
    for format in [FloatDType::BF16, FloatDType::F16] {
        for how in INTERPOLATIONS {
            let halves = [[2, 3, 9, 5], [2, 3, 13, 10]].map(|shape: [usize; 4]| {
                ground.map(&random(&mut rng(8600), shape.iter().product()), shape).cast(format)
            });
            let run = |[x, dy]: [Tensor<4>; 2]| {
                let x = x.detach().require_grad();
                let y = resize(x.clone(), [13, 10], how);
                let mut grads = (y.clone() * dy).sum().backward();
                [y.inner(), x.grad_remove(&mut grads).expect("a gradient")]
            };
            let full = run(halves.clone().map(|map| map.cast(FloatDType::F32)));
            for (half, full) in run(halves).into_iter().zip(full) {
                half.into_data().assert_eq(&full.cast(format).into_data(), true);
            }
        }
    }
}

/// A convolution of each kind that is computed in its own way, of `batch` samples.
fn convolutions_of_every_kind(batch: usize) -> Vec<Case> {
    let dense = |[input, height, width]: [usize; 3], output, kernel, stride| {
        Case::dense([batch, input, height, width], output, kernel, stride, kernel / 2)
    };
    let mut cases = vec![
        // Matrix products that are large enough to be divided among threads: of a map as it is, and of one taken in pieces.
        dense([96, 33, 33], 128, 1, 1),
        dense([300, 33, 33], 8, 1, 1),
        dense([17, 16, 16], 9, 1, 2),
        // Winograd's transforms, in one block and in several.
        dense([32, 9, 12], 40, 3, 1),
        dense([16, 70, 41], 20, 3, 1),
        // Columns.
        dense([5, 41, 33], 24, 3, 2),
        dense([20, 17, 19], 21, 5, 1),
        dense([3, 33, 32], 16, 7, 2),
        dense([17, 12, 9], 18, 3, 1).dilated(),
    ];
    for (kernel, stride) in [(3, 1), (3, 2), (5, 1), (5, 2), (7, 3), (9, 1), (11, 2)] {
        cases.push(Case::depthwise([batch, 5, 20, 19], kernel, stride, [kernel / 2; 2]));
    }
    cases
}

/// Runs checks on a pool of so many threads, and returns the bits of all their results.
fn computed_on(threads: usize, checks: impl FnOnce() + Send) -> Vec<u64> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
    pool.install(|| {
        COMPUTED.set(Some(Vec::new()));
        checks();
        COMPUTED.take().unwrap_or_default()
    })
}

/// Fewer samples than threads are computed by all threads together, more of them side by side: both, for every operation and
/// every gradient that this file compares with naive sums.
#[test]
fn no_operation_and_no_gradient_depends_on_the_number_of_threads() {
    let [ground, _] = cpu();
    let checks = |batch: usize| {
        let map = [batch, 6, 20, 19];
        for (number, case) in convolutions_of_every_kind(batch).iter().enumerate() {
            check_convolution(&ground, case, 9000 + number as u64);
            check_norm_act_conv(&ground, case, number % 2 == 0, Activation::HardSwish, 9100 + number as u64);
        }
        for case in [Case::dense(map, 5, 3, 1, 1), Case::dense(map, 8, 4, 2, 1)] {
            check_transposed(&ground, &Case { height: 20, width: 20, out: [case.out[0]; 2], ..case }, 9200);
        }
        for (number, activation) in ACTIVATIONS.into_iter().enumerate() {
            check_norm_act(&ground, map, 2, activation, 9300 + number as u64);
            // Without an activation, the mean of a sample that is a group by itself is its shift, whatever the sample: no gradient.
            if activation != Activation::Identity {
                check_norm_act_means(&ground, map, activation, 9400 + number as u64);
            }
        }
        for (activation, again) in [(Activation::Identity, false), (Activation::Relu, true)] {
            check_norm_act_add(&ground, 6, activation, again, 9500);
        }
        check_norm_act_max_pool(&ground, [20, 19], Pooling { kernel: 3, stride: 2, padding: 1 }, 9600);
        check_pool_and_multiply(&ground, map, 9700);
        for (number, block) in blocks(batch).iter().enumerate() {
            check_inverted_residual(&ground, block, 9750 + number as u64);
        }
        for how in INTERPOLATIONS {
            check_resize(&ground, map, [40, 38], how, 9800);
            check_resize(&ground, map, [13, 50], how, 9801);
        }
        check_many_tensors(&ground.device);
        check_sums(&ground.device);
        check_sums_over_groups(&ground.device);
        check_updates_of_many_tensors(&ground.device);
    };
    for batch in [1, 4] {
        let one = computed_on(1, || checks(batch));
        assert!(one.len() > 100_000, "{} numbers", one.len());
        for threads in [2, 3] {
            let several = computed_on(threads, || checks(batch));
            let differ = one.iter().zip(&several).filter(|(one, several)| one != several).count();
            assert!(
                one.len() == several.len() && differ == 0,
                "{differ} numbers differ on {threads} threads, batch {batch}"
            );
        }
    }
}

/// Maps of a half format: what is computed from them is the float32 result, rounded once.
#[test]
fn half_formats_are_the_float32_result_rounded_once() {
    let [ground, _] = cpu();
    let mut rng = rng(3000);
    let mut of = |shape: [usize; 4]| {
        let values = random(&mut rng, shape.iter().product());
        ground.map(&values, shape)
    };
    let (x, w, d) = (of([2, 6, 9, 9]), of([4, 6, 3, 3]), of([6, 1, 3, 3]));
    let places = Places { stride: 2, dilation: 1, before: [1; 2], out: [5; 2] };
    type Operation = fn(Tensor<4>, Tensor<4>, Places) -> Tensor<4>;
    let operations: [(&Tensor<4>, Operation); 3] = [
        (&w, dense),
        (&d, depthwise),
        (&d, |x, d, _| {
            channel_multiply(x.clone(), global_average_pool(x) * d.reshape([6, 9]).sum_dim(1).reshape([1, 6]))
        }),
    ];
    for (format, digits) in [(FloatDType::BF16, 1.0 / 128.0), (FloatDType::F16, 1.0 / 1024.0)] {
        for (weight, operation) in &operations {
            let half = x.clone().cast(format);
            // Dense convolutions may round filters to the format of the map, so the format holds these.
            let weight = (*weight).clone().cast(format).cast(FloatDType::F32);
            let run = |x: Tensor<4>| {
                let (x, weight) = (x.detach().require_grad(), weight.clone().detach().require_grad());
                let y = operation(x.clone(), weight.clone(), places);
                let mut grads = y.clone().sum().backward();
                (y, x.grad_remove(&mut grads).expect("a gradient"), weight.grad_remove(&mut grads).expect("a gradient"))
            };
            let (y, dx, dw) = run(half.clone());
            let (full_y, full_dx, full_dw) = run(half.cast(FloatDType::F32));
            assert_eq!([y.dtype(), dx.dtype(), dw.dtype()], [format.into(), format.into(), DType::F32]);
            // Their sums may have another order.
            let near = Tolerance::<f32>::relative(digits).set_absolute(2e-5);
            y.cast(FloatDType::F32).into_data().assert_approx_eq::<f32>(&full_y.into_data(), near);
            dx.cast(FloatDType::F32).into_data().assert_approx_eq::<f32>(&full_dx.into_data(), near);
            dw.into_data().assert_approx_eq::<f32>(&full_dw.into_data(), near);
        }
    }
}

/// Dense convolutions, dilated too, with zeros on any side and on none.
fn any_dense(
    kernels: RangeInclusive<usize>,
    steps: RangeInclusive<usize>,
    channels: RangeInclusive<usize>,
) -> impl Strategy<Value = Case> {
    let shape = [1..=3usize, channels.clone(), 1..=20, 1..=40];
    let places = (kernels, steps.clone(), steps, [0..19usize, 0..19, 0..19, 0..19]);
    (places, shape, channels).prop_map(|((kernel, stride, dilation, zeros), [batch, input, height, width], output)| {
        let reach = (kernel - 1) * dilation + 1;
        let [top, left, bottom, right] = zeros.map(|zeros| zeros % reach);
        // At least one place for the kernel.
        let (height, width) = (height.max(reach), width.max(reach));
        let out = [height + top + bottom, width + left + right].map(|size| (size - reach) / stride + 1);
        let before = [top, left];
        Case { batch, input, output, height, width, kernel, stride, dilation, before, out, depthwise: false }
    })
}

/// Convolutions of all shapes that the operations take, odd and even.
fn any_convolution() -> impl Strategy<Value = Case> {
    let sides = prop::sample::select(vec![3usize, 5, 7, 9, 11]);
    let places = (sides, 1..=3usize, 1..=3usize, [0..31usize, 0..31]);
    let depthwise = (places, [1..=3usize, 1..=5, 1..=40, 1..=70]);
    let depthwise = depthwise.prop_map(|((kernel, stride, dilation, zeros), shape)| {
        let before = zeros.map(|zeros| zeros % ((kernel - 1) * dilation + 1));
        Case { dilation, ..Case::depthwise(shape, kernel, stride, before) }
    });
    prop_oneof![any_dense(1..=7, 1..=3, 1..=24), any_dense(3..=3, 1..=1, 16..=40), depthwise]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn convolutions_of_any_shape_and_their_gradients_equal_the_naive_sums(case in any_convolution(), number in any::<u64>()) {
        on_each_format(|ground| check_convolution(ground, &case, number));
    }

    #[test]
    fn maps_of_any_size_and_their_gradients_equal_the_naive_sums(
        shape in [1..=2usize, 1..=3, 1..=40, 1..=40],
        size in [1..=70usize, 1..=70],
        how in prop::sample::select(INTERPOLATIONS.to_vec()),
        number in 0..1000u64,
    ) {
        on_each_format(|ground| check_resize(ground, shape, size, how, number));
    }

    #[test]
    fn convolutions_of_any_shape_that_normalise_while_they_read_equal_the_naive_sums(
        case in any_convolution(),
        gated in any::<bool>(),
        activation in prop::sample::select(ACTIVATIONS.to_vec()),
        number in any::<u64>(),
    ) {
        on_each_format(|ground| check_norm_act_conv(ground, &case, gated, activation, number));
    }
}
