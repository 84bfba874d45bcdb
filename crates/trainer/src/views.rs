//! Test-time augmentation: the views of an image whose probabilities are averaged.

use burn::tensor::Tensor;

/// Which views of an image a model sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Views {
    /// The image.
    #[default]
    Alone,
    /// The image, and its mirror image with left and right exchanged.
    Flip,
}

impl Views {
    /// The views of images, `[N, C, H, W]`, one after the other.
    pub(crate) fn of(self, images: Tensor<4>) -> impl Iterator<Item = Tensor<4>> {
        let mirrored = (self == Self::Flip).then(|| images.clone().flip([3]));
        std::iter::once(images).chain(mirrored)
    }

    /// What was found in a view of this number, where it is in the image: `[N, classes, H, W]`. What was found of whole images,
    /// `[N, classes]`, has no sides.
    pub(crate) fn undo<const D: usize>(self, number: usize, found: Tensor<D>) -> Tensor<D> {
        if number == 0 || D < 4 { found } else { found.flip([3]) }
    }
}

/// The mean of each probability over the views of an image; of one view what it says.
pub(crate) fn mean(views: Vec<Vec<f64>>) -> Vec<f64> {
    let count = views.len() as f64;
    let sum = views.into_iter().reduce(|mut sum, view| {
        sum.iter_mut().zip(view).for_each(|(sum, more)| *sum += more);
        sum
    });
    let mut mean = sum.unwrap_or_default();
    if count > 1.0 {
        mean.iter_mut().for_each(|number| *number /= count);
    }
    mean
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;

    #[test]
    fn a_mirror_image_has_left_and_right_exchanged_and_nothing_else() {
        let device = Device::flex();
        let numbers: Vec<f32> = (0..12).map(|number| number as f32).collect();
        let images = Tensor::<4>::from_data(TensorData::new(numbers.clone(), [1, 2, 2, 3]), &device);
        let views = |views: Views| -> Vec<Vec<f32>> {
            views.of(images.clone()).map(|view| view.into_data().try_to_vec().expect("floats")).collect()
        };
        assert_eq!(views(Views::Alone), std::slice::from_ref(&numbers));
        let mirrored = [2.0, 1.0, 0.0, 5.0, 4.0, 3.0, 8.0, 7.0, 6.0, 11.0, 10.0, 9.0];
        assert_eq!(views(Views::Flip), [numbers, mirrored.to_vec()]);
    }

    #[test]
    fn the_mean_of_one_view_is_what_it_says_and_of_two_lies_between() {
        let view = vec![1.0 / 3.0, 0.0, 2.0 / 3.0];
        assert_eq!(mean(vec![view.clone()]), view);
        assert_eq!(mean(vec![view, vec![1.0 / 3.0, 1.0, 0.0]]), [1.0 / 3.0, 0.5, 1.0 / 3.0]);
        assert!(mean(Vec::new()).is_empty());
    }
}
