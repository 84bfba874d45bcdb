//! One iteration: the discriminator's rounds and the generator's step, computed beside the old state.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Device, Tensor};
use kindling_data::HostBatch;
use kindling_layers::pass::{self, TrainingPass};
use kindling_layers::precision::full;
use kindling_layers::{Checkpointing, Discriminator, Generator};
use kindling_memory::{Plan, panic_message};
use kindling_nvtx::range;
use kindling_random::{Purpose, rng};
use rand::RngExt;

use super::config::AdversarialConfig;
use super::guards::{Indicators, spread_of};
use super::latent::{Half, latents};
use super::lecam::LeCam;
use super::pair::Pair;
use super::segments;
use super::spectral::{Normalised, SpectralNorm};
use super::sums::Sums;
use crate::error::TrainError;
use crate::fault::{Faults, Phase};
use crate::gradients::backward;
use crate::micro_batch::{MicroBatch, micro_batches};
use crate::model_state::{Move, decay_at};
use crate::norm_momentum::NormMomentum;
use crate::recovery::abandon_graph;
use crate::step::{read_any, upload};

/// Kinds of images, for their changes.
const REAL: u64 = 0;
const FAKE_FOR_DISCRIMINATOR: u64 = 1;
const FAKE_FOR_GENERATOR: u64 = 2;

/// What does not change from iteration to iteration.
pub(crate) struct AdversarialEngine {
    /// The device, with gradients.
    pub(crate) device: Device,
    pub(crate) config: AdversarialConfig,
    /// Numbers of a latent vector.
    pub(crate) latent: usize,
    pub(crate) norm_momentum: NormMomentum,
    pub(crate) faults: Faults,
}

/// An iteration that was computed and found good, not yet committed.
pub(crate) struct GoodIteration<G, D> {
    pub(crate) pair: Pair<G, D>,
    /// Of the last round.
    pub(crate) discriminator_loss: f64,
    pub(crate) generator_loss: f64,
    pub(crate) discriminator_norm: f64,
    pub(crate) generator_norm: f64,
    pub(crate) indicators: Indicators,
    pub(crate) micro_batch: usize,
}

/// What a round of the discriminator came to.
struct Round {
    loss: f64,
    norm: f64,
    /// Mean scores.
    real: f64,
    fake: f64,
    real_believed: f64,
    fake_believed: f64,
}

