//! The frames of TensorFlow's record files
//! (<https://www.tensorflow.org/tutorials/load_data/tfrecord>, "TFRecords format details").

/// Bytes of the length and its sum, before the data.
const HEAD: usize = 12;
/// Bytes of the sum after the data.
const SUM: usize = 4;

/// The sum of bytes: CRC-32C, turned and shifted so that sums over data that hold sums stay good.
fn masked_sum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Adds a frame around `data`.
pub(super) fn write(data: &[u8], out: &mut Vec<u8>) {
    let length = (data.len() as u64).to_le_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&masked_sum(&length).to_le_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(&masked_sum(data).to_le_bytes());
}

/// The data of the first frame and the bytes after it; none if the frame is torn or damaged.
pub(super) fn read(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (length, sum) = head.split_first_chunk::<8>()?;
    if masked_sum(length).to_le_bytes() != sum {
        return None;
    }
    let (data, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let (sum, rest) = rest.split_at_checked(SUM)?;
    (masked_sum(data).to_le_bytes() == sum).then_some((data, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_that_are_published() {
        // RFC 3720, B.4: 32 bytes of zeros, of ones, and ascending.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c::crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c::crc32c(&ascending), 0x46dd_794e);
        // The first 12 bytes of every event file: the length 24 and its sum, as TensorFlow writes them.
        let mut out = Vec::new();
        write(b"\x09\x00\x00\x80\x38\x99\xd6\xd7\x41\x1a\x0dbrain.Event:2", &mut out);
        assert_eq!(out[..HEAD], [0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22]);
    }

    #[test]
    fn a_frame_that_is_torn_or_changed_anywhere_is_none() {
        let mut out = Vec::new();
        write(b"one", &mut out);
        let one = out.len();
        write(b"two", &mut out);
        let (data, rest) = read(&out).unwrap();
        assert_eq!((data, rest.len()), (&b"one"[..], out.len() - one));
        assert_eq!(read(rest), Some((&b"two"[..], &[][..])));
        for place in 0..one {
            assert_eq!(read(&out[..place]), None, "cut at byte {place}");
            let mut changed = out.clone();
            changed[place] ^= 1;
            assert_eq!(read(&changed), None, "byte {place} changed");
        }
    }
}
