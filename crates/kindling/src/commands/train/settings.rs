//! The flags of `kindling train` that are settings of its run.

use kindling_data::{MaxBad, OnBadSample, Sampling};
use kindling_given::Span;
use kindling_layers::{Checkpointing, Freeze, Precision};
use kindling_memory::MemorySize;
use kindling_trainer::{DiceOver, FocalConfig, PixelLoss, ValueLoss};
use serde::{Serialize, Serializer};

use super::OptimizerName;
use super::defaults::{HEAD_LR, MOMENTUM, SEGMENTATION_BATCH, SEGMENTATION_MODEL, SGD_LR, SGD_WEIGHT_DECAY};
use crate::budget::MemoryBudget;
use crate::choice::Choice;
use crate::config::{DEFAULT_MODEL, IMAGE_SIZE, defaults, usual};
use crate::dataset;
use crate::device::DeviceChoice;
use crate::settings::{OnResume, Setting, settings};

settings! {
    /// What a run can be told.
    Settings with defaults;

    /// Data set, a folder with a sub-folder of images for each class, a manifest (.csv, .jsonl) or shards (.tar)
    #[arg(value_parser = dataset::parse_name, value_name = "NAME|PATH", help_heading = "What")]
    Stays "data.source" data: String;
    /// Model of the zoo; `kindling models` lists them
    #[arg(value_name = "NAME", help_heading = "What")]
    Stays "model.name" model: String = format!("{DEFAULT_MODEL}, {SEGMENTATION_MODEL} for segmentation");
    /// Layers that are not trained: none, backbone (all but the classifier), or the stem and this many stages
    #[arg(value_name = "WHAT", help_heading = "What")]
    #[serde(serialize_with = "crate::settings::as_given")]
    Stays "model.freeze" freeze: Freeze;
    /// Side of the square images, at most 8192, padded and never stretched
    #[arg(value_name = "PIXELS", help_heading = "What")]
    Stays "data.preprocess.size" image_size: usize = format!("{IMAGE_SIZE}, {}", dataset::told_of_usual(|usual| usual.image_size));
    /// none, light (flip, small shifts, turns and scales, brightness, contrast), medium, heavy, or a TOML file with a policy
    /// of one's own
    #[arg(value_name = "POLICY", help_heading = "What")]
    Stays "data.augment" augment: String = "the data set's";
    /// What happens to the part of a rectangle that a square has no room for: pad keeps all of it, crop cuts the middle out
    #[arg(value_name = "pad|crop", help_heading = "What")]
    Stays "data.preprocess.fit" fit: String;
    /// How pixel values are normalised: data (by mean and standard deviation of the data set), imagenet, percentiles (as data, after
    /// each image is stretched from its 1st to its 99th percentile), or none; stored with the run
    #[arg(value_name = "HOW", help_heading = "What")]
    Stays "data.preprocess.normalisation" normalise: String = "data, or the pretrained weights' own";

    /// Samples of an optimizer step, 1 to 1048576: the global batch
    #[arg(value_name = "N", help_heading = "Training")]
    Stays "train.batch_size" batch_size: usize = format!("{}, {SEGMENTATION_BATCH} for segmentation", usual().batch_size);
    /// Samples computed at once, 1 to 1048576 and not below a ghost batch, or auto; changes memory and time, never
    /// the result. Memory that runs out makes it smaller, room makes it larger again, up to the number given
    #[arg(value_name = "auto|N", help_heading = "Memory")]
    Changes "train.micro_batch" micro_batch: Choice<usize>;
    /// Feature maps that are computed again rather than kept: auto, none, stages or blocks; never changes the result
    #[arg(alias = "recompute", value_name = "WHAT", help_heading = "Memory")]
    Changes "train.activation_checkpointing" activation_checkpointing: Choice<Checkpointing>;
    /// The most memory to use: 8GiB, 500MiB, or a share of the device's: 80%. On the CPU that of the whole process
    #[arg(value_name = "SIZE|SHARE", help_heading = "Memory")]
    Changes "memory_budget" memory_budget: MemoryBudget =
        "on the CPU 90% of the system's tightest limit, which `kindling devices` names";
    /// Format of feature maps: f32, bf16 or f16; weights, statistics and updates are always f32
    #[arg(value_name = "FORMAT", help_heading = "Training")]
    Stays "train.precision" precision: Precision;
    /// Ghost batch size: the most samples whose statistics batch norm takes together, 1 to 1048576
    #[arg(alias = "norm-group", value_name = "N", help_heading = "Training")]
    Stays "train.ghost_batch_size" ghost_batch_size: usize;
    /// Passes over the training samples, 1 to 1000000000
    #[arg(value_name = "N", help_heading = "Training")]
    Stays "train.epochs" epochs: u64 =
        format!("{}, otherwise {}", dataset::told_of_usual(|usual| usual.epochs), usual().epochs);
    /// Stop after this many optimizer steps, 1 to 1000000000
    #[arg(value_name = "N", help_heading = "Training")]
    Stays "train.max_steps" max_steps: u64;
    /// End after this many epochs in a row without a better validation score, 1 to 1000000000. The learning rate falls as if all
    /// epochs were to come
    #[arg(value_name = "EPOCHS", help_heading = "Training")]
    Stays "train.patience" patience: u64;
    /// Peak learning rate, above 0 and at most 1000
    #[arg(value_name = "RATE", help_heading = "Training")]
    Stays "train.lr" lr: f64 =
        format!("{} for adamw, {HEAD_LR} with a frozen backbone, {SGD_LR} for sgd", usual().lr);
    /// Share of the steps in which the learning rate rises, 0 to 1
    #[arg(value_name = "SHARE", help_heading = "Training")]
    Stays "train.warmup" warmup: f64;
    /// Update rule
    #[arg(value_enum, help_heading = "Training")]
    Stays "train.optimizer.name" optimizer: OptimizerName;
    /// Decay of convolution and linear weights, 0 to 1000
    #[arg(value_name = "RATE", help_heading = "Training")]
    Stays "train.optimizer.weight_decay" weight_decay: f64 =
        format!("{} for adamw, {SGD_WEIGHT_DECAY} for sgd", usual().optimizer.weight_decay());
    /// Momentum of sgd, 0 to below 1
    #[arg(value_name = "SHARE", help_heading = "Training")]
    Stays "train.optimizer.momentum" momentum: f64 = MOMENTUM;
    /// Share of the target spread over all classes, 0 to below 1
    #[arg(value_name = "SHARE", help_heading = "Training")]
    Stays "train.label_smoothing" label_smoothing: f64;
    /// even, balanced (rare classes weigh more), or one weight a class, 0.000001 to 1000000: 1,2,0.5
    #[arg(value_name = "WEIGHTS", help_heading = "Training")]
    Stays "train.class_weights" class_weights: String;
    /// The loss that segmentation minimises, one or a sum of: cross-entropy, dice, generalised-dice, tversky, focal, binary-focal
    #[arg(value_name = "LOSS[+LOSS]", help_heading = "Training")]
    Stays "train.segmentation.loss" loss: PixelLoss = PixelLoss::default();
    /// Over what the sums of dice and its relatives run: image (each by itself), group (the images that batch norm sees together), or
    /// batch (all images of a step, which takes a forward pass more)
    #[arg(value_name = "image|group|batch", help_heading = "Training")]
    Stays "train.segmentation.dice_over" dice_over: DiceOver = DiceOver::default();
    /// The power of one minus the probability of the truth in focal and binary-focal, 1 to 10
    #[arg(value_name = "POWER", help_heading = "Training")]
    Stays "train.segmentation.focal.gamma" focal_gamma: f64 = FocalConfig::default().gamma;
    /// What counts this much in focal and binary-focal, 0 to 1, and the rest one minus it: all classes but the background in focal, the class
    /// that is asked for in binary-focal
    #[arg(value_name = "WEIGHT", help_heading = "Training")]
    Stays "train.segmentation.focal.alpha" focal_alpha: f64 = "1 for everything";
    /// Count in full what has a smaller probability than this in binary-focal, 0.001 to 1
    #[arg(value_name = "PROBABILITY", help_heading = "Training")]
    Stays "train.segmentation.focal.threshold" focal_threshold: f64 = "none";
    /// Train torchvision's auxiliary classifier beside the decoder (deeplabv3_ and fcn_ networks): add its cross-entropy to the loss, with
    /// this weight, 0.000001 to 1000. torchvision takes 0.5. It has no part in masks
    #[arg(value_name = "WEIGHT", help_heading = "Training")]
    Stays "train.segmentation.auxiliary_loss" auxiliary_loss: f64 = "none";
    /// The loss that regression minimises, in standard deviations of the training samples' numbers: mse (squared errors), l1
    /// (absolute errors) or huber (squared errors up to one, absolute errors beyond)
    #[arg(value_name = "mse|l1|huber", help_heading = "Training")]
    #[serde(serialize_with = "crate::settings::as_given")]
    Stays "train.regression" regression_loss: ValueLoss = ValueLoss::default();
    /// Scale gradients down to this global norm, 1e-12 to 1e12
    #[arg(value_name = "NORM", help_heading = "Training")]
    Stays "train.clip_norm" clip_norm: f64;
    /// Share of the classifier's input dropped while training, 0 to below 1
    #[arg(value_name = "SHARE", help_heading = "Training")]
    Stays "model.drop_rate" drop_rate: f64 = "the paper's";
    /// Share of samples whose last residual branch is left out while training, 0 to below 1
    #[arg(value_name = "SHARE", help_heading = "Training")]
    Stays "model.drop_path_rate" drop_path_rate: f64 = "the paper's";
    /// Keep an exponential moving average of the weights with this decay, 0 to below 1, and judge and keep that
    #[arg(value_name = "DECAY", help_heading = "Training")]
    Stays "train.ema" ema: f64;
    /// Seed of order, augmentation, dropout and initial weights, 0 to 9223372036854775807
    #[arg(value_name = "N", help_heading = "Training")]
    Stays "train.seed" seed: u64;
    /// How the samples of an epoch are chosen: even (each once), balanced (classes equally often) and weights (as the data set
    /// says), both with replacement, or foreground (of segmentation: the last third of each batch shows a class of its masks,
    /// drawn evenly, the rest is as with even)
    #[arg(value_name = "HOW", help_heading = "Training")]
    Stays "data.sampling" sampling: Sampling;
    /// Also score the test images of each value of this column of the manifest (CSV), such as sex or scanner
    #[arg(value_name = "COLUMN", help_heading = "What")]
    Changes "data.subgroups" subgroups: String;

    /// auto, cpu, cuda[:N] or wgpu
    #[arg(value_name = "DEVICE", help_heading = "How")]
    #[serde(serialize_with = "crate::settings::as_given")]
    Changes "device" device: DeviceChoice;
    /// Loader threads, 0 to 1024; without influence on the result
    #[arg(value_name = "N", help_heading = "How")]
    Changes "workers" workers: usize = "half the cores, at most 4";
    /// What happens to a sample that cannot be read: fail, or skip (another one takes its place, and bad-samples.jsonl of the
    /// run lists it)
    #[arg(value_name = "fail|skip", help_heading = "How")]
    Changes "data.on_bad_sample" on_bad_sample: OnBadSample;
    /// How many samples of a split may be skipped before the run stops: a share, 0 to 100%, or a number, 0 or more
    #[arg(value_name = "SHARE|N", help_heading = "How")]
    #[serde(serialize_with = "crate::settings::as_given")]
    Changes "data.max_bad" max_bad: MaxBad;
    /// The most memory of batches that are made ahead, on the host; one is always made ahead; without influence on the result
    #[arg(value_name = "SIZE", help_heading = "How")]
    #[serde(serialize_with = "in_bytes")]
    Changes "prefetch_bytes" prefetch_bytes: MemorySize = MemorySize(kindling_data::PREFETCH_BYTES);
    /// Steps between checkpoints, 1 to 1000000000, besides the one at the end of each epoch
    #[arg(value_name = "N", help_heading = "How")]
    Changes "train.checkpoint_steps" checkpoint_steps: u64;
    /// Time between checkpoints, 1s to 8760h: 10m, 1h 30m. What they take stands in the report
    #[arg(value_name = "TIME", help_heading = "How")]
    Changes "train.checkpoint_every" checkpoint_every: Span;
}

/// Settings whose flags other commands have, too: see [`crate::dataset::HowToOpen`].
pub(super) const OPENING: [(&str, &str); 7] = [
    ("split_by", "data.opening.split_by"),
    ("window", "data.opening.window"),
    ("pages", "data.opening.pages"),
    ("fold", "data.opening.fold"),
    ("task", "data.opening.task"),
    ("target", "data.opening.target"),
    ("class_order", "data.opening.class_order"),
];

/// Every setting of `kindling train`.
pub(super) fn all() -> Vec<Setting> {
    let opening = OPENING.map(|(name, key)| Setting { name, key, on_resume: OnResume::Stays, default: None });
    Settings::all().into_iter().chain(opening).collect()
}

fn in_bytes<S: Serializer>(size: &Option<MemorySize>, serializer: S) -> Result<S::Ok, S::Error> {
    size.map(|size| size.0).serialize(serializer)
}
