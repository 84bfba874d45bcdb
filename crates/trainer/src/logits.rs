//! The logits of some rows of a batch, without gradients, by image and view.

use std::ops::Range;

use burn::tensor::{Device, TensorData};
use kindling_data::HostBatch;
use kindling_layers::{Precision, host};
use kindling_nvtx::range;
use kindling_ops as ops;
use kindling_processes::tree::share;
use rayon::prelude::*;

use crate::error::TrainError;
use crate::inference::Inference;
use crate::step::upload;
use crate::trainable::Trainable;
use crate::views::Views;

/// The logits of one image.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Logits {
    /// `[classes]`, or `[classes, height, width]`.
    pub shape: Vec<usize>,
    /// Those of each view, as it lies in the image.
    pub views: Vec<Vec<f32>>,
}

/// What gives the logits of some rows.
type Ask<'a> = &'a (dyn Fn(Range<usize>) -> Result<Vec<Logits>, String> + Sync);

/// The logits of some rows of a batch, all of them at once, one after the other. `model` must be on the device of `inference`, without
/// gradients.
///
/// Where a device infers each image by itself, threads begin with images of their own, and share the last ones: in a network's smallest
/// maps there is too little to share.
///
/// # Errors
/// [`TrainError::InferenceOutOfMemory`] or [`TrainError::Device`].
pub(crate) fn logits_of<const D: usize, M: Trainable<D>>(
    model: &M,
    batch: &HostBatch,
    rows: Range<usize>,
    inference: &Inference<'_>,
) -> Result<Vec<Logits>, TrainError> {
    let _range = range(|| "inference");
    let &Inference { device, precision, views, .. } = inference;
    let asked = Asked { model, batch, device, precision, views };
    let [_, _, height, width] = batch.shape;
    let count = rows.len();
    let parts = match ops::infers_samples_alone(device) {
        true => ops::inferred_apart(count, [height, width], rayon::current_num_threads()),
        false => 1,
    };
    in_parts(rows, parts, &|part| asked.of(part)).map_err(|reason| TrainError::of_device(None, count, &reason))
}

/// What `ask` says of some rows, in at most so many parts at once. Compiled once, whatever is asked.
fn in_parts(rows: Range<usize>, at_most: usize, ask: Ask<'_>) -> Result<Vec<Logits>, String> {
    let parts: Vec<Range<usize>> = parts(rows, at_most).collect();
    match <[_; 1]>::try_from(parts) {
        Ok([all]) => ask(all),
        Err(parts) => {
            let answers: Vec<Vec<Logits>> = parts.into_par_iter().map(ask).collect::<Result<_, _>>()?;
            Ok(answers.into_iter().flatten().collect())
        }
    }
}

/// At most so many parts of some rows, as even as possible; one if there are no rows.
fn parts(rows: Range<usize>, at_most: usize) -> impl Iterator<Item = Range<usize>> {
    let (start, len) = (rows.start, rows.len());
    let count = at_most.min(len).max(1);
    (0..count).map(move |part| {
        let share = share(len, part, count);
        start + share.start..start + share.end
    })
}

/// What is asked, of any rows, on any thread.
struct Asked<'a, M> {
    model: &'a M,
    batch: &'a HostBatch,
    device: &'a Device,
    precision: Precision,
    views: Views,
}

impl<M> Asked<'_, M> {
    /// The logits of some rows as one batch, or why the device did not give them.
    fn of<const D: usize>(&self, rows: Range<usize>) -> Result<Vec<Logits>, String>
    where
        M: Trainable<D>,
    {
        let images = upload(self.batch, rows.clone(), self.precision, self.device);
        let of_views = self.views.of(images).enumerate();
        let seen = of_views.map(|(number, view)| host::read(self.views.undo(number, self.model.logits(view))));
        by_image(rows.len(), seen.collect::<Result<_, String>>()?)
    }
}

/// The logits of each of `count` images, from those of all images by view.
fn by_image(count: usize, views: Vec<TensorData>) -> Result<Vec<Logits>, String> {
    let shape = views.first().map_or_else(Vec::new, |view| view.shape().as_slice()[1..].to_vec());
    let len = shape.iter().product::<usize>();
    let mut images = vec![Logits { shape, views: Vec::with_capacity(views.len()) }; count];
    for view in views {
        let data = view.convert::<f32>();
        let values = data.as_slice::<f32>().map_err(|error| format!("{error:?}"))?;
        images.iter_mut().zip(values.chunks_exact(len.max(1))).for_each(|(image, of)| image.views.push(of.to_vec()));
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_even_and_follow_each_other() {
        for (rows, at_most, sizes) in [
            (0..4, 2, vec![2, 2]),
            (3..10, 2, vec![3, 4]),
            (0..3, 16, vec![1, 1, 1]),
            (5..6, 4, vec![1]),
            (2..2, 4, vec![0]),
            (0..9, 1, vec![9]),
        ] {
            let parts: Vec<_> = parts(rows.clone(), at_most).collect();
            assert_eq!(parts.iter().map(ExactSizeIterator::len).collect::<Vec<_>>(), sizes);
            assert_eq!((parts[0].start, parts[parts.len() - 1].end), (rows.start, rows.end));
            assert!(parts.windows(2).all(|two| two[0].end == two[1].start), "{parts:?}");
        }
    }
}
