//! What a run does where nobody says anything and the task or the update rule decides. What a data set with a name decides, it says
//! itself: [`crate::dataset::usual`].

/// What `--task segmentation` trains where nothing else is said, and how many images at a time.
pub(super) const SEGMENTATION_MODEL: &str = "unet-timm-mobilenetv3_small_100";
pub(super) const SEGMENTATION_BATCH: i64 = 4;
/// What `--optimizer sgd` brings.
pub(in crate::commands) const MOMENTUM: f64 = 0.9;
pub(super) const SGD_WEIGHT_DECAY: f64 = 4e-5;
pub(super) const SGD_LR: f64 = 0.05;
/// A linear head alone.
pub(super) const HEAD_LR: f64 = 0.01;
