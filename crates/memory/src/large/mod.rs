//! Large blocks of memory, side by side.
//!
//! A step makes and frees hundreds of maps of many sizes. An allocator that puts them where its tables allow, such as mimalloc 3 with
//! blocks of more than 32 MiB at multiples of 32 MiB and smaller ones never across such a line, leaves gaps between them, and pages that earlier
//! maps wrote to stay in the gaps: a process had half as much memory again as its tensors. Here a large block takes the
//! first gap that it fits into.
//!
//! | module | holds |
//! |---|---|
//! | `ranges` | a set of numbers as ranges |
//! | `space` | which parts of a range of addresses are free, and where a block lies |
//! | `region` | the addresses, and their pages |

mod ranges;
mod region;
mod space;

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use crate::tight;
pub(crate) use region::kept_bytes;
use region::return_pages;

/// Blocks of at least so many bytes are large.
const LARGE: usize = 1 << 20;
/// Before a block of at least so many bytes is made, the size of the process is looked at, where that is limited. It takes a tenth of the
/// time that writing to such a block takes.
const LOOKED_AT: usize = 64 << 10;
/// The system may give a whole page of this size where a byte of it is written to.
const HUGE_PAGE: u64 = 2 << 20;

/// Puts large blocks side by side, each into the first gap that it fits into, and leaves all others to the wrapped allocator, as well as
/// everything where the system has no place for this: on other systems than Linux, and under a limit of address space or data (`ulimit`).
#[derive(Debug, Default)]
pub struct LargeBlocks<A>(pub A);

/// Returns all free pages to the system, those here and those of the allocator of all other blocks.
pub(crate) fn give_back() {
    return_pages(usize::MAX);
    tight::give_back();
}

/// Returns free pages to the system if the process would exceed its limit with `bytes` of new ones: those here, as many as have to go, and
/// if that is not enough, all.
fn make_room(bytes: usize) {
    let beyond = || tight::beyond(bytes as u64 + HUGE_PAGE);
    if let Some(bytes) = beyond() {
        return_pages(usize::try_from(bytes).unwrap_or(usize::MAX));
        if beyond().is_some() {
            give_back();
        }
    }
}

/// Returns free pages if the process exceeds its limit as it is, first those of the wrapped allocator: a block that needs no new pages is
/// about to use some of those here.
fn keep_within() {
    if tight::beyond(HUGE_PAGE).is_some() {
        tight::give_back();
        make_room(0);
    }
}

/// Memory for a large block, and whether it is all zero. `None` if it is not large, or if there is no room for it here.
fn own(layout: Layout) -> Option<(*mut u8, bool)> {
    if layout.size() < LARGE {
        if layout.size() >= LOOKED_AT {
            make_room(layout.size());
        }
        return None;
    }
    // Before the region is locked, of which pages may have to be returned.
    if tight::limit() != tight::NONE {
        match region::fresh(layout).unwrap_or(layout.size()) {
            0 => keep_within(),
            fresh => make_room(fresh),
        }
    }
    region::take(layout)
}

