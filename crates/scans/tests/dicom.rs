//! DICOM files made in the test: how values become images, and what hostile files end in.

#![allow(clippy::unwrap_used)]

use std::io::Write;

use flate2::{Compression, write::DeflateEncoder};
use kindling_data::{DataError, Format, Opening, Split, SplitBy, open_path};
use kindling_scans::{Dicom, Window};

const EXPLICIT: &str = "1.2.840.10008.1.2.1";
const DEFLATED: &str = "1.2.840.10008.1.2.1.99";
const RLE: &str = "1.2.840.10008.1.2.5";

fn element(group: u16, number: u16, kind: &[u8; 2], value: &[u8]) -> Vec<u8> {
    let mut bytes = [group.to_le_bytes(), number.to_le_bytes()].concat();
    bytes.extend(kind);
    let padded = value.len().next_multiple_of(2);
    match kind {
        b"OB" | b"OW" | b"SQ" | b"UN" => {
            bytes.extend([0, 0]);
            bytes.extend((padded as u32).to_le_bytes());
        }
        _ => bytes.extend((padded as u16).to_le_bytes()),
    }
    bytes.extend(value);
    bytes.resize(bytes.len() + padded - value.len(), if kind == b"OB" { 0 } else { b' ' });
    bytes
}

fn number(group: u16, place: u16, value: u16) -> Vec<u8> {
    element(group, place, b"US", &value.to_le_bytes())
}

fn file(transfer_syntax: &str, data_set: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 128];
    bytes.extend(b"DICM");
    let mut syntax = transfer_syntax.as_bytes().to_vec();
    syntax.resize(syntax.len().next_multiple_of(2), 0);
    bytes.extend(element(2, 0x10, b"UI", &syntax));
    bytes.extend(data_set);
    bytes
}

/// What a file of `rows` x `columns` grey pixels of 16 bits says before anything else.
struct Scan {
    photometric: &'static str,
    rows: u16,
    columns: u16,
    stored: u16,
    signed: bool,
    frames: usize,
    more: Vec<Vec<u8>>,
    patient: &'static str,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            photometric: "MONOCHROME2",
            rows: 1,
            columns: 4,
            stored: 12,
            signed: false,
            frames: 1,
            more: vec![],
            patient: "",
        }
    }
}

impl Scan {
    fn data_set(&self, pixels: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !self.patient.is_empty() {
            bytes.extend(element(0x10, 0x20, b"LO", self.patient.as_bytes()));
        }
        bytes.extend(number(0x28, 2, 1));
        bytes.extend(element(0x28, 4, b"CS", self.photometric.as_bytes()));
        bytes.extend(element(0x28, 8, b"IS", self.frames.to_string().as_bytes()));
        for (place, value) in [(0x10, self.rows), (0x11, self.columns), (0x100, 16), (0x101, self.stored)] {
            bytes.extend(number(0x28, place, value));
        }
        bytes.extend(number(0x28, 0x102, self.stored - 1));
        bytes.extend(number(0x28, 0x103, self.signed.into()));
        self.more.iter().for_each(|element| bytes.extend(element));
        bytes.extend(element(0x7FE0, 0x10, b"OW", pixels));
        bytes
    }

    fn file(&self, values: &[i16]) -> Vec<u8> {
        let pixels: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        file(EXPLICIT, &self.data_set(&pixels))
    }
}

fn decimal(place: u16, text: &str) -> Vec<u8> {
    element(0x28, place, b"DS", text.as_bytes())
}

fn close(image: &kindling_data::Image, wanted: &[f32]) {
    assert_eq!(image.pixels.len(), wanted.len());
    for (have, want) in image.pixels.iter().zip(wanted) {
        assert!((have - want).abs() < 1e-6, "{:?} instead of {wanted:?}", image.pixels);
    }
}

#[test]
fn without_a_window_the_stored_bits_are_the_range_and_no_step_is_lost() {
    let read = |scan: &Scan, values: &[i16]| Dicom::default().parse(&scan.file(values), 0).unwrap();
    close(&read(&Scan::default(), &[0, 1, 2048, 4095]), &[0.0, 1.0 / 4095.0, 2048.0 / 4095.0, 1.0]);
    let signed = Scan { signed: true, ..Scan::default() };
    close(&read(&signed, &[-2048, -1, 0, 2047]), &[0.0, 2047.0 / 4095.0, 2048.0 / 4095.0, 1.0]);
    // What stands above the stored bits (overlays) is no part of the value.
    close(&read(&Scan::default(), &[0x1000, 0x7001, 0x2800, -1]), &[0.0, 1.0 / 4095.0, 2048.0 / 4095.0, 1.0]);
    let deep = Scan { stored: 16, rows: 64, columns: 1024, ..Scan::default() };
    let image = read(&deep, &(0..=u16::MAX).map(|value| value as i16).collect::<Vec<_>>());
    assert!(image.pixels.windows(2).all(|pair| pair[0] < pair[1]), "16 bits stay 16 bits");
}

