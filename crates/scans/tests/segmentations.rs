//! DICOM SEG: segmentations that highdicom wrote are read as masks, and masks of a series are written as one.
//!
//! `scripts/dicom-seg-files.py` made the files of `segmentation/` with pydicom and highdicom. That both read what is written here is tested
//! with the built command, in `tests/tests/masks_for_others.rs`.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindling_data::{DataError, Format, Mask, Opening, Pictures, Purpose, open_segmentation};
use kindling_scans::{Dicom, Maker, SegmentationFile, Series};
use serde_json::Value;
use tempfile::TempDir;

/// Columns and rows of each slice.
const SIZE: (usize, usize) = (7, 5);
const SLICES: [&str; 4] = ["slice1.dcm", "slice2.dcm", "slice3.dcm", "slice4.dcm"];
const MAKER: Maker<'_> = Maker { algorithm: "unet-test", version: "1", date: "20250102", time: "030405" };

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/segmentation").join(name)
}

/// The segment of each pixel of a slice, as it was drawn before highdicom wrote it.
fn drawn(slice: &str) -> Vec<u8> {
    expected("segments", slice).into_iter().map(|segment| segment as u8).collect()
}

/// The same as `segments`, as `numbers` of a label map of 16 bits, or of the `fractional` segmentation.
fn expected(of: &str, slice: &str) -> Vec<u16> {
    let all: Value = serde_json::from_str(&fs::read_to_string(golden("expected.json")).unwrap()).unwrap();
    all[of][slice].as_array().unwrap().iter().map(|segment| segment.as_u64().unwrap() as u16).collect()
}

fn opening() -> Opening {
    Opening { formats: vec![Arc::new(Dicom::default())], ..Opening::new(1) }
}

/// A folder of slices and the segmentation of highdicom, under a name that says nothing.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for sub in ["images/patient", "masks"] {
        fs::create_dir_all(dir.path().join(sub)).unwrap();
    }
    for slice in SLICES {
        fs::copy(golden(slice), dir.path().join("images/patient").join(slice)).unwrap();
    }
    fs::copy(golden("segmentation.dcm"), dir.path().join("masks/1-1.dcm")).unwrap();
    dir
}

