//! Features of images: what MobileNetV2, pretrained on ImageNet, averages over pixels before its classifier.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Result, anyhow};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use kindling_data::{Image, Normalisation, Preprocess};
use kindling_layers::{Checkpointing, Classifier, global_average_pool, host};
use kindling_memory::panic_message;
use kindling_metrics::Features;
use kindling_zoo::weights::{self, Adapt};
use kindling_zoo::{ModelOptions, Network, find};

use crate::pretrained;

/// What makes the features.
const MODEL: &str = "mobilenet_v2";
/// Images computed at once.
const AT_ONCE: usize = 16;

/// A network that looks at images.
pub(super) struct Extractor {
    network: Network,
    device: Device,
    preprocess: Preprocess,
}

impl Extractor {
    /// The pretrained network, for images of `image_size` pixels.
    ///
    /// # Errors
    /// If its weights are not there.
    pub(super) fn new(image_size: usize, device: &Device) -> Result<Self> {
        let model = find(MODEL)?;
        let (known, path) = pretrained::find(&model)?;
        let network = model.build_to_fill(&ModelOptions::imagenet(), device)?;
        let (network, _) = weights::load(network, &model, &path, Adapt::Strict)?;
        let normalisation: Normalisation = pretrained::normalisation(known, 3);
        let preprocess = Preprocess::padded(side(image_size), 3, normalisation);
        Ok(Self { network: network.valid(), device: device.clone(), preprocess })
    }

    /// In words, for whoever reads a distance.
    pub(super) fn name(&self) -> String {
        let side = self.preprocess.size;
        format!("the zoo's pretrained MobileNetV2 at {side}x{side}")
    }

    /// The features of some images.
    pub(super) fn features(&self, images: &[Image]) -> Result<Features> {
        let mut values: Vec<f64> = Vec::new();
        let mut width = 1;
        for images in images.chunks(AT_ONCE) {
            let pixels: Vec<f32> = images.iter().flat_map(|image| self.preprocess.apply(image)).collect();
            let shape = [images.len(), 3, self.preprocess.size, self.preprocess.size];
            let forward = || {
                let x = Tensor::<4>::from_data(TensorData::new(pixels, shape), &self.device);
                let stages = Checkpointing::Stages;
                let run = |x, index| self.network.run_segment(stages, index, x);
                let x = (0..self.network.segments(stages)).fold(x, run);
                let pooled = global_average_pool(x);
                (pooled.dims()[1], host::read(pooled))
            };
            let (found, data) = catch_unwind(AssertUnwindSafe(forward))
                .map_err(|panic| anyhow!("the device failed: {}", panic_message(panic.as_ref())))?;
            width = found;
            let data = data.map_err(|error| anyhow!("the device failed: {error}"))?;
            values.extend(data.convert::<f64>().try_to_vec::<f64>().map_err(|error| anyhow!("{error:?}"))?);
        }
        Ok(Features::new(values, width)?)
    }
}

/// Small images are looked at larger, so that something is left of them after five halvings.
fn side(image_size: usize) -> usize {
    if image_size < 224 { 128 } else { 224 }
}
