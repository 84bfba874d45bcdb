//! Products whose result is made of outer products: for each pair of the inner dimension, a column of the left factor times a row of
//! the right one is added to a tile that stays in registers. A register holds 16 columns of the product.
//!
//! The left factor is packed once as a whole ([`Left`]), since it is the smaller one: filters. The right one is packed block by
//! block, each just before it is used.

#![allow(unsafe_code)]

use std::arch::x86_64::{__m512, __m512i, __mmask16, _mm512_dpbf16_ps, _mm512_set1_epi32, _mm512_setzero_ps};
use std::mem::MaybeUninit;
use std::ops::Range;

use super::super::matrix::Threads;
use super::super::tiles::{at_once, blocks, over};
use super::output::{To, abreast};
use super::pack::{Factor, Line, PAIRS, Part, Source, halves, lowest};
use super::{FEW, Instruction, amx, with_scratch};

/// Rows of a tile.
pub(super) const ROWS: usize = 8;
/// Columns in a register.
pub(super) const LANES: usize = 16;
/// Registers in a row of a tile.
pub(super) const VECTORS: usize = 3;
/// Columns of a tile.
const COLUMNS: usize = LANES * VECTORS;
/// The most numbers of the inner dimension that are added up in registers, before the sum is added to the target.
pub(super) const INNER: usize = 512;
/// Lines that the right factor is packed into, 256 KiB: they and a piece of the target stay in the second-level cache.
pub(super) const SCRATCH: usize = 4096;

/// Columns of which the right factor is packed at a time, at most, so that they fit into the scratch. The fewer numbers the inner
/// dimension has, the longer are the stretches that are read of each of its rows.
pub(super) fn columns_at_once(inner: usize) -> usize {
    let pairs = blocks(inner, INNER, 2).next().map_or(1, |block| block.len().div_ceil(2));
    SCRATCH / (VECTORS * pairs) * COLUMNS
}

/// Where a product is written, or added to what is there.
#[derive(Clone, Copy)]
pub(super) struct Written {
    /// The first element of the first row.
    pub(super) to: To,
    /// From one row to the next.
    pub(super) stride: usize,
    pub(super) add: bool,
}

/// Rows and a number of columns of a product, from those of a tile on.
struct Piece {
    rows: Range<usize>,
    columns: usize,
}

/// A left factor, rounded to bf16 and packed. It serves any number of products.
pub(crate) struct Left {
    instruction: Instruction,
    pub(super) lines: Vec<Line>,
    rows: usize,
    inner: usize,
}

impl Left {
    /// Rows that are written by themselves ([`Left::write_rows`]) begin at a multiple of this.
    pub(crate) const PANEL: usize = LANES;

    /// Bytes of a packed factor.
    pub(crate) fn bytes(rows: usize, inner: usize) -> usize {
        lines(Instruction::fastest(), rows, inner) * size_of::<Line>()
    }

    pub(super) fn instruction(&self) -> Instruction {
        self.instruction
    }

    pub(super) fn shape(&self) -> [usize; 2] {
        [self.rows, self.inner]
    }

