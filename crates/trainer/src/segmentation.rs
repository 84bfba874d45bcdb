//! The training of a network for segmentation.

use kindling_data::Loader;
use kindling_layers::Segmenter;

use crate::config::TrainConfig;
use crate::error::TrainError;
use crate::fit::Trainer;
use crate::inference::Inference;
use crate::loss::SegmentationLoss;
use crate::model_state::ModelState;
use crate::run::Setup;
use crate::segmented::evaluate_pixels;
use crate::supervised::{Judged, Objective, Supervised};
use crate::trainable::Trainable;

/// How a network for segmentation is trained; see [`Trainer::segmenting`].
pub type Segmentation = Supervised<PixelClasses, 4>;

/// Which of so many classes a pixel is.
pub struct PixelClasses(usize);

impl<'a, M: Segmenter> Trainer<'a, ModelState<M>, Segmentation> {
    /// A run of a network at its start that gives each pixel one of so many classes, of which the first is the background. `model` is on
    /// the setup's device; `validation` gives the samples, in order, that it is judged on after each epoch, by the mean Dice of
    /// the other classes. Both loaders give masks.
    ///
    /// # Errors
    /// [`TrainError::Config`] for values that cannot be, [`TrainError::Run`] if the event log cannot be opened.
    pub fn segmenting(
        model: M,
        config: TrainConfig,
        classes: usize,
        validation: Loader,
        setup: Setup<'a>,
    ) -> Result<Self, TrainError> {
        config.check(classes)?;
        Supervised::trainer(
            model,
            config.clone(),
            (config.pixel_loss(classes), PixelClasses(classes)),
            validation,
            setup,
        )
    }
}

impl TrainConfig {
    /// The loss that a network for segmentation minimises, over `classes` classes.
    pub(crate) fn pixel_loss(&self, classes: usize) -> SegmentationLoss {
        let (weights, asked) = (self.class_weights.as_deref(), self.segmentation.clone().unwrap_or_default());
        SegmentationLoss::new(&asked, classes, self.label_smoothing, weights)
    }
}

impl Objective<4> for PixelClasses {
    type Loss = SegmentationLoss;

    fn judge<M: Trainable<4>>(
        &self,
        model: &M,
        loader: &Loader,
        inference: &Inference<'_>,
        watch: impl FnMut(usize),
    ) -> Result<Judged, TrainError> {
        let evaluation = evaluate_pixels(model, loader, self.0, inference, watch, |_, _| Ok(()))?;
        Ok(Judged {
            // Where no image has anything but background, and none is said to have, there is nothing to choose by.
            criterion: if evaluation.dice.is_nan() { 0.0 } else { evaluation.dice },
            loss: evaluation.score.loss,
            accuracy: Some(evaluation.score.accuracy),
            dice: Some(evaluation.dice),
            regression: None,
            samples: evaluation.score.samples,
            bad: evaluation.bad,
            recoveries: evaluation.recoveries,
        })
    }
}
