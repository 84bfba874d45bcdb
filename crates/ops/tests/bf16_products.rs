//! Dense convolutions of maps of bf16 on the CPU against sums in float64. Where the processor multiplies numbers of bf16, these are sums
//! over filters rounded to bf16, elsewhere over filters as they are.

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData, bf16};
use kindling_ops::{Convolution, FilterCache, Places, conv, convolves_enlarged, dense_of_enlarged, multiplies_bf16};
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
    let y = conv(map.clone(), filters.clone(), Convolution::Dense(case.places));
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
fn cases() -> Vec<Case> {
    vec![
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
        // The same of every other pixel, in an even and an odd number of rows and columns.
        Case::new([2, 5, 43, 47], 7, 3, 2),
        Case::new([1, 70, 90, 64], 33, 3, 2),
        Case::new([2, 3, 66, 71], 16, 7, 2),
        Case::new([1, 4, 9, 40], 5, 4, 2),
        Case::new([2, 6, 21, 40], 5, 3, 2).dilated(2),
        Case::new([2, 17, 15, 17], 9, 1, 2),
    ]
}

fn check_all(before_each: impl Fn()) {
    for (number, case) in cases().iter().enumerate() {
        before_each();
        check(case, 10 * number as u64, |w| if multiplies_bf16() { rounded(w) } else { w.to_vec() });
    }
}

#[test]
fn convolutions_of_bf16_maps_and_their_gradients_equal_the_sums_over_rounded_filters() {
    check_all(|| ());
}

/// A thread keeps the memory that it computes in. Here that is full of NaN.
#[test]
fn what_a_thread_has_convolved_before_changes_nothing() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread pool");
    let large = Case::new([1, 70, 90, 65], 33, 3, 1);
    let fill = |shape: [usize; 4]| {
        Tensor::<4>::full(shape, f32::NAN, &Device::flex().autodiff()).cast(FloatDType::BF16).detach()
    };
    let filters = Tensor::<4>::ones(large.filters(), &Device::flex().autodiff()).require_grad();
    pool.install(|| {
        check_all(|| {
            let y = conv(fill(large.map).require_grad(), filters.clone(), Convolution::Dense(large.places));
            let gradient = filters.grad_remove(&mut (y * fill(large.made())).sum().backward()).expect("a gradient");
            assert!(gradient.into_data().iter::<f32>().all(f32::is_nan));
        });
    });
}

/// A convolution of an enlarged map `[batch, channels, height, width]`, with so many channels beside it.
#[derive(Clone, Copy, Debug)]
struct Enlarged {
    map: [usize; 4],
    beside: usize,
    output: usize,
}

/// One channel and many, even and odd numbers of them, in the map, beside it and in the output; nothing beside; rows and columns that are even,
/// odd, and fewer than a strip has; several strips.
const ENLARGED: [Enlarged; 6] = [
    Enlarged { map: [1, 1, 1, 16], beside: 0, output: 1 },
    Enlarged { map: [2, 5, 6, 17], beside: 3, output: 4 },
    Enlarged { map: [3, 32, 9, 20], beside: 0, output: 17 },
    Enlarged { map: [1, 70, 40, 37], beside: 20, output: 33 },
    Enlarged { map: [2, 4, 75, 64], beside: 1, output: 9 },
    Enlarged { map: [2, 130, 16, 16], beside: 24, output: 50 },
];

/// Those cases on a processor that multiplies numbers of bf16; no other convolves maps that are to be enlarged.
fn enlarged() -> Vec<Enlarged> {
    ENLARGED.into_iter().filter(|_| multiplies_bf16()).collect()
}

impl Enlarged {
    fn shape_of_beside(&self) -> [usize; 4] {
        let [batch, _, height, width] = self.map;
        [batch, self.beside, 2 * height, 2 * width]
    }

    /// The convolution of the map that has been enlarged, with what is beside it.
    fn whole(&self) -> Case {
        let [batch, channels, height, width] = self.map;
        Case::new([batch, channels + self.beside, 2 * height, 2 * width], self.output, 3, 1)
    }

