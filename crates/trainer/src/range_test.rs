//! The learning-rate range test (Smith 2017, "Cyclical Learning Rates for Training Neural Networks", section 3.3): steps at rates that
//! rise from one to the next, and what becomes of the loss.

/// How much of the running mean of losses a step keeps, as in fastai.
const KEPT: f64 = 0.98;
/// The test is over where the running mean is so many times the lowest.
const DIVERGED: f64 = 4.0;
/// Steps before which it is never over.
const FEWEST: usize = 10;

/// Rates from `from` to `to`, each by the same factor above the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RangeTest {
    /// The first rate, above 0.
    pub from: f64,
    /// The last, above `from`.
    pub to: f64,
    /// How many, 2 or more.
    pub steps: usize,
}

/// A step of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Its learning rate.
    pub rate: f64,
    /// Mean loss of its batch, before its update.
    pub loss: f64,
    /// The running mean of losses up to it.
    pub smoothed: f64,
}

/// What has been tried so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeTested {
    /// The steps, in order.
    pub steps: Vec<Tried>,
    mean: f64,
    weight: f64,
    /// The step with the lowest running mean.
    lowest: Option<usize>,
}

impl RangeTest {
    /// The rate of a step, counted from 0.
    pub fn rate(&self, step: usize) -> f64 {
        let share = step as f64 / (self.steps - 1).max(1) as f64;
        self.from * (self.to / self.from).powf(share)
    }
}

impl RangeTested {
    /// Adds the loss of a step, and returns whether the test goes on. It ends where the loss is not finite, or where its running mean
    /// has grown far beyond the lowest one.
    pub fn add(&mut self, rate: f64, loss: f64) -> bool {
        if !loss.is_finite() {
            return false;
        }
        self.mean = KEPT * self.mean + (1.0 - KEPT) * loss;
        self.weight = KEPT * self.weight + (1.0 - KEPT);
        let smoothed = self.mean / self.weight;
        let lowest = self.lowest.map_or(f64::INFINITY, |step| self.steps[step].smoothed);
        if smoothed < lowest {
            self.lowest = Some(self.steps.len());
        }
        self.steps.push(Tried { rate, loss, smoothed });
        self.steps.len() <= FEWEST || smoothed <= DIVERGED * lowest
    }

    /// The rate at which the running mean falls fastest for each factor of the rate, on its way to where it is lowest: behind that it
    /// falls by chance. None if it falls nowhere.
    pub fn steepest(&self) -> Option<f64> {
        let fall = |pair: &[Tried]| (pair[1].smoothed - pair[0].smoothed) / (pair[1].rate / pair[0].rate).ln();
        let falls = self.steps[..self.lowest? + 1].windows(2).map(|pair| (fall(pair), pair[0].rate));
        falls.filter(|(fall, _)| *fall < 0.0).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, rate)| rate)
    }

    /// A tenth of the rate at which the running mean is lowest; none without steps.
    pub fn tenth_of_lowest(&self) -> Option<f64> {
        self.lowest.map(|step| self.steps[step].rate / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested(losses: &[f64]) -> (RangeTested, usize) {
        let test = RangeTest { from: 1e-5, to: 1.0, steps: losses.len() };
        let mut tested = RangeTested::default();
        let taken = losses.iter().enumerate().take_while(|(step, loss)| tested.add(test.rate(*step), **loss)).count();
        (tested, taken)
    }

    #[test]
    fn rates_rise_by_one_factor_from_the_first_to_the_last() {
        let test = RangeTest { from: 1e-6, to: 1.0, steps: 7 };
        let rates: Vec<f64> = (0..7).map(|step| test.rate(step)).collect();
        for (step, rate) in rates.iter().enumerate() {
            assert!((rate / 10f64.powi(step as i32 - 6) - 1.0).abs() < 1e-12, "{rates:?}");
        }
    }

    #[test]
    fn a_running_mean_is_that_of_fastai_and_begins_with_the_first_loss() {
        let (tested, _) = tested(&[2.0, 1.0, 1.0]);
        let smoothed: Vec<f64> = tested.steps.iter().map(|step| step.smoothed).collect();
        // lerp with 0.98 and bias correction: (0.98 * 0.02 * 2 + 0.02) / (1 - 0.98^2).
        let expected = [2.0, (0.98 * 0.02 * 2.0 + 0.02) / (1.0 - 0.98f64.powi(2))];
        assert!(
            smoothed.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12),
            "{smoothed:?}"
        );
    }

    #[test]
    fn the_suggestion_lies_where_the_loss_falls_and_the_test_ends_where_it_explodes() {
        // Level, then a fall around step 50, then an explosion.
        let loss = |step: usize| match step {
            0..40 => 2.0,
            40..60 => 2.0 - 0.08 * (step - 40) as f64,
            60..80 => 0.4,
            _ => 0.4 + 10f64.powi(step as i32 - 80),
        };
        let losses: Vec<f64> = (0..100).map(loss).collect();
        let (tested, taken) = tested(&losses);
        assert!((80..99).contains(&taken), "it ends after the explosion and before the last step: {taken}");
        let test = RangeTest { from: 1e-5, to: 1.0, steps: 100 };
        let steepest = tested.steepest().unwrap();
        assert!((test.rate(40)..test.rate(75)).contains(&steepest), "{steepest}");
        let lowest = tested.tenth_of_lowest().unwrap() * 10.0;
        assert!((test.rate(60)..test.rate(85)).contains(&lowest), "{lowest}");
    }

    #[test]
    fn a_fall_by_chance_behind_the_lowest_loss_is_no_suggestion() {
        // A gentle fall, a rise, and a batch that happens to be easy.
        let mut losses: Vec<f64> = (0..50).map(|step| 2.0 - 0.01 * f64::from(step)).collect();
        losses.extend((0..20).map(|step| 1.5 + 0.1 * f64::from(step)));
        losses.push(-3.0);
        let (tested, _) = tested(&losses);
        let lowest = tested.tenth_of_lowest().unwrap() * 10.0;
        assert!(tested.steepest().unwrap() < lowest);
    }

    #[test]
    fn a_loss_that_only_grows_or_is_no_number_suggests_nothing() {
        let growing: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(tested(&growing).0.steepest(), None);
        let (none, taken) = tested(&[f64::NAN, 1.0]);
        assert_eq!((none.steepest(), none.tenth_of_lowest(), taken), (None, None, 0));
    }
}
