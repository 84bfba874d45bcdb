//! Finds the elements of a DICOM file as positions in its bytes (PS3.5, chapter 7).
//!
//! `dicom-object` is not used, because it allocates whatever length an element announces, up to 4 GB, recurses as deep as sequences are
//! nested, and would change features of crates that Burn uses. This parser reads elements from front to back without recursion, checks every
//! length against the available bytes, and allocates only the list of positions.

use std::ops::Range;

use super::tags::{self, Tag};

/// The deepest nesting of sequences that is read.
const MAX_DEPTH: usize = 64;
/// An undefined length: a delimiter ends the value.
const UNDEFINED: u32 = u32::MAX;
const ITEM: Tag = Tag(0xFFFE, 0xE000);
const ITEM_END: Tag = Tag(0xFFFE, 0xE00D);
const SEQUENCE_END: Tag = Tag(0xFFFE, 0xE0DD);
/// Types whose length has four bytes (PS3.5, table 7.1-1).
const LONG: [&[u8; 2]; 13] =
    [b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"SQ", b"SV", b"UC", b"UN", b"UR", b"UT", b"UV"];
/// The elements that are parsed as sequences if types are not written; other elements with a length are skipped.
const SEQUENCES: [Tag; 15] = [
    tags::DIRECTORY_RECORD_SEQUENCE,
    tags::MODALITY_LUT_SEQUENCE,
    tags::FRAME_VOI_LUT_SEQUENCE,
    tags::PIXEL_VALUE_TRANSFORMATION_SEQUENCE,
    tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE,
    tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE,
    tags::PLANE_POSITION_SEQUENCE,
    tags::PLANE_ORIENTATION_SEQUENCE,
    tags::PIXEL_MEASURES_SEQUENCE,
    tags::REFERENCED_SERIES_SEQUENCE,
    tags::REFERENCED_INSTANCE_SEQUENCE,
    tags::DERIVATION_IMAGE_SEQUENCE,
    tags::SOURCE_IMAGE_SEQUENCE,
    tags::SEGMENT_SEQUENCE,
    tags::SEGMENT_IDENTIFICATION_SEQUENCE,
];

/// The encoding of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notation {
    /// Whether the type of each element is written.
    pub(crate) explicit: bool,
    pub(crate) big_endian: bool,
}

/// The elements of a data set and of its sequences.
#[derive(Debug)]
pub(crate) struct Elements {
    /// The elements of the whole data set, in order.
    elements: Vec<Element>,
    /// For each item, its sequence and the item that the sequence is in. Item 0 is the data set.
    items: Vec<(Tag, usize)>,
    /// Places in `elements`, by item and tag, the first of equals first.
    by_tag: Vec<usize>,
    /// Places in `items`, but for the first, by what they are.
    by_sequence: Vec<usize>,
    /// Where the pixels lie; `None` if there are none, or only the header was read.
    pub(crate) pixels: Option<Pixels>,
    pub(crate) big_endian: bool,
}

#[derive(Debug)]
struct Element {
    tag: Tag,
    item: usize,
    place: Range<usize>,
}

/// The position of the pixels.
#[derive(Debug)]
pub(crate) enum Pixels {
    /// A single value, and whether it is declared as 16-bit words.
    Native(Range<usize>, bool),
    /// The offset table and the fragments.
    Fragments(Range<usize>, Vec<Range<usize>>),
}

/// The reason why elements could not be read.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The bytes end before the pixels, so more of the file is needed.
    TooShort,
    /// The bytes are invalid.
    Nonsense(String),
}

/// An open sequence or item.
struct Open {
    /// Tag of the sequence; `None` for an item.
    sequence: Option<Tag>,
    /// The item that continues when this ends.
    parent: usize,
    /// Where it ends, if its length is given.
    end: Option<usize>,
    /// The encoding of its elements.
    notation: Notation,
}

/// What stands before the value of an element.
struct Head {
    tag: Tag,
    kind: Option<[u8; 2]>,
    length: u32,
    /// Where the value starts.
    start: usize,
}