impl AdversarialEngine {
    /// Computes iteration `step` from a pair, which stays as it is. Losses are multiplied by `loss_scale` for their
    /// backward passes, and gradients divided by it.
    ///
    /// # Errors
    /// As [`crate::step::StepEngine::compute`].
    pub(crate) fn compute<G: Generator, D: Discriminator>(
        &self,
        pair: &Pair<G, D>,
        batch: &HostBatch,
        plan: &Plan,
        step: u64,
        loss_scale: f64,
    ) -> Result<GoodIteration<G, D>, TrainError> {
        let _step = range(|| format!("step {step}"));
        let cuts = micro_batches(self.config.batch_size, self.config.ghost_batch_size, plan.micro_batch);
        let micro_batch = cuts.iter().map(|micro| micro.rows.len()).max().unwrap_or(0);
        let failed = |text: &str| TrainError::of_device(Some(step), micro_batch, text);
        // Normalised discriminators have graphs of their own, which an attempt that fails may leave behind.
        let mut discriminators = Vec::new();
        let attempt = || self.attempt(pair, batch, plan, step, loss_scale, &mut discriminators, &failed, micro_batch);
        let outcome =
            catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| Err(failed(&panic_message(panic.as_ref()))));
        if outcome.is_err() {
            for discriminator in &discriminators {
                abandon_graph(discriminator, &self.device);
            }
        }
        outcome
    }

    #[allow(clippy::too_many_arguments)] // one caller
    fn attempt<G: Generator, D: Discriminator>(
        &self,
        pair: &Pair<G, D>,
        batch: &HostBatch,
        plan: &Plan,
        step: u64,
        loss_scale: f64,
        discriminators: &mut Vec<D>,
        failed: &dyn Fn(&str) -> TrainError,
        micro_batch: usize,
    ) -> Result<GoodIteration<G, D>, TrainError> {
        let Pair { mut discriminator, mut spectral, mut anchors, .. } = pair.clone();
        let plain = pair.generator.model.valid();
        let mut last = None;
        for rows in parts(batch.len(), self.config.rounds) {
            let (network, back) = normalise(&discriminator.model, &mut spectral);
            // A backward pass has freed the graphs of the round before.
            discriminators.clear();
            discriminators.push(network.clone());
            let half = range(|| "discriminator");
            let mut sums = self.teach(&plain, &network, batch, rows.clone(), plan, anchors, step, loss_scale);
            sums.gradients = back.carry_over(sums.gradients);
            self.faults.scale(step, &mut sums.gradients);
            self.faults.at(step, Phase::FiniteCheck, 0);
            let round = Round::of(&sums.finite_check(loss_scale).map_err(|text| failed(&text))?);
            finite(step, round.loss, round.norm)?;
            if self.config.lecam > 0.0 {
                anchors = Some(LeCam::after(anchors, round.real, round.fake));
            }
            let by = self.movement(step, self.config.lr_discriminator, round.norm, loss_scale);
            self.faults.at(step, Phase::Optimizer, 0);
            let statistics = self.faults.statistics(step, sums.statistics);
            discriminator =
                self.faults.moved(step, &discriminator, discriminator.moved(sums.gradients, statistics, &by));
            drop(half);
            last = Some(round);
        }
        let Some(round) = last else { return Err(failed("the batch is empty")) };
        discriminators.clear();
        drop(plain);

        let _half = range(|| "generator");
        let (network, _) = normalise(&discriminator.model, &mut spectral);
        let mut sums = self.learn(&pair.generator.model, network.no_grad(), plan, step, loss_scale);
        self.faults.scale(step, &mut sums.gradients);
        self.faults.at(step, Phase::GeneratorFiniteCheck, 0);
        let checked = sums.finite_check(loss_scale).map_err(|text| failed(&text))?;
        let [loss, spread, norm] = checked.as_slice() else { return Err(failed("the finite check is incomplete")) };
        finite(step, *loss, *norm)?;
        let by = self.movement(step, self.config.lr, *norm, loss_scale);
        self.faults.at(step, Phase::GeneratorOptimizer, 0);
        let statistics = self.faults.statistics(step, sums.statistics);
        let generator = pair.generator.moved(sums.gradients, statistics, &by);
        let generator = self.faults.moved(step, &pair.generator, generator);
        let pair = Pair { generator, discriminator, spectral, anchors };
        // The updates allocate as well; what failed of them shows only when something is read that depends on them.
        read_any(pair.witness()).map_err(|text| failed(&text))?;
        self.faults.at(step, Phase::Commit, 0);
        // Of a single real image there is no spread to compare with.
        let spread = if batch.len() > 1 { spread / spread_of(batch).max(1e-9) } else { f64::NAN };
        Ok(GoodIteration {
            pair,
            discriminator_loss: round.loss,
            generator_loss: *loss,
            discriminator_norm: round.norm,
            generator_norm: *norm,
            indicators: Indicators { real_believed: round.real_believed, fake_believed: round.fake_believed, spread },
            micro_batch,
        })
    }

    /// The discriminator's half: real images and fake ones, each micro-batch of either with a graph of its own.
    #[allow(clippy::too_many_arguments)] // one caller
    fn teach<G: Generator, D: Discriminator>(
        &self,
        plain: &G,
        discriminator: &D,
        batch: &HostBatch,
        rows: Range<usize>,
        plan: &Plan,
        anchors: Option<LeCam>,
        step: u64,
        loss_scale: f64,
    ) -> Sums {
        let device = self.device.clone().without_autodiff();
        let total = rows.len();
        let choice = rng(self.config.seed, Purpose::DiffAugment, step, u64::MAX - rows.start as u64).random::<u64>();
        let AdversarialConfig { loss, lecam, reconstruction, .. } = self.config;
        let mut sums = Sums::default();
        for (index, micro) in self.micro_batches(total, plan, step).into_iter().enumerate() {
            let rows = rows.start + micro.rows.start..rows.start + micro.rows.end;
            self.faults.at(step, Phase::FakeImages, index);
            let fake = self.fake_images(plain, &micro, rows.clone(), step);
            self.faults.at(step, Phase::Upload, index);
            let real = upload(batch, rows.clone(), &device);
            let pass = self.pass(&micro, rows.clone(), Half::Discriminator, step);

            self.faults.at(step, Phase::Forward, index);
            let real = self.change(real, rows.clone(), REAL, step);
            let judge = || discriminator.judge(Tensor::from_inner(real), choice);
            let (judgement, statistics) = pass::training(pass.clone(), judge);
            sums.statistics.merge(statistics);
            let scores = full(judgement.scores);
            let share = 1.0 / (total * scores.dims()[1]) as f64;
            let mut lost = loss.of_real(scores.clone());
            if let Some(anchors) = anchors {
                lost = lost + anchors.of_real(scores.clone()).mul_scalar(lecam);
            }
            let mut lost = lost.sum().mul_scalar(share);
            if let Some(difference) = judgement.reconstruction.filter(|_| reconstruction > 0.0) {
                lost = lost + full(difference).mul_scalar(reconstruction * rows.len() as f64 / total as f64);
            }
            self.faults.at(step, Phase::Backward, index);
            sums.gradients.add(backward(&lost, loss_scale), discriminator);
            let real = (lost, scores);

            let fake = self.change(fake, rows, FAKE_FOR_DISCRIMINATOR, step);
            let (scores, statistics) = pass::training(pass, || discriminator.forward(Tensor::from_inner(fake)));
            sums.statistics.merge(statistics);
            let scores = full(scores);
            let mut lost = loss.of_fake(scores.clone());
            if let Some(anchors) = anchors {
                lost = lost + anchors.of_fake(scores.clone()).mul_scalar(lecam);
            }
            let lost = lost.sum().mul_scalar(share);
            sums.gradients.add(backward(&lost, loss_scale), discriminator);

            let believed = |scores: &Tensor<2>| {
                let believed = scores.clone().inner().greater_scalar(loss.threshold()).float();
                believed.sum().mul_scalar(share)
            };
            let mean = |scores: &Tensor<2>| scores.clone().inner().sum().mul_scalar(share);
            let of_fake = [mean(&scores), believed(&scores)];
            let [mean_fake, fake_believed] = of_fake;
            sums.count([real.0.inner() + lost.inner(), mean(&real.1), mean_fake, believed(&real.1), fake_believed]);
        }
        sums
    }

    /// Fake images for the discriminator, `[rows, channels, size, size]` on the plain device: no graph is recorded, and
    /// nothing of the generator is alive once they are there.
    fn fake_images<G: Generator>(&self, plain: &G, micro: &MicroBatch, rows: Range<usize>, step: u64) -> Tensor<4> {
        let device = self.device.clone().without_autodiff();
        let half = Half::Discriminator;
        let latent = latents(self.config.seed, step, half, rows.clone(), self.latent, &device);
        // What these images do to the statistics is left out: the generator's come from its own half.
        let latent = self.config.precision.cast(latent);
        pass::training(self.pass(micro, rows, half, step), || plain.forward(latent)).0
    }

    /// The generator's half. `discriminator` passes gradients on and keeps none.
    fn learn<G: Generator, D: Discriminator>(
        &self,
        model: &G,
        discriminator: D,
        plan: &Plan,
        step: u64,
        loss_scale: f64,
    ) -> Sums {
        let device = self.device.clone().without_autodiff();
        let batch = self.config.batch_size;
        let loss = self.config.loss;
        let mut sums = Sums::default();
        // Sums and sums of squares over the batch, pixel by pixel.
        let mut pixels: Option<[Tensor<4>; 2]> = None;
        let valid = (plan.checkpointing != Checkpointing::None && model.segments() > 0).then(|| model.valid());
        for (index, micro) in self.micro_batches(batch, plan, step).iter().enumerate() {
            let rows = micro.rows.clone();
            let pass = self.pass(micro, rows.clone(), Half::Generator, step);
            let latent = latents(self.config.seed, step, Half::Generator, rows.clone(), self.latent, &device);
            let latent = self.config.precision.cast(latent);
            self.faults.at(step, Phase::GeneratorForward, index);
            let judge = |images: Tensor<4>, pass| {
                let changed = self.change(images, rows.clone(), FAKE_FOR_GENERATOR, step);
                // The discriminator's statistics are those of its own half: these are not kept.
                let (scores, _) = pass::training(pass, || discriminator.forward(changed));
                let scores = full(scores);
                let share = 1.0 / (batch * scores.dims()[1]) as f64;
                loss.of_generator(scores).sum().mul_scalar(share)
            };
            let (lost, images) = match &valid {
                None => {
                    let (images, statistics) =
                        pass::training(pass.clone(), || model.forward(Tensor::from_inner(latent)));
                    sums.statistics.merge(statistics);
                    let lost = judge(images.clone(), pass);
                    self.faults.at(step, Phase::GeneratorBackward, index);
                    sums.gradients.add(backward(&lost, loss_scale), model);
                    (lost, images.inner())
                }
                Some(valid) => {
                    let mut made = segments::forward(valid, latent, pass.clone());
                    sums.statistics.merge(std::mem::take(&mut made.statistics));
                    let images = Tensor::from_inner(made.images.clone()).require_grad();
                    let lost = judge(images.clone(), pass);
                    self.faults.at(step, Phase::GeneratorBackward, index);
                    let mut found = backward(&lost, loss_scale);
                    if let Some(gradient) = images.grad_remove(&mut found) {
                        drop(found);
                        let images = made.images.clone();
                        made.backward(model, gradient, &mut sums.gradients);
                        (lost, images)
                    } else {
                        (lost, images.inner())
                    }
                }
            };
            sums.count([lost]);
            let images = full(images);
            let now = [images.clone().sum_dim(0), images.square().sum_dim(0)];
            pixels = Some(match pixels.take() {
                None => now,
                Some([sum, squares]) => {
                    let [more, more_squares] = now;
                    [sum + more, squares + more_squares]
                }
            });
        }
        if let Some([sum, squares]) = pixels {
            let count = batch as f64;
            let variance = squares.div_scalar(count) - sum.div_scalar(count).square();
            sums.numbers.push(variance.clamp_min(0.0).sqrt().mean());
        }
        sums
    }

    /// Images as the discriminator sees them. What is changed is changed in float32.
    fn change(&self, images: Tensor<4>, rows: Range<usize>, kind: u64, step: u64) -> Tensor<4> {
        let augment = self.config.diff_augment;
        let size = images.dims()[2];
        let changes = augment.draw(self.config.seed, step, rows, kind, size);
        self.config.precision.cast(augment.apply(full(images), &changes))
    }

    fn micro_batches(&self, total: usize, plan: &Plan, step: u64) -> Vec<MicroBatch> {
        self.faults.micro_batches(step, micro_batches(total, self.config.ghost_batch_size, plan.micro_batch))
    }

    fn pass(&self, micro: &MicroBatch, rows: Range<usize>, half: Half, step: u64) -> TrainingPass {
        // Layers that draw for a sample must not draw the same in both halves.
        let of_row = |row: usize| row as u64 | half.stream() << 32;
        TrainingPass {
            groups: micro.groups.clone(),
            seed: self.config.seed,
            epoch: step,
            samples: rows.map(of_row).collect(),
        }
    }

    fn movement(&self, step: u64, rate: f64, norm: f64, loss_scale: f64) -> Move {
        let scale = match self.config.clip_norm {
            Some(limit) if norm > limit => limit / norm / loss_scale,
            _ => 1.0 / loss_scale,
        };
        let rate = self.faults.rate(step, rate * self.config.rate_at(step));
        Move { rate, scale, momentum: self.norm_momentum.at(step), decay: decay_at(self.config.ema, step) }
    }
}

