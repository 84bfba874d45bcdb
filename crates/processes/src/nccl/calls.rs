//! The functions of NCCL and of the CUDA driver, opened at run time. This file has all unsafe code that has to do with NCCL.
//!
//! Why it is sound:
//! - The libraries are those of the user's system, or one that the user named. They are never closed, so functions, contexts and
//!   streams stay valid.
//! - Signatures and numbers are those of NCCL 2's `nccl.h` and of the CUDA driver's `cuda.h`. An identifier is 128 bytes and is passed
//!   by value, and a stream of CUDA's runtime is one of its driver.
//! - A communicator and its stream are made by [`Communicator::join`], used by the one thread that has them, and given up once, when
//!   they are dropped.
//! - NCCL takes the device of the thread's current context. It is the GPU's primary context, which every library shares, and it is made
//!   current before each call.
//! - Which memory NCCL reads and writes is the promise of whoever calls [`Communicator::start`].

#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use libloading::os::unix::{Library as Opened, RTLD_LOCAL, RTLD_NOW};

use super::{Failed, Nccl, Piece};

/// `ncclFloat32`.
const FLOAT32: c_int = 7;
/// `CU_STREAM_NON_BLOCKING`: it does not wait for the default stream.
const NON_BLOCKING: c_uint = 1;
/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: c_int = 600;
/// Room for a GPU's place on the bus, `0000:01:00.0`, with the zero at its end.
const BUS_ID: usize = 32;

/// `ncclUniqueId`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Id([u8; 128]);

impl Id {
    /// From its bytes, if there are as many.
    pub(super) fn of(bytes: Vec<u8>) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// How long one exchange may take. Ranks begin it together and it moves a few MiB, so whoever waits longer waits for nobody.
const PATIENCE: Duration = Duration::from_secs(30);
/// What waiting begins with, before the processor is given to others.
const SPIN: Duration = Duration::from_millis(1);

type Handle = *mut c_void;
type SendCall = unsafe extern "C" fn(*const c_void, usize, c_int, c_int, Handle, Handle) -> c_int;
type ReceiveCall = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, Handle, Handle) -> c_int;

