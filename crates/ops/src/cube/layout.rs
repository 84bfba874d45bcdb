//! How maps lie in memory, and how work on them is spread over a device.
//!
//! Burn's convolutions leave maps with channels last: neighbouring channels of a pixel lie beside each other. There a unit
//! takes four channels at a time. A map that lies plane by plane is read through its strides, one channel at a time.
//! CUDA pads rows and slices leave gaps, so a map's strides do not follow from its shape. Memory and the strides that
//! describe it stay together: only [`relaid`] and [`whole_planes`] set strides, and they take the tensor whose memory they
//! describe.

use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, FloatDType, Shape};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::ops::{permute_nchw_to_nhwc, permute_nhwc_to_nchw};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::ir::ElemType;
use cubecl::prelude::*;
use cubecl::zspace::metadata::Metadata;
use cubecl::zspace::{Shape as Sizes, Strides};

use super::read::GroupSizesLaunch;

/// Units of a cube.
pub(crate) const UNITS: u32 = 256;
/// Channels that a unit takes at a time, at most.
const WIDTH: usize = 4;

/// The element type of a format that [`crate::serves`].
pub(crate) fn element(dtype: DType) -> ElemType {
    match dtype {
        DType::F16 => half::f16::elem_type_native(),
        DType::BF16 => half::bf16::elem_type_native(),
        _ => f32::elem_type_native(),
    }
}

/// A new map with channels last and nothing between the pixels.
pub(crate) fn empty_map(like: &CubeTensor, [batch, channels, height, width]: [usize; 4], dtype: DType) -> CubeTensor {
    whole_planes(permute_nhwc_to_nchw(empty(like, [batch, height, width, channels], dtype)))
}

/// The same map or filters, `[n, c, h, w]`; where there is one channel, a plane lies between it and the next, which there is not.
///
/// A stride over an axis of length one means nothing, but Burn's fusion (burn-cubecl-fusion 0.22.1, `vectorization_input`) takes
/// the 1 that a map with channels last has there for the distance of neighbours, and reads the map number by number. If the
/// map's memory becomes the output's, and another map of the same operation is read four numbers at a time, the places of all
/// maps are counted in fours and in ones at once, and the results are wrong.
pub(crate) fn whole_planes(mut x: CubeTensor) -> CubeTensor {
    let [batch, channels, height, width] = dims(&x);
    if channels == 1 {
        let strides = x.meta.strides();
        let (of_sample, of_row, of_pixel) = (strides[0], strides[2], strides[3]);
        *x.meta = Metadata::new([batch, channels, height, width], [of_sample, height * of_row, of_row, of_pixel]);
    }
    x
}

/// A new row-major tensor.
pub(crate) fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D], dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), Shape::new(shape), dtype)
}

/// A tensor in another format.
pub(crate) fn cast(x: CubeTensor, dtype: DType) -> CubeTensor {
    let format = match dtype {
        DType::F16 => FloatDType::F16,
        DType::BF16 => FloatDType::BF16,
        _ => FloatDType::F32,
    };
    if x.dtype == dtype { x } else { CubeBackend::float_cast(x, format) }
}

/// The same memory under another shape and other strides, in elements.
///
/// # Panics
/// If that reaches beyond what the tensor may read.
pub(crate) fn relaid<const D: usize>(mut tensor: CubeTensor, shape: [usize; D], strides: [usize; D]) -> CubeTensor {
    let last: usize = shape.iter().zip(&strides).map(|(size, stride)| size.saturating_sub(1) * stride).sum();
    let elements = if shape.contains(&0) { 0 } else { last + 1 };
    let bytes = tensor.handle.size_in_used();
    assert!(
        (elements * tensor.elem_size()) as u64 <= bytes,
        "{shape:?} with strides {strides:?} does not lie in {bytes} bytes of {:?}",
        tensor.dtype
    );
    *tensor.meta = Metadata::new(shape, strides);
    tensor
}

/// The shape of a map.
pub(crate) fn dims(x: &CubeTensor) -> [usize; 4] {
    x.meta.shape().dims()
}

