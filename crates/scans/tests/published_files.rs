//! Files that others published: what `scripts/fetch-test-files.sh` brings, against what pydicom and numpy read.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use data_encoding::HEXLOWER;
use kindling_data::{Format, Mask, Normalisation, Part, Pictures, Preprocess};
use kindling_scans::Dicom;
use kindling_tests::{Optional, Suite, Test};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// What pydicom reads; `scripts/dicom-sums.py` wrote it.
const SUMS: &str = include_str!("dicom-sums.json");
/// What is not decoded, with the reason.
const NOT_DECODED: &str = include_str!("not-decoded.txt");
/// How far apart two decoders of a lossy stream may be: each rounds its own way.
const LOSSY_TOLERANCE: i64 = 4;

/// The package that is only fetched when asked for.
const LARGE: &str = "pydicom-data/";

fn main() -> ExitCode {
    let folder = folder();
    let lacks = |package: &str, how: &str| (!folder.join(package).is_dir()).then(|| format!("published {how}"));
    let missing = lacks("pydicom", "DICOM files: run scripts/fetch-test-files.sh");
    let published = Optional { missing, required_by: "KINDLING_REQUIRE_DATA" };
    let missing = lacks(LARGE, "CTs and radiographs: run scripts/fetch-test-files.sh --large");
    let large = Optional { missing, required_by: "KINDLING_REQUIRE_LARGE_DATA" };
    let in_folder = |name: &str, test: fn(&Path)| {
        let folder = folder.clone();
        Test::new(name, move || test(&folder))
    };
    let mut suite = Suite::new();
    suite.add(
        &published,
        vec![
            in_folder("stored_values_equal_pydicoms_or_the_file_is_listed_as_not_decoded", values_equal),
            in_folder("a_dicomdir_lists_the_images_of_its_patients", a_dicomdir),
            in_folder("a_published_segmentation_has_the_pixels_that_pydicom_counts", segmentations),
            in_folder("every_published_file_ends_in_an_image_or_an_error_with_its_path", no_crash),
            in_folder("damaged_copies_of_published_files_never_crash", damaged_copies),
        ],
    );
    let missing = lacks("stardist", "nuclei: run scripts/fetch-test-files.sh");
    let with_nuclei = Optional { missing, required_by: "KINDLING_REQUIRE_DATA" };
    suite.add(&with_nuclei, vec![in_folder("a_mask_of_nuclei_has_their_numbers_and_a_smaller_one_no_others", nuclei)]);
    suite.add(&large, vec![in_folder("stored_values_of_large_files_equal_pydicoms", large_values_equal)]);
    suite.run()
}

/// As the fetch script.
fn folder() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache"))).unwrap_or_default();
    set("KINDLING_DATA").unwrap_or_else(|| cache().join("kindling")).join("test-files")
}

/// File names with the beginning of the reason.
fn listed() -> BTreeMap<&'static str, &'static str> {
    NOT_DECODED.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": ")).collect()
}

fn values_equal(folder: &Path) {
    let exact = compare(folder, |name| !name.starts_with(LARGE));
    assert!(exact >= 80, "only {exact} images were compared");
}

/// A liver in one of three CT slices, little- and big-endian. pydicom 3.0.2: `dcmread(path).pixel_array.sum()` is 36,233.
fn segmentations(folder: &Path) {
    let dicom = Dicom::default();
    for name in ["pydicom/liver_1frame.dcm", "pydicom/liver_expb_1frame.dcm"] {
        let path = folder.join(name);
        let links = dicom.mask_links(&path).unwrap().unwrap();
        assert_eq!((links.images.len(), links.names), (3, vec![(1, "Liver".to_owned())]), "{name}");
        let count = |mask: usize| {
            let part = Part { path: path.clone(), frame: Some(mask), channels: 1, group: None };
            let found = dicom.read_mask_values(&part).unwrap();
            assert_eq!((found.width, found.height), (512, 512));
            found.values.iter().filter(|value| **value == 1).count()
        };
        assert_eq!([0, 1, 2].map(count), [36_233, 0, 0], "{name}");
    }
}

/// A mask of 16 bits in which each of 125 nuclei has a number. numpy 2.4.6: 126 numbers up to 183, 52,226 of the pixels not 0.
fn nuclei(folder: &Path) {
    let part = |name: &str| Part { path: folder.join("stardist").join(name), frame: None, channels: 1, group: None };
    let [image, mask] = ["img2d.tif", "mask2d.tif"].map(part);
    let image = Pictures.read(&image).unwrap();
    let found = Pictures.read_mask_values(&mask).unwrap();
    assert_eq!((found.width, found.height), (512, 512));
    assert_eq!((image.width, image.height), (found.width, found.height), "the mask is of the image");
    let numbers: BTreeSet<u16> = found.values.iter().copied().collect();
    assert_eq!((numbers.len(), numbers.last()), (126, Some(&183)));
    assert_eq!(found.values.iter().filter(|number| **number > 0).count(), 52_226);

    let classes = found.values.iter().map(|number| u8::try_from(*number).unwrap()).collect();
    let mask = Mask { width: found.width, height: found.height, classes };
    let drawn = mask.present();
    for size in [300, 700] {
        let fitted = Preprocess::padded(size, 1, Normalisation::identity(1)).fit_mask(&mask).present();
        assert!(fitted.len() > 100 && fitted.iter().all(|number| drawn.contains(number)), "at {size} pixels");
    }
}

fn large_values_equal(folder: &Path) {
    assert!(compare(folder, |name| name.starts_with(LARGE)) > 0, "no image was compared");
}

