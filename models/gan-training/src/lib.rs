//! Training a generator against a discriminator, on the trainer's loop.
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
//! The loop of a run, recovery, updates, model states, checkpoints and failures on demand are those of [`kindling_trainer`];
//! what is here is what a second network adds. Any [`Generator`](kindling_layers::Generator) and
//! [`Discriminator`](kindling_layers::Discriminator) will do; those of `models/gan` are not known here.
//!
//! | module | holds |
//! |---|---|
//! | `run`, `config` | the training as the trainer's loop sees it, with previews and the weights it keeps; what it is told |
//! | `step` | one iteration |
//! | `pair`, `spectral`, `lecam` | both networks with everything that an iteration changes |
//! | `losses`, `augment`, `guards` | what each side wants, changes of images, signs that nothing is learnt any more |
//! | `latent`, `generate`, `calibrate` | latent vectors by key, images of a trained generator, statistics of an averaged one |

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

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
mod spectral;
mod step;
#[cfg(test)]
mod step_tests;
#[cfg(test)]
mod testing;

pub use augment::{Change, DiffAugment};
pub use calibrate::calibrate;
pub use config::{AdversarialConfig, Extension};
pub use generate::{Images, generate};
pub use latent::{between, sample_latent};
pub use lecam::LeCam;
pub use losses::AdversarialLoss;
pub use pair::Pair;
pub use run::{Adversarial, AdversarialTrainer, Adversaries, Preview, trainer};
pub use spectral::{Normalised, SpectralNorm};
pub use step::Iteration;
