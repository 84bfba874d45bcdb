//! Which sample stands at which place of an epoch.

use std::sync::Arc;

use kindling_random::{Purpose, rng};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::LoaderConfig;
use super::foreground::{Foreground, first_drawn};
use crate::error::DataError;
use crate::order::{order, order_of_stretches};
use crate::source::{Source, Task};
use kindling_given::{Named, UnknownName};

/// Samples that the next one of a shard is drawn from.
const SHUFFLE_BUFFER: usize = 1024;

/// How the samples of a shuffled epoch are chosen. Written `even`, `balanced`, `weights` and `foreground`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
pub enum Sampling {
    /// Every sample once.
    #[default]
    Even,
    /// As many draws as there are samples, with replacement, in which every class is as likely as any other. A sample of
    /// several classes counts as one of its rarest.
    Balanced,
    /// As many draws as there are samples, with replacement, each sample as likely as [`Source::weight`] says.
    Weights,
    /// Of images with masks: a third of each batch ([`FOREGROUND_SHARE`](crate::FOREGROUND_SHARE), rounded as nnU-Net does, its last
    /// places) shows something. For each of these places a class is drawn, all but the background alike, and then an image whose mask has
    /// it. At the other places of an epoch stand the samples that stand there otherwise.
    Foreground,
}

impl Named for Sampling {
    const KIND: &str = "sampling";
}

impl Sampling {
    /// Fails where batches of so many samples cannot be drawn so, whatever the samples are.
    ///
    /// # Errors
    /// [`DataError::Foreground`] if the task has no masks, or a third of the batch is no sample.
    pub fn check(self, task: Task, batch_size: usize) -> Result<(), DataError> {
        let refused = |what: &'static str| Err(DataError::Foreground { what });
        if self != Self::Foreground {
            return Ok(());
        }
        if task != Task::Segmentation {
            return refused(
                "it looks for classes in masks, and only --task segmentation has masks; --sampling balanced is for classes of images",
            );
        }
        if first_drawn(batch_size) == batch_size {
            return refused("a third of a batch of one sample is nothing; give a --batch-size of 2 or more");
        }
        Ok(())
    }
}

/// What stands at a place of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) sample: u64,
    /// 0 where a sample occurs once an epoch; otherwise another one each time, for random numbers of its own.
    pub(crate) showing: u64,
}

/// The weights of a source's samples, added up. Made once.
#[derive(Debug, PartialEq)]
pub(crate) struct Weights(Vec<f64>);

impl Weights {
    /// The weights that a sampling needs; none where it needs none.
    pub(crate) fn of(source: &dyn Source, sampling: Sampling) -> Result<Option<Self>, DataError> {
        let weights: Vec<f64> = match sampling {
            Sampling::Even | Sampling::Foreground => return Ok(None),
            Sampling::Balanced => balanced(source),
            Sampling::Weights => (0..source.len()).map(|index| f64::from(source.weight(index))).collect(),
        };
        if let Some(index) = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
            return Err(DataError::Weight { name: source.name_of(index), weight: weights[index] });
        }
        let mut sum = 0.0;
        let sums: Vec<f64> = weights
            .iter()
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        if sum > 0.0 || sums.is_empty() {
            Ok(Some(Self(sums)))
        } else {
            Err(DataError::NoSamples { purpose: "draw: every weight is 0" })
        }
    }

    /// The sample that a number from 0 to 1 stands for: as likely as its weight.
    fn at(&self, number: f64) -> u64 {
        let sum = self.0.last().copied().unwrap_or(0.0);
        let found = self.0.partition_point(|upto| *upto <= number * sum);
        // Rounding can reach the sum itself; then it is the last sample that has a weight.
        let last = self.0.partition_point(|upto| *upto < sum);
        found.min(last) as u64
    }
}

