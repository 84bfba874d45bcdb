//! The addresses that large blocks lie in, and their pages.
//!
//! The addresses are reserved once, without memory behind them. They become writable in steps, so that a system that does not promise
//! more memory than it has can refuse, and get pages when they are written to. Pages of freed blocks stay for the next ones, until
//! memory is tight.

use std::alloc::Layout;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::space::Space;

/// Blocks begin and end at multiples of this: pages have at most 64 KiB.
const GRAIN: usize = 64 << 10;
/// Addresses become writable so many bytes at a time.
const WRITABLE_STEP: usize = 64 << 20;
/// Addresses that are reserved, as a multiple of the memory that is installed: gaps must not use them up.
const RESERVED: usize = 4;

struct Region {
    base: usize,
    bytes: usize,
    state: Mutex<State>,
}

struct State {
    space: Space,
    /// Bytes from the base on that may be written to.
    writable: usize,
}

static REGION: OnceLock<Option<Region>> = OnceLock::new();
/// [`kept_bytes`], which must be known while the region is locked.
static KEPT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread has locked the region. Its tables allocate, and where that fails, pages are asked for.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn region() -> Option<&'static Region> {
    let open = || {
        let bytes = system::installed()?.checked_mul(RESERVED)?.next_multiple_of(WRITABLE_STEP);
        let base = system::reserve(bytes)?;
        Some(Region { base, bytes, state: Mutex::new(State { space: Space::new(bytes), writable: 0 }) })
    };
    REGION.get_or_init(open).as_ref()
}

fn whole_grains(bytes: usize) -> usize {
    bytes.next_multiple_of(GRAIN)
}

impl Region {
    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        INSIDE.set(true);
        let made = work(&mut state);
        INSIDE.set(false);
        KEPT.store(state.space.kept(), Relaxed);
        made
    }

    /// Takes room for a block, and says where it begins and whether it is all zero.
    fn take(&self, bytes: usize) -> Option<(usize, bool)> {
        self.with(|state| {
            let place = state.space.take(bytes)?;
            let end = place.range.end.next_multiple_of(WRITABLE_STEP);
            if end > state.writable {
                if !system::make_writable(self.base + state.writable, end - state.writable) {
                    // Where some of it has pages, all of it is taken to have some: then nobody takes it for zero.
                    if place.fresh == bytes {
                        state.space.give_unused(place.range);
                    } else {
                        state.space.give(place.range);
                    }
                    return None;
                }
                state.writable = end;
            }
            Some((self.base + place.range.start, place.fresh == bytes))
        })
    }
}

/// The region, if a block can lie in it, and the bytes that it takes there.
fn for_block(layout: Layout) -> Option<(&'static Region, usize)> {
    let fits = layout.align() <= GRAIN && layout.size() <= isize::MAX as usize - GRAIN;
    fits.then(region).flatten().map(|region| (region, whole_grains(layout.size())))
}

/// The bytes that a block would need new pages for; `None` if it has no room here.
pub(super) fn fresh(layout: Layout) -> Option<usize> {
    let (region, bytes) = for_block(layout)?;
    region.with(|state| state.space.fresh(bytes))
}

/// Memory for a block, and whether it is all zero; `None` if it has no room here.
pub(super) fn take(layout: Layout) -> Option<(*mut u8, bool)> {
    let (region, bytes) = for_block(layout)?;
    let (address, zero) = region.take(bytes)?;
    Some((std::ptr::with_exposed_provenance_mut(address), zero))
}

/// Whether a block is one of these.
pub(super) fn has(block: *const u8) -> bool {
    let within = |region: &Region| (region.base..region.base + region.bytes).contains(&block.addr());
    REGION.get().and_then(Option::as_ref).is_some_and(within)
}

/// Frees a block of so many bytes.
pub(super) fn give(block: *const u8, bytes: usize) {
    if let Some(region) = region() {
        let start = block.addr() - region.base;
        region.with(|state| state.space.give(start..start + whole_grains(bytes)));
    }
}

