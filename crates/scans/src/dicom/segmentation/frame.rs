//! How a segmentation describes its frames: functional groups and dimensions (PS3.3, C.7.6.16 and C.7.6.17).

use super::series::{Series, SourceImage};
use crate::dicom::tags::{self, Tag};
use crate::dicom::written::DataSet;

/// Which functional groups the frames of a series have, and which of them are the same for all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups {
    is_in_space: bool,
    same_orientation: bool,
    same_measures: bool,
}

impl Groups {
    pub(super) fn of(series: &Series) -> Self {
        let same =
            |of: &dyn Fn(&SourceImage) -> Vec<u8>| series.images.windows(2).all(|pair| of(&pair[0]) == of(&pair[1]));
        Self {
            is_in_space: series.is_in_space(),
            same_orientation: same(&|image| image.place.orientation.clone().unwrap_or_default()),
            same_measures: same(&|image| measures(image).encode()),
        }
    }

    /// What all frames have in common.
    pub(super) fn shared(self, series: &Series) -> DataSet {
        let mut group = DataSet::default();
        if let (true, Some(first)) = (self.is_in_space, series.images.first()) {
            self.set(&mut group, first, (self.same_orientation, self.same_measures));
        }
        group
    }

    /// Sets the orientation and the size of pixels, if they are asked for.
    fn set(self, group: &mut DataSet, image: &SourceImage, (orientation, sizes): (bool, bool)) {
        if orientation {
            let value = &image.place.orientation;
            set_value(group, tags::PLANE_ORIENTATION_SEQUENCE, tags::IMAGE_ORIENTATION, value);
        }
        if sizes {
            group.items(tags::PIXEL_MEASURES_SEQUENCE, vec![measures(image)]);
        }
    }
}

/// A frame: where one segment is in one image.
pub(super) struct Plane<'a> {
    pub(super) segment: u16,
    /// Which of the positions of the series the image has, from 1.
    pub(super) position: u32,
    pub(super) image: &'a SourceImage,
}

impl Plane<'_> {
    /// Its functional groups, but for those that all frames share.
    pub(super) fn group(&self, groups: Groups) -> DataSet {
        let mut group = DataSet::default();
        let mut content = DataSet::default();
        let indices = [u32::from(self.segment), self.position];
        content.numbers(tags::DIMENSION_INDEX_VALUES, if groups.is_in_space { &indices } else { &indices[..1] });
        group.items(tags::FRAME_CONTENT_SEQUENCE, vec![content]);
        let mut segment = DataSet::default();
        segment.number(tags::REFERENCED_SEGMENT_NUMBER, self.segment);
        group.items(tags::SEGMENT_IDENTIFICATION_SEQUENCE, vec![segment]);
        group.items(tags::DERIVATION_IMAGE_SEQUENCE, vec![derivation(self.image)]);
        if groups.is_in_space {
            set_value(&mut group, tags::PLANE_POSITION_SEQUENCE, tags::IMAGE_POSITION, &self.image.place.position);
            groups.set(&mut group, self.image, (!groups.same_orientation, !groups.same_measures));
        }
        group
    }
}

/// Which image a frame is of.
fn derivation(image: &SourceImage) -> DataSet {
    let mut source = instance(&image.class, &image.instance);
    if let Some(frame) = image.part.frame {
        source.text(tags::REFERENCED_FRAME_NUMBER, b"IS", &(frame + 1).to_string());
    }
    source.text(tags::SPATIAL_LOCATIONS_PRESERVED, b"CS", "YES");
    let purpose = code("121322", "DCM", "Source image for image processing operation");
    source.items(tags::PURPOSE_SEQUENCE, vec![purpose]);
    let mut derivation = DataSet::default();
    derivation.items(tags::SOURCE_IMAGE_SEQUENCE, vec![source]);
    derivation.items(tags::DERIVATION_CODE_SEQUENCE, vec![code("113076", "DCM", "Segmentation")]);
    derivation
}

/// The size of the pixels of an image.
fn measures(image: &SourceImage) -> DataSet {
    let mut measures = DataSet::default();
    let place = &image.place;
    for (tag, value) in [
        (tags::PIXEL_SPACING, &place.spacing),
        (tags::SLICE_THICKNESS, &place.thickness),
        (tags::SPACING_BETWEEN_SLICES, &place.between),
    ] {
        if let Some(value) = value {
            measures.bytes(tag, b"DS", value.as_slice());
        }
    }
    measures
}

/// A sequence of one item with one value.
fn set_value(group: &mut DataSet, sequence: Tag, tag: Tag, value: &Option<Vec<u8>>) {
    if let Some(value) = value {
        let mut item = DataSet::default();
        item.bytes(tag, b"DS", value.as_slice());
        group.items(sequence, vec![item]);
    }
}

/// A reference to an object.
pub(super) fn instance(class: &str, instance: &str) -> DataSet {
    let mut item = DataSet::default();
    item.text(tags::REFERENCED_SOP_CLASS_UID, b"UI", class);
    item.text(tags::REFERENCED_SOP_INSTANCE_UID, b"UI", instance);
    item
}

/// A code with the scheme that it is of and its meaning.
pub(super) fn code(value: &str, scheme: &str, meaning: &str) -> DataSet {
    let mut item = DataSet::default();
    item.text(tags::CODE_VALUE, b"SH", value);
    item.text(tags::CODING_SCHEME, b"SH", scheme);
    item.text(tags::CODE_MEANING, b"LO", meaning);
    item
}

/// The images in the order of their positions, and for each image which position it has, from 1. Images that say nothing of where they are
/// keep their order.
pub(super) fn order(series: &Series) -> (Vec<usize>, Vec<u32>) {
    let along: Vec<f64> = series.images.iter().map(|image| image.place.along_normal().unwrap_or(0.0)).collect();
    let mut order: Vec<usize> = (0..along.len()).collect();
    order.sort_by(|one, other| along[*one].total_cmp(&along[*other]));
    let (mut positions, mut position) = (vec![1; along.len()], 1);
    for pair in order.windows(2) {
        position += u32::from(along[pair[0]] != along[pair[1]]);
        positions[pair[1]] = position;
    }
    (order, positions)
}

/// Sets what the numbers of a frame count: its segment and, in space, its position.
pub(super) fn set_dimensions(data_set: &mut DataSet, organization: &str, is_in_space: bool) {
    let mut named = DataSet::default();
    named.text(tags::DIMENSION_ORGANIZATION_UID, b"UI", organization);
    let index = |pointer, group, label: &str| {
        let mut index = named.clone();
        index.pointer(tags::DIMENSION_INDEX_POINTER, pointer);
        index.pointer(tags::FUNCTIONAL_GROUP_POINTER, group);
        index.text(tags::DIMENSION_LABEL, b"LO", label);
        index
    };
    let segment = index(tags::REFERENCED_SEGMENT_NUMBER, tags::SEGMENT_IDENTIFICATION_SEQUENCE, "Segment Number");
    let mut indices = vec![segment];
    if is_in_space {
        indices.push(index(tags::IMAGE_POSITION, tags::PLANE_POSITION_SEQUENCE, "Image Position"));
    }
    data_set.items(tags::DIMENSION_ORGANIZATION_SEQUENCE, vec![named]);
    data_set.items(tags::DIMENSION_INDEX_SEQUENCE, indices);
}