    /// Packs a factor.
    ///
    /// # Safety
    /// The processor has the instructions, and `rows` outer places of `inner` numbers lie in the source.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn pack<T: Factor>(
        instruction: Instruction,
        source: Source<'_, T>,
        rows: usize,
        inner: usize,
    ) -> Self {
        let count = lines(instruction, rows, inner);
        let mut lines: Vec<Line> = Vec::with_capacity(count);
        let places = &mut lines.spare_capacity_mut()[..count];
        // SAFETY: there is room for `count` lines, and all of them are written.
        unsafe {
            match instruction {
                Instruction::OfRegisters => pack_panels(source, rows, inner, places),
                Instruction::OfTiles => {
                    let part = Part { outer: 0, outers: rows, inner: 0, inners: inner };
                    amx::rows(source, part, places.as_mut_ptr().cast());
                }
            }
            lines.set_len(count);
        }
        Self { instruction, lines, rows, inner }
    }

    /// [`Left::block`] with tiles.
    ///
    /// # Safety
    /// As there, with rows from a multiple of 16 on.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn block_of_tiles<T: Factor>(
        &self,
        rows: Range<usize>,
        right: Source<'_, T>,
        columns: Range<usize>,
        written: Written,
    ) {
        let pack = |panel: usize, tiles: Range<usize>, to: *mut Line| {
            let (outer, outers) = of_panel(&columns, panel);
            let inner = tiles.start * 2 * amx::SIDE;
            let inners = (self.inner - inner).min(tiles.len() * 2 * amx::SIDE);
            // SAFETY: the part lies in the source, as the caller promises, and there is room for these tiles.
            unsafe { amx::columns(right, Part { outer, outers, inner, inners }, to) };
            to.cast_const()
        };
        let to = written.to.after(rows.start * written.stride + columns.start);
        // SAFETY: as the caller promises, and columns are packed as they are asked for.
        unsafe { self.product_of_tiles(rows, columns.clone(), pack, Written { to, ..written }) };
    }

    /// The product of some rows and columns with tiles, written from the first of these on. `packed` gives some tiles of a panel of columns:
    /// in the lines that it gets, or elsewhere.
    ///
    /// # Safety
    /// As for [`Left::block`], with rows from a multiple of 16 on, and `packed` gives the address of such tiles.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn product_of_tiles(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        packed: impl Fn(usize, Range<usize>, *mut Line) -> *const Line,
        Written { to, stride, add }: Written,
    ) {
        let panels = |range: &Range<usize>| range.len().div_ceil(LANES);
        let put = |row: usize, panels: Range<usize>, sums: [[__m512; amx::SIDE]; 2]| {
            let ((row, high), (column, _)) = (of_panel(&rows, row), of_panel(&columns, panels.start));
            let mask = lowest((columns.end - column).min(LANES * panels.len()));
            let place = (row - rows.start) * stride + column - columns.start;
            // SAFETY: the rows and the columns that the mask leaves lie in the target.
            unsafe { to.put_both(place as isize, stride, abreast(sums, high), mask, add) };
        };
        let pairs = self.inner.div_ceil(2);
        let (tiles, first) = (amx::tiles(pairs), self.lines.as_ptr().wrapping_add(amx::lines(rows.start, pairs)));
        let factors = amx::Factors { rows: first, tiles, columns: packed };
        // SAFETY: this factor was packed for tiles, so the processor has them.
        unsafe { amx::product(&factors, 0..panels(&rows), 0..panels(&columns), put) };
    }

    /// The product of some rows, from a multiple of eight on, and of all columns of a right factor that has been packed, written from the first
    /// of these on. The inner dimension is a single block.
    ///
    /// # Safety
    /// The processor has the instructions. The rows lie in this factor, `right` was packed as [`pack_right`] does it for so many columns
    /// and the inner dimension of this factor, and the product lies in the target, where nobody else reads or writes it meanwhile.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn tiles_of_rows(
        &self,
        rows: Range<usize>,
        right: *const Line,
        columns: usize,
        written: Written,
    ) {
        let pairs = self.inner.div_ceil(2);
        // A tile of columns stays in the first-level cache for all rows.
        for (tile, column) in (0..columns).step_by(COLUMNS).enumerate() {
            for row in rows.clone().step_by(ROWS) {
                let part = Piece { rows: row..rows.end, columns: columns - column };
                let to = written.to.after((row - rows.start) * written.stride + column);
                // SAFETY: as the caller promises.
                unsafe {
                    let right = right.add(tile * VECTORS * pairs);
                    self.tile(&(0..self.inner), part, right, Written { to, ..written });
                }
            }
        }
    }

    /// Computes the tile of the product that begins a piece of it, for numbers `depth` of the inner dimension.
    ///
    /// # Safety
    /// The processor has the instructions. The rows lie in this factor and begin with a panel, `right` is the packed panel of the columns, and
    /// the tile lies in the target, where nobody else reads or writes it meanwhile.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn tile(&self, depth: &Range<usize>, piece: Piece, right: *const Line, written: Written) {
        let Piece { rows, columns } = piece;
        // SAFETY: as the caller promises.
        unsafe {
            let left = self.lines.as_ptr().cast::<u32>().add(panel(self.rows, depth, rows.start));
            let (pairs, rows, columns) = (depth.len().div_ceil(2), rows.len().min(ROWS), columns.min(COLUMNS));
            Tile { left, right, pairs, rows, columns, written }.compute();
        }
    }

    /// Computes a block of the product: `rows`, whose start is a multiple of the rows of a tile, and at most [`columns_at_once`] of
    /// `columns`.
    ///
    /// # Safety
    /// The processor has the instructions. The rows lie in this factor; columns of `right` as many as the inner dimension of this
    /// factor has numbers lie in its slice; rows and columns lie in the target, and nobody else reads or writes them meanwhile.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn block<T: Factor>(
        &self,
        rows: Range<usize>,
        right: Source<'_, T>,
        columns: Range<usize>,
        written: Written,
    ) {
        with_scratch(|scratch| {
            let scratch = scratch.as_mut_ptr();
            for depth in blocks(self.inner, INNER, 2) {
                let pairs = depth.len().div_ceil(2);
                // SAFETY: the scratch has room for as many columns, since no block of the inner dimension is longer than the first.
                unsafe { pack_right(right, &columns, &depth, scratch) };
                for row in rows.clone().step_by(ROWS) {
                    for (tile, column) in columns.clone().step_by(COLUMNS).enumerate() {
                        let part = Piece { rows: row..rows.end, columns: columns.end - column };
                        let to = written.to.after(row * written.stride + column);
                        let written = Written { to, add: written.add || depth.start > 0, ..written };
                        // SAFETY: the panels have been packed above and in `fill`, and the tile is a part of the block.
                        unsafe { self.tile(&depth, part, scratch.add(tile * VECTORS * pairs), written) };
                    }
                }
            }
        });
    }
}

