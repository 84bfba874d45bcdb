//! Two networks against each other, on the engine that trains one.
//!
//! ```text
//! HostBatch -> a part for each of the discriminator's rounds
//!   each round: weights / their largest singular value (spectral norm)
//!     -> each micro-batch: latents -> generator without a graph -> fake images
//!        real and fake -> differentiable augmentation -> scores -> loss -> backward -> accumulate
//!     -> finite check -> optimizer
//!   generator: each micro-batch: latents -> images -> augmentation -> scores of the new discriminator -> backward
//!     -> finite check -> optimizer -> average
//! all of it good -> read of what was made -> one commit of both networks
//! anything else  -> as with one network: out of memory makes room and does the same iteration again
//! ```
//!
//! The loop around an attempt, the policy, the sums of gradients, the model states, checkpoints and failures on demand are
//! those of [`crate::engine`]; what is here is what a second network adds.

mod augment;
mod calibrate;
mod config;
mod generate;
mod guards;
mod latent;
mod lecam;
mod losses;
mod pair;
mod run;
mod segments;
mod spectral;
mod step;
#[cfg(test)]
mod step_tests;
mod sums;
#[cfg(test)]
mod testing;

pub use augment::{Change, DiffAugment};
pub use calibrate::calibrate;
pub use config::AdversarialConfig;
pub(crate) use config::MOST_ROUNDS;
pub use generate::{Images, generate};
pub use latent::{between, sample_latent};
pub use lecam::LeCam;
pub use losses::AdversarialLoss;
pub use run::{AdversarialSetup, AdversarialTrainer, Adversaries, Preview};
pub use spectral::{Normalised, SpectralNorm};
