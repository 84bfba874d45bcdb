//! Small volumes with masks, as NIfTI files.

use std::path::Path;

use rand::RngExt;

use crate::random::rng;

/// Columns, rows and planes of [`VolumeFile`]s.
pub const VOLUME: [usize; 3] = [40, 36, 6];
/// Distances of their voxels along these axes, mm.
pub const SPACING: [f32; 3] = [0.8, 0.8, 2.5];

/// A volume of which the first array axis is the fastest and leads to the right, the second to the front and the third up.
#[derive(Clone, Debug)]
pub struct VolumeFile {
    /// Grey values.
    pub image: Vec<u8>,
    /// 1 where the bright ball is.
    pub mask: Vec<u8>,
}

impl VolumeFile {
    /// One bright ball on a dark ground with noise. The lowest `empty` planes are black.
    pub fn new(index: usize, empty: usize) -> Self {
        let mut rng = rng(index as u64);
        let centre = [rng.random_range(10..30), rng.random_range(10..26), rng.random_range(2..5)].map(f64::from);
        let radius = f64::from(rng.random_range(5..8));
        let [width, height, depth] = VOLUME;
        let (mut image, mut mask) = (Vec::new(), Vec::new());
        for at in 0..width * height * depth {
            let place = [at % width, at / width % height, at / width / height].map(|place| place as f64);
            let apart =
                (0..3).map(|axis| ((place[axis] - centre[axis]) * f64::from(SPACING[axis])).powi(2)).sum::<f64>();
            let is_inside = apart.sqrt() <= radius * f64::from(SPACING[0]);
            let (noise, is_black) = (rng.random_range(0..60), place[2] < empty as f64);
            mask.push(u8::from(is_inside && !is_black));
            image.push(if is_black { 0 } else { noise + if is_inside { 150 } else { 60 } });
        }
        Self { image, mask }
    }
}

/// The bytes of a NIfTI-1 file of 8-bit voxels (positions are those of `nifti1.h`).
fn nifti(voxels: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 352];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &348i32.to_le_bytes());
    for (axis, side) in [3, VOLUME[0], VOLUME[1], VOLUME[2], 1, 1, 1, 1].into_iter().enumerate() {
        put(40 + 2 * axis, &(side as i16).to_le_bytes());
    }
    put(70, &2i16.to_le_bytes());
    put(72, &8i16.to_le_bytes());
    put(76, &1f32.to_le_bytes());
    put(108, &352f32.to_le_bytes());
    put(112, &1f32.to_le_bytes());
    put(254, &1i16.to_le_bytes());
    for (axis, spacing) in SPACING.into_iter().enumerate() {
        put(80 + 4 * axis, &spacing.to_le_bytes());
        put(280 + 20 * axis, &spacing.to_le_bytes());
    }
    put(344, b"n+1\0");
    bytes.extend(voxels);
    bytes
}

/// Makes a folder of so many volumes in `images/` with their masks in `masks/`. In every fourth the two lowest planes are black.
///
/// # Panics
/// If a file cannot be written.
pub fn volume_folder(folder: &Path, count: usize) {
    for part in ["images", "masks"] {
        std::fs::create_dir_all(folder.join(part)).expect("a folder of the test can be made");
    }
    for index in 0..count {
        let VolumeFile { image, mask } = VolumeFile::new(index, empty_planes(index));
        for (part, voxels) in [("images", image), ("masks", mask)] {
            let path = folder.join(part).join(format!("{index:02}.nii"));
            std::fs::write(&path, nifti(&voxels)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

/// How many of the lowest planes of a volume of [`volume_folder`] are black.
pub fn empty_planes(index: usize) -> usize {
    if index % 4 == 3 { 2 } else { 0 }
}
