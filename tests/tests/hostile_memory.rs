//! Input that is made to fill memory or to hang is refused with one sentence, within bounds.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kindling_tests::{CLASSES, kindling, picture_folder, train, watched};
use tempfile::tempdir;

const MOST_SECONDS: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// Runs a command that must refuse; returns its sentence and the most memory it took.
fn refused(command: &mut Command) -> (String, u64) {
    let (outcome, peak) = watched(command, MOST_SECONDS);
    (outcome.refused(), peak)
}

fn link(target: &str, path: &Path) {
    std::os::unix::fs::symlink(target, path).unwrap();
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A run that is tried with data or a configuration that never ends.
#[test]
fn devices_and_pipes_are_no_files_wherever_a_file_is_asked_for() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    picture_folder(&at("data"), 4);
    link("/dev/zero", &at("zero.csv"));
    link("/dev/zero", &at("zero.tar"));
    link("/dev/zero", &at("zero.safetensors"));
    pipe(&at("pipe.csv"));
    pipe(&at("pipe.toml"));
    let on = |data: &str| train(&at(data), &at("run"), "--max-steps 1");
    let with = |flag: &str, value: &Path| {
        let mut command = on("data");
        command.arg(flag).arg(value);
        command
    };
    let cases = [
        with("--config", Path::new("/dev/zero")),
        with("--config", &at("pipe.toml")),
        with("--plan", Path::new("/dev/zero")),
        with("--weights", &at("zero.safetensors")),
        on("zero.csv"),
        on("zero.tar"),
        on("pipe.csv"),
    ];
    for mut command in cases {
        let (sentence, peak) = refused(&mut command);
        assert!(peak < 200 * MIB, "{command:?} took {peak} bytes: {sentence}");
        assert!(sentence.contains("not a file") || sentence.contains("device or a pipe"), "{command:?}: {sentence}");
    }
    let mut eval = kindling();
    fs::create_dir(at("fake")).unwrap();
    link("/dev/zero", &at("fake/config.toml"));
    let (sentence, peak) = refused(eval.arg("eval").arg(at("fake")));
    assert!(peak < 200 * MIB && sentence.contains("fake"), "{peak}: {sentence}");
}

#[test]
fn a_field_without_an_end_is_refused_at_its_line() {
    let folder = tempdir().unwrap();
    let manifest = folder.path().join("data.csv");
    let mut file = fs::File::create(&manifest).unwrap();
    file.write_all(b"path,label\na.png,one\n\"").unwrap();
    let piece = vec![b'x'; 1 << 20];
    (0..100).for_each(|_| file.write_all(&piece).unwrap());
    drop(file);
    let (sentence, peak) = refused(&mut train(&manifest, &folder.path().join("run"), "--max-steps 1"));
    assert!(sentence.contains("longer than") && sentence.contains("line 3"), "{sentence}");
    assert!(peak < 300 * MIB, "it took {peak} bytes");
}

/// In a PNG's header: rows that lie one after another, or in seven passes.
const IN_ORDER: u8 = 0;
const INTERLACED: u8 = 1;

/// A PNG of chunks: its size, then chunks of a kind, then an empty image.
fn png(path: &Path, side: u32, interlaced: u8, extra: &[(&[u8; 4], Vec<u8>)], pixels: &[u8]) {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        bytes.extend((data.len() as u32).to_be_bytes());
        let from = bytes.len();
        bytes.extend(kind);
        bytes.extend(data);
        let sum = crc(&bytes[from..]);
        bytes.extend(sum.to_be_bytes());
    };
    let sides = [side.to_be_bytes(), side.to_be_bytes()].concat();
    chunk(b"IHDR", &[&sides[..], &[16, 2, 0, 0, interlaced]].concat());
    for (kind, data) in extra {
        chunk(kind, data);
    }
    chunk(b"IDAT", pixels);
    chunk(b"IEND", &[]);
    fs::write(path, bytes).unwrap();
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { 0xEDB8_8320 ^ (sum >> 1) } else { sum >> 1 })
    })
}

