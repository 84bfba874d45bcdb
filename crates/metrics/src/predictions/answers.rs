//! What a model said of some images, what is true of them, and whose they are.

use super::patients::Patients;

/// How far the probabilities of an image may add up to something else than 1: files of other programs are rounded.
const SUM_TOLERANCE: f64 = 0.01;

/// Why predictions cannot be scored. Images are counted from 1 in the texts, as rows of a table are.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PredictionError {
    /// There is nothing to score.
    #[error("there are no predictions")]
    None,
    /// Fewer than two classes, or none where images may have several.
    #[error("{0} classes were given, and a classifier has at least two")]
    Classes(usize),
    /// A row has another number of probabilities than there are classes.
    #[error("image {image} has {found} probabilities, but there are {classes} classes")]
    Width {
        /// The image, from 1.
        image: usize,
        /// How many probabilities it has.
        found: usize,
        /// How many classes there are.
        classes: usize,
    },
    /// A probability is outside 0 to 1, or not a number.
    #[error("image {image} has the probability {value}, which is not a number from 0 to 1")]
    Probability {
        /// The image, from 1.
        image: usize,
        /// The value that was given.
        value: f64,
    },
    /// The probabilities of an image of one class do not add up to 1.
    #[error("the probabilities of image {image} add up to {sum:.4} and not to 1")]
    Sum {
        /// The image, from 1.
        image: usize,
        /// Sum of its probabilities.
        sum: f64,
    },
    /// A true class that is none of the classes, or not exactly one where an image has one.
    #[error("the truth of image {image} is not one of the {classes} classes")]
    Truth {
        /// The image, from 1.
        image: usize,
        /// Number of classes.
        classes: usize,
    },
    /// DeLong's variance takes images for independent.
    #[error(
        "DeLong's interval takes images for independent, but there are {images} images of {patients} patients; take the \
         bootstrap by patient"
    )]
    SeveralImagesAPatient {
        /// Number of images.
        images: usize,
        /// Number of patients.
        patients: usize,
    },
    /// A class that all images have, or none has.
    #[error("there is no area under the curve where all images or none are of the class")]
    OneSided,
    /// Two models' predictions are not of the same images.
    #[error("the two predictions are not of the same images with the same truths and patients")]
    NotPaired,
}

/// Predictions of a classifier: for each image its true classes, a probability for each class, and its patient.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictions {
    classes: usize,
    /// Whether an image may have any number of the classes.
    several: bool,
    /// `[images, classes]`.
    has: Vec<bool>,
    /// `[images, classes]`.
    probabilities: Vec<f64>,
    patients: Patients,
    /// Of each image the most probable class, the first of equals; of grades the median.
    answers: Vec<usize>,
    /// Whether classes are grades.
    in_order: bool,
}

impl Predictions {
    /// Predictions over `classes` classes. Image `i` has the classes `truths[i]` (exactly one, unless `several`), the probabilities
    /// `probabilities[i]` (each 0 to 1; they add up to 1 within 0.01, unless `several`) and belongs to `patients[i]`, or to a
    /// patient of its own where that is `None`.
    ///
    /// # Errors
    /// The first image that breaks one of these rules.
    pub fn new(
        classes: usize,
        several: bool,
        truths: &[Vec<usize>],
        probabilities: &[Vec<f64>],
        patients: &[Option<String>],
    ) -> Result<Self, PredictionError> {
        if classes < 2 && !(several && classes == 1) {
            return Err(PredictionError::Classes(classes));
        }
        if truths.is_empty() || truths.len() != probabilities.len() || truths.len() != patients.len() {
            return Err(PredictionError::None);
        }
        let mut has = vec![false; truths.len() * classes];
        let mut answers = Vec::with_capacity(truths.len());
        for (index, (truth, row)) in truths.iter().zip(probabilities).enumerate() {
            let image = index + 1;
            if row.len() != classes {
                return Err(PredictionError::Width { image, found: row.len(), classes });
            }
            if let Some(&value) = row.iter().find(|value| !(0.0..=1.0).contains(*value)) {
                return Err(PredictionError::Probability { image, value });
            }
            let sum: f64 = row.iter().sum();
            if !several && (sum - 1.0).abs() > SUM_TOLERANCE {
                return Err(PredictionError::Sum { image, sum });
            }
            if truth.iter().any(|class| *class >= classes) || (!several && truth.len() != 1) {
                return Err(PredictionError::Truth { image, classes });
            }
            truth.iter().for_each(|class| has[index * classes + class] = true);
            let best = |best: usize, class: usize| if row[class] > row[best] { class } else { best };
            answers.push((0..classes).fold(0, best));
        }
        Ok(Self {
            classes,
            several,
            has,
            probabilities: probabilities.concat(),
            patients: Patients::named(patients.iter().map(Option::as_deref)),
            answers,
            in_order: false,
        })
    }