/// Fails unless the files with a name that is wanted hold what pydicom reads; returns how many images are the same to the bit.
fn compare(folder: &Path, wanted: impl Fn(&str) -> bool) -> usize {
    let sums: Value = serde_json::from_str(SUMS).unwrap();
    let listed = listed();
    let (mut wrong, mut refused, mut exact, mut close) = (Vec::new(), BTreeSet::new(), 0, 0);
    for (name, entry) in sums["files"].as_object().unwrap().iter().filter(|(name, _)| wanted(name)) {
        let path = folder.join(name);
        let images = entry["images"].as_array().unwrap();
        match Dicom::frames(&path) {
            Ok(frames) if frames != images.len() => wrong.push(format!("{name}: {frames} images")),
            _ => {}
        }
        for (frame, image) in images.iter().enumerate() {
            let stored = match Dicom::stored(&path, frame) {
                Ok(stored) => stored,
                Err(error) => {
                    refused.insert(name.as_str());
                    let error = error.to_string();
                    match listed.get(name.as_str()) {
                        Some(reason) if error.contains(reason) && error.contains(path.to_str().unwrap()) => {}
                        reason => wrong.push(format!("{name}: {error} (listed: {reason:?})")),
                    }
                    break;
                }
            };
            let shape = [stored.rows, stored.columns, stored.samples];
            if entry["shape"] != serde_json::json!(shape) {
                wrong.push(format!("{name}: shape {shape:?}"));
                break;
            }
            let bytes: Vec<u8> = stored.values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let sum = HEXLOWER.encode(&Sha256::digest(&bytes));
            let total: i64 = stored.values.iter().sum();
            if image["sha256"] == sum.as_str() && image["sum"] == total {
                exact += 1;
                continue;
            }
            let wanted = image["probe"].as_array().map(Vec::as_slice).unwrap_or_default();
            let probe = (0..wanted.len()).map(|place| stored.values[place * stored.values.len() / wanted.len()]);
            let apart = probe.zip(wanted).map(|(a, b)| (a - b.as_i64().unwrap()).abs()).max().unwrap_or(i64::MAX);
            let mean = (total - image["sum"].as_i64().unwrap()) as f64 / stored.values.len() as f64;
            if entry["lossy"] == true && apart <= LOSSY_TOLERANCE && mean.abs() < 0.5 {
                close += 1;
                continue;
            }
            wrong.push(format!(
                "{name}#{frame}: up to {apart} apart, in the mean {mean:.3}, {}",
                entry["transfer_syntax"]
            ));
        }
    }
    let here = |name: &str| wanted(name) && sums["files"].get(name).is_some() && folder.join(name).exists();
    for name in listed.keys().filter(|name| here(name) && !refused.contains(*name)) {
        wrong.push(format!("{name} is listed as not decoded, but it is"));
    }
    println!(
        "{exact} images equal pydicom's, {close} lossy ones to {LOSSY_TOLERANCE}, {} files refused",
        refused.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    exact
}

fn a_dicomdir(folder: &Path) {
    let tests = folder.join("pydicom/dicomdirtests");
    // 31 images of two patients, says pydicom's own test of these files.
    for name in ["DICOMDIR", "DICOMDIR-bigEnd", "DICOMDIR-implicit", "DICOMDIR-nooffset", "DICOMDIR-reordered"] {
        let parts = Dicom::default().list(&tests.join(name)).unwrap();
        assert_eq!(parts.len(), 31, "{name}");
        let groups: BTreeSet<_> = parts.iter().filter_map(|part| part.group.as_deref()).collect();
        assert_eq!(groups, BTreeSet::from(["77654033", "98890234"]), "{name}");
        assert!(parts.iter().all(|part| part.path.is_file() && part.path.starts_with(&tests)));
    }
    let error = Dicom::default().list(&tests.join("DICOMDIR-empty.dcm")).unwrap_err().to_string();
    assert!(error.contains("DICOMDIR-empty.dcm") && error.contains("lists no images"), "{error}");
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn no_crash(folder: &Path) {
    let mut paths = Vec::new();
    files(&folder.join("pydicom"), &mut paths);
    assert!(paths.len() > 80);
    for path in paths {
        let dicom = Dicom::default();
        match dicom.list(&path).and_then(|parts| dicom.read(&parts[0])) {
            Ok(image) => assert!(image.pixels.iter().all(|value| (0.0..=1.0).contains(value)), "{path:?}"),
            // An error of a DICOMDIR may name a file that it lists.
            Err(error) => {
                let name = path.file_name().unwrap().to_str().unwrap();
                let named = if name.starts_with("DICOMDIR") { "dicomdirtests" } else { name };
                assert!(error.to_string().contains(named), "{path:?}: {error}");
            }
        }
    }
}

/// Every file of less than 10 kB, cut off at many places and with bytes overwritten.
fn damaged_copies(folder: &Path) {
    let mut paths = Vec::new();
    files(&folder.join("pydicom"), &mut paths);
    paths.sort();
    let (mut state, mut tried, mut images) = (0x9e37_79b9_7f4a_7c15u64, 0, 0);
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 10_000 || !bytes[128.min(bytes.len())..].starts_with(b"DICM") {
            continue;
        }
        for round in 0..60 {
            let mut copy = bytes.clone();
            if round % 3 == 0 {
                copy.truncate(132 + random() % (copy.len() - 132));
            } else {
                for _ in 0..1 + random() % 8 {
                    let place = 132 + random() % (copy.len() - 132);
                    copy[place] = [0, 0xFF, random() as u8][random() % 3];
                }
            }
            tried += 1;
            images += usize::from(Dicom::default().parse(&copy, 0).is_ok());
        }
    }
    println!("{tried} damaged copies: {images} images, the others errors");
    assert!(tried > 1000 && images > 0 && images < tried);
}
