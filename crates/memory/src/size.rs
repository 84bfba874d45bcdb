//! Amounts of memory as text.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use kindling_given::in_units;

/// The least that a number without a unit means: whoever writes `8` or `8000` has left the unit out.
const LEAST_WITHOUT_UNIT: u64 = 1 << 20;

/// Bytes, written `8GiB`, `500MiB`, `6GB`, `1.5 GiB`, or from 1 MiB on as a plain number; displays in binary units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemorySize(pub u64);

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no amount of memory; write it like 8GiB, 500MiB, 6GB or as bytes");
        // `8G` means 8 GiB to Slurm and 8 GB to others, so it is refused rather than guessed.
        let said = text.trim_end().ends_with(|end: char| end.is_ascii_digit() || end.eq_ignore_ascii_case(&'b'));
        let size = text.trim_end().parse::<ByteSize>().ok().filter(|_| said).ok_or_else(wrong)?;
        if text.trim_end().ends_with(|end: char| end.is_ascii_digit()) && size.as_u64() < LEAST_WITHOUT_UNIT {
            return Err(format!("`{text}` has no unit; write it like 8GiB, 500MiB or 6GB"));
        }
        // No machine has 2^63 bytes or more.
        if (1..=i64::MAX as u64).contains(&size.as_u64()) { Ok(Self(size.as_u64())) } else { Err(wrong()) }
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_units(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases = [
            ("8GiB", 8u64 << 30),
            ("500MiB", 500 << 20),
            ("6GB", 6_000_000_000),
            ("6 gb", 6_000_000_000),
            ("1.5GiB", 3 << 29),
            ("8589934592", 8 << 30),
            ("4096B", 4096),
            ("12kib", 12 << 10),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse::<MemorySize>(), Ok(MemorySize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_an_example() {
        for text in ["", "GiB", "8 gigs", "-1GB", "0", "1e3", "8G iB", "8G", "8", "8000", "99999999999TiB", "1.2.3MB"] {
            let refusal = text.parse::<MemorySize>().expect_err(text);
            assert!(refusal.contains("8GiB"), "{refusal}");
        }
    }

    #[test]
    fn what_is_shown_reads_back_to_about_the_same() {
        let cases = [
            (17, "17 B"),
            (1023, "1023 B"),
            (8 << 30, "8 GiB"),
            (1_500_000, "1.43 MiB"),
            (6_000_000_000, "5.59 GiB"),
            (25_000_000, "23.8 MiB"),
        ];
        for (bytes, shown) in cases {
            let size = MemorySize(bytes);
            assert_eq!(size.to_string(), shown);
            let back = shown.parse::<MemorySize>().expect("a size").0 as f64;
            assert!((back / bytes as f64 - 1.0).abs() < 0.01);
        }
    }
}
