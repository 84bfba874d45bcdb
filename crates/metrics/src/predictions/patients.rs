//! Which images are of the same patient.

use std::collections::HashMap;

/// The patient of each of some images (or cases of a segmentation).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patients {
    /// Of each image, from 0 in the order of their first image.
    of: Vec<u32>,
    count: usize,
}

impl Patients {
    /// Image `i` belongs to the patient `names[i]`, or to one of its own where that is `None`.
    pub(crate) fn named<'a>(names: impl Iterator<Item = Option<&'a str>>) -> Self {
        let (mut numbers, mut next): (HashMap<&str, u32>, u32) = (HashMap::new(), 0);
        let mut of = Vec::new();
        for name in names {
            let number = name.map_or(next, |name| *numbers.entry(name).or_insert(next));
            next = next.max(number + 1);
            of.push(number);
        }
        Self { of, count: next as usize }
    }

    /// Some of the images, by their numbers from 0.
    pub(crate) fn only(&self, images: &[usize]) -> Self {
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut number = |image: &usize| {
            let next = numbers.len() as u32;
            *numbers.entry(self.of[*image]).or_insert(next)
        };
        let of = images.iter().map(&mut number).collect();
        Self { of, count: numbers.len() }
    }

    /// Number of images.
    pub(crate) fn images(&self) -> usize {
        self.of.len()
    }

    /// Number of patients, at most [`images`](Self::images).
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The patient of an image, from 0.
    pub(crate) fn of(&self, image: usize) -> usize {
        self.of[image] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_patient_are_patients_of_their_own() {
        let found = Patients::named([Some("a"), None, Some("a"), None].into_iter());
        assert_eq!((found.images(), found.count()), (4, 3));
        assert_eq!([0, 1, 2, 3].map(|image| found.of(image)), [0, 1, 0, 2]);
        let some = found.only(&[3, 0, 2]);
        assert_eq!((some.images(), some.count()), (3, 2));
        assert_eq!([0, 1, 2].map(|image| some.of(image)), [0, 1, 1]);
    }
}
