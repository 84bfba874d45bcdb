//! One iteration: the discriminator's rounds and the generator's step, computed beside the old state.

use std::ops::Range;

use burn::tensor::{Device, Tensor};
use kindling_data::HostBatch;
use kindling_layers::pass::{self, TrainingPass};
use kindling_layers::precision::full;
use kindling_layers::{Checkpointing, Discriminator, Generator, Precision};
use kindling_nvtx::range;
use kindling_ops::{mean, sum};
use kindling_random::{Purpose, rng};
use kindling_trainer::engine::{
    Attempt, Checked, GoodStep, InOrder, Phase, Segments, Summand, Sums, Update, abandon_graph, backward, upload,
};
use kindling_trainer::{MicroBatch, TrainError, micro_batches_on};
use rand::RngExt;

use crate::config::AdversarialConfig;
use crate::guards::{Indicators, spread_of};
use crate::latent::{Half, latents};
use crate::lecam::LeCam;
use crate::pair::Pair;
use crate::spectral::{Normalised, SpectralNorm};

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
    pub(crate) update: Update,
}

/// The losses of a good iteration, the norms of its gradients, and whether both networks still learn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Iteration {
    /// The loss of the last round.
    pub discriminator_loss: f64,
    /// The generator's loss.
    pub generator_loss: f64,
    /// The norm of the last round's gradients, before they are scaled down.
    pub discriminator_norm: f64,
    /// The norm of the generator's gradients, before they are scaled down.
    pub generator_norm: f64,
    /// Signs of whether both networks still learn.
    pub indicators: Indicators,
}

/// What an attempt at an iteration goes by.
struct At<'a> {
    attempt: &'a Attempt,
    batch: &'a HostBatch,
    /// The largest micro-batch.
    micro_batch: usize,
}

type Good<G, D> = GoodStep<Pair<G, D>, Iteration>;

impl AdversarialEngine {
    /// Computes an iteration from a pair, which stays as it is.
    ///
    /// # Errors
    /// As [`kindling_trainer::engine::Training::compute`].
    pub(crate) fn compute<G: Generator, D: Discriminator>(
        &self,
        pair: &Pair<G, D>,
        batch: &HostBatch,
        attempt: &Attempt,
    ) -> Result<Good<G, D>, TrainError> {
        let _step = range(|| format!("step {}", attempt.step));
        let cuts = self.cuts(self.config.batch_size, attempt);
        let micro_batch = cuts.iter().map(|micro| micro.rows.len()).max().unwrap_or(0);
        let at = At { attempt, batch, micro_batch };
        // Normalised discriminators have graphs of their own, which an attempt that fails may leave behind.
        let mut discriminators = Vec::new();
        let work = || self.attempt(pair, &at, &mut discriminators);
        let outcome = TrainError::caught(Some(attempt.step), micro_batch, work);
        if outcome.is_err() {
            for discriminator in &discriminators {
                abandon_graph(discriminator, &self.device);
            }
        }
        outcome
    }

    fn attempt<G: Generator, D: Discriminator>(
        &self,
        pair: &Pair<G, D>,
        at: &At<'_>,
        discriminators: &mut Vec<D>,
    ) -> Result<Good<G, D>, TrainError> {
        let &At { attempt, batch, micro_batch } = at;
        let Pair { mut discriminator, mut spectral, mut anchors, .. } = pair.clone();
        let plain = pair.generator.model().valid();
        let mut last = None;
        for rows in parts(batch.len(), self.config.rounds) {
            let (network, back) = normalise(discriminator.model(), &mut spectral);
            // A backward pass has freed the graphs of the round before.
            discriminators.clear();
            discriminators.push(network.clone());
            let half = range(|| "discriminator");
            let mut sums = self.teach(&plain, &network, at, rows.clone(), anchors);
            sums.gradients = back.carry_over(sums.gradients);
            let checked = self.update.check(&mut sums, Phase::FiniteCheck, attempt, micro_batch)?;
            let [loss, real, fake, real_believed, fake_believed] = told(&checked, at)?;
            if self.config.lecam > 0.0 {
                anchors = Some(LeCam::after(anchors, real, fake));
            }
            let rate = self.config.lr_discriminator * self.config.rate_at(attempt.step);
            discriminator = self.update.apply(&discriminator, sums, checked.norm, rate, Phase::Optimizer, attempt);
            drop(half);
            last = Some((loss, checked.norm, [real_believed, fake_believed]));
        }
        let Some((discriminator_loss, discriminator_norm, believed)) = last else {
            return Err(at.failed("the batch is empty"));
        };
        discriminators.clear();
        drop(plain);

        let _half = range(|| "generator");
        let (network, _) = normalise(discriminator.model(), &mut spectral);
        let mut sums = self.learn(pair.generator.model(), network.no_grad(), attempt);
        let checked = self.update.check(&mut sums, Phase::GeneratorFiniteCheck, attempt, micro_batch)?;
        let [generator_loss, spread] = told(&checked, at)?;
        let rate = self.config.lr * self.config.rate_at(attempt.step);
        let generator =
            self.update.apply(&pair.generator, sums, checked.norm, rate, Phase::GeneratorOptimizer, attempt);
        let state = Pair { generator, discriminator, spectral, anchors };
        self.update.confirm(state.witness(), attempt, micro_batch)?;
        // Of a single real image there is no spread to compare with.
        let spread = if batch.len() > 1 { spread / spread_of(batch).max(1e-9) } else { f64::NAN };
        let [real_believed, fake_believed] = believed;
        let told = Iteration {
            discriminator_loss,
            generator_loss,
            discriminator_norm,
            generator_norm: checked.norm,
            indicators: Indicators { real_believed, fake_believed, spread },
        };
        Ok(GoodStep { state, micro_batch, told })
    }

