//! Reads a map through its normalisation, activation and gate, without storing the result as a whole.
//!
//! A convolution after a normalisation needs the activated map twice: as its input, and for the gradient of its weight. Here it is
//! computed both times from the map before the normalisation, in pieces that stay in the cache. That map is kept anyway, for the
//! gradient of the normalisation. So one map is kept instead of two, and one map less is written to memory and read back.

use std::marker::PhantomData;
use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::normalisation::{NormAct, PerChannel};
use crate::activation::Activation;
use crate::activation::cpu::{Exact, ForActivation, Function};
use crate::convolution::cpu::depthwise::Split;
use crate::cpu::bits::Bits;
use crate::cpu::elements::{AsStored, Filled};
use crate::cpu::gemm::{Threads, numbers_as_singles};
use crate::cpu::halves::Half;
use crate::cpu::lanes::{LANES, deal_pairs, vectorised};
use crate::cpu::making::Making;
use crate::cpu::real::{ABREAST, Real};
use crate::cpu::room::Room;
use crate::cpu::rounding::round_through;
use crate::cpu::values::{Elements, Source, Stored};

/// A map, and what is applied to it when it is read.
pub(crate) struct Reading<'a, T> {
    /// The input of the normalisation, `[batch, channels, height, width]`.
    pub(crate) x: Source<'a, T>,
    pub(crate) norm: NormAct<T>,
    pub(crate) activation: Activation,
    /// A factor for each plane.
    pub(crate) gate: Option<&'a [T]>,
}

impl<T: Stored> Reading<'_, T> {
    /// Pixels of a plane.
    pub(crate) fn plane(&self) -> usize {
        self.norm.plane
    }

    /// The pixels of plane `index` from `start` on, before they are normalised.
    pub(super) fn pixels(&self, index: usize, start: usize, count: usize) -> Source<'_, T> {
        let first = index * self.plane() + start;
        self.x.part(first..first + count)
    }

    /// The activation of what is read.
    fn exact(&self) -> Exact {
        Exact { activation: self.activation, to_bf16: matches!(self.x, Source::Halves(Half::Bf16, _)) }
    }

    /// The factor of a plane.
    pub(super) fn factor(&self, index: usize) -> T {
        self.gate.map_or(T::of(1.0), |gate| gate[index])
    }

    /// Scale, shift and factor of a plane.
    pub(crate) fn coefficients(&self, index: usize) -> [T; 3] {
        let PerChannel { scale, shift, .. } = self.norm.of_plane(index);
        [scale, shift, self.factor(index)]
    }

    /// Fills `out` with the pixels of plane `index` from `start` on; planes are counted over samples and channels. They are rounded if
    /// they are to be bits of bf16.
    pub(crate) fn fill<Y: Filled<T>>(&self, index: usize, start: usize, out: &mut [Y]) {
        let (of, x) = (self.norm.of_plane(index), self.pixels(index, start, out.len()));
        fill(self.exact(), of, self.factor(index), x, out);
    }

    /// [`Reading::fill`] of whole rows, which are split.
    pub(crate) fn split(&self, index: usize, pixels: Range<usize>, to: &mut [T], split: &Split, buffer: &mut Vec<T>) {
        let (of, x) = (self.norm.of_plane(index), self.pixels(index, pixels.start, pixels.len()));
        fill_split(self.exact(), of, self.factor(index), x, to, split, buffer);
    }

    /// The whole map, normalised, activated and gated.
    pub(crate) fn whole(&self) -> Elements<T> {
        let mut y = Making::like(self.x, self.x.len());
        y.parts(self.plane()).into_par_iter().enumerate().for_each(|(index, y)| {
            y.begin(Threads::One).in_pieces(|at, y| self.fill(index, at, y));
        });
        y.made()
    }
}

/// Normalises and activates pixels of a channel.
pub(crate) fn normalise<T: Stored>(activation: Exact, of: PerChannel<T>, x: Source<'_, T>, out: &mut [T]) {
    fill(activation, of, T::of(1.0), x, out);
}

