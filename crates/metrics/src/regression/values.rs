//! Numbers that were predicted, with the truth and whose they are.

use crate::predictions::patients::Patients;

/// Why predicted numbers cannot be scored. Images are counted from 1 in the texts, as rows of a table are.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// There is nothing to score.
    #[error("there are no predictions")]
    None,
    /// There is not one truth, prediction and patient for each image.
    #[error("there are {truths} truths for {predictions} predictions of the patients of {patients} images")]
    Lengths {
        /// How many true numbers were given.
        truths: usize,
        /// How many predicted numbers were given.
        predictions: usize,
        /// How many entries of patients were given.
        patients: usize,
    },
    /// A number is NaN or infinite.
    #[error("image {image} has the {what} {value}, which is not a finite number")]
    NotFinite {
        /// The image, from 1.
        image: usize,
        /// `truth` or `prediction`.
        what: &'static str,
        /// The number: NaN or infinite.
        value: f64,
    },
    /// Two models' predictions are not of the same images.
    #[error("the two predictions are not of the same images with the same truths and patients")]
    NotPaired,
}

/// Numbers that were predicted, with the truth and whose they are. All are finite, and there is at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Truth and prediction of each image.
    pairs: Vec<(f64, f64)>,
    patients: Patients,
}

impl Values {
    /// Image `i` has the true number `truth[i]`, the predicted number `predicted[i]`, and belongs to `groups[i]`, or to a patient of its own
    /// where that is `None`.
    ///
    /// # Errors
    /// The first of these conditions that does not hold.
    pub fn new(truth: Vec<f64>, predicted: Vec<f64>, groups: Vec<Option<String>>) -> Result<Self, ValueError> {
        let (truths, predictions, patients) = (truth.len(), predicted.len(), groups.len());
        if truths != predictions || truths != patients {
            return Err(ValueError::Lengths { truths, predictions, patients });
        }
        if truth.is_empty() {
            return Err(ValueError::None);
        }
        for (what, numbers) in [("truth", &truth), ("prediction", &predicted)] {
            if let Some(index) = numbers.iter().position(|number| !number.is_finite()) {
                return Err(ValueError::NotFinite { image: index + 1, what, value: numbers[index] });
            }
        }
        let patients = Patients::named(groups.iter().map(Option::as_deref));
        Ok(Self { pairs: truth.into_iter().zip(predicted).collect(), patients })
    }

    /// Number of images, at least 1.
    pub fn images(&self) -> usize {
        self.pairs.len()
    }

    /// Number of patients, at least 1 and at most [`images`](Self::images).
    pub fn patients(&self) -> usize {
        self.patients.count()
    }

    /// Truth and prediction of each image.
    pub fn pairs(&self) -> &[(f64, f64)] {
        &self.pairs
    }

    /// Which images are of the same patient.
    pub(super) fn whose(&self) -> &Patients {
        &self.patients
    }

    /// Some of the images, by their numbers from 0, with their patients; `None` if there are none. Panics if a number is that of no image.
    pub(super) fn only(&self, images: &[usize]) -> Option<Self> {
        let pairs: Vec<(f64, f64)> = images.iter().map(|image| self.pairs[*image]).collect();
        (!pairs.is_empty()).then(|| Self { pairs, patients: self.patients.only(images) })
    }

    /// Whether these are the same images, by truths and patients, as those of another model.
    pub(super) fn is_paired_with(&self, other: &Self) -> bool {
        let truths = |of: &Self| of.pairs.iter().map(|(truth, _)| truth.to_bits()).collect::<Vec<_>>();
        truths(self) == truths(other) && self.patients == other.patients
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_no_number_is_refused_with_the_image() {
        let of = |truth: &[f64], predicted: &[f64]| {
            Values::new(truth.to_vec(), predicted.to_vec(), vec![None; truth.len()]).unwrap_err().to_string()
        };
        assert!(of(&[], &[]).contains("no predictions"));
        assert!(of(&[1.0], &[]).contains("1 truths for 0 predictions"));
        assert!(of(&[1.0, f64::NAN], &[1.0, 2.0]).contains("image 2 has the truth NaN"));
        assert!(of(&[1.0], &[f64::INFINITY]).contains("image 1 has the prediction inf"));
    }
}
