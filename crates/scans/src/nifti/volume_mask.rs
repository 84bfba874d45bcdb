//! Masks of a volume's slices, put together to a file on the grid of the volume.
//!
//! Positions in the header are those of `nifti1.h` (NIfTI-1 standard).

use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use kindling_data::{DataError, Mask, Part};
use nifti::NiftiHeader;

use super::file::{FIRST_VOXEL, HEADER_BYTES, ReadError, check, unpacked};
use super::grid::{Grid, nearest};
use super::plane::Plane;
use super::{axes::anatomical_axes, part};

/// What a mask keeps of its volume's header: the frequency, phase and slice axes; voxel sizes and handedness; units; and from `qform_code`
/// to `srow_z` where the voxels are.
const KEPT: [Range<usize>; 4] = [39..40, 76..92, 123..124, 252..328];
const DIM: usize = 40;
const INTENT: usize = 68;
const DATATYPE: usize = 70;
const BITS: usize = 72;
const VOX_OFFSET: usize = 108;
const SCL_SLOPE: usize = 112;
const DESCRIPTION: usize = 148;
const MAGIC: usize = 344;
/// `NIFTI_INTENT_LABEL`: numbers that stand for something.
const LABEL: i16 = 1002;
/// `DT_UINT8`.
const UINT8: i16 = 2;

/// The class of every voxel of a volume, on the volume's own grid: voxel `(i, j, k)` of the two is the same place, and the affine of the
/// written file is the volume's to the bit.
#[derive(Debug)]
pub struct VolumeMask {
    path: PathBuf,
    header: [u8; HEADER_BYTES as usize],
    big_endian: bool,
    dims: [usize; 3],
    grid: Grid,
    /// First array axis fastest.
    classes: Vec<u8>,
}

impl VolumeMask {
    /// A mask of background for the volume `path`, of which the header alone is read.
    ///
    /// # Errors
    /// [`DataError::Io`] and [`DataError::Unreadable`], as for reading the volume.
    pub fn like(path: &Path) -> Result<Self, DataError> {
        let io = |cause| DataError::Io { path: path.to_owned(), cause };
        let unreadable = |reason: String| DataError::Unreadable { path: path.to_owned(), reason };
        let mut header = [0; HEADER_BYTES as usize];
        let mut stream = unpacked(path).map_err(|error| match error {
            ReadError::Io(cause) => io(cause),
            ReadError::Nonsense(reason) => unreadable(reason),
        })?;
        stream.read_exact(&mut header).map_err(|cause| match cause.kind() {
            io::ErrorKind::UnexpectedEof => unreadable("it ends too early".into()),
            _ => unreadable(cause.to_string()),
        })?;
        let parsed = NiftiHeader::from_reader(header.as_slice()).map_err(|error| unreadable(error.to_string()))?;
        let (dims, ..) = check(&parsed).map_err(unreadable)?;
        let grid = Grid::new(anatomical_axes(&parsed, dims).map_err(unreadable)?);
        let big_endian = header.starts_with(&(HEADER_BYTES as i32).to_be_bytes());
        let mut classes = Vec::new();
        let no_room = |_| unreadable(format!("there is not enough memory for a mask of its {} voxels", grid.voxels()));
        classes.try_reserve_exact(grid.voxels()).map_err(no_room)?;
        classes.resize(grid.voxels(), 0);
        Ok(Self { path: path.to_owned(), header, big_endian, dims, grid, classes })
    }

    /// Every axial slice of the volume, from the lowest up, whether anything is to be seen on it or not.
    pub fn slices(&self) -> Vec<Part> {
        let count = self.grid.axes[Plane::Axial.normal()].len;
        (0..count).map(|slice| part(&self.path, slice)).collect()
    }

