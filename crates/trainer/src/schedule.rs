//! The length of a run, and the learning rate over it.

use crate::config::{Extension, TrainConfig};

/// How many steps a run has, and how many it was to have before it was extended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Length {
    /// Steps of the run.
    total: u64,
    /// The steps up to which it was to have another number, and that number, in order.
    earlier: Vec<(u64, u64)>,
}

impl Length {
    /// The length of a run on so many batches an epoch.
    pub(crate) fn of(config: &TrainConfig, batches_per_epoch: usize) -> Self {
        let steps = |epochs: u64, max_steps: Option<u64>| {
            let all = epochs.saturating_mul(batches_per_epoch as u64);
            max_steps.map_or(all, |most| most.min(all))
        };
        let before = |it: &Extension| (it.after_step, steps(it.epochs, it.max_steps));
        Self::extended(steps(config.epochs, config.max_steps), config.extended.iter().map(before).collect())
    }

    /// The length of a run of `total` steps that was to have other lengths before: the last step of each, and that length, in order.
    pub fn extended(total: u64, earlier: Vec<(u64, u64)>) -> Self {
        Self { total, earlier }
    }

    /// Steps of the run.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The steps that the run was to have before it was last extended.
    pub fn before(&self) -> Option<u64> {
        self.earlier.last().map(|(_, total)| *total)
    }

    /// The steps that the run was to have when it did a step, counted from 1.
    pub fn planned_at(&self, step: u64) -> u64 {
        self.earlier.iter().find(|(until, _)| step <= *until).map_or(self.total, |(_, total)| *total)
    }

    /// Whether the run had ended with a step before it was extended.
    pub fn ended_at(&self, step: u64) -> bool {
        self.planned_at(step) == step
    }
}

impl From<u64> for Length {
    fn from(total: u64) -> Self {
        Self::extended(total, Vec::new())
    }
}

/// Linear warm-up, then a cosine down to a hundredth of the peak (Loshchilov and Hutter 2017, without restarts).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The highest learning rate, at the end of the warm-up.
    pub peak: f64,
    /// Steps in which the rate rises.
    pub warmup_steps: u64,
    /// Steps of the run.
    pub total_steps: u64,
}

/// The last rate as a share of the peak.
const FLOOR: f64 = 0.01;

impl Schedule {
    /// The schedule of a run of `total_steps` steps.
    pub(crate) fn of(config: &TrainConfig, total_steps: u64) -> Self {
        let warmup_steps = (config.warmup * total_steps as f64).round() as u64;
        Self { peak: config.lr, warmup_steps, total_steps }
    }

    /// The learning rate of a step, counted from 1.
    pub fn rate(&self, step: u64) -> f64 {
        if step <= self.warmup_steps {
            return self.peak * step as f64 / self.warmup_steps as f64;
        }
        let steps = (self.total_steps.saturating_sub(self.warmup_steps)).max(1) as f64;
        let done = ((step - self.warmup_steps) as f64 / steps).min(1.0);
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
        self.peak * (FLOOR + (1.0 - FLOOR) * cosine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_to_its_peak_and_falls_to_a_hundredth() {
        let schedule = Schedule { peak: 0.8, warmup_steps: 10, total_steps: 110 };
        assert!((schedule.rate(1) - 0.08).abs() < 1e-12);
        assert!((schedule.rate(10) - 0.8).abs() < 1e-12);
        assert!((schedule.rate(60) - 0.8 * (0.01 + 0.99 * 0.5)).abs() < 1e-12);
        assert!((schedule.rate(110) - 0.008).abs() < 1e-12);
        assert!((1..10).all(|step| schedule.rate(step) < schedule.rate(step + 1)));
        assert!((10..110).all(|step| schedule.rate(step) > schedule.rate(step + 1)));
    }

    #[test]
    fn an_extended_run_has_the_length_it_had_when_a_step_was_done() {
        // 12 batches an epoch: 2 epochs, extended when they were over; 3 epochs, extended in their middle; then 5.
        let mut config = TrainConfig { warmup: 0.5, lr: 0.8, ..TrainConfig::new(8, 2) };
        config.extend(24, 3, None);
        config.extend(30, 5, Some(50));
        let length = Length::of(&config, 12);
        let planned: Vec<u64> = [1, 24, 25, 30, 31, 50].into_iter().map(|step| length.planned_at(step)).collect();
        assert_eq!(planned, [24, 24, 36, 36, 50, 50]);
        assert_eq!((length.total(), length.before()), (50, Some(36)));
        let ended: Vec<u64> = (1..=60).filter(|step| length.ended_at(*step)).collect();
        assert_eq!(ended, [24, 50], "30 was in the middle");
        // Step 25 is the one of a run of 36 steps, 18 of which are warm-up: 7/18 of the way down.
        let expected = 0.8 * (0.01 + 0.99 * 0.5 * (1.0 + (std::f64::consts::PI * 7.0 / 18.0).cos()));
        assert!((Schedule::of(&config, length.planned_at(25)).rate(25) - expected).abs() < 1e-12);
    }

    #[test]
    fn a_run_of_one_step_has_a_rate() {
        let schedule = Schedule { peak: 0.1, warmup_steps: 0, total_steps: 1 };
        assert!(schedule.rate(1) > 0.0);
    }
}
