//! The memory layout of maps, and how work on them is distributed over a device.
//!
//! Burn's convolutions write maps with channels last: the channels of a pixel are neighbours in memory. A unit then reads four
//! channels at once. A map that is stored plane by plane is read through its strides, one channel at a time. Strides do not follow
//! from the shape, because CUDA pads rows and slices leave gaps. To keep memory and its description together, only [`relaid`] and
//! [`whole_planes`] set strides, and both take the tensor whose memory they describe.

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
use super::units::UNITS;

/// The most channels that a unit takes at a time. Eight numbers of a half format take no less time on an H200, and longer to compile.
const WIDTH: usize = 4;

/// Blocks from which on a sum of them has fewer lanes, and how many.
const MANY_BLOCKS: usize = 64;
const NARROW: u32 = 8;

/// The element type of a supported format.
pub(crate) fn element(dtype: DType) -> ElemType {
    match dtype {
        DType::F16 => half::f16::elem_type_native(),
        DType::BF16 => half::bf16::elem_type_native(),
        _ => f32::elem_type_native(),
    }
}

/// A new map with channels last, without padding.
pub(crate) fn empty_map(like: &CubeTensor, [batch, channels, height, width]: [usize; 4], dtype: DType) -> CubeTensor {
    whole_planes(permute_nhwc_to_nchw(empty(like, [batch, height, width, channels], dtype)))
}

/// The same map or filters, `[n, c, h, w]`; if there is one channel, the stride of that axis becomes the size of a plane.
///
/// This works around a bug. The stride of an axis of length one has no meaning, but Burn's fusion (burn-cubecl-fusion 0.22.1,
/// `vectorization_input`) takes the 1 that a map with channels last has there for the distance of neighbours, and reads the map one
/// number at a time. If the memory of the map is reused for the output, and another map of the same operation is read four numbers
/// at a time, positions are counted in ones and in fours at once, and the results are wrong.
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

/// Converts a tensor to another format.
pub(crate) fn cast(x: CubeTensor, dtype: DType) -> CubeTensor {
    let format = match dtype {
        DType::F16 => FloatDType::F16,
        DType::BF16 => FloatDType::BF16,
        _ => FloatDType::F32,
    };
    if x.dtype == dtype { x } else { CubeBackend::float_cast(x, format) }
}

/// The same memory with another shape and other strides, in elements.
///
/// # Panics
/// If they reach beyond the memory of the tensor.
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

/// A map whose pixels are one axis: `[samples, channels, pixels]`.
#[derive(Clone)]
pub(crate) struct Flat {
    pub(crate) tensor: CubeTensor,
    pub(crate) samples: usize,
    pub(crate) channels: usize,
    pub(crate) pixels: usize,
    strides: [usize; 3],
}

