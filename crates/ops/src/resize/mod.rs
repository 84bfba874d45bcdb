//! Maps of another height and width: nearest and bilinear interpolation, as in PyTorch's `interpolate`.
//!
//! Along each axis, pixel `o` of an output of `out` pixels lies at a place of an input of `in` pixels, which is a fraction of integers:
//!
//! | [`Interpolation`] | place |
//! |---|---|
//! | `Nearest` | `floor(o in / out)` |
//! | `Bilinear` | `max(0, (o + 1/2) in / out - 1/2)`: the corners of corner pixels coincide (`align_corners=False`) |
//! | `BilinearCorners` | `o (in - 1) / (out - 1)`: the centres of corner pixels coincide (`align_corners=True`) |
//!
//! Bilinear interpolation is, along each axis, `(1 - t) x[i] + t x[i + 1]` for the place `i + t`. Both `i` and the numerator of `t` are
//! computed in integers ([`Axis`]), so no format of numbers is too small for the size of a map. PyTorch computes places in floats. For
//! bilinear interpolation this makes the last digits differ. For nearest, `o in / out` can be a whole number that PyTorch rounds to
//! less: from 2 pixels to 82, it takes the first pixel 42 times and the second 40 times, and here it is 41 each.

mod cpu;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "cube")]
mod cube_kernels;
mod graph;

#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

/// How the pixels of a map of another size are computed; the module has the formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interpolation {
    /// The pixel at or before the place: PyTorch's `nearest`.
    Nearest,
    /// Between the nearest pixels, where the corners of corner pixels coincide: PyTorch's `bilinear` with `align_corners=False`.
    Bilinear,
    /// Between the nearest pixels, where the centres of corner pixels coincide: PyTorch's `bilinear` with `align_corners=True`.
    BilinearCorners,
}

/// `x` `[n, c, h, w]` as a map of `size` rows and columns, `[n, c, size[0], size[1]]`.
///
/// # Panics
/// If a side of either map is 0, or 2^15 or more.
pub fn resize(x: Tensor<4>, size: [usize; 2], interpolation: Interpolation) -> Tensor<4> {
    let [_, _, height, width] = x.dims();
    for side in [height, width, size[0], size[1]] {
        assert!((1..LIMIT).contains(&side), "a map of {height}x{width} cannot be resized to {}x{}", size[0], size[1]);
    }
    Tensor::from_dispatch(<Dispatch as Resize>::resize(x.into_dispatch(), size, interpolation))
}

/// Numerators of places, which are below twice the product of an input's and an output's side, fit into 32 bits.
const LIMIT: usize = 1 << 15;

/// See the module.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait Resize: Backend {
    /// See [`resize()`].
    #[fusion(dtype = x, shape = [x[0], x[1], size[0], size[1]].into())]
    fn resize(x: FloatTensor<Self>, size: [usize; 2], interpolation: Interpolation) -> FloatTensor<Self>;
}

/// The backward pass of [`Resize`].
#[backend_extension(Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait ResizeGradient: Backend {
    /// The gradient of the input, which has `size` rows and columns, for the gradient `dy` of the output. It is linear in `dy`: each
    /// pixel of the input gets the gradients of the pixels that were computed from it, with the same weights.
    #[fusion(meta = |dy, size, _| TensorSpec::new([dy.shape[0], dy.shape[1], size[0], size[1]].into(), dy.dtype))]
    fn resize_backward(dy: FloatTensor<Self>, size: [usize; 2], interpolation: Interpolation) -> FloatTensor<Self>;
}

/// The places of an axis: pixel `o` of the output lies at `max(0, scale * o + ahead - behind) / whole` of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    scale: u32,
    ahead: u32,
    behind: u32,
    whole: u32,
    /// Pixels of the input.
    input: u32,
    /// Pixels of the output.
    output: u32,
}

/// Where a pixel of the output lies between two pixels of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// The pixel at or before the place.
    pub(crate) at: usize,
    /// The pixel after it, or the last pixel.
    pub(crate) next: usize,
    /// The weight of `next`; that of `at` is the rest.
    pub(crate) share: f64,
}

impl Axis {
    pub(crate) fn new(input: usize, output: usize, interpolation: Interpolation) -> Self {
        let (input, output) = (input as u32, output as u32);
        let (scale, ahead, behind, whole) = match interpolation {
            Interpolation::Nearest => (input, 0, 0, output),
            Interpolation::Bilinear => (2 * input, input, output, 2 * output),
            // A single pixel lies on the first one.
            Interpolation::BilinearCorners => (input - 1, 0, 0, (output - 1).max(1)),
        };
        Self { scale, ahead, behind, whole, input, output }
    }

    /// The places of both axes, for maps of these rows and columns.
    pub(crate) fn both(from: [usize; 2], to: [usize; 2], interpolation: Interpolation) -> [Self; 2] {
        std::array::from_fn(|axis| Self::new(from[axis], to[axis], interpolation))
    }

    /// Where each pixel of the output lies, in order.
    pub(crate) fn places(self) -> impl Iterator<Item = Place> {
        (0..self.output).map(move |pixel| {
            let numerator = (self.scale * pixel + self.ahead).saturating_sub(self.behind);
            let at = numerator / self.whole;
            let share = f64::from(numerator % self.whole) / f64::from(self.whole);
            Place { at: at as usize, next: (at + 1).min(self.input - 1) as usize, share }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition in other words: the last pixel whose left edge, in pixels of the output, is not after the place's.
    #[test]
    fn nearest_is_exact_for_every_pair_of_sizes() {
        for input in 1..=40usize {
            for output in 1..=100usize {
                let places = Axis::new(input, output, Interpolation::Nearest).places();
                for (pixel, place) in places.enumerate() {
                    let expected = (0..input).rev().find(|candidate| candidate * output <= pixel * input);
                    assert_eq!(Some(place.at), expected, "pixel {pixel} of {output}, from {input}");
                }
            }
        }
    }

    #[test]
    fn the_largest_sizes_overflow_nothing() {
        let last = LIMIT - 1;
        for (input, output) in [(last, last), (last, 1), (1, last), (last, last - 1), (last / 2, last)] {
            for interpolation in [Interpolation::Nearest, Interpolation::Bilinear, Interpolation::BilinearCorners] {
                let places: Vec<Place> = Axis::new(input, output, interpolation).places().collect();
                assert_eq!(places.len(), output);
                for pair in places.windows(2) {
                    assert!(pair[0].at <= pair[1].at && pair[1].next < input && pair[1].share < 1.0, "{pair:?}");
                }
            }
        }
    }
}
