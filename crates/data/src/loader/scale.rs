//! What a network is asked for in the place of a number.

use serde::{Deserialize, Serialize};

use crate::source::Source;

/// Shifts and divides numbers so that those of the training samples have the mean 0 and the standard deviation 1, in which a network
/// learns them: years and micrometres are alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// What is subtracted, in the unit of the numbers.
    pub mean: f64,
    /// What is divided by, in the unit of the numbers; above 0.
    pub std: f64,
}

impl Default for Scale {
    /// Numbers as they are.
    fn default() -> Self {
        Self { mean: 0.0, std: 1.0 }
    }
}

impl Scale {
    /// The scale of the numbers of a source; as they are where it has none, and only shifted where all are equal.
    pub fn measured(source: &dyn Source) -> Self {
        let values: Vec<f64> = (0..source.len()).filter_map(|index| source.value(index)).collect();
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let std = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        Self { mean, std: if std > 0.0 && std.is_finite() { std } else { 1.0 } }
    }

    /// What stands for a number.
    pub fn of(&self, value: f64) -> f32 {
        ((value - self.mean) / self.std) as f32
    }

    /// The number that a network's answer stands for.
    pub fn back(&self, answer: f64) -> f64 {
        answer * self.std + self.mean
    }
}