/// The first of a range that a panel of it has, and how many it has.
fn of_panel(range: &Range<usize>, panel: usize) -> (usize, usize) {
    let start = range.start + LANES * panel;
    (start, (range.end - start).min(LANES))
}

/// Packs a factor for registers into all of these lines, many panels on all threads. Panels follow each other without gaps, and each is
/// written as a whole: eight rows for each of its pairs.
///
/// # Safety
/// As for [`Left::pack`], with as many lines as [`lines`] counts.
unsafe fn pack_panels<T: Factor>(source: Source<'_, T>, rows: usize, inner: usize, lines: &mut [MaybeUninit<Line>]) {
    if let Some(last) = lines.last_mut() {
        // Panels may end in the middle of it.
        last.write(Line::ZERO);
    }
    let start = lines.as_mut_ptr().cast::<MaybeUninit<u32>>();
    // SAFETY: a line is so many places of 32 bits.
    let mut places = unsafe { std::slice::from_raw_parts_mut(start, PAIRS * lines.len()) };
    let mut panels = Vec::new();
    for depth in blocks(inner, INNER, 2) {
        let pairs = depth.len().div_ceil(2);
        let (of_block, rest) = places.split_at_mut(rows.div_ceil(ROWS) * ROWS * pairs);
        places = rest;
        let outers = (0..rows).step_by(2 * ROWS).zip(of_block.chunks_mut(2 * ROWS * pairs));
        panels.extend(outers.map(|(outer, places)| (outer, depth.clone(), places)));
    }
    let tasks = at_once([rows, inner, 1], FEW, Threads::All);
    over(tasks, panels, |(outer, depth, places): (usize, Range<usize>, &mut [MaybeUninit<u32>])| {
        let outers = (rows - outer).min(2 * ROWS);
        let (first, second) = places.split_at_mut(ROWS * depth.len().div_ceil(2));
        let part = Part { outer, outers, inner: depth.start, inners: depth.len() };
        // SAFETY: the part lies in the source, and there are eight places for each of its pairs; the second group's are not used if there is
        // none.
        unsafe { source.sixteen(part, [first, second].map(|group| group.as_mut_ptr().cast()), ROWS) };
    });
}

/// Lines of a packed factor.
fn lines(instruction: Instruction, rows: usize, inner: usize) -> usize {
    if instruction == Instruction::OfTiles {
        return amx::lines(rows, inner.div_ceil(2));
    }
    let pairs: usize = blocks(inner, INNER, 2).map(|depth| depth.len().div_ceil(2)).sum();
    (rows.div_ceil(ROWS) * ROWS * pairs).div_ceil(PAIRS)
}

/// Where, in pairs, the panel that begins with row `row` begins in a packed factor of `rows` rows.
fn panel(rows: usize, depth: &Range<usize>, row: usize) -> usize {
    rows.div_ceil(ROWS) * ROWS * (depth.start / 2) + row * depth.len().div_ceil(2)
}

