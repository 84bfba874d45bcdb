//! A volume in memory, and its slices.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::F32;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use kindling_data::Image;

use crate::nifti::axes::Axis;
use crate::nifti::grid::Grid;
use crate::nifti::labels::Labels;
use crate::nifti::plane::Plane;
use crate::nifti::voxels::{Voxels, Window};

/// A voxel is foreground if its intensity, windowed to [0, 1], is above this.
const FOREGROUND: f32 = 0.1;

/// A volume with anatomical axes. It is kept as stored; slices are cut, oriented and scaled when they are needed.
#[derive(Debug)]
pub struct Volume {
    name: String,
    voxels: Voxels,
    window: Window,
    pub(crate) grid: Grid,
}

impl Volume {
    /// `voxels` are stored with the first array axis fastest.
    pub(crate) fn new(name: &str, voxels: Voxels, axes: [Axis; 3]) -> Result<Self, String> {
        let grid = Grid::new(axes);
        if voxels.len() != grid.voxels() {
            return Err(format!("it holds {} voxels, not as many as its header announces", voxels.len()));
        }
        let window = Window::of(&voxels).ok_or("its voxels are all the same")?;
        Ok(Self { name: name.to_owned(), voxels, window, grid })
    }

    /// The name that was given when it was read.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of voxels.
    pub(crate) fn voxels(&self) -> usize {
        self.voxels.len()
    }

    /// The axis that the slices of a plane are stacked along.
    pub fn normal(&self, plane: Plane) -> &Axis {
        &self.grid.axes[plane.normal()]
    }

    /// The windowed intensity at a point, whose coordinates count to the right, to the front and to the top.
    fn at(&self, point: [usize; 3]) -> f32 {
        self.window.scale(self.voxels.get(self.grid.place(point)))
    }

    /// The share of foreground in every slice, by axis.
    pub fn foreground(&self) -> [Vec<f64>; 3] {
        let [width, depth, height] = self.grid.axes.map(|axis| axis.len);
        let mut counts = self.grid.axes.map(|axis| vec![0_usize; axis.len]);
        for z in 0..height {
            for y in 0..depth {
                for x in 0..width {
                    if self.at([x, y, z]) > FOREGROUND {
                        counts[0][x] += 1;
                        counts[1][y] += 1;
                        counts[2][z] += 1;
                    }
                }
            }
        }
        counts.map(|slices| {
            let voxels = self.voxels.len() / slices.len();
            slices.into_iter().map(|count| count as f64 / voxels as f64).collect()
        })
    }

    /// The part of this volume that has the voxels of `labels`, with the intensities that they have in the whole.
    ///
    /// # Errors
    /// A sentence if the voxels of the two are not in the same places.
    pub fn cropped_to(&self, labels: &Labels) -> Result<Self, String> {
        let offset = self.grid.offset_of(&labels.grid);
        let [right, front, top] = offset.ok_or("its voxels are not in the places of those of its labels")?;
        let mut axes = labels.grid.axes;
        for (array, axis) in axes.iter_mut().enumerate() {
            *axis = Axis { array, flipped: false, ..*axis };
        }
        let grid = Grid::new(axes);
        let [width, depth, height] = axes.map(|axis| axis.len);
        let rows = (0..height).flat_map(|z| (0..depth).map(move |y| (y, z)));
        let points = rows.flat_map(|(y, z)| (0..width).map(move |x| [x + right, y + front, z + top]));
        let voxels = self.voxels.picked(points.map(|point| self.grid.place(point)));
        Ok(Self { name: self.name.clone(), voxels, window: self.window, grid })
    }

    /// A grey slice with square pixels, in [0, 1], oriented as `Plane::in_plane` says. Panics if there is no such slice.
    pub fn slice(&self, plane: Plane, index: usize) -> Image {
        let (width, height, pixels) = self.grid.slice(plane, index, |at| self.window.scale(self.voxels.get(at)));
        scaled(Image { width, height, channels: 1, pixels }, self.grid.square_size(plane))
    }
}

