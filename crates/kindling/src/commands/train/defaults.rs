//! What a run does where nobody says anything and the task, the data or the update rule decides.

/// What `--task segmentation` trains where nothing else is said, and how many images at a time.
pub(super) const SEGMENTATION_MODEL: &str = "unet-timm-mobilenetv3_small_100";
pub(super) const SEGMENTATION_BATCH: i64 = 4;
/// The side of the phantoms with masks, so that they are learnt within five minutes on two cores.
pub(super) const PHANTOM_MASK_SIZE: i64 = 256;
/// That of the brains' parts, for the same reason.
pub(super) const BRAIN_PARTS_SIZE: i64 = 128;
/// Ends within five minutes on two cores; `benchmarks/` has the run.
pub(super) const PHANTOM_EPOCHS: u64 = 4;
/// Neighbouring slices are alike: three passes see everything there is to see.
pub(super) const BRAIN_MRI_ORIENTATION_EPOCHS: u64 = 3;
/// Ends within five minutes on two cores, too.
pub(super) const BRAIN_PARTS_EPOCHS: u64 = 30;
/// What `--optimizer sgd` brings.
pub(in crate::commands) const MOMENTUM: f64 = 0.9;
pub(super) const SGD_WEIGHT_DECAY: f64 = 4e-5;
pub(super) const SGD_LR: f64 = 0.05;
/// A linear head alone.
pub(super) const HEAD_LR: f64 = 0.01;
