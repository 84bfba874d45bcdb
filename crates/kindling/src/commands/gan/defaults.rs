//! What a run does where nothing else is said.

use kindling_data::{Normalisation, Preprocess, SplitRule};
use kindling_gan_training::{AdversarialConfig, AdversarialLoss, DiffAugment};
use kindling_trainer::CHECKPOINT_EVERY;
use kindling_zoo::GanEntry;

use crate::config::default_workers;
use crate::device::DeviceChoice;
use crate::gan_config::{GanConfig, GanData, GanRunConfig, Upsampling};

/// The model that is trained where none is named.
pub(super) const MODEL: &str = "dcgan_64";
/// The data set of a run that names none.
const DATA: &str = "fashion-mnist";
/// Strength of LeCam's regulariser on few images.
pub(super) const LECAM: f64 = 0.1;
/// What the widths of the layers are multiples of, as in the papers.
pub(super) const FEATURES: usize = 64;
/// Images of either kind that are compared with each grid.
const COMPARED: usize = 500;

/// What a run does where nothing else is said: of a model, or of the one that is taken where none is named.
pub(super) fn defaults_of(entry: Option<&GanEntry>) -> GanRunConfig {
    // The paper's batch, in two groups.
    let (name, size) = entry.map_or((MODEL, 64), |entry| (entry.name, entry.image_size));
    let (iterations, batch_size, ghost_batch_size) = if size <= 64 { (2_000, 64, 32) } else { (10_000, 8, 8) };
    let lr = 2e-4;
    GanRunConfig {
        device: DeviceChoice::Auto.to_string(),
        workers: default_workers(),
        memory_budget: None,
        compare: COMPARED,
        gan: GanConfig { name: name.to_string(), features: FEATURES, upsampling: Upsampling::default() },
        data: GanData {
            source: DATA.to_string(),
            path: None,
            split_rule: SplitRule::default(),
            preprocess: Preprocess::padded(size, 1, Normalisation::identity(1)),
        },
        train: AdversarialConfig {
            iterations,
            batch_size,
            rounds: 1,
            micro_batch: None,
            activation_checkpointing: None,
            ghost_batch_size,
            loss: AdversarialLoss::default(),
            lr,
            lr_discriminator: lr,
            cooldown: 0.0,
            betas: [0.5, 0.999],
            ema: 0.999,
            spectral_norm: true,
            lecam: 0.0,
            reconstruction: 1.0,
            precision: Default::default(),
            diff_augment: DiffAugment::NONE,
            clip_norm: None,
            seed: 0,
            checkpoint_iterations: 200,
            checkpoint_every: CHECKPOINT_EVERY,
            sample_iterations: sample_iterations(iterations),
            extended: Vec::new(),
        },
    }
}

/// A twentieth of the run.
pub(super) fn sample_iterations(iterations: u64) -> u64 {
    (iterations / 20).clamp(1, 500)
}
