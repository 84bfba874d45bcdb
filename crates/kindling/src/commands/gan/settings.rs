//! The flags of `kindling gan train` that are settings of its run.

use clap::ValueEnum;
use kindling_gan_training::{AdversarialLoss, DiffAugment};
use kindling_given::Span;
use kindling_layers::{Checkpointing, Precision};
use serde::{Serialize, Serializer};
use toml::Table;

use super::defaults::defaults_of;
use crate::budget::MemoryBudget;
use crate::choice::Choice;
use crate::dataset;
use crate::device::DeviceChoice;
use crate::gan_config::{GanRunConfig, Upsampling};
use crate::ranges;
use crate::settings::{settings, table_of};

/// What holds for the model that is trained where none is named.
fn defaults() -> Table {
    table_of(&defaults_of(None)).unwrap_or_default()
}

settings! {
    /// What a run can be told.
    Settings with defaults;

    /// Data set, or a folder of images, in sub-folders or not; of one with train/ that part
    #[arg(value_parser = dataset::parse_name, value_name = "NAME|DIR", help_heading = "What")]
    Stays "data.source" data: String;
    /// dcgan_64 or fastgan_512
    #[arg(value_name = "NAME", help_heading = "What")]
    Stays "gan.name" model: String;
    /// Side of the images, which is the model's own
    #[arg(value_name = "PIXELS", help_heading = "What")]
    Stays "data.preprocess.size" image_size: usize = "64 for dcgan_64, 512 for fastgan_512";
    /// 1 for grey images, 3 for RGB
    #[arg(value_name = "N", help_heading = "What")]
    Stays "data.preprocess.channels" channels: usize = "the data set's";
    /// What every layer's width is a multiple of, 1 to 1024; the papers have 64
    #[arg(value_name = "N", help_heading = "What")]
    Stays "gan.features" features: usize;
    /// How dcgan_64 doubles its maps
    #[arg(value_enum, help_heading = "What")]
    Stays "gan.upsampling" upsampling: Upsampling;

    /// Steps of the generator, 1 to 1000000000
    #[arg(value_name = "N", help_heading = "Training")]
    Stays "train.iterations" iterations: u64 = of_both(|it| it.train.iterations);
    /// Images of a step of either network, 2 to 1048576
    #[arg(value_name = "N", help_heading = "Training")]
    Stays "train.batch_size" batch_size: usize = of_both(|it| it.train.batch_size as u64);
    /// Steps of the discriminator in an iteration, 1 to 1000, each on images of its own
    #[arg(value_name = "N", help_heading = "Training")]
    Stays "train.rounds" discriminator_steps: usize;
    /// Ghost batch size: the most samples whose statistics batch norm takes together, 1 to 1048576
    #[arg(alias = "norm-group", value_name = "N", help_heading = "Training")]
    Stays "train.ghost_batch_size" ghost_batch_size: usize = of_both(|it| it.train.ghost_batch_size as u64);
    /// hinge, non-saturating or least-squares
    #[arg(value_name = "NAME", help_heading = "Training")]
    Stays "train.loss" loss: AdversarialLoss;
    /// Learning rate, above 0 and at most 1000
    #[arg(value_name = "RATE", help_heading = "Training")]
    Stays "train.lr" lr: f64;
    /// Learning rate of the discriminator, above 0 and at most 1000
    #[arg(value_name = "RATE", help_heading = "Training")]
    Stays "train.lr_discriminator" lr_discriminator: f64 = "as --lr";
    /// Share of the run, 0 to 1, at its end, in which both learning rates fall to nothing
    #[arg(value_name = "SHARE", help_heading = "Training")]
    Stays "train.cooldown" cooldown: f64;
    /// Adam's first beta, 0 to below 1, for both
    #[arg(value_name = "SHARE", help_heading = "Training")]
    Stays "train.betas.0" beta1: f64;
    /// Adam's second beta, 0 to below 1, for both
    #[arg(value_name = "SHARE", help_heading = "Training")]
    Stays "train.betas.1" beta2: f64;
    /// Decay of the moving average of the generator, 0 to below 1, which is what is sampled and kept
    #[arg(value_name = "DECAY", help_heading = "Training")]
    Stays "train.ema" ema: f64;
    /// Divide the discriminator's filters by their largest singular values
    #[arg(value_enum, help_heading = "Training")]
    Stays "train.spectral_norm" spectral_norm: Switch;
    /// Strength of the LeCam regulariser, 0 to 1000000; auto is 0.1 for less than 10,000 images, otherwise 0
    #[arg(value_name = "auto|STRENGTH", help_heading = "Training")]
    Stays "train.lecam" lecam: Choice<f64> = "auto";
    /// Strength of fastgan_512's self-supervision of the discriminator, 0 to 1000000
    #[arg(value_name = "STRENGTH", help_heading = "Training")]
    Stays "train.reconstruction" reconstruction: f64;
    /// Format of feature maps: f32, bf16 or f16; weights, statistics, scores and updates are always f32
    #[arg(value_name = "FORMAT", help_heading = "Training")]
    Stays "train.precision" precision: Precision;
    /// Changes of images that gradients pass through: none, or some of colour,translation,cutout; auto is all of them for
    /// less than 10,000 images, otherwise none
    #[arg(value_name = "auto|CHANGES", help_heading = "Training")]
    Stays "train.diff_augment" diff_augment: Choice<DiffAugment> = "auto";
    /// Scale gradients of either network down to this global norm, 1e-12 to 1e12
    #[arg(value_name = "NORM", help_heading = "Training")]
    Stays "train.clip_norm" clip_norm: f64;
    /// Seed of everything drawn, 0 to 9223372036854775807
    #[arg(value_name = "N", help_heading = "Training")]
    Stays "train.seed" seed: u64;

    /// Samples computed at once, 1 to 1048576, or auto; changes memory and time, never the result
    #[arg(value_name = "auto|N", help_heading = "Memory")]
    Changes "train.micro_batch" micro_batch: Choice<usize>;
    /// Whether the generator's maps are computed again rather than kept: auto, none, or stages (blocks is the same here);
    /// never changes the result
    #[arg(alias = "recompute", value_name = "WHAT", help_heading = "Memory")]
    Changes "train.activation_checkpointing" activation_checkpointing: Choice<Checkpointing>;
    /// The most memory to use: 8GiB, 500MiB, or a share of the device's: 80%
    #[arg(value_name = "SIZE|SHARE", help_heading = "Memory")]
    Changes "memory_budget" memory_budget: MemoryBudget;

    /// auto, cpu, cuda[:N] or wgpu
    #[arg(value_name = "DEVICE", help_heading = "How")]
    #[serde(serialize_with = "crate::settings::as_given")]
    Changes "device" device: DeviceChoice;
    /// Loader threads, 0 to 1024; without influence on the result
    #[arg(value_name = "N", help_heading = "How")]
    Changes "workers" workers: usize = "half the cores, at most 4";
    /// Iterations between checkpoints, 1 to 1000000000
    #[arg(value_name = "N", help_heading = "How")]
    Changes "train.checkpoint_iterations" checkpoint_iterations: u64;
    /// Time between checkpoints, 1s to 8760h: 10m, 1h 30m
    #[arg(value_name = "TIME", help_heading = "How")]
    Changes "train.checkpoint_every" checkpoint_every: Span;
    /// Iterations between grids of samples, 1 to 1000000000
    #[arg(value_name = "N", help_heading = "How")]
    Changes "train.sample_iterations" sample_iterations: u64 = "a twentieth of the run, at most 500";
    /// Images of either kind compared with each grid, 0 for none; auto is 500 where the pretrained MobileNetV2 is there
    /// (scripts/fetch-weights.sh); at most 1048576
    #[arg(value_name = "auto|N", value_parser = ranges::samples_none_or_auto, help_heading = "How")]
    Changes "compare" compare: Choice<usize> = "auto";
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

impl Serialize for Switch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(*self == Self::On)
    }
}

/// A default that differs between the models.
fn of_both(number: impl Fn(&GanRunConfig) -> u64) -> String {
    let of = |entry| number(&defaults_of(entry));
    let of = |name: &str| of(kindling_zoo::find_gan(name).ok());
    format!("{} for dcgan_64, {} for fastgan_512", of("dcgan_64"), of("fastgan_512"))
}

#[cfg(test)]
mod tests {
    use super::super::defaults::LECAM;
    use super::*;

    #[test]
    fn the_help_says_what_auto_is() {
        let lecam = <Settings as clap::Args>::augment_args(clap::Command::new("it"));
        let help = lecam.get_arguments().find(|arg| arg.get_id().as_str() == "lecam").and_then(|arg| arg.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        assert!(help.contains(&format!("auto is {LECAM} for")), "{help}");
    }
}
