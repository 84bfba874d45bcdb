//! Named ranges on a profiler's timeline, through NVTX (NVIDIA Tools Extension) version 3.
//!
//! NVTX is a protocol more than a library. A tool such as Nsight Systems starts the program with the path of a library of its
//! own in `NVTX_INJECTION64_PATH`; the program loads it, calls its `InitializeInjectionNvtx2`, and hands it tables of function
//! pointers that the tool fills in. Without that variable nothing is loaded, and a range costs one atomic read. NVIDIA's own
//! crate `nvtx` generates its bindings at build time and so asks every user for libclang; the protocol is small enough to be
//! spoken directly.
//!
//! A range belongs to the thread that opens it, and ranges of a thread nest. CubeCL launches kernels on a thread of its own, so
//! ranges show when work was asked for; the kernels follow on the rows of the device.
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
    /// Ends must come from the thread of the begin.
    _not_send: PhantomData<*const ()>,
}

/// Opens a range. `name` is only asked for where a profiler listens; zero bytes end it.
pub fn range<N: Into<Vec<u8>>>(name: impl FnOnce() -> N) -> Range {
    let open = injection::push(name);
    Range { open, _not_send: PhantomData }
}

/// Whether a profiler listens.
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
