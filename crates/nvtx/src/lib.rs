//! Named ranges on a profiler's timeline, through NVTX (NVIDIA Tools Extension) version 3.
//!
//! NVTX is a protocol more than a library. A tool such as Nsight Systems starts the program with the path of its own library in
//! `NVTX_INJECTION64_PATH`. The program loads that library, calls its `InitializeInjectionNvtx2`, and passes tables of function pointers,
//! which the tool fills in. Without that variable nothing is loaded, and a range costs one atomic read. NVIDIA's crate `nvtx` generates
//! its bindings at build time, so it requires libclang; the protocol is small enough to implement it here.
//!
//! A range belongs to the thread that opens it, and the ranges of a thread nest. CubeCL launches kernels on a thread of its own, so
//! ranges show when work was requested; the kernels follow on the rows of the device.
//!
//! Source of the protocol: `nvtxDetail/nvtxTypes.h` and `nvtxDetail/nvtxInit.h` of NVTX 3
//! (<https://github.com/NVIDIA/NVTX>, release 3).

mod injection;

use std::marker::PhantomData;

/// A range that ends when this is dropped, on the thread that opened it.
#[derive(Debug)]
#[must_use = "a range ends when it is dropped"]
pub struct Range {
    open: bool,
    /// A range must end on the thread that opened it.
    _not_send: PhantomData<*const ()>,
}

/// Opens a range. `name` is called only if there is a profiler; the name ends at the first zero byte.
pub fn range<N: Into<Vec<u8>>>(name: impl FnOnce() -> N) -> Range {
    let open = injection::push(name);
    Range { open, _not_send: PhantomData }
}

/// Whether there is a profiler.
pub fn is_profiled() -> bool {
    injection::tool_listens()
}

impl Drop for Range {
    fn drop(&mut self) {
        if self.open {
            injection::pop();
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn without_a_profiler_no_name_is_made() {
        // The variable is not set where tests run; where it is, this test has nothing to say.
        if std::env::var_os(super::injection::PATH_VARIABLE).is_none() {
            let _range = super::range(|| -> String { panic!("nobody listens") });
            assert!(!super::is_profiled());
        }
    }
}
