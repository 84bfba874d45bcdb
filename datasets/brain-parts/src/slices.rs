//! Slices of heads as a source of images with masks.

use kindling_data::{DataError, Image, Mask, Slice, Source};
use kindling_scans::nifti::blocks::{Part, part, spread};

use crate::heads::Heads;
use crate::moved::{self, EVERY, POSES};

/// What a sample is.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    volume: usize,
    index: usize,
    /// How the head was moved; none where it lies as the atlas has it.
    pose: Option<usize>,
    /// The classes of its mask.
    present: Vec<usize>,
}

/// Axial slices of some heads, cut when read.
#[derive(Debug)]
pub(crate) struct Slices {
    heads: Heads,
    places: Vec<Place>,
    /// The distance of the slices of a head, mm, where they are scored together.
    apart: Option<f64>,
}

impl Slices {
    /// The slices of all heads that belong to a part by their position. Those to learn from are images, and nothing else; others are
    /// scored head by head.
    pub(crate) fn at_rest(heads: &Heads, wanted: Part) -> Self {
        let slices: Vec<usize> =
            heads.shown().into_iter().filter(|index| part(heads.position(*index)) == wanted).collect();
        let of_volume = |volume: usize| slices.iter().map(move |&index| (volume, index, None));
        let places = (0..heads.volumes.len()).flat_map(of_volume).collect();
        Self::of(heads, places, (wanted != Part::Train).then(|| heads.apart()))
    }

    /// The slices of all heads in every pose: of each pose a share of them, so that all together show everything.
    pub(crate) fn moved(heads: &Heads) -> Self {
        let slices = heads.shown();
        let in_pose = |pose: usize| {
            let is_in = move |index: &usize| index % EVERY == pose % EVERY;
            let volumes = move |index: usize| (0..heads.volumes.len()).map(move |volume| (volume, index, Some(pose)));
            slices.iter().copied().filter(is_in).flat_map(volumes)
        };
        let places = (0..POSES).flat_map(in_pose).collect();
        Self::of(heads, places, Some(EVERY as f64 * heads.apart()))
    }

    fn of(heads: &Heads, places: Vec<(usize, usize, Option<usize>)>, apart: Option<f64>) -> Self {
        let place = |(volume, index, pose)| Place { volume, index, pose, present: mask(heads, index, pose).present() };
        let places = spread(places.into_iter().map(place).collect());
        Self { heads: heads.clone(), places, apart }
    }

    fn place(&self, index: usize) -> Result<&Place, DataError> {
        self.places.get(index).ok_or(DataError::OutOfRange { index, len: self.places.len() })
    }

    /// What the volume of a sample is called: each pose has a name of its own.
    fn head(&self, place: &Place) -> String {
        let name = self.heads.volumes[place.volume].name();
        place.pose.map_or_else(|| name.to_owned(), |pose| format!("{name}-{:02}", pose + 1))
    }
}

/// The mask of a slice, in a pose if there is one.
fn mask(heads: &Heads, index: usize, pose: Option<usize>) -> Mask {
    let mask = heads.mask(index);
    match pose {
        Some(pose) => moved::mask(mask, pose),
        None => mask,
    }
}

impl Source for Slices {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn label(&self, _index: usize) -> usize {
        0
    }

    fn labels(&self, index: usize) -> Vec<usize> {
        self.places[index].present.clone()
    }

    /// The head, of what is scored. Training slices have none: they are of the person that validation is of, whose slices are parted on
    /// purpose.
    fn group(&self, index: usize) -> Option<String> {
        self.apart.map(|_| self.head(&self.places[index]))
    }

    fn slice(&self, index: usize) -> Result<Option<Slice>, DataError> {
        let place = self.place(index)?;
        Ok(self.apart.map(|apart| Slice {
            volume: Some(self.head(place)),
            position: self.heads.position(place.index),
            normal: [0.0, 0.0, 1.0],
            apart: Some(apart),
            pixel: self.heads.pixel(),
        }))
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        let &Place { volume, index, pose, .. } = self.place(index)?;
        let image = self.heads.image(volume, index);
        Ok(match pose {
            Some(pose) => moved::image(image, pose),
            None => image,
        })
    }

    fn read_mask(&self, index: usize) -> Result<Mask, DataError> {
        let &Place { index, pose, .. } = self.place(index)?;
        Ok(mask(&self.heads, index, pose))
    }

    fn usual_mask(&self, index: usize) -> Result<Option<Mask>, DataError> {
        Ok(Some(self.heads.mask(self.place(index)?.index)))
    }

    fn name_of(&self, index: usize) -> String {
        let place = &self.places[index];
        format!("{}/axial/z={:.1}mm", self.head(place), self.heads.position(place.index))
    }
}