/// [`normalise`] of pixels that are rounded to bf16 before, to bits of bf16.
///
/// # Panics
/// If they are not float32.
pub(crate) fn normalise_stored<T: Stored>(activation: Exact, of: PerChannel<T>, x: &[T], out: &mut [u16]) {
    let PerChannel { scale, shift, .. } = of.in_float32();
    activation.dispatch(FillStored { scale, shift, x: numbers_as_singles(x), out });
}

/// [`normalise`] of whole rows of a plane, which are split ([`Split`]).
pub(crate) fn normalise_split<T: Stored>(
    activation: Exact,
    of: PerChannel<T>,
    x: Source<'_, T>,
    to: &mut [T],
    split: &Split,
    buffer: &mut Vec<T>,
) {
    fill_split(activation, of, T::of(1.0), x, to, split, buffer);
}

fn fill_split<T: Stored>(
    activation: Exact,
    of: PerChannel<T>,
    factor: T,
    x: Source<'_, T>,
    to: &mut [T],
    split: &Split,
    buffer: &mut Vec<T>,
) {
    let done = match x {
        _ if is_gated(factor) => false,
        Source::Same(x) => activation.dispatch(FillSplit { of, x, to, split }),
        Source::Halves(Half::Bf16, x) => activation.dispatch(FillSplit { of, x, to, split }),
        Source::Halves(..) => false,
    };
    if !done {
        buffer.resize(x.len(), T::of(0.0));
        fill(activation, of, factor, x, buffer.as_mut_slice());
        split.copy(buffer, to);
    }
}

fn fill<T: Stored, Y: Filled<T>>(activation: Exact, of: PerChannel<T>, factor: T, x: Source<'_, T>, out: &mut [Y]) {
    if let (Source::Halves(Half::Bf16, x), Some(out)) = (x, Y::bits(out)) {
        let [scale, shift, factor] = [of.scale, of.shift, factor].map(|number| number.wide() as f32);
        return activation.dispatch(FillBits { scale, shift, factor, x, out });
    }
    Y::in_pieces(out, |at, out| {
        let x = x.part(at..at + out.len());
        match x {
            Source::Halves(Half::Bf16, x) => activation.dispatch(Fill { of, factor, x, out }),
            x => x.in_pieces(|at, x| {
                activation.dispatch(Fill { of, factor, x, out: &mut out[at..at + x.len()] });
            }),
        }
    });
}

struct Fill<'a, T, X> {
    of: PerChannel<T>,
    factor: T,
    x: &'a [X],
    out: &'a mut [T],
}

impl<T: Real, X: AsStored<T>> ForActivation for Fill<'_, T, X> {
    type Output = ();

    fn run<F: Function>(self, _: F) {
        let Self { of: PerChannel { scale, shift, .. }, factor, mut x, mut out } = self;
        if F::ABREAST {
            let fill = FillAbreast { scale, shift, factor, x, out: &mut *out, function: PhantomData::<F> };
            let done = Arch::new().dispatch(fill);
            (x, out) = (&x[done..], &mut out[done..]);
        }
        let gated = is_gated(factor);
        vectorised(
            #[inline(always)]
            || {
                let numbers = out.iter_mut().zip(x);
                if gated {
                    numbers.for_each(|(out, x)| *out = F::value(x.widened() * scale + shift) * factor);
                } else {
                    numbers.for_each(|(out, x)| *out = F::value(x.widened() * scale + shift));
                }
            },
        );
    }
}

/// Whether a factor changes anything. A product less is a quarter of the time that a short function takes.
fn is_gated<T: Real>(factor: T) -> bool {
    factor != T::of(1.0)
}

/// As many numbers of a [`Fill`] as there are in whole groups of registers. Returns how many these are.
struct FillAbreast<'a, T, X, F> {
    scale: T,
    shift: T,
    factor: T,
    x: &'a [X],
    out: &'a mut [T],
    function: PhantomData<F>,
}