/// One over the size of the rarest class of each sample; samples without a class are a class.
fn balanced(source: &dyn Source) -> Vec<f64> {
    let labels: Vec<Vec<usize>> = (0..source.len()).map(|index| source.labels(index)).collect();
    let classes = labels.iter().flatten().max().map_or(0, |most| most + 1);
    let mut counts = vec![0usize; classes];
    labels.iter().flatten().for_each(|&class| counts[class] += 1);
    let none = labels.iter().filter(|labels| labels.is_empty()).count();
    let rarest = |labels: &Vec<usize>| labels.iter().map(|&class| counts[class]).min().unwrap_or(none);
    labels.iter().map(|labels| 1.0 / rarest(labels) as f64).collect()
}

/// What must be known of all samples before any is drawn. Made once.
#[derive(Clone)]
pub(crate) enum Drawing {
    /// Nothing: each is there once.
    Once,
    /// How likely each is.
    Weights(Arc<Weights>),
    /// What each shows.
    Foreground(Arc<Foreground>),
}

impl Drawing {
    /// What the sampling of a loader needs to know of its source. `progress` is called after every sample that is looked at.
    ///
    /// # Errors
    /// [`DataError::Weight`], [`DataError::NoSamples`] or [`DataError::Foreground`] if samples cannot be drawn so, and those of masks.
    pub(crate) fn of(
        source: &dyn Source,
        config: &LoaderConfig,
        progress: impl Fn() + Sync,
    ) -> Result<Self, DataError> {
        if !config.shuffle {
            return Ok(Self::Once);
        }
        config.sampling.check(config.task, config.batch_size)?;
        if config.sampling == Sampling::Foreground {
            return Ok(Self::Foreground(Arc::new(Foreground::of(source, config, progress)?)));
        }
        let weights = Weights::of(source, config.sampling)?;
        Ok(weights.map_or(Self::Once, |weights| Self::Weights(Arc::new(weights))))
    }
}

/// The places of one epoch.
#[derive(Clone)]
pub(crate) enum EpochOrder {
    /// Listed.
    Listed(Arc<[u64]>),
    /// Drawn with replacement: each place by itself, so that none has to be drawn before another.
    Drawn { seed: u64, epoch: u64, len: usize, weights: Arc<Weights> },
    /// Listed, but for the last places of each batch, which are drawn with replacement, each by itself.
    Mixed { seed: u64, epoch: u64, batch_size: usize, listed: Arc<[u64]>, foreground: Arc<Foreground> },
}

impl EpochOrder {
    /// The places of an epoch of a loader.
    pub(crate) fn of(epoch: u64, source: &dyn Source, config: &LoaderConfig, drawing: &Drawing) -> Self {
        let &LoaderConfig { seed, batch_size, shuffle, .. } = config;
        let listed = || once(seed, epoch, source, shuffle);
        match drawing.clone() {
            Drawing::Once => Self::Listed(listed()),
            Drawing::Weights(weights) => Self::Drawn { seed, epoch, len: source.len(), weights },
            Drawing::Foreground(foreground) => Self::Mixed { seed, epoch, batch_size, listed: listed(), foreground },
        }
    }

    /// What stands at a place, if there is such a place.
    pub(crate) fn at(&self, place: usize) -> Option<Place> {
        match self {
            Self::Listed(samples) => samples.get(place).map(|&sample| Place { sample, showing: 0 }),
            Self::Drawn { seed, epoch, len, weights } => (place < *len).then(|| {
                // 53 bits: every number of the interval that a double can hold at this spacing.
                let word: u64 = rng(*seed, Purpose::Sampling, *epoch, place as u64).random();
                let number = (word >> 11) as f64 / (1u64 << 53) as f64;
                Place { sample: weights.at(number), showing: place as u64 + 1 }
            }),
            Self::Mixed { seed, epoch, batch_size, listed, foreground } => {
                let &sample = listed.get(place)?;
                let row = place % batch_size;
                let rows = (*batch_size).min(listed.len() - (place - row));
                Some(if row < first_drawn(rows) {
                    Place { sample, showing: 0 }
                } else {
                    Place { sample: foreground.at(*seed, *epoch, place)?, showing: place as u64 + 1 }
                })
            }
        }
    }
}

