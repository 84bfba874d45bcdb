//! The elements of a DICOM file as places in its bytes. Nothing is allocated that the file's size does not justify, and
//! nothing recurses: the parser of `dicom-parser` gives tokens, and each length is held against what is there.

use std::io::Cursor;
use std::ops::Range;

use dicom_core::{Tag, VR};
use dicom_encoding::transfer_syntax::{Endianness, TransferSyntaxIndex};
use dicom_parser::dataset::LazyDataToken;
use dicom_parser::dataset::lazy_read::LazyDataSetReader;
use dicom_parser::stateful::decode::StatefulDecode;
use dicom_transfer_syntax_registry::TransferSyntaxRegistry;

use super::tags;

/// The deepest nesting of sequences that is read.
const MAX_DEPTH: usize = 64;

/// The elements of a data set and of its sequences.
#[derive(Debug)]
pub(crate) struct Elements {
    /// Of the whole data set, in order.
    elements: Vec<Element>,
    /// For each item, the sequence it belongs to and the item that the sequence belongs to. Item 0 is the data set.
    items: Vec<(Tag, usize)>,
    /// The pixels.
    pub(crate) pixels: Option<Pixels>,
    pub(crate) big_endian: bool,
}

#[derive(Debug)]
struct Element {
    tag: Tag,
    item: usize,
    place: Range<usize>,
}

/// Where the pixels are.
#[derive(Debug)]
pub(crate) enum Pixels {
    /// One value, and whether it is said to consist of 16-bit words.
    Native(Range<usize>, bool),
    /// The offset table and the fragments.
    Fragments(Range<usize>, Vec<Range<usize>>),
}

/// Why elements could not be read.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The bytes end before the pixels: more of the file may help.
    TooShort,
    /// They make no sense.
    Nonsense(String),
}

impl Elements {
    /// Reads a data set. `whole` says that the bytes are all of it; otherwise reading stops before the pixels.
    pub(crate) fn read(bytes: &[u8], transfer_syntax: &str, whole: bool) -> Result<Self, Failure> {
        let nonsense = |reason: String| Failure::Nonsense(reason);
        let syntax = TransferSyntaxRegistry
            .get(transfer_syntax)
            .ok_or_else(|| nonsense(format!("the transfer syntax {transfer_syntax:?} is not known")))?;
        let broken = |error: &dyn std::fmt::Display| match whole {
            true => nonsense(format!("it is damaged or ends too early: {error}")),
            false => Failure::TooShort,
        };
        let mut reader =
            LazyDataSetReader::new_with_ts(Cursor::new(bytes), syntax).map_err(|error| nonsense(error.to_string()))?;
        let mut found = Self {
            elements: Vec::new(),
            items: vec![(Tag(0, 0), 0)],
            pixels: None,
            big_endian: syntax.endianness() == Endianness::Big,
        };
        // The item we are in, the open sequences, and whether the innermost is the pixels.
        let (mut item, mut open, mut in_pixels) = (0, Vec::<(Tag, usize)>::new(), false);
        let mut fragments: Vec<Range<usize>> = Vec::new();
        while let Some(token) = reader.advance() {
            match token.map_err(|error| broken(&error))? {
                LazyDataToken::ElementHeader(header) => {
                    if header.tag == tags::PIXEL_DATA && open.is_empty() && !whole {
                        return Ok(found);
                    }
                }
                LazyDataToken::LazyValue { header, decoder } => {
                    let start = decoder.position() as usize;
                    let end = header.len.get().and_then(|len| start.checked_add(len as usize));
                    let Some(end) = end.filter(|end| *end <= bytes.len()) else {
                        return Err(broken(&format!("{} says that it has {} bytes", header.tag, header.len)));
                    };
                    decoder.skip_bytes((end - start) as u32).map_err(|error| broken(&error))?;
                    if header.tag == tags::PIXEL_DATA && open.is_empty() {
                        found.pixels = Some(Pixels::Native(start..end, header.vr() == VR::OW));
                        // What follows the pixels is padding and signatures.
                        return Ok(found);
                    }
                    found.elements.push(Element { tag: header.tag, item, place: start..end });
                }
                LazyDataToken::SequenceStart { tag, .. } => {
                    if open.len() >= MAX_DEPTH {
                        return Err(nonsense(format!("its sequences are nested more than {MAX_DEPTH} deep")));
                    }
                    open.push((tag, item));
                }
                LazyDataToken::PixelSequenceStart => {
                    in_pixels = true;
                    open.push((tags::PIXEL_DATA, item));
                }
                LazyDataToken::ItemStart { .. } if in_pixels => fragments.push(0..0),
                LazyDataToken::ItemStart { .. } => {
                    let (tag, parent) = open.last().copied().unwrap_or((Tag(0, 0), 0));
                    found.items.push((tag, parent));
                    item = found.items.len() - 1;
                }
                LazyDataToken::LazyItemValue { len, decoder } => {
                    let start = decoder.position() as usize;
                    let Some(end) = start.checked_add(len as usize).filter(|end| *end <= bytes.len()) else {
                        return Err(broken(&format!("a fragment says that it has {len} bytes")));
                    };
                    decoder.skip_bytes(len).map_err(|error| broken(&error))?;
                    if let Some(last) = fragments.last_mut() {
                        *last = start..end;
                    }
                }
                LazyDataToken::ItemEnd => {
                    if !in_pixels {
                        item = open.last().map_or(0, |(_, parent)| *parent);
                    }
                }
                LazyDataToken::SequenceEnd => {
                    let (_, parent) = open.pop().unwrap_or((Tag(0, 0), 0));
                    item = parent;
                    if in_pixels {
                        break;
                    }
                }
                other => return Err(nonsense(format!("it holds {other:?}, which is not known"))),
            }
        }
        if in_pixels {
            // A file that is cut off between two fragments has all the images before.
            if fragments.is_empty() {
                return Err(nonsense("its pixels have no fragments".to_owned()));
            }
            found.pixels = Some(Pixels::Fragments(fragments.remove(0), fragments));
        }
        // Without pixels, the end of a part of a file says nothing.
        if whole || found.pixels.is_some() { Ok(found) } else { Err(Failure::TooShort) }
    }

