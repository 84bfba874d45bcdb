//! Writing fields.

/// A message: it is written as numbered fields. A closure is one too, where a type for the message would say no more.
pub trait Message {
    /// Writes the fields in the order of their numbers.
    fn write(&self, out: &mut Output);
}

impl<F: Fn(&mut Output)> Message for F {
    fn write(&self, out: &mut Output) {
        self(out);
    }
}

/// The bytes of a message.
pub fn encode(message: &impl Message) -> Vec<u8> {
    bytes(message, length(message))
}

/// How many bytes a message takes.
pub fn length(message: &impl Message) -> usize {
    let mut out = Output { bytes: None, length: 0 };
    message.write(&mut out);
    out.length
}

/// The bytes of a message that takes `length` bytes, for those who have counted them before.
pub fn bytes(message: &impl Message, length: usize) -> Vec<u8> {
    let mut out = Output { bytes: Some(Vec::with_capacity(length)), length: 0 };
    message.write(&mut out);
    out.bytes.unwrap_or_default()
}

/// The target of fields. A message inside another one is preceded by its length, so it is first written to a target that only counts
/// bytes.
#[derive(Debug)]
pub struct Output {
    bytes: Option<Vec<u8>>,
    length: usize,
}

/// The wire type of varints.
const VARINT: u64 = 0;
/// The wire type of eight bytes.
const FIXED64: u64 = 1;
/// The wire type of everything that has a length.
const DELIMITED: u64 = 2;
/// The wire type of four bytes.
const FIXED32: u64 = 5;

impl Output {
    /// An integer.
    pub fn int(&mut self, field: u64, value: i64) {
        self.key(field, VARINT);
        // Negative numbers take ten bytes, as their two's complement in 64 bits.
        self.varint(value as u64);
    }

    /// Integers, each with its key, as in version 2 of the format.
    pub fn ints(&mut self, field: u64, values: &[usize]) {
        for &value in values {
            self.int(field, value as i64);
        }
    }

    /// A float32 number.
    pub fn float(&mut self, field: u64, value: f32) {
        self.key(field, FIXED32);
        self.put(&value.to_le_bytes());
    }

    /// A float64 number.
    pub fn double(&mut self, field: u64, value: f64) {
        self.key(field, FIXED64);
        self.put(&value.to_le_bytes());
    }

    /// Float64 numbers under one key, as in version 3 of the format.
    pub fn doubles(&mut self, field: u64, values: &[f64]) {
        self.key(field, DELIMITED);
        self.varint(size_of_val(values) as u64);
        for value in values {
            self.put(&value.to_le_bytes());
        }
    }

    /// Bytes or text.
    pub fn bytes(&mut self, field: u64, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.key(field, DELIMITED);
        self.varint(value.len() as u64);
        self.put(value);
    }

    /// A field that is a message of its own, preceded by its length.
    pub fn message(&mut self, field: u64, message: &impl Message) {
        let inside = length(message);
        self.key(field, DELIMITED);
        self.varint(inside as u64);
        match self.bytes {
            Some(_) => message.write(self),
            None => self.length += inside,
        }
    }

    /// Several messages of the same field.
    pub fn messages(&mut self, field: u64, messages: &[impl Message]) {
        for message in messages {
            self.message(field, message);
        }
    }

    fn key(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    /// Writes seven bits in each byte, lowest bits first; the eighth bit says whether more bytes follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.put(&[value as u8]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        if let Some(out) = &mut self.bytes {
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the format's description, and a negative number.
    enum Example {
        Number(i64),
        Text,
        Inside,
    }

    impl Message for Example {
        fn write(&self, out: &mut Output) {
            match self {
                Self::Number(value) => out.int(1, *value),
                Self::Text => out.bytes(2, "testing"),
                Self::Inside => out.message(3, &Self::Number(150)),
            }
        }
    }

    #[test]
    fn fields_are_written_as_the_format_describes_them() {
        let minus_two = [vec![0x08, 0xfe], vec![0xff; 8], vec![0x01]].concat();
        let cases: [(Example, &[u8]); 4] = [
            (Example::Number(150), &[0x08, 0x96, 0x01]),
            (Example::Number(-2), &minus_two),
            (Example::Text, &[0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]),
            (Example::Inside, &[0x1a, 0x03, 0x08, 0x96, 0x01]),
        ];
        for (example, expected) in cases {
            assert_eq!(bytes(&example, 0), expected);
            assert_eq!(length(&example), expected.len());
        }
    }
}
