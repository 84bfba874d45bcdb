//! Headers of NumPy arrays.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = kindling_data::NpyHeader::parse(bytes) {
        let _ = header.count();
    }
});
