//! The mean and the standard deviation that pixels are normalised with.

use serde::{Deserialize, Serialize};

/// Mean and standard deviation of each channel, of values in `[0, 1]`.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Normalisation {
    /// One mean a channel, -1000 to 1000. A single entry serves all channels.
    pub mean: Vec<f32>,
    /// One standard deviation a channel, 1e-6 to 1000. A single entry serves all channels.
    pub std: Vec<f32>,
}

impl Normalisation {
    /// Leaves values as they are: mean 0, standard deviation 1.
    pub fn identity(channels: usize) -> Self {
        Self { mean: vec![0.0; channels], std: vec![1.0; channels] }
    }

    /// Mean and standard deviation of ImageNet, as every collection of pretrained weights has them; of grey images the
    /// means of both.
    pub fn imagenet(channels: usize) -> Self {
        let of = |values: [f32; 3]| match channels {
            1 => vec![values.iter().sum::<f32>() / 3.0],
            _ => values.to_vec(),
        };
        Self { mean: of([0.485, 0.456, 0.406]), std: of([0.229, 0.224, 0.225]) }
    }

    /// Mean and standard deviation of one channel.
    pub(crate) fn of(&self, channel: usize) -> (f32, f32) {
        let pick = |values: &[f32], otherwise| *values.get(channel).or(values.last()).unwrap_or(&otherwise);
        (pick(&self.mean, 0.0), pick(&self.std, 1.0))
    }
}
