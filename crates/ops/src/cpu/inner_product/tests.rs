//! The kernels against sums in float64, and the order of the sum against scalar code. On processors without the instructions there is
//! nothing to compare, and these tests end at once.

use super::super::matrix::{Matrix, Mode, Threads};
use super::super::random::random;
use super::super::tiles::blocks;
use super::{INNER, LANES, LONG, ROWS, available, multiply, packing_bytes, pays, serves};

/// Numbers of lines that are `gap` apart, and not one more.
fn numbers(seed: u64, lines: usize, long: usize, gap: usize) -> Vec<f32> {
    random(seed, (lines - 1) * (long + gap) + long)
}

/// An element as the module defines it.
fn element(row: &[f32], column: &[f32], mode: Mode, before: f32) -> f32 {
    let mut target = if mode == Mode::Add { Some(before) } else { None };
    for depth in blocks(row.len(), INNER, LANES) {
        let mut sums = [0.0f32; LANES];
        for (at, (a, b)) in row[depth.clone()].iter().zip(&column[depth]).enumerate() {
            sums[at % LANES] = a.mul_add(*b, sums[at % LANES]);
        }
        let quarter = |at: usize| (sums[4 * at] + sums[4 * at + 2]) + (sums[4 * at + 1] + sums[4 * at + 3]);
        let sum = (quarter(0) + quarter(1)) + (quarter(2) + quarter(3));
        target = Some(target.map_or(sum, |target| target + sum));
    }
    target.unwrap_or(0.0)
}

/// Shapes around the sides of tiles and blocks, gaps between the lines of factors and target, both modes. What is added to, and what
/// lies between rows, is NaN where it must not be read.
#[test]
fn products_have_the_bits_of_their_definition_are_near_the_sums_in_float64_and_touch_nothing_else() {
    if !available() {
        return;
    }
    let sides = [1, 2, 3, 4, 5, 8, 17];
    let shallow = sides.iter().flat_map(|&rows| sides.iter().map(move |&columns| [rows, columns]));
    let shallow = shallow.flat_map(|[rows, columns]| [1, 15, 16, 17, 33, 200].map(|inner| [rows, inner, columns]));
    let deep = [INNER - 1, INNER, INNER + 1, 2 * INNER + 35].map(|inner| [ROWS + 1, inner, 6]);
    for (case, [rows, inner, columns]) in shallow.chain(deep).enumerate() {
        let (gap, apart, stride) = (case % 3, case / 2 % 3, columns + case % 4);
        let a = numbers(case as u64, rows, inner, gap);
        let b = numbers(case as u64 + 5000, columns, inner, apart);
        let left = Matrix::of_rows(&a, rows, inner, inner + gap);
        let right = Matrix::of_rows(&b, columns, inner, inner + apart).transposed();
        for (mode, threads) in [(Mode::Replace, Threads::One), (Mode::Add, Threads::All)] {
            let mut before = random(case as u64 + 9000, (rows - 1) * stride + columns + case % 2);
            if mode == Mode::Replace {
                before.fill(f32::NAN);
            }
            let mut target = before.clone();
            multiply(&mut target, stride, mode, left, right, threads);
            for (place, (found, before)) in target.iter().zip(&before).enumerate() {
                let (row, column) = (place / stride, place % stride);
                if row >= rows || column >= columns {
                    assert_eq!(
                        found.to_bits(),
                        before.to_bits(),
                        "{rows}x{inner}x{columns} {mode:?} {place} is not touched"
                    );
                    continue;
                }
                let (row, column) = (&a[row * (inner + gap)..][..inner], &b[column * (inner + apart)..][..inner]);
                let defined = element(row, column, mode, *before);
                assert_eq!(found.to_bits(), defined.to_bits(), "{rows}x{inner}x{columns} {mode:?} {place}");
                let exact: f64 = row.iter().zip(column).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                let exact = exact + if mode == Mode::Add { f64::from(*before) } else { 0.0 };
                assert!((f64::from(*found) - exact).abs() < 2e-5, "{rows}x{inner}x{columns} {mode:?} {place}");
            }
        }
    }
}

#[test]
fn products_do_not_depend_on_the_number_of_threads() {
    if !available() {
        return;
    }
    // Many rows, many columns, several blocks of rows and of the inner dimension, and fewer tiles than threads.
    for [rows, inner, columns] in [[150, 2100, 20], [20, 2100, 150], [90, 1000, 90], [16, 5000, 24]] {
        let (a, b) = (random(1, rows * inner), random(2, inner * columns));
        let before = random(3, rows * columns);
        let (left, right) = (Matrix::of(&a, rows, inner), Matrix::of(&b, columns, inner).transposed());
        let run = |threads: Threads, pool: usize| {
            let mut target = before.clone();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(pool).build().expect("a thread pool");
            pool.install(|| multiply(&mut target, columns, Mode::Add, left, right, threads));
            target
        };
        let one = run(Threads::One, 1);
        assert!(one.iter().zip(&before).all(|(one, before)| one != before), "all of the product is written");
        for pool in [1, 2, 3, 8] {
            assert!(run(Threads::All, pool) == one, "{rows}x{inner}x{columns}, {pool} threads");
        }
    }
}

