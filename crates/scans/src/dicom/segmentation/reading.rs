//! Reads DICOM SEG as masks: which segment each pixel of an image is in.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use kindling_data::{DataError, MaskValues};

use super::{LABEL_MAP_SEGMENTATION_STORAGE, SEGMENTATION_STORAGE};
use crate::dicom::codec::Stored;
use crate::dicom::file::DicomFile;
use crate::dicom::header::Header;
use crate::dicom::present::described_in;
use crate::dicom::{codec, tags};

/// An image that a segmentation is of: its SOP Instance UID and, of several in one object, which, from 0.
type Source = (String, Option<usize>);

/// What the pixels of a frame are (PS3.3, C.8.20.2.3).
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Whether they are in the frame's segment.
    Binary,
    /// How probable it is that they are, or how much of them is, of so much.
    Fractional(i64),
    /// The number of their segment, or the number of the background where there is one.
    LabelMap(Option<u16>),
}

/// A DICOM SEG file whose frames have been matched to the images that they are of.
pub(crate) struct Segmentation {
    file: DicomFile,
    header: Header,
    kind: Kind,
    /// For each frame, the image that it is of (its place among `sources`) and its segment, 0 where its pixels name theirs.
    frames: Vec<(usize, u16)>,
    /// The images that frames are of, and those that are named and have none.
    sources: Sources,
    /// Numbers and labels of the segments, without a background.
    pub(crate) segments: Vec<(u16, String)>,
}

impl Segmentation {
    /// Whether a file is one, by its class. A label map is, too.
    pub(crate) fn is_in(file: &DicomFile) -> bool {
        let class = file.elements.text(&file.bytes, 0, tags::SOP_CLASS_UID);
        class.is_some_and(|class| [SEGMENTATION_STORAGE, LABEL_MAP_SEGMENTATION_STORAGE].contains(&class.as_str()))
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// [`DataError::Io`], and [`DataError::NotAMask`] with what is wrong with it.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let not_a_mask = |reason| DataError::NotAMask { path: path.to_owned(), reason };
        let file = DicomFile::open(path)?;
        Self::of(file).map_err(not_a_mask)
    }