impl Round {
    /// From what [`AdversarialEngine::teach`] counted and the norm.
    fn of(checked: &[f64]) -> Self {
        let at = |index: usize| checked.get(index).copied().unwrap_or(f64::NAN);
        Self { loss: at(0), real: at(1), fake: at(2), real_believed: at(3), fake_believed: at(4), norm: at(5) }
    }
}

/// The network whose scores count, what carries its gradients back, and in `spectral` the vectors after it.
fn normalise<D: Discriminator>(model: &D, spectral: &mut Option<SpectralNorm>) -> (D, Normalised) {
    let Some(known) = spectral else { return (model.clone(), Normalised::default()) };
    let (network, back, next) = known.normalise(model);
    *spectral = Some(next);
    (network, back)
}

fn finite(step: u64, loss: f64, norm: f64) -> Result<(), TrainError> {
    if loss.is_finite() && norm.is_finite() { Ok(()) } else { Err(TrainError::NotFinite { step, loss, norm }) }
}

/// `total` rows in `count` parts as even as possible, without empty ones.
fn parts(total: usize, count: usize) -> Vec<Range<usize>> {
    let mut start = 0;
    let sizes = (0..count).map(|part| total / count + usize::from(part < total % count));
    let part = |size| {
        let rows = start..start + size;
        start += size;
        rows
    };
    sizes.filter(|size| *size > 0).map(part).collect()
}