    /// The discriminator's half: real images and fake ones, each micro-batch of either with a graph of its own.
    fn teach<G: Generator, D: Discriminator>(
        &self,
        plain: &G,
        discriminator: &D,
        at: &At<'_>,
        rows: Range<usize>,
        anchors: Option<LeCam>,
    ) -> Sums {
        let &At { attempt: &Attempt { step, loss_scale, .. }, batch, .. } = at;
        let faults = &self.update.faults;
        let device = self.device.clone().without_autodiff();
        let samples = rows.len();
        let choice = rng(self.config.seed, Purpose::DiffAugment, step, u64::MAX - rows.start as u64).random::<u64>();
        let AdversarialConfig { loss, lecam, reconstruction, .. } = self.config;
        let mut whole = InOrder::on(&device);
        for (index, micro) in self.micro_batches(samples, at.attempt).into_iter().enumerate() {
            let rows = rows.start + micro.rows.start..rows.start + micro.rows.end;
            let mut sums = Sums::default();
            faults.at(step, Phase::FakeImages, index);
            let fake = self.fake_images(plain, &micro, rows.clone(), step);
            faults.at(step, Phase::Upload, index);
            let real = upload(batch, rows.clone(), Precision::F32, &device);
            let pass = self.pass(&micro, rows.clone(), Half::Discriminator, step);

            faults.at(step, Phase::Forward, index);
            let real = self.change(real, rows.clone(), REAL, step);
            let judge = || discriminator.judge(Tensor::from_inner(real), choice);
            let (judgement, statistics) = pass::training(pass.clone(), judge);
            sums.statistics.merge(statistics);
            let scores = full(judgement.scores);
            let share = 1.0 / (samples * scores.dims()[1]) as f64;
            let mut lost = loss.of_real(scores.clone());
            if let Some(anchors) = anchors {
                lost = lost + anchors.of_real(scores.clone()).mul_scalar(lecam);
            }
            let mut lost = sum(lost).mul_scalar(share);
            if let Some(difference) = judgement.reconstruction.filter(|_| reconstruction > 0.0) {
                lost = lost + full(difference).mul_scalar(reconstruction * rows.len() as f64 / samples as f64);
            }
            faults.at(step, Phase::Backward, index);
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
            let lost = sum(lost).mul_scalar(share);
            sums.gradients.add(backward(&lost, loss_scale), discriminator);

            let believed = |scores: &Tensor<2>| {
                let believed = scores.clone().inner().greater_scalar(loss.threshold()).float();
                sum(believed).mul_scalar(share)
            };
            let average = |scores: &Tensor<2>| sum(scores.clone().inner()).mul_scalar(share);
            let of_fake = [average(&scores), believed(&scores)];
            let [mean_fake, fake_believed] = of_fake;
            sums.count([real.0.inner() + lost.inner(), average(&real.1), mean_fake, believed(&real.1), fake_believed]);
            whole.push(sums);
        }
        whole.finish().unwrap_or_default()
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
    fn learn<G: Generator, D: Discriminator>(&self, model: &G, discriminator: D, at: &Attempt) -> Sums {
        let &Attempt { step, plan, loss_scale } = at;
        let faults = &self.update.faults;
        let device = self.device.clone().without_autodiff();
        let batch = self.config.batch_size;
        let loss = self.config.loss;
        let mut whole = InOrder::on(&device);
        let valid = (plan.checkpointing != Checkpointing::None && model.segments() > 0).then(|| model.valid());
        for (index, micro) in self.micro_batches(batch, at).iter().enumerate() {
            let rows = micro.rows.clone();
            let mut sums = Sums::default();
            let pass = self.pass(micro, rows.clone(), Half::Generator, step);
            let latent = latents(self.config.seed, step, Half::Generator, rows.clone(), self.latent, &device);
            let latent = self.config.precision.cast(latent);
            faults.at(step, Phase::GeneratorForward, index);
            let judge = |images: Tensor<4>, pass| {
                let changed = self.change(images, rows.clone(), FAKE_FOR_GENERATOR, step);
                // The discriminator's statistics are those of its own half: these are not kept.
                let (scores, _) = pass::training(pass, || discriminator.forward(changed));
                let scores = full(scores);
                let share = 1.0 / (batch * scores.dims()[1]) as f64;
                sum(loss.of_generator(scores)).mul_scalar(share)
            };
            let (lost, images) = match &valid {
                None => {
                    let (images, statistics) =
                        pass::training(pass.clone(), || model.forward(Tensor::from_inner(latent)));
                    sums.statistics.merge(statistics);
                    let lost = judge(images.clone(), pass);
                    faults.at(step, Phase::GeneratorBackward, index);
                    sums.gradients.add(backward(&lost, loss_scale), model);
                    (lost, images.inner())
                }
                Some(valid) => {
                    let maps = vec![latent.reshape([rows.len(), self.latent, 1, 1])];
                    let run = |index, maps| valid.run_segment(index, maps);
                    let mut made = Segments::forward(pass.clone(), valid.segments(), maps, run);
                    sums.statistics.merge(std::mem::take(&mut made.statistics));
                    let images = made.maps.swap_remove(0);
                    let leaf = Tensor::from_inner(images.clone()).require_grad();
                    let lost = judge(leaf.clone(), pass);
                    faults.at(step, Phase::GeneratorBackward, index);
                    let mut found = backward(&lost, loss_scale);
                    let gradient = leaf.grad_remove(&mut found);
                    drop(found);
                    made.backward(
                        model,
                        0,
                        gradient,
                        |index, maps| model.run_segment(index, maps),
                        &mut sums.gradients,
                    );
                    (lost, images)
                }
            };
            sums.count([lost]);
            let images = full(images);
            whole.push(Learnt { sums, pixels: images.clone().sum_dim(0), squares: images.square().sum_dim(0) });
        }
        let Some(Learnt { mut sums, pixels, squares }) = whole.finish() else { return Sums::default() };
        let count = batch as f64;
        let variance = squares.div_scalar(count) - pixels.div_scalar(count).square();
        sums.numbers.push(mean(variance.clamp_min(0.0).sqrt()));
        sums
    }

    /// Images as the discriminator sees them. What is changed is changed in float32.
    fn change(&self, images: Tensor<4>, rows: Range<usize>, kind: u64, step: u64) -> Tensor<4> {
        let augment = self.config.diff_augment;
        let size = images.dims()[2];
        let changes = augment.draw(self.config.seed, step, rows, kind, size);
        self.config.precision.cast(augment.apply(full(images), &changes))
    }

    fn micro_batches(&self, total: usize, at: &Attempt) -> Vec<MicroBatch> {
        self.update.faults.micro_batches(at.step, self.cuts(total, at))
    }

    fn cuts(&self, total: usize, at: &Attempt) -> Vec<MicroBatch> {
        micro_batches_on(&self.device, total, self.config.ghost_batch_size, at.plan.micro_batch)
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
}

/// What some rows of the generator's half give.
struct Learnt {
    sums: Sums,
    /// The sum of the images, pixel by pixel, `[1, channels, height, width]`.
    pixels: Tensor<4>,
    /// The sum of their squares.
    squares: Tensor<4>,
}

impl Summand for Learnt {
    fn plus(self, next: Self) -> Self {
        Self {
            sums: self.sums.plus(next.sums),
            pixels: self.pixels + next.pixels,
            squares: self.squares + next.squares,
        }
    }
}

impl At<'_> {
    fn failed(&self, text: &str) -> TrainError {
        TrainError::of_device(Some(self.attempt.step), self.micro_batch, text)
    }
}

/// The numbers that a half has counted.
fn told<const N: usize>(checked: &Checked, at: &At<'_>) -> Result<[f64; N], TrainError> {
    checked.numbers.as_slice().try_into().map_err(|_| at.failed("the finite check is incomplete"))
}

/// The network whose scores count, what carries its gradients back, and in `spectral` the vectors after it.
fn normalise<D: Discriminator>(model: &D, spectral: &mut Option<SpectralNorm>) -> (D, Normalised) {
    let Some(known) = spectral else { return (model.clone(), Normalised::default()) };
    let (network, back, next) = known.normalise(model);
    *spectral = Some(next);
    (network, back)
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