/// The image at another size: an axis with a coarser spacing is interpolated to the finer one.
fn scaled(image: Image, (width, height): (usize, usize)) -> Image {
    if (image.width, image.height) == (width, height) {
        return image;
    }
    let source: Vec<F32> = image.pixels.iter().map(|&value| F32::new(value)).collect();
    let mut target = TypedImage::<F32>::new(width as u32, height as u32);
    let resized = TypedImageRef::new(image.width as u32, image.height as u32, &source).map(|source| {
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        Resizer::new().resize_typed(&source, &mut target, &options)
    });
    debug_assert!(matches!(resized, Ok(Ok(()))), "buffers have the sizes they are described by");
    let pixels = target.pixels().iter().map(|value| value.0.clamp(0.0, 1.0)).collect();
    Image { width, height, channels: 1, pixels }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nifti::synthetic::{Nifti, ramp};

    /// Every way to store the same volume: 6 orders of axes, each flipped or not.
    fn stored_every_way() -> Vec<Nifti> {
        let base = Nifti { spacing: [1.0, 2.0, 1.0], ..ramp() };
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let flips = (0..8).map(|bits| [bits & 1 > 0, bits & 2 > 0, bits & 4 > 0]);
        flips.flat_map(|flips| orders.map(|order| base.stored_as(order, flips))).collect()
    }

    #[test]
    fn a_volume_with_permuted_or_flipped_axes_gives_the_same_slices() {
        let ways = stored_every_way();
        assert_eq!(ways.len(), 48);
        let base = ways[0].read();
        for way in &ways {
            let volume = way.read();
            assert_eq!(volume.foreground(), base.foreground());
            for plane in Plane::ALL {
                let (axis, wanted) = (volume.normal(plane), base.normal(plane));
                assert_eq!(axis.len, wanted.len);
                for index in 0..axis.len {
                    assert!((axis.position(index) - wanted.position(index)).abs() < 1e-4);
                    assert_eq!(volume.slice(plane, index), base.slice(plane, index), "{way:?} {plane:?} {index}");
                }
            }
        }
    }

    /// Labels of 2 x 2 x 3 voxels that start at (1, 1, 1) of the ramp, stored in another order.
    fn inner_labels(origin: f64) -> Labels {
        let axis = |array, len| Axis { array, flipped: array == 0, len, spacing: 1.0, origin };
        Labels { grid: Grid::new([axis(2, 2), axis(0, 2), axis(1, 3)]), values: vec![0; 12] }
    }

    #[test]
    fn a_volume_is_cropped_to_the_voxels_of_its_labels_however_both_are_stored() {
        for way in [ramp(), ramp().stored_as([1, 2, 0], [true, false, true])] {
            let volume = way.read();
            let cropped = volume.cropped_to(&inner_labels(-39.0)).unwrap();
            assert_eq!(cropped.normal(Plane::Axial).position(0), -39.0);
            for index in 0..3 {
                let (part, whole) = (cropped.slice(Plane::Axial, index), volume.slice(Plane::Axial, index + 1));
                assert_eq!((part.width, part.height), (2, 2));
                // Columns and rows run against the axes: the last of each is that of coordinate 0.
                let of = |x: usize, y: usize| (part.at(x, y, 0), whole.at(x, y + 1, 0));
                for (part, whole) in [of(0, 0), of(1, 0), of(0, 1), of(1, 1)] {
                    assert_eq!(part, whole, "slice {index}");
                }
            }
        }
        for origin in [-41.0, -38.5, -38.0] {
            assert!(ramp().read().cropped_to(&inner_labels(origin)).is_err(), "{origin}");
        }
    }

    #[test]
    fn slices_show_superior_or_anterior_up_and_the_right_or_the_nose_on_the_left() {
        // Brighter to the right (x), to the front (y), to the top (z): 3 x 4 x 5 voxels.
        let value = |weights: [u8; 3]| {
            let value = move |[x, y, z]: [usize; 3]| weights[0] * x as u8 + weights[1] * y as u8 + weights[2] * z as u8;
            Nifti::of([3, 4, 5], value).read()
        };
        let corners = |image: &Image| {
            let (right, bottom) = (image.width - 1, image.height - 1);
            [image.at(0, 0, 0), image.at(right, 0, 0), image.at(0, bottom, 0), image.at(right, bottom, 0)]
        };
        let [left, top] = [[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]];
        for (plane, size, across, down) in [
            (Plane::Sagittal, (4, 5), [0, 9, 0], [0, 0, 9]),
            (Plane::Coronal, (3, 5), [9, 0, 0], [0, 0, 9]),
            (Plane::Axial, (3, 4), [9, 0, 0], [0, 9, 0]),
        ] {
            let image = value(across).slice(plane, 1);
            assert_eq!((image.width, image.height), size, "{plane:?}");
            assert_eq!(corners(&image), left, "{plane:?}");
            assert_eq!(corners(&value(down).slice(plane, 1)), top, "{plane:?}");
        }
    }

    #[test]
    fn pixels_are_square_whatever_the_voxels_are() {
        let volume = Nifti { spacing: [1.0, 1.0, 3.0], ..ramp() }.read();
        let size = |plane: Plane| {
            let image = volume.slice(plane, 0);
            assert_eq!(image.pixels.len(), image.width * image.height);
            (image.width, image.height)
        };
        assert_eq!(size(Plane::Sagittal), (4, 15));
        assert_eq!(size(Plane::Coronal), (3, 15));
        assert_eq!(size(Plane::Axial), (3, 4));
    }

    #[test]
    fn foreground_is_counted_by_slice() {
        // One bright voxel column at x = 1 in a dark volume.
        let volume = Nifti::of([3, 4, 5], |[x, _, _]| if x == 1 { 200 } else { 10 }).read();
        let [x, y, z] = volume.foreground();
        assert_eq!(x, [0.0, 1.0, 0.0]);
        assert!(y.iter().chain(&z).all(|share| (share - 1.0 / 3.0).abs() < 1e-9));
    }
}