    fn of(file: DicomFile) -> Result<Self, String> {
        let (elements, bytes) = (&file.elements, file.bytes.as_slice());
        if !Self::is_in(&file) {
            return Err("it is a DICOM file, but no segmentation (DICOM SEG)".to_owned());
        }
        let kind = Kind::of(&file)?;
        let header = file.header()?;
        let number = |item, tag| elements.words(bytes, item, tag).and_then(|words| words.first().copied());
        let mut segments = Vec::new();
        for &item in elements.items(0, tags::SEGMENT_SEQUENCE) {
            let number = number(item, tags::SEGMENT_NUMBER).ok_or("a segment has no number")?;
            segments.push((number, elements.text(bytes, item, tags::SEGMENT_LABEL).unwrap_or_default()));
        }
        if let Kind::LabelMap(background) = kind {
            // What is no segment has the number 0 here, and its name is not the file's to give.
            segments.retain(|(number, _)| *number != background.unwrap_or(0));
            if let Some((_, label)) = segments.iter().find(|(number, _)| *number == 0) {
                return Err(format!("its segment {label:?} has the number 0, which is the background here"));
            }
        }
        let described = elements.items(0, tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE).len();
        if described < header.frames {
            return Err(format!("it has {} frames and describes {described} of them", header.frames));
        }
        let (mut frames, mut sources) = (Vec::with_capacity(header.frames), Sources::default());
        for frame in 0..header.frames {
            let within = |sequence| {
                let [own, shared] = described_in(&file, frame, sequence);
                if own.is_empty() { shared } else { own }
            };
            let segment = match kind {
                Kind::LabelMap(_) => 0,
                Kind::Binary | Kind::Fractional(_) => {
                    let named = within(tags::SEGMENT_IDENTIFICATION_SEQUENCE).first();
                    let named = named.and_then(|item| number(*item, tags::REFERENCED_SEGMENT_NUMBER));
                    named.ok_or_else(|| format!("frame {} names no segment", frame + 1))?
                }
            };
            let derived = within(tags::DERIVATION_IMAGE_SEQUENCE).iter();
            let images: Vec<usize> =
                derived.flat_map(|item| elements.items(*item, tags::SOURCE_IMAGE_SEQUENCE)).copied().collect();
            let [image] = images.as_slice() else {
                return Err(format!(
                    "frame {} names {} images that it is of, and a mask is of one",
                    frame + 1,
                    if images.is_empty() { "no".to_owned() } else { images.len().to_string() }
                ));
            };
            let uid = elements.text(bytes, *image, tags::REFERENCED_SOP_INSTANCE_UID);
            let uid = uid.ok_or_else(|| format!("frame {} names its image without a UID", frame + 1))?;
            let of_several = match elements.decimals(bytes, *image, tags::REFERENCED_FRAME_NUMBER).as_deref() {
                None => None,
                Some([one]) if *one >= 1.0 && one.fract() == 0.0 => Some(*one as usize - 1),
                Some(_) => return Err(format!("frame {} is of several frames of its image", frame + 1)),
            };
            frames.push((sources.place_of((uid, of_several)), segment));
        }
        for &series in elements.items(0, tags::REFERENCED_SERIES_SEQUENCE) {
            for &instance in elements.items(series, tags::REFERENCED_INSTANCE_SEQUENCE) {
                if let Some(uid) = elements.text(bytes, instance, tags::REFERENCED_SOP_INSTANCE_UID) {
                    sources.place_of((uid, None));
                }
            }
        }
        Ok(Self { header, kind, frames, sources, segments, file })
    }

    /// The bytes that it takes in memory.
    pub(crate) fn size(&self) -> usize {
        self.file.bytes.len()
    }

    /// Width and height of each frame, in pixels.
    pub(crate) fn columns_and_rows(&self) -> (usize, usize) {
        (self.header.columns, self.header.rows)
    }

    /// The UIDs of the images that it is of.
    pub(crate) fn images(&self) -> BTreeSet<String> {
        self.sources.0.keys().map(|(uid, _)| uid.clone()).collect()
    }

    /// The number of the mask of an image: of the one in the object `uid`, or of its frame `of_several`. `None` if the segmentation is not
    /// of it.
    ///
    /// # Errors
    /// A sentence if it does not say which of several images its frames are of.
    pub(crate) fn mask_of(&self, uid: &str, of_several: Option<usize>) -> Result<Option<usize>, String> {
        let find = |frame: Option<usize>| self.sources.0.get(&(uid.to_owned(), frame)).copied();
        let whole = find(None);
        match (find(Some(of_several.unwrap_or(0))), of_several) {
            (Some(own), _) => Ok(Some(own)),
            (None, Some(_)) if whole.is_some_and(|whole| self.frames.iter().any(|(source, _)| *source == whole)) => {
                Err("its frames do not say which of the images in their file they are of".to_owned())
            }
            _ => Ok(whole),
        }
    }

