//! Manifests in both notations.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for json_lines in [false, true] {
        let _ = kindling_data::parse_manifest(bytes, json_lines);
    }
});
