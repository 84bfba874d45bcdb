//! Amounts of memory as people write them.

use std::fmt;
use std::str::FromStr;

/// Bytes, written `8GiB`, `500MiB`, `6GB`, `1.5 GiB` or as a plain number; displays in binary units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemorySize(pub u64);

/// Units by their names in lower case.
const UNITS: [(&str, f64); 10] = [
    ("", 1.0),
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
];

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no amount of memory; write it like 8GiB, 500MiB, 6GB or as bytes");
        let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.trim().to_lowercase();
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(wrong)?;
        let bytes = (number * factor).round();
        // Beyond 2^63 no machine is meant.
        if bytes < 1.0 || bytes > i64::MAX as f64 { Err(wrong()) } else { Ok(Self(bytes as u64)) }
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        let (_, power) = UNITS[6..].iter().rev().find(|(_, factor)| bytes >= *factor).unwrap_or(&UNITS[0]);
        let unit = ["B", "KiB", "MiB", "GiB", "TiB"][(power.log2() / 10.0).round() as usize];
        let value = bytes / power;
        match unit {
            "B" => write!(f, "{} B", self.0),
            _ if value.fract() == 0.0 => write!(f, "{value} {unit}"),
            _ if value < 10.0 => write!(f, "{value:.2} {unit}"),
            _ => write!(f, "{value:.1} {unit}"),
        }
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
            ("4096", 4096),
            ("12kib", 12 << 10),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse::<MemorySize>(), Ok(MemorySize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_an_example() {
        for text in ["", "GiB", "8 gigs", "-1GB", "0", "1e3", "8G iB", "99999999999TiB", "1.2.3MB"] {
            let refusal = text.parse::<MemorySize>().expect_err(text);
            assert!(refusal.contains("8GiB"), "{refusal}");
        }
    }

    #[test]
    fn what_is_shown_reads_back_to_about_the_same() {
        for (bytes, shown) in [(17, "17 B"), (8 << 30, "8 GiB"), (1_500_000, "1.43 MiB"), (6_000_000_000, "5.59 GiB")] {
            let size = MemorySize(bytes);
            assert_eq!(size.to_string(), shown);
            let back = shown.parse::<MemorySize>().expect("a size").0 as f64;
            assert!((back / bytes as f64 - 1.0).abs() < 0.01);
        }
    }
}
