//! What happens in a run, one line an event.

use serde::{Deserialize, Serialize};

/// One line of `events.jsonl`.
///
/// Steps and epochs count from 1: the first optimizer step is step 1, of epoch 1. Numbers that are not finite are
/// written as `"NaN"`, `"inf"` and `"-inf"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The run began. The first line.
    Started {
        /// When, in local time with offset (RFC 3339).
        time: String,
        /// The model's name in the zoo.
        model: String,
        /// The data set's name or path.
        data: String,
        /// Names of the classes, in the order of their indices.
        classes: Vec<String>,
        /// Trainable parameters.
        parameters: u64,
        /// The device, in words.
        device: String,
        /// Height and width of the images in pixels.
        image_size: usize,
        /// Images an optimizer step.
        global_batch: usize,
        /// Images on the device at a time, at the start.
        micro_batch: usize,
        /// Optimizer steps planned.
        steps_total: u64,
    },
    /// A device that compiles kernels chose them while it was empty.
    WarmedUp {
        /// The last step that was committed before.
        step: u64,
        /// Images at a time for which a step was computed and thrown away, ascending.
        micro_batches: Vec<usize>,
        /// Images at a time that did not fit.
        too_large: Option<usize>,
        /// How long it took.
        #[serde(with = "kindling_metrics::number")]
        seconds: f64,
    },
    /// One optimizer step was committed.
    Step {
        /// The step, from 1.
        step: u64,
        /// The epoch it belongs to, from 1.
        epoch: u64,
        /// Mean training loss of the global batch.
        #[serde(with = "kindling_metrics::number")]
        loss: f64,
        /// Learning rate of this step.
        #[serde(with = "kindling_metrics::number")]
        lr: f64,
        /// Training speed.
        #[serde(with = "kindling_metrics::number")]
        images_per_second: f64,
        /// Images on the device at a time in this step.
        micro_batch: usize,
        /// The most device memory used up to now; 0 where it cannot be measured.
        peak_memory_bytes: u64,
        /// Norm of the whole gradient, before clipping.
        #[serde(with = "kindling_metrics::number")]
        gradient_norm: f64,
        /// Seconds of this step spent waiting for its batch.
        #[serde(default, with = "kindling_metrics::number")]
        waiting_seconds: f64,
        /// Seconds of running time up to now, over all sittings.
        #[serde(with = "kindling_metrics::number")]
        seconds: f64,
        /// What it reports about the processes that computed it, where there are several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        together: Option<Together>,
    },
    /// A gradient of a half format was not finite, and the update was left out.
    Skipped {
        /// The step whose batch it was.
        step: u64,
        /// What the loss is multiplied by from now on.
        #[serde(with = "kindling_metrics::number")]
        loss_scale: f64,
    },
    /// A sample could not be read, and the run went on without it. Told once a sample.
    BadSample {
        /// The last step that was committed before.
        step: u64,
        /// `train`, `val` or `test`.
        split: String,
        /// Its path, or what its source calls it.
        path: String,
        /// Why it could not be read.
        reason: String,
    },
    /// One iteration of two networks against each other was committed.
    Iteration {
        /// The iteration, from 1.
        step: u64,
        /// The pass over the images that it belongs to, from 1.
        epoch: u64,
        /// The discriminator's loss.
        #[serde(with = "kindling_metrics::number")]
        discriminator_loss: f64,
        /// The generator's loss.
        #[serde(with = "kindling_metrics::number")]
        generator_loss: f64,
        /// Norm of the discriminator's whole gradient, before clipping.
        #[serde(with = "kindling_metrics::number")]
        discriminator_norm: f64,
        /// Norm of the generator's whole gradient, before clipping.
        #[serde(with = "kindling_metrics::number")]
        generator_norm: f64,
        /// Share of real images that the discriminator took for real, 0 to 1.
        #[serde(with = "kindling_metrics::number")]
        real_believed: f64,
        /// Share of fake images that it took for real, 0 to 1.
        #[serde(with = "kindling_metrics::number")]
        made_believed: f64,
        /// How much fake images differ from each other, as a share of what real ones do.
        #[serde(with = "kindling_metrics::number")]
        spread: f64,
        /// Training speed, in real images.
        #[serde(with = "kindling_metrics::number")]
        images_per_second: f64,
        /// Images on the device at a time.
        micro_batch: usize,
        /// The most device memory used up to now; 0 where it cannot be measured.
        peak_memory_bytes: u64,
        /// Seconds of running time in this sitting up to now.
        #[serde(with = "kindling_metrics::number")]
        seconds: f64,
    },
    /// Samples of a generator were drawn from noise that stays the same.
    Sampled {
        /// After which iteration.
        step: u64,
        /// The picture, relative to the run's folder.
        path: String,
    },
    /// Made images were compared with real ones.
    Compared {
        /// After which iteration.
        step: u64,
        /// Frechet distance of their features; 0 is equal.
        #[serde(with = "kindling_metrics::number")]
        frechet: f64,
        /// Kernel distance of their features; around 0 is equal.
        #[serde(with = "kindling_metrics::number")]
        kernel: f64,
        /// Images of either kind.
        samples: usize,
    },
    /// Something that a person should look at; the run goes on.
    Warned {
        /// After which step.
        step: u64,
        /// What.
        text: String,
    },
    /// The model was evaluated.
    Evaluated {
        /// After which step.
        step: u64,
        /// After which epoch, or in which.
        epoch: u64,
        /// `train`, `validation` or `test`.
        split: String,
        /// Mean loss.
        #[serde(with = "kindling_metrics::number")]
        loss: f64,
        /// Share of right answers, 0 to 1; of a model that segments, the share of pixels that it gives their class. None of one that
        /// answers with a number.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "kindling_metrics::number::option")]
        accuracy: Option<f64>,
        /// Images evaluated.
        samples: usize,
        /// Mean foreground Dice, 0 to 1, of a model that segments; NaN where a class lies in no image. None of other models.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "kindling_metrics::number::option")]
        dice: Option<f64>,
        /// Mean absolute error, in the number's unit, of a model that answers with one. None of other models.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "kindling_metrics::number::option")]
        mae: Option<f64>,
        /// Share of the number's variance that such a model explains, at most 1; NaN where all are equal. None of other models.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "kindling_metrics::number::option")]
        r2: Option<f64>,
    },
    /// A state to resume from was saved.
    Checkpoint {
        /// After which step.
        step: u64,
        /// Where, relative to the run's folder.
        path: String,
        /// Seconds that it took, in which nothing was computed.
        #[serde(default, with = "kindling_metrics::number")]
        seconds: f64,
    },
    /// Memory ran out, and the same work was done again with less.
    Recovered {
        /// The last step that was committed before.
        step: u64,
        /// What was going on: `training`, `evaluation` or `checkpoint`.
        during: String,
        /// What the device said, in short.
        reason: String,
        /// What was done about it.
        lever: String,
        /// What it cost.
        #[serde(with = "kindling_metrics::number")]
        seconds: f64,
    },
    /// From the next step on another number of samples is computed at once, or other maps are kept; nothing had failed.
    Replanned {
        /// The last step that was committed before.
        step: u64,
        /// Why.
        reason: String,
        /// What changes.
        lever: String,
    },
    /// The run was stopped in an orderly way, and saved.
    Interrupted {
        /// After which step.
        step: u64,
    },
    /// The run goes on.
    Resumed {
        /// After which step.
        step: u64,
    },
    /// A run that was complete goes on, since it was made longer.
    Extended {
        /// After which step.
        step: u64,
        /// Optimizer steps planned now.
        steps_total: u64,
        /// Learning rate of the next step.
        #[serde(with = "kindling_metrics::number")]
        lr: f64,
    },
    /// The run ends before its last step, because for some epochs no score was better.
    EndedEarly {
        /// The last step.
        step: u64,
        /// Epochs done.
        epoch: u64,
        /// The number of the best one, from 1.
        best_epoch: Option<u64>,
    },
    /// The run is complete.
    Finished {
        /// The last step.
        step: u64,
        /// Seconds of running time, over all sittings.
        #[serde(with = "kindling_metrics::number")]
        seconds: f64,
    },
}