fn head_at(bytes: &[u8], at: usize, notation: Notation) -> Option<Head> {
    let word = |place: usize| -> Option<u16> {
        let pair = bytes.get(place..place + 2)?.try_into().ok()?;
        Some(if notation.big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) })
    };
    let long = |place: usize| -> Option<u32> {
        let four = bytes.get(place..place + 4)?.try_into().ok()?;
        Some(if notation.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
    };
    let tag = Tag(word(at)?, word(at + 2)?);
    if tag.0 == ITEM.0 || !notation.explicit {
        return Some(Head { tag, kind: None, length: long(at + 4)?, start: at + 8 });
    }
    let kind: [u8; 2] = bytes.get(at + 4..at + 6)?.try_into().ok()?;
    if LONG.contains(&&kind) {
        return Some(Head { tag, kind: Some(kind), length: long(at + 8)?, start: at + 12 });
    }
    Some(Head { tag, kind: Some(kind), length: word(at + 6)?.into(), start: at + 8 })
}

impl Elements {
    /// Parses a data set. `whole` says that the bytes are complete; otherwise parsing stops before the pixels.
    pub(crate) fn read(bytes: &[u8], notation: Notation, whole: bool) -> Result<Self, Failure> {
        let mut found = Self::parse(bytes, notation, whole)?;
        // Objects with many images have hundreds of thousands of elements.
        found.by_tag = (0..found.elements.len()).collect();
        found.by_tag.sort_by_key(|&at| (found.elements[at].item, found.elements[at].tag));
        found.by_sequence = (1..found.items.len()).collect();
        found.by_sequence.sort_by_key(|&at| found.items[at]);
        Ok(found)
    }

    fn parse(bytes: &[u8], notation: Notation, whole: bool) -> Result<Self, Failure> {
        let broken = |reason: String| match whole {
            true => Failure::Nonsense(format!("it is damaged or ends too early: {reason}")),
            false => Failure::TooShort,
        };
        let (elements, items) = (Vec::new(), vec![(Tag(0, 0), 0)]);
        let (by_tag, by_sequence) = (Vec::new(), Vec::new());
        let mut found = Self { elements, items, by_tag, by_sequence, pixels: None, big_endian: notation.big_endian };
        let (mut at, mut item, mut open) = (0, 0, Vec::<Open>::new());
        loop {
            while let Some(done) = open.pop_if(|open| open.end.is_some_and(|end| at >= end)) {
                item = done.parent;
            }
            if at >= bytes.len() {
                break;
            }
            let inner = open.last().map_or(notation, |open| open.notation);
            let Some(Head { tag, kind, length, start }) = head_at(bytes, at, inner) else {
                // Files are padded in various ways.
                if open.is_empty() && whole && bytes.len() - at < 8 {
                    break;
                }
                return Err(broken(format!("{} bytes are left where an element should start", bytes.len() - at)));
            };
            // Some sequences declare a smaller length than their items; the end of the file ends everything.
            let end = match length {
                UNDEFINED => None,
                length => match start.checked_add(length as usize).filter(|end| *end <= bytes.len()) {
                    None if tag == tags::PIXEL_DATA && !whole => return Ok(found),
                    // Items and sequences that are declared longer than the file end with it; their contents are checked.
                    None if whole && (tag == ITEM || kind == Some(*b"SQ") || SEQUENCES.contains(&tag)) => {
                        Some(bytes.len())
                    }
                    None => return Err(broken(format!("{tag} declares {length} bytes, more than there are"))),
                    end => end,
                },
            };
            at = start;
            let in_sequence = open.last().is_some_and(|open| open.sequence.is_some());
            let is_sequence = match kind {
                Some(kind) => &kind == b"SQ",
                None => SEQUENCES.contains(&tag),
            };
            match tag {
                ITEM if in_sequence => {
                    let sequence = open.last().and_then(|open| open.sequence).unwrap_or(tag);
                    found.items.push((sequence, item));
                    open.push(Open { sequence: None, parent: item, end, notation: inner });
                    item = found.items.len() - 1;
                }
                ITEM_END | SEQUENCE_END => {
                    // The end of a sequence also ends an item without an end of its own.
                    while let Some(done) = open.pop() {
                        item = done.parent;
                        if done.sequence.is_some() == (tag == SEQUENCE_END) {
                            break;
                        }
                    }
                }
                _ if in_sequence => return Err(broken(format!("{tag} was found where an item should be"))),
                tags::PIXEL_DATA if open.is_empty() => {
                    if !whole {
                        return Ok(found);
                    }
                    found.pixels = Some(match end {
                        Some(end) => Pixels::Native(start..end, kind == Some(*b"OW")),
                        None => fragments(bytes, start, inner)?,
                    });
                    // Only padding and signatures follow the pixels.
                    return Ok(found);
                }
                _ if end.is_none() || is_sequence => {
                    if open.len() >= 2 * MAX_DEPTH {
                        return Err(Failure::Nonsense(format!("its sequences are nested more than {MAX_DEPTH} deep")));
                    }
                    // A sequence of unknown type is always written without types, little-endian (PS3.5, 6.2.2).
                    let unknown = kind == Some(*b"UN");
                    let notation = if unknown { Notation { explicit: false, big_endian: false } } else { inner };
                    open.push(Open { sequence: Some(tag), parent: item, end, notation });
                }
                _ => {
                    let end = end.unwrap_or(start);
                    found.elements.push(Element { tag, item, place: start..end });
                    at = end;
                }
            }
        }
        // If only a part of the file was read, missing pixels may still follow.
        if !whole {
            return Err(Failure::TooShort);
        }
        if open.iter().any(|open| open.end.is_none()) {
            return Err(broken("a sequence does not end".to_owned()));
        }
        Ok(found)
    }

