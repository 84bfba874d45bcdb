//! Sums over pixels on the CPU: a thread takes a piece of an image's pixels, in all classes.

use std::ops::Range;
use std::sync::Arc;

use burn::backend::Flex;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{PIXEL_SUMS, PixelSums, PixelSumsGradient};
use crate::cpu::gemm::Threads;
use crate::cpu::lanes::vectorised;
use crate::cpu::making::{Making, Part};
use crate::cpu::real::Real;
use crate::cpu::reserve_like;
use crate::cpu::tensors::{computed_in, contiguous, dims, tensor, values};
use crate::cpu::values::{Before, Elements, Source, Stored};

/// Pixels that a thread takes at a time: a few classes of them stay in its cache.
const PIECE: usize = 1 << 11;
/// Sums that are added up side by side, so that a processor can do so at once.
const SIDE_BY_SIDE: usize = 8;

impl PixelSums for Flex {
    fn pixel_sums(logits: FlexTensor, truth: Arc<[u8]>) -> FlexTensor {
        let shape = Shape::of(&logits);
        computed_in!(T = logits.dtype(); {
            let sums = forward::<T>(contiguous(&logits).source(), &truth, shape);
            let sums: Vec<T> = sums.into_iter().map(T::of).collect();
            tensor(sums, [shape.images, PIXEL_SUMS, shape.classes])
        })
    }
}

impl PixelSumsGradient for Flex {
    fn pixel_sums_backward(logits: FlexTensor, truth: Arc<[u8]>, gradient: FlexTensor) -> FlexTensor {
        let shape = Shape::of(&logits);
        reserve_like(&logits);
        computed_in!(T = logits.dtype(); {
            let gradient = values::<T>(&gradient);
            tensor(backward::<T>(contiguous(&logits).source(), &truth, &gradient, shape), dims(&logits))
        })
    }
}

/// Images, their classes and their pixels.
#[derive(Clone, Copy)]
struct Shape {
    images: usize,
    classes: usize,
    pixels: usize,
}

impl Shape {
    fn of(logits: &FlexTensor) -> Self {
        let [images, classes, height, width] = dims(logits);
        Self { images, classes, pixels: height * width }
    }

    fn pieces(self) -> usize {
        self.pixels.div_ceil(PIECE)
    }

    /// The image, and the pixels of it, of a piece of all images.
    fn piece(self, number: usize) -> (usize, Range<usize>) {
        let (image, piece) = (number / self.pieces(), number % self.pieces());
        (image, piece * PIECE..((piece + 1) * PIECE).min(self.pixels))
    }
}

/// Sums of each image, `[images, 4, classes]`.
fn forward<T: Stored>(x: Source<'_, T>, truth: &[u8], shape: Shape) -> Vec<f64> {
    let Shape { images, classes, pixels } = shape;
    let of_piece = |softmax: &mut Softmax<T>, number: usize| {
        let (image, range) = shape.piece(number);
        softmax.read(x.chunk(image, classes * pixels), shape, range.clone());
        softmax.sums(&truth[image * pixels..][range], classes)
    };
    let pieces: Vec<Vec<f64>> =
        (0..images * shape.pieces()).into_par_iter().map_init(Softmax::default, of_piece).collect();
    let of_image = |pieces: &[Vec<f64>]| {
        let mut sums = vec![0.0; PIXEL_SUMS * classes];
        pieces.iter().for_each(|piece| sums.iter_mut().zip(piece).for_each(|(sum, more)| *sum += more));
        sums
    };
    pieces.chunks(shape.pieces().max(1)).flat_map(of_image).collect()
}

/// The gradient of the logits.
fn backward<T: Stored>(x: Source<'_, T>, truth: &[u8], gradient: &[T], shape: Shape) -> Elements<T> {
    let Shape { images, classes, pixels } = shape;
    let mut dx = Making::like(x, images * classes * pixels);
    // The planes of each piece.
    let mut pieces: Vec<Vec<Part<'_, T>>> = (0..images * shape.pieces()).map(|_| Vec::with_capacity(classes)).collect();
    for (plane, part) in dx.parts(pixels.max(1)).into_iter().enumerate() {
        let of_image = &mut pieces[plane / classes * shape.pieces()..];
        of_image.iter_mut().zip(part.parts(PIECE)).for_each(|(planes, part)| planes.push(part));
    }
    pieces.into_par_iter().enumerate().for_each_init(
        || (Softmax::default(), Vec::new()),
        |(softmax, made), (number, planes)| {
            let (image, range) = shape.piece(number);
            softmax.read(x.chunk(image, classes * pixels), shape, range.clone());
            let gradient = &gradient[image * PIXEL_SUMS * classes..][..PIXEL_SUMS * classes];
            softmax.weigh(&truth[image * pixels..][range], gradient, classes);
            for (class, plane) in planes.into_iter().enumerate() {
                plane.begin(Threads::One).write(made, Before::Anything, Threads::One, |dx| softmax.gradient(class, dx));
            }
        },
    );
    dx.made()
}

/// The softmax of a piece of an image's pixels.
struct Softmax<T> {
    /// Pixels.
    len: usize,
    /// `[classes, len]`.
    p: Vec<T>,
    /// Logarithms of the same; in the backward pass what belongs to a class.
    log_p: Vec<T>,
    /// For each pixel: the largest logit; later a factor, 1 where it counts.
    first: Vec<T>,
    /// For each pixel: a sum over classes.
    sums: Vec<T>,
    wide: Vec<T>,
}

