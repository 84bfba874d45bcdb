//! Ending a process from any thread while others are inside a library.

/// Ends this process now. Handlers of `atexit` and destructors of libraries do not run: those of an MPI library wait for threads that
/// are inside it, which is why the process is to end.
pub(crate) fn at_once(code: i32) -> ! {
    #[allow(unsafe_code)]
    // SAFETY: takes a plain integer, touches no memory of the program and does not return.
    unsafe {
        libc::_exit(code)
    }
}