/// Why a folder cannot be opened.
fn refusal(dir: &Path) -> String {
    let error = open_segmentation(dir, &opening()).err().unwrap().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

/// The numbers of the mask of a slice in a file, which are less than 256.
fn values(slice: &Path, segmentation: &Path) -> Vec<u8> {
    numbers(slice, segmentation).into_iter().map(|value| u8::try_from(value).unwrap()).collect()
}

/// The numbers of the mask of a slice in a file.
fn numbers(slice: &Path, segmentation: &Path) -> Vec<u16> {
    let dicom = Dicom::default();
    let pairs = dicom.list_with_masks(slice, segmentation, &dicom).unwrap();
    let [(_, mask)] = pairs.as_slice() else { panic!("{pairs:?}") };
    let found = dicom.read_mask_values(mask).unwrap();
    assert_eq!((found.width, found.height), SIZE);
    found.values
}

#[test]
fn a_segmentation_of_highdicom_is_the_masks_of_the_slices_that_it_names() {
    let dir = folder();
    let check = |path: &Path, classes: &str| {
        // One patient cannot be split.
        let opened = open_segmentation(path, &Opening { purpose: Purpose::ScoreAll, ..opening() }).unwrap();
        assert_eq!(opened.dataset.classes.join(" "), classes);
        let all = opened.dataset.joined();
        assert_eq!(all.len(), 4, "a slice of which nothing is segmented counts");
        for index in 0..4 {
            let name = all.name_of(index);
            let mask = all.read_mask(index).unwrap();
            let slice = Path::new(&name).file_name().unwrap().to_str().unwrap();
            assert_eq!((mask.width, mask.height, mask.classes), (SIZE.0, SIZE.1, drawn(slice)), "{name}");
            assert_eq!(all.group(index).as_deref(), Some("P 1"));
        }
    };
    check(dir.path(), "background Liver Tumour");
    let rows = SLICES.map(|slice| format!("images/patient/{slice},masks/1-1.dcm,train\n"));
    fs::write(dir.path().join("list.csv"), format!("path,mask,split\n{}", rows.concat())).unwrap();
    check(&dir.path().join("list.csv"), "background Liver Tumour");
    fs::write(dir.path().join("labels.json"), r#"{"background": 0, "organ": 1, "tumour": 2}"#).unwrap();
    check(dir.path(), "background organ tumour");
}

#[test]
fn label_maps_and_fractional_segmentations_are_read_as_the_masks_that_were_drawn() {
    for (file, of) in [("labelmap.dcm", "segments"), ("labelmap16.dcm", "numbers"), ("fractional.dcm", "fractional")] {
        for slice in SLICES {
            assert_eq!(numbers(&golden(slice), &golden(file)), expected(of, slice), "{file}, {slice}");
        }
    }
    let dir = folder();
    for file in ["labelmap.dcm", "labelmap16.dcm", "fractional.dcm"] {
        fs::copy(golden(file), dir.path().join("masks/1-1.dcm")).unwrap();
        let opened = open_segmentation(dir.path(), &Opening { purpose: Purpose::ScoreAll, ..opening() });
        let dataset = opened.unwrap().dataset;
        assert_eq!(dataset.classes.join(" "), "background Liver Tumour", "{file}");
        assert_eq!(dataset.joined().len(), 4, "{file}: a slice of which nothing is segmented counts");
    }
}

/// A file of the references, changed, and why its mask of the first slice cannot be read.
fn refusal_of(file: &str, change: impl Fn(&mut Vec<u8>)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dcm");
    let mut bytes = fs::read(golden(file)).unwrap();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    let dicom = Dicom::default();
    let pairs = dicom.list_with_masks(&golden(SLICES[0]), &path, &dicom);
    pairs.and_then(|pairs| dicom.read_mask_values(&pairs[0].1)).unwrap_err().to_string()
}

/// Puts another number of 16 bits at an element with an explicit type; the number is little-endian, as the file is.
fn set_number(bytes: &mut [u8], tag: [u8; 4], number: u16) {
    let start = [tag.as_slice(), b"US\x02\x00"].concat();
    let at = bytes.windows(start.len()).position(|part| part == start).unwrap() + start.len();
    bytes[at..at + 2].copy_from_slice(&number.to_le_bytes());
}

#[test]
fn pixels_that_their_segmentation_does_not_describe_are_one_sentence_each() {
    const MAXIMUM_FRACTIONAL_VALUE: [u8; 4] = [0x62, 0, 0x0E, 0];
    const PIXEL_PADDING_VALUE: [u8; 4] = [0x28, 0, 0x20, 1];
    let error = refusal_of("fractional.dcm", |bytes| set_number(bytes, MAXIMUM_FRACTIONAL_VALUE, 199));
    assert!(error.contains("a pixel is 200") && error.contains("between 0 and 199"), "{error}");
    let error = refusal_of("fractional.dcm", |bytes| set_number(bytes, MAXIMUM_FRACTIONAL_VALUE, 0));
    assert!(error.contains("fractional values is 0"), "{error}");
    // With another background the number 0 is a segment, and no mask can say so.
    let error = refusal_of("labelmap.dcm", |bytes| set_number(bytes, PIXEL_PADDING_VALUE, 7));
    assert!(error.contains("\"Background\" has the number 0"), "{error}");
    let error = refusal_of("labelmap.dcm", |bytes| {
        // The pixels of three frames come last, behind them a byte that makes their number even.
        let first = bytes.len() - (3 * 35 + 1);
        assert_eq!(bytes[first], 1);
        bytes[first] = 9;
    });
    assert!(error.contains("a pixel is 9, and no segment has this number"), "{error}");
}

#[test]
fn segmentations_that_do_not_fit_are_one_sentence_each() {
    let dir = folder();
    let masks = dir.path().join("masks");
    let golden = fs::read(golden("segmentation.dcm")).unwrap();
    let patched = |from: &str, to: &str| {
        let mut bytes = golden.clone();
        let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        fs::write(masks.join("1-1.dcm"), bytes).unwrap();
        refusal(dir.path())
    };
    let all_set = {
        // The pixels of four frames come last.
        let mut bytes = golden.clone();
        let pixels = bytes.len() - (4usize * 35).div_ceil(8);
        bytes[pixels..].fill(0xFF);
        bytes
    };
    fs::write(masks.join("1-1.dcm"), all_set).unwrap();
    assert!(refusal(dir.path()).contains("segments 1 and 2 overlap"), "{}", refusal(dir.path()));
    let error = patched("BINARY", "FRACTI");
    assert!(error.contains("FRACTI") && error.contains("1-1.dcm"), "{error}");
    fs::write(masks.join("1-1.dcm"), &golden[..golden.len() - 9]).unwrap();
    assert!(refusal(dir.path()).contains("1-1.dcm"));
    fs::write(masks.join("1-1.dcm"), &golden).unwrap();
    fs::write(masks.join("again.dcm"), &golden).unwrap();
    assert!(refusal(dir.path()).contains("two masks"), "{}", refusal(dir.path()));
    fs::remove_file(masks.join("again.dcm")).unwrap();
    fs::write(dir.path().join("labels.json"), r#"{"tumour": 1, "liver": 2}"#).unwrap();
    let error = refusal(dir.path());
    assert!(error.contains("segment 1 \"Liver\"") && error.contains("another number"), "{error}");
    fs::remove_file(dir.path().join("labels.json")).unwrap();
    for slice in SLICES {
        fs::remove_file(dir.path().join("images/patient").join(slice)).unwrap();
    }
    image::GrayImage::new(7, 5).save(dir.path().join("images/1-1.png")).unwrap();
    assert!(refusal(dir.path()).contains("1-1.dcm"), "a picture is of no series: {}", refusal(dir.path()));
    let error = Pictures.list_with_masks(&dir.path().join("images/1-1.png"), &masks.join("1-1.dcm"), &Dicom::default());
    assert!(error.unwrap_err().to_string().contains("UIDs"));
}

#[test]
fn a_slice_that_a_segmentation_does_not_name_has_no_mask() {
    let dir = folder();
    let path = dir.path().join("images/patient/slice4.dcm");
    let mut bytes = fs::read(&path).unwrap();
    let uid = "1.2.826.0.1.3680043.8.498.1.2.4";
    let places: Vec<usize> =
        (0..bytes.len() - uid.len()).filter(|&at| bytes[at..].starts_with(uid.as_bytes())).collect();
    places.into_iter().for_each(|at| bytes[at + uid.len() - 1] = b'9');
    fs::write(&path, bytes).unwrap();
    let error = refusal(dir.path());
    assert!(error.contains("slice4.dcm") && error.contains("mask"), "{error}");
}

/// The golden slices as one series, and masks that differ from each other.
fn written(classes: &[&str]) -> (Vec<u8>, Vec<Mask>) {
    let files: Vec<PathBuf> = SLICES.map(golden).to_vec();
    let (series, errors) = Series::of_files(&files);
    let ([series], []) = (series.as_slice(), errors.as_slice()) else { panic!("{series:?} {errors:?}") };
    let classes: Vec<String> = classes.iter().map(|class| (*class).to_owned()).collect();
    let mask = |slice: usize| {
        let class = |pixel: usize| if slice == 2 { 0 } else { ((pixel * 5 + pixel / 7 + slice) % classes.len()) as u8 };
        Mask { width: SIZE.0, height: SIZE.1, classes: (0..35).map(class).collect() }
    };
    let masks: Vec<Mask> = (0..4).map(mask).collect();
    let mut file = SegmentationFile::new(series, &classes);
    masks.iter().enumerate().for_each(|(slice, mask)| file.set(slice, mask).unwrap());
    (file.bytes(&MAKER).unwrap(), masks)
}

#[test]
fn masks_that_are_written_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.dcm");
    let (bytes, masks) = written(&["background", "one", "two", "three"]);
    fs::write(&path, &bytes).unwrap();
    for (slice, mask) in SLICES.iter().zip(&masks) {
        assert_eq!(values(&golden(slice), &path), mask.classes, "{slice}");
    }
    // The frames of each segment go up, although the slices were given from the top down; the third shows nothing.
    let begin = b"-10.0\\20.5\\";
    let heights: Vec<f64> = (0..bytes.len() - begin.len())
        .filter(|&at| bytes[at..].starts_with(begin))
        .map(|at| String::from_utf8_lossy(&bytes[at + begin.len()..][..4]).trim().parse().unwrap())
        .collect();
    assert_eq!(heights, [20.0, 25.0, 27.5].repeat(3));
    let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("P 1") && has("AUTOMATIC") && has("three") && has("1.2.826.0.1.3680043.8.498.1.3"));
    // The name of the patient is copied in the letters of its file.
    assert!(bytes.windows(7).any(|part| part == b"M\xFCller^") && has("ISO_IR 100"));
    assert_eq!(written(&["background", "one", "two", "three"]).0, bytes, "the same masks are the same object");
    let uid = |bytes: &[u8]| {
        let at = bytes.windows(5).position(|part| part == b"2.25.").unwrap();
        bytes[at..at + 40].to_vec()
    };
    assert_ne!(uid(&written(&["background", "one", "two", "four"]).0), uid(&bytes), "others are another one");
}

#[test]
fn masks_without_any_class_are_a_segmentation_of_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.dcm");
    let (series, _) = Series::of_files(&SLICES.map(golden));
    let classes = ["background", "liver"].map(str::to_owned);
    let file = SegmentationFile::new(&series[0], &classes);
    fs::write(&path, file.bytes(&MAKER).unwrap()).unwrap();
    for slice in SLICES {
        assert_eq!(values(&golden(slice), &path), [0; 35]);
    }
    let mut file = file;
    assert!(matches!(file.set(0, &Mask::filled(5, 7, 1)), Err(DataError::MaskSize { .. })));
    assert!(matches!(file.set(4, &Mask::filled(7, 5, 1)), Err(DataError::OutOfRange { index: 4, len: 4 })));
}

