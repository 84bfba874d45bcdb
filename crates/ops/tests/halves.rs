//! What is computed on the CPU from maps of a half format has the bits of the float32 result, rounded once, in every operation and every
//! gradient, however many threads compute it: a map may be widened and rounded in any pieces. Products of bf16 maps have factors rounded
//! to bf16 where the processor has instructions for that: they are near the float32 result, and `bf16_products.rs` compares them with
//! their sums. So are results of SiLU, which is computed for bf16 to a 13,000th part.

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use kindling_ops::{
    Activation, Convolution, Deferred, Interpolation, Normalisation, Places, Pooling, channel_multiply, conv,
    global_average_pool, multiplies_bf16, resize, statistics, transposed,
};
use kindling_random::{Purpose, Rng};
use rand::RngExt;

type Operation = Box<dyn Fn(&[Tensor<4>], &[Tensor<4>]) -> Tensor<4> + Send + Sync>;

/// An operation, with the shapes of its maps, which share a format, and of its weights, which are float32.
struct Case {
    name: String,
    maps: Vec<[usize; 4]>,
    weights: Vec<[usize; 4]>,
    operation: Operation,
    /// Whether it is made of products of maps and filters.
    product: bool,
    /// Whether SiLU is a part of it.
    silu: bool,
}

impl Case {
    fn new(
        name: impl Into<String>,
        maps: &[[usize; 4]],
        weights: &[[usize; 4]],
        operation: impl Fn(&[Tensor<4>], &[Tensor<4>]) -> Tensor<4> + Send + Sync + 'static,
    ) -> Self {
        let operation = Box::new(operation);
        Self {
            name: name.into(),
            maps: maps.to_vec(),
            weights: weights.to_vec(),
            operation,
            product: false,
            silu: false,
        }
    }

    fn of_products(self, product: bool) -> Self {
        Self { product, ..self }
    }

    fn with(self, activation: Activation) -> Self {
        Self { silu: activation == Activation::Silu, ..self }
    }

    /// How far results of a format may be off, as a share of the largest, if they have not the bits of float32's.
    fn limit(&self, format: FloatDType) -> Option<f32> {
        let rounded = self.product && multiplies_bf16();
        match format {
            FloatDType::BF16 if rounded => Some(0.02),
            // A unit in the last place, which is more than half as much of the largest.
            FloatDType::BF16 if self.silu => Some(1.0 / 128.0),
            _ => None,
        }
    }

    /// The output, the gradients of the maps and those of the weights, for maps and a gradient of the output that `format` can hold.
    /// They are given in `given`.
    fn run(&self, format: FloatDType, given: FloatDType) -> [Vec<Tensor<4>>; 2] {
        let device = Device::flex().autodiff();
        let mut rng = kindling_random::rng(17, Purpose::Display, 0, 0);
        let mut held = |shape: [usize; 4]| tensor(&mut rng, shape, &device).cast(format).cast(given).detach();
        let maps: Vec<_> = self.maps.iter().map(|shape| held(*shape).require_grad()).collect();
        let mut rng = kindling_random::rng(18, Purpose::Display, 0, 0);
        let weights: Vec<_> =
            self.weights.iter().map(|shape| tensor(&mut rng, *shape, &device).require_grad()).collect();
        let y = (self.operation)(&maps, &weights);
        let dy = tensor(&mut rng, y.dims(), &device).cast(format).cast(y.dtype());
        let mut grads = (y.clone() * dy).sum().backward();
        let mut gradient = |x: &Tensor<4>| x.grad_remove(&mut grads).expect("a gradient");
        let of_maps: Vec<_> = maps.iter().map(&mut gradient).collect();
        let of_weights = weights.iter().map(gradient).collect();
        [[vec![y.inner()], of_maps].concat(), of_weights]
    }

    fn check(&self, format: FloatDType) {
        let [maps, weights] = self.run(format, format);
        let [wide_maps, wide_weights] = self.run(format, FloatDType::F32);
        let assert_same = |what: &str, found, expected| match self.limit(format) {
            Some(limit) => assert_near(what, found, expected, limit),
            None => assert_same(what, found, expected),
        };
        for (number, (found, wide)) in maps.into_iter().zip(wide_maps).enumerate() {
            // The mean of a plane is float32 whatever the map.
            let of_mean = number == 0 && found.dtype() == DType::F32;
            assert!(of_mean || found.dtype() == format.into(), "{}: {:?}", self.name, found.dtype());
            let expected = if of_mean { wide } else { wide.cast(format) };
            assert_same(&format!("{} {format:?}, map {number}", self.name), found, expected);
        }
        for (number, (found, wide)) in weights.into_iter().zip(wide_weights).enumerate() {
            assert_eq!(found.dtype(), DType::F32);
            assert_same(&format!("{} {format:?}, weight {number}", self.name), found, wide);
        }
    }
}