/// Every sample once, shuffled or not. What is best read one after another nearly is.
fn once(seed: u64, epoch: u64, source: &dyn Source, shuffle: bool) -> Arc<[u64]> {
    let (len, stretches) = (source.len(), source.stretches());
    match (shuffle, stretches.is_empty()) {
        (false, _) => (0..len as u64).collect(),
        (true, true) => order(seed, epoch, len).into(),
        (true, false) => order_of_stretches(seed, epoch, &stretches, SHUFFLE_BUFFER).into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::decode::Image;

    /// Samples with classes and weights.
    struct Set(Vec<(Vec<usize>, f32)>);

    impl Source for Set {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn label(&self, index: usize) -> usize {
            self.0[index].0.first().copied().unwrap_or(0)
        }
        fn labels(&self, index: usize) -> Vec<usize> {
            self.0[index].0.clone()
        }
        fn weight(&self, index: usize) -> f32 {
            self.0[index].1
        }
        fn read(&self, _: usize) -> Result<Image, DataError> {
            Ok(Image::filled(1, 1, 1, 0.0))
        }
        fn name_of(&self, index: usize) -> String {
            format!("sample-{index}")
        }
    }

    fn counts(set: &Set, sampling: Sampling, draws: usize) -> Vec<usize> {
        let weights = Arc::new(Weights::of(set, sampling).unwrap().unwrap());
        let order = EpochOrder::Drawn { seed: 3, epoch: 0, len: draws, weights };
        let mut counts = vec![0; set.len()];
        (0..draws).for_each(|place| counts[order.at(place).unwrap().sample as usize] += 1);
        assert_eq!(order.at(draws), None);
        counts
    }

    #[test]
    fn samples_are_drawn_as_often_as_their_weights_say() {
        let set = Set([0.0, 1.0, 0.0, 3.0, 4.0, 0.0].map(|weight| (vec![0], weight)).to_vec());
        let counts = counts(&set, Sampling::Weights, 16_000);
        // 2000, 6000 and 8000 expected, standard deviation at most 63.
        for (count, expected) in counts.iter().zip([0i64, 2000, 0, 6000, 8000, 0]) {
            assert!((*count as i64 - expected).abs() <= if expected == 0 { 0 } else { 250 }, "{counts:?}");
        }
    }

    #[test]
    fn balanced_draws_every_class_equally_often() {
        let labels = std::iter::repeat_n(vec![0], 9).chain([vec![1]]);
        let set = Set(labels.map(|labels| (labels, 1.0)).collect());
        let counts = counts(&set, Sampling::Balanced, 10_000);
        assert!((4750..5250).contains(&counts[9]), "{counts:?}");
        // Several classes count as the rarest; none at all are a class of their own.
        let several = Set(vec![(vec![0], 1.0), (vec![0], 1.0), (vec![0, 1], 1.0), (vec![], 1.0), (vec![], 1.0)]);
        assert_eq!(balanced(&several), [1.0 / 3.0, 1.0 / 3.0, 1.0, 0.5, 0.5]);
    }

    #[test]
    fn weights_that_say_nothing_are_errors() {
        let set = |weight| Set(vec![(vec![0], 1.0), (vec![0], weight)]);
        for weight in [-1.0, f32::NAN, f32::INFINITY] {
            let error = Weights::of(&set(weight), Sampling::Weights).unwrap_err().to_string();
            assert!(error.contains("sample-1"), "{error}");
        }
        let none = Set(vec![(vec![0], 0.0); 2]);
        assert!(Weights::of(&none, Sampling::Weights).is_err());
        assert!(Weights::of(&none, Sampling::Even).unwrap().is_none());
    }

    #[test]
    fn the_last_sample_with_a_weight_is_the_last_that_is_drawn() {
        let set = Set([2.0, 1.0, 0.0].map(|weight| (vec![0], weight)).to_vec());
        let weights = Weights::of(&set, Sampling::Weights).unwrap().unwrap();
        assert_eq!([0.0, 0.66, 0.67, 0.999_999, 1.0].map(|number| weights.at(number)), [0, 0, 1, 1, 1]);
    }
}
