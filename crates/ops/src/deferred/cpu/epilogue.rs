//! What ends a block in inference, while the output of its last convolution is in the cache: the normalisation of that, a shortcut, and an
//! activation.

use rayon::prelude::*;

use super::normalisation::{NormAct, PerChannel};
use super::reading::normalise;
use crate::activation::Activation;
use crate::activation::cpu::{Exact, Function, Identity, Relu};
use crate::cpu::bits::Bits;
use crate::cpu::gemm::Threads;
use crate::cpu::halves::{Half, with_buffer};
use crate::cpu::lanes::vectorised;
use crate::cpu::making::Making;
use crate::cpu::values::{Elements, Source, Stored, Target};

/// See the module.
pub(crate) struct Epilogue<'a, T> {
    /// Of the convolution's output.
    pub(crate) norm: NormAct<T>,
    /// A map of the output's shape and format.
    pub(crate) shortcut: Option<Source<'a, T>>,
    /// After the sum. With a shortcut, it is the identity or ReLU.
    pub(crate) activation: Exact,
}

impl<T: Stored> Epilogue<'_, T> {
    /// Writes pixels of plane `index`, from `first` on, that the convolution has made elsewhere, and would round to the format that is written.
    /// Planes are counted over samples and channels.
    ///
    /// # Panics
    /// If there is a shortcut, and an activation that it is not supported with.
    pub(crate) fn write(&self, index: usize, first: usize, made: Source<'_, T>, y: Target<'_, T>) {
        let first = index * self.norm.plane + first;
        let shortcut = self.shortcut.map(|shortcut| shortcut.part(first..first + y.len()));
        let of = self.norm.of_plane(index);
        match (self.activation.activation, shortcut) {
            (Activation::Identity, shortcut) => end::<T, Identity>(of, made, shortcut, y),
            (Activation::Relu, shortcut) => end::<T, Relu>(of, made, shortcut, y),
            (_, None) => through(made, y, |_, y| {
                with_buffer(y.len(), |stored| {
                    stored.copy_from_slice(y);
                    normalise(self.activation, of, Source::Same(stored), y);
                });
            }),
            (activation, Some(_)) => unreachable!("a sum with a shortcut and {activation:?}"),
        }
    }

    /// Ends a block whose last convolution has been stored as a whole.
    pub(crate) fn of_whole(&self, made: Elements<T>) -> Elements<T> {
        let (made, plane) = (made.source(), self.norm.plane);
        let mut y = Making::like(made, made.len());
        y.parts(plane).into_par_iter().enumerate().for_each(|(index, y)| {
            self.write(index, 0, made.chunk(index, plane), y.begin(Threads::One));
        });
        y.made()
    }
}

/// Normalises, adds and activates pixels of a plane.
fn end<T: Stored, F: Function>(
    of: PerChannel<T>,
    made: Source<'_, T>,
    shortcut: Option<Source<'_, T>>,
    mut y: Target<'_, T>,
) {
    let PerChannel { scale, shift, .. } = of;
    match (&mut y, made, shortcut) {
        (Target::Halves(y), Source::Halves(Half::Bf16, made), None) => return alone::<F>(of.in_float32(), made, y),
        (Target::Halves(y), Source::Halves(Half::Bf16, made), Some(Source::Halves(Half::Bf16, shortcut))) => {
            return added::<F>(of.in_float32(), [made, shortcut], y);
        }
        _ => {}
    }
    through(made, y, |at, y| match shortcut {
        Some(shortcut) => shortcut.part(at..at + y.len()).in_pieces(|from, shortcut| {
            vectorised(
                #[inline(always)]
                || {
                    for (y, shortcut) in y[from..].iter_mut().zip(shortcut) {
                        *y = F::value(*y * scale + shift + *shortcut);
                    }
                },
            );
        }),
        None => vectorised(
            #[inline(always)]
            || y.iter_mut().for_each(|y| *y = F::value(*y * scale + shift)),
        ),
    });
}

/// [`end`] in bf16, without a shortcut.
fn alone<F: Function>(PerChannel { scale, shift, .. }: PerChannel<f32>, made: &[u16], y: &mut Bits<'_>) {
    y.write_of_two(
        [made, made],
        #[inline(always)]
        |x, _| F::value(x * scale + shift),
    );
}

/// [`end`] in bf16, of what the convolution made and a shortcut.
fn added<F: Function>(PerChannel { scale, shift, .. }: PerChannel<f32>, numbers: [&[u16]; 2], y: &mut Bits<'_>) {
    y.write_of_two(
        numbers,
        #[inline(always)]
        |x, shortcut| F::value(x * scale + shift + shortcut),
    );
}

/// Lets `work` replace what the convolution has made, as it would be stored, in pieces with the number of pixels before each.
fn through<T: Stored>(made: Source<'_, T>, mut y: Target<'_, T>, mut work: impl FnMut(usize, &mut [T])) {
    match &y {
        Target::Halves(bits) => {
            let half = bits.half();
            y.in_pieces(|at, y| {
                made.part(at..at + y.len()).copy_to(y, Threads::One);
                T::nearest(half, y);
                work(at, y);
            });
        }
        Target::Same(_) => {
            y.copy(made);
            y.replace(work);
        }
    }
}