    /// Sets the classes of a slice to those of `mask`, which is of the size of the image that [`Nifti`](super::Nifti) gives of it. A voxel
    /// has the class of the pixel that its centre lies in.
    ///
    /// # Errors
    /// [`DataError::OutOfRange`] if there is no such slice, and [`DataError::MaskSize`].
    pub fn set(&mut self, slice: usize, mask: &Mask) -> Result<(), DataError> {
        let len = self.grid.axes[Plane::Axial.normal()].len;
        if slice >= len {
            return Err(DataError::OutOfRange { index: slice, len });
        }
        let size = self.grid.square_size(Plane::Axial);
        if size != (mask.width, mask.height) {
            let name = part(&self.path, slice).name();
            return Err(DataError::MaskSize { name, image: size, mask: (mask.width, mask.height) });
        }
        let (columns, rows, places) = self.grid.slice(Plane::Axial, slice, |place| place);
        for (at, place) in places.into_iter().enumerate() {
            let (x, y) = (nearest(at % columns, columns, mask.width), nearest(at / columns, rows, mask.height));
            self.classes[place] = mask.at(x, y);
        }
        Ok(())
    }

    /// The class of every voxel, first array axis fastest.
    pub fn classes(&self) -> &[u8] {
        &self.classes
    }

    /// The bytes of a `.nii.gz`: 8 bits a voxel.
    ///
    /// # Errors
    /// None that is known: memory takes every byte.
    pub fn packed(&self) -> io::Result<Vec<u8>> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(&self.written_header())?;
        packer.write_all(&self.classes)?;
        packer.finish()
    }

    /// The header, and the four bytes that say that no extensions follow; in the byte order of the volume's.
    fn written_header(&self) -> [u8; FIRST_VOXEL as usize] {
        let mut header = [0; FIRST_VOXEL as usize];
        let short = |value: i16| if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let float = |value: f32| if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        KEPT.into_iter().for_each(|range| put(range.start, &self.header[range]));
        put(0, &self.header[..4]);
        // Sides are at most 1024.
        let [width, depth, height] = self.dims.map(|side| side as i16);
        for (axis, side) in [3, width, depth, height, 1, 1, 1, 1].into_iter().enumerate() {
            put(DIM + 2 * axis, &short(side));
        }
        put(INTENT, &short(LABEL));
        put(DATATYPE, &short(UINT8));
        put(BITS, &short(8));
        put(VOX_OFFSET, &float(FIRST_VOXEL as f32));
        put(SCL_SLOPE, &float(1.0));
        put(DESCRIPTION, b"Kindling");
        put(MAGIC, b"n+1\0");
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nifti;
    use crate::nifti::synthetic::{self, ramp};
    use kindling_data::Format;

    /// Every stored order of a volume whose voxels are wider than deep.
    #[test]
    fn a_mask_drawn_from_the_slices_lies_on_the_voxels_that_the_slices_show() {
        let dir = tempfile::tempdir().unwrap();
        let base = synthetic::Nifti { spacing: [1.0, 3.0, 2.0], ..ramp() };
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for (number, order) in orders.into_iter().enumerate() {
            let stored = base.stored_as(order, [number % 2 == 0, number % 3 == 0, number > 2]);
            let path = dir.path().join(format!("{number}.nii.gz"));
            std::fs::write(&path, stored.packed()).unwrap();
            let mut mask = VolumeMask::like(&path).unwrap();
            // The numbers of the voxels are drawn as masks: what comes out is what is stored.
            let nifti = Nifti::default();
            let slices = mask.slices();
            assert_eq!(slices.len(), 5);
            for (index, part) in slices.iter().enumerate() {
                let values = nifti.read_mask_values(part).unwrap();
                assert_eq!((values.width, values.height), (3, 12));
                let classes = values.values.iter().map(|&value| value as u8).collect();
                mask.set(index, &Mask { width: values.width, height: values.height, classes }).unwrap();
            }
            assert_eq!(mask.classes(), stored.values, "{order:?}");
        }
    }

    #[test]
    fn a_mask_of_another_size_or_slice_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.nii");
        std::fs::write(&path, ramp().unpacked()).unwrap();
        let mut mask = VolumeMask::like(&path).unwrap();
        assert!(matches!(mask.set(5, &Mask::filled(3, 4, 1)), Err(DataError::OutOfRange { index: 5, len: 5 })));
        assert!(matches!(mask.set(0, &Mask::filled(4, 3, 1)), Err(DataError::MaskSize { .. })));
        std::fs::write(&path, &ramp().unpacked()[..300]).unwrap();
        assert!(VolumeMask::like(&path).unwrap_err().to_string().contains("ends too early"));
    }
}
