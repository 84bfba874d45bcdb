//! The training of a network that answers with a number.

use kindling_data::Loader;
use kindling_layers::Classifier;

use crate::config::TrainConfig;
use crate::error::TrainError;
use crate::evaluate::evaluate_values;
use crate::fit::Trainer;
use crate::inference::Inference;
use crate::loss::ValueLoss;
use crate::model_state::ModelState;
use crate::run::Setup;
use crate::supervised::{Judged, Objective, Supervised};
use crate::trainable::Trainable;

/// How a network that answers with a number is trained; see [`Trainer::regressing`].
pub type Regression = Supervised<ImageValue, 2>;

/// Which number an image has.
pub struct ImageValue(ValueLoss);

impl<'a, M: Classifier> Trainer<'a, ModelState<M>, Regression> {
    /// A run of a network with one output, before its first step. `model` is on the setup's device. After each epoch it is judged by its
    /// squared errors on the samples of `validation`, which come in order. Both loaders give numbers in the same scale.
    ///
    /// # Errors
    /// [`TrainError::Config`] for values that cannot be, [`TrainError::Run`] if the event log cannot be opened.
    pub fn regressing(model: M, config: TrainConfig, validation: Loader, setup: Setup<'a>) -> Result<Self, TrainError> {
        config.check(1)?;
        let loss = config.regression.unwrap_or_default();
        Supervised::trainer(model, config, (loss, ImageValue(loss)), validation, setup)
    }
}

impl Objective<2> for ImageValue {
    type Loss = ValueLoss;

    fn judge<M: Trainable<2>>(
        &self,
        model: &M,
        loader: &Loader,
        inference: &Inference<'_>,
        watch: impl FnMut(usize),
    ) -> Result<Judged, TrainError> {
        let evaluation = evaluate_values(model, loader, self.0, inference, watch)?;
        let score = evaluation.score;
        Ok(Judged {
            // It orders as R2 does, and is defined where all numbers are alike.
            criterion: if score.rmse.is_nan() { f64::NEG_INFINITY } else { -score.rmse },
            loss: evaluation.loss,
            accuracy: None,
            dice: None,
            regression: Some(score),
            samples: score.samples,
            bad: evaluation.bad,
            recoveries: evaluation.recoveries,
        })
    }
}