/// NCCL.
pub(super) struct Library {
    pub(super) version: c_int,
    unique_id: unsafe extern "C" fn(*mut Id) -> c_int,
    init_rank: unsafe extern "C" fn(*mut Handle, c_int, Id, c_int) -> c_int,
    send: SendCall,
    receive: ReceiveCall,
    group_start: unsafe extern "C" fn() -> c_int,
    group_end: unsafe extern "C" fn() -> c_int,
    async_error: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    abort: unsafe extern "C" fn(Handle) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Library {
    /// Opens a library by its path or name.
    ///
    /// # Errors
    /// The system's sentence, or what the library lacks.
    pub(super) fn open(name: &OsStr) -> Result<Self, String> {
        let opened = open(name)?;
        type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
        // SAFETY: the types are those of `nccl.h`, here and below.
        let get_version: GetVersion = unsafe { function(opened, c"ncclGetVersion") }?;
        let mut version = 0;
        // SAFETY: it writes one integer.
        if unsafe { get_version(&mut version) } != 0 {
            return Err("it does not say which version it is".to_owned());
        }
        // SAFETY: as above.
        unsafe {
            Ok(Self {
                version,
                unique_id: function(opened, c"ncclGetUniqueId")?,
                init_rank: function(opened, c"ncclCommInitRank")?,
                send: function(opened, c"ncclSend")?,
                receive: function(opened, c"ncclRecv")?,
                group_start: function(opened, c"ncclGroupStart")?,
                group_end: function(opened, c"ncclGroupEnd")?,
                async_error: function(opened, c"ncclCommGetAsyncError")?,
                abort: function(opened, c"ncclCommAbort")?,
                error_string: function(opened, c"ncclGetErrorString")?,
            })
        }
    }

    /// What ranks are to know to find each other.
    ///
    /// # Errors
    /// NCCL's words.
    pub(super) fn unique_id(&self) -> Result<Vec<u8>, String> {
        let mut id = Id([0; 128]);
        // SAFETY: it writes one identifier.
        self.check("ncclGetUniqueId", unsafe { (self.unique_id)(&mut id) })?;
        Ok(id.0.to_vec())
    }

    fn check(&self, call: &str, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: it returns a text of the library's own, for any number.
        let text = unsafe { (self.error_string)(code) };
        if text.is_null() {
            return Err(format!("{call} answers {code}"));
        }
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        Err(format!("{call} answers {code}, {text}"))
    }
}

/// A GPU, as the CUDA driver has it.
pub(super) struct Cuda {
    context: Handle,
    bus_id: String,
    set_current: unsafe extern "C" fn(Handle) -> c_int,
    stream_create: unsafe extern "C" fn(*mut Handle, c_uint) -> c_int,
    stream_query: unsafe extern "C" fn(Handle) -> c_int,
    stream_destroy: unsafe extern "C" fn(Handle) -> c_int,
}

impl Cuda {
    /// The GPU of this number, as CUDA counts those that it shows to this process.
    ///
    /// # Errors
    /// If there is no driver, or it refuses.
    pub(super) fn open(gpu: usize) -> Result<Self, String> {
        let opened = open(OsStr::new("libcuda.so.1"))?;
        type Init = unsafe extern "C" fn(c_uint) -> c_int;
        type DeviceGet = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
        type BusId = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
        type Retain = unsafe extern "C" fn(*mut Handle, c_int) -> c_int;
        let ordinal = c_int::try_from(gpu).map_err(|_| format!("there is no GPU {gpu}"))?;
        let (mut device, mut context, mut bus_id) = (0, null_mut(), [0u8; BUS_ID]);
        // SAFETY: the types are those of `cuda.h`. Each writes what it is given a place for, the bus id with its zero into its room.
        // The primary context is kept until the process ends.
        unsafe {
            let init: Init = function(opened, c"cuInit")?;
            let device_get: DeviceGet = function(opened, c"cuDeviceGet")?;
            let get_bus_id: BusId = function(opened, c"cuDeviceGetPCIBusId")?;
            let retain: Retain = function(opened, c"cuDevicePrimaryCtxRetain")?;
            driver("cuInit", init(0))?;
            driver("cuDeviceGet", device_get(&mut device, ordinal))?;
            driver("cuDeviceGetPCIBusId", get_bus_id(bus_id.as_mut_ptr().cast(), BUS_ID as c_int - 1, device))?;
            driver("cuDevicePrimaryCtxRetain", retain(&mut context, device))?;
            Ok(Self {
                context,
                bus_id: CStr::from_bytes_until_nul(&bus_id).unwrap_or_default().to_string_lossy().into_owned(),
                set_current: function(opened, c"cuCtxSetCurrent")?,
                stream_create: function(opened, c"cuStreamCreate")?,
                stream_query: function(opened, c"cuStreamQuery")?,
                stream_destroy: function(opened, c"cuStreamDestroy_v2")?,
            })
        }
    }

    /// Its place on the bus, which no other GPU of the machine has.
    pub(super) fn bus_id(&self) -> String {
        self.bus_id.clone()
    }

    fn make_current(&self) -> Result<(), String> {
        // SAFETY: the context is the GPU's own and is kept.
        driver("cuCtxSetCurrent", unsafe { (self.set_current)(self.context) })
    }
}

/// Whether an exchange has come to its end.
enum State {
    Done,
    Busy,
}

/// The ranks of a group, as NCCL connects them.
pub(super) struct Communicator {
    library: Library,
    cuda: Cuda,
    handle: Handle,
    stream: Handle,
}

impl Communicator {
    /// Joins the ranks with this identifier, and returns when all have.
    ///
    /// # Errors
    /// The words of NCCL or the driver.
    pub(super) fn join(library: Library, cuda: Cuda, id: Id, size: usize, rank: usize) -> Result<Self, String> {
        let [size, rank] = [size, rank].map(|number| c_int::try_from(number).unwrap_or(c_int::MAX));
        cuda.make_current()?;
        let (mut handle, mut stream) = (null_mut(), null_mut());
        // SAFETY: it writes one handle; the context is current.
        driver("cuStreamCreate", unsafe { (cuda.stream_create)(&mut stream, NON_BLOCKING) })?;
        // SAFETY: as above, and the identifier is one of NCCL's.
        let code = unsafe { (library.init_rank)(&mut handle, size, id, rank) };
        let joined = library.check("ncclCommInitRank", code);
        // From here on both are given up together.
        let made = Self { library, cuda, handle, stream };
        joined.map(|()| made)
    }