/// Zeros, packed as zlib does it by hand: a byte, and then copies of the one before, 258 at a time, a thousandth of what they
/// unpack to.
fn packed_zeros(count: usize) -> Vec<u8> {
    // Fixed codes: literal 0 is 00110000, length 258 is 11000101, distance 1 is 00000; the end is 0000000.
    let mut bits: Vec<bool> = vec![true, true, false];
    let mut push = |code: &str| bits.extend(code.bytes().map(|bit| bit == b'1'));
    push("00110000");
    let copies = (count - 1) / 258;
    (0..copies).for_each(|_| push("1100010100000"));
    (0..(count - 1) % 258).for_each(|_| push("00110000"));
    push("0000000");
    let mut bytes = vec![0x78, 0x01];
    bytes.extend(
        bits.chunks(8)
            .map(|eight| eight.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)) << (8 - eight.len())),
    );
    // Of zeros the first sum of Adler-32 stays 1, and the second is their number.
    bytes.extend(((count as u32 % 65_521) << 16 | 1).to_be_bytes());
    bytes
}

/// The class folders of a data set with one hostile picture beside good ones.
fn with_picture(folder: &Path, make: impl Fn(&Path)) {
    picture_folder(folder, 4);
    make(&folder.join(CLASSES[0]).join("hostile.png"));
}

#[test]
fn text_chunks_of_a_picture_do_not_fill_memory() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    // The size a chunk is allowed to have in a file of 120 MB, twice.
    let text = [b"Comment\0\0".to_vec(), vec![b'x'; 60 << 20]].concat();
    with_picture(&data, |path| {
        png(path, 8, IN_ORDER, &[(b"zTXt", text.clone()), (b"zTXt", text.clone())], &packed_zeros(8 * 49))
    });
    let flags = "--max-steps 2 --batch-size 4 --on-bad-sample fail --workers 1";
    let (sentence, peak) = refused(&mut train(&data, &folder.path().join("run"), flags));
    assert!(sentence.contains("hostile.png") && sentence.contains("too much memory"), "{sentence}");
    assert!(peak < 500 * MIB, "it took {peak} bytes: {sentence}");
}

/// Pictures of 8192 x 8192 pixels of 16 bits in 400 kB, among others, under a budget that has no room for their 384 MB.
fn of_large_pictures(folder: &Path, interlaced: u8) -> Command {
    let data = folder.join("data");
    picture_folder(&data, 2);
    let pixels = packed_zeros(8192 * (8192 * 6 + 1));
    for class in CLASSES {
        for index in 0..4 {
            png(&data.join(class).join(format!("bomb{index}.png")), 8192, interlaced, &[], &pixels);
        }
    }
    let flags = "--max-steps 2 --batch-size 4 --workers 4 --model mobilenet_v3_small --memory-budget 300MiB --on-bad-sample skip";
    train(&data, &folder.join("run"), flags)
}

/// Interlaced ones have to be decoded as a whole, 1.2 GB with floats.
#[test]
fn pictures_that_unpack_to_more_than_the_budget_are_not_unpacked() {
    let folder = tempdir().unwrap();
    let (outcome, peak) = watched(&mut of_large_pictures(folder.path(), INTERLACED), MOST_SECONDS);
    assert!(outcome.stderr.contains("what would fit into 300"), "{}", outcome.all());
    let sentence = outcome.refused();
    assert!(sentence.contains("cannot be decoded") && sentence.contains("memory budget of"), "{sentence}");
    assert!(peak < 315 * MIB, "it took {peak} bytes: {sentence}");
}

