//! The kernels of each instruction that this processor has against their definition, and the definitions against sums in float64. Where
//! there are no instructions there is nothing to compare, and each test ends at once.

use half::bf16;

use super::super::bits::Bits;
use super::super::halves::Half;
use super::super::matrix::{Matrix, Mode, Output, Pixels, Stretches, Strip, Threads};
use super::super::parts::parts;
use super::super::random::random;
use super::super::room::Room;
use super::super::tiles::blocks;
use super::reference::{Numbers, element, of_stretches, of_taps, rounded};
use super::{
    Factor, INNER, Instruction, LONG, Left, Right, Taps, Turned, amx, are_contiguous, available, is_faster, multiply,
    multiply_with, outer, packing_bytes,
};

/// The instructions that this processor has.
fn instructions() -> Vec<Instruction> {
    let has = [(Instruction::OfRegisters, available()), (Instruction::OfTiles, amx::available())];
    has.into_iter().filter(|(_, has)| *has).map(|(instruction, _)| instruction).collect()
}

/// A number of a factor as the kernels see it.
trait Seen: Factor {
    fn seen(self) -> f32;
}

impl Seen for f32 {
    fn seen(self) -> f32 {
        rounded(self)
    }
}

impl Seen for bf16 {
    fn seen(self) -> f32 {
        rounded(self.to_f32())
    }
}

fn at<T: Copy>(matrix: &Matrix<'_, T>, row: usize, column: usize) -> T {
    matrix.values[row * matrix.strides[0] + column * matrix.strides[1]]
}

/// Numbers for a [`matrix`], and not one more.
fn numbers(seed: u64, [rows, columns]: [usize; 2], by_columns: bool, gap: usize) -> Vec<f32> {
    let [lines, long] = if by_columns { [columns, rows] } else { [rows, columns] };
    random(seed, (lines - 1) * (long + gap) + long)
}

/// A matrix whose rows or columns are contiguous, with `gap` numbers between them.
fn matrix<T>(values: &[T], [rows, columns]: [usize; 2], by_columns: bool, gap: usize) -> Matrix<'_, T> {
    match by_columns {
        true => Matrix::of_rows(values, columns, rows, rows + gap).transposed(),
        false => Matrix::of_rows(values, rows, columns, columns + gap),
    }
}

/// Multiplies, and compares each element with the definition, to the bit, and the rest of the target with what it was.
#[track_caller]
fn check<A: Seen, B: Seen>(
    before: &[f32],
    stride: usize,
    mode: Mode,
    left: Matrix<'_, A>,
    right: Matrix<'_, B>,
    threads: Threads,
) {
    for instruction in instructions() {
        check_with(instruction, before, stride, mode, left, right, threads);
    }
}

#[track_caller]
fn check_with<A: Seen, B: Seen>(
    instruction: Instruction,
    before: &[f32],
    stride: usize,
    mode: Mode,
    left: Matrix<'_, A>,
    right: Matrix<'_, B>,
    threads: Threads,
) {
    let ([rows, inner], columns) = (left.shape, right.shape[1]);
    let contiguous = are_contiguous(&left, &right);
    let (mut target, mut packed) = (before.to_vec(), before.to_vec());
    multiply_with(instruction, &mut target, stride, mode, left, right, threads);
    Left::packed_for(instruction, left).multiply(&mut packed, stride, mode, right, threads);
    let (of_left, of_right) = (|row, k| at(&left, row, k).seen(), |column, k| at(&right, k, column).seen());
    let (of_left, of_right): (Numbers<'_>, Numbers<'_>) = (&of_left, &of_right);
    for (place, before) in before.iter().enumerate() {
        let (row, column) = (place / stride, place % stride);
        let expected = |contiguous: bool| match row < rows && column < columns {
            true => element(instruction, [row, inner, column], [of_left, of_right], contiguous, mode, *before),
            false => *before,
        };
        for (found, expected) in [(target[place], expected(contiguous)), (packed[place], expected(false))] {
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(
                same,
                "{instruction:?} {rows}x{inner}x{columns} {mode:?} ({row}, {column}): {found:e}, not {expected:e}"
            );
        }
    }
    if mode == Mode::Replace && Left::packed_for(instruction, left).is_one_block() {
        check_written(instruction, left, right, stride + 1, threads);
    }
}