    /// Asks for an exchange, see [`Nccl::exchange`].
    ///
    /// # Safety
    /// As there, until [`Self::state`] says that it is done or the communicator is dropped.
    unsafe fn start(&self, send: &[Piece], receive: &[Piece]) -> Result<(), String> {
        let Self { library, handle, stream, .. } = self;
        self.cuda.make_current()?;
        // SAFETY: it takes nothing.
        library.check("ncclGroupStart", unsafe { (library.group_start)() })?;
        let peer = |piece: &Piece| c_int::try_from(piece.rank).unwrap_or(c_int::MAX);
        let mut asked = Ok(());
        for piece in send.iter().filter(|piece| piece.floats > 0) {
            let at = piece.address as usize as *const c_void;
            // SAFETY: the caller's promise.
            let code = unsafe { (library.send)(at, piece.floats, FLOAT32, peer(piece), *handle, *stream) };
            asked = asked.and_then(|()| library.check("ncclSend", code));
        }
        for piece in receive.iter().filter(|piece| piece.floats > 0) {
            let at = piece.address as usize as *mut c_void;
            // SAFETY: the caller's promise.
            let code = unsafe { (library.receive)(at, piece.floats, FLOAT32, peer(piece), *handle, *stream) };
            asked = asked.and_then(|()| library.check("ncclRecv", code));
        }
        // A group that was begun must be ended, whatever was wrong in it.
        // SAFETY: it takes nothing.
        let ended = library.check("ncclGroupEnd", unsafe { (library.group_end)() });
        asked.and(ended)
    }

    /// Whether what was asked for is done.
    ///
    /// # Errors
    /// The words of NCCL about what went wrong meanwhile, here or elsewhere, or of the driver.
    fn state(&self) -> Result<State, String> {
        let Self { library, cuda, handle, stream } = self;
        // SAFETY: the stream is ours.
        let code = unsafe { (cuda.stream_query)(*stream) };
        let mut wrong = 0;
        // SAFETY: it writes one integer. It is asked after the stream, so that an error of what is done is seen.
        let asked = unsafe { (library.async_error)(*handle, &mut wrong) };
        library.check("ncclCommGetAsyncError", asked)?;
        library.check("ncclSend or ncclRecv", wrong)?;
        if code == NOT_READY {
            return Ok(State::Busy);
        }
        driver("cuStreamQuery", code)?;
        Ok(State::Done)
    }
}

impl Nccl {
    /// Sends and receives all pieces at once, and returns when that is done. Two ranks have their pieces for each other in the same
    /// order. After an error nothing can be said of what was to be received, and the connection is of no use any more.
    ///
    /// # Safety
    /// Each address is that of as many floats in memory of this rank's GPU as its piece says, which live and which nothing else touches
    /// during the call; no two pieces to receive overlap each other or one to send.
    pub(crate) unsafe fn exchange(&self, send: &[Piece], receive: &[Piece]) -> Result<(), Failed> {
        // SAFETY: the caller's promise.
        unsafe { self.communicator.start(send, receive) }.map_err(Failed)?;
        let began = Instant::now();
        loop {
            match self.communicator.state().map_err(Failed)? {
                State::Done => return Ok(()),
                State::Busy if began.elapsed() > PATIENCE => {
                    return Err(Failed(format!("nothing came for {} s", PATIENCE.as_secs())));
                }
                State::Busy if began.elapsed() > SPIN => std::thread::sleep(SPIN / 10),
                State::Busy => std::thread::yield_now(),
            }
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // What a device that is lost answers changes nothing any more.
        let _ = self.cuda.make_current();
        // SAFETY: both are ours, are given up once, and are not used again. An abort waits for nobody. What is in flight ends with it.
        unsafe {
            if !self.handle.is_null() {
                (self.library.abort)(self.handle);
            }
            (self.cuda.stream_destroy)(self.stream);
        }
    }
}

/// Opens a library for good: it may start threads, which must not lose their code.
fn open(name: &OsStr) -> Result<&'static Opened, String> {
    // SAFETY: the head of this file; opening runs the library's constructors, which is what the user wants.
    match unsafe { Opened::open(Some(name), RTLD_NOW | RTLD_LOCAL) } {
        Ok(opened) => Ok(Box::leak(Box::new(opened))),
        Err(error) => Err(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)),
    }
}

/// A function of a library.
///
/// # Safety
/// `F` is the type of a pointer to the function that the library has under this name.
unsafe fn function<F: Copy>(opened: &Opened, name: &CStr) -> Result<F, String> {
    // SAFETY: the caller's promise.
    let symbol = unsafe { opened.get::<F>(name.to_bytes_with_nul()) };
    symbol.map(|symbol| *symbol).map_err(|_| format!("it has no {}", name.to_string_lossy()))
}

fn driver(call: &str, code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{call} answers {code}")) }
}
