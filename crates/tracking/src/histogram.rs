//! Distributions of numbers.

/// The most bins.
const BINS: usize = 30;

/// Counts of numbers in bins of equal width.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram {
    /// Where bins begin and end, ascending: one more than there are bins.
    pub(crate) edges: Vec<f64>,
    /// Numbers in each bin. The last bin has its upper edge too.
    pub(crate) counts: Vec<u64>,
    /// Sum of the numbers.
    pub(crate) sum: f64,
    /// Sum of their squares.
    pub(crate) sum_of_squares: f64,
}

impl Histogram {
    /// The distribution of the finite ones among `values`; none if there are none.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let (low, high) = (finite().reduce(f64::min)?, finite().reduce(f64::max)?);
        let width = (high - low) / BINS as f64;
        // Numbers that are all the same, or too far apart for a width, are one bin.
        let bins = if width > 0.0 && width.is_finite() { BINS } else { 1 };
        let mut edges: Vec<f64> = (0..bins).map(|bin| low + width * bin as f64).collect();
        edges[0] = low;
        edges.push(high);
        let mut counts = vec![0; bins];
        for value in finite() {
            let bin = if bins == 1 { 0 } else { ((value - low) / width) as usize };
            counts[bin.min(bins - 1)] += 1;
        }
        Some(Self { edges, counts, sum: finite().sum(), sum_of_squares: finite().map(|value| value * value).sum() })
    }

    /// Numbers in all bins.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The smallest number and the largest.
    pub(crate) fn ends(&self) -> (f64, f64) {
        (self.edges.first().copied().unwrap_or_default(), self.edges.last().copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_number_is_in_one_bin() {
        let values: Vec<f64> = (0..=300).map(f64::from).chain([f64::NAN, f64::INFINITY]).collect();
        let histogram = Histogram::of(&values).unwrap();
        assert_eq!((histogram.total(), histogram.ends(), histogram.edges.len()), (301, (0.0, 300.0), 31));
        assert_eq!((histogram.counts[0], histogram.counts[29]), (10, 11));
        assert_eq!(Histogram::of(&[2.0, 2.0]).unwrap().counts, [2]);
        assert_eq!(Histogram::of(&[f64::MIN, f64::MAX]).unwrap().counts, [2], "their distance is no number");
        assert_eq!(Histogram::of(&[f64::NAN]), None);
    }
}
