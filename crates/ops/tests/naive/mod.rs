//! Compares every operation and its gradients with naive float64 sums, for random shapes: on any device, for maps stored plane by
//! plane or with channels last, whole or sliced.

pub(crate) mod convolutions;
pub(crate) mod deferred;
pub(crate) mod gates;
pub(crate) mod norm;
pub(crate) mod resize;
pub(crate) mod state;

use std::cell::{Cell, RefCell};

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use kindling_random::{Purpose, Rng};
use rand::RngExt;

/// The device, layout and format of the maps of a case.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// With gradients.
    pub(crate) device: Device,
    /// Channels last in memory, as the convolutions of GPUs leave them.
    pub(crate) channels_last: bool,
    /// Maps and gradients are the middle of larger ones along this axis.
    pub(crate) sliced: Option<usize>,
    /// The format of maps.
    pub(crate) format: FloatDType,
}

/// Elements before and after a slice. CubeCL copies a slice unless its offset is a multiple of the device's alignment, which is 512
/// bytes on CUDA. This number of elements is, in every format.
const BESIDE: usize = 256;

impl Ground {
    /// Maps that lie plane by plane.
    pub(crate) fn planes(device: &Device) -> Self {
        Self { device: device.clone(), channels_last: false, sliced: None, format: FloatDType::F32 }
    }

    /// Maps with channels last.
    pub(crate) fn channels_last(device: &Device) -> Self {
        Self { channels_last: true, ..Self::planes(device) }
    }

    /// The same with maps that are slices of larger ones along an axis of `[batch, channels, height, width]`.
    pub(crate) fn sliced(self, axis: usize) -> Self {
        Self { sliced: Some(axis), ..self }
    }

    /// A map of these values, given plane by plane. The memory around a slice holds NaN, so that reading it would be noticed.
    pub(crate) fn map(&self, values: &[f32], shape: [usize; 4]) -> Tensor<4> {
        let Some(axis) = self.sliced else { return self.whole(values, shape) };
        let mut larger = shape;
        larger[axis] += 2 * BESIDE;
        self.whole(&embedded(values, shape, axis, f32::NAN), larger).narrow(axis, BESIDE, shape[axis])
    }

    /// The sum of a map times these values, whose gradient is these values; a slice if maps are slices.
    pub(crate) fn weighed(&self, y: Tensor<4>, values: &[f32]) -> Tensor<1> {
        let shape = y.dims();
        let Some(axis) = self.sliced else { return (y * self.map(values, shape)).sum() };
        let mut larger = shape;
        larger[axis] = BESIDE;
        let beside = Tensor::<4>::zeros(larger, &self.device).cast(self.format);
        let y = Tensor::cat(vec![beside.clone(), y, beside], axis);
        larger[axis] = shape[axis] + 2 * BESIDE;
        (y * self.whole(&embedded(values, shape, axis, 1e6), larger)).sum()
    }

    fn whole(&self, values: &[f32], shape @ [batch, channels, height, width]: [usize; 4]) -> Tensor<4> {
        if !self.channels_last {
            return self.tensor(values, shape).cast(self.format);
        }
        let plane = height * width;
        let at = |place: usize| {
            let (channel, pixel, sample) = (place % channels, place / channels % plane, place / channels / plane);
            values[(sample * channels + channel) * plane + pixel]
        };
        let turned: Vec<f32> = (0..values.len()).map(at).collect();
        self.tensor(&turned, [batch, height, width, channels]).cast(self.format).permute([0, 3, 1, 2])
    }

    /// A tensor of these values: float64 if the maps are, otherwise float32, like weights.
    pub(crate) fn tensor<const D: usize>(&self, values: &[f32], shape: [usize; D]) -> Tensor<D> {
        let tensor = Tensor::<D>::from_data(TensorData::new(values.to_vec(), shape), &self.device);
        if self.format == FloatDType::F64 { tensor.cast(FloatDType::F64) } else { tensor }
    }

