//! Dense convolutions of maps of bf16 on the CPU against sums in float64. Where the processor multiplies numbers of bf16, these are sums
//! over filters rounded to bf16, elsewhere over filters as they are.

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData, bf16};
use kindling_ops::{Places, conv, multiplies_bf16};
use kindling_random::Purpose;
use rand::RngExt;

/// A convolution with its shapes.
#[derive(Clone, Copy, Debug)]
struct Case {
    map: [usize; 4],
    output: usize,
    kernel: usize,
    places: Places,
}

impl Case {
    fn new(map: [usize; 4], output: usize, kernel: usize, stride: usize) -> Self {
        let before = [kernel / 2; 2];
        let out = [map[2], map[3]].map(|size| (size + 2 * before[0] - kernel) / stride + 1);
        Self { map, output, kernel, places: Places { stride, dilation: 1, before, out } }
    }

    /// The same with taps so many pixels from each other, and the same size of its output.
    fn dilated(mut self, dilation: usize) -> Self {
        self.places = Places { dilation, before: [(self.kernel - 1) * dilation / 2; 2], ..self.places };
        self
    }

    fn made(&self) -> [usize; 4] {
        [self.map[0], self.output, self.places.out[0], self.places.out[1]]
    }

    fn filters(&self) -> [usize; 4] {
        [self.output, self.map[1], self.kernel, self.kernel]
    }

    /// Calls `visit` with the places of output, input and filter of every product.
    fn products(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let ([batch, input, height, width], [_, output, rows, columns]) = (self.map, self.made());
        let Places { stride, dilation, before: [top, left], .. } = self.places;
        for (sample, o, i) in (0..batch).flat_map(|n| (0..output).flat_map(move |o| (0..input).map(move |i| (n, o, i))))
        {
            for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
                for tap in 0..self.kernel * self.kernel {
                    let (line, column) =
                        (y * stride + tap / self.kernel * dilation, x * stride + tap % self.kernel * dilation);
                    let inside = line >= top && line < height + top && column >= left && column < width + left;
                    if inside {
                        visit(
                            ((sample * output + o) * rows + y) * columns + x,
                            ((sample * input + i) * height + line - top) * width + column - left,
                            (o * input + i) * self.kernel * self.kernel + tap,
                        );
                    }
                }
            }
        }
    }
}

/// A sum in float64, the sum of the magnitudes of its products, and their number.
#[derive(Clone, Copy, Default)]
struct Sum {
    exact: f64,
    magnitude: f64,
    products: usize,
}

impl Sum {
    fn add(&mut self, left: f32, right: f32) {
        let product = f64::from(left) * f64::from(right);
        self.exact += product;
        self.magnitude += product.abs();
        self.products += 1;
    }

    /// How far a sum in float32 may be off: half a unit in the last place of the magnitude for each product and each partial sum, and
    /// half a unit of bf16 if it is rounded to that.
    fn bound(&self, rounded: bool) -> f64 {
        let added = 2 * self.products + 16;
        let of_sum = added as f64 * f64::from(f32::EPSILON) / 2.0 * self.magnitude;
        of_sum + if rounded { (self.exact.abs() + of_sum) / 256.0 } else { 0.0 }
    }
}

fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = kindling_random::rng(23, Purpose::Display, 0, seed);
    (0..count).map(|_| rng.random::<f32>() * 4.0 - 2.0).collect()
}

fn rounded(values: &[f32]) -> Vec<f32> {
    values.iter().map(|value| bf16::from_f32(*value).to_f32()).collect()
}

#[track_caller]
fn near(what: &str, found: Tensor<4>, expected: &[Sum]) {
    let is_half = found.dtype() == DType::BF16;
    let found = found.cast(FloatDType::F32).into_data().try_to_vec::<f32>().expect("float32");
    assert_eq!(found.len(), expected.len(), "{what}");
    for (place, (found, sum)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - sum.exact).abs();
        assert!(error <= sum.bound(is_half), "{what}[{place}]: {found} for {}, off by {error:e}", sum.exact);
    }
}

