//! NumPy's array files. Source: numpy.lib.format, "Format Version 1.0" to "3.0".

/// The longest header that is read; NumPy itself refuses more than 10 000 bytes.
const MAX_HEADER: usize = 10_000;
/// The most dimensions that a header may declare.
const MAX_DIMENSIONS: usize = 8;

/// What stands before the values of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    /// The type of a value, as in `|u1` or `<i8`.
    pub kind: String,
    /// The length of each dimension, the slowest first.
    pub shape: Vec<usize>,
    /// Where the values start, in bytes.
    pub start: usize,
}

impl NpyHeader {
    /// Reads the header of an array from the first bytes of its file (10 kB are enough).
    ///
    /// # Errors
    /// What is wrong with it, in words. Arrays in Fortran's order are refused.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let early = || "it ends too early".to_owned();
        let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or("it is not a NumPy array")?;
        let (length, before) = match rest {
            [1, _, low, high, ..] => (usize::from(u16::from_le_bytes([*low, *high])), 10),
            [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 12),
            [1..=3, ..] => return Err(early()),
            _ => return Err("its version is not known".to_owned()),
        };
        if length > MAX_HEADER {
            return Err(format!("its header has {length} bytes"));
        }
        let text = bytes.get(before..before + length).ok_or_else(early)?;
        let text = std::str::from_utf8(text).map_err(|_| "its header is not text".to_owned())?;
        let missing = |key: &str| format!("its header has no {key}");
        let kind = value_of(text, "descr").and_then(quoted).ok_or_else(|| missing("descr"))?;
        match value_of(text, "fortran_order") {
            Some(value) if value.starts_with("False") => {}
            Some(_) => return Err("it is in Fortran's order, which is not supported".to_owned()),
            None => return Err(missing("fortran_order")),
        }
        let shape = value_of(text, "shape").and_then(tuple).ok_or_else(|| missing("shape"))?;
        Ok(Self { kind: kind.to_owned(), shape, start: before + length })
    }

    /// How many values the array has: the product of its shape.
    ///
    /// # Errors
    /// In words, if it is beyond all reason.
    pub fn count(&self) -> Result<usize, String> {
        let product = self.shape.iter().try_fold(1usize, |all, &side| all.checked_mul(side));
        product.filter(|&all| all < 1 << 48).ok_or_else(|| format!("it says that its shape is {:?}", self.shape))
    }
}

/// What follows a key of a Python dictionary.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("'{key}'")).or_else(|| text.split_once(&format!("\"{key}\"")))?;
    Some(after.trim_start().strip_prefix(':')?.trim_start())
}

fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    text[1..].split_once(quote).map(|(inside, _)| inside)
}

fn tuple(text: &str) -> Option<Vec<usize>> {
    let (inside, _) = text.strip_prefix('(')?.split_once(')')?;
    let parts: Vec<&str> = inside.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.len() > MAX_DIMENSIONS {
        return None;
    }
    parts.iter().map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn file(header: &str) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes
    }

    #[test]
    fn headers_are_read_as_numpy_writes_them() {
        let bytes = file("{'descr': '|u1', 'fortran_order': False, 'shape': (5, 28, 28, 3), }          \n");
        let header = NpyHeader::parse(&bytes).unwrap();
        assert_eq!((header.kind.as_str(), header.shape.as_slice()), ("|u1", &[5, 28, 28, 3][..]));
        assert_eq!((header.start, header.count().unwrap()), (bytes.len(), 5 * 28 * 28 * 3));
        let one = NpyHeader::parse(&file("{'descr': '<i8', 'fortran_order': False, 'shape': (7,), }\n")).unwrap();
        assert_eq!(one.shape, [7]);
        let none = NpyHeader::parse(&file("{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n")).unwrap();
        assert_eq!(none.count().unwrap(), 1);
    }

    #[test]
    fn what_is_no_header_is_an_error() {
        let good = file("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }\n");
        for end in 0..good.len() {
            assert!(NpyHeader::parse(&good[..end]).is_err(), "{end} bytes");
        }
        for bad in [
            "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2), }",
            "{'descr': '|u1', 'fortran_order': False, 'shape': (-2, 2), }",
            "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }",
            "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2, 2), }",
            "{'shape': (2, 2)}",
            "",
        ] {
            assert!(NpyHeader::parse(&file(bad)).is_err(), "{bad}");
        }
        let huge = file("{'descr': '|u1', 'fortran_order': False, 'shape': (999999999999, 999999999999), }");
        assert!(NpyHeader::parse(&huge).unwrap().count().is_err());
        assert!(NpyHeader::parse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").is_err());
    }
}
