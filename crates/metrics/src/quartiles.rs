//! Median and quartiles.

use serde::{Deserialize, Serialize};

/// The median of some values, and the range of their middle half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quartiles {
    /// A quarter of the values lies below.
    pub q1: f64,
    /// Half of the values lies below.
    pub median: f64,
    /// A quarter of the values lies above.
    pub q3: f64,
}

impl Quartiles {
    /// The quartiles of the finite values, with linear interpolation between neighbours (NumPy's default, type 7 of Hyndman and Fan 1996);
    /// `None` if there are no finite values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            sorted[below] + (place - place.floor()) * (sorted[above] - sorted[below])
        };
        Some(Self { q1: at(0.25), median: at(0.5), q3: at(0.75) })
    }

    /// Whether the ranges between the quartiles overlap.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.q1 <= other.q3 && other.q1 <= self.q3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_numpy() {
        // numpy.quantile([7, 1, 3, 12, 5], [.25, .5, .75]) and numpy.quantile([1, 2, 4, 8], ...), NumPy 2.
        let odd = Quartiles::of([7.0, 1.0, 3.0, 12.0, 5.0]).unwrap();
        assert_eq!((odd.q1, odd.median, odd.q3), (3.0, 5.0, 7.0));
        let even = Quartiles::of([8.0, 2.0, 4.0, 1.0]).unwrap();
        assert_eq!((even.q1, even.median, even.q3), (1.75, 3.0, 5.0));
    }

    #[test]
    fn what_is_not_finite_does_not_count() {
        assert_eq!(Quartiles::of([f64::NAN, 2.0, f64::INFINITY]).map(|found| found.median), Some(2.0));
        assert_eq!(Quartiles::of([f64::NAN]), None);
        assert_eq!(Quartiles::of([]), None);
    }

    #[test]
    fn touching_halves_overlap_and_separate_ones_do_not() {
        let of = |q1, q3| Quartiles { q1, median: (q1 + q3) / 2.0, q3 };
        assert!(of(1.0, 2.0).overlaps(&of(2.0, 3.0)) && of(1.0, 4.0).overlaps(&of(2.0, 3.0)));
        assert!(!of(1.0, 2.0).overlaps(&of(2.1, 3.0)) && !of(2.1, 3.0).overlaps(&of(1.0, 2.0)));
    }
}
