//! The functions of an MPI library that was opened at run time. This file has all unsafe code that has to do with MPI.
//!
//! Why it is sound:
//! - The library is one that the user's system or the user named; opening it runs its constructors, which is what the user wants. It is
//!   never closed, so functions and handles stay valid.
//! - The signatures are those of the MPI standard in C. The type of a handle, its constants and the number of a thread level differ
//!   between three binary interfaces, and [`Library::open`] finds out by the library's own symbols which one it has.
//! - Handles are values of one C type in each interface: a pointer in Open MPI and in MPI 5's standard ABI, an `int` in MPICH's. So the
//!   functions are generic over the type of a handle, and what is called has the type that C has.
//! - Only bytes move. Each call checks its slices against its counts, and an `int` holds every count and every sum of them.
//! - Slices that are sent and received do not overlap, because one is borrowed as mutable.
//! - An empty slice of Rust's has an address such as 1, which is `MPI_IN_PLACE` in two of the interfaces. So the address of a byte of
//!   our own is passed instead.
//! - A call is made only between initialisation and the end, and by one thread at a time: see the lock of [`super::Mpi`].

#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};

use libloading::os::unix::{Library as Opened, RTLD_GLOBAL, RTLD_NOW};

use crate::transport::{assert_parts, starts};
use crate::{Error, mpi::Flavour};

/// Room for a version, an error or a name: the largest of the `MPI_MAX_...` of the three interfaces.
const MOST_TEXT: usize = 8192;
/// `MPI_THREAD_SERIALIZED` in Open MPI and MPICH, and in the standard ABI. Levels are ordered in all of them.
const SERIALIZED: c_int = 2;
const SERIALIZED_OF_ABI: c_int = 2048;

type Buffer = *mut c_void;
type Data = *const c_void;
type Counts = *const c_int;
type Text = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;

/// A library that is open, before anything is initialised.
pub(super) struct Library {
    opened: Opened,
    pub(super) flavour: Flavour,
    /// The text of `MPI_Get_library_version`.
    pub(super) version: String,
}

impl Library {
    /// Opens a library by its path or name, with its symbols for all that it loads itself (plug-ins of Open MPI rely on it).
    ///
    /// # Errors
    /// The system's sentence, or what the library lacks.
    pub(super) fn open(name: &OsStr) -> Result<Self, NotOpened> {
        // SAFETY: the head of this file.
        let opened = unsafe { Opened::open(Some(name), RTLD_NOW | RTLD_GLOBAL) };
        let opened = opened.map_err(|error| NotOpened::Missing(cause(&error)))?;
        // SAFETY: the type is that of the standard.
        let version: Text = unsafe { function(&opened, c"MPI_Get_library_version") }.map_err(NotOpened::Unusable)?;
        // SAFETY: there is room for the longest version; it may be called before initialisation (MPI 4.0, 9.1.1).
        let version = text(|bytes, length| unsafe { version(bytes, length) });
        let flavour = flavour(&opened, &version).map_err(NotOpened::Unusable)?;
        Ok(Self { opened, flavour, version })
    }
}

/// Why a library was not opened.
pub(super) enum NotOpened {
    /// It is not there, or the system cannot load it.
    Missing(String),
    /// It is there, and lacks what is needed.
    Unusable(String),
}

