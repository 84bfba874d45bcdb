//! Convolutions of enlarged maps on the CPU, for maps of bf16 that are multiplied as they are stored.

mod fold;
mod scratch;
mod strips;

use std::sync::Arc;

use burn::backend::Flex;
use burn_flex::FlexTensor;

use super::{Beside, Enlarged, EnlargedGradients, OfEnlarged, Wanted};
use crate::convolution::cpu::samples::{over_samples, sum_over_samples};
use crate::convolution::cpu::shape::Dense;
use crate::convolution::cpu::{dense, input_gradient};
use crate::cpu::factors;
use crate::cpu::filter_cache::packed_once;
use crate::cpu::gemm::Threads;
use crate::cpu::gemm_bf16::Taps;
use crate::cpu::making::Making;
use crate::cpu::reserve;
use crate::cpu::tensors::{Contiguous, Values, contiguous, dims, tensor, values};
use crate::cpu::values::{Elements, Source, Target};
use crate::graph::Gradient;
use fold::{FOLDED, QUARTERS};
use strips::Strips;

pub use scratch::EnlargedScratch;

/// The shapes of a convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    batch: usize,
    /// Channels of the map that is enlarged.
    channels: usize,
    /// Channels of the map beside it.
    beside: usize,
    output: usize,
    /// Rows and columns of the map that is enlarged.
    height: usize,
    width: usize,
}

impl Shape {
    fn of(x: &FlexTensor, weight: &FlexTensor) -> Self {
        let ([batch, channels, height, width], [output, read, ..]) = (dims(x), dims(weight));
        let beside = read - channels;
        Self { batch, channels, beside, output, height, width }
    }

    /// Pixels of a channel of the map that is enlarged.
    fn plane(&self) -> usize {
        self.height * self.width
    }

    fn in_sample(&self) -> usize {
        self.channels * self.plane()
    }

    fn beside_in_sample(&self) -> usize {
        QUARTERS * self.beside * self.plane()
    }

    fn out_sample(&self) -> usize {
        QUARTERS * self.output * self.plane()
    }

    fn output_shape(&self) -> [usize; 4] {
        [self.batch, self.output, 2 * self.height, 2 * self.width]
    }

    /// The convolution of the map beside alone.
    fn of_map_beside(&self) -> Dense {
        let size = [2 * self.height, 2 * self.width];
        Dense {
            batch: self.batch,
            input: self.beside,
            output: self.output,
            height: size[0],
            width: size[1],
            kernel: 3,
            stride: 1,
            dilation: 1,
            before: [1; 2],
            out: size,
        }
    }

    /// One thread computes a sample if there are at least as many samples as threads; otherwise all threads share each sample.
    fn threads(&self) -> Threads {
        self.of_map_beside().threads()
    }

    /// The folded filters of each quarter of the output, packed, unless that was done before.
    fn filters(&self, weight: &Values<f32>) -> Arc<Vec<Taps>> {
        packed_once(weight, [self.output, self.channels, self.beside], |weight| {
            let size = [self.output, 2, self.pairs_of_quarter()];
            (0..QUARTERS).map(|quarter| factors::taps(&self.of_quarter(weight, quarter), size)).collect()
        })
    }
}

impl Beside<Flex> {
    fn contiguous(&self) -> Option<Contiguous> {
        match self {
            Self::Nothing => None,
            Self::Map(map) => Some(contiguous(map)),
        }
    }
}

/// The bits of maps of bf16, which [`super::enlarges`] has made sure of.
fn bits(map: &Contiguous) -> &[u16] {
    match map.source::<f32>() {
        Source::Halves(_, bits) => bits,
        Source::Same(_) => unreachable!("maps are of bf16"),
    }
}

