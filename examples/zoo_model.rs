//! A network of the zoo in plain Burn: `cargo run --release -p kindling-examples --bin zoo_model`
//!
//! The loop, the loss and the optimizer are Burn's. Kindling adds the training pass, which collects the statistics of batch normalisation;
//! they are committed after the update. Outside a pass, every network infers.

use std::error::Error;

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Int, Tensor};
use kindling_layers::Classifier;
use kindling_layers::pass::{TrainingPass, training};
use kindling_zoo::{ModelOptions, find};

const BATCH: usize = 8;
const STEPS: u64 = 20;

/// Dark and bright noise of 32 x 32 pixels, with labels.
fn samples(device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
    device.seed(1);
    let labels = Tensor::<1, Int>::from_ints([0, 1, 0, 1, 0, 1, 0, 1], device);
    let brightness = labels.clone().float().reshape([BATCH, 1, 1, 1]);
    (Tensor::random([BATCH, 1, 32, 32], Distribution::Normal(-0.5, 0.5), device) + brightness, labels)
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let options = ModelOptions { in_channels: 1, classes: 2, ..ModelOptions::imagenet() };
    let mut model = find("mobilenet_v3_small")?.build(&options, &device)?;
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    let mut optimizer = AdamWConfig::new().init();
    let (images, labels) = samples(&device);

    for step in 1..=STEPS {
        // Dropout masks depend on the seed, the epoch and the numbers of the samples. Here, the batch is a whole epoch.
        let pass = TrainingPass { epoch: step, ..TrainingPass::whole_batch(BATCH) };
        let (logits, statistics) = training(pass, || model.forward(images.clone()));
        let loss = cross_entropy.forward(logits, labels.clone());
        println!("step {step}: loss {:.3}", loss.clone().into_scalar::<f32>());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        // In such a short run, running statistics have to forget their initial values quickly, so the momentum is a half and not a tenth.
        model = statistics.commit(optimizer.step(1e-3, model, gradients), 0.5);
    }

    let logits = model.valid().forward(images.inner());
    let right = logits.argmax(1).reshape([BATCH]).equal(labels.inner()).int().sum().into_scalar::<i64>();
    println!("{right} of {BATCH} images are recognised");
    Ok(())
}