fn assert_same(what: &str, found: Tensor<4>, expected: Tensor<4>) {
    let [found, expected] = [found, expected].map(|tensor| tensor.cast(FloatDType::F32).into_data());
    let bits = |data: &TensorData| -> Vec<u32> {
        data.as_slice::<f32>().expect("float32").iter().map(|number| number.to_bits()).collect()
    };
    let (found, expected) = (bits(&found), bits(&expected));
    assert_eq!(found.len(), expected.len(), "{what}");
    assert!(expected.iter().any(|number| *number << 1 != 0), "{what}: all are zero");
    let differ = found.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
    assert_eq!(differ, 0, "{what}: {differ} of {} numbers differ", found.len());
}

/// The largest difference is a share of the largest number.
fn assert_near(what: &str, found: Tensor<4>, expected: Tensor<4>, limit: f32) {
    let [found, expected] = [found, expected].map(|tensor| tensor.cast(FloatDType::F32));
    let largest = |tensor: Tensor<4>| tensor.abs().max().into_scalar::<f32>();
    let (off, scale) = (largest(found - expected.clone()), largest(expected));
    assert!(off <= limit * scale && scale > 0.0, "{what}: off by {off}, the largest is {scale}");
}

fn tensor(rng: &mut Rng, shape: [usize; 4], device: &Device) -> Tensor<4> {
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| rng.random::<f32>() * 4.0 - 2.0).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// A convolution of a map, and the shape of its filters.
fn convolutions(batch: usize) -> Vec<([usize; 4], [usize; 4], Convolution)> {
    let places = |[height, width]: [usize; 2], kernel: usize, stride: usize| Places {
        stride,
        dilation: 1,
        before: [kernel / 2; 2],
        out: [height, width].map(|size| (size + 2 * (kernel / 2) - kernel) / stride + 1),
    };
    let dense = |[input, height, width]: [usize; 3], output, kernel, stride| {
        let places = places([height, width], kernel, stride);
        ([batch, input, height, width], [output, input, kernel, kernel], Convolution::Dense(places))
    };
    let mut all = vec![
        // In one piece, and in several, because of the input, of the output and of a single pixel that is left over.
        dense([5, 7, 9], 6, 1, 1),
        dense([300, 33, 33], 8, 1, 1),
        dense([16, 33, 33], 700, 1, 1),
        dense([600, 1, 257], 500, 1, 1),
        dense([17, 16, 16], 9, 1, 2),
        // Winograd's transforms, in one block and in several.
        dense([32, 9, 12], 40, 3, 1),
        dense([16, 70, 41], 20, 3, 1),
        // Columns.
        dense([5, 41, 33], 24, 3, 2),
        dense([20, 17, 19], 21, 5, 1),
        dense([3, 64, 65], 16, 7, 2),
    ];
    for (channels, kernel, stride) in [(3, 3, 1), (40, 3, 2), (3, 5, 1), (16, 5, 2), (2, 7, 3)] {
        let map = [batch, channels, 53, 49];
        let places = places([53, 49], kernel, stride);
        all.push((map, [channels, 1, kernel, kernel], Convolution::Depthwise(places)));
    }
    all
}

/// The map that is normalised, with the weights from `first` on: scale, shift, and the factors of planes.
fn normalised(x: &Tensor<4>, weights: &[Tensor<4>], groups: &[usize], activation: Activation, gated: bool) -> Deferred {
    let [batch, channels, ..] = x.dims();
    let how = Normalisation { groups: groups.to_vec(), epsilon: 1e-5, activation, rebuild: None };
    Deferred {
        x: x.clone(),
        weight: weights[0].clone().reshape([channels]),
        bias: weights[1].clone().reshape([channels]),
        statistics: Tensor::from_inner(statistics(x.clone().inner(), groups.to_vec())),
        how,
        gate: gated.then(|| weights[2].clone().reshape([batch, channels])),
    }
}