impl<T: Real, X: AsStored<T>, F: Function> WithSimd for FillAbreast<'_, T, X, F> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let lanes = T::lanes::<S>();
        let (each, gated) = (ABREAST * lanes, is_gated(self.factor));
        let [scale, shift, factor] = [self.scale.splat(simd), self.shift.splat(simd), self.factor.splat(simd)];
        // Numbers of a group that are widened. The compiler knows that these lie apart from all others.
        let mut group = [T::of(0.0); ABREAST * LANES];
        let group = &mut group[..each];
        for (out, x) in self.out.chunks_exact_mut(each).zip(self.x.chunks_exact(each)) {
            let mut values = [shift; ABREAST];
            let x = X::same(x).unwrap_or_else(
                #[inline(always)]
                || {
                    for (wide, x) in group.iter_mut().zip(x) {
                        *wide = x.widened();
                    }
                    group
                },
            );
            for (value, x) in values.iter_mut().zip(x.chunks_exact(lanes)) {
                *value = T::sum(simd, T::product(simd, T::load(simd, x), scale), shift);
            }
            values = F::values::<T, S>(simd, values);
            if gated {
                values.iter_mut().for_each(|value| *value = T::product(simd, *value, factor));
            }
            for (value, place) in values.into_iter().zip(out.chunks_exact_mut(lanes)) {
                T::store(simd, place, value);
            }
        }
        self.x.len() - self.x.len() % each
    }
}

/// A [`Fill`] of whole rows that are split. Returns whether there is a loop for such rows; otherwise nothing is done.
struct FillSplit<'a, T, X> {
    of: PerChannel<T>,
    x: &'a [X],
    to: &'a mut [T],
    split: &'a Split,
}

impl<T: Real, X: AsStored<T>> ForActivation for FillSplit<'_, T, X> {
    type Output = bool;

    fn run<F: Function>(self, _: F) -> bool {
        let Self { of: PerChannel { scale, shift, .. }, x, to, split } = self;
        // Registers go through a function abreast where their numbers follow each other.
        if split.stride > 2 || F::ABREAST {
            return false;
        }
        vectorised(
            #[inline(always)]
            || {
                for (x, to) in x.chunks_exact(split.width).zip(to.chunks_mut(split.pitch())) {
                    if split.stride == 1 {
                        let to = to[split.left..split.left + split.kept()].iter_mut();
                        to.zip(x).for_each(|(to, x)| *to = F::value(x.widened() * scale + shift));
                    } else {
                        deal_pairs(
                            x,
                            split.phases(to),
                            #[inline(always)]
                            |pair| {
                                let [first, second] = X::widened_pair(pair);
                                [F::value(first * scale + shift), F::value(second * scale + shift)]
                            },
                            #[inline(always)]
                            |x: X| F::value(x.widened() * scale + shift),
                        );
                    }
                }
            },
        );
        true
    }
}

/// A [`Fill`] of bits of bf16, from such bits.
struct FillBits<'a> {
    scale: f32,
    shift: f32,
    factor: f32,
    x: &'a [u16],
    out: &'a mut [u16],
}

impl ForActivation for FillBits<'_> {
    type Output = ();

    fn run<F: Function>(self, _: F) {
        let Self { scale, shift, factor, x, out } = self;
        Bits::new(Half::Bf16, Room::written(out)).write_of_two(
            [x, x],
            #[inline(always)]
            |x, _| F::value(x * scale + shift) * factor,
        );
    }
}

/// A [`Fill`] of numbers that are rounded to bf16 before, and of bits of bf16.
struct FillStored<'a> {
    scale: f32,
    shift: f32,
    x: &'a [f32],
    out: &'a mut [u16],
}

impl ForActivation for FillStored<'_> {
    type Output = ();

    fn run<F: Function>(self, _: F) {
        let Self { scale, shift, x, out } = self;
        round_through(
            x,
            out,
            #[inline(always)]
            |x| F::value(x * scale + shift),
        );
    }
}
