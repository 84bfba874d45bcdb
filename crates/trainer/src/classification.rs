//! The training of a classifier.

use kindling_data::{Loader, Task};
use kindling_layers::Classifier;

use crate::config::TrainConfig;
use crate::error::TrainError;
use crate::evaluate::evaluate;
use crate::fit::Trainer;
use crate::inference::Inference;
use crate::loss::ImageLoss;
use crate::model_state::ModelState;
use crate::run::Setup;
use crate::supervised::{Judged, Objective, Supervised};
use crate::trainable::Trainable;

/// How a classifier is trained; see [`Trainer::new`].
pub type Classification = Supervised<ImageClasses, 2>;

/// Which of so many classes an image is, or which of them it has.
pub struct ImageClasses(usize);

impl<'a, M: Classifier> Trainer<'a, ModelState<M>, Classification> {
    /// A run of a classifier of so many classes at its start. `model` is on the setup's device; `validation` gives the
    /// samples, in order, that it is judged on after each epoch.
    ///
    /// # Errors
    /// [`TrainError::Config`] for values that cannot be, [`TrainError::Run`] if the event log cannot be opened.
    pub fn new(
        model: M,
        config: TrainConfig,
        classes: usize,
        validation: Loader,
        setup: Setup<'a>,
    ) -> Result<Self, TrainError> {
        config.check(classes)?;
        let loss = config.image_loss(setup.train.task(), classes);
        Supervised::trainer(model, config, (loss, ImageClasses(classes)), validation, setup)
    }
}

impl TrainConfig {
    /// The loss that a network that answers for a whole image minimises in a task over `classes` classes.
    pub(crate) fn image_loss(&self, task: Task, classes: usize) -> ImageLoss {
        let (weights, value) = (self.class_weights.as_deref(), self.regression.unwrap_or_default());
        ImageLoss::new(task, classes, self.label_smoothing, weights, value)
    }
}

impl Objective<2> for ImageClasses {
    type Loss = ImageLoss;

    fn judge<M: Trainable<2>>(
        &self,
        model: &M,
        loader: &Loader,
        inference: &Inference<'_>,
        watch: impl FnMut(usize),
    ) -> Result<Judged, TrainError> {
        let evaluation = evaluate(model, loader, self.0, inference, watch)?;
        let score = evaluation.score;
        Ok(Judged {
            criterion: score.criterion(),
            loss: score.loss,
            accuracy: Some(score.accuracy),
            dice: None,
            regression: None,
            samples: score.samples,
            bad: evaluation.bad,
            recoveries: evaluation.recoveries,
        })
    }
}