impl Flat {
    /// The map as it is in memory, or a copy with channels last if its rows are not equally spaced pixels.
    pub(crate) fn of(x: CubeTensor) -> Self {
        let [samples, channels, height, width] = dims(&x);
        let strides = x.meta.strides();
        let (of_sample, of_channel, of_row, of_pixel) = (strides[0], strides[1], strides[2], strides[3]);
        let one_row = height == 1 || width == 1 || of_row == width * of_pixel;
        if !one_row {
            return Self::of(turned(x));
        }
        // The stride of an axis of length one has no meaning.
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

    /// Whether `width` channels can be read at once.
    fn takes(&self, width: usize) -> bool {
        let [of_sample, of_channel, of_pixel] = self.strides;
        takes(&self.tensor, width, of_channel, [of_sample, of_pixel])
    }

    /// The map as a matrix with a row for each pixel: as it is in memory, or a copy if its pixels are not the rows of a matrix.
    pub(crate) fn into_matrix(self) -> CubeTensor {
        let flat = if self.is_matrix() { self } else { Self::of(turned(self.tensor)) };
        let (rows, row) = (flat.samples * flat.pixels, flat.row());
        relaid(flat.tensor, [rows, flat.channels], [row, 1])
    }

    /// Whether all pixels of all samples are the rows of one matrix.
    fn is_matrix(&self) -> bool {
        let [of_sample, of_channel, of_pixel] = self.strides;
        let rows = self.samples == 1 || self.pixels == 1 || of_sample == self.pixels * of_pixel;
        // The strides of a broadcast map are zero, which `row` must not be.
        of_channel == 1 && rows && self.row() >= self.channels
    }

    /// The distance between two rows of that matrix.
    fn row(&self) -> usize {
        match self.strides {
            [_, _, of_pixel] if self.pixels > 1 => of_pixel,
            [of_sample, _, _] if self.samples > 1 => of_sample,
            _ => self.channels,
        }
    }

    /// The map as an argument of a kernel, with three axes.
    pub(crate) fn arg(&self) -> TensorArg {
        self.binding().into_tensor_arg()
    }

    /// The map as the output of a kernel that reads it as its argument number `place`. This is sound if each element is read by no other
    /// unit than the one that writes it.
    pub(crate) fn written_over(&self, place: usize) -> TensorArg {
        self.binding().into_alias(place)
    }

    /// Whether the map may be overwritten: nothing else refers to it, and no two elements share memory.
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

/// How many channels a unit takes at a time: the most that all of these maps allow.
pub(crate) fn width_of(maps: &[&Flat]) -> usize {
    let mut width = WIDTH;
    while width > 1 && !maps.iter().all(|map| map.takes(width)) {
        width /= 2;
    }
    width
}

/// As [`width_of`], for maps with rows and columns.
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

/// Whether `width` channels of a map can be read at once: they must be neighbours, and every read must be aligned.
fn takes<const D: usize>(map: &CubeTensor, width: usize, of_channel: usize, others: [usize; D]) -> bool {
    let [_, channels, ..] = dims(map);
    let bytes = (width * map.elem_size()) as u64;
    let aligned = map.handle.offset_start.unwrap_or(0).is_multiple_of(bytes);
    aligned
        && of_channel == 1
        && channels.is_multiple_of(width)
        && others.iter().all(|stride| stride.is_multiple_of(width))
}

/// A map that is to be read together with `x`: as it is in memory, or a copy with channels last if `x` has channels last and this map
/// does not, which Burn's fused operations can cause. Reading it with large strides would cost more than the copy.
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

/// The address type that a kernel needs for these tensors: 32 or 64 bits.
pub(crate) fn addresses(tensors: &[&CubeTensor]) -> AddressType {
    tensors.iter().map(|tensor| tensor.required_address_type()).max().unwrap_or_default()
}

/// How the channels and pixels of a map are distributed over units.
///
/// The units of a cube are a grid of `lanes` by `rows`: the lanes take neighbouring vectors of channels, so that they read consecutive
/// memory, and the rows take pixels. Each unit takes `each` pixels, which are `rows` apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    lanes: u32,
    rows: u32,
    /// Pixels that a unit takes.
    pub(crate) each: u32,
    /// Cubes that the channels are divided into.
    pub(crate) over_channels: u32,
    /// Cubes that the pixels are divided into.
    pub(crate) over_pixels: u32,
}

impl Spread {
    /// Distributes `channels`, `width` at a time, and `pixels`, at most `each` for a unit.
    pub(crate) fn of(channels: usize, width: usize, pixels: usize, each: usize) -> Self {
        let vectors = (channels / width) as u32;
        // Each size of a cube is compiled separately, so there are few. Take the widest that leaves at most an eighth of lanes idle.
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

    /// Distributes sums of `blocks` numbers, one for each of `channels`: few lanes where there are many blocks, so that a unit adds few.
    pub(crate) fn of_sums(channels: usize, width: usize, blocks: usize) -> Self {
        let spread = Self::of(channels, width, blocks, 1);
        if blocks < MANY_BLOCKS || spread.lanes <= NARROW {
            return spread;
        }
        let over_channels = ((channels / width) as u32).div_ceil(NARROW);
        Self { lanes: NARROW, rows: UNITS / NARROW, over_channels, ..spread }
    }

    pub(crate) fn dim(&self) -> CubeDim {
        CubeDim::new_2d(self.lanes, self.rows)
    }

    /// The grid of cubes for `samples` samples.
    pub(crate) fn count(&self, samples: usize) -> CubeCount {
        CubeCount::Static(self.over_channels, self.over_pixels, samples as u32)
    }
}

/// Normalisation groups whose sizes differ by at most one, the larger ones first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    /// Number of groups.
    pub(crate) count: usize,
    /// Samples of a smaller group.
    size: u32,
    /// Number of groups that have one sample more.
    larger: u32,
}

impl Groups {
    /// The caller must have checked [`crate::serves_groups`].
    pub(crate) fn of(sizes: &[usize]) -> Self {
        let size = sizes.last().copied().unwrap_or(1);
        let larger = sizes.iter().filter(|of| **of > size).count();
        Self { count: sizes.len(), size: size as u32, larger: larger as u32 }
    }

    /// The groups as an argument of a kernel.
    pub(crate) fn sizes(&self) -> GroupSizesLaunch {
        GroupSizesLaunch::new(self.size, self.larger)
    }
}