    /// Of a place in the map that has been enlarged and what is beside it, the place in the map, or in what is beside it.
    fn place(&self, place: usize) -> Result<usize, usize> {
        let [_, channels, height, width] = self.map;
        let (of_map, of_beside) = (4 * height * width * channels, 4 * height * width * self.beside);
        let (sample, place) = (place / (of_map + of_beside), place % (of_map + of_beside));
        if place >= of_map {
            return Err(sample * of_beside + place - of_map);
        }
        let (channel, place) = (place / (4 * height * width), place % (4 * height * width));
        let (row, column) = (place / (2 * width) / 2, place % (2 * width) / 2);
        Ok(((sample * channels + channel) * height + row) * width + column)
    }
}

/// Filters whose sums over taps have few digits, so that bf16 has them all.
fn short(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = kindling_random::rng(24, Purpose::Display, 0, seed);
    (0..count).map(|_| f32::from(rng.random_range(-16i8..=16)) / 16.0).collect()
}

/// Filters have few digits here, so rounding their sums changes nothing.
#[test]
fn convolutions_of_enlarged_maps_and_their_gradients_equal_the_sums_over_the_enlarged_map() {
    for (number, case) in enlarged().iter().enumerate() {
        let (device, seed) = (Device::flex().autodiff(), 100 * number as u64);
        let (whole, count) = (case.whole(), |shape: [usize; 4]| shape.iter().product::<usize>());
        let tensor = |values: &[f32], shape: [usize; 4]| {
            Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), &device)
        };
        let half = |values: &[f32], shape: [usize; 4]| tensor(values, shape).cast(FloatDType::BF16).detach();
        let [x, others, dy] = [case.map, case.shape_of_beside(), whole.made()]
            .map(|shape| rounded(&random(seed + shape[1] as u64, count(shape))));
        let w = short(seed + 3, count(whole.filters()));
        let (map, filters) = (half(&x, case.map).require_grad(), tensor(&w, whole.filters()).require_grad());
        let beside = (case.beside > 0).then(|| half(&others, case.shape_of_beside()).require_grad());
        assert!(convolves_enlarged(&map, whole.places.out));
        let y = dense_of_enlarged(map.clone(), beside.clone(), filters.clone());
        let mut gradients = (y.clone() * half(&dy, whole.made())).sum().backward();

        let sums = |count: usize| vec![Sum::default(); count];
        let (mut of_y, mut of_w) = (sums(dy.len()), sums(w.len()));
        let (mut of_x, mut of_others) = (sums(x.len()), sums(others.len()));
        whole.products(|o, i, k| {
            let (value, of_value) = match case.place(i) {
                Ok(place) => (x[place], &mut of_x[place]),
                Err(place) => (others[place], &mut of_others[place]),
            };
            of_value.add(w[k], dy[o]);
            of_y[o].add(w[k], value);
            of_w[k].add(dy[o], value);
        });
        near(&format!("{case:?} y"), y.inner(), &of_y);
        near(&format!("{case:?} dx"), map.grad_remove(&mut gradients).expect("a gradient"), &of_x);
        near(&format!("{case:?} dw"), filters.grad_remove(&mut gradients).expect("a gradient"), &of_w);
        if let Some(beside) = beside {
            near(&format!("{case:?} beside"), beside.grad_remove(&mut gradients).expect("a gradient"), &of_others);
        }
    }
}

