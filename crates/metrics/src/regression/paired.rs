//! Two models' numbers for the same images: is the difference more than chance?

use super::errors::Errors;
use super::values::{ValueError, Values};
use crate::predictions::columns::Columns;
use crate::{Paired, Resampling};

/// Compares two models' numbers for the same images in the same order: the first's `mae`, `rmse` and `r2` less the second's, with 95 %
/// intervals of the paired bootstrap by patient.
///
/// # Errors
/// [`ValueError::NotPaired`].
pub fn compare_values(one: &Values, other: &Values, resampling: Resampling) -> Result<Paired, ValueError> {
    if !one.is_paired_with(other) {
        return Err(ValueError::NotPaired);
    }
    let difference = |times: &[u32]| {
        let [a, b] = [one, other].map(|values| Errors::of(values.pairs(), times));
        vec![a.mae - b.mae, a.rmse - b.rmse, a.r2 - b.r2]
    };
    let point = difference(&vec![1; one.images()]);
    let rows = resampling.rows(one.whose(), difference);
    let differences = Columns::new(&point, &rows).figures(&["mae", "rmse", "r2"]);
    Ok(Paired { images: one.images(), patients: one.patients(), differences, mcnemar: None })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_models_are_scored_on_the_same_drawn_patients() {
        let truth = vec![1.0, 2.0, 3.0, 4.0];
        let of = |off: [f64; 4]| {
            let said = truth.iter().zip(off).map(|(truth, off)| truth + off).collect();
            Values::new(truth.clone(), said, vec![None; 4]).unwrap()
        };
        // However patients are drawn, the first is one better than the second.
        let found =
            compare_values(&of([1.0, 2.0, 3.0, 4.0]), &of([2.0, 3.0, 4.0, 5.0]), Resampling::default()).unwrap();
        assert_eq!((found.differences[0].value, found.differences[0].interval), (-1.0, Some((-1.0, -1.0))));
        let other = Values::new(vec![1.0; 4], vec![1.0; 4], vec![None; 4]).unwrap();
        assert_eq!(compare_values(&of([0.0; 4]), &other, Resampling::default()), Err(ValueError::NotPaired));
    }
}
