//! The gradients of a map that is read through its normalisation ([`Reading`]): of its input, scale, shift and gate.

use rayon::prelude::*;

use super::normalisation::{Gradients, NormAct, PerChannel};
use super::reading::Reading;
use super::sums::Sums;
use crate::activation::cpu::{ForActivation, Function, dispatch};
use crate::convolution::cpu::depthwise::Lend;
use crate::cpu::elements::AsStored;
use crate::cpu::gemm::{Threads, as_singles_mut};
use crate::cpu::halves::{Half, PIECE};
use crate::cpu::lanes::{replace_and_sum, vectorised};
use crate::cpu::making::Making;
use crate::cpu::parts::parts;
use crate::cpu::real::Real;
use crate::cpu::values::{Before, Elements, Source, Stored, Target};

impl<T: Stored> Reading<'_, T> {
    /// Turns the gradient of the values that [`Reading::fill`] gave into the gradient of the normalised values, in place, and returns
    /// the sums over these pixels and those of the plane that come before. Their bits are the same wherever a plane is cut between whole
    /// [`BLOCK`](crate::cpu::lanes::BLOCK)s of it.
    pub(crate) fn absorb(&self, index: usize, start: usize, gradient: &mut [T], before: Sums) -> Sums {
        let Sums { gate, normalised: (sum, weighted) } = before;
        let (of, factor, mut sums) = (self.norm.of_plane(index), self.factor(index), [gate, sum, weighted]);
        match self.pixels(index, start, gradient.len()) {
            Source::Halves(Half::Bf16, x) => {
                let (factor, gradient) = (factor.wide() as f32, as_singles_mut(gradient));
                sums = self.absorb_stored(Absorb { of: of.in_float32(), factor, x, gradient, sums });
            }
            x => x.in_pieces(|at, x| {
                sums = self.absorb_stored(Absorb { of, factor, x, gradient: &mut gradient[at..at + x.len()], sums });
            }),
        }
        let [gate, sum, weighted] = sums;
        Sums { gate, normalised: (sum, weighted) }
    }

    fn absorb_stored<Y: Real, X: AsStored<Y>>(&self, absorb: Absorb<'_, Y, X>) -> [f64; 3] {
        match self.gate {
            Some(_) => dispatch(self.activation, OfGated(absorb)),
            None => dispatch(self.activation, absorb),
        }
    }

    /// The gradients of the normalisation's input and parameters, for the gradient of the values of a whole map.
    pub(crate) fn backward(&self, gradient: Elements<T>) -> Gradients<T> {
        self.by_channels(gradient.into(), Before::Kept, 0, &|| {
            Box::new(|_, _, lend| lend(0..self.plane(), &mut |_| {}))
        })
        .0
    }

    /// The same for a gradient that somebody else needs as it is.
    pub(crate) fn backward_apart(&self, gradient: Source<'_, T>) -> Gradients<T> {
        let dx = Making::like(gradient, gradient.len());
        let copied = || -> Worker<'_, T> {
            Box::new(|index, _, lend| {
                let gradient = gradient.chunk(index, self.plane());
                for pixels in parts(self.plane(), PIECE) {
                    lend(pixels.clone(), &mut |dx| gradient.part(pixels.clone()).copy_to(dx, Threads::One));
                }
            })
        };
        self.by_channels(dx, Before::Anything, 0, &copied).0
    }

    /// The gradients of the normalisation's input and parameters, where the gradient of each plane of the values that [`Reading::fill`]
    /// gave is computed by itself: by a [`Worker`], over `dx`, which holds what `before` says. The workers add to `each` zeros of
    /// their plane, which come in the order of the planes. What a worker has written is taken on while it is in the first-level cache.
    ///
    /// The planes of a channel in a group are finished before those of the next, while they are in the cache: the sums that its
    /// normalisation needs are over them alone. The sums are added up in the order of the samples, whatever thread computed them.
    pub(crate) fn by_channels<'w>(
        &self,
        mut dx: Making<T>,
        before: Before,
        each: usize,
        worker: &(dyn Fn() -> Worker<'w, T> + Sync),
    ) -> (Gradients<T>, Vec<f64>) {
        let planes = self.x.len() / self.plane();
        let (mut gates, mut made) = (vec![T::of(0.0); planes], vec![0.0; planes * each]);
        let mut of_channels: Vec<Vec<Plane<'_, T>>> = (0..self.norm.slots()).map(|_| Vec::new()).collect();
        let mut left = &mut *made;
        for (index, (dx, gate)) in dx.parts(self.plane()).into_iter().zip(&mut gates).enumerate() {
            let (sums, others) = left.split_at_mut(each);
            left = others;
            of_channels[self.norm.slot(index)].push(Plane { index, dx: dx.begin(Threads::One), gate, sums });
        }
        let first = |work: &mut Worker<'w, T>, (plane, wide): (&mut Plane<'_, T>, &mut Vec<T>)| {
            let Plane { index, dx, gate, sums } = plane;
            let mut absorbed = Sums::default();
            work(*index, sums, &mut |pixels, write| {
                let gradient = dx.next(pixels.clone(), wide, before);
                write(gradient);
                absorbed = self.absorb(*index, pixels.start, gradient, absorbed);
            });
            **gate = T::of(absorbed.gate);
            absorbed
        };
        let last = |of_channel: Sums, (plane, wide): (&mut Plane<'_, T>, &mut Vec<T>)| {
            let dx = plane.dx.open(wide, Before::Anything);
            self.finish_pixels(plane.index, 0, of_channel, dx);
            plane.dx.close(wide, Threads::One);
        };
        let few = channels_at_once(of_channels.len(), rayon::current_num_threads()) == of_channels.len();
        let of_channels: Vec<Sums> = of_channels
            .into_par_iter()
            .map_init(
                || (worker(), Vec::new()),
                |(work, wide), mut planes| {
                    wide.resize_with(planes.len(), Vec::new);
                    if !few {
                        let of_channel = planes.iter_mut().zip(&mut *wide).map(|plane| first(work, plane)).sum();
                        planes.iter_mut().zip(wide).for_each(|plane| last(of_channel, plane));
                        return of_channel;
                    }
                    let of_planes: Vec<Sums> = planes.par_iter_mut().zip(&mut *wide).map_init(worker, first).collect();
                    let of_channel = of_planes.into_iter().sum();
                    planes.par_iter_mut().zip(wide).for_each(|plane| last(of_channel, plane));
                    of_channel
                },
            )
            .collect();
        (self.norm.gradients(dx.made(), &of_channels, gates), made)
    }

    /// The gradients of the normalisation's input and parameters, from the gradient of the normalised values and the sums of each plane.
    pub(crate) fn finish(&self, mut gradient: Elements<T>, sums: &[Sums]) -> Gradients<T> {
        let of_channels = self.norm.over_samples(sums);
        let (plane, of_plane) = (self.plane(), |index: usize| of_channels[self.norm.slot(index)]);
        if let (Elements::Same(wide), true) = (&gradient, self.x.widens()) {
            let mut dx = Making::like(self.x, wide.len());
            dx.parts(plane).into_par_iter().zip(wide.par_chunks(plane)).enumerate().for_each(|(index, (dx, wide))| {
                dx.begin(Threads::One).in_pieces(|at, dx| {
                    dx.copy_from_slice(&wide[at..at + dx.len()]);
                    self.finish_pixels(index, at, of_plane(index), dx);
                });
            });
            gradient = dx.made();
        } else {
            gradient.target().chunks(plane).into_par_iter().enumerate().for_each(|(index, mut dx)| {
                if !self.finish_stored(index, of_plane(index), &mut dx) {
                    dx.replace(|at, dx| self.finish_pixels(index, at, of_plane(index), dx));
                }
            });
        }
        let gates = sums.iter().map(|sums| T::of(sums.gate)).collect();
        self.norm.gradients(gradient, &of_channels, gates)
    }

    /// Turns the gradient of the normalised values into that of the normalisation's input, for the pixels of plane `index` from `start` on.
    fn finish_pixels(&self, index: usize, start: usize, of_channel: Sums, dx: &mut [T]) {
        let finish = Finish::new(&self.norm, index, of_channel);
        match self.pixels(index, start, dx.len()) {
            Source::Halves(Half::Bf16, x) => finish.in_float32().pixels(x, as_singles_mut(dx)),
            x => x.in_pieces(|at, x| finish.pixels(x, &mut dx[at..at + x.len()])),
        }
    }

    /// The same for a plane of bf16 whose gradient is bf16 as well. Returns whether it is that; otherwise nothing is done.
    fn finish_stored(&self, index: usize, of_channel: Sums, dx: &mut Target<'_, T>) -> bool {
        let (Source::Halves(Half::Bf16, x), Target::Halves(dx)) = (self.pixels(index, 0, self.plane()), dx) else {
            return false;
        };
        let finish = Finish::new(&self.norm, index, of_channel).in_float32();
        dx.replace_bf16(
            x,
            #[inline(always)]
            |dx, x| finish.pixel(dx, x),
        )
    }
}