/// The same for a product that is written at once, into the columns from the first but one on, in both formats.
#[track_caller]
fn check_written<A: Seen, B: Seen>(
    instruction: Instruction,
    left: Matrix<'_, A>,
    right: Matrix<'_, B>,
    stride: usize,
    threads: Threads,
) {
    let ([rows, inner], columns, first) = (left.shape, right.shape[1], 1);
    let of_left = |row: usize, k: usize| at(&left, row, k).seen();
    let of_right = |column: usize, k: usize| at(&right, k, column).seen();
    let (packed, untouched) = (Left::packed_for(instruction, left), 0x4129u16);
    let mut singles = vec![f32::from_bits(u32::from(untouched) << 16); rows * stride];
    packed.write(&mut Output::Singles(&mut singles), stride, first, right, threads);
    let mut halves = vec![untouched; rows * stride];
    Bits::new(Half::Bf16, Room::written(&mut halves)).multiply(stride, first..first + columns, &packed, right, threads);
    if inner <= outer::INNER {
        // The same of a right factor that was packed before, in the memory of another, some rows at a time.
        let mut pixels = Right::default();
        pixels.pack_for(instruction, Matrix::of(&six(), 2, 3));
        pixels.pack_for(instruction, right);
        let mut again = vec![untouched; rows * stride];
        for some in parts(rows, 32) {
            let target = &mut again[some.start * stride + first..];
            packed.write_rows(some, &pixels, target, stride);
        }
        assert!(again == halves, "{instruction:?} {rows}x{inner}x{columns}, packed before");
    }
    for (place, (single, half)) in singles.iter().zip(&halves).enumerate() {
        let half = bf16::from_bits(*half);
        let (row, column) = (place / stride, place % stride);
        let expected = match (first..first + columns).contains(&column) {
            true => {
                let factors: [Numbers<'_>; 2] = [&of_left, &of_right];
                element(instruction, [row, inner, column - first], factors, false, Mode::Replace, f32::NAN)
            }
            false => f32::from_bits(u32::from(untouched) << 16),
        };
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        assert!(same(*single, expected), "({row}, {column}): {single:e}, not {expected:e}");
        assert!(
            same(half.to_f32(), bf16::from_f32(expected).to_f32()),
            "({row}, {column}): {half:e}, not {expected:e}"
        );
    }
}

/// Shapes around the sides of tiles and blocks, every layout and format of factors, gaps between rows, both modes.
#[test]
fn products_have_the_bits_of_their_definition_and_touch_nothing_else() {
    let rows = [1, 2, 3, 4, 5, 7, 8, 9, 17, 66];
    let columns = [1, 3, 4, 5, 15, 16, 17, 33, 48, 49, 100];
    let inners = [1, 2, 3, 31, 32, 33, LONG - 1, LONG];
    let deep = [outer::INNER - 1, outer::INNER + 1, 2 * outer::INNER + 2, INNER + 1, 2 * INNER + 35];
    let shallow = rows.iter().flat_map(|&rows| columns.iter().map(move |&columns| [rows, columns]));
    let shallow = shallow.flat_map(|[rows, columns]| inners.map(|inner| [rows, inner, columns]));
    let deep = deep.into_iter().flat_map(|inner| [[3, inner, 21], [9, inner, 5], [1, inner, 1], [12, inner, 50]]);
    for (case, [rows, inner, columns]) in shallow.chain(deep.cycle().take(80)).enumerate() {
        // Every layout with every format, whatever the lists of shapes have in common with their number.
        let (layout, format, gap) = (case / 7 % 4, case / 3 % 4, case % 3);
        let (of_left, of_right) = ([rows, inner], [inner, columns]);
        let (left_by_columns, right_by_columns) = (layout % 2 == 1, layout / 2 == 1);
        let a = numbers(case as u64, of_left, left_by_columns, gap);
        let b = numbers(case as u64 + 5000, of_right, right_by_columns, gap);
        let half = |values: &[f32]| values.iter().map(|value| bf16::from_f32(*value)).collect::<Vec<_>>();
        let (half_a, half_b) = (half(&a), half(&b));
        let stride = columns + case % 4;
        let before = random(case as u64 + 9000, (rows - 1) * stride + columns + case % 2);
        let left = matrix(&a, of_left, left_by_columns, gap);
        let right = matrix(&b, of_right, right_by_columns, gap);
        let half_left = matrix(&half_a, of_left, left_by_columns, gap);
        let half_right = matrix(&half_b, of_right, right_by_columns, gap);
        for (mode, threads) in [(Mode::Replace, Threads::One), (Mode::Add, Threads::All)] {
            match format {
                0 => check(&before, stride, mode, left, right, threads),
                1 => check(&before, stride, mode, half_left, right, threads),
                2 => check(&before, stride, mode, left, half_right, threads),
                _ => check(&before, stride, mode, half_left, half_right, threads),
            }
        }
    }
}

/// Rows around the sides of tiles that begin anywhere and share numbers, as those of a convolution's columns do, and stretches around the
/// length of a block.
#[test]
fn products_with_stretches_have_the_bits_of_their_definition_and_touch_nothing_else() {
    let most = INNER;
    let stretches = [[1, 2], [3, 6], [5, 34], [4, most / 2], [3, most / 3 + 1], [2, most], [3, most + 2]];
    let sides = [[1, 1], [3, 7], [16, 9], [17, 8], [1, 27], [48, 16], [15, 45], [100, 18], [49, 1]];
    let cases = stretches.into_iter().flat_map(|stretches| sides.map(|sides| (stretches, sides)));
    let cases = instructions().into_iter().flat_map(|instruction| cases.clone().map(move |case| (instruction, case)));
    for (case, (instruction, ([count, length], [rows, columns]))) in cases.enumerate() {
        let (step, gap, inner) = (length + case % 4, case % 3, count * length);
        // Anywhere, or by threes.
        let start = |column: usize| 7 * column * column % (3 * columns + 1);
        let tap = |column: usize| start(column / 3) + column % 3;
        let starts: Vec<usize> =
            (0..columns).map(|column| if case % 2 == 0 { tap(column) } else { start(column) }).collect();
        let end = starts.iter().max().map_or(0, |start| start + (count - 1) * step + length);
        let halves = |seed: usize, count: usize| -> Vec<bf16> {
            random(seed as u64, count).into_iter().map(bf16::from_f32).collect()
        };
        let (values, numbers) = (halves(case, end), halves(case + 500, (rows - 1) * (inner + gap) + inner));
        let left = Matrix::of_rows(&numbers, rows, inner, inner + gap);
        let right = Stretches { values: &values, starts: &starts, count, length, step };
        let (stride, mut packed) = (columns + case % 2, Turned::empty(instruction));
        let before = random(case as u64 + 900, rows * stride);
        for threads in [Threads::One, Threads::All] {
            // What it held before does not matter.
            packed.fill(Matrix::of(&numbers, 1, numbers.len()), threads);
            packed.fill(left, threads);
            if instruction == Instruction::fastest() {
                assert_eq!(size_of_val(&*packed.lines), Turned::bytes(rows, inner));
            }
            let mut found = before.clone();
            packed.add_product(&mut found, stride, right, threads);
            for (place, (found, before)) in found.iter().zip(&before).enumerate() {
                let (row, column) = (place / stride, place % stride);
                let expected = if column < columns {
                    let of_left = |stretch: usize, k: usize| at(&left, row, stretch * length + k).seen();
                    let of_right = |stretch: usize, k: usize| values[starts[column] + stretch * step + k].seen();
                    of_stretches(instruction, [count, length], &of_left, &of_right, *before)
                } else {
                    *before
                };
                let what = format!("{instruction:?} {rows} x {count} * {length} x {columns} ({row}, {column})");
                assert_eq!(found.to_bits(), expected.to_bits(), "{what}: {found:e}, not {expected:e}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "a factor lies in its slice")]
fn a_stretch_that_ends_beyond_its_slice_is_refused() {
    assert!(available(), "a factor lies in its slice");
    let values = [bf16::ONE; 11];
    let mut turned = Turned::default();
    turned.fill(Matrix::of(&values[..8], 1, 8), Threads::One);
    let stretches = Stretches { values: &values, starts: &[0, 1], count: 2, length: 4, step: 6 };
    turned.add_product(&mut [0.0; 2], 2, Stretches { starts: &[0, 1], ..stretches }, Threads::One);
    turned.add_product(&mut [0.0; 2], 2, Stretches { starts: &[0, 2], ..stretches }, Threads::One);
}

/// Filters, channels and taps around the sides of tiles and pairs, rows of the output that are whole runs and such that are not, in both
/// formats. Infinite and subnormal numbers are among those of the map.
#[test]
fn convolutions_of_a_strip_have_the_bits_of_their_definition_and_write_every_pixel_and_nothing_else() {
    let special = [f32::INFINITY, f32::MIN_POSITIVE / 2.0, -0.0, f32::MIN_POSITIVE, 3e38];
    let sides = [16, 17, 31, 32, 33, 47, 48, 50, 64, 100];
    let filters = [1, 2, 3, 5, 7, 8, 9, 17, 49];
    let cases = filters.iter().flat_map(|filters| sides.map(|width| (*filters, width)));
    let cases = instructions().into_iter().flat_map(|instruction| cases.clone().map(move |case| (instruction, case)));
    for (case, (instruction, (filters, width))) in cases.enumerate() {
        // With 43 channels there are more taps than are added up before the sums wait in memory.
        let (channels, side, rows) = ([1, 2, 3, 6, 43][case % 5], [1, 2, 3, 5][case / 3 % 4], 1 + case % 6);
        let (taps, strip_width, first, gap) = (side * side, width + side - 1, case % 3, case % 5);
        let (height, plane) = (rows + side, first + rows * width + gap);
        let weight = random(case as u64, filters * channels * taps);
        let mut map = random(case as u64 + 1000, channels * height * strip_width);
        if case % 7 == 0 {
            let count = map.len();
            special.iter().enumerate().for_each(|(at, number)| map[at * 7919 % count] = *number);
        }
        let map: Vec<bf16> = map.into_iter().map(bf16::from_f32).collect();
        let at = |channel: usize, row: usize, column: usize| map[(channel * height + row) * strip_width + column];
        let mut pairs = Vec::new();
        for channel in (0..channels).step_by(2) {
            for place in 0..height * strip_width {
                let bits = |channel: usize| match channel < channels {
                    true => u32::from(map[channel * height * strip_width + place].to_bits()),
                    false => 0,
                };
                pairs.push(bits(channel) | bits(channel + 1) << 16);
            }
        }
        // What nobody may see.
        pairs.extend([0x7FC0_7FC0; Strip::BEYOND]);
        let of_pair = height * strip_width;
        let start = |index: usize| index / taps * of_pair + index % taps / side * strip_width + index % taps % side;
        let starts: Vec<usize> = (0..channels.div_ceil(2) * taps).map(start).collect();
        let (strip, pixels) =
            (Strip { pairs: &pairs, starts: &starts, width: strip_width }, Pixels { first, rows, width, plane });
        let packed = Taps::packed_for(instruction, &weight, [filters, channels, taps]);
        let untouched = 0x4129u16;
        for threads in [Threads::One, Threads::All] {
            let mut singles = vec![f32::from_bits(u32::from(untouched) << 16); filters * plane];
            packed.convolve(&strip, pixels, &mut Output::Singles(&mut singles), threads);
            let mut halves = vec![untouched; filters * plane];
            Bits::new(Half::Bf16, Room::written(&mut halves)).convolve(&packed, &strip, pixels, threads);
            for (place, (single, half)) in singles.iter().zip(&halves).enumerate() {
                let half = bf16::from_bits(*half);
                let (filter, pixel) = (place / plane, place % plane);
                if !(first..first + rows * width).contains(&pixel) {
                    assert_eq!((single.to_bits(), half.to_bits()), (u32::from(untouched) << 16, untouched));
                    continue;
                }
                let (row, column) = ((pixel - first) / width, (pixel - first) % width);
                let of_filter = |channel: usize, tap: usize| weight[(filter * channels + channel) * taps + tap].seen();
                let under = |channel: usize, tap: usize| at(channel, row + tap / side, column + tap % side).seen();
                let expected = of_taps(instruction, [channels, taps], &of_filter, &under);
                let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                let what = format!(
                    "{instruction:?} {filters}x{channels}x{side}x{side}, {rows}x{width} ({filter}, {row}, {column})"
                );
                assert!(same(*single, expected), "{what}: {single:e}, not {expected:e}");
                assert!(same(half.to_f32(), bf16::from_f32(expected).to_f32()), "{what}: {half:e}, not {expected:e}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "a strip has room behind its last pair")]
fn a_strip_that_ends_too_early_is_refused() {
    assert!(available(), "a strip has room behind its last pair");
    let (pairs, mut y) = ([0; 31], [0.0; 16]);
    let taps = Taps::new(&[1.0f32, 2.0], [1, 1, 2]);
    let strip = Strip { pairs: &pairs[..], starts: &[0, 1], width: 17 };
    let pixels = Pixels { first: 0, rows: 1, width: 16, plane: 16 };
    taps.convolve(&strip, pixels, &mut Output::Singles(&mut y), Threads::One);
    taps.convolve(&Strip { pairs: &pairs[..16], ..strip }, pixels, &mut Output::Singles(&mut y), Threads::One);
}

/// What rounds in a way of its own, and what padding with zeros could make NaN.
#[test]
fn subnormal_and_infinite_numbers_and_nans_come_out_as_defined() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -3.0,
        1.003_906_2,
        1.011_718_8,
        f32::MIN_POSITIVE,
        -f32::MIN_POSITIVE,
        f32::MIN_POSITIVE / 4.0,
        -1e-40,
        f32::from_bits(0x007F_FFFF),
        1e-20,
        -1e-20,
        3e19,
        -3e19,
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    // Of every pair of special numbers, the product alone; then sums of some, long ones of those that do not add up to NaN.
    for inner in [1, 2, 3, 33, LONG + 1] {
        let special = if inner > 3 { &special[..13] } else { &special };
        let count = special.len();
        let (rows, columns) = (count, count);
        let a: Vec<f32> = (0..rows * inner).map(|at| special[(at / inner + at % inner * 5) % count]).collect();
        let b: Vec<f32> = (0..inner * columns).map(|at| special[(at % columns + at / columns * 7) % count]).collect();
        let before = vec![-0.0; rows * columns];
        for mode in [Mode::Replace, Mode::Add] {
            let left = Matrix::of(&a, rows, inner);
            check(&before, columns, mode, left, Matrix::of(&b, inner, columns), Threads::One);
            let right = Matrix::of(&b, columns, inner).transposed();
            check(&before, columns, mode, left, right, Threads::One);
            let (a, b): (Vec<_>, Vec<_>) =
                [&a, &b].map(|values| values.iter().map(|v| bf16::from_f32(*v)).collect()).into();
            let (left, right) = (Matrix::of(&a, rows, inner), Matrix::of(&b, inner, columns));
            check(&before, columns, mode, left, right, Threads::One);
        }
    }
}

/// The definition itself: the error of a sum of `n` products, each added with one rounding, is below `n + 1` half units in the last
/// place of the sum of their magnitudes.
#[test]
fn the_definition_is_near_the_sums_of_the_rounded_factors_in_float64() {
    for inner in [1, 2, 37, 512, 513, 1500, 5000] {
        let (a, b) = (random(inner as u64, inner), random(inner as u64 + 1, inner));
        let [left, right]: [Numbers<'_>; 2] = [&|_, k| rounded(a[k]), &|_, k| rounded(b[k])];
        let exact: Vec<f64> = a.iter().zip(&b).map(|(a, b)| f64::from(rounded(*a)) * f64::from(rounded(*b))).collect();
        let bound = (inner + 1) as f64 * f64::from(f32::EPSILON) / 2.0 * exact.iter().map(|x| x.abs()).sum::<f64>();
        for instruction in [Instruction::OfRegisters, Instruction::OfTiles] {
            for contiguous in [false, true] {
                let found = element(instruction, [0, inner, 0], [left, right], contiguous, Mode::Replace, f32::NAN);
                let error = (f64::from(found) - exact.iter().sum::<f64>()).abs();
                assert!(error <= bound, "{instruction:?}, {inner} products: off by {error:e}, at most {bound:e}");
            }
        }
        // Eight significant bits: half a unit in the last of them is 2^-8 of a number at most.
        assert!(a.iter().all(|a| (rounded(*a) - a).abs() <= a.abs() / 256.0));
    }
}

#[test]
fn products_do_not_depend_on_the_number_of_threads() {
    // Many columns, many rows, and so few columns that rows are divided.
    for [rows, inner, columns] in [[96, 700, 1030], [1000, 600, 20], [20, 3000, 90], [90, 3000, 20], [70, 9000, 40]] {
        let (a, b) = (random(1, rows * inner), random(2, inner * columns));
        let stride = columns + 3;
        let before = random(3, rows * stride);
        for (by_rows, mode) in [(false, Mode::Add), (true, Mode::Add), (true, Mode::Replace)] {
            let run = |instruction: Instruction, threads: Threads, pool: usize| {
                let mut target = before.clone();
                let pool = rayon::ThreadPoolBuilder::new().num_threads(pool).build().expect("a thread pool");
                let left = Matrix::of(&a, rows, inner);
                let right = matrix(&b, [inner, columns], by_rows, 0);
                pool.install(|| multiply_with(instruction, &mut target, stride, mode, left, right, threads));
                target
            };
            for instruction in instructions() {
                let one = run(instruction, Threads::One, 1);
                let changed = |(at, (one, before)): (usize, (&f32, &f32))| (at % stride < columns) == (one != before);
                assert!(
                    one.iter().zip(&before).enumerate().all(changed),
                    "all of the product is written, and nothing else"
                );
                for pool in [1, 2, 3, 8, 40] {
                    let same = run(instruction, Threads::All, pool) == one;
                    assert!(same, "{instruction:?} {rows}x{inner}x{columns}, {pool} threads");
                }
            }
        }
    }
}

#[test]
fn registers_are_multiplied_where_that_is_faster_and_tiles_wherever_there_are_any() {
    let processors = [
        ("Zen 4", "AuthenticAMD", false, false, true),
        ("Cooper Lake", "GenuineIntel", false, false, true),
        ("Sapphire Rapids", "GenuineIntel", true, true, true),
        ("Sapphire Rapids without tiles", "GenuineIntel", true, false, false),
    ];
    for (name, vendor, float16, tiles, expected) in processors {
        assert_eq!(is_faster(vendor.as_bytes(), float16, tiles), expected, "{name}");
    }
}

#[test]
fn the_memory_of_packed_factors_is_what_is_said() {
    if !available() {
        return;
    }
    let (side, multiple) = match Instruction::fastest() {
        Instruction::OfRegisters => (outer::ROWS, 2),
        Instruction::OfTiles => (amx::SIDE, 2 * amx::SIDE),
    };
    for [rows, inner] in [[1, 1], [8, 32], [9, 33], [96, 576], [1000, 1281]] {
        let factor = Left::new(Matrix::of(&random(1, rows * inner), rows, inner));
        assert_eq!(size_of_val(&*factor.lines), Left::bytes(rows, inner), "{rows}x{inner}");
        let numbers = rows.next_multiple_of(side) * inner.next_multiple_of(multiple);
        assert!(Left::bytes(rows, inner).abs_diff(numbers * size_of::<bf16>()) < 64, "{rows}x{inner}");
    }
    for [inner, columns] in [[1, 1], [16, 500], [33, 48], [96, 49], [512, 16]] {
        let mut factor = Right::default();
        factor.pack(Matrix::of(&random(1, inner * columns), inner, columns));
        assert_eq!(size_of_val(&*factor.lines), Right::bytes(inner, columns), "{inner}x{columns}");
    }
    for [filters, channels, taps] in [[1, 1, 1], [8, 32, 9], [9, 33, 25], [1000, 7, 4]] {
        let packed = Taps::new(&random(1, filters * channels * taps), [filters, channels, taps]);
        let bytes = Taps::bytes(filters, channels, taps);
        assert_eq!(size_of_val(&*packed.lines), bytes, "{filters}x{channels}x{taps}");
        let inner = (channels.next_multiple_of(2) * taps).next_multiple_of(multiple);
        let numbers = filters.next_multiple_of(side) * inner;
        assert!(bytes.abs_diff(numbers * size_of::<bf16>()) < 64, "{filters}x{channels}x{taps}");
    }
    let (a, b) = (random(1, 600), random(2, 600));
    multiply(&mut [0.0], 1, Mode::Replace, Matrix::of(&a, 1, 600), Matrix::of(&b, 600, 1), Threads::One);
    assert_eq!(super::LINES.with_borrow(Vec::capacity) * 64, packing_bytes());
}

#[test]
fn a_product_without_an_inner_dimension_is_zero_and_one_without_rows_or_columns_is_nothing() {
    if !available() {
        return;
    }
    let none: [f32; 0] = [];
    let some = [1.0f32; 6];
    let before = [7.0, 7.0, 7.0, 7.0, 7.0];
    let run = |mode: Mode, left: Matrix<'_, f32>, right: Matrix<'_, f32>| {
        let (mut target, mut packed) = (before, before);
        multiply(&mut target, 3, mode, left, right, Threads::One);
        Left::new(left).multiply(&mut packed, 3, mode, right, Threads::All);
        assert_eq!(target, packed);
        target
    };
    let (left, right) = (Matrix::of(&none, 2, 0), Matrix::of(&none, 0, 2));
    assert_eq!(run(Mode::Replace, left, right), [0.0, 0.0, 7.0, 0.0, 0.0], "the number between the rows stays");
    assert_eq!(run(Mode::Add, left, right), before);
    assert_eq!(run(Mode::Replace, Matrix::of(&none, 0, 3), Matrix::of(&some, 3, 2)), before);
    assert_eq!(run(Mode::Replace, Matrix::of(&some, 2, 3), Matrix::of(&none, 3, 0)), before);
    assert_eq!(run(Mode::Add, Matrix::of(&some, 2, 3), Matrix::of(&some, 3, 2)), [10.0, 10.0, 7.0, 10.0, 10.0]);
}

#[test]
fn blocks_cover_the_inner_dimension_in_order_and_none_is_longer_than_the_first() {
    for (most, multiple) in [(outer::INNER, 2), (INNER, 2), (INNER, 32)] {
        for inner in (0..100).chain(most - 40..most + 40).chain(3 * most - 40..3 * most + 40) {
            let all: Vec<_> = blocks(inner, most, multiple).collect();
            let ends = all.iter().map(|block| block.end);
            assert!(all.iter().map(|block| block.start).eq([0].into_iter().chain(ends).take(all.len())), "{inner}");
            assert_eq!(all.last().map_or(0, |block| block.end), inner);
            assert_eq!(all.len(), inner.div_ceil(most), "as few as possible");
            let longest = all.first().map_or(0, |block| block.len());
            assert!(longest <= most && all.iter().all(|block| block.len() <= longest && !block.is_empty()));
            assert!(all.iter().all(|block| block.start % multiple == 0));
        }
    }
}

fn six() -> [f32; 6] {
    // So that the tests below panic for their own reason where the instructions are missing.
    [1.0; 6]
}

#[test]
#[should_panic(expected = "a factor lies in its slice")]
fn a_left_factor_beyond_its_slice_is_refused() {
    assert!(available(), "a factor lies in its slice");
    let (a, b, mut target) = ([0.0; 5], six(), [0.0; 4]);
    multiply(&mut target, 2, Mode::Replace, Matrix::of(&a, 2, 3), Matrix::of(&b, 3, 2), Threads::One);
}

#[test]
#[should_panic(expected = "a factor lies in its slice")]
fn a_right_factor_beyond_its_slice_is_refused() {
    assert!(available(), "a factor lies in its slice");
    let (a, b, mut target) = (six(), [0.0; 5], [0.0; 4]);
    let right = Matrix::of(&b, 2, 3).transposed();
    multiply(&mut target, 2, Mode::Replace, Matrix::of(&a, 2, 3), right, Threads::One);
}

#[test]
#[should_panic(expected = "the product lies in its slice")]
fn a_product_beyond_its_slice_is_refused() {
    assert!(available(), "the product lies in its slice");
    let (a, b, mut target) = (six(), six(), [0.0; 3]);
    let right = Matrix::of(&b, 2, 3).transposed();
    multiply(&mut target, 2, Mode::Replace, Matrix::of(&a, 2, 3), right, Threads::One);
}

#[test]
#[should_panic(expected = "the inner dimensions of a product agree")]
fn factors_that_do_not_fit_are_refused() {
    assert!(available(), "the inner dimensions of a product agree");
    let (a, b, mut target) = (six(), six(), [0.0; 9]);
    let right = Matrix::of(&b, 3, 2).transposed();
    multiply(&mut target, 3, Mode::Replace, Matrix::of(&a, 2, 3), right, Threads::One);
}

#[test]
#[should_panic(expected = "the product lies in its slice")]
fn rows_of_a_product_beyond_their_slice_are_refused() {
    assert!(available(), "the product lies in its slice");
    let mut pixels = Right::default();
    pixels.pack(Matrix::of(&six(), 3, 2));
    Left::new(Matrix::of(&six(), 2, 3)).write_rows(0..2, &pixels, &mut [0; 3], 2);
}
