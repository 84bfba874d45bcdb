//! What is said where an allocation fails that nobody can do without.
//!
//! Large buffers are reserved, and a reservation that is refused is a step that ran out of memory. What remains are small
//! allocations and those of other libraries. Rust's answer to them is to abort, which says neither what to do nor that
//! nothing is lost.

use std::ffi::c_int;

use kindling_memory::failed_allocation;

/// Lets the process end with a sentence instead of a signal if it aborts because an allocation failed.
///
/// # Safety argument
/// The handler is installed before other threads are. It calls only what POSIX lists as safe in handlers of signals (`write`,
/// `_exit`, `signal`, `raise`), reads two atomics, and formats its number into its own stack; it allocates nothing.
#[allow(unsafe_code)]
pub(crate) fn explain_failed_allocations() {
    // SAFETY: above; the handler has the signature that `signal` asks for.
    unsafe {
        libc::signal(libc::SIGABRT, explain as extern "C" fn(c_int) as libc::sighandler_t);
    }
}

const BEFORE: &[u8] = b"error: out of memory: the system refused an allocation of ";
const AFTER: &[u8] =
    b" bytes (a limit of this shell, a control group, or no memory left); what was saved is intact, so continue \
with --resume from the last checkpoint, with a --memory-budget below the limit\n";

#[allow(unsafe_code)]
extern "C" fn explain(signal: c_int) {
    let Some(bytes) = failed_allocation() else {
        // Another reason: what would have happened without this handler.
        // SAFETY: both take plain integers.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    };
    let mut digits = [0; 20];
    // A dashboard would take the sentence away with its screen.
    let leave = if kindling_dashboard::is_open() { kindling_dashboard::LEAVE.as_bytes() } else { &[] };
    for text in [leave, BEFORE, decimal(bytes, &mut digits), AFTER] {
        // SAFETY: the pointer and the length are those of a slice that outlives the call.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
    // SAFETY: it ends the process and takes a plain integer.
    unsafe { libc::_exit(1) }
}

/// A number in decimal digits, without allocating.
fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut first = digits.len();
    while first == digits.len() || number > 0 {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    &digits[first..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_write_them() {
        for number in [0, 7, 10, 4096, usize::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