/// The result for an image, and the gradients of a batch, do not depend on which images are computed together, nor on the threads.
#[test]
fn the_bits_of_an_enlarged_image_do_not_depend_on_its_batch() {
    for case in enlarged() {
        let (case, device) =
            (Enlarged { map: [5, case.map[1], case.map[2], case.map[3]], ..case }, Device::flex().autodiff());
        let tensor = |seed: u64, shape: [usize; 4]| {
            let values = random(seed, shape.iter().product());
            Tensor::<4>::from_data(TensorData::new(values, shape), &device)
        };
        let half = |seed, shape| tensor(seed, shape).cast(FloatDType::BF16).detach();
        let (x, others, w) = (
            half(1, case.map),
            half(2, case.shape_of_beside().map(|size| size.max(1))),
            tensor(3, case.whole().filters()),
        );
        let run = |threads: usize, images: std::ops::Range<usize>| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
            let of = |map: &Tensor<4>| map.clone().narrow(0, images.start, images.len()).detach().require_grad();
            pool.install(|| {
                let (map, filters) = (of(&x), w.clone().detach().require_grad());
                let beside = (case.beside > 0).then(|| of(&others));
                let y = dense_of_enlarged(map.clone(), beside.clone(), filters.clone());
                let mut gradients = (y.clone() * y.clone().detach()).sum().backward();
                let mut bits = |of: &Tensor<4>| {
                    of.grad_remove(&mut gradients).expect("a gradient").into_data().as_bytes().to_vec()
                };
                let of_filters = bits(&filters);
                let of_maps = [Some(map), beside].into_iter().flatten().map(|map| bits(&map)).collect::<Vec<_>>();
                (y.inner().into_data().as_bytes().to_vec(), of_maps, of_filters)
            })
        };
        let whole = run(2, 0..5);
        for threads in [1, 3] {
            assert!(run(threads, 0..5) == whole, "{case:?}, {threads} threads");
            let alone: Vec<_> = (0..5).map(|image| run(threads, image..image + 1)).collect();
            assert!(alone.iter().flat_map(|image| image.0.clone()).collect::<Vec<u8>>() == whole.0, "{case:?}: output");
            for (map, expected) in whole.1.iter().enumerate() {
                let joined: Vec<u8> = alone.iter().flat_map(|image| image.1[map].clone()).collect();
                assert!(joined == *expected, "{case:?}: gradient of map {map}");
            }
        }
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
        Case::new([5, 20, 33, 39], 21, 3, 2),
    ] {
        let device = Device::flex();
        let count = |shape: [usize; 4]| shape.iter().product::<usize>();
        let tensor =
            |seed: u64, shape| Tensor::<4>::from_data(TensorData::new(random(seed, count(shape)), shape), &device);
        let (x, w) = (tensor(1, case.map).cast(FloatDType::BF16), tensor(2, case.filters()));
        let convolution = Convolution::Dense(case.places);
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

/// Filters are packed for columns and for strips, and folded for enlarged maps; in the end they are changed, which Burn does in place.
#[test]
fn filters_that_are_kept_from_call_to_call_give_the_bits_of_those_that_are_packed_again() {
    let device = Device::flex();
    let tensor = |seed: u64, shape: [usize; 4]| {
        let values = random(seed, shape.iter().product());
        Tensor::<4>::from_data(TensorData::new(values, shape), &device)
    };
    let convolve =
        |case: &Case, x: &Tensor<4>, w: Tensor<4>| conv(x.clone(), w, Convolution::Dense(case.places)).into_data();
    let check = |what: String, mut w: Tensor<4>, call: &dyn Fn(Tensor<4>) -> TensorData| {
        let changed = |w: Tensor<4>| w * 0.5 + 0.25;
        let expected = [call(w.clone()), call(changed(w.clone()))];
        let _filters = FilterCache::open();
        for expected in expected {
            for number in 0..3 {
                assert!(call(w.clone()) == expected, "{what}, call {number}");
            }
            w = changed(w);
        }
    };
    for case in [
        Case::new([2, 40, 19, 23], 24, 1, 1),
        Case::new([2, 20, 17, 15], 21, 3, 1),
        Case::new([2, 20, 17, 19], 21, 3, 1),
        Case::new([2, 20, 33, 39], 21, 3, 2),
    ] {
        let x = tensor(1, case.map).cast(FloatDType::BF16);
        check(format!("{case:?}"), tensor(2, case.filters()), &|w| convolve(&case, &x, w));
    }
    for case in enlarged().into_iter().filter(|case| case.beside > 0) {
        let [x, beside] = [case.map, case.shape_of_beside()].map(|shape| tensor(3, shape).cast(FloatDType::BF16));
        check(format!("{case:?}"), tensor(4, case.whole().filters()), &|w| {
            dense_of_enlarged(x.clone(), Some(beside.clone()), w).into_data()
        });
    }
}