#[test]
fn what_a_segmentation_cannot_be_of_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken.dcm");
    fs::write(&broken, "no DICOM").unwrap();
    let (series, errors) = Series::of_files(&[golden("slice1.dcm"), broken, golden("segmentation.dcm")]);
    assert_eq!((series.len(), series[0].images.len(), series[0].files()), (1, 1, 1));
    let errors: Vec<String> = errors.iter().map(DataError::to_string).collect();
    assert!(errors[0].contains("broken.dcm") && errors[1].contains("a segmentation itself"), "{errors:?}");
}

#[test]
fn damaged_segmentations_are_errors_or_masks_but_never_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dcm");
    let whole = fs::read(golden("segmentation.dcm")).unwrap();
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let dicom = Dicom::default();
        let Ok(pairs) = dicom.list_with_masks(&golden("slice2.dcm"), &path, &dicom) else { return false };
        pairs.iter().all(|(_, mask)| dicom.read_mask_values(mask).is_ok())
    };
    assert!(read(&whole));
    let cut = (0..whole.len()).step_by(7).filter(|&end| read(&whole[..end])).count();
    assert!(cut < 5, "{cut} masks of a file that ends early");
    let mut refused = 0;
    for at in (132..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        refused += usize::from(!read(&bytes));
    }
    assert!(refused > 50, "{refused}");
}
