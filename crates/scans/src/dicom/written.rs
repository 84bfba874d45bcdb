//! Data sets that are written: explicit types, little-endian (PS3.5, chapter 7; PS3.10, chapter 7).

use std::collections::BTreeMap;

use super::tags::Tag;

/// "Explicit VR Little Endian".
const TRANSFER_SYNTAX: &str = "1.2.840.10008.1.2.1";
/// Stands for this program, of whatever version: a random UUID as PS3.5, annex B.2 has it.
const IMPLEMENTATION: &str = "2.25.89157397287163208786534783851769038909";
const IMPLEMENTATION_NAME: &str = "KINDLING";
const SEQUENCE: [u8; 2] = *b"SQ";

/// Elements by their tags, which is the order in which they are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct DataSet(BTreeMap<Tag, Value>);

#[derive(Clone, Debug)]
enum Value {
    /// The type and the bytes, not yet of an even number.
    Bytes([u8; 2], Vec<u8>),
    Items(Vec<DataSet>),
}

impl DataSet {
    /// Sets an element to the bytes of a type. Types with a short length take 65,534 bytes.
    pub(crate) fn bytes(&mut self, tag: Tag, kind: &[u8; 2], value: impl Into<Vec<u8>>) {
        self.0.insert(tag, Value::Bytes(*kind, value.into()));
    }

    /// Sets an element to a text.
    pub(crate) fn text(&mut self, tag: Tag, kind: &[u8; 2], value: &str) {
        self.bytes(tag, kind, value);
    }

    /// Sets an element to a 16-bit number.
    pub(crate) fn number(&mut self, tag: Tag, value: u16) {
        self.bytes(tag, b"US", value.to_le_bytes());
    }

    /// Sets an element to 32-bit numbers.
    pub(crate) fn numbers(&mut self, tag: Tag, values: &[u32]) {
        self.bytes(tag, b"UL", values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
    }

    /// Sets an element to the tag of another.
    pub(crate) fn pointer(&mut self, tag: Tag, to: Tag) {
        self.bytes(tag, b"AT", [to.0.to_le_bytes(), to.1.to_le_bytes()].concat());
    }

    /// Sets an element to a sequence.
    pub(crate) fn items(&mut self, tag: Tag, items: Vec<Self>) {
        self.0.insert(tag, Value::Items(items));
    }

    /// Whether there is such an element.
    pub(crate) fn has(&self, tag: Tag) -> bool {
        self.0.contains_key(&tag)
    }

    /// The bytes of an element that is no sequence.
    pub(crate) fn value(&self, tag: Tag) -> Option<&[u8]> {
        match self.0.get(&tag)? {
            Value::Bytes(_, value) => Some(value),
            Value::Items(_) => None,
        }
    }

    /// Takes an element away.
    pub(crate) fn remove(&mut self, tag: Tag) {
        self.0.remove(&tag);
    }

    /// The bytes of all elements.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        for (tag, value) in &self.0 {
            match value {
                Value::Bytes(kind, value) => write_element(bytes, *tag, *kind, value),
                Value::Items(items) => {
                    let mut inside = Vec::new();
                    for item in items {
                        let contents = item.encode();
                        write_tag(&mut inside, Tag(0xFFFE, 0xE000));
                        inside.extend((contents.len() as u32).to_le_bytes());
                        inside.extend(contents);
                    }
                    write_element(bytes, *tag, SEQUENCE, &inside);
                }
            }
        }
    }
}

fn write_tag(bytes: &mut Vec<u8>, tag: Tag) {
    bytes.extend(tag.0.to_le_bytes());
    bytes.extend(tag.1.to_le_bytes());
}

fn write_element(bytes: &mut Vec<u8>, tag: Tag, kind: [u8; 2], value: &[u8]) {
    write_tag(bytes, tag);
    bytes.extend(kind);
    let padded = value.len().next_multiple_of(2);
    if [*b"OB", SEQUENCE].contains(&kind) {
        bytes.extend([0, 0]);
        bytes.extend((padded as u32).to_le_bytes());
    } else {
        bytes.extend((padded as u16).to_le_bytes());
    }
    bytes.extend(value);
    if padded > value.len() {
        bytes.push(if [*b"OB", *b"UI"].contains(&kind) { 0 } else { b' ' });
    }
}

/// The bytes of a file that holds a data set of this class and name.
pub(crate) fn file_of(data_set: &DataSet, class: &str, instance: &str) -> Vec<u8> {
    let mut meta = DataSet::default();
    meta.bytes(Tag(2, 1), b"OB", [0, 1]);
    meta.text(Tag(2, 2), b"UI", class);
    meta.text(Tag(2, 3), b"UI", instance);
    meta.text(Tag(2, 0x10), b"UI", TRANSFER_SYNTAX);
    meta.text(Tag(2, 0x12), b"UI", IMPLEMENTATION);
    meta.text(Tag(2, 0x13), b"SH", IMPLEMENTATION_NAME);
    let meta = meta.encode();
    let mut bytes = vec![0; 128];
    bytes.extend(b"DICM");
    write_element(&mut bytes, Tag(2, 0), *b"UL", &(meta.len() as u32).to_le_bytes());
    bytes.extend(meta);
    data_set.write(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dicom::file::DicomFile;

    #[test]
    fn what_is_written_is_read_again_with_its_sequences_and_padding() {
        let mut inner = DataSet::default();
        inner.text(Tag(0x0008, 0x1155), b"UI", "1.2.3");
        inner.numbers(Tag(0x0020, 0x9157), &[7, 70_000]);
        let uid = [8, 0, 0x55, 0x11, b'U', b'I', 6, 0, b'1', b'.', b'2', b'.', b'3', 0];
        assert_eq!(inner.encode()[..14], uid, "values are of an even number of bytes");
        let mut data_set = DataSet::default();
        data_set.bytes(Tag(0x7FE0, 0x0010), b"OB", [1, 2, 3]);
        data_set.text(Tag(0x0010, 0x0020), b"LO", "odd");
        data_set.items(Tag(0x0008, 0x1115), vec![inner.clone(), inner]);
        data_set.number(Tag(0x0028, 0x0010), 513);
        let bytes = file_of(&data_set, "1.2", "1.3");
        assert_eq!(bytes.len() % 2, 0);
        let Ok(file) = DicomFile::parse(bytes, true) else { panic!("it can be read") };
        let (elements, bytes) = (&file.elements, file.bytes.as_slice());
        assert_eq!(elements.text(bytes, 0, Tag(0x0010, 0x0020)).unwrap(), "odd");
        assert_eq!(elements.number(bytes, Tag(0x0028, 0x0010)), Some(513));
        let items = elements.items(0, Tag(0x0008, 0x1115));
        assert_eq!(items.len(), 2);
        assert_eq!(elements.text(bytes, items[1], Tag(0x0008, 0x1155)).unwrap(), "1.2.3");
        assert_eq!(elements.bytes(bytes, items[0], Tag(0x0020, 0x9157)).unwrap(), [7, 0, 0, 0, 0x70, 0x11, 1, 0]);
        assert!(elements.pixels.is_some());
    }
}
