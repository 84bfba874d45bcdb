//! IDX files: whole, packed, damaged and hostile.

#![allow(clippy::unwrap_used)]

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use kindling_data::{DataError, parse_idx, read_idx};

fn file(kind: u8, sizes: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, kind, sizes.len() as u8];
    sizes.iter().for_each(|size| bytes.extend(size.to_be_bytes()));
    bytes.extend(values);
    bytes
}

#[test]
fn plain_and_packed_files_are_read_alike() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = file(8, &[2, 1, 3], &[1, 2, 3, 4, 5, 6]);
    let (plain, packed) = (dir.path().join("plain"), dir.path().join("packed"));
    std::fs::write(&plain, &bytes).unwrap();
    let mut packer = GzEncoder::new(std::fs::File::create(&packed).unwrap(), Compression::best());
    packer.write_all(&bytes).unwrap();
    packer.finish().unwrap();
    let read = read_idx(&plain).unwrap();
    assert_eq!((read.sizes.as_slice(), read.values.as_slice()), (&[2, 1, 3][..], &[1, 2, 3, 4, 5, 6][..]));
    assert_eq!(read, read_idx(&packed).unwrap());
}

#[test]
fn what_is_no_idx_of_bytes_is_an_error_that_says_why() {
    let good = file(8, &[2, 2], &[1, 2, 3, 4]);
    for end in 0..good.len() {
        assert!(parse_idx(&good[..end]).is_err_and(|e| e.contains("too early")), "{end} bytes");
    }
    let mut long = good.clone();
    long.push(0);
    assert!(parse_idx(&long).unwrap_err().contains("goes on"));
    assert!(parse_idx(&file(0x0d, &[1], &[0; 4])).unwrap_err().contains("0x0d"));
    assert!(parse_idx(b"<html></html>").unwrap_err().contains("not an IDX"));
}

#[test]
fn a_header_that_promises_too_much_is_refused_without_allocating() {
    assert!(parse_idx(&file(8, &[u32::MAX; 4], &[])).is_err());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge\nname");
    std::fs::write(&path, file(8, &[60_000, 60_000], &[])).unwrap();
    let error = read_idx(&path).unwrap_err();
    assert!(matches!(error, DataError::TooLarge { .. }));
    assert!(error.to_string().contains("huge\\nname") && !error.to_string().contains('\n'), "{error}");
    // Within the limit, but not there: what is missing is not allocated either.
    assert!(parse_idx(&file(8, &[1 << 30], &[1, 2])).unwrap_err().contains("too early"));
}