#[test]
fn values_are_rescaled_then_windowed_as_the_standard_says() {
    // PS3.3, C.11.2.1.2: c = 40, w = 400 is black up to -159.5 - 0.5 and white from 239.5 - 0.5 on.
    let scan = |more: Vec<Vec<u8>>| Scan { signed: true, stored: 16, more, ..Scan::default() };
    let rescale = || vec![decimal(0x1052, "-1024"), decimal(0x1053, "2")];
    let window = |function: &str| {
        let mut more = vec![decimal(0x1050, "40\\500"), decimal(0x1051, "400\\2000")];
        more.extend(rescale());
        if !function.is_empty() {
            more.push(element(0x28, 0x1056, b"CS", function.as_bytes()));
        }
        more
    };
    // Hounsfield units -160, 40, 239 would be these stored values.
    let values = [432, 532, 631, 700];
    let units = values.map(|value| f64::from(value) * 2.0 - 1024.0);
    let read = |dicom: &Dicom, more| dicom.parse(&scan(more).file(&values), 0).unwrap();
    let linear = units.map(|x| (((x - 39.5) / 399.0 + 0.5).clamp(0.0, 1.0)) as f32);
    close(&read(&Dicom::default(), window("")), &linear);
    assert_eq!((linear[0], linear[3]), (0.0, 1.0));
    let exact = units.map(|x| (((x - 40.0) / 400.0 + 0.5).clamp(0.0, 1.0)) as f32);
    close(&read(&Dicom::default(), window("LINEAR_EXACT")), &exact);
    let sigmoid = units.map(|x| (1.0 / (1.0 + (-4.0 * (x - 40.0) / 400.0).exp())) as f32);
    close(&read(&Dicom::default(), window("SIGMOID")), &sigmoid);
    // The user's window goes before the file's.
    let lung = Dicom::with_window(Some(Window { centre: -600.0, width: 1500.0 }));
    let lung_values = units.map(|x| (((x + 600.0) / 1500.0 + 0.5).clamp(0.0, 1.0)) as f32);
    close(&read(&lung, window("")), &lung_values);
    close(&read(&lung, rescale()), &lung_values);
}

#[test]
fn monochrome1_is_inverted() {
    let scan = Scan { photometric: "MONOCHROME1", ..Scan::default() };
    close(
        &Dicom::default().parse(&scan.file(&[0, 1, 2048, 4095]), 0).unwrap(),
        &[1.0, 4094.0 / 4095.0, 2047.0 / 4095.0, 0.0],
    );
}

#[test]
fn images_of_one_file_are_samples_of_one_group() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.2.840.1");
    let scan = Scan { frames: 3, ..Scan::default() };
    std::fs::write(&path, scan.file(&(0..12).map(|value| value * 100).collect::<Vec<_>>())).unwrap();
    assert!(Dicom::default().claims(&path), "a name that is a UID has no extension");
    let parts = Dicom::default().list(&path).unwrap();
    assert_eq!(parts.iter().map(|part| part.frame).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
    assert!(parts.iter().all(|part| part.group.is_some() && part.group == parts[0].group));
    assert!(parts[2].name().ends_with("#2"));
    close(&Dicom::default().read(&parts[2]).unwrap(), &[800.0, 900.0, 1000.0, 1100.0].map(|value| value / 4095.0));
}

#[test]
fn a_folder_of_dicom_files_is_split_by_patient() {
    let dir = tempfile::tempdir().unwrap();
    let patients = ["ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal", "ida", "jon", "kim", "leo"];
    for (at, patient) in patients.into_iter().enumerate() {
        let folder = dir.path().join(["ill", "well"][at % 2]);
        std::fs::create_dir_all(&folder).unwrap();
        for scan in 0..3 {
            let bytes = Scan { patient, ..Scan::default() }.file(&[at as i16, scan, 7, 9]);
            std::fs::write(folder.join(format!("IM{at:02}{scan}")), bytes).unwrap();
        }
        std::fs::write(folder.join("notes"), "not a scan").unwrap();
    }
    let opening = Opening { formats: vec![std::sync::Arc::new(Dicom::default())], ..Opening::new(5) };
    let opened = open_path(dir.path(), &opening).unwrap();
    assert_eq!(opened.split_by, Some(SplitBy::Group), "patients are known, so they are not parted");
    let mut side = std::collections::BTreeMap::new();
    for split in Split::ALL {
        let source = opened.dataset.source(split);
        assert!(!source.is_empty());
        for index in 0..source.len() {
            let patient = source.group(index).unwrap();
            assert_eq!(*side.entry(patient.clone()).or_insert(split), split, "{patient} is on two sides");
            assert_eq!(source.read(index).unwrap().width, 4);
        }
    }
    assert_eq!(side.len(), 12);
}

