//! Where the voxels of a volume are: in its file and in the head.

use crate::nifti::axes::Axis;
use crate::nifti::plane::Plane;

/// Spacings that differ by less are treated as equal.
const SPACING_TOLERANCE: f64 = 0.01;
/// How far, in voxels, two volumes that belong together may lie apart: their affines are rounded differently.
const APART: f64 = 0.1;

/// The axes of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) axes: [Axis; 3],
    /// Distance between neighbours along each anatomical axis in the stored array.
    strides: [usize; 3],
}

impl Grid {
    /// That of an array whose first axis is the fastest.
    pub(crate) fn new(axes: [Axis; 3]) -> Self {
        let len_of = |array: usize| axes.iter().find(|axis| axis.array == array).map_or(1, |axis| axis.len);
        let strides = axes.map(|axis| (0..axis.array).map(len_of).product());
        Self { axes, strides }
    }

    /// The number of voxels.
    pub(crate) fn voxels(&self) -> usize {
        self.axes.iter().map(|axis| axis.len).product()
    }

    /// The place in the array of a point, whose coordinates count to the right, to the front and to the top.
    pub(crate) fn place(&self, point: [usize; 3]) -> usize {
        let along = |r: usize| {
            let axis = &self.axes[r];
            let index = if axis.flipped { axis.len - 1 - point[r] } else { point[r] };
            index * self.strides[r]
        };
        along(0) + along(1) + along(2)
    }

    /// Columns, rows and the voxels of a slice as they are, oriented as [`Plane::in_plane`] says. Panics if there is no such slice.
    pub(crate) fn slice<T>(&self, plane: Plane, index: usize, voxel: impl Fn(usize) -> T) -> (usize, usize, Vec<T>) {
        let (across, down) = plane.in_plane();
        let (width, height) = (self.axes[across].len, self.axes[down].len);
        let mut voxels = Vec::with_capacity(width * height);
        let mut point = [0; 3];
        point[plane.normal()] = index;
        for row in (0..height).rev() {
            point[down] = row;
            for column in (0..width).rev() {
                point[across] = column;
                voxels.push(voxel(self.place(point)));
            }
        }
        (width, height, voxels)
    }

    /// Columns and rows of a slice with square pixels: the axis with the coarser spacing has more of them than voxels.
    pub(crate) fn square_size(&self, plane: Plane) -> (usize, usize) {
        let (across, down) = plane.in_plane();
        let [across, down] = [across, down].map(|axis| &self.axes[axis]);
        let pixel = across.spacing.min(down.spacing);
        if across.spacing.max(down.spacing) / pixel < 1.0 + SPACING_TOLERANCE {
            return (across.len, down.len);
        }
        let side = |axis: &Axis| (axis.len as f64 * axis.spacing / pixel).round() as usize;
        (side(across), side(down))
    }

    /// The distances of rows and of columns of a slice with square pixels, mm: not quite the same, for sizes are whole numbers.
    pub(crate) fn square_spacing(&self, plane: Plane) -> [f64; 2] {
        let ((across, down), (width, height)) = (plane.in_plane(), self.square_size(plane));
        let of = |axis: usize, pixels: usize| self.axes[axis].len as f64 * self.axes[axis].spacing / pixels as f64;
        [of(down, height), of(across, width)]
    }

    /// How many voxels of this volume lie before the first of another along each axis, to the left, behind and below; none unless each
    /// voxel of the other is one of this.
    pub(crate) fn offset_of(&self, other: &Self) -> Option<[usize; 3]> {
        let mut offset = [0; 3];
        for ((before, axis), part) in offset.iter_mut().zip(&self.axes).zip(&other.axes) {
            let voxels = (part.origin - axis.origin) / axis.spacing;
            let whole = voxels.round();
            let is_alike = (part.spacing / axis.spacing - 1.0).abs() < SPACING_TOLERANCE;
            if !is_alike || (voxels - whole).abs() > APART || whole < 0.0 || whole as usize + part.len > axis.len {
                return None;
            }
            *before = whole as usize;
        }
        Some(offset)
    }

    /// How this volume differs from another whose voxels should be the same places, in words that follow "it".
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let text = |grid: &Self| {
            let sizes = grid.axes.map(|axis| axis.len.to_string()).join(" x ");
            let spacings = grid.axes.map(|axis| format!("{:.3}", axis.spacing)).join(" x ");
            format!("{sizes} voxels of {spacings} mm")
        };
        let pairs = || self.axes.iter().zip(&other.axes);
        let same_size = |(one, other): (&Axis, &Axis)| {
            one.len == other.len && (one.spacing / other.spacing - 1.0).abs() < SPACING_TOLERANCE
        };
        if !pairs().all(same_size) {
            return Some(format!("has {}, where the other has {}", text(self), text(other)));
        }
        let apart = pairs().map(|(one, other)| (one.origin - other.origin).abs() / one.spacing).fold(0.0, f64::max);
        (apart > APART).then(|| format!("lies {apart:.1} voxels away from the other, by the affines of the two"))
    }
}

/// The pixel, of `to` along a side, that the centre of pixel `at` of `of` lies in.
pub(crate) fn nearest(at: usize, of: usize, to: usize) -> usize {
    (2 * at + 1) * to / (2 * of)
}