/// What a step reports about the processes that computed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// Which process took the longest for its share, with its machine.
    pub slowest: String,
    /// How long that was.
    #[serde(with = "kindling_metrics::number")]
    pub slowest_seconds: f64,
    /// Seconds that the first process waited for others, moving of gradients included.
    #[serde(with = "kindling_metrics::number")]
    pub waited_seconds: f64,
    /// Bytes that the first process sent to others.
    pub sent_bytes: u64,
}

impl Event {
    /// The step after which this happened; `None` for the start.
    pub fn step(&self) -> Option<u64> {
        match self {
            Self::Started { .. } => None,
            Self::Step { step, .. }
            | Self::WarmedUp { step, .. }
            | Self::Skipped { step, .. }
            | Self::BadSample { step, .. }
            | Self::Iteration { step, .. }
            | Self::Sampled { step, .. }
            | Self::Compared { step, .. }
            | Self::Warned { step, .. }
            | Self::Evaluated { step, .. }
            | Self::Checkpoint { step, .. }
            | Self::Recovered { step, .. }
            | Self::Replanned { step, .. }
            | Self::Interrupted { step }
            | Self::Resumed { step }
            | Self::Extended { step, .. }
            | Self::EndedEarly { step, .. }
            | Self::Finished { step, .. } => Some(*step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(loss: f64, dice: Option<f64>) -> Event {
        let (accuracy, samples, mae, r2) = (Some(0.0), 3, None, None);
        Event::Evaluated { step: 1, epoch: 1, split: "test".into(), loss, accuracy, samples, dice, mae, r2 }
    }

    #[test]
    fn an_event_is_one_line_that_says_what_it_is() {
        let line = serde_json::to_string(&Event::Interrupted { step: 7 }).unwrap();
        assert_eq!(line, r#"{"event":"interrupted","step":7}"#);
    }

    #[test]
    fn a_loss_that_is_not_finite_survives_the_file() {
        for loss in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5, 2.0] {
            let event = evaluated(loss, None);
            let line = serde_json::to_string(&event).unwrap();
            let Event::Evaluated { loss: back, .. } = serde_json::from_str(&line).unwrap() else {
                panic!("{line}");
            };
            assert!(back == loss || (back.is_nan() && loss.is_nan()), "{line}");
        }
    }

    #[test]
    fn a_number_is_off_by_so_much_and_neither_right_nor_wrong() {
        let of = |mae, r2| Event::Evaluated {
            step: 1,
            epoch: 1,
            split: "test".into(),
            loss: 0.5,
            accuracy: None,
            samples: 3,
            dice: None,
            mae: Some(mae),
            r2: Some(r2),
        };
        let line = serde_json::to_string(&of(1.25, f64::NAN)).unwrap();
        assert!(line.ends_with(r#""loss":0.5,"samples":3,"mae":1.25,"r2":"NaN"}"#), "{line}");
        let line = serde_json::to_string(&of(1.25, 0.5)).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), of(1.25, 0.5));
    }

    #[test]
    fn only_runs_that_segment_say_dice_and_logs_of_others_keep_their_bytes() {
        let before = r#"{"event":"evaluated","step":1,"epoch":1,"split":"test","loss":0.5,"accuracy":0.0,"samples":3}"#;
        assert_eq!(serde_json::to_string(&evaluated(0.5, None)).unwrap(), before);
        assert_eq!(serde_json::from_str::<Event>(before).unwrap(), evaluated(0.5, None));
        for (dice, text) in [(0.75, "0.75"), (f64::NAN, "\"NaN\"")] {
            let line = serde_json::to_string(&evaluated(0.5, Some(dice))).unwrap();
            assert_eq!(line, before.replace('}', &format!(r#","dice":{text}}}"#)));
            let Event::Evaluated { dice: Some(back), .. } = serde_json::from_str(&line).unwrap() else {
                panic!("{line}")
            };
            assert_eq!(back.to_bits(), dice.to_bits(), "{line}");
        }
    }
}
