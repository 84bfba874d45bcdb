//! Trains a network of your own with Kindling's trainer: `cargo run --release -p kindling-examples --bin own_network`
//!
//! The trainer takes any Burn module that turns images into logits. Layers that mix samples or draw random numbers should come from
//! `kindling_layers`, because their results do not depend on the micro-batches that a batch is divided into when memory is short.

use std::error::Error;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_data::{Loader, LoaderConfig, Normalisation, Preprocess};
use kindling_layers::{Activation, BatchNormConfig, Classifier, Conv2dConfig, ConvNorm, ConvNormConfig, Linear};
use kindling_layers::{global_average_pool, init};
use kindling_runs::{Event, RunDir};
use kindling_trainer::{Setup, TrainConfig, Trainer};

const BATCH: usize = 8;

#[derive(Module, Debug)]
struct Network {
    first: ConvNorm,
    second: ConvNorm,
    classifier: Linear,
}

impl Network {
    fn new(classes: usize, device: &Device) -> Self {
        let conv = |input, output| {
            let conv = Conv2dConfig::new(input, output, 3, 2);
            ConvNormConfig { conv, norm: BatchNormConfig::default(), activation: Activation::Relu }.init(device)
        };
        Self { first: conv(1, 8), second: conv(8, 16), classifier: Linear::new(16, classes, device) }
    }
}

impl Classifier for Network {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let maps = self.second.forward(self.first.forward(images));
        self.classifier.forward(global_average_pool(maps))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let data = kindling_phantoms::dataset_with(1, 24, 6, 0);
    let classes = data.classes.len();
    let normalisation = data.normalisation.unwrap_or(Normalisation::identity(data.channels));
    let preprocess = Preprocess::padded(32, data.channels, normalisation);
    let device = Device::flex();
    let network = init::initialise(Network::new(classes, &device), 1);
    // A new folder below runs/.
    let run = RunDir::create(None, "own-network", &data.name)?;
    let train = Loader::new(data.train, LoaderConfig::shuffled(BATCH, preprocess.clone(), 1))?;
    let validation = Loader::new(data.val, LoaderConfig::in_order(BATCH, preprocess))?;
    let setup = Setup::new("own-network", device, train, &run, BATCH);
    let mut trainer = Trainer::new(network, TrainConfig::new(BATCH, 2), classes, validation, setup)?;
    // Receives the events that are also written to the log of the run.
    trainer.fit(&mut |event: &Event| {
        if let Event::Step { step, loss, .. } = event {
            println!("step {step}: loss {loss:.3}");
        }
    })?;
    println!("{} steps are done, and the weights are in {}", trainer.progress().step, run.last_weights().display());
    Ok(())
}