/// Turns the gradient of a plane's normalised values into that of the normalisation's input.
#[derive(Clone, Copy)]
struct Finish<T> {
    of: PerChannel<T>,
    /// The means over the group of the gradient, and of the gradient times the value.
    centre: T,
    slope: T,
}

impl<T: Real> Finish<T> {
    /// For a plane.
    fn new(norm: &NormAct<T>, index: usize, of_channel: Sums) -> Self {
        let (centre, slope) = norm.means(index, of_channel);
        Self { of: norm.of_plane(index), centre, slope }
    }

    fn in_float32(self) -> Finish<f32> {
        let [centre, slope] = [self.centre, self.slope].map(|number| number.wide() as f32);
        Finish { of: self.of.in_float32(), centre, slope }
    }

    #[inline(always)]
    fn pixel(&self, dx: T, x: T) -> T {
        let PerChannel { scale, mean, inverse, .. } = self.of;
        scale * (dx - self.centre - (x - mean) * inverse * self.slope)
    }

    fn pixels<X: AsStored<T>>(&self, x: &[X], dx: &mut [T]) {
        vectorised(
            #[inline(always)]
            || dx.iter_mut().zip(x).for_each(|(dx, x)| *dx = self.pixel(*dx, x.widened())),
        );
    }
}

/// How many of so many channels, counted in each group by itself, are computed at the same time where a gradient is finished channel by
/// channel: one by each thread, or all where there are few for each thread.
pub fn channels_at_once(channels: usize, threads: usize) -> usize {
    const FEW: usize = 4;
    if channels < FEW * threads { channels } else { threads }
}