/// What padding with zeros could make NaN, and what must be.
#[test]
fn infinite_numbers_and_nans_stay_in_their_rows_and_columns() {
    if !available() {
        return;
    }
    let (rows, inner, columns) = (5, 21, 6);
    let (mut a, mut b) = (vec![1.0; rows * inner], vec![1.0; columns * inner]);
    (a[inner + 20], b[2 * inner + 3]) = (f32::INFINITY, f32::NAN);
    let mut target = vec![0.0; rows * columns];
    let (left, right) = (Matrix::of(&a, rows, inner), Matrix::of(&b, columns, inner).transposed());
    multiply(&mut target, columns, Mode::Replace, left, right, Threads::One);
    for (place, found) in target.into_iter().enumerate() {
        match (place / columns, place % columns) {
            (_, 2) => assert!(found.is_nan()),
            (1, _) => assert_eq!(found, f32::INFINITY),
            _ => assert_eq!(found, 21.0),
        }
    }
}

#[test]
fn a_product_without_an_inner_dimension_is_zero_and_one_without_rows_or_columns_is_nothing() {
    if !available() {
        return;
    }
    let run = |mode: Mode, [rows, columns]: [usize; 2]| {
        let mut target = [7.0; 5];
        let right = Matrix::of(&[], columns, 0).transposed();
        // The left factor of no numbers is contiguous along them by its strides.
        multiply(&mut target, 3, mode, Matrix::of(&[], rows, 0), right, Threads::One);
        target
    };
    assert_eq!(run(Mode::Replace, [2, 2]), [0.0, 0.0, 7.0, 0.0, 0.0], "the number between the rows stays");
    assert_eq!(run(Mode::Add, [2, 2]), [7.0; 5]);
    assert_eq!(run(Mode::Replace, [0, 2]), [7.0; 5]);
    assert_eq!(run(Mode::Replace, [2, 0]), [7.0; 5]);
}

/// Narrow gradients of weights of the usual networks are computed here; what `gemm` is better at, and what lies otherwise, is not.
#[test]
fn products_are_made_of_inner_products_where_that_is_faster() {
    for shape in [[16, 8192, 32], [24, 2560, 96], [32, 1792, 144], [64, 1024, 192], [384, 1024, 64], [64, 784, 64]] {
        assert!(pays(shape), "{shape:?}");
    }
    for shape in
        [[16, 16384, 16], [96, 16384, 16], [1024, 1000, 64], [64, LONG - 1, 64], [1, 4096, 512], [512, 4096, 1]]
    {
        assert!(!pays(shape), "{shape:?}");
    }
    let (a, b) = (vec![0.0; 64 * 256], vec![0.0; 64 * 256]);
    let (left, right) = (Matrix::of(&a, 64, 256), Matrix::of(&b, 64, 256));
    assert_eq!(serves(&left, &right.transposed()), available());
    assert!(!serves(&left, &Matrix::of(&b, 256, 64)));
    assert!(!serves(&Matrix::of(&a, 256, 64).transposed(), &right.transposed()));
}

#[test]
fn the_memory_of_packed_factors_is_what_is_said() {
    if !available() {
        return assert_eq!(packing_bytes(), 0);
    }
    let (a, b) = (random(1, 600), random(2, 600));
    let right = Matrix::of(&b, 600, 1);
    multiply(&mut [0.0], 1, Mode::Replace, Matrix::of(&a, 1, 600), right, Threads::One);
    assert_eq!(super::STEPS.with_borrow(Vec::capacity) * 256, packing_bytes());
}

fn refused(rows: usize, inner: [usize; 2], columns: usize, lengths: [usize; 3]) {
    let [a, b, mut target] = lengths.map(|length| vec![0.0f32; length]);
    let (left, right) = (Matrix::of(&a, rows, inner[0]), Matrix::of(&b, columns, inner[1]).transposed());
    assert!(available(), "the product lies in its slice, the inner dimensions agree, out of range: not computed here");
    multiply(&mut target, columns, Mode::Replace, left, right, Threads::One);
}

#[test]
#[should_panic(expected = "out of range")]
fn a_left_factor_beyond_its_slice_is_refused() {
    refused(2, [3, 3], 2, [5, 6, 4]);
}

#[test]
#[should_panic(expected = "out of range")]
fn a_right_factor_beyond_its_slice_is_refused() {
    refused(2, [3, 3], 2, [6, 5, 4]);
}

#[test]
#[should_panic(expected = "the product lies in its slice")]
fn a_product_beyond_its_slice_is_refused() {
    refused(2, [3, 3], 2, [6, 6, 3]);
}

#[test]
#[should_panic(expected = "inner dimensions")]
fn factors_that_do_not_fit_are_refused() {
    refused(2, [3, 2], 3, [6, 6, 6]);
}
