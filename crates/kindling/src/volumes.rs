//! Masks of slices, put together to the volumes that they are of.

use std::collections::BTreeMap;

use kindling_data::{IGNORED, Mask, Source, Stack};
use kindling_trainer::TrainError;
use serde::{Deserialize, Serialize};

use crate::mask_runs::MaskRuns;

/// Volumes of which masks come slice by slice, in any order. Masks are kept as runs of equal classes, and those of a volume no longer than
/// until all of them are there.
pub(crate) struct Volumes {
    stacks: Vec<Stack>,
    /// The volume that each sample is a slice of; none if its file cannot be read.
    of_sample: Vec<Option<usize>>,
    /// How many slices of each volume are still to come.
    missing: Vec<usize>,
    masks: BTreeMap<u64, MaskRuns>,
}

/// What was said of a volume, and what is true: the class of every voxel, plane by plane.
pub(crate) struct Volume {
    /// Planes, rows, columns.
    pub(crate) shape: [usize; 3],
    pub(crate) prediction: Vec<u8>,
    pub(crate) truth: Vec<u8>,
    /// The sample with the most of anything but background, by the truth; of equals the one nearest to the middle of the stack.
    pub(crate) fullest: usize,
}

impl Volumes {
    /// Volumes of which no mask is there yet, of a source with so many samples.
    pub(crate) fn new(stacks: Vec<Stack>, samples: usize) -> Self {
        let mut of_sample = vec![None; samples];
        for (volume, stack) in stacks.iter().enumerate() {
            stack.samples.iter().for_each(|&sample| of_sample[sample] = Some(volume));
        }
        let missing = stacks.iter().map(|stack| stack.samples.len()).collect();
        Self { stacks, of_sample, missing, masks: BTreeMap::new() }
    }

    /// A volume by its number.
    pub(crate) fn stack(&self, volume: usize) -> &Stack {
        &self.stacks[volume]
    }

    /// The volume that a sample is a slice of.
    pub(crate) fn stack_of(&self, sample: usize) -> Option<&Stack> {
        self.of_sample[sample].map(|volume| &self.stacks[volume])
    }

    /// How many volumes there are.
    pub(crate) fn count(&self) -> usize {
        self.stacks.len()
    }

    /// Adds the mask of a sample. Returns the number of its volume if nothing of that is missing any more.
    pub(crate) fn add(&mut self, sample: u64, mask: &Mask) -> Option<usize> {
        self.add_runs(sample, MaskRuns::of(mask))
    }

    fn add_runs(&mut self, sample: u64, runs: MaskRuns) -> Option<usize> {
        let volume = self.of_sample[sample as usize]?;
        if self.masks.insert(sample, runs).is_none() {
            self.missing[volume] -= 1;
        }
        (self.missing[volume] == 0).then_some(volume)
    }

    /// The masks of volumes that are not complete, as processes tell each other.
    pub(crate) fn rest(&mut self) -> Rest {
        Rest(std::mem::take(&mut self.masks).into_iter().collect())
    }

    /// Adds what is left of all processes, in their order. Returns the numbers of the volumes that are complete now.
    pub(crate) fn complete(&mut self, rests: Vec<Rest>) -> Vec<usize> {
        // Each process has counted its own already.
        for (volume, stack) in self.stacks.iter().enumerate() {
            if self.missing[volume] > 0 {
                self.missing[volume] = stack.samples.len();
            }
        }
        rests.into_iter().flat_map(|rest| rest.0).filter_map(|(sample, runs)| self.add_runs(sample, runs)).collect()
    }

    /// Takes a volume that is complete, with the truth of its slices.
    ///
    /// # Errors
    /// If a mask cannot be read, or slices are of several sizes.
    pub(crate) fn take(&mut self, volume: usize, source: &dyn Source) -> Result<Volume, TrainError> {
        let stack = &self.stacks[volume];
        let mut found: Option<Volume> = None;
        let mut most = None;
        for (at, (&sample, &plane)) in stack.samples.iter().zip(&stack.planes).enumerate() {
            let truth = source.read_mask(sample)?;
            let [height, width] = [truth.height, truth.width];
            let area = width * height;
            let whole = found.get_or_insert_with(|| Volume {
                shape: [stack.depth(), height, width],
                prediction: vec![0; stack.depth() * area],
                truth: vec![0; stack.depth() * area],
                fullest: sample,
            });
            if whole.shape[1..] != [height, width] {
                let [_, rows, columns] = whole.shape;
                return Err(TrainError::Config(format!(
                    "the slices of {} are of several sizes, {columns} x {rows} and {width} x {height}, and not one volume; --by-slice scores \
                     each by itself",
                    stack.name
                )));
            }
            let places = plane * area..(plane + 1) * area;
            let runs = self.masks.remove(&(sample as u64));
            runs.iter().for_each(|runs| runs.write(&mut whole.prediction[places.clone()]));
            whole.truth[places].copy_from_slice(&truth.classes);
            let marked = truth.classes.iter().filter(|class| !matches!(**class, 0 | IGNORED)).count();
            let rank = (marked, usize::MAX - (2 * at + 1).abs_diff(stack.samples.len()));
            if most.is_none_or(|most| rank > most) {
                (most, whole.fullest) = (Some(rank), sample);
            }
        }
        found.ok_or_else(|| TrainError::Config(format!("{} has no slices", stack.name)))
    }
}

