//! Reads a map through its normalisation, activation and gate, without storing the result as a whole.
//!
//! A convolution after a normalisation needs the activated map twice: as its input, and for the gradient of its weight. Here it is
//! computed both times from the map before the normalisation, in pieces that stay in the cache. That map is kept anyway, for the
//! gradient of the normalisation. So one map is kept instead of two, and one map less is written to memory and read back.

use rayon::prelude::*;

use super::normalisation::{Gradients, NormAct, PerChannel};
use super::sums::Sums;
use crate::activation::Activation;
use crate::activation::cpu::{ForActivation, Function, dispatch};
use crate::cpu::lanes::{replace_and_sum, vectorised};
use crate::cpu::real::Real;

/// A map, and what is applied to it when it is read.
pub(crate) struct Reading<'a, T> {
    /// The input of the normalisation, `[batch, channels, height, width]`.
    pub(crate) x: &'a [T],
    pub(crate) norm: NormAct<T>,
    pub(crate) activation: Activation,
    /// A factor for each plane.
    pub(crate) gate: Option<&'a [T]>,
}

impl<T: Real> Reading<'_, T> {
    /// Pixels of a plane.
    pub(crate) fn plane(&self) -> usize {
        self.norm.plane
    }

    fn pixels(&self, index: usize, start: usize, count: usize) -> &[T] {
        &self.x[index * self.plane() + start..][..count]
    }

    fn factor(&self, index: usize) -> T {
        self.gate.map_or(T::of(1.0), |gate| gate[index])
    }

    /// Fills `out` with the pixels of plane `index` from `start` on; planes are counted over samples and channels.
    pub(crate) fn fill(&self, index: usize, start: usize, out: &mut [T]) {
        let x = self.pixels(index, start, out.len());
        dispatch(self.activation, Fill { of: self.norm.of_plane(index), factor: self.factor(index), x, out });
    }

    /// The whole map, normalised, activated and gated.
    pub(crate) fn whole(&self) -> Vec<T> {
        let mut y = vec![T::of(0.0); self.x.len()];
        y.par_chunks_mut(self.plane()).enumerate().for_each(|(index, y)| self.fill(index, 0, y));
        y
    }

    /// Turns the gradient of the values that [`Reading::fill`] gave into the gradient of the normalised values, in place, and returns
    /// the sums over these pixels.
    pub(crate) fn absorb(&self, index: usize, start: usize, gradient: &mut [T]) -> Sums {
        let x = self.pixels(index, start, gradient.len());
        let of = self.norm.of_plane(index);
        match self.gate {
            Some(_) => dispatch(self.activation, Absorb::<T, true> { of, factor: self.factor(index), x, gradient }),
            None => dispatch(self.activation, Absorb::<T, false> { of, factor: T::of(1.0), x, gradient }),
        }
    }

    /// [`Reading::absorb`] for a whole map, then [`Reading::finish`].
    pub(crate) fn backward(&self, mut gradient: Vec<T>) -> Gradients<T> {
        let planes = gradient.par_chunks_mut(self.plane()).enumerate();
        let sums: Vec<Sums> = planes.map(|(index, gradient)| self.absorb(index, 0, gradient)).collect();
        self.finish(gradient, &sums)
    }

    /// The gradients of the normalisation's input and parameters, from the gradient of the normalised values and the sums of each
    /// plane. The sums are added up in the order of the samples, whatever thread computed them.
    pub(crate) fn finish(&self, gradient: Vec<T>, sums: &[Sums]) -> Gradients<T> {
        let mut dx = gradient;
        let of_channels = self.norm.over_samples(sums);
        dx.par_chunks_mut(self.plane()).zip(self.x.par_chunks(self.plane())).enumerate().for_each(
            |(index, (dx, x))| {
                let PerChannel { scale, mean, inverse, .. } = self.norm.of_plane(index);
                let (centre, slope) = self.norm.means(index, &of_channels);
                vectorised(
                    #[inline(always)]
                    || {
                        for (dx, x) in dx.iter_mut().zip(x) {
                            *dx = scale * (*dx - centre - (*x - mean) * inverse * slope);
                        }
                    },
                );
            },
        );
        let gate = sums.iter().map(|sums| T::of(sums.gate)).collect();
        self.norm.gradients(dx, &of_channels, gate)
    }
}

/// Normalises and activates pixels of a channel.
pub(crate) fn normalise<T: Real>(activation: Activation, of: PerChannel<T>, x: &[T], out: &mut [T]) {
    dispatch(activation, Fill { of, factor: T::of(1.0), x, out });
}

struct Fill<'a, T> {
    of: PerChannel<T>,
    factor: T,
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> ForActivation for Fill<'_, T> {
    type Output = ();

    fn run<F: Function>(self, _: F) {
        let Self { of: PerChannel { scale, shift, .. }, factor, x, out } = self;
        vectorised(
            #[inline(always)]
            || {
                for (out, x) in out.iter_mut().zip(x) {
                    *out = F::value(*x * scale + shift) * factor;
                }
            },
        );
    }
}

struct Absorb<'a, T, const GATED: bool> {
    of: PerChannel<T>,
    factor: T,
    x: &'a [T],
    gradient: &'a mut [T],
}

impl<T: Real, const GATED: bool> ForActivation for Absorb<'_, T, GATED> {
    type Output = Sums;

    fn run<F: Function>(self, _: F) -> Sums {
        let Self { of: PerChannel { scale, shift, mean, inverse }, factor, x, gradient } = self;
        let [gate, sum, weighted] = vectorised(
            #[inline(always)]
            || {
                replace_and_sum(x, gradient, |x, gradient| {
                    let z = x * scale + shift;
                    let of_gate = if GATED { gradient * F::value(z) } else { T::of(0.0) };
                    let gradient = if GATED { gradient * factor } else { gradient };
                    let dz = gradient * F::derivative(z);
                    (dz, [of_gate, dz, dz * (x - mean) * inverse])
                })
            },
        );
        Sums { gate, normalised: (sum, weighted) }
    }
}