/// Frees the end of a block; whether it may stay where it is, which it may not if it has to grow.
pub(super) fn shrink(block: *const u8, bytes: usize, to: usize) -> bool {
    let (old, new) = (whole_grains(bytes), whole_grains(to));
    if new < old
        && let Some(region) = region()
    {
        let start = block.addr() - region.base;
        region.with(|state| state.space.give(start + new..start + old));
    }
    new <= old
}

/// Bytes of pages that no block uses.
pub(crate) fn kept_bytes() -> u64 {
    KEPT.load(Relaxed) as u64
}

/// Returns pages that no block uses to the system, of so many bytes if there are. Does nothing while the tables here allocate.
pub(crate) fn return_pages(bytes: usize) {
    if let Some(region) = REGION.get().and_then(Option::as_ref)
        && !INSIDE.get()
    {
        let returned = |range: Range<usize>| system::return_pages(region.base + range.start, range.len());
        region.with(|state| state.space.return_pages(bytes, returned));
    }
}

/// What the system is asked for.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod system {
    use std::ffi::c_void;
    use std::ptr;

    const HUGE_PAGE: usize = 2 << 20;

    /// Bytes of memory that are installed.
    pub(super) fn installed() -> Option<usize> {
        // SAFETY: these ask for numbers.
        let [pages, bytes] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
        usize::try_from(pages).ok()?.checked_mul(usize::try_from(bytes).ok()?).filter(|bytes| *bytes > 0)
    }

    /// Whether neither addresses nor data of this process are limited.
    fn unlimited() -> bool {
        let mut limits = [libc::rlimit { rlim_cur: 0, rlim_max: 0 }; 2];
        let [addresses, data] = &mut limits;
        // SAFETY: the structs are written to and outlive the calls.
        let told = unsafe { [libc::getrlimit(libc::RLIMIT_AS, addresses), libc::getrlimit(libc::RLIMIT_DATA, data)] };
        told == [0, 0] && limits.iter().all(|limit| limit.rlim_cur == libc::RLIM_INFINITY)
    }

    /// Reserves addresses that belong to nobody else, at a multiple of the size of a huge page.
    pub(super) fn reserve(bytes: usize) -> Option<usize> {
        // Whoever limits addresses has none to reserve, and a limit of data is for an allocator that returns addresses.
        if !unlimited() {
            return None;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping where the system likes replaces nothing, and without access nothing can be read or written.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes + HUGE_PAGE, libc::PROT_NONE, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        let base = at.expose_provenance().next_multiple_of(HUGE_PAGE);
        // SAFETY: the range lies in the mapping just made. Advice; a refusal costs time only.
        unsafe { libc::madvise(ptr::with_exposed_provenance_mut::<c_void>(base), bytes, libc::MADV_HUGEPAGE) };
        Some(base)
    }

    /// Makes reserved addresses writable; they are zero.
    pub(super) fn make_writable(address: usize, bytes: usize) -> bool {
        let at = ptr::with_exposed_provenance_mut::<c_void>(address);
        // SAFETY: the addresses are of the reserved range and no block lies there yet.
        unsafe { libc::mprotect(at, bytes, libc::PROT_READ | libc::PROT_WRITE) == 0 }
    }

    /// Returns pages; whether it was done, so that they are zero from now on.
    pub(super) fn return_pages(address: usize, bytes: usize) -> bool {
        let at = ptr::with_exposed_provenance_mut::<c_void>(address);
        // SAFETY: the addresses are of the reserved range, which is private and of no file, and no block lies there: the caller
        // holds the lock that blocks are given out under.
        unsafe { libc::madvise(at, bytes, libc::MADV_DONTNEED) == 0 }
    }
}

/// Other systems: mimalloc alone.
#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn installed() -> Option<usize> {
        None
    }

    pub(super) fn reserve(_: usize) -> Option<usize> {
        None
    }

    pub(super) fn make_writable(_: usize, _: usize) -> bool {
        false
    }

    pub(super) fn return_pages(_: usize, _: usize) -> bool {
        false
    }
}
