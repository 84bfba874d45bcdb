//! Volumes of numbers: masks.

use std::path::Path;

use kindling_data::MaskValues;

use crate::nifti::axes::Axis;
use crate::nifti::grid::{Grid, nearest};
use crate::nifti::plane::Plane;

/// A number for every voxel. It is kept as stored.
#[derive(Debug)]
pub struct Labels {
    pub(crate) grid: Grid,
    pub(crate) values: Vec<u16>,
}

impl Labels {
    /// The axis that the slices of a plane are stacked along.
    pub fn normal(&self, plane: Plane) -> &Axis {
        &self.grid.axes[plane.normal()]
    }

    /// The numbers of a volume of floats, as files are read into.
    ///
    /// # Errors
    /// Why they are none, in words that follow the name of the file.
    pub(crate) fn of(values: &mut dyn Iterator<Item = f64>, grid: Grid) -> Result<Self, String> {
        let whole = |value: f64| {
            let number = value as u16;
            if f64::from(number) == value {
                return Ok(number);
            }
            Err(format!("its voxels hold {value}, and those of a mask hold whole numbers from 0 to {}", u16::MAX))
        };
        let values = values.map(whole).collect::<Result<Vec<u16>, String>>()?;
        if values.len() != grid.voxels() {
            return Err(format!("it holds {} voxels, not as many as its header announces", values.len()));
        }
        Ok(Self { grid, values })
    }

    /// Whether a slice has anything but 0.
    pub(crate) fn is_marked(&self, plane: Plane, index: usize) -> bool {
        self.grid.slice(plane, index, |at| self.values[at]).2.into_iter().any(|value| value != 0)
    }

    /// The numbers of a slice, of the size of its image: a pixel has that of the voxel that its centre lies in. Panics if there is no such
    /// slice.
    pub fn slice(&self, plane: Plane, index: usize) -> MaskValues {
        let (columns, rows, voxels) = self.grid.slice(plane, index, |at| self.values[at]);
        let (width, height) = self.grid.square_size(plane);
        let row = |y: usize| {
            let line = &voxels[nearest(y, height, rows) * columns..][..columns];
            (0..width).map(|x| line[nearest(x, width, columns)])
        };
        MaskValues { width, height, values: (0..height).flat_map(row).collect() }
    }
}

/// What is said of a mask that does not belong to its image.
pub(crate) fn mismatch(image: &Path, difference: &str) -> String {
    format!("it {difference} ({image:?}); resample it to its image")
}
