//! Slices of volumes as a source of labelled images.

use std::sync::Arc;

use kindling_data::{DataError, Image, Source};
use kindling_scans::nifti::blocks::spread;
use kindling_scans::nifti::{AXIS_NAMES, Plane, Volume};

/// Slices with less foreground are left out, because the tips of the head look alike in every plane.
const LEAST_FOREGROUND: f64 = 0.1;

/// The position of a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    volume: usize,
    plane: Plane,
    index: usize,
}

/// Slices of some volumes, cut when read.
#[derive(Debug)]
pub(crate) struct Slices {
    volumes: Arc<[Volume]>,
    places: Vec<Place>,
}

impl Slices {
    /// The slices of all volumes in all three planes that have enough foreground and whose position along the normal of the plane, in mm,
    /// is `wanted`. `foregrounds` belong to the volumes.
    pub(crate) fn of(volumes: &Arc<[Volume]>, foregrounds: &[[Vec<f64>; 3]], wanted: impl Fn(f64) -> bool) -> Self {
        let mut places = Vec::new();
        for (number, (volume, shares)) in volumes.iter().zip(foregrounds).enumerate() {
            for plane in Plane::ALL {
                let slices = shares[plane.normal()].iter().enumerate();
                let kept = slices.filter(|(index, share)| {
                    **share >= LEAST_FOREGROUND && wanted(volume.normal(plane).position(*index))
                });
                places.extend(kept.map(|(index, _)| Place { volume: number, plane, index }));
            }
        }
        Self { volumes: Arc::clone(volumes), places: spread(places) }
    }
}

impl Source for Slices {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn label(&self, index: usize) -> usize {
        self.places[index].plane.label()
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        let place = self.places.get(index).ok_or(DataError::OutOfRange { index, len: self.places.len() })?;
        Ok(self.volumes[place.volume].slice(place.plane, place.index))
    }

    fn name_of(&self, index: usize) -> String {
        let Place { volume, plane, index } = self.places[index];
        let volume = &self.volumes[volume];
        let position = volume.normal(plane).position(index);
        format!("{}/{}/{}={position:.1}mm", volume.name(), plane.name(), AXIS_NAMES[plane.normal()])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use kindling_scans::nifti::synthetic::Nifti;

    /// 10 x 10 x 10 voxels, bright below z = 5.
    fn half_full() -> (Arc<[Volume]>, Vec<[Vec<f64>; 3]>) {
        let volumes: Arc<[Volume]> = [Nifti::of([10, 10, 10], |[_, _, z]| if z < 5 { 200 } else { 0 }).read()].into();
        let foregrounds = volumes.iter().map(Volume::foreground).collect();
        (volumes, foregrounds)
    }

    #[test]
    fn nearly_empty_slices_are_left_out() {
        let (volumes, foregrounds) = half_full();
        let slices = Slices::of(&volumes, &foregrounds, |_| true);
        let count = |label| (0..slices.len()).filter(|&index| slices.label(index) == label).count();
        assert_eq!([count(0), count(1), count(2)], [10, 10, 5]);
    }

    #[test]
    fn every_slice_has_its_own_name_and_its_plane_as_label() {
        let (volumes, foregrounds) = half_full();
        let slices = Slices::of(&volumes, &foregrounds, |_| true);
        let names: BTreeSet<String> = (0..slices.len()).map(|index| slices.name_of(index)).collect();
        assert_eq!(names.len(), slices.len());
        assert!(names.contains("a/axial/z=-40.0mm"), "{names:?}");
        for index in 0..slices.len() {
            let class = crate::CLASSES[slices.label(index)];
            assert!(slices.name_of(index).contains(class));
            assert_eq!(slices.read(index).unwrap(), slices.read(index).unwrap());
        }
        assert!(matches!(slices.read(25), Err(DataError::OutOfRange { index: 25, len: 25 })));
    }

    #[test]
    fn positions_choose_the_slices() {
        let (volumes, foregrounds) = half_full();
        let slices = Slices::of(&volumes, &foregrounds, |position| position < -38.5);
        assert_eq!(slices.len(), 6);
    }
}
