//! Loads a tool and the tables that it fills in. This file has all unsafe code of the crate.
//!
//! Why it is sound: the tool is a library that the user named in the environment, and loading it runs its code, which is what the user
//! wants. The tool writes function pointers into [`Slot`]s, which are atomics of the size of a pointer that live as long as the process. A
//! slot is null until then, and a null slot is never called. The signatures are those of NVTX 3's headers. The library is never
//! unloaded, so pointers stay valid.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr::null;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The path of the tool's library, set by the tool (`NVTX_INJECTION64_PATH`, nvtxInit.h).
pub(crate) const PATH_VARIABLE: &str = "NVTX_INJECTION64_PATH";
const ENTRY: &[u8] = b"InitializeInjectionNvtx2\0";
/// `NVTX_VERSION`.
const VERSION: u32 = 3;

/// `NvtxExportTableID`.
const CALLBACKS: u32 = 1;
const VERSION_INFO: u32 = 3;

/// Places in the table of `NVTX_CB_MODULE_CORE` (`NvtxCallbackIdCore`).
const RANGE_PUSH_A: usize = 9;
const RANGE_POP: usize = 11;

/// A function pointer that a tool may set.
type Slot = AtomicPtr<c_void>;

/// The slots of one of NVTX's modules, and the array of pointers to them that a tool asks for.
struct Module<const N: usize> {
    slots: [Slot; N],
}

impl<const N: usize> Module<N> {
    const fn new() -> Self {
        Self { slots: [const { AtomicPtr::new(std::ptr::null_mut()) }; N] }
    }

    /// Pointers to the slots, which are leaked once for each tool, of which there is one.
    fn table(&'static self) -> (*const *mut *mut c_void, c_uint) {
        let pointers: Vec<*mut *mut c_void> = self.slots.iter().map(AtomicPtr::as_ptr).collect();
        (Vec::leak(pointers).as_ptr(), N as c_uint)
    }
}

// `NvtxCallbackModule` 1 to 6 with their numbers of callbacks, the invalid one at 0 included. Only the first is called here; the
// others are there because a tool may take a module that is missing for a program it does not understand.
static CORE: Module<16> = Module::new();
static CUDA: Module<9> = Module::new();
static OPENCL: Module<15> = Module::new();
static CUDART: Module<7> = Module::new();
static CORE2: Module<16> = Module::new();
static SYNC: Module<7> = Module::new();

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    size: usize,
    module_table: extern "C" fn(c_uint, *mut *const *mut *mut c_void, *mut c_uint) -> c_int,
}

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionInfo {
    size: usize,
    version: u32,
    reserved: u32,
    set_tool_version: extern "C" fn(u32),
}

static CALLBACK_TABLE: Callbacks = Callbacks { size: size_of::<Callbacks>(), module_table };
static VERSION_TABLE: VersionInfo =
    VersionInfo { size: size_of::<VersionInfo>(), version: VERSION, reserved: 0, set_tool_version };

extern "C" fn set_tool_version(_version: u32) {}

extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        CALLBACKS => (&raw const CALLBACK_TABLE).cast(),
        VERSION_INFO => (&raw const VERSION_TABLE).cast(),
        _ => null(),
    }
}

extern "C" fn module_table(module: c_uint, table: *mut *const *mut *mut c_void, size: *mut c_uint) -> c_int {
    let (found, length) = match module {
        1 => CORE.table(),
        2 => CUDA.table(),
        3 => OPENCL.table(),
        4 => CUDART.table(),
        5 => CORE2.table(),
        6 => SYNC.table(),
        _ => return 0,
    };
    // SAFETY: each is null or points to a variable of the tool that called.
    unsafe {
        if !size.is_null() {
            size.write(length);
        }
        if !table.is_null() {
            table.write(found);
        }
    }
    1
}

/// `nvtxRangePushA_impl_fntype`.
type Push = unsafe extern "C" fn(*const c_char) -> c_int;
/// `nvtxRangePop_impl_fntype`.
type Pop = unsafe extern "C" fn() -> c_int;

/// The functions of a tool.
struct Tool {
    push: Push,
    pop: Pop,
}

/// The injected tool, which is loaded at the first call.
fn tool() -> Option<&'static Tool> {
    static TOOL: OnceLock<Option<Tool>> = OnceLock::new();
    TOOL.get_or_init(load).as_ref()
}

/// Loads the tool that the environment names. A tool that cannot be loaded, or that does not take ranges, is ignored, because a profiler
/// must not prevent a run.
fn load() -> Option<Tool> {
    let path = std::env::var_os(PATH_VARIABLE).filter(|path| !path.is_empty())?;
    // SAFETY: see the head of this file.
    let library = unsafe { libloading::Library::new(path) }.ok()?;
    type Entry = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;
    // SAFETY: the name and the type are the protocol's.
    let entry = *unsafe { library.get::<Entry>(ENTRY) }.ok()?;
    // SAFETY: as above. A tool that answers 0 is not used and may be unloaded.
    if unsafe { entry(export_table) } == 0 {
        return None;
    }
    std::mem::forget(library);
    let [push, pop] = [RANGE_PUSH_A, RANGE_POP].map(|place| CORE.slots[place].load(Ordering::Acquire));
    if push.is_null() || pop.is_null() {
        return None;
    }
    // SAFETY: neither is null, and the tool was asked for functions of these types.
    let (push, pop) =
        unsafe { (std::mem::transmute::<*mut c_void, Push>(push), std::mem::transmute::<*mut c_void, Pop>(pop)) };
    Some(Tool { push, pop })
}

pub(crate) fn tool_listens() -> bool {
    tool().is_some()
}

/// Opens a range on this thread if there is a tool.
pub(crate) fn push<N: Into<Vec<u8>>>(name: impl FnOnce() -> N) -> bool {
    let Some(tool) = tool() else { return false };
    let mut bytes: Vec<u8> = name().into();
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    let name = CString::new(bytes).unwrap_or_default();
    // SAFETY: the name is a string that ends in a zero and outlives the call.
    unsafe { (tool.push)(name.as_ptr()) };
    true
}

/// Ends the newest range of this thread.
pub(crate) fn pop() {
    if let Some(tool) = tool() {
        // SAFETY: no arguments; the pair of an earlier push.
        unsafe { (tool.pop)() };
    }
}