// SAFETY: a block comes either from the region, which gives no address to two blocks at a time, each with the size and the alignment of its
// layout, or from `A`, with the caller's layout; `region::has` tells them apart by their addresses, so that each goes back to
// where it came from. A block that is replaced is copied whole, up to the smaller size, before it goes back. Nothing unwinds:
// the region panics nowhere, and what its tables allocate is small, so that it comes from `A`.
#[allow(unsafe_code)]
unsafe impl<A: GlobalAlloc> GlobalAlloc for LargeBlocks<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match own(layout) {
            Some((block, _)) => block,
            // SAFETY: the caller's promise.
            None => unsafe { self.0.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match own(layout) {
            Some((block, true)) => block,
            Some((block, false)) => {
                // SAFETY: the block is of this layout.
                unsafe { ptr::write_bytes(block, 0, layout.size()) };
                block
            }
            // SAFETY: the caller's promise.
            None => unsafe { self.0.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if region::has(block) {
            region::give(block, layout.size());
        } else {
            // SAFETY: the block is one of `A`'s, and the caller's promise.
            unsafe { self.0.dealloc(block, layout) };
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !region::has(block) && new_size < LARGE {
            // SAFETY: the block is one of `A`'s, and the caller's promise.
            return unsafe { self.0.realloc(block, layout, new_size) };
        }
        if region::has(block) && new_size >= LARGE && region::shrink(block, layout.size(), new_size) {
            return block;
        }
        // SAFETY: the caller promises that `new_size` is valid for the alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: `new_size` is not 0, by the caller's promise.
        let moved = unsafe { self.alloc(new_layout) };
        if !moved.is_null() {
            // SAFETY: both blocks have that many bytes and are different ones; the old one is freed once.
            unsafe {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
        }
        moved
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use std::alloc::System;

    const MEBIBYTE: usize = 1 << 20;

    /// A block that is filled with one byte, and freed when it is dropped.
    struct Filled {
        block: *mut u8,
        layout: Layout,
        byte: u8,
    }

    impl Filled {
        fn new(bytes: usize, align: usize, byte: u8) -> Self {
            let layout = Layout::from_size_align(bytes, align).expect("a valid layout");
            // SAFETY: the layout is not empty, and the block has its size.
            let block = unsafe { LargeBlocks(System).alloc(layout) };
            assert!(!block.is_null() && block.addr().is_multiple_of(align), "{bytes} bytes at multiples of {align}");
            let mut filled = Self { block, layout, byte };
            filled.bytes().fill(byte);
            filled
        }

        fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: the block has the size of its layout, and is borrowed as this is. It is filled before it is read.
            unsafe { std::slice::from_raw_parts_mut(self.block, self.layout.size()) }
        }

        fn resize(&mut self, bytes: usize) {
            // SAFETY: the block is of this layout, and the new size is not 0.
            self.block = unsafe { LargeBlocks(System).realloc(self.block, self.layout, bytes) };
            assert!(!self.block.is_null());
            let (kept, byte) = (self.layout.size().min(bytes), self.byte);
            self.layout = Layout::from_size_align(bytes, self.layout.align()).expect("a valid layout");
            assert!(self.bytes()[..kept].iter().all(|it| *it == byte), "{kept} bytes are as they were");
            self.bytes().fill(byte);
        }
    }

    impl Drop for Filled {
        fn drop(&mut self) {
            let byte = self.byte;
            assert!(self.bytes().iter().all(|it| *it == byte), "nobody else wrote to the block");
            // SAFETY: the block is of this layout and freed once.
            unsafe { LargeBlocks(System).dealloc(self.block, self.layout) };
        }
    }

    /// Blocks of all sizes around the limit, made, resized and freed in no order by several threads, while pages are returned: each
    /// holds what was written to it.
    #[test]
    fn blocks_hold_what_was_written_to_them_whatever_others_do() {
        let work = |thread: u64| {
            let mut state = thread;
            let mut next = |most: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                usize::try_from(state >> 33).unwrap_or(0) % most
            };
            let mut blocks: Vec<Filled> = Vec::new();
            for turn in 0..400_u64 {
                let bytes = 1 + next(3 * MEBIBYTE);
                match next(4) {
                    0 if !blocks.is_empty() => drop(blocks.swap_remove(next(blocks.len()))),
                    1 if !blocks.is_empty() => {
                        let at = next(blocks.len());
                        blocks[at].resize(bytes);
                    }
                    2 if blocks.len() > 8 => drop(blocks.swap_remove(0)),
                    _ => blocks.push(Filled::new(bytes, 64 << next(4), (turn % 251) as u8)),
                }
                if turn % 50 == 0 {
                    return_pages(usize::MAX);
                }
            }
        };
        std::thread::scope(|scope| (1..=3).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    }

    #[test]
    fn a_zeroed_block_is_zero_where_others_have_written_and_where_pages_were_returned() {
        let layout = Layout::from_size_align(5 * MEBIBYTE + 1, 16).expect("a valid layout");
        for returned in [false, true, false] {
            drop(Filled::new(layout.size(), 16, 7));
            if returned {
                return_pages(usize::MAX);
            }
            // SAFETY: the layout is not empty, the block has its size, and is freed once.
            unsafe {
                let block = LargeBlocks(System).alloc_zeroed(layout);
                assert!(!block.is_null());
                assert!(std::slice::from_raw_parts(block, layout.size()).iter().all(|byte| *byte == 0));
                LargeBlocks(System).dealloc(block, layout);
            }
        }
    }

    #[test]
    fn small_blocks_and_those_with_a_larger_alignment_than_pages_are_the_wrapped_allocators() {
        for (bytes, align) in [(LARGE - 1, 16), (LARGE, 1 << 17)] {
            let block = Filled::new(bytes, align, 1);
            assert!(!region::has(block.block), "{bytes} bytes at multiples of {align}");
        }
        let block = Filled::new(LARGE, 16, 1);
        let room = cfg!(target_os = "linux") && !crate::limits::allocations_may_fail();
        assert_eq!(region::has(block.block), room);
    }
}