    /// The bytes of an element of an item (0 is the data set); `None` if it is not there or empty.
    pub(crate) fn bytes<'a>(&self, bytes: &'a [u8], item: usize, tag: Tag) -> Option<&'a [u8]> {
        let element = self.elements.iter().find(|element| element.item == item && element.tag == tag)?;
        bytes.get(element.place.clone()).filter(|value| !value.is_empty())
    }

    /// The items of a sequence of an item, in order.
    pub(crate) fn items(&self, item: usize, sequence: Tag) -> Vec<usize> {
        (1..self.items.len()).filter(|&index| self.items[index] == (sequence, item)).collect()
    }

    /// A text, without what pads it.
    pub(crate) fn text(&self, bytes: &[u8], item: usize, tag: Tag) -> Option<String> {
        let text = String::from_utf8_lossy(self.bytes(bytes, item, tag)?);
        let text = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The numbers of a text with `\` between them.
    pub(crate) fn decimals(&self, bytes: &[u8], item: usize, tag: Tag) -> Option<Vec<f64>> {
        let text = self.text(bytes, item, tag)?;
        let numbers: Option<Vec<f64>> = text.split('\\').map(|part| part.trim().parse().ok()).collect();
        numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite()))
    }

    /// 16-bit numbers.
    pub(crate) fn words(&self, bytes: &[u8], item: usize, tag: Tag) -> Option<Vec<u16>> {
        let value = self.bytes(bytes, item, tag)?;
        Some(value.chunks_exact(2).map(|pair| self.word([pair[0], pair[1]])).collect())
    }

    fn word(&self, pair: [u8; 2]) -> u16 {
        if self.big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    }

    /// A 16-bit number.
    pub(crate) fn number(&self, bytes: &[u8], tag: Tag) -> Option<u16> {
        self.words(bytes, 0, tag)?.first().copied()
    }
}
