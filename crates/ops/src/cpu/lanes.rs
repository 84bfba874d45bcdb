//! Loops that the compiler turns into vector instructions, for the instruction set that is found at run time.
//!
//! Sums are kept in [`LANES`] partial sums, one for each position in a chunk, because a compiler may not reorder additions of floats by
//! itself. The number of partial sums is fixed, so the result does not depend on the instruction set's width.

use super::real::Real;

/// Elements that a loop handles together.
pub(crate) const LANES: usize = 16;

/// Runs a closure that is compiled for the widest vector instructions of this processor. The closure and everything it calls must be
/// inlined (`#[inline(always)]`); a call that is not inlined is compiled for the baseline instruction set.
#[inline(always)]
pub(crate) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// Distributes the elements to two slices in turn, as far as there is room: even places to `first`, odd ones to `second`.
pub(crate) fn deal<T: Copy>(values: &[T], first: &mut [T], second: &mut [T]) {
    vectorised(
        #[inline(always)]
        || {
            deal_pairs(
                values,
                [first, second],
                #[inline(always)]
                |pair| pair,
                #[inline(always)]
                |value| value,
            )
        },
    );
}

/// [`deal`] of functions of two elements that follow each other, and of one that is alone. To be called where loops are vectorised.
#[inline(always)]
pub(crate) fn deal_pairs<X: Copy, T>(
    values: &[X],
    [first, second]: [&mut [T]; 2],
    of_pair: impl Fn([X; 2]) -> [T; 2],
    of_one: impl Fn(X) -> T,
) {
    let (pairs, _) = values.as_chunks::<2>();
    let together = pairs.len().min(first.len()).min(second.len());
    for ((pair, first), second) in pairs.iter().zip(&mut *first).zip(second) {
        [*first, *second] = of_pair(*pair);
    }
    if let (Some(first), Some(value)) = (first.get_mut(together), values.get(2 * together)) {
        *first = of_one(*value);
    }
}

/// Takes elements from two slices in turn: the inverse of [`deal`]. Elements for which there is no room are left out.
pub(crate) fn interleave<T: Copy>(first: &[T], second: &[T], values: &mut [T]) {
    vectorised(
        #[inline(always)]
        || {
            let (pairs, rest) = values.as_chunks_mut::<2>();
            for ((pair, first), second) in pairs.iter_mut().zip(first).zip(second) {
                *pair = [*first, *second];
            }
            if let (Some(value), Some(first)) = (rest.first_mut(), first.get(pairs.len())) {
                *value = *first;
            }
        },
    );
}

/// Elements that are added up in their own format. Sums of several blocks are float64.
pub(crate) const BLOCK: usize = 64 * LANES;

/// Adds a function of each element to `total`, in its own format within a [`BLOCK`] and in float64 between blocks. A sum can be taken
/// further with more elements; its bits are the same wherever it is cut between blocks.
#[inline(always)]
pub(crate) fn sum<X: Copy, T: Real>(mut total: f64, values: &[X], term: impl Fn(X) -> T) -> f64 {
    for block in values.chunks(BLOCK) {
        let mut lanes = [T::of(0.0); LANES];
        let (chunks, rest) = block.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane += term(*value);
            }
        }
        total += lanes.iter().map(|lane| lane.wide()).sum::<f64>();
        total += rest.iter().map(|value| term(*value).wide()).sum::<f64>();
    }
    total
}

/// Rows of a plane whose pixels are added up by themselves, before these sums are added up. So parts of a plane that begin with a multiple of
/// them have sums of their own.
pub(crate) const ROWS_SUMMED: usize = 4;

/// The sum of each few rows of `width` pixels, as `number` reads them; there are as many `sums` as [`ROWS_SUMMED`] rows have begun.
#[inline(always)]
pub(crate) fn sums_of_rows<X: Copy, T: Real>(
    pixels: &[X],
    width: usize,
    sums: &mut [f64],
    number: impl Fn(X) -> T + Copy,
) {
    vectorised(
        #[inline(always)]
        || {
            for (of_rows, rows) in sums.iter_mut().zip(pixels.chunks(ROWS_SUMMED * width)) {
                *of_rows = sum(0.0, rows, number);
            }
        },
    );
}

