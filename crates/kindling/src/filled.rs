//! Networks with the weights of a file, whose head says how many classes there are.

use std::path::Path;

use anyhow::{Context, Result};
use burn::tensor::Device;
use kindling_zoo::weights::{self, Adapt};
use kindling_zoo::{Model, ModelOptions, Network, SegmentationModel, SegmentationNetwork};

use crate::output::note;

/// A classifier.
pub(crate) fn classifier(model: &Model, options: &ModelOptions, path: &Path, device: &Device) -> Result<Network> {
    let tensors = weights::read(path)?;
    let mut network = model.build_to_fill(options, device)?;
    if let Some(classes) = weights::classes(&network, model, &tensors) {
        let options = ModelOptions { classes, ..*options };
        network = model.build_to_fill(&options, device).with_context(|| head_of(path))?;
    }
    let (network, import) = weights::fill(network, model, path, tensors, Adapt::Stem)?;
    note!("{}: {import}", path.display());
    Ok(network)
}

/// A network for segmentation, with an auxiliary classifier where the file has one.
pub(crate) fn segmenter(
    model: &SegmentationModel,
    options: &ModelOptions,
    path: &Path,
    device: &Device,
) -> Result<SegmentationNetwork> {
    let tensors = weights::read(path)?;
    let auxiliary = model.decoder.has_auxiliary() && weights::has_auxiliary(&tensors);
    let options = ModelOptions { auxiliary, ..*options };
    let mut network = model.build_to_fill(&options, device)?;
    if let Some(classes) = weights::segmentation_classes(&network, model, &tensors) {
        let options = ModelOptions { classes, ..options };
        network = model.build_to_fill(&options, device).with_context(|| head_of(path))?;
    }
    let (network, import) = weights::fill_segmentation(network, model, path, tensors, Adapt::Stem)?;
    note!("{}: {import}", path.display());
    Ok(network)
}

fn head_of(path: &Path) -> String {
    format!("the head in {}", path.display())
}
