//! What a row computes: two rows compare if it is the same.

use std::fmt::Write;

use data_encoding::HEXLOWER;
use kindling_given::{Named, UnknownName};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
pub enum What {
    /// Whole training steps: upload, forward, backward, update; without a loader.
    Train,
    /// Class probabilities of a batch: upload, forward, download.
    Infer,
    /// The forward pass of training, which keeps what backward needs; images are on the device already.
    Forward,
    /// The backward pass alone.
    Backward,
}

impl Named for What {
    const KIND: &str = "measurement";
}

/// Everything that decides what is computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// What is timed.
    pub what: What,
    /// A name of the zoo.
    pub model: String,
    /// Side of the square images in pixels.
    pub image_size: usize,
    /// Channels of the images.
    pub channels: usize,
    /// Classes of the head.
    pub classes: usize,
    /// The global batch: samples of a step.
    pub batch_size: usize,
    /// Samples computed at once; found while running if absent.
    pub micro_batch: Option<usize>,
    /// The most samples whose statistics batch norm takes together.
    pub norm_group: usize,
    /// Format of feature maps: `f32`, `bf16` or `f16`.
    pub precision: String,
    /// What is computed again rather than kept: `none`, `stages`, `blocks`, or `auto`.
    pub recompute: String,
    /// The update rule of training: `adamw` or `sgd`.
    pub optimizer: String,
    /// The most memory to use in bytes, if limited.
    pub memory_budget: Option<u64>,
    /// Seed of weights and images.
    pub seed: u64,
    /// `cpu`, `cuda:0`, `wgpu`.
    pub device: String,
    /// Threads that compute, on the CPU.
    pub threads: usize,
}

impl Configuration {
    /// Names and values in a fixed order, as they are hashed and compared. The number of a GPU does not count, nor do
    /// threads where a GPU computes.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let device = self.device.split(':').next().unwrap_or_default().to_string();
        let threads = if device == "cpu" { self.threads.to_string() } else { "any".to_string() };
        vec![
            ("what", self.what.to_string()),
            ("model", self.model.clone()),
            ("image_size", self.image_size.to_string()),
            ("channels", self.channels.to_string()),
            ("classes", self.classes.to_string()),
            ("batch_size", self.batch_size.to_string()),
            ("micro_batch", self.micro_batch.map_or("auto".to_string(), |it| it.to_string())),
            ("norm_group", self.norm_group.to_string()),
            ("precision", self.precision.clone()),
            ("recompute", self.recompute.clone()),
            ("optimizer", self.optimizer.clone()),
            ("memory_budget", self.memory_budget.map_or("none".to_string(), |it| it.to_string())),
            ("seed", self.seed.to_string()),
            ("device", device),
            ("threads", threads),
        ]
    }

    /// The first 16 digits of the SHA-256 of the lines `name=value` of [`Configuration::fields`].
    pub fn hash(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.fields() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}={value}");
        }
        HEXLOWER.encode(&Sha256::digest(text.as_bytes())[..8])
    }

    /// What differs, each as `precision f32 against bf16`.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let pairs = self.fields().into_iter().zip(other.fields());
        pairs.filter(|(a, b)| a.1 != b.1).map(|(a, b)| format!("{} {} against {}", a.0, a.1, b.1)).collect()
    }

    /// The row in a few words: `train mobilenet_v2 512 batch 4 f32`.
    pub fn label(&self) -> String {
        let Self { what, model, image_size, batch_size, precision, recompute, .. } = self;
        let again = if recompute == "none" { String::new() } else { format!(" checkpointing {recompute}") };
        format!("{what} {model} {image_size} batch {batch_size} {precision}{again}")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench) fn example() -> Configuration {
        Configuration {
            what: What::Train,
            model: "mobilenet_v2".into(),
            image_size: 512,
            channels: 3,
            classes: 10,
            batch_size: 4,
            micro_batch: None,
            norm_group: 8,
            precision: "f32".into(),
            recompute: "none".into(),
            optimizer: "adamw".into(),
            memory_budget: None,
            seed: 0,
            device: "cpu".into(),
            threads: 2,
        }
    }

    #[test]
    fn the_hash_is_the_sha256_of_the_lines() {
        // Python: hashlib.sha256("what=train\nmodel=mobilenet_v2\n...threads=2\n".encode()).hexdigest()[:16]
        assert_eq!(example().hash(), "6ed1d089fa5562e9");
    }

    #[test]
    fn every_field_but_the_number_of_the_gpu_changes_the_hash() {
        let known = serde_json::to_value(example()).unwrap();
        for (name, value) in known.as_object().unwrap() {
            let mut other = known.clone();
            other[name] = match value {
                serde_json::Value::Null => 7.into(),
                serde_json::Value::Number(number) => (number.as_u64().unwrap() + 1).into(),
                _ if name == "what" => "infer".into(),
                _ => "other".into(),
            };
            let other: Configuration = serde_json::from_value(other).unwrap();
            assert_ne!(other.hash(), example().hash(), "{name}");
            assert!(other.differences(&example())[0].starts_with(name.as_str()), "{name}");
        }
        let gpu = |device: &str, threads| Configuration { device: device.into(), threads, ..example() };
        assert_eq!(gpu("cuda:0", 2).hash(), gpu("cuda:1", 16).hash());
    }

    #[test]
    fn what_differs_is_named() {
        let other = Configuration { precision: "bf16".into(), batch_size: 8, ..example() };
        assert_eq!(example().differences(&other), ["batch_size 4 against 8", "precision f32 against bf16"]);
        assert!(example().differences(&example()).is_empty());
    }
}