/// A map with its pixels in one row: `[samples, channels, pixels]`.
#[derive(Clone)]
pub(crate) struct Flat {
    pub(crate) tensor: CubeTensor,
    pub(crate) samples: usize,
    pub(crate) channels: usize,
    pub(crate) pixels: usize,
    strides: [usize; 3],
}

impl Flat {
    /// The map as it lies, or a copy with channels last where the pixels of its rows are not one row.
    pub(crate) fn of(x: CubeTensor) -> Self {
        let [samples, channels, height, width] = dims(&x);
        let strides = x.meta.strides();
        let (of_sample, of_channel, of_row, of_pixel) = (strides[0], strides[1], strides[2], strides[3]);
        let one_row = height == 1 || width == 1 || of_row == width * of_pixel;
        if !one_row {
            return Self::of(turned(x));
        }
        // The stride of an axis of length one means nothing.
        let strides = [
            if samples > 1 { of_sample } else { 0 },
            if channels > 1 { of_channel } else { 1 },
            if width > 1 {
                of_pixel
            } else if height > 1 {
                of_row
            } else {
                0
            },
        ];
        Self { tensor: x, samples, channels, pixels: height * width, strides }
    }

    /// Whether so many channels can be read at once.
    fn takes(&self, width: usize) -> bool {
        let [of_sample, of_channel, of_pixel] = self.strides;
        takes(&self.tensor, width, of_channel, [of_sample, of_pixel])
    }

    /// As a matrix with a row for each pixel: the map as it lies, or a copy where its pixels are not the rows of one.
    pub(crate) fn into_matrix(self) -> CubeTensor {
        let flat = if self.is_matrix() { self } else { Self::of(turned(self.tensor)) };
        let (rows, row) = (flat.samples * flat.pixels, flat.row());
        relaid(flat.tensor, [rows, flat.channels], [row, 1])
    }

    /// Whether all pixels of all samples are the rows of one matrix.
    fn is_matrix(&self) -> bool {
        let [of_sample, of_channel, of_pixel] = self.strides;
        let rows = self.samples == 1 || self.pixels == 1 || of_sample == self.pixels * of_pixel;
        // A stride of zero is a number for a plane, written once.
        of_channel == 1 && rows && self.row() >= self.channels
    }

    /// What lies between two rows of that matrix.
    fn row(&self) -> usize {
        match self.strides {
            [_, _, of_pixel] if self.pixels > 1 => of_pixel,
            [of_sample, _, _] if self.samples > 1 => of_sample,
            _ => self.channels,
        }
    }

    /// As a kernel's argument of three axes.
    pub(crate) fn arg(&self) -> TensorArg {
        self.binding().into_tensor_arg()
    }

    /// The same to write over what is read as the argument at this place: each unit writes what it alone has read.
    pub(crate) fn written_over(&self, place: usize) -> TensorArg {
        self.binding().into_alias(place)
    }

    /// Whether nobody else refers to the map, and each of its elements has a place of its own.
    pub(crate) fn is_free(&self) -> bool {
        self.tensor.can_mut() && self.tensor.is_nonoverlapping()
    }

    fn binding(&self) -> TensorBinding {
        let mut binding = self.tensor.clone().binding();
        binding.shape = Sizes::from(vec![self.samples, self.channels, self.pixels]);
        binding.strides = Strides::new(&self.strides);
        binding
    }
}

/// How many channels a unit takes at a time, for maps of the same channels.
pub(crate) fn width_of(maps: &[&Flat]) -> usize {
    let mut width = WIDTH;
    while width > 1 && !maps.iter().all(|map| map.takes(width)) {
        width /= 2;
    }
    width
}

/// The same for maps with rows and columns.
pub(crate) fn width_of_maps(maps: &[&CubeTensor]) -> usize {
    let takes = |map: &CubeTensor, width: usize| {
        let strides = map.meta.strides();
        takes(map, width, strides[1], [strides[0], strides[2], strides[3]])
    };
    let mut width = WIDTH;
    while width > 1 && !maps.iter().all(|map| takes(map, width)) {
        width /= 2;
    }
    width
}

