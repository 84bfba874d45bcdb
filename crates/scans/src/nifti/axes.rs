//! Finds the anatomical axes of a volume from the affine in its NIfTI header.

use nifti::NiftiHeader;

/// An anatomical axis of a volume: the axis of the stored array that corresponds to it, and its direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// Which axis of the stored array it is, 0 to 2.
    pub array: usize,
    /// Whether the array axis runs against the anatomical direction.
    pub flipped: bool,
    /// Number of voxels along it.
    pub len: usize,
    /// Distance of neighbouring voxels, mm.
    pub spacing: f64,
    /// Coordinate of the first voxel in anatomical direction, mm, at the centre of the other two axes.
    pub origin: f64,
}

impl Axis {
    /// The coordinate of a voxel counted in anatomical direction, mm.
    pub fn position(&self, index: usize) -> f64 {
        self.origin + index as f64 * self.spacing
    }
}

/// Rows x, y, z of the affine from array indices to RAS+ millimetres.
type Affine = [[f64; 4]; 3];

/// The range of plausible spacings of head scans. Others would lead to slices of absurd size.
const SPACING_MM: std::ops::RangeInclusive<f64> = 0.05..=20.0;

/// Slices are resampled to square pixels of the finest spacing. With a larger ratio of spacings, most pixels would be interpolated.
const MOST_ANISOTROPIC: f64 = 10.0;

/// Finds the anatomical axes x (right), y (anterior), z (superior) of a volume of `dims` voxels.
///
/// An oblique volume is cut along its own array axes, each of which is assigned to the nearest anatomical axis.
///
/// # Errors
/// A sentence if the header has no orientation, so that labels would be a guess, or an impossible one.
pub(crate) fn anatomical_axes(header: &NiftiHeader, dims: [usize; 3]) -> Result<[Axis; 3], String> {
    let affine = affine(header)?;
    let spacing: [f64; 3] = std::array::from_fn(|j| (0..3).map(|r| affine[r][j].powi(2)).sum::<f64>().sqrt());
    if affine.iter().flatten().any(|v| !v.is_finite()) || spacing.iter().any(|s| !SPACING_MM.contains(s)) {
        return Err("its affine is not that of a head scan, whose voxel sizes are 0.05 to 20 mm".into());
    }
    let cosine = |r: usize, j: usize| affine[r][j] / spacing[j];

    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let closeness = |order: &[usize; 3]| (0..3).map(|r| cosine(r, order[r]).abs()).sum::<f64>();
    let mut order = ORDERS[0];
    for candidate in &ORDERS[1..] {
        if closeness(candidate) > closeness(&order) {
            order = *candidate;
        }
    }
    let (finest, coarsest) = (spacing.into_iter().fold(f64::MAX, f64::min), spacing.into_iter().fold(0.0, f64::max));
    if coarsest > MOST_ANISOTROPIC * finest {
        return Err(format!("its voxels are more than {MOST_ANISOTROPIC} times as long as wide"));
    }
    // Beyond 45 degrees, two array axes would be nearest to the same anatomical axis.
    if (0..3).any(|r| cosine(r, order[r]).abs() < std::f64::consts::FRAC_1_SQRT_2) {
        return Err("its affine is too oblique or too sheared to name its planes".into());
    }

    Ok(std::array::from_fn(|r| {
        let array = order[r];
        let flipped = affine[r][array] < 0.0;
        let first = if flipped { dims[array] - 1 } else { 0 };
        let index = |j: usize| if j == array { first as f64 } else { (dims[j] - 1) as f64 / 2.0 };
        let origin = affine[r][3] + (0..3).map(|j| affine[r][j] * index(j)).sum::<f64>();
        Axis { array, flipped, len: dims[array], spacing: spacing[array], origin }
    }))
}

/// The affine by the order of preference of the NIfTI-1 standard: sform, then qform.
fn affine(header: &NiftiHeader) -> Result<Affine, String> {
    if header.sform_code > 0 {
        Ok([header.srow_x, header.srow_y, header.srow_z].map(|row| row.map(f64::from)))
    } else if header.qform_code > 0 {
        Ok(affine_of_quaternion(header))
    } else {
        Err("it states no orientation (its sform and qform codes are 0), so its planes cannot be named".into())
    }
}