impl<T> Default for Softmax<T> {
    fn default() -> Self {
        let [p, log_p, first, sums, wide] = std::array::from_fn(|_| Vec::new());
        Self { len: 0, p, log_p, first, sums, wide }
    }
}

impl<T: Stored> Softmax<T> {
    /// Of some pixels of an image.
    fn read(&mut self, image: Source<'_, T>, Shape { classes, pixels, .. }: Shape, range: Range<usize>) {
        let (zero, len) = (T::of(0.0), range.len());
        self.len = len;
        let Self { p, log_p, first, sums, wide, .. } = self;
        p.resize(classes * len, zero);
        log_p.resize(classes * len, zero);
        first.clear();
        first.resize(len, T::of(f64::NEG_INFINITY));
        sums.clear();
        sums.resize(len, zero);
        for (class, plane) in log_p.chunks_exact_mut(len).enumerate() {
            let from = class * pixels;
            plane.copy_from_slice(image.part(from + range.start..from + range.end).read(wide, Threads::One));
            vectorised(
                #[inline(always)]
                || {
                    for (largest, &logit) in first.iter_mut().zip(&*plane) {
                        *largest = if logit > *largest { logit } else { *largest };
                    }
                },
            );
        }
        for (plane, p) in log_p.chunks_exact_mut(len).zip(p.chunks_exact_mut(len)) {
            vectorised(
                #[inline(always)]
                || {
                    for (((logit, p), &largest), sum) in plane.iter_mut().zip(p).zip(&*first).zip(&mut *sums) {
                        *logit = *logit - largest;
                        *p = logit.exp();
                        *sum += *p;
                    }
                },
            );
        }
        first.iter_mut().zip(&*sums).for_each(|(shift, sum)| *shift = T::of(sum.wide().ln()));
        for (plane, p) in log_p.chunks_exact_mut(len).zip(p.chunks_exact_mut(len)) {
            vectorised(
                #[inline(always)]
                || {
                    for (((logit, p), &shift), &sum) in plane.iter_mut().zip(p).zip(&*first).zip(&*sums) {
                        *logit = *logit - shift;
                        *p = *p / sum;
                    }
                },
            );
        }
    }

    /// Has `first` tell which pixels count.
    fn count(&mut self, truth: &[u8], classes: usize) {
        for (counts, &class) in self.first.iter_mut().zip(truth) {
            *counts = T::of(f64::from(u8::from(usize::from(class) < classes)));
        }
    }

    /// The four sums of each class, one after the other.
    fn sums(&mut self, truth: &[u8], classes: usize) -> Vec<f64> {
        self.count(truth, classes);
        let mut sums = vec![0.0; PIXEL_SUMS * classes];
        let of = |sum: usize, class: usize| sum * classes + class;
        for (pixel, class) in truth.iter().map(|class| usize::from(*class)).enumerate() {
            if class < classes {
                sums[of(0, class)] += self.p[class * self.len + pixel].wide();
                sums[of(2, class)] += self.log_p[class * self.len + pixel].wide();
            }
        }
        for class in 0..classes {
            let plane = class * self.len..(class + 1) * self.len;
            sums[of(1, class)] = product(&self.p[plane.clone()], &self.first);
            sums[of(3, class)] = product(&self.log_p[plane], &self.first);
        }
        sums
    }

    /// Has `log_p` hold `a`, and `sums` its sum over classes, for the gradient `[4, classes]` of an image's sums.
    fn weigh(&mut self, truth: &[u8], gradient: &[T], classes: usize) {
        self.count(truth, classes);
        let of = |sum: usize, class: usize| gradient[sum * classes + class];
        let Self { len, p, log_p, first, sums, .. } = self;
        for (class, (a, p)) in log_p.chunks_exact_mut(*len).zip(p.chunks_exact(*len)).enumerate() {
            let (of_p, of_log_p) = (of(1, class), of(3, class));
            vectorised(
                #[inline(always)]
                || {
                    for ((a, &p), &counts) in a.iter_mut().zip(p).zip(&*first) {
                        *a = (p * of_p + of_log_p) * counts;
                    }
                },
            );
        }
        for (pixel, class) in truth.iter().map(|class| usize::from(*class)).enumerate() {
            if class < classes {
                let at = class * *len + pixel;
                log_p[at] += p[at] * of(0, class) + of(2, class);
            }
        }
        sums.fill(T::of(0.0));
        for a in log_p.chunks_exact(*len) {
            sums.iter_mut().zip(a).for_each(|(sum, &a)| *sum += a);
        }
    }

    /// The gradient of the logits of a class, after [`Softmax::weigh`].
    fn gradient(&self, class: usize, dx: &mut [T]) {
        let plane = class * self.len..(class + 1) * self.len;
        let (a, p, sums) = (&self.log_p[plane.clone()], &self.p[plane], &self.sums);
        vectorised(
            #[inline(always)]
            || {
                for (((dx, &a), &p), &sum) in dx.iter_mut().zip(a).zip(p).zip(sums) {
                    *dx = a - p * sum;
                }
            },
        );
    }
}

/// The sum of the products of two vectors, in float64.
fn product<T: Real>(a: &[T], b: &[T]) -> f64 {
    vectorised(
        #[inline(always)]
        || {
            let mut sums = [0.0; SIDE_BY_SIDE];
            for (a, b) in a.chunks(SIDE_BY_SIDE).zip(b.chunks(SIDE_BY_SIDE)) {
                for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                    *sum += (*a * *b).wide();
                }
            }
            sums.iter().sum()
        },
    )
}