/// Output and gradients of a convolution, with filters that `seen` says.
fn check(case: &Case, seed: u64, seen: impl Fn(&[f32]) -> Vec<f32>) {
    let device = Device::flex().autodiff();
    let count = |shape: [usize; 4]| shape.iter().product::<usize>();
    let (x, dy) = (rounded(&random(seed, count(case.map))), rounded(&random(seed + 1, count(case.made()))));
    let w = random(seed + 2, count(case.filters()));
    let tensor =
        |values: &[f32], shape: [usize; 4]| Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), &device);
    let half = |values: &[f32], shape: [usize; 4]| tensor(values, shape).cast(FloatDType::BF16).detach();
    let (map, filters) = (half(&x, case.map).require_grad(), tensor(&w, case.filters()).require_grad());
    let y = conv(map.clone(), filters.clone(), kindling_ops::Convolution::Dense(case.places));
    let mut gradients = (y.clone() * half(&dy, case.made())).sum().backward();

    let w = seen(&w);
    let sums = |count: usize| vec![Sum::default(); count];
    let (mut of_y, mut of_x, mut of_w) = (sums(dy.len()), sums(x.len()), sums(w.len()));
    case.products(|o, i, k| {
        of_y[o].add(w[k], x[i]);
        of_x[i].add(w[k], dy[o]);
        of_w[k].add(dy[o], x[i]);
    });
    near(&format!("{case:?} y"), y.inner(), &of_y);
    near(&format!("{case:?} dx"), map.grad_remove(&mut gradients).expect("a gradient"), &of_x);
    near(&format!("{case:?} dw"), filters.grad_remove(&mut gradients).expect("a gradient"), &of_w);
}

/// 1x1 filters with few and many pixels, one pixel that is left over, few and many channels; columns, with stride and without; strips.
#[test]
fn convolutions_of_bf16_maps_and_their_gradients_equal_the_sums_over_rounded_filters() {
    let cases = [
        Case::new([2, 5, 7, 9], 6, 1, 1),
        Case::new([1, 70, 1, 1], 9, 1, 1),
        Case::new([3, 33, 14, 14], 20, 1, 1),
        Case::new([1, 600, 1, 257], 30, 1, 1),
        Case::new([1, 8, 91, 91], 3, 1, 1),
        Case::new([2, 17, 16, 16], 9, 1, 2),
        Case::new([2, 3, 41, 33], 24, 3, 2),
        Case::new([1, 20, 17, 19], 21, 5, 1),
        Case::new([2, 3, 30, 29], 16, 7, 2),
        Case::new([1, 32, 9, 12], 40, 3, 1),
        // In strips: all rows in one, several of them, a kernel that reaches further, taps apart from each other.
        Case::new([2, 5, 19, 18], 4, 3, 1),
        Case::new([1, 40, 45, 64], 33, 3, 1),
        Case::new([3, 7, 6, 37], 9, 5, 1),
        Case::new([2, 6, 21, 40], 5, 3, 1).dilated(2),
    ];
    for (number, case) in cases.iter().enumerate() {
        check(case, 10 * number as u64, |w| if multiplies_bf16() { rounded(w) } else { w.to_vec() });
    }
}

/// The result for an image does not depend on which images are computed with it, nor on the threads.
#[test]
fn the_bits_of_an_image_do_not_depend_on_its_batch() {
    for case in [
        Case::new([5, 40, 19, 23], 24, 1, 1),
        Case::new([5, 3, 41, 33], 24, 3, 2),
        Case::new([5, 20, 17, 19], 21, 5, 1),
        Case::new([5, 20, 17, 15], 21, 3, 1),
        Case::new([5, 20, 17, 19], 21, 3, 1),
    ] {
        let device = Device::flex();
        let count = |shape: [usize; 4]| shape.iter().product::<usize>();
        let tensor =
            |seed: u64, shape| Tensor::<4>::from_data(TensorData::new(random(seed, count(shape)), shape), &device);
        let (x, w) = (tensor(1, case.map).cast(FloatDType::BF16), tensor(2, case.filters()));
        let convolution = kindling_ops::Convolution::Dense(case.places);
        let run = |threads: usize, x: Tensor<4>| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
            pool.install(|| conv(x, w.clone(), convolution)).into_data()
        };
        let whole = run(2, x.clone());
        for threads in [1, 3] {
            let alone: Vec<_> = (0..5).map(|image| run(threads, x.clone().narrow(0, image, 1))).collect();
            let bytes: Vec<u8> = alone.iter().flat_map(|data| data.as_bytes().to_vec()).collect();
            assert!(whole.as_bytes() == bytes, "{case:?}, {threads} threads");
        }
    }
}