/// "Method 2" of the NIfTI-1 standard: a unit quaternion whose real part is implied, voxel sizes, and the handedness
/// in `pixdim[0]`.
fn affine_of_quaternion(header: &NiftiHeader) -> Affine {
    let [b, c, d] = [header.quatern_b, header.quatern_c, header.quatern_d].map(f64::from);
    // Rounding can push a half turn just above unit length.
    let a = (1.0 - (b * b + c * c + d * d)).max(0.0).sqrt();
    let rotation = [
        [a * a + b * b - c * c - d * d, 2.0 * (b * c - a * d), 2.0 * (b * d + a * c)],
        [2.0 * (b * c + a * d), a * a + c * c - b * b - d * d, 2.0 * (c * d - a * b)],
        [2.0 * (b * d - a * c), 2.0 * (c * d + a * b), a * a + d * d - b * b - c * c],
    ];
    let handedness = if header.pixdim[0] < 0.0 { -1.0 } else { 1.0 };
    let scale = [f64::from(header.pixdim[1]), f64::from(header.pixdim[2]), f64::from(header.pixdim[3]) * handedness];
    let offset = [header.quatern_x, header.quatern_y, header.quatern_z].map(f64::from);
    std::array::from_fn(|r| {
        let row = rotation[r];
        [row[0] * scale[0], row[1] * scale[1], row[2] * scale[2], offset[r]]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_sform(rows: Affine) -> NiftiHeader {
        let [x, y, z] = rows.map(|row| row.map(|v| v as f32));
        NiftiHeader { sform_code: 2, srow_x: x, srow_y: y, srow_z: z, ..NiftiHeader::default() }
    }

    #[test]
    fn an_identity_affine_keeps_the_axes() {
        let header = with_sform([[1.0, 0.0, 0.0, -90.0], [0.0, 1.0, 0.0, -125.0], [0.0, 0.0, 1.0, -71.0]]);
        let axes = anatomical_axes(&header, [181, 217, 181]).unwrap();
        for (r, axis) in axes.iter().enumerate() {
            assert_eq!((axis.array, axis.flipped, axis.spacing), (r, false, 1.0));
        }
        assert_eq!(axes.map(|a| a.len), [181, 217, 181]);
        assert_eq!(axes.map(|a| a.position(0)), [-90.0, -125.0, -71.0]);
        assert_eq!(axes[1].position(125), 0.0);
    }

    #[test]
    fn permuted_and_flipped_axes_are_found_with_their_positions() {
        // Array axes: back, down, right, as a sagittal acquisition stores them.
        let header = with_sform([[0.0, 0.0, 2.0, -20.0], [-1.0, 0.0, 0.0, 50.0], [0.0, -0.5, 0.0, 30.0]]);
        let [x, y, z] = anatomical_axes(&header, [101, 121, 21]).unwrap();
        assert_eq!((x.array, x.flipped, x.len, x.spacing), (2, false, 21, 2.0));
        assert_eq!((y.array, y.flipped, y.len, y.spacing), (0, true, 101, 1.0));
        assert_eq!((z.array, z.flipped, z.len, z.spacing), (1, true, 121, 0.5));
        assert_eq!((x.position(0), x.position(20)), (-20.0, 20.0));
        assert_eq!((y.position(0), y.position(100)), (-50.0, 50.0));
        assert_eq!((z.position(0), z.position(120)), (-30.0, 30.0));
    }

    #[test]
    fn a_quaternion_says_the_same_as_its_matrix() {
        // A quarter turn about z: array x runs to the front, array y to the left; a third axis stored downwards.
        let half = std::f32::consts::FRAC_1_SQRT_2;
        let header = NiftiHeader {
            sform_code: 0,
            qform_code: 1,
            quatern_d: half,
            quatern_x: 10.0,
            quatern_y: -20.0,
            quatern_z: 30.0,
            pixdim: [-1.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0],
            ..NiftiHeader::default()
        };
        let expected = [[0.0, -2.0, 0.0, 10.0], [1.0, 0.0, 0.0, -20.0], [0.0, 0.0, -3.0, 30.0]];
        for (row, wanted) in affine(&header).unwrap().iter().zip(expected) {
            for (value, wanted) in row.iter().zip(wanted) {
                assert!((value - wanted).abs() < 1e-6, "{row:?}");
            }
        }
        let axes = anatomical_axes(&header, [5, 6, 7]).unwrap();
        assert_eq!(axes.map(|a| (a.array, a.flipped)), [(1, true), (0, false), (2, true)]);
    }

    #[test]
    fn the_sform_is_preferred_to_the_qform() {
        let mut header = with_sform([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]);
        header.qform_code = 1;
        header.quatern_d = 1.0;
        header.pixdim = [1.0; 8];
        assert!(anatomical_axes(&header, [4, 4, 4]).unwrap().iter().all(|axis| !axis.flipped));
    }

    #[test]
    fn orientations_that_cannot_be_named_are_refused() {
        for (header, says) in [
            (NiftiHeader { sform_code: 0, qform_code: 0, ..NiftiHeader::default() }, "no orientation"),
            (with_sform([[0.0; 4]; 3]), "voxel sizes"),
            (with_sform([[f64::NAN; 4]; 3]), "voxel sizes"),
            (with_sform([[1e9, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]), "voxel sizes"),
            (with_sform([[1.0, 1.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]), "oblique"),
            (with_sform([[0.5, 0.0, 0.0, 0.0], [0.0, 6.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]), "as long as wide"),
        ] {
            let error = anatomical_axes(&header, [4, 4, 4]).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