    /// The segment of each pixel of a mask; 0 where there is none. Where pixels are shares of a segment they are in the one that has the
    /// largest, if that is at least half, and in the one with the smallest number where several have it.
    ///
    /// # Errors
    /// A sentence if there is no such mask, its pixels cannot be read or are none that the file describes, or two segments overlap.
    pub(crate) fn values(&self, mask: usize) -> Result<MaskValues, String> {
        if mask >= self.sources.0.len() {
            return Err(format!("it has no mask {mask}"));
        }
        let (width, height) = self.columns_and_rows();
        let mut values = vec![0; width * height];
        // The largest share that each pixel has of a segment.
        let mut shares = vec![0; if matches!(self.kind, Kind::Fractional(_)) { values.len() } else { 0 }];
        for (frame, &(_, segment)) in self.frames.iter().enumerate().filter(|(_, (source, _))| *source == mask) {
            let stored = codec::decode(&self.file, &self.header, frame)?;
            let added = match self.kind {
                Kind::Binary => add_binary(&mut values, &stored, segment),
                Kind::Fractional(most) => add_shares((&mut values, &mut shares), &stored, segment, most),
                Kind::LabelMap(background) => self.add_numbers(&mut values, &stored, background.unwrap_or(0)),
            };
            added.map_err(|reason| format!("frame {}: {reason}", frame + 1))?;
        }
        Ok(MaskValues { width, height, values })
    }

    /// Puts the numbers of a label map's pixels; `background` is 0 here.
    fn add_numbers(&self, values: &mut [u16], stored: &Stored, background: u16) -> Result<(), String> {
        let mut known: BTreeSet<i64> = self.segments.iter().map(|(number, _)| i64::from(*number)).collect();
        known.insert(i64::from(background));
        for (value, found) in values.iter_mut().zip(stored.values()) {
            let number = u16::try_from(found).ok().filter(|_| known.contains(&found));
            let number = number.ok_or_else(|| format!("a pixel is {found}, and no segment has this number"))?;
            if number != background {
                *value = number;
            }
        }
        Ok(())
    }
}

impl Kind {
    /// What a file says of itself.
    fn of(file: &DicomFile) -> Result<Self, String> {
        let (elements, bytes) = (&file.elements, file.bytes.as_slice());
        match elements.text(bytes, 0, tags::SEGMENTATION_TYPE).as_deref() {
            Some("BINARY") => Ok(Self::Binary),
            Some("FRACTIONAL") => match elements.number(bytes, tags::MAXIMUM_FRACTIONAL_VALUE) {
                Some(most) if most > 0 => Ok(Self::Fractional(i64::from(most))),
                Some(_) => Err("the largest of its fractional values is 0".to_owned()),
                None => Err("it does not say how large its fractional values can be".to_owned()),
            },
            Some("LABELMAP") => Ok(Self::LabelMap(elements.number(bytes, tags::PIXEL_PADDING_VALUE))),
            Some(other) => {
                Err(format!("it is a segmentation of the kind {other}, and BINARY, FRACTIONAL and LABELMAP are read"))
            }
            None => Err("it does not say of what kind its segmentation is".to_owned()),
        }
    }
}

/// Puts a segment where its bits are set.
fn add_binary(values: &mut [u16], stored: &Stored, segment: u16) -> Result<(), String> {
    for (value, _) in values.iter_mut().zip(stored.values()).filter(|(_, bit)| *bit != 0) {
        if *value != 0 && *value != segment {
            return Err(format!("its segments {value} and {segment} overlap, and a pixel has one class here"));
        }
        *value = segment;
    }
    Ok(())
}

/// Puts a segment where its share is at least half of `most` and larger than those before it.
fn add_shares(
    (values, shares): (&mut [u16], &mut [i64]),
    stored: &Stored,
    segment: u16,
    most: i64,
) -> Result<(), String> {
    for ((value, largest), share) in values.iter_mut().zip(shares).zip(stored.values()) {
        if !(0..=most).contains(&share) {
            return Err(format!("a pixel is {share}, and its values lie between 0 and {most}"));
        }
        let is_first = share == *largest && segment < *value;
        if 2 * share >= most && (share > *largest || is_first) {
            (*value, *largest) = (segment, share);
        }
    }
    Ok(())
}

/// Images in the order in which they are named.
#[derive(Default)]
struct Sources(HashMap<Source, usize>);

impl Sources {
    /// The place of an image, which is added if it is new.
    fn place_of(&mut self, source: Source) -> usize {
        let new = self.0.len();
        *self.0.entry(source).or_insert(new)
    }
}
