//! Index files of shards.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = kindling_data::shards::check_index(bytes);
});