/// Computes the gradient of the plane of an index, in buffers of its own: adds sums over that plane to others, and writes all pixels, in
/// their order, to what it is lent. A box, so that [`Reading::by_channels`] is compiled once.
pub(crate) type Worker<'a, T> = Box<dyn FnMut(usize, &mut [f64], &mut Lend<'_, T>) + 'a>;

/// A plane of a gradient that is being computed.
struct Plane<'a, T> {
    index: usize,
    dx: Target<'a, T>,
    /// The gradient of its factor.
    gate: &'a mut T,
    /// What its worker adds up.
    sums: &'a mut [f64],
}

struct Absorb<'a, T, X> {
    of: PerChannel<T>,
    factor: T,
    x: &'a [X],
    gradient: &'a mut [T],
    /// Of gate, gradient, and gradient times value, over the pixels before these.
    sums: [f64; 3],
}

impl<T: Real, X: AsStored<T>> Absorb<'_, T, X> {
    #[inline(always)]
    fn absorb<F: Function, const GATED: bool>(self) -> [f64; 3] {
        let Self { of: PerChannel { scale, shift, mean, inverse }, factor, x, gradient, sums } = self;
        vectorised(
            #[inline(always)]
            || {
                replace_and_sum(sums, x, gradient, X::widened, |x, gradient| {
                    let z = x * scale + shift;
                    let of_gate = if GATED { gradient * F::value(z) } else { T::of(0.0) };
                    let gradient = if GATED { gradient * factor } else { gradient };
                    let dz = gradient * F::derivative(z);
                    (dz, [of_gate, dz, dz * (x - mean) * inverse])
                })
            },
        )
    }
}

impl<T: Real, X: AsStored<T>> ForActivation for Absorb<'_, T, X> {
    type Output = [f64; 3];

    fn run<F: Function>(self, _: F) -> [f64; 3] {
        self.absorb::<F, false>()
    }
}

/// An [`Absorb`] of a map with a gate.
struct OfGated<'a, T, X>(Absorb<'a, T, X>);

impl<T: Real, X: AsStored<T>> ForActivation for OfGated<'_, T, X> {
    type Output = [f64; 3];

    fn run<F: Function>(self, _: F) -> [f64; 3] {
        self.0.absorb::<F, true>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::Activation;
    use crate::cpu::bits::round_over;

    /// Of two samples in groups of their own, with and without an activation, in float32 and in both half formats.
    #[test]
    fn a_gradient_that_somebody_else_needs_gives_the_bits_of_one_that_is_replaced_and_stays_as_it_is() {
        let shape = [2, 3, 5, 70];
        let count = shape.iter().product();
        let numbers = |step: usize| (0..count).map(|at| (at * step % 101) as f32 / 50.0 - 1.0).collect();
        let (x, dy): (Vec<f32>, Vec<f32>) = (numbers(37), numbers(23));
        let stored = |numbers: &[f32], half: Option<Half>| -> Elements<f32> {
            let Some(half) = half else { return Elements::Same(numbers.to_vec()) };
            let mut bits = vec![0; numbers.len()];
            round_over(half, numbers, &mut bits, Threads::One);
            Elements::Halves(half, bits)
        };
        let bits = |elements: &Elements<f32>| -> Vec<u32> {
            match elements.source() {
                Source::Same(numbers) => numbers.iter().map(|number| number.to_bits()).collect(),
                Source::Halves(_, bits) => bits.iter().map(|bits| u32::from(*bits)).collect(),
            }
        };
        let statistics = [0.1, -0.2, 0.3, 0.0, 0.4, -0.1, 0.9, 1.1, 0.3, 0.7, 1.2, 0.2];
        for half in [None, Some(Half::Bf16), Some(Half::F16)] {
            for activation in [Activation::Identity, Activation::Relu] {
                let (x, dy) = (stored(&x, half), stored(&dy, half));
                let norm = NormAct::new(shape, &[1.0, 0.5, -2.0], &[0.0, 1.0, 0.1], &statistics, &[1, 1], 1e-5);
                let reading = Reading { x: x.source(), norm, activation, gate: None };
                let before = bits(&dy);
                let apart = reading.backward_apart(dy.source());
                assert_eq!(bits(&dy), before, "{half:?} {activation:?}");
                let replaced = reading.backward(dy);
                assert_ne!(bits(&replaced.x), before, "{half:?} {activation:?}");
                assert_eq!(bits(&apart.x), bits(&replaced.x), "{half:?} {activation:?}");
                assert_eq!((apart.weight, apart.bias), (replaced.weight, replaced.bias), "{half:?} {activation:?}");
            }
        }
    }
}
