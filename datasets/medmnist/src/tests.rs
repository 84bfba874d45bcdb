//! The published files are not here: files of their layout, made by hand.

use std::io::Write;

use flate2::{Compression, write::DeflateEncoder};
use kindling_data::Split;

use super::*;

/// An array as NumPy writes it.
fn npy(kind: &str, shape: &[usize], values: &[u8]) -> Vec<u8> {
    let sides: Vec<String> = shape.iter().map(|side| format!("{side},")).collect();
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}), }}", sides.join(" "));
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values);
    bytes
}

/// A zip file (APPNOTE.TXT 4.3), packed or not. The sums of the entries are left 0: nobody reads them here.
fn zip(entries: &[(String, Vec<u8>)], packed: bool) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let mut data = content.clone();
        if packed {
            let mut packer = DeflateEncoder::new(Vec::new(), Compression::fast());
            packer.write_all(content).unwrap();
            data = packer.finish().unwrap();
        }
        let mut common = vec![20, 0, 0, 0, if packed { 8 } else { 0 }, 0, 0, 0, 0x21, 0];
        common.extend([0; 4]);
        common.extend((data.len() as u32).to_le_bytes());
        common.extend((content.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        let offset = bytes.len() as u32;
        bytes.extend([b'P', b'K', 3, 4]);
        bytes.extend(&common);
        bytes.extend(name.as_bytes());
        bytes.extend(&data);
        directory.extend([b'P', b'K', 1, 2, 20, 0]);
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let start = bytes.len() as u32;
    bytes.extend(&directory);
    bytes.extend([b'P', b'K', 5, 6, 0, 0, 0, 0]);
    for _ in 0..2 {
        bytes.extend((entries.len() as u16).to_le_bytes());
    }
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

fn set(name: &str) -> &'static Published {
    find(name).unwrap().0
}

/// `count`, `2 count` and `3 count` images whose pixels are all their number; labels from `label`.
fn write(path: &Path, set: &Published, size: usize, count: usize, packed: bool, label: impl Fn(usize) -> Vec<u8>) {
    let mut entries = Vec::new();
    for (times, part) in (1..).zip(["train", "val", "test"]) {
        let count = count * times;
        let area = size * size * set.channels;
        let pixels: Vec<u8> = (0..count).flat_map(|i| vec![i as u8; area]).collect();
        let mut shape = vec![count, size, size];
        if set.channels == 3 {
            shape.push(3);
        }
        let labels: Vec<u8> = (0..count).flat_map(&label).collect();
        entries.push((format!("{part}_images.npy"), npy("|u1", &shape, &pixels)));
        entries.push((format!("{part}_labels.npy"), npy("|u1", &[count, label(0).len()], &labels)));
    }
    std::fs::write(path, zip(&entries, packed)).unwrap();
}

#[test]
fn files_of_the_published_layout_are_read_packed_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npz");
    for (name, size) in [("pathmnist", 28), ("pneumoniamnist", 64), ("retinamnist", 128), ("organamnist", 224)] {
        for packed in [false, true] {
            let set = set(name);
            let classes = set.classes.len();
            write(&path, set, size, 3, packed, |index| vec![(index % classes) as u8]);
            let dataset = open(&path, set, size, false).unwrap();
            assert_eq!(
                (dataset.channels, dataset.task, dataset.classes.len()),
                (set.channels, Task::MultiClass, classes)
            );
            assert_eq!(Split::ALL.map(|split| dataset.source(split).len()), [3, 6, 9]);
            let image = dataset.test.read(8).unwrap();
            assert_eq!((image.width, image.height, image.channels), (size, size, set.channels));
            assert!(image.pixels.iter().all(|value| *value == 8.0 / 255.0));
            assert_eq!(dataset.test.label(8), 8 % classes);
            assert_eq!(dataset.test.name_of(8), format!("{name}_{size}/test#8"));
        }
    }
}

#[test]
fn a_chest_has_several_findings_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npz");
    let chest = set("chestmnist");
    write(&path, chest, 28, 4, true, |index| {
        (0..14).map(|class| u8::from(index > 0 && class % 4 == index % 4)).collect()
    });
    let dataset = open(&path, chest, 28, false).unwrap();
    assert_eq!(dataset.task, Task::MultiLabel);
    assert_eq!((dataset.train.labels(0), dataset.train.labels(1)), (vec![], vec![1, 5, 9, 13]));
    assert_eq!(dataset.class_counts(Split::Train)[1], 1);
}

#[test]
fn only_the_published_file_is_believed_and_its_sum_is_computed_once() {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("medmnist");
    let error = dataset("breastmnist_224", cache.path()).unwrap_err().to_string();
    assert!(error.contains("breastmnist_224.npz") && error.contains("medmnist"), "{error}");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("breastmnist.npz");
    write(&path, set("breastmnist"), 28, 2, true, |index| vec![(index % 2) as u8]);
    let error = dataset("breastmnist", cache.path()).unwrap_err();
    assert!(matches!(error, MedMnistError::Damaged { .. }), "{error}");
    // RFC 1321, A.5: MD5 ("message digest") = f96b697d7cb7938d525a2f31aaf161d0.
    std::fs::write(&path, "message digest").unwrap();
    check_sum(&path, "f96b697d7cb7938d525a2f31aaf161d0").unwrap();
    assert!(path.with_extension("npz.md5").exists());
    std::fs::write(&path, "message digesT").unwrap();
    assert!(check_sum(&path, "f96b697d7cb7938d525a2f31aaf161d0").is_err(), "a changed file is read again");
    assert!(matches!(dataset("heartmnist", cache.path()), Err(MedMnistError::Unknown { .. })));
}

#[test]
fn names_have_the_published_sizes() {
    assert_eq!(names().count(), 12);
    for name in ["pathmnist", "pathmnist_28", "organsmnist_64", "bloodmnist_224"] {
        assert!(knows(name), "{name}");
    }
    for name in ["path", "pathmnist_", "pathmnist_27", "pathmnist_x", "", "organmnist3d"] {
        assert!(!knows(name), "{name}");
    }
    for set in &PUBLISHED {
        for sum in set.md5 {
            assert!(sum.len() == 32 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{}: {sum}", set.name);
        }
    }
}

#[test]
fn another_layout_and_damage_are_errors_with_the_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a\nb.npz");
    let breast = set("breastmnist");
    let refusal = |size| open(&path, breast, size, false).unwrap_err().to_string();
    write(&path, breast, 28, 2, true, |_| vec![7]);
    let error = refusal(28);
    assert!(error.contains("the label 7") && error.contains("a\\nb.npz") && !error.contains('\n'), "{error}");
    assert!(refusal(64).contains("instead of"));
    write(&path, breast, 28, 2, false, |_| vec![0, 1]);
    assert!(refusal(28).contains("at most 2"));
    write(&path, breast, 28, 2, true, |_| vec![1]);
    assert!(open(&path, breast, 28, true).unwrap_err().to_string().contains("546 were published"));
    let whole = std::fs::read(&path).unwrap();
    for end in (0..whole.len()).step_by(37) {
        std::fs::write(&path, &whole[..end]).unwrap();
        assert!(refusal(28).contains("a\\nb.npz"));
    }
    // Every byte of the directory and of the headers, changed: an error or a data set, never a crash.
    for at in (0..whole.len()).step_by(11) {
        for value in [0, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            std::fs::write(&path, bytes).unwrap();
            if let Ok(dataset) = open(&path, breast, 28, false) {
                let _ = dataset.test.read(0);
            }
        }
    }
}