/// Masks of volumes that a process has only a part of.
#[derive(Serialize, Deserialize)]
pub(crate) struct Rest(Vec<(u64, MaskRuns)>);

#[cfg(test)]
mod tests {
    use kindling_data::{DataError, Image};

    use super::*;

    /// Masks of 3 x 2 pixels, all of whose pixels are of the class of their index, but for a corner.
    struct Masks;

    fn mask(index: usize) -> Mask {
        let mut mask = Mask::filled(3, 2, index as u8);
        mask.classes[5] = 0;
        mask
    }

    impl Source for Masks {
        fn len(&self) -> usize {
            4
        }
        fn label(&self, _: usize) -> usize {
            0
        }
        fn read(&self, index: usize) -> Result<Image, DataError> {
            Err(DataError::OutOfRange { index, len: 0 })
        }
        fn read_mask(&self, index: usize) -> Result<Mask, DataError> {
            Ok(mask(index))
        }
        fn name_of(&self, index: usize) -> String {
            index.to_string()
        }
    }

    fn volumes() -> Volumes {
        let stack = |name: &str, samples: &[usize], planes: &[usize]| {
            let (samples, planes) = (samples.to_vec(), planes.to_vec());
            Stack { name: name.to_owned(), samples, planes, spacing: [1.0; 3] }
        };
        Volumes::new(vec![stack("a", &[3, 1], &[0, 2]), stack("b", &[2, 0], &[0, 1])], 4)
    }

    fn planes(classes: &[u8]) -> Vec<u8> {
        classes.iter().flat_map(|class| [*class, *class, *class, *class, *class, 0]).collect()
    }

    #[test]
    fn a_volume_is_there_when_its_last_slice_is_and_lies_as_its_stack_says() {
        let mut volumes = volumes();
        assert_eq!((volumes.add(0, &mask(2)), volumes.add(1, &mask(7))), (None, None));
        assert_eq!(volumes.add(3, &mask(9)), Some(0));
        let Ok(found) = volumes.take(0, &Masks) else { panic!("it is complete") };
        assert_eq!(found.shape, [3, 2, 3]);
        assert_eq!((found.prediction, found.truth), (planes(&[9, 0, 7]), planes(&[3, 0, 1])));
        assert_eq!(volumes.masks.len(), 1, "what was taken is gone");
        assert_eq!(found.fullest, 3, "both have as many pixels, and lie as near to the middle: the first");
        assert_eq!(volumes.add(2, &mask(1)), Some(1));
        let Ok(found) = volumes.take(1, &Masks) else { panic!("it is complete") };
        assert_eq!(found.fullest, 2, "the mask of sample 0 is empty");
    }

    #[test]
    fn what_several_processes_have_of_a_volume_is_put_together_alike_by_all() {
        let mut of_processes = [volumes(), volumes(), volumes()];
        for (process, sample) in [(0, 0), (1, 1), (2, 3)] {
            assert_eq!(of_processes[process].add(sample, &mask(sample as usize)), None);
        }
        let rests = |volumes: &mut [Volumes; 3]| -> String {
            serde_json::to_string(&volumes.each_mut().map(Volumes::rest)).unwrap_or_default()
        };
        let told = rests(&mut of_processes);
        for volumes in &mut of_processes {
            let Ok(rests) = serde_json::from_str::<Vec<Rest>>(&told) else { panic!("{told}") };
            assert_eq!(volumes.complete(rests), [0], "of the other a slice is missing");
            let Ok(found) = volumes.take(0, &Masks) else { panic!("it is complete") };
            assert_eq!(found.prediction, found.truth);
        }
    }
}
