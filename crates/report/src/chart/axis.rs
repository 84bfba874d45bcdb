//! Where an axis begins and ends, and which round numbers stand on it.

/// An axis from `low` to `high` with its ticks, all inside.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<f64>,
    step: f64,
}

impl Axis {
    /// An axis that begins and ends on a tick, around all of `values`.
    pub(super) fn around(values: impl Iterator<Item = f64>, about: usize) -> Self {
        let (low, high) = extent(values);
        let step = round_step((high - low) / about as f64);
        Self::with_step((low / step).floor() * step, (high / step).ceil() * step, step)
    }

    /// An axis of counted things (steps, epochs) that ends where the values end.
    pub(super) fn of_counts(values: impl Iterator<Item = f64>, about: usize) -> Self {
        let (low, high) = extent(values);
        let step = round_step((high - low) / about as f64).max(1.0).round();
        Self::with_step(low, high, step)
    }

    fn with_step(low: f64, high: f64, step: f64) -> Self {
        let first = (low / step - 1e-9).ceil();
        let last = (high / step + 1e-9).floor();
        // Products of whole numbers do not gather rounding errors as repeated sums do.
        let ticks = (0..=((last - first) as usize)).map(|index| (first + index as f64) * step).collect();
        Self { low, high, ticks, step }
    }

    /// Where `value` lies between the ends, 0 to 1. Values beyond an end lie on it.
    pub(super) fn place(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// A tick's label, with as many digits as the step between ticks needs.
    pub(super) fn label(&self, tick: f64) -> String {
        let largest = self.low.abs().max(self.high.abs());
        if tick == 0.0 {
            "0".into()
        } else if (1e-2..1e6).contains(&largest) {
            let digits = (0..7).find(|&digits| is_whole(self.step * 10_f64.powi(digits))).unwrap_or(7);
            format!("{tick:.*}", digits as usize)
        } else {
            super::words::number(tick)
        }
    }
}

fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-6
}

/// The ends of the finite values; something drawable if there is nothing to enclose.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        (0.0, 1.0)
    } else if high - low > 1e-9 * high.abs().max(low.abs()) {
        (low, high)
    } else if low == 0.0 {
        (0.0, 1.0)
    } else {
        // One value: half of its own size to either side; a count of steps gets a neighbour to either side.
        let margin = if is_whole(low) { low.abs().min(1.0) } else { low.abs() / 2.0 };
        (low - margin, high + margin)
    }
}

/// The next of 1, 2, 2.5, 5 and 10 times a power of ten.
fn round_step(raw: f64) -> f64 {
    let power = 10_f64.powf(raw.log10().floor());
    let factors = [1.0, 2.0, 2.5, 5.0, 10.0];
    let factor = factors.into_iter().find(|factor| factor * power >= raw * (1.0 - 1e-9)).unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|&tick| axis.label(tick)).collect()
    }

    #[test]
    fn ticks_are_round_numbers_around_the_values() {
        let axis = Axis::around([0.03, 1.12].into_iter(), 5);
        assert_eq!(labels(&axis), ["0", "0.25", "0.50", "0.75", "1.00", "1.25"]);
        let axis = Axis::around([0.0, 1e-4, 3e-4].into_iter(), 3);
        assert_eq!(labels(&axis), ["0", "1e-4", "2e-4", "3e-4"]);
    }

    #[test]
    fn counts_have_whole_ticks() {
        let axis = Axis::of_counts([1.0, 3.0].into_iter(), 6);
        assert_eq!(labels(&axis), ["1", "2", "3"]);
        let axis = Axis::of_counts([1.0, 12_000.0].into_iter(), 6);
        assert_eq!(labels(&axis), ["2000", "4000", "6000", "8000", "10000", "12000"]);
    }

    #[test]
    fn any_values_give_an_axis_that_can_be_drawn() {
        let values = [0.0, 1.0, -1.0, 3.0, 0.3, 1e-12, 1e12, f64::NAN, f64::INFINITY];
        for a in values {
            for b in values {
                for axis in [Axis::around([a, b].into_iter(), 5), Axis::of_counts([a, b].into_iter(), 5)] {
                    assert!(axis.low < axis.high && axis.ticks.len() < 15, "{a} {b}: {axis:?}");
                    assert!((0.0..=1.0).contains(&axis.place(0.7)), "{a} {b}: {axis:?}");
                }
            }
        }
    }
}