fn cases(batch: usize) -> Vec<Case> {
    let groups = move || if batch > 2 { vec![batch - 1, 1] } else { vec![batch] };
    let mut cases = Vec::new();
    for (number, (map, filters, convolution)) in convolutions(batch).into_iter().enumerate() {
        let name = format!("{convolution:?} of {map:?}");
        let product = matches!(convolution, Convolution::Dense(_));
        let whole = Case::new(&name, &[map], &[filters], move |maps, weights| {
            conv(maps[0].clone(), weights[0].clone(), convolution)
        });
        cases.push(whole.of_products(product));
        let of_channels = [1, map[1], 1, 1];
        let gated = number % 2 == 0;
        let mut weights = vec![of_channels, of_channels];
        weights.extend(gated.then_some([batch, map[1], 1, 1]));
        weights.push(filters);
        let activation = [Activation::HardSwish, Activation::Relu6, Activation::Silu][number % 3];
        let read = Case::new(format!("{name}, normalised"), &[map], &weights, move |maps, weights| {
            let read = normalised(&maps[0], weights, &groups(), activation, gated);
            read.convolved(weights[weights.len() - 1].clone(), convolution)
        });
        cases.push(read.of_products(product).with(activation));
    }
    for map in [[batch, 3, 60, 50], [batch, 40, 7, 9]] {
        let of_channels = [1, map[1], 1, 1];
        let of_planes = [batch, map[1], 1, 1];
        let both = [of_channels; 2];
        cases.push(Case::new(format!("whole of {map:?}"), &[map], &both, move |maps, weights| {
            normalised(&maps[0], weights, &groups(), Activation::HardSwish, false).whole()
        }));
        let all = [of_channels, of_channels, of_planes];
        for activation in [Activation::Silu, Activation::HardSigmoid] {
            let name = format!("mean of {map:?}, after {activation}");
            let mean = Case::new(name, &[map], &all, move |maps, weights| {
                let means = normalised(&maps[0], weights, &groups(), activation, true).global_average_pool();
                means.reshape([batch, map[1], 1, 1])
            });
            cases.push(mean.with(activation));
        }
        cases.push(Case::new(format!("maxima of {map:?}"), &[map], &both, move |maps, weights| {
            let pooling = Pooling { kernel: 3, stride: 2, padding: 1 };
            normalised(&maps[0], weights, &groups(), Activation::Relu, false).max_pooled(pooling)
        }));
        for activation in [Activation::Identity, Activation::Relu] {
            cases.push(Case::new(
                format!("{activation} of a sum of {map:?}"),
                &[map; 2],
                &both,
                move |maps, weights| {
                    let branch = normalised(&maps[0], weights, &groups(), Activation::Identity, false);
                    branch.residual_add(maps[1].clone(), activation)
                },
            ));
        }
        cases.push(Case::new(format!("factors of {map:?}"), &[map], &[of_planes], move |maps, weights| {
            channel_multiply(maps[0].clone(), weights[0].clone().reshape([batch, map[1]]))
        }));
        cases.push(Case::new(format!("mean of {map:?}"), &[map], &[], move |maps, _| {
            global_average_pool(maps[0].clone()).reshape([batch, map[1], 1, 1])
        }));
        for how in [Interpolation::Nearest, Interpolation::Bilinear, Interpolation::BilinearCorners] {
            let size = [2 * map[2], 2 * map[3]];
            cases.push(Case::new(format!("{how:?} of {map:?}"), &[map], &[], move |maps, _| {
                resize(maps[0].clone(), size, how)
            }));
        }
    }
    let places = Places { stride: 2, dilation: 1, before: [1; 2], out: [9, 11] };
    let back = Case::new("transposed", &[[batch, 18, 9, 11]], &[[18, 5, 4, 4]], move |maps, weights| {
        transposed(maps[0].clone(), weights[0].clone(), places, [18, 22])
    });
    cases.push(back.of_products(true));
    cases
}

/// With few samples, all threads share each of them; with few channels, they share each of these.
#[test]
fn every_operation_and_gradient_of_a_half_format_has_the_bits_of_the_float32_result_rounded_once() {
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        for batch in [1, 4] {
            let cases = cases(batch);
            assert_eq!(cases.len(), 2 * 15 + 2 * 11 + 1);
            for format in [FloatDType::BF16, FloatDType::F16] {
                pool.install(|| cases.iter().for_each(|case| case.check(format)));
            }
        }
    }
}

/// The results of a half format themselves, not only that they are those of float32.
#[test]
fn no_operation_of_a_half_format_depends_on_the_number_of_threads() {
    let run = |threads: usize| -> Vec<Tensor<4>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        pool.install(|| {
            cases(3).iter().flat_map(|case| case.run(FloatDType::BF16, FloatDType::BF16).concat()).collect()
        })
    };
    let (one, several) = (run(1), run(4));
    assert_eq!(one.len(), several.len());
    for (number, (one, several)) in one.into_iter().zip(several).enumerate() {
        assert_same(&format!("tensor {number}"), several, one);
    }
}

/// Statistics are computed in float32 of numbers that a half format holds.
#[test]
fn statistics_of_a_half_format_have_the_bits_of_float32s() {
    let mut rng = kindling_random::rng(19, Purpose::Display, 0, 0);
    for shape in [[3, 2, 60, 50], [3, 5, 3, 7]] {
        let x = tensor(&mut rng, shape, &Device::flex());
        for format in [FloatDType::BF16, FloatDType::F16] {
            let x = x.clone().cast(format);
            let of = |x: Tensor<4>| statistics(x, vec![2, 1]).unsqueeze::<4>();
            assert_same("statistics", of(x.clone()), of(x.cast(FloatDType::F32)));
        }
    }
}
