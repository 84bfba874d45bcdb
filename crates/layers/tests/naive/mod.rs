//! Every operation against a naive float64 computation over random shapes, and its gradients against that
//! computation's own terms: on any device, and for maps that lie plane by plane or with channels last.

pub(crate) mod convolutions;
pub(crate) mod gates;
pub(crate) mod norm;
pub(crate) mod unread;

use burn::tensor::{Device, Tensor, TensorData};
use kindling_random::{Purpose, Rng};
use rand::RngExt;

/// Where maps lie, and how.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// With gradients.
    pub(crate) device: Device,
    /// Channels last in memory, as the convolutions of GPUs leave them.
    pub(crate) channels_last: bool,
}

impl Ground {
    /// Maps that lie plane by plane.
    pub(crate) fn planes(device: &Device) -> Self {
        Self { device: device.clone(), channels_last: false }
    }

    /// Maps with channels last.
    pub(crate) fn channels_last(device: &Device) -> Self {
        Self { device: device.clone(), channels_last: true }
    }

    /// A map of these values, given plane by plane.
    pub(crate) fn map(&self, values: &[f32], shape @ [batch, channels, height, width]: [usize; 4]) -> Tensor<4> {
        if !self.channels_last {
            return self.tensor(values, shape);
        }
        let plane = height * width;
        let at = |place: usize| {
            let (channel, pixel, sample) = (place % channels, place / channels % plane, place / channels / plane);
            values[(sample * channels + channel) * plane + pixel]
        };
        let turned: Vec<f32> = (0..values.len()).map(at).collect();
        self.tensor(&turned, [batch, height, width, channels]).permute([0, 3, 1, 2])
    }

    /// A tensor of these values.
    pub(crate) fn tensor<const D: usize>(&self, values: &[f32], shape: [usize; D]) -> Tensor<D> {
        Tensor::from_data(TensorData::new(values.to_vec(), shape), &self.device)
    }
}

/// The random numbers of a case.
pub(crate) fn rng(case: u64) -> Rng {
    kindling_random::rng(11, Purpose::Display, 0, case)
}

/// Numbers between -2 and 2.
pub(crate) fn random(rng: &mut Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.random::<f32>() * 4.0 - 2.0).collect()
}

/// The values of a tensor, row-major.
pub(crate) fn vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec::<f32>().expect("float32")
}

/// Compares with the naive numbers, to 2e-5 of the largest of them.
pub(crate) fn close(what: &str, found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1e-6f64, |largest, value| largest.max(value.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs() / scale;
        assert!(error < 2e-5, "{what}[{index}]: {found} for {expected}");
    }
}
