//! Heads that lie on the grid of the atlas, and their slices.

use std::sync::Arc;

use kindling_data::{Image, Mask, MaskValues, Normalisation, Preprocess};
use kindling_scans::nifti::{Labels, Plane, Volume};

use crate::atlas::class_of;

/// Slices of which the atlas marks less, in percent, are left out: next to nothing of a brain is to be seen on them.
const LEAST_MARKED: usize = 1;

/// Volumes whose voxels are those of the atlas.
#[derive(Clone, Debug)]
pub(crate) struct Heads {
    pub(crate) volumes: Arc<[Volume]>,
    pub(crate) atlas: Arc<Labels>,
}

impl Heads {
    /// The numbers of the axial slices that show something of the brain in every volume, from the lowest on. A volume without a skull may
    /// end below the atlas.
    pub(crate) fn shown(&self) -> Vec<usize> {
        let is_marked = |index: &usize| {
            let MaskValues { values, .. } = self.atlas.slice(Plane::Axial, *index);
            let marked = values.iter().filter(|region| class_of(**region) > 0).count();
            marked * 100 >= LEAST_MARKED * values.len()
        };
        let has_picture =
            |index: &usize| self.volumes.iter().all(|volume| !is_blank(&volume.slice(Plane::Axial, *index)));
        let slices = 0..self.atlas.normal(Plane::Axial).len;
        slices.filter(is_marked).filter(has_picture).collect()
    }

    /// Where a slice lies, mm above the origin.
    pub(crate) fn position(&self, index: usize) -> f64 {
        self.atlas.normal(Plane::Axial).position(index)
    }

    /// The distance of neighbouring slices, mm.
    pub(crate) fn apart(&self) -> f64 {
        self.atlas.normal(Plane::Axial).spacing
    }

    /// The distances of the rows and of the columns of a slice, mm: those of the voxels, which are cubes.
    pub(crate) fn pixel(&self) -> [f64; 2] {
        [Plane::Coronal, Plane::Sagittal].map(|plane| self.atlas.normal(plane).spacing)
    }

    /// A slice of a volume, padded to a square, so that it can be turned.
    pub(crate) fn image(&self, volume: usize, index: usize) -> Image {
        let image = self.volumes[volume].slice(Plane::Axial, index);
        square(image.width, image.height).fit_owned(image)
    }

    /// The parts on a slice, as the atlas has them, above the same places.
    pub(crate) fn mask(&self, index: usize) -> Mask {
        let MaskValues { width, height, values } = self.atlas.slice(Plane::Axial, index);
        let classes = values.into_iter().map(class_of).collect();
        square(width, height).fit_mask(&Mask { width, height, classes })
    }
}

/// Whether all pixels are the same.
fn is_blank(image: &Image) -> bool {
    image.pixels.windows(2).all(|pair| pair[0] == pair[1])
}

/// Pads images of this size to a square, and scales nothing.
fn square(width: usize, height: usize) -> Preprocess {
    Preprocess::padded(width.max(height), 1, Normalisation::identity(1))
}