impl Enlarged for Flex {
    fn convolve(x: FlexTensor, beside: Beside<Self>, weight: FlexTensor) -> FlexTensor {
        let shape = Shape::of(&x, &weight);
        let (threads, filters) = (shape.threads(), shape.filters(&values::<f32>(&weight)));
        let (x, beside) = (contiguous(&x), beside.contiguous());
        let (x, beside) = (x.source::<f32>(), beside.as_ref().map_or(&[][..], bits));
        let mut y = Making::like(x, shape.batch * shape.out_sample());
        let strips = Strips::of_output(&shape);
        let samples = y.parts(shape.out_sample()).into_iter().enumerate().collect();
        over_samples(threads, samples, |(sample, y)| {
            let (Source::Halves(_, x), Target::Halves(mut y)) = (x.chunk(sample, shape.in_sample()), y.begin(threads))
            else {
                unreachable!("maps are of bf16")
            };
            let beside = &beside[sample * shape.beside_in_sample()..][..shape.beside_in_sample()];
            strips.convolve([x, beside], &filters, &mut y, threads);
        });
        tensor(y.made(), shape.output_shape())
    }
}

impl EnlargedGradients for Flex {
    fn convolve_backward(
        x: FlexTensor,
        beside: Beside<Self>,
        weight: FlexTensor,
        dy: FlexTensor,
        wanted: Wanted,
    ) -> OfEnlarged<Self> {
        let shape = Shape::of(&x, &weight);
        let (weight_shape, weight) = (dims(&weight), values::<f32>(&weight));
        let (x_shape, format) = (dims(&x), x.dtype());
        let dy = contiguous(&dy);
        let of_weight = Gradient::if_wanted(wanted.weight, || {
            let of_beside = beside.contiguous().map_or_else(Vec::new, |beside| {
                dense::backward_weight(beside.source(), dy.source(), &shape.of_map_beside())
            });
            let mut of_filters = shape.with_beside(&of_beside);
            add_of_map(&shape, bits(&contiguous(&x)), bits(&dy), &mut of_filters);
            tensor(of_filters, weight_shape)
        });
        drop((x, beside));
        let of_x = Gradient::if_wanted(wanted.x, || {
            reserve(shape.batch * shape.in_sample(), format);
            tensor(of_input(&shape, &weight, &dy), x_shape)
        });
        let of_beside = Gradient::if_wanted(wanted.beside, || {
            reserve(shape.batch * shape.beside_in_sample(), format);
            let of_map = shape.of_map_beside();
            let dx = input_gradient::backward_input(dy.source(), &shape.of_beside(&weight), &of_map);
            tensor(dx, of_map.input_shape())
        });
        OfEnlarged { x: of_x, beside: of_beside, weight: of_weight }
    }
}

/// Adds the gradient of the filters for the map that is enlarged to that of all filters.
fn add_of_map(shape: &Shape, x: &[u16], dy: &[u16], of_filters: &mut [f32]) {
    let (threads, strips, at_once) = (shape.threads(), Strips::of_filters(shape), shape.quarters_at_once());
    for first in (0..QUARTERS).step_by(at_once) {
        let quarters = first..first + at_once;
        let size = at_once * shape.output * shape.channels * FOLDED;
        let sums = sum_over_samples(threads, size, (0..shape.batch).collect(), |sample, sums| {
            let x = &x[sample * shape.in_sample()..][..shape.in_sample()];
            let dy = &dy[sample * shape.out_sample()..][..shape.out_sample()];
            strips.add_gradient([x, dy], quarters.clone(), sums, threads);
        });
        shape.unfold(quarters, &sums, of_filters);
    }
}

/// The gradient of the map that is enlarged.
fn of_input(shape: &Shape, weight: &[f32], dy: &Contiguous) -> Elements<f32> {
    let filters = factors::taps(&shape.turned(weight), [shape.channels, 2, shape.pairs_of_gradient()]);
    let mut dx = Making::like(dy.source::<f32>(), shape.batch * shape.in_sample());
    let (threads, strips, dy) = (shape.threads(), Strips::of_gradient(shape), bits(dy));
    let samples = dx.parts(shape.in_sample()).into_iter().enumerate().collect();
    over_samples(threads, samples, |(sample, dx)| {
        let Target::Halves(mut dx) = dx.begin(threads) else { unreachable!("maps are of bf16") };
        let dy = &dy[sample * shape.out_sample()..][..shape.out_sample()];
        strips.gradient(dy, &filters, &mut dx, threads);
    });
    dx.made()
}
