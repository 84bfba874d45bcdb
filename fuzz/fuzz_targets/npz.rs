//! NumPy archives of images and labels.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("kindling-fuzz-{}.npz", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder can be written to");
    if let Ok(mut npz) = kindling_data::Npz::open(&path) {
        let _ = npz.images("train_images");
        let _ = npz.numbers("train_labels", 1 << 16);
    }
});
