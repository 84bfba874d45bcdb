//! Reading fields.

/// The value of a field, as far as the wire knows its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer, a truth value or a choice; negative integers are in two's complement.
    Varint(u64),
    /// Bytes, text, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes: a float32 or a fixed integer, lowest byte first.
    Fixed32([u8; 4]),
    /// Eight bytes: a float64 or a fixed integer, lowest byte first.
    Fixed64([u8; 8]),
}

impl<'a> Value<'a> {
    /// The bytes of a field that has a length.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The text of a field that has a length and holds UTF-8.
    pub fn text(self) -> Option<&'a str> {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The integer of a varint.
    pub fn int(self) -> Option<i64> {
        match self {
            Self::Varint(value) => Some(value.cast_signed()),
            _ => None,
        }
    }
}

/// The fields of a message, each with its number, in the order in which they were written.
///
/// The fields end where the bytes are no longer a message, so that a reader of damaged bytes gets fewer fields and no error; whoever must
/// know checks the bytes before, with the sum that its file has.
pub fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

/// The iterator of [`fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..10 {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            // The tenth byte has room for one bit.
            value |= u64::from(byte & 0x7f).checked_shl(7 * place)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn fixed<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (value, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*value)
    }

    fn delimited(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (value, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(value)
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.fixed()?),
            2 => Value::Bytes(self.delimited()?),
            5 => Value::Fixed32(self.fixed()?),
            // Groups, which nobody writes any more, and numbers without a meaning.
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Output, encode};

    #[test]
    fn what_was_written_is_read_and_a_torn_message_ends_at_the_tear() {
        let message = |out: &mut Output| {
            out.int(1, -2);
            out.float(2, 0.5);
            out.double(3, -0.25);
            out.message(4, &|inside: &mut Output| inside.bytes(1, "text"));
            out.doubles(5, &[1.0, 2.0]);
        };
        let bytes = encode(&message);
        let all: Vec<_> = fields(&bytes).collect();
        assert_eq!(all.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(all[0].1.int(), Some(-2));
        assert_eq!(all[1].1, Value::Fixed32(0.5_f32.to_le_bytes()));
        assert_eq!(all[2].1, Value::Fixed64((-0.25_f64).to_le_bytes()));
        let inside: Vec<_> = all[3].1.bytes().into_iter().flat_map(fields).collect();
        assert_eq!(inside[0].1.text(), Some("text"));
        assert_eq!(all[4].1, Value::Bytes(&[1.0_f64.to_le_bytes(), 2.0_f64.to_le_bytes()].concat()));
        for end in 0..bytes.len() {
            let torn: Vec<_> = fields(&bytes[..end]).collect();
            assert!(torn.len() < all.len() && all.starts_with(&torn), "cut at byte {end}");
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic() {
        assert_eq!(fields(&[0x80; 11]).next(), None, "a varint without an end");
        assert_eq!(fields(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]).next(), None, "a length beyond the bytes");
        assert_eq!(fields(&[0x0b]).next(), None, "a group");
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                assert!(fields(&[first, second, 0xff, 0x01]).count() <= 4);
            }
        }
    }
}
