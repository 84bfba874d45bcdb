//! The masks that a network for segmentation draws on single images.

use anyhow::{Context, Result};
use kindling_data::{HostBatch, Image, Mask};
use kindling_trainer::{InWindows, Inference, segment};
use kindling_zoo::SegmentationNetwork;

use crate::config::RunConfig;

/// A network that is ready to draw masks.
pub(crate) struct Segmenter<'a> {
    pub(crate) network: &'a SegmentationNetwork,
    pub(crate) config: &'a RunConfig,
    pub(crate) inference: Inference<'a>,
    /// Whether images stay as large as they are, and are seen in windows.
    pub(crate) windows: Option<InWindows<'a, SegmentationNetwork>>,
}

impl Segmenter<'_> {
    /// The classes of the pixels of an image that is fitted to the run's size.
    pub(crate) fn of_fitted(&self, image: &Image) -> Result<Mask> {
        let preprocess = &self.config.data.preprocess;
        let batch = HostBatch {
            images: preprocess.to_tensor(image),
            shape: [1, preprocess.channels, preprocess.size, preprocess.size],
            labels: vec![0],
            samples: vec![0],
            ..HostBatch::default()
        };
        let found = segment(self.network, &batch, 0..1, &self.inference)?;
        found.first().map(|image| image.mask()).context("the network gave no answer")
    }

    /// The classes of the pixels of an image of any size.
    pub(crate) fn of(&mut self, image: Image) -> Result<Mask> {
        if let Some(windows) = &mut self.windows {
            return Ok(windows.mask(image)?);
        }
        let (width, height) = (image.width, image.height);
        let preprocess = &self.config.data.preprocess;
        let mask = self.of_fitted(&preprocess.fit_owned(image))?;
        Ok(preprocess.unfit_mask(&mask, width, height))
    }
}