/// What is read row by row needs no room for the whole of it.
#[test]
fn pictures_larger_than_the_budget_are_read_row_by_row() {
    let folder = tempdir().unwrap();
    let (outcome, peak) = watched(&mut of_large_pictures(folder.path(), IN_ORDER), MOST_SECONDS);
    let bad = fs::read_to_string(folder.path().join("run/bad-samples.jsonl"));
    assert!(bad.is_err(), "{bad:?}{}", outcome.all());
    outcome.succeeded();
    assert!(peak < 315 * MIB, "it took {peak} bytes");
}

/// A zip archive of stored entries, as `numpy.savez` writes it.
fn npz(path: &Path, entries: &[(&str, Vec<u8>)]) {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let (offset, length) = (bytes.len() as u32, (data.len() as u32).to_le_bytes());
        let sum = crc(data).to_le_bytes();
        let name_length = (name.len() as u16).to_le_bytes();
        let common = [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &sum, &length, &length, &name_length, &[0, 0]].concat();
        bytes.extend([b"PK\x03\x04", &common[..], name.as_bytes(), data].concat());
        let tail = [&[0; 10][..], &offset.to_le_bytes(), name.as_bytes()].concat();
        directory.extend([b"PK\x01\x02\x14\x00", &common[..], &tail].concat());
    }
    let (count, start) = ((entries.len() as u16).to_le_bytes(), (bytes.len() as u32).to_le_bytes());
    let size = (directory.len() as u32).to_le_bytes();
    bytes.extend(directory);
    bytes.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &size, &start, &[0, 0]].concat());
    fs::write(path, bytes).unwrap();
}

fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{header}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// The published MD5 of the smallest PneumoniaMNIST.
const PNEUMONIA: &str = "28209eda62fecd6e6a2d98b1501bb15f";

/// Data sets in archives of arrays are those of MedMNIST, by the names of their files.
#[test]
fn archives_of_arrays_that_lie_are_refused_in_a_sentence() {
    let folder = tempdir().unwrap();
    let array = |shape: &str| npy(&format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"), &[7; 64]);
    let hostile: Vec<(&str, Vec<u8>)> = vec![
        ("larger than the file", array("(1000000, 28, 28)")),
        ("overflowing", array("(18446744073709551615, 28, 28)")),
        ("overflowing product", array("(4294967296, 4294967296, 4)")),
        ("without axes", array("()")),
        ("of another type", npy("{'descr': '|O', 'fortran_order': False, 'shape': (1, 8, 8), }", &[7; 64])),
        ("columns first", npy("{'descr': '|u1', 'fortran_order': True, 'shape': (1, 8, 8), }", &[7; 64])),
        ("no header", b"\x93NUMPY\x01\x00\xff\xff".to_vec()),
        ("nothing", Vec::new()),
        ("nested", npy(&"(".repeat(60_000), &[])),
    ];
    for (what, images) in hostile {
        let path = folder.path().join("medmnist/pneumoniamnist.npz");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let labels = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1), }", &[0]);
        let mut entries = Vec::new();
        for split in ["train", "val", "test"] {
            entries.push((format!("{split}_images.npy"), images.clone()));
            entries.push((format!("{split}_labels.npy"), labels.clone()));
        }
        let entries: Vec<(&str, Vec<u8>)> = entries.iter().map(|(name, data)| (name.as_str(), data.clone())).collect();
        npz(&path, &entries);
        // As if the sum of the file had been computed before: otherwise it is refused for its sum.
        let meta = fs::metadata(&path).unwrap();
        let modified = meta.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        fs::write(path.with_extension("npz.md5"), format!("{PNEUMONIA} {} {modified}\n", meta.len())).unwrap();
        let mut command = kindling();
        command.args(["train", "--data", "pneumoniamnist", "--device", "cpu", "--max-steps", "1", "--out"]);
        command.arg(folder.path().join("run")).env("KINDLING_DATA", folder.path());
        let (sentence, peak) = refused(&mut command);
        assert!(peak < 200 * MIB, "{what} took {peak} bytes: {sentence}");
        assert!(sentence.contains("npz"), "{what}: {sentence}");
    }
}
