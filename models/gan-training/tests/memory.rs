//! What the discriminator's half keeps of the generator, by the meter: nothing but its images.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_data::{DataError, Image, Loader, LoaderConfig, Normalisation, Preprocess, Source};
use kindling_gan_training::{AdversarialConfig, AdversarialLoss, Adversaries, DiffAugment, Preview, trainer};
use kindling_layers::{Checkpointing, Discriminator, Generator, Judgement, Precision};
use kindling_memory::{CountingAllocator, host_usage};
use kindling_runs::{Event, RunDir};
use kindling_tests::{Optional, Suite, Test};
use kindling_trainer::{CHECKPOINT_EVERY, Setup, TrainError};
use kindling_zoo::{GanDiscriminator, GanGenerator, GanOptions, find_gan};

#[global_allocator]
static ALLOCATOR: CountingAllocator<std::alloc::System> = CountingAllocator(std::alloc::System);

thread_local! {
    /// Live bytes each time a network began: of the generator, and of the discriminator.
    static SEEN: RefCell<Vec<(Who, usize)>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Generator,
    DiscriminatorOfReal,
    DiscriminatorOfFake,
}

fn see(who: Who) {
    SEEN.with_borrow_mut(|seen| seen.push((who, host_usage().current)));
}

#[derive(Module, Debug)]
struct WatchedGenerator {
    network: GanGenerator,
}

impl Generator for WatchedGenerator {
    fn forward(&self, latent: Tensor<2>) -> Tensor<4> {
        see(Who::Generator);
        self.network.forward(latent)
    }
}

#[derive(Module, Debug)]
struct WatchedDiscriminator {
    network: GanDiscriminator,
}

impl Discriminator for WatchedDiscriminator {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        see(Who::DiscriminatorOfFake);
        self.network.forward(images)
    }

    fn judge(&self, images: Tensor<4>, choice: u64) -> Judgement {
        see(Who::DiscriminatorOfReal);
        self.network.judge(images, choice)
    }
}

struct Grey;

impl Source for Grey {
    fn len(&self) -> usize {
        64
    }
    fn label(&self, _: usize) -> usize {
        0
    }
    fn read(&self, index: usize) -> Result<Image, DataError> {
        Ok(Image::filled(64, 64, 1, index as f32 / 64.0))
    }
    fn name_of(&self, index: usize) -> String {
        index.to_string()
    }
}

struct Nobody;

impl Preview<WatchedGenerator> for Nobody {
    fn look(&mut self, _: u64, _: &WatchedGenerator) -> Result<Vec<Event>, TrainError> {
        Ok(Vec::new())
    }
}

/// Bytes between the beginning of the generator and that of the discriminator, in the halves of the second iteration.
fn kept(features: usize, batch: usize) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(Some(&folder.path().join("run")), "dcgan_64", "grey").unwrap();
    let config = AdversarialConfig {
        iterations: 2,
        batch_size: batch,
        rounds: 1,
        micro_batch: None,
        activation_checkpointing: Some(Checkpointing::None),
        ghost_batch_size: batch,
        loss: AdversarialLoss::Hinge,
        lr: 2e-4,
        lr_discriminator: 2e-4,
        cooldown: 0.0,
        betas: [0.5, 0.999],
        ema: 0.999,
        spectral_norm: true,
        lecam: 0.1,
        reconstruction: 0.0,
        precision: Precision::F32,
        diff_augment: DiffAugment::ALL,
        clip_norm: None,
        seed: 1,
        checkpoint_iterations: 100,
        checkpoint_every: CHECKPOINT_EVERY,
        sample_iterations: 100,
        extended: Vec::new(),
    };
    let half = || vec![0.5];
    let preprocess = Preprocess::padded(64, 1, Normalisation { mean: half(), std: half() });
    let loader = LoaderConfig::shuffled(batch, preprocess, 1);
    let (device, entry) = (Device::flex(), find_gan("dcgan_64").unwrap());
    let options = GanOptions { features, ..GanOptions::new(1, 1) };
    let train = Loader::new(Arc::new(Grey), loader).unwrap();
    let setup = Setup::new(entry.name, device.clone(), train, &run, batch);
    let networks = Adversaries {
        generator: WatchedGenerator { network: entry.generator(&options, &device) },
        discriminator: WatchedDiscriminator { network: entry.discriminator(&options, &device) },
    };
    SEEN.take();
    trainer(networks, config, entry.latent, &mut Nobody, setup).unwrap().fit(&mut |_: &Event| {}).unwrap();
    let seen = SEEN.take();
    // What comes before and after the iterations looks at the averaged generator.
    let first = seen.iter().position(|it| it.0 == Who::DiscriminatorOfReal).unwrap() - 1;
    let seen = &seen[first..first + 10];
    let who: Vec<Who> = seen.iter().map(|it| it.0).collect();
    let iteration =
        [Who::Generator, Who::DiscriminatorOfReal, Who::DiscriminatorOfFake, Who::Generator, Who::DiscriminatorOfFake];
    assert_eq!(who, [iteration, iteration].concat());
    let grown = |from: usize, to: usize| seen[to].1.saturating_sub(seen[from].1);
    (grown(5, 6), grown(8, 9))
}

fn main() -> ExitCode {
    let nothing = Optional::nothing();
    let name = "nothing_of_the_generator_is_alive_while_the_discriminator_trains";
    let mut suite = Suite::new();
    suite.add(&nothing, vec![Test::new(name, || nothing_is_alive(16, 16))]);
    // What benchmarks/2026-11-22-dcgan-graph-memory.json tells.
    let large = Test::new(format!("{name}_with_64_features"), || nothing_is_alive(64, 64));
    suite.add_nightly(&nothing, vec![large], "a minute");
    // They count the memory of the process.
    suite.one_at_a_time();
    suite.run()
}

fn nothing_is_alive(features: usize, batch: usize) {
    let images = batch * 64 * 64 * 4;
    let (discriminator, generator) = kept(features, batch);
    println!("without a graph {discriminator} bytes, with one {generator} bytes");
    // The made images, the real ones as they are and as they are changed; the rest is smaller than one of these.
    assert!(discriminator < 4 * images, "{discriminator} bytes beside images of {images}");
    // Where the graph is recorded the meter sees it: what a layer makes, for every layer.
    assert!(generator > 12 * images, "{generator} bytes beside images of {images}");
}
