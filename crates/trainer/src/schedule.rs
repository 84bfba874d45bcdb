//! The learning rate over a run.

/// Linear warm-up, then a cosine down to a hundredth of the peak (Loshchilov and Hutter 2017, without restarts).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The peak.
    pub peak: f64,
    /// Steps in which the rate rises.
    pub warmup_steps: u64,
    /// Steps of the run.
    pub total_steps: u64,
}

/// The last rate as a share of the peak.
const FLOOR: f64 = 0.01;

impl Schedule {
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
    fn a_run_of_one_step_has_a_rate() {
        let schedule = Schedule { peak: 0.1, warmup_steps: 0, total_steps: 1 };
        assert!(schedule.rate(1) > 0.0);
    }
}