    /// The largest difference from the naive results, as a share of the largest of them.
    pub(crate) fn rounding(&self) -> f64 {
        rounding(self.format.into())
    }
}

/// The values as the middle of a map that is larger along an axis and holds `beside` elsewhere.
fn embedded(values: &[f32], shape: [usize; 4], axis: usize, beside: f32) -> Vec<f32> {
    let stretch: usize = shape[axis..].iter().product();
    let gap = vec![beside; BESIDE * shape[axis + 1..].iter().product::<usize>()];
    values.chunks(stretch).flat_map(|middle| [&gap[..], middle, &gap[..]].concat()).collect()
}

/// The random number generator of a case.
pub(crate) fn rng(case: u64) -> Rng {
    kindling_random::rng(11, Purpose::Display, 0, case)
}

/// Numbers between -2 and 2.
pub(crate) fn random(rng: &mut Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.random::<f32>() * 4.0 - 2.0).collect()
}

/// A computed result: the numbers of a tensor in row-major order, and the tolerance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) numbers: Vec<f64>,
    rounding: f64,
}

thread_local! {
    /// The bits of all results of checks on this thread, while a test collects them.
    pub(crate) static COMPUTED: RefCell<Option<Vec<u64>>> = const { RefCell::new(None) };
}

/// The numbers of a tensor of float32 or float64.
pub(crate) fn vec<const D: usize>(tensor: Tensor<D>) -> Found {
    let dtype = tensor.dtype();
    assert!(matches!(dtype, DType::F32 | DType::F64), "{dtype:?} is rounded before it is compared");
    let numbers = tensor.into_data().convert::<f64>().try_to_vec::<f64>().expect("float64");
    COMPUTED.with_borrow_mut(|computed| {
        computed.iter_mut().for_each(|bits| bits.extend(numbers.iter().map(|number| number.to_bits())));
    });
    Found { numbers, rounding: rounding(dtype) }
}

/// The tolerance where tensor cores round factors to ten bits, as a share of the largest number.
pub(crate) const TF32: f64 = 5e-3;

thread_local! {
    /// Whether the test of this thread has products whose factors are rounded ([`TF32`]).
    pub(crate) static FACTORS_ARE_ROUNDED: Cell<bool> = const { Cell::new(false) };
}

/// The tolerance of a format, as a share of the largest naive number.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        _ if FACTORS_ARE_ROUNDED.get() => TF32,
        _ => 2e-5,
    }
}

/// Compares with the naive numbers, to the rounding of their format.
pub(crate) fn close(what: &str, found: &Found, expected: &[f64]) {
    close_within(found.rounding, what, found, expected);
}

/// Compares with the naive numbers, to a share of the largest of them.
pub(crate) fn close_within(limit: f64, what: &str, found: &Found, expected: &[f64]) {
    close_to_scale(limit, largest(expected.iter().copied()), what, found, expected);
}

/// Compares sums with the naive numbers, to a share of the largest of them, or of what sums of such terms come to if not by chance almost all of
/// them cancels, because their rounding does not: the root of the largest of the sums of their `squares`.
pub(crate) fn close_sums(limit: f64, what: &str, found: &Found, expected: &[f64], squares: &[f64]) {
    let sizes = squares.iter().map(|squares| squares.sqrt());
    close_to_scale(limit, largest(expected.iter().copied().chain(sizes)), what, found, expected);
}

fn largest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(1e-6, |largest, value| largest.max(value.abs()))
}

fn close_to_scale(limit: f64, scale: f64, what: &str, found: &Found, expected: &[f64]) {
    assert_eq!(found.numbers.len(), expected.len(), "{what}");
    for (index, (found, expected)) in found.numbers.iter().zip(expected).enumerate() {
        let error = (found - expected).abs() / scale;
        assert!(error < limit, "{what}[{index}]: {found} for {expected}");
    }
}
