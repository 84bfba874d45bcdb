//! One test alone in its process, because it looks at the memory of the process.
#![allow(clippy::unwrap_used)]

use kindling_data::{DataError, read_header, read_image};

/// The largest resident size the process ever had, in bytes.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[cfg(not(target_os = "linux"))]
fn peak() -> u64 {
    0
}

/// A PNG of 8-bit grey that promises a size and holds nothing.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        png.extend((data.len() as u32).to_be_bytes());
        let body = [kind.as_slice(), data].concat();
        png.extend(&body);
        png.extend(crc(&body).to_be_bytes());
    };
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    chunk(b"IHDR", &[&size[..], &[8, 0, 0, 0, 0]].concat());
    chunk(b"IDAT", &[0x78, 0x9c, 0x03, 0x00, 0x00, 0x00, 0x00, 0x01]);
    chunk(b"IEND", &[]);
    png
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
    })
}

#[test]
fn a_60000_pixel_header_is_refused_without_allocating() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bomb.png");
    std::fs::write(&path, png_header(4, 4)).unwrap();
    assert!(matches!(read_image(&path), Err(DataError::Unreadable { .. })), "the fixture itself is well-formed");
    assert_eq!(read_header(&path).unwrap().width, 4);

    let before = peak();
    // Too long a side, and too many pixels with sides that are allowed.
    for (width, height) in [(60_000, 60_000), (4_000_000_000, 1), (30_000, 30_000)] {
        std::fs::write(&path, png_header(width, height)).unwrap();
        for result in [read_image(&path).map(drop), read_header(&path).map(drop)] {
            let error = result.unwrap_err();
            assert!(matches!(error, DataError::TooLarge { .. } | DataError::Unreadable { .. }), "{error}");
            assert!(error.to_string().contains("bomb.png"));
        }
    }
    let sparse = std::fs::File::create(&path).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let error = read_image(&path).unwrap_err().to_string();
    assert!(error.contains("1048576 MiB, the limit is 512 MiB"), "{error}");
    assert!(peak() - before < 16 << 20, "{} bytes were used", peak() - before);
}