/// Packs the rows `depth` of some columns: for each tile and each pair, a line for every 16 columns begun.
///
/// # Safety
/// The processor has the instructions, the columns and `depth` lie in the source, and there is room.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) unsafe fn pack_right<T: Factor>(
    right: Source<'_, T>,
    columns: &Range<usize>,
    depth: &Range<usize>,
    to: *mut Line,
) {
    let pairs = depth.len().div_ceil(2);
    // Groups of columns that fill a line: the first column, how many there are, where the first line lies, and how far from it the next.
    let groups = |first: usize| {
        (first..columns.end).step_by(LANES).enumerate().map(move |(index, column)| {
            let (index, all) = (index + (first - columns.start) / LANES, columns.len().div_ceil(LANES));
            let (tile, vector) = (index / VECTORS, index % VECTORS);
            let width = all.min((tile + 1) * VECTORS) - tile * VECTORS;
            (column, (columns.end - column).min(LANES), tile * VECTORS * pairs + vector, width)
        })
    };
    if right.is_contiguous_across() {
        for pair in 0..pairs {
            let inner = depth.start + 2 * pair;
            // A number without a second one leaves its lines to the loop that fills them up with zeros.
            let whole = if inner + 1 < depth.end { columns.len() / COLUMNS } else { 0 };
            for tile in 0..whole {
                let column = columns.start + COLUMNS * tile;
                // SAFETY: the columns of a whole tile lie in the source, and its lines in the room.
                unsafe {
                    let lines = T::lines(right.at(column, inner), right.at(column, inner + 1));
                    to.add(VECTORS * (tile * pairs + pair)).cast::<[__m512i; VECTORS]>().write(lines);
                }
            }
            for (outer, outers, first, step) in groups(columns.start + COLUMNS * whole) {
                // SAFETY: the part lies in the source, and the line in the room.
                unsafe {
                    let line = right.line(Part { outer, outers, inner, inners: depth.end - inner });
                    to.add(first + step * pair).cast::<__m512i>().write(line);
                }
            }
        }
    } else {
        for (outer, outers, first, step) in groups(columns.start) {
            let part = Part { outer, outers, inner: depth.start, inners: depth.len() };
            // SAFETY: as above. The halves of a line are the groups of eight columns.
            unsafe {
                let line = to.add(first).cast::<u32>();
                right.sixteen(part, [line, line.add(8)], PAIRS * step);
            }
        }
    }
}

/// A tile of the product, and the packed panels that it is the product of.
struct Tile {
    left: *const u32,
    right: *const Line,
    pairs: usize,
    rows: usize,
    columns: usize,
    written: Written,
}

impl Tile {
    /// # Safety
    /// The processor has the instructions, the panels have `pairs` pairs, and the tile lies in the target, where nobody else reads or
    /// writes it meanwhile.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn compute(&self) {
        // SAFETY: as the caller promises. A panel of the left factor has eight rows even if fewer are in use.
        unsafe {
            match (self.rows.div_ceil(2), self.columns.div_ceil(LANES)) {
                (1, 1) => self.of::<2, 1>(),
                (1, 2) => self.of::<2, 2>(),
                (1, _) => self.of::<2, 3>(),
                (2, 1) => self.of::<4, 1>(),
                (2, 2) => self.of::<4, 2>(),
                (2, _) => self.of::<4, 3>(),
                (3, 1) => self.of::<6, 1>(),
                (3, 2) => self.of::<6, 2>(),
                (3, _) => self.of::<6, 3>(),
                (_, 1) => self.of::<8, 1>(),
                (_, 2) => self.of::<8, 2>(),
                (_, _) => self.of::<8, 3>(),
            }
        }
    }

    /// # Safety
    /// As for [`Tile::compute`], with at most `R` rows and `V` registers of columns, the last of which is in use.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn of<const R: usize, const V: usize>(&self) {
        let mut sums = [[_mm512_setzero_ps(); V]; R];
        let (mut left, mut right) = (self.left, self.right);
        for _ in 0..self.pairs {
            // SAFETY: the panels have as many pairs as the loop has turns.
            unsafe {
                let mut columns = [halves(_mm512_set1_epi32(0)); V];
                for (vector, columns) in columns.iter_mut().enumerate() {
                    *columns = halves(right.add(vector).cast::<__m512i>().read());
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    let pair = halves(_mm512_set1_epi32(left.add(row).read() as i32));
                    for (sum, columns) in sums.iter_mut().zip(columns) {
                        *sum = _mm512_dpbf16_ps(*sum, pair, columns);
                    }
                }
                left = left.add(ROWS);
                right = right.add(V);
            }
        }
        // A copy, so that they need no place in memory before.
        let made = sums;
        let Written { to, stride, add } = self.written;
        let (first, mask) = (made.iter().take(self.rows), lowest(self.columns));
        // SAFETY: the rows and the columns that the masks leave lie in the tile.
        unsafe {
            // Registers are named, not counted, since those that are counted are written to memory before.
            if V > 1 {
                to.put_both(0, stride, first.map(|sums| [sums[0], sums[1]]), mask, add);
            } else {
                to.put(0, stride, first.map(|sums| sums[0]), mask as __mmask16, add);
            }
            if V > 2 {
                let mask = lowest(self.columns - 2 * LANES) as __mmask16;
                to.put(2 * LANES as isize, stride, made.iter().take(self.rows).map(|sums| sums[2]), mask, add);
            }
        }
    }
}