    /// The same where classes are grades, the first the least: the answer is then the median, the first grade at or below which half of
    /// the probability lies.
    ///
    /// # Panics
    /// If images may have several classes.
    #[must_use]
    pub fn in_order(self) -> Self {
        assert!(!self.several, "grades are one an image");
        let median = |row: &[f64]| {
            // Files of other programs are rounded.
            let half = 0.5 * row.iter().sum::<f64>();
            let mut sum = 0.0;
            let reaches_half = |probability: &f64| {
                sum += probability;
                sum >= half
            };
            row.iter().position(reaches_half).unwrap_or(row.len() - 1)
        };
        let answers = self.probabilities.chunks_exact(self.classes).map(median).collect();
        Self { answers, in_order: true, ..self }
    }

    /// Whether classes are grades.
    pub fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// Number of images, at least 1.
    pub fn images(&self) -> usize {
        self.answers.len()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Number of patients, at least 1 and at most [`images`](Self::images).
    pub fn patients(&self) -> usize {
        self.patients.count()
    }

    /// Whether an image may have any number of the classes.
    pub fn several(&self) -> bool {
        self.several
    }

    /// Whether an image is of a class.
    pub fn has(&self, image: usize, class: usize) -> bool {
        self.has[image * self.classes + class]
    }

    /// The probability of a class.
    pub fn probability(&self, image: usize, class: usize) -> f64 {
        self.probabilities[image * self.classes + class]
    }

    /// Which images are of the same patient.
    pub(super) fn whose(&self) -> &Patients {
        &self.patients
    }

    /// The most probable class of an image, the first of equals; of grades the median.
    pub fn answer(&self, image: usize) -> usize {
        self.answers[image]
    }

    /// The true class of an image of one class; of several the first, of none 0.
    pub fn truth(&self, image: usize) -> usize {
        (0..self.classes).find(|class| self.has(image, *class)).unwrap_or(0)
    }

    /// Whether the answer is right: the most probable class, or all labels at a probability of one half.
    pub fn is_right(&self, image: usize) -> bool {
        match self.several {
            false => self.has(image, self.answer(image)),
            true => (0..self.classes).all(|class| (self.probability(image, class) >= 0.5) == self.has(image, class)),
        }
    }

    /// Number of images of a class.
    pub fn images_of(&self, class: usize) -> usize {
        (0..self.images()).filter(|image| self.has(*image, class)).count()
    }

    /// Some of the images, by their numbers from 0, with their patients.
    ///
    /// # Errors
    /// [`PredictionError::None`] if there are none.
    ///
    /// # Panics
    /// If a number is that of no image.
    pub fn only(&self, images: &[usize]) -> Result<Self, PredictionError> {
        if images.is_empty() {
            return Err(PredictionError::None);
        }
        let classes = self.classes;
        let row = |image: &usize| image * classes..(image + 1) * classes;
        Ok(Self {
            classes,
            several: self.several,
            has: images.iter().flat_map(|image| self.has[row(image)].iter().copied()).collect(),
            probabilities: images.iter().flat_map(|image| self.probabilities[row(image)].iter().copied()).collect(),
            patients: self.patients.only(images),
            answers: images.iter().map(|image| self.answers[*image]).collect(),
            in_order: self.in_order,
        })
    }

    /// Whether these are the same images, by truths and patients, as those of another model.
    pub(super) fn is_paired_with(&self, other: &Self) -> bool {
        (self.classes, self.several, self.in_order) == (other.classes, other.several, other.in_order)
            && self.has == other.has
            && self.patients == other.patients
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(truths: &[&[usize]], probabilities: &[&[f64]]) -> Result<Predictions, PredictionError> {
        let truths: Vec<Vec<usize>> = truths.iter().map(|row| row.to_vec()).collect();
        let rows: Vec<Vec<f64>> = probabilities.iter().map(|row| row.to_vec()).collect();
        Predictions::new(2, false, &truths, &rows, &vec![None; truths.len()])
    }

    #[test]
    fn what_is_no_prediction_is_refused_with_the_image() {
        let good: &[f64] = &[0.5, 0.5];
        assert_eq!(of(&[], &[]).unwrap_err(), PredictionError::None);
        let width = PredictionError::Width { image: 2, found: 1, classes: 2 };
        assert_eq!(of(&[&[0], &[0]], &[good, &[1.0]]).unwrap_err(), width);
        assert!(of(&[&[0]], &[&[f64::NAN, 1.0]]).unwrap_err().to_string().contains("image 1 has the probability NaN"));
        assert!(of(&[&[0]], &[&[-0.1, 1.1]]).unwrap_err().to_string().contains("-0.1"));
        assert!(of(&[&[0]], &[&[0.5, 0.4]]).unwrap_err().to_string().contains("add up to 0.9000"));
        assert_eq!(of(&[&[2]], &[good]).unwrap_err(), PredictionError::Truth { image: 1, classes: 2 });
        assert_eq!(of(&[&[]], &[good]).unwrap_err(), PredictionError::Truth { image: 1, classes: 2 });
        let one = Predictions::new(1, false, &[vec![0]], &[vec![1.0]], &[None]);
        assert_eq!(one.unwrap_err(), PredictionError::Classes(1));
    }
}