/// The mean of so many pixels of a plane, from the sums of its rows.
pub(crate) fn mean_of_rows<T: Real>(sums: &[f64], pixels: usize) -> T {
    T::of(sums.iter().sum::<f64>() / pixels as f64)
}

/// Adds two functions of pairs of elements to `totals` in the way of [`sum`].
#[inline(always)]
pub(crate) fn sum_pairs<T: Real>(
    mut totals: (f64, f64),
    a: &[T],
    b: &[T],
    terms: impl Fn(T, T) -> (T, T),
) -> (f64, f64) {
    for (block_a, block_b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
        let (mut first, mut second) = ([T::of(0.0); LANES], [T::of(0.0); LANES]);
        let ((chunks_a, rest_a), (chunks_b, rest_b)) = (block_a.as_chunks::<LANES>(), block_b.as_chunks::<LANES>());
        for (chunk_a, chunk_b) in chunks_a.iter().zip(chunks_b) {
            for lane in 0..LANES {
                let (one, two) = terms(chunk_a[lane], chunk_b[lane]);
                first[lane] += one;
                second[lane] += two;
            }
        }
        totals.0 += first.iter().map(|lane| lane.wide()).sum::<f64>();
        totals.1 += second.iter().map(|lane| lane.wide()).sum::<f64>();
        for (a, b) in rest_a.iter().zip(rest_b) {
            let (one, two) = terms(*a, *b);
            totals.0 += one.wide();
            totals.1 += two.wide();
        }
    }
    totals
}

/// Replaces each element of `b` by a function of it and of the element of `a` at the same place, as `number` reads that, and adds three more
/// functions of the two to `totals` in the way of [`sum`].
#[inline(always)]
pub(crate) fn replace_and_sum<X: Copy, T: Real>(
    mut totals: [f64; 3],
    a: &[X],
    b: &mut [T],
    number: impl Fn(X) -> T,
    terms: impl Fn(T, T) -> (T, [T; 3]),
) -> [f64; 3] {
    for (block_a, block_b) in a.chunks(BLOCK).zip(b.chunks_mut(BLOCK)) {
        // Three arrays, because an array of them is not kept in registers.
        let [mut first, mut second, mut third] = [[T::of(0.0); LANES]; 3];
        let ((chunks_a, rest_a), (chunks_b, rest_b)) = (block_a.as_chunks::<LANES>(), block_b.as_chunks_mut::<LANES>());
        for (chunk_a, chunk_b) in chunks_a.iter().zip(chunks_b) {
            // Copies, because the compiler does not know that the chunks lie apart.
            let (a, mut b) = (*chunk_a, *chunk_b);
            for lane in 0..LANES {
                let (new, [one, two, three]) = terms(number(a[lane]), b[lane]);
                b[lane] = new;
                first[lane] += one;
                second[lane] += two;
                third[lane] += three;
            }
            *chunk_b = b;
        }
        for (total, sums) in totals.iter_mut().zip([first, second, third]) {
            *total += sums.iter().map(|lane| lane.wide()).sum::<f64>();
        }
        for (a, b) in rest_a.iter().zip(rest_b) {
            let (new, values) = terms(number(*a), *b);
            *b = new;
            for (total, value) in totals.iter_mut().zip(values) {
                *total += value.wide();
            }
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every number of elements, and with more room and less.
    #[test]
    fn elements_are_dealt_in_turn_as_far_as_there_is_room() {
        for count in 0..70usize {
            let values: Vec<u16> = (0..count as u16).collect();
            for [rooms, others] in [[40, 40], [count.div_ceil(2), count / 2], [20, 19], [17, 17], [0, 0]] {
                let (mut first, mut second) = (vec![999; rooms], vec![999; others]);
                deal(&values, &mut first, &mut second);
                let place = |index: usize| values.get(index).copied().unwrap_or(999);
                assert!(first.iter().enumerate().all(|(at, found)| *found == place(2 * at)), "{count}: {first:?}");
                assert!(
                    second.iter().enumerate().all(|(at, found)| *found == place(2 * at + 1)),
                    "{count}: {second:?}"
                );
            }
        }
    }
}