    /// The bytes of an element of an item (0 is the data set); `None` if it is missing or empty.
    pub(crate) fn bytes<'a>(&self, bytes: &'a [u8], item: usize, tag: Tag) -> Option<&'a [u8]> {
        let key = |at: &usize| (self.elements[*at].item, self.elements[*at].tag);
        let first = self.by_tag.partition_point(|at| key(at) < (item, tag));
        let element = &self.elements[*self.by_tag.get(first).filter(|at| key(at) == (item, tag))?];
        bytes.get(element.place.clone()).filter(|value| !value.is_empty())
    }

    /// The items of a sequence of an item, in order.
    pub(crate) fn items(&self, item: usize, sequence: Tag) -> &[usize] {
        let first = self.by_sequence.partition_point(|&at| self.items[at] < (sequence, item));
        let from_first = &self.by_sequence[first..];
        &from_first[..from_first.partition_point(|&at| self.items[at] == (sequence, item))]
    }

    /// The text of an element, without padding.
    pub(crate) fn text(&self, bytes: &[u8], item: usize, tag: Tag) -> Option<String> {
        let text = String::from_utf8_lossy(self.bytes(bytes, item, tag)?);
        let text = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The numbers in a text, separated by `\`.
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

/// The offset table and the fragments of compressed pixels. If a file is truncated between two fragments, the images before are kept.
fn fragments(bytes: &[u8], mut at: usize, notation: Notation) -> Result<Pixels, Failure> {
    let nonsense = |reason: &str| Failure::Nonsense(reason.to_owned());
    let mut places = Vec::new();
    while let Some(Head { tag: ITEM, length, start, .. }) = head_at(bytes, at, notation) {
        let end = start.checked_add(length as usize).filter(|end| *end <= bytes.len());
        let end = end.ok_or_else(|| nonsense("it is damaged or ends too early: its last fragment is cut off"))?;
        places.push(start..end);
        at = end;
    }
    if places.is_empty() {
        return Err(nonsense("its pixels have no fragments"));
    }
    let table = places.remove(0);
    Ok(Pixels::Fragments(table, places))
}