/// The sentence of the system's loader.
fn cause(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn flavour(opened: &Opened, version: &str) -> Result<Flavour, String> {
    // SAFETY: only the address is taken; it is not read.
    if unsafe { opened.get::<*const c_void>(b"ompi_mpi_comm_world\0") }.is_ok() {
        return Ok(Flavour::OpenMpi);
    }
    type AbiVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    // SAFETY: the type is that of MPI 5.
    if let Ok(abi_version) = unsafe { function::<AbiVersion>(opened, c"MPI_Abi_get_version") } {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: it writes two integers, and may be called before initialisation. A library with an ABI of its own says -1.
        if unsafe { abi_version(&mut major, &mut minor) } == 0 && major >= 1 {
            return Ok(Flavour::Standard);
        }
    }
    if ["MPICH", "Intel", "CRAY", "MVAPICH", "ParaStation"].iter().any(|name| version.contains(name)) {
        return Ok(Flavour::Mpich);
    }
    Err(format!("it calls itself `{version}`, whose binary interface is not known"))
}

/// A function of the library.
///
/// # Safety
/// `F` is the type of a pointer to the function that MPI has under this name.
unsafe fn function<F: Copy>(opened: &Opened, name: &CStr) -> Result<F, String> {
    // SAFETY: the caller's promise.
    let symbol = unsafe { opened.get::<F>(name.to_bytes_with_nul()) };
    symbol.map(|symbol| *symbol).map_err(|_| format!("it has no {}", name.to_string_lossy()))
}

/// Text that a function writes with its length.
fn text(write: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> String {
    let mut bytes = [0u8; MOST_TEXT];
    let mut length = 0;
    if write(bytes.as_mut_ptr().cast(), &mut length) != 0 {
        return "unknown".to_owned();
    }
    // Some count the zero at the end, and some do not.
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(MOST_TEXT);
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

/// The functions, with handles of type `H`.
pub(super) struct Calls<H> {
    world: H,
    byte: H,
    errors_return: H,
    serialized: c_int,
    initialized: unsafe extern "C" fn(*mut c_int) -> c_int,
    init_thread: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int,
    set_errhandler: unsafe extern "C" fn(H, H) -> c_int,
    rank: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    size: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    processor_name: Text,
    error_string: unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int,
    all_gather: unsafe extern "C" fn(Data, c_int, H, Buffer, Counts, Counts, H, H) -> c_int,
    all_to_all: unsafe extern "C" fn(Data, Counts, Counts, H, Buffer, Counts, Counts, H, H) -> c_int,
    broadcast: unsafe extern "C" fn(Buffer, c_int, H, c_int, H) -> c_int,
    abort: unsafe extern "C" fn(H, c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
}

/// A handle that is a pointer, which is only ever given back to the library it came from.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Address(*const c_void);

// SAFETY: nothing of ours reads what a handle points to, and MPI lets any thread use a handle.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Calls<Address> {
    /// Open MPI: handles are the addresses of variables (`OMPI_PREDEFINED_GLOBAL` in its `mpi.h`).
    pub(super) fn of_open_mpi(library: Library) -> Result<Self, String> {
        let address = |name: &CStr| {
            // SAFETY: only the address is taken; what is there is not read.
            let symbol = unsafe { library.opened.get::<*const c_void>(name.to_bytes_with_nul()) };
            let symbol = symbol.map_err(|_| format!("it has no {}", name.to_string_lossy()))?;
            Ok::<_, String>(Address(symbol.into_raw().cast_const()))
        };
        let handles =
            [address(c"ompi_mpi_comm_world")?, address(c"ompi_mpi_byte")?, address(c"ompi_mpi_errors_return")?];
        Self::new(library, handles, SERIALIZED)
    }

    /// MPI 5's standard ABI: handles are small numbers in pointers (`mpi_abi.h` of MPICH 5.0.2; MPI 5.0, A.1).
    pub(super) fn of_standard(library: Library) -> Result<Self, String> {
        let handles = [0x101, 0x247, 0x143].map(|number| Address(std::ptr::without_provenance(number)));
        Self::new(library, handles, SERIALIZED_OF_ABI)
    }
}

impl Calls<c_int> {
    /// MPICH and those that share its ABI: handles are integers (its `mpi.h`).
    pub(super) fn of_mpich(library: Library) -> Result<Self, String> {
        Self::new(library, [0x4400_0000, 0x4c00_010d, 0x5400_0001], SERIALIZED)
    }
}

impl<H: Copy> Calls<H> {
    fn new(library: Library, [world, byte, errors_return]: [H; 3], serialized: c_int) -> Result<Self, String> {
        let opened = &library.opened;
        // SAFETY: each name has the type that the field has, which is the one of the standard (MPI 4.0, A.3).
        let calls = unsafe {
            Self {
                world,
                byte,
                errors_return,
                serialized,
                initialized: function(opened, c"MPI_Initialized")?,
                init_thread: function(opened, c"MPI_Init_thread")?,
                set_errhandler: function(opened, c"MPI_Comm_set_errhandler")?,
                rank: function(opened, c"MPI_Comm_rank")?,
                size: function(opened, c"MPI_Comm_size")?,
                processor_name: function(opened, c"MPI_Get_processor_name")?,
                error_string: function(opened, c"MPI_Error_string")?,
                all_gather: function(opened, c"MPI_Allgatherv")?,
                all_to_all: function(opened, c"MPI_Alltoallv")?,
                broadcast: function(opened, c"MPI_Bcast")?,
                abort: function(opened, c"MPI_Abort")?,
                finalize: function(opened, c"MPI_Finalize")?,
            }
        };
        // The functions are used until the process ends.
        std::mem::forget(library.opened);
        Ok(calls)
    }

    /// Initialises MPI, lets errors be returned, and says which rank of how many this is. An error before MPI knows how to return
    /// errors ends the process with the library's own words.
    pub(super) fn initialize(&self, library: &str) -> Result<(usize, usize), Error> {
        let (mut already, mut level, mut rank, mut size) = (0, 0, 0, 0);
        // SAFETY: it writes one integer, and may be called at any time.
        self.check("MPI_Initialized", unsafe { (self.initialized)(&mut already) })?;
        if already != 0 {
            return Err(Error::Twice);
        }
        // SAFETY: no arguments of a command line are passed, which MPI allows; it writes one integer.
        let code =
            unsafe { (self.init_thread)(std::ptr::null_mut(), std::ptr::null_mut(), self.serialized, &mut level) };
        self.check("MPI_Init_thread", code)?;
        if level < self.serialized {
            return Err(Error::Threads { library: library.to_owned(), level });
        }
        // SAFETY: MPI is initialised, the handles are its own, and each writes one integer.
        unsafe {
            self.check("MPI_Comm_set_errhandler", (self.set_errhandler)(self.world, self.errors_return))?;
            self.check("MPI_Comm_rank", (self.rank)(self.world, &mut rank))?;
            self.check("MPI_Comm_size", (self.size)(self.world, &mut size))?;
        }
        // Neither is negative.
        Ok((rank.unsigned_abs() as usize, size.unsigned_abs() as usize))
    }

    /// The name of the machine.
    pub(super) fn processor_name(&self) -> String {
        // SAFETY: there is room for the longest name that any of the interfaces allows.
        text(|bytes, length| unsafe { (self.processor_name)(bytes, length) })
    }

    /// See [`crate::Transport::all_gather`].
    pub(super) fn all_gather(&self, mine: &[u8], counts: &[usize], all: &mut [u8]) -> Result<(), Error> {
        assert_parts(all.len(), counts, counts.len());
        let (mine_count, parts) = (as_int(mine.len())?, Parts::of(counts)?);
        // SAFETY: `mine` has that many bytes, and `all` has room for the sum of the counts, at their starts.
        let code = unsafe {
            (self.all_gather)(
                sent(mine),
                mine_count,
                self.byte,
                received(all),
                parts.counts.as_ptr(),
                parts.starts.as_ptr(),
                self.byte,
                self.world,
            )
        };
        self.check("MPI_Allgatherv", code)
    }

    /// See [`crate::Transport::exchange`].
    pub(super) fn exchange(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<(), Error> {
        assert_parts(send.len(), send_counts, send_counts.len());
        assert_parts(receive.len(), receive_counts, send_counts.len());
        let (to, from) = (Parts::of(send_counts)?, Parts::of(receive_counts)?);
        // SAFETY: both slices have as many bytes as their counts say, at their starts.
        let code = unsafe {
            (self.all_to_all)(
                sent(send),
                to.counts.as_ptr(),
                to.starts.as_ptr(),
                self.byte,
                received(receive),
                from.counts.as_ptr(),
                from.starts.as_ptr(),
                self.byte,
                self.world,
            )
        };
        self.check("MPI_Alltoallv", code)
    }

    /// See [`crate::Transport::broadcast`].
    pub(super) fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let (count, root) = (as_int(bytes.len())?, as_int(root)?);
        // SAFETY: the slice has that many bytes.
        let code = unsafe { (self.broadcast)(received(bytes), count, self.byte, root, self.world) };
        self.check("MPI_Bcast", code)
    }

    /// Asks MPI to end all processes.
    pub(super) fn abort(&self, code: i32) {
        // SAFETY: MPI is initialised; if it returns, the caller ends this process by itself.
        unsafe { (self.abort)(self.world, code) };
    }

    pub(super) fn finalize(&self) -> Result<(), Error> {
        // SAFETY: the caller calls it once, and nothing after it.
        self.check("MPI_Finalize", unsafe { (self.finalize)() })
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: there is room for the longest text that any of the interfaces allows.
        let told = text(|bytes, length| unsafe { (self.error_string)(code, bytes, length) });
        // MPICH tells a stack of lines.
        Err(Error::Call { call, text: told.lines().map(str::trim).collect::<Vec<_>>().join("; ") })
    }
}

/// Counts and starts of the parts of a slice, as MPI takes them.
struct Parts {
    counts: Vec<c_int>,
    starts: Vec<c_int>,
}

impl Parts {
    fn of(counts: &[usize]) -> Result<Self, Error> {
        as_int(counts.iter().sum())?;
        let ints = |counts: &mut dyn Iterator<Item = usize>| counts.map(as_int).collect::<Result<Vec<_>, _>>();
        Ok(Self { counts: ints(&mut counts.iter().copied())?, starts: ints(&mut starts(counts))? })
    }
}

fn as_int(bytes: usize) -> Result<c_int, Error> {
    c_int::try_from(bytes).map_err(|_| Error::TooLarge { bytes })
}

/// A byte with an address that no interface gives a meaning.
static NOTHING: u8 = 0;

/// Where to read; a real address even if there is nothing to read.
fn sent(bytes: &[u8]) -> Data {
    if bytes.is_empty() { (&raw const NOTHING).cast() } else { bytes.as_ptr().cast() }
}

/// Where to write; a real address even if there is nothing to write, and then nothing is written there.
fn received(bytes: &mut [u8]) -> Buffer {
    if bytes.is_empty() { (&raw const NOTHING).cast_mut().cast() } else { bytes.as_mut_ptr().cast() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_slice_never_has_an_address_that_means_something_to_mpi() {
        assert_eq!((&[] as &[u8]).as_ptr() as usize, 1, "Rust's own address is MPI_IN_PLACE");
        for address in [sent(&[]) as usize, received(&mut []) as usize] {
            assert!(address > 4096, "{address}");
        }
    }

    #[test]
    fn counts_that_no_int_holds_are_refused() {
        assert!(Parts::of(&[1 << 30, 1 << 30]).is_err(), "their sum is too large");
        assert!(Parts::of(&[1 << 31]).is_err());
        let parts = Parts::of(&[3, 0, 4]).map(|parts| (parts.counts, parts.starts));
        assert_eq!(parts.ok(), Some((vec![3, 0, 4], vec![0, 3, 3])));
    }
}