#[test]
fn deflated_and_run_length_files_are_unpacked_and_bombs_are_not() {
    let scan = Scan::default();
    let pixels: Vec<u8> = [5i16, 5, 5, 300].iter().flat_map(|value| value.to_le_bytes()).collect();
    let deflate = |bytes: &[u8]| {
        let mut packer = DeflateEncoder::new(Vec::new(), Compression::best());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    };
    let wanted = [5.0, 5.0, 5.0, 300.0].map(|value| value / 4095.0);
    close(&Dicom::default().parse(&file(DEFLATED, &deflate(&scan.data_set(&pixels))), 0).unwrap(), &wanted);
    // High bytes 0 0 0 1, low bytes 5 5 5 44: as runs and literals.
    let mut rle = vec![0; 64];
    let streams: [&[u8]; 2] = [&[0xFE, 0, 0, 1], &[0x80, 0xFE, 5, 0, 44, 0]];
    for (at, value) in [2u32, 64, 68].into_iter().enumerate() {
        rle[at * 4..at * 4 + 4].copy_from_slice(&value.to_le_bytes());
    }
    rle.extend(streams.concat());
    let mut data_set = scan.data_set(&[]);
    data_set.truncate(data_set.len() - 12);
    data_set.extend([0xE0, 0x7F, 0x10, 0, b'O', b'B', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    for item in [&[][..], &rle] {
        data_set.extend([0xFE, 0xFF, 0, 0xE0]);
        data_set.extend((item.len() as u32).to_le_bytes());
        data_set.extend(item);
    }
    data_set.extend([0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0]);
    close(&Dicom::default().parse(&file(RLE, &data_set), 0).unwrap(), &wanted);

    let mut packer = DeflateEncoder::new(Vec::new(), Compression::best());
    (0..600).for_each(|_| packer.write_all(&[0; 1 << 20]).unwrap());
    let bomb = packer.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    let error = Dicom::default().parse(&file(DEFLATED, &bomb), 0).unwrap_err();
    assert!(error.contains("longer than 4 MiB"), "{error}");

    // A header that is in order, and then more than it announces.
    let mut packer = DeflateEncoder::new(Vec::new(), Compression::best());
    packer.write_all(&scan.data_set(&pixels)).unwrap();
    (0..600).for_each(|_| packer.write_all(&[0; 1 << 20]).unwrap());
    let error = Dicom::default().parse(&file(DEFLATED, &packer.finish().unwrap()), 0).unwrap_err();
    assert!(error.contains("announces"), "{error}");
}

#[test]
fn hostile_files_are_errors_with_their_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a\nb.dcm");
    let huge = Scan { rows: 60_000, columns: 60_000, ..Scan::default() };
    // A value, an item and a sequence that say that they have four gigabytes.
    let long = |kind: &[u8; 2]| {
        let mut bytes = vec![0x08, 0, 0x08, 0];
        bytes.extend(kind);
        bytes.extend([0, 0, 0xFE, 0xFF, 0xFF, 0xFF]);
        bytes
    };
    let mut deep = Vec::new();
    for _ in 0..100_000 {
        deep.extend([0x40, 0, 0x75, 0xA0, b'S', b'Q', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
        deep.extend([0xFE, 0xFF, 0, 0xE0, 0xFF, 0xFF, 0xFF, 0xFF]);
    }
    let good = Scan::default().file(&[1, 2, 3, 4]);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (huge.file(&[0; 4]), "too large"),
        (file(EXPLICIT, &long(b"OB")), "4294967294 bytes"),
        (file(EXPLICIT, &long(b"UT")), "4294967294 bytes"),
        (file(EXPLICIT, &deep), "nested more than 64 deep"),
        (Scan { frames: 4_000_000_000, ..Scan::default() }.file(&[0; 4]), "4000000000 images"),
        (Scan { rows: 9, ..Scan::default() }.file(&[0; 4]), "cut off"),
        (Scan { stored: 17, ..Scan::default() }.file(&[0; 4]), "17 of 16 bits"),
        (Scan { rows: 0, ..Scan::default() }.file(&[0; 4]), "no pixels"),
        (file("1.2.3", &Scan::default().data_set(&[0; 8])), "\"1.2.3\" are not supported"),
        (vec![0; 500], "not a DICOM file"),
        (vec![], "not a DICOM file"),
    ];
    for (bytes, says) in cases {
        std::fs::write(&path, bytes).unwrap();
        let dicom = Dicom::default();
        let error = dicom.list(&path).and_then(|parts| dicom.read(&parts[0])).unwrap_err();
        assert!(matches!(error, DataError::Unreadable { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains(says) && error.contains("a\\nb.dcm") && !error.contains('\n'), "{says}: {error}");
    }
    for end in 0..good.len() {
        assert!(Dicom::default().parse(&good[..end], 0).is_err(), "{end} of {} bytes", good.len());
    }
}