/// Whether so many channels of a map can be read at once, for its strides between channels and otherwise.
fn takes<const D: usize>(map: &CubeTensor, width: usize, of_channel: usize, others: [usize; D]) -> bool {
    let [_, channels, ..] = dims(map);
    let bytes = (width * map.elem_size()) as u64;
    let aligned = map.handle.offset_start.unwrap_or(0).is_multiple_of(bytes);
    aligned
        && of_channel == 1
        && channels.is_multiple_of(width)
        && others.iter().all(|stride| stride.is_multiple_of(width))
}

/// A map to be read together with `x`: as it lies, or a copy with channels last where `x` lies so and this one plane by
/// plane, which Burn's fused operations may make. Reading it across would cost more than the copy.
pub(crate) fn alongside(map: CubeTensor, x: &CubeTensor) -> CubeTensor {
    let [.., height, width] = dims(&map);
    let strides = map.meta.strides();
    let planes = strides[1] > 1 && strides[3] <= 1 && height * width > 1;
    if planes && width_of_maps(&[x]) > 1 { turned(map) } else { map }
}

/// A copy with channels last.
fn turned(map: CubeTensor) -> CubeTensor {
    permute_nhwc_to_nchw(into_contiguous(permute_nchw_to_nhwc(map)))
}

/// The address type for these tensors.
pub(crate) fn addresses(tensors: &[&CubeTensor]) -> AddressType {
    tensors.iter().map(|tensor| tensor.required_address_type()).max().unwrap_or_default()
}

/// How the channels and pixels of a map are spread: a cube has some lanes of channels and rows of pixels, and each of its
/// units takes `each` pixels, a cube's rows apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    lanes: u32,
    rows: u32,
    /// Pixels of a unit.
    pub(crate) each: u32,
    /// Cubes beside each other over the channels.
    pub(crate) over_channels: u32,
    /// Cubes over the pixels.
    pub(crate) over_pixels: u32,
}

impl Spread {
    /// For `channels` taken `width` at a time, and at most `each` pixels a unit.
    pub(crate) fn of(channels: usize, width: usize, pixels: usize, each: usize) -> Self {
        let vectors = (channels / width) as u32;
        // Few sizes of cubes, since each is compiled by itself: the widest that leaves few lanes without work.
        let idle = |lanes: u32| vectors.next_multiple_of(lanes) - vectors;
        let lanes = match vectors {
            0..8 => vectors.next_power_of_two().max(1),
            _ => [64, 32, 16].into_iter().find(|&lanes| 8 * idle(lanes) <= vectors).unwrap_or(8),
        };
        let rows = UNITS / lanes;
        let each = pixels.div_ceil(rows as usize).clamp(1, each) as u32;
        let over_pixels = (pixels as u32).div_ceil(rows * each).max(1);
        Self { lanes, rows, each, over_channels: vectors.div_ceil(lanes), over_pixels }
    }

    pub(crate) fn dim(&self) -> CubeDim {
        CubeDim::new_2d(self.lanes, self.rows)
    }

    /// The cubes for so many samples.
    pub(crate) fn count(&self, samples: usize) -> CubeCount {
        CubeCount::Static(self.over_channels, self.over_pixels, samples as u32)
    }
}

/// Normalisation groups, even ones with the larger first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    /// How many there are.
    pub(crate) count: usize,
    /// Samples of a smaller one.
    size: u32,
    /// How many have one sample more.
    larger: u32,
}

impl Groups {
    /// The caller has asked [`crate::serves_groups`].
    pub(crate) fn of(sizes: &[usize]) -> Self {
        let size = sizes.last().copied().unwrap_or(1);
        let larger = sizes.iter().filter(|of| **of > size).count();
        Self { count: sizes.len(), size: size as u32, larger: larger as u32 }
    }

    /// The same as an argument of a kernel.
    pub(crate) fn sizes(&self) -> GroupSizesLaunch {
        GroupSizesLaunch::new(self.size, self.larger)
    }
}
