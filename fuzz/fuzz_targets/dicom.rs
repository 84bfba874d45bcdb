//! DICOM files, from the elements to the image.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = kindling_scans::Dicom::default().parse(bytes, 0);
});
