//! The frames of W&B's files: LevelDB's log format (<https://github.com/google/leveldb/blob/main/doc/log_format.md>) with seven bytes in
//! front, and sums without LevelDB's mask.

/// The bytes in front: `:W&B`, the number 0xBEE1, version 0. They count as part of the first block.
pub(super) const FRONT: [u8; 7] = *b":W&B\xe1\xbe\x00";
/// Bytes of a block. No piece of a record crosses its end.
const BLOCK: usize = 32 << 10;
/// Bytes of the sum, the length and the kind of a piece, before its data.
const HEAD: usize = 7;

/// The kinds of pieces.
const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

fn sum(kind: u8, data: &[u8]) -> [u8; 4] {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[kind]);
    sum.update(data);
    sum.finalize().to_le_bytes()
}

/// Adds a record to `out`, whose first byte stands at `start` of the file.
pub(super) fn write(mut record: &[u8], start: u64, out: &mut Vec<u8>) {
    let mut is_first = true;
    loop {
        let place = (start % BLOCK as u64) as usize + out.len();
        let left = BLOCK - place % BLOCK;
        if left < HEAD {
            out.resize(out.len() + left, 0);
            continue;
        }
        let (data, rest) = record.split_at(record.len().min(left - HEAD));
        let kind = match (is_first, rest.is_empty()) {
            (true, true) => FULL,
            (true, false) => FIRST,
            (false, false) => MIDDLE,
            (false, true) => LAST,
        };
        out.extend_from_slice(&sum(kind, data));
        out.extend_from_slice(&(data.len() as u16).to_le_bytes());
        out.push(kind);
        out.extend_from_slice(data);
        if rest.is_empty() {
            return;
        }
        (record, is_first) = (rest, false);
    }
}

/// The whole records of a file, each with the place where it ends, up to the first one that is torn or damaged.
pub(super) fn records(file: &[u8]) -> impl Iterator<Item = (Vec<u8>, usize)> {
    let mut place = FRONT.len();
    std::iter::from_fn(move || {
        let (record, end) = record(file, place)?;
        place = end;
        Some((record, end))
    })
}

fn record(file: &[u8], mut place: usize) -> Option<(Vec<u8>, usize)> {
    let mut record = Vec::new();
    let mut is_first = true;
    loop {
        let left = BLOCK - place % BLOCK;
        if left < HEAD {
            place += left;
            continue;
        }
        let head = file.get(place..place + HEAD)?;
        let (wanted, length, kind) = (&head[..4], usize::from(u16::from_le_bytes([head[4], head[5]])), head[6]);
        let data = file.get(place + HEAD..place + HEAD + length)?;
        if sum(kind, data) != wanted {
            return None;
        }
        record.extend_from_slice(data);
        place += HEAD + length;
        match (is_first, kind) {
            (true, FULL) | (false, LAST) => return Some((record, place)),
            (true, FIRST) | (false, MIDDLE) => is_first = false,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(records: &[Vec<u8>]) -> Vec<u8> {
        let mut file = FRONT.to_vec();
        for record in records {
            let mut piece = Vec::new();
            write(record, file.len() as u64, &mut piece);
            file.extend(piece);
        }
        file
    }

    #[test]
    fn records_of_any_length_come_back_and_end_at_a_tear() {
        // Around the end of a block: what fits, what leaves no room for a head, what needs several blocks.
        for length in (BLOCK - 40..BLOCK + 8).chain([0, 1, 3 * BLOCK]) {
            let written = [vec![1; length], vec![2; 20], vec![3; 70_000]];
            let file = file(&written);
            let read: Vec<_> = records(&file).collect();
            assert!(read.iter().map(|(record, _)| record).eq(&written), "{length}");
            assert_eq!(read[2].1, file.len());
            for end in [read[0].1, read[1].1 - 1, read[1].1, read[2].1 - 1] {
                let whole = read.iter().filter(|(_, place)| *place <= end).count();
                assert_eq!(records(&file[..end]).count(), whole, "{length}, cut at {end}");
            }
        }
    }

    #[test]
    fn sums_are_those_of_zip_over_the_kind_and_the_data() {
        // The check value of CRC-32/ISO-HDLC, of the text 123456789.
        assert_eq!(u32::from_le_bytes(sum(b'1', b"23456789")), 0xcbf4_3926);
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let file = file(&[b"one".to_vec(), b"two".to_vec()]);
        for place in FRONT.len()..file.len() {
            let mut changed = file.clone();
            changed[place] ^= 1;
            assert!(records(&changed).count() < 2, "byte {place}");
        }
    }
}
