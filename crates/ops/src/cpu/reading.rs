//! A map as whoever comes next reads it: normalised, activated and gated on the way, and never stored whole.
//!
//! A convolution behind a normalisation needs the activated map twice: as its input, and for its weight's gradient. Here
//! both compute it from the map before the normalisation, piece by piece while the piece is in the cache. That map is kept for the
//! normalisation's own gradient anyway; so one map is kept where there were two, and one is written and read less.

use rayon::prelude::*;

use super::activation::{ForActivation, Function, dispatch};
use super::lanes::{replace_and_sum, vectorised};
use super::norm_act::{Gradients, NormAct, PerChannel};
use crate::activation::Activation;

/// What is read, and from what.
pub(super) struct Reading<'a> {
    /// What the normalisation is given, `[batch, channels, height, width]`.
    pub(super) x: &'a [f32],
    pub(super) norm: NormAct,
    pub(super) activation: Activation,
    /// A factor for each plane.
    pub(super) gate: Option<&'a [f32]>,
}

/// Sums over pixels of one plane, for the gradients.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Of the gate's gradient.
    pub(super) gate: f64,
    /// Of the normalised values' gradient, and of that times the values before scale and shift.
    pub(super) normalised: (f64, f64),
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.gate += other.gate;
        self.normalised.0 += other.normalised.0;
        self.normalised.1 += other.normalised.1;
    }
}

impl Reading<'_> {
    /// Pixels of a plane.
    pub(super) fn plane(&self) -> usize {
        self.norm.plane
    }

    fn pixels(&self, index: usize, start: usize, count: usize) -> &[f32] {
        &self.x[index * self.plane() + start..][..count]
    }

    fn factor(&self, index: usize) -> f32 {
        self.gate.map_or(1.0, |gate| gate[index])
    }

    /// Reads the pixels from `start` on of plane `index`, counted over samples and channels.
    pub(super) fn fill(&self, index: usize, start: usize, out: &mut [f32]) {
        let x = self.pixels(index, start, out.len());
        dispatch(self.activation, Fill { of: self.norm.of_plane(index), factor: self.factor(index), x, out });
    }

    /// The whole map.
    pub(super) fn whole(&self) -> Vec<f32> {
        let mut y = vec![0.0; self.x.len()];
        y.par_chunks_mut(self.plane()).enumerate().for_each(|(index, y)| self.fill(index, 0, y));
        y
    }

    /// Turns the gradient of what [`Reading::fill`] read into that of the normalised values, in its place.
    pub(super) fn absorb(&self, index: usize, start: usize, gradient: &mut [f32]) -> Sums {
        let x = self.pixels(index, start, gradient.len());
        let of = self.norm.of_plane(index);
        match self.gate {
            Some(_) => dispatch(self.activation, Absorb::<true> { of, factor: self.factor(index), x, gradient }),
            None => dispatch(self.activation, Absorb::<false> { of, factor: 1.0, x, gradient }),
        }
    }

    /// [`Reading::absorb`] for all of a map, then [`Reading::finish`].
    pub(super) fn backward(&self, mut gradient: Vec<f32>) -> Gradients {
        let planes = gradient.par_chunks_mut(self.plane()).enumerate();
        let sums: Vec<Sums> = planes.map(|(index, gradient)| self.absorb(index, 0, gradient)).collect();
        self.finish(gradient, &sums)
    }

    /// The gradients of what the normalisation was given and of its parameters, from the normalised values' gradient and
    /// each plane's sums. Sums over planes are added in the order of the samples, whatever thread made them.
    pub(super) fn finish(&self, gradient: Vec<f32>, sums: &[Sums]) -> Gradients {
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
        let gate = sums.iter().map(|sums| sums.gate as f32).collect();
        self.norm.gradients(dx, &of_channels, gate)
    }
}

struct Fill<'a> {
    of: PerChannel,
    factor: f32,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl ForActivation for Fill<'_> {
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

struct Absorb<'a, const GATED: bool> {
    of: PerChannel,
    factor: f32,
    x: &'a [f32],
    gradient: &'a mut [f32],
}

impl<const GATED: bool> ForActivation for Absorb<'_, GATED> {
    type Output = Sums;

    fn run<F: Function>(self, _: F) -> Sums {
        let Self { of: PerChannel { scale, shift, mean, inverse }, factor, x, gradient } = self;
        let [gate, sum, weighted] = vectorised(
            #[inline(always)]
            || {
                replace_and_sum(x, gradient, |x, gradient| {
                    let z = x * scale + shift;
                    let of_gate = if GATED { gradient * F::value(z) } else { 0.0 };
                    let gradient = if GATED { gradient * factor } else { gradient };
                    let dz = gradient * F::derivative(z);
                    (dz, [of_gate, dz, dz * (x - mean) * inverse])
                })
            },
        );
        Sums { gate, normalised: (sum, weighted) }
    }
}
