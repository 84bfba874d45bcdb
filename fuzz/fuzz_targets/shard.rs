//! Shards: tar files of images with labels or masks.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir().join(format!("kindling-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written to");
    let path = folder.join("a.tar");
    std::fs::write(&path, bytes).expect("the temporary folder can be written to");
    let _ = std::fs::remove_file(folder.join(".kindling-index.json"));
    if let Ok(opened) = kindling_data::open_path(&path, &kindling_data::Opening::new(0)) {
        let _ = opened.dataset.train.read(0);
    }
    if let Ok(opened) = kindling_data::open_segmentation(&path, &kindling_data::Opening::new(0)) {
        let _ = opened.dataset.train.read_mask(0);
    }
});
