//! How samples are inferred: where, in which format, by which views, and how much at once.

use burn::tensor::Device;
use kindling_layers::Precision;
use kindling_ops as ops;

use crate::fault::Faults;
use crate::ranks::Ranks;
use crate::views::Views;

/// How samples are inferred: those of a split, or of some rows of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Inference<'a> {
    /// Where the model is, without gradients.
    pub device: &'a Device,
    /// Samples of a split computed at once, at first; fewer where memory runs out. On the CPU without influence on the result; elsewhere
    /// it changes last digits, see [`samples_at_once`].
    pub micro_batch: usize,
    /// The format of feature maps.
    pub precision: Precision,
    /// What the model sees of each image.
    pub views: Views,
    /// Failures to come, and the step they are told of.
    pub(crate) faults: Option<(&'a Faults, u64)>,
    /// Who does it together, where several processes do.
    pub(crate) ranks: Option<&'a Ranks>,
}

impl<'a> Inference<'a> {
    /// On `device`, `micro_batch` samples at a time.
    pub fn new(device: &'a Device, micro_batch: usize, precision: Precision) -> Self {
        let micro_batch = micro_batch.max(1);
        Self { device, micro_batch, precision, views: Views::default(), faults: None, ranks: None }
    }

    /// The same, with other views of each image.
    pub fn seeing(self, views: Views) -> Self {
        Self { views, ..self }
    }

    /// The same, divided among the processes of a run: each takes a part of the batches, and learns what all found. All of them must
    /// call it.
    pub fn divided(self, ranks: &'a Ranks) -> Self {
        Self { ranks: (!ranks.is_alone()).then_some(ranks), ..self }
    }

    /// Says to the watchdog of several processes that some samples are done.
    pub(crate) fn lives(&self) {
        if let Some(ranks) = self.ranks {
            ranks.lives();
        }
    }
}

/// How many samples a run infers at once, so that its scores are the same for every plan: `fitting`, the plan's, where each
/// sample is inferred by itself, and elsewhere always `group`, the samples of its largest normalisation group, which fit
/// wherever a step does.
pub fn samples_at_once(device: &Device, group: usize, fitting: usize) -> usize {
    if ops::infers_samples_alone(device) { fitting } else { group }
}
