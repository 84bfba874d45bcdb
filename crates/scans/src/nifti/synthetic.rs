//! Tiny NIfTI files for tests, valid and invalid. They are part of the library because the tests of other crates use them too.

#![allow(missing_docs)]
#![allow(clippy::expect_used)]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::nifti::file::read_from;
use crate::nifti::volume::Volume;

/// The contents of a file. `values` are those of the array, first axis fastest.
#[derive(Clone, Debug)]
pub struct Nifti {
    pub dim: [u16; 8],
    pub values: Vec<u8>,
    pub element: i16,
    pub bits: Option<i16>,
    pub vox_offset: f32,
    pub slope: f32,
    pub sform_code: i16,
    pub magic: [u8; 4],
    pub spacing: [f32; 3],
    /// Rows of the affine without spacing: which array axis each anatomical axis is, and its sign.
    pub order: [usize; 3],
    pub flips: [bool; 3],
    /// Bytes after the voxels.
    pub extra: usize,
}

/// 3 x 4 x 5 voxels, all different.
pub fn ramp() -> Nifti {
    Nifti::of([3, 4, 5], |[x, y, z]| (x + 3 * y + 12 * z) as u8)
}

impl Nifti {
    /// Stored right, front, top.
    pub fn of([width, depth, height]: [usize; 3], value: impl Fn([usize; 3]) -> u8) -> Self {
        let mut values = Vec::new();
        for z in 0..height {
            for y in 0..depth {
                values.extend((0..width).map(|x| value([x, y, z])));
            }
        }
        Self {
            dim: [3, width as u16, depth as u16, height as u16, 1, 1, 1, 1],
            values,
            element: 2,
            bits: None,
            vox_offset: 352.0,
            slope: 1.0,
            sform_code: 2,
            magic: *b"n+1\0",
            spacing: [1.0; 3],
            order: [0, 1, 2],
            flips: [false; 3],
            extra: 0,
        }
    }

    /// The same volume, with anatomical axis `r` stored as array axis `order[r]`, backwards where `flips[r]`.
    pub fn stored_as(&self, order: [usize; 3], flips: [bool; 3]) -> Self {
        assert_eq!((self.order, self.flips), ([0, 1, 2], [false; 3]));
        let dims = [1, 2, 3].map(|axis| self.dim[axis] as usize);
        let mut stored = [0; 3];
        (0..3).for_each(|r| stored[order[r]] = dims[r]);
        let mut values = vec![0; self.values.len()];
        for (index, &value) in self.values.iter().enumerate() {
            let point = [index % dims[0], index / dims[0] % dims[1], index / dims[0] / dims[1]];
            let mut place = [0; 3];
            (0..3).for_each(|r| place[order[r]] = if flips[r] { dims[r] - 1 - point[r] } else { point[r] });
            values[place[0] + stored[0] * (place[1] + stored[1] * place[2])] = value;
        }
        let [width, depth, height] = stored.map(|side| side as u16);
        Self { dim: [3, width, depth, height, 1, 1, 1, 1], values, order, flips, ..self.clone() }
    }

    /// The affine: the same world coordinates, however the volume is stored.
    fn rows(&self) -> [[f32; 4]; 3] {
        std::array::from_fn(|r| {
            let mut row = [0.0; 4];
            let side = self.dim[1 + self.order[r]] as f32;
            row[self.order[r]] = if self.flips[r] { -self.spacing[r] } else { self.spacing[r] };
            row[3] = -40.0 + if self.flips[r] { self.spacing[r] * (side - 1.0) } else { 0.0 };
            row
        })
    }

    pub fn unpacked(&self) -> Vec<u8> {
        let encode: fn(u8) -> Vec<u8> = match self.element {
            256 => |value| (value as i8).to_le_bytes().to_vec(),
            4 => |value| i16::from(value).to_le_bytes().to_vec(),
            512 => |value| u16::from(value).to_le_bytes().to_vec(),
            8 => |value| i32::from(value).to_le_bytes().to_vec(),
            768 => |value| u32::from(value).to_le_bytes().to_vec(),
            16 => |value| f32::from(value).to_le_bytes().to_vec(),
            64 => |value| f64::from(value).to_le_bytes().to_vec(),
            _ => |value| vec![value],
        };
        let bits = self.bits.unwrap_or(encode(0).len() as i16 * 8);
        let mut bytes = vec![0; 352];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &348_i32.to_le_bytes());
        for (axis, side) in self.dim.iter().enumerate() {
            put(40 + 2 * axis, &side.to_le_bytes());
        }
        put(70, &self.element.to_le_bytes());
        put(72, &bits.to_le_bytes());
        put(108, &self.vox_offset.to_le_bytes());
        put(112, &self.slope.to_le_bytes());
        put(254, &self.sform_code.to_le_bytes());
        for (place, value) in self.rows().iter().flatten().enumerate() {
            put(280 + 4 * place, &value.to_le_bytes());
        }
        put(344, &self.magic);
        bytes.resize(352.max(self.vox_offset.clamp(0.0, 4096.0) as usize), 0);
        bytes.extend(self.values.iter().flat_map(|&value| encode(value)));
        bytes.resize(bytes.len() + self.extra, 0);
        bytes
    }

    pub fn packed(&self) -> Vec<u8> {
        pack(&self.unpacked())
    }

    pub fn read(&self) -> Volume {
        read_from(self.unpacked().as_slice(), "a").expect("a volume made for tests can be read").volume
    }
}

/// Bytes as a gzip file.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).expect("a vector takes every byte");
    packer.finish().expect("a vector takes every byte")
}
