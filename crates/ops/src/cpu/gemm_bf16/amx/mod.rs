//! Products of tiles of bf16, on processors with registers for them (AMX): 16 rows of 16 pairs times 16 rows of pairs of 16 columns.
//!
//! `TDPBF16PS` adds such a product to 16 rows of 16 sums of float32, which takes as long as 16 of the instructions on registers of
//! pairs, and is 16 times as much. Four tiles of sums are added to at a time, two by two, so that each tile that is read serves twice
//! ([`kernel`]). Tiles are read from packed factors alone ([`pack`]), since rows of maps lie at places that compete for the cache.
//!
//! # Why the unsafe code is sound
//!
//! - Registers: the operating system has to keep them for a process that asks, and [`available`] asks. They hold nothing between the
//!   instructions of one block of assembly and the next, but their shape, which [`Configured`] sets and takes back.
//! - Memory: a tile is 16 lines, and whoever passes the address of one has packed all of them.

#![allow(unsafe_code)]

use std::arch::asm;
use std::marker::PhantomData;

use super::pack::Line;

mod inner;
mod kernel;
mod outer;
mod pack;

pub(super) use inner::{INNER, lying_by_turned, turned_by_stretches, turns_columns};
pub(super) use outer::{Factors, product};
pub(super) use pack::{columns, rows, taps};

/// Rows, columns, and pairs of a tile. A line has as many pairs, or sums.
pub(super) const SIDE: usize = 16;
/// Tiles that a kernel reads of either factor: two by two tiles of sums.
const BOTH: usize = 2;
/// Lines of the scratch that products are computed in.
pub(super) const SCRATCH: usize = if inner::SCRATCH > outer::SCRATCH { inner::SCRATCH } else { outer::SCRATCH };

/// Tiles of so many pairs.
pub(super) fn tiles(pairs: usize) -> usize {
    pairs.div_ceil(SIDE)
}

/// Lines of panels of so many rows or columns, with so many pairs each.
pub(super) fn lines(side: usize, pairs: usize) -> usize {
    side.div_ceil(SIDE) * tiles(pairs) * SIDE
}

/// Whether this processor multiplies tiles of bf16, and the operating system lets this process do so.
#[cfg(target_os = "linux")]
pub(super) fn available() -> bool {
    use std::sync::OnceLock;
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| has_instructions() && permitted())
}

/// As on Linux, where one knows how to ask.
#[cfg(not(target_os = "linux"))]
pub(super) fn available() -> bool {
    false
}

/// What `CPUID` says: leaf 7 has the instructions, leaf 1 whether the operating system keeps any state of registers, and leaf 1D the
/// tiles: eight of 16 rows of 64 bytes.
#[cfg(target_os = "linux")]
fn has_instructions() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    /// Leaf 7, EDX.
    const BF16_AND_TILES: u32 = 1 << 22 | 1 << 24;
    if __cpuid(0).eax < 0x1D || __cpuid_count(7, 0).edx & BF16_AND_TILES != BF16_AND_TILES {
        return false;
    }
    let palette = __cpuid_count(0x1D, 1);
    let (row, count, rows) = (palette.ebx & 0xFFFF, palette.ebx >> 16, palette.ecx & 0xFFFF);
    super::available() && row >= 64 && count >= 8 && rows >= 16
}

/// Asks Linux to keep tiles for this process, which it otherwise does not, because they take 8 KiB for each thread that uses them.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    /// From `asm/prctl.h`.
    const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;
    /// The number of this state among those that the processor can save.
    const XFEATURE_XTILEDATA: libc::c_ulong = 18;
    // SAFETY: a call with two numbers, which refers to no memory. A kernel that does not know it refuses.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

/// What `LDTILECFG` reads: the shapes of the tiles.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

const _: () = assert!(size_of::<Shapes>() == 64);

/// Eight tiles of 16 rows of 64 bytes.
static SHAPES: Shapes = {
    let (mut bytes, mut rows, mut tile) = ([0; 16], [0; 16], 0);
    while tile < 8 {
        (bytes[tile], rows[tile]) = (size_of::<Line>() as u16, SIDE as u8);
        tile += 1;
    }
    Shapes { palette: 1, start: 0, reserved: [0; 14], bytes, rows }
};

/// While there is one, the tiles of this thread have their shape. Without, threads are switched faster.
struct Configured(PhantomData<*const ()>);

impl Configured {
    /// # Safety
    /// [`available`].
    unsafe fn new() -> Self {
        // SAFETY: the processor has the instruction, which reads 64 bytes. Compiled code has no tiles.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(nostack, readonly, preserves_flags)) };
        Self(PhantomData)
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: this was made by [`Configured::new`], so the processor has the instruction.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}
