//! The volumes that samples are slices of.

use std::collections::HashMap;

use super::Source;

/// How far a slice may lie from where an even stack has it, as a share of the distance between slices.
const UNEVEN: f64 = 0.1;
/// How much the sizes of pixels may differ, as a share, and the parts of a unit normal.
const ALIKE: f64 = 1e-3;

/// Where a sample lies in a volume, of which it is a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The name of the volume, where it is not that of the file.
    pub volume: Option<String>,
    /// How far along the normal it lies, mm.
    pub position: f64,
    /// The direction in which slices are stacked, of length 1.
    pub normal: [f64; 3],
    /// Distance of neighbouring slices, mm, if the file says it of the whole volume. Otherwise it follows from the positions.
    pub apart: Option<f64>,
    /// Distance of neighbouring rows and of neighbouring columns, mm.
    pub pixel: [f64; 2],
}

/// The slices of a volume, in the order in which they lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// The name of the volume within its data set.
    pub name: String,
    /// Indices of the slices in their source.
    pub samples: Vec<usize>,
    /// The plane of the volume that each of them is, from 0; planes that are left out are skipped.
    pub planes: Vec<usize>,
    /// Distances of neighbouring planes, rows and columns, mm.
    pub spacing: [f64; 3],
}

impl Stack {
    /// The number of planes, those that are left out among them.
    pub fn depth(&self) -> usize {
        self.planes.last().map_or(0, |last| last + 1)
    }
}

/// Whether the samples of a source are slices of volumes.
#[derive(Clone, Debug, PartialEq)]
pub enum Stacked {
    /// Every sample is a slice of one of these, which are in the order of their first samples.
    Volumes(Vec<Stack>),
    /// None of them is.
    No,
    /// Some are, but they cannot all be put together: why, as a sentence without a full stop.
    Not(String),
}

impl Stacked {
    /// Finds the volumes of a source. A sample whose header cannot be read is a slice of none: whoever reads it learns why.
    pub fn of(source: &dyn Source) -> Self {
        let slices: Vec<_> = (0..source.len()).map(|index| source.slice(index)).collect();
        if !slices.iter().any(|slice| matches!(slice, Ok(Some(_)))) {
            return Self::No;
        }
        if let Some(alone) = slices.iter().position(|slice| matches!(slice, Ok(None))) {
            return Self::Not(format!("nothing says where {} lies in a volume", source.name_of(alone)));
        }
        // Whoever parts slices from each other wants them alone.
        if let Some(parted) = (0..source.len()).find(|&index| source.group(index).is_none()) {
            let name = source.name_of(parted);
            return Self::Not(format!("{name} belongs to no group, so its volume may be in several splits"));
        }
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut volumes: Vec<(&str, Vec<(usize, &Slice)>)> = Vec::new();
        for (index, slice) in slices.iter().enumerate() {
            let Ok(Some(slice @ Slice { volume: Some(name), .. })) = slice else { continue };
            let number = *numbers.entry(name).or_insert_with(|| {
                volumes.push((name, Vec::new()));
                volumes.len() - 1
            });
            volumes[number].1.push((index, slice));
        }
        // Images that are the only ones of their series are images, wherever they lie.
        if volumes.iter().all(|(_, slices)| matches!(slices.as_slice(), [(_, Slice { apart: None, .. })])) {
            return Self::No;
        }
        let mut stacks = Vec::with_capacity(volumes.len());
        for (name, slices) in volumes {
            match stack(name, slices) {
                Ok(stack) => stacks.push(stack),
                Err(reason) => return Self::Not(format!("the slices of {name} {reason}")),
            }
        }
        Self::Volumes(stacks)
    }
}

/// Puts the slices of a volume in order, or says what is wrong with them in words that follow "the slices".
fn stack(name: &str, mut slices: Vec<(usize, &Slice)>) -> Result<Stack, &'static str> {
    slices.sort_by(|(_, one), (_, other)| one.position.total_cmp(&other.position));
    let Some(&(_, first)) = slices.first() else { return Err("are none") };
    let near = |one: f64, other: f64, unit: f64| (one - other).abs() <= ALIKE * unit;
    let alike = |slice: &Slice| {
        (0..3).all(|axis| near(slice.normal[axis], first.normal[axis], 1.0))
            && (0..2).all(|axis| near(slice.pixel[axis], first.pixel[axis], first.pixel[axis]))
    };
    if !slices.iter().all(|(_, slice)| alike(slice)) {
        return Err("do not lie in one direction with pixels of one size");
    }
    let positions: Vec<f64> = slices.iter().map(|(_, slice)| slice.position).collect();
    let apart = match first.apart.or_else(|| distance(&positions)) {
        Some(apart) if apart > 0.0 && apart.is_finite() => apart,
        _ => return Err("lie on top of each other"),
    };
    let mut planes = Vec::with_capacity(positions.len());
    for position in &positions {
        let place = (position - first.position) / apart;
        if (place - place.round()).abs() > UNEVEN {
            return Err("lie at uneven distances");
        }
        planes.push(place.round() as usize);
    }
    if planes.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("lie on top of each other");
    }
    // Files of a volume leave out what shows nothing; of images in files of their own one that lacks was lost.
    if first.apart.is_none() && planes.last() != Some(&(planes.len() - 1)) {
        return Err("are not all there");
    }
    let [rows, columns] = first.pixel;
    Ok(Stack {
        name: name.to_owned(),
        samples: slices.iter().map(|(index, _)| *index).collect(),
        planes,
        spacing: [apart, rows, columns],
    })
}

/// The distance of neighbours of an even stack: that of its ends, by the number of steps of the smallest distance.
fn distance(positions: &[f64]) -> Option<f64> {
    if positions.len() == 1 {
        // Of a single plane it means nothing: all distances lie in it.
        return Some(1.0);
    }
    let smallest = positions.windows(2).map(|pair| pair[1] - pair[0]).min_by(f64::total_cmp)?;
    let whole = positions.last()? - positions.first()?;
    let steps = (whole / smallest).round();
    (steps.is_finite() && steps >= 1.0).then(|| whole / steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Image;
    use crate::error::DataError;

    /// Samples that are slices, or not.
    struct Slices(Vec<Option<Slice>>);

    impl Source for Slices {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn label(&self, _: usize) -> usize {
            0
        }
        fn group(&self, _: usize) -> Option<String> {
            Some("patient".to_owned())
        }
        fn slice(&self, index: usize) -> Result<Option<Slice>, DataError> {
            Ok(self.0[index].clone())
        }
        fn read(&self, index: usize) -> Result<Image, DataError> {
            Err(DataError::OutOfRange { index, len: 0 })
        }
        fn name_of(&self, index: usize) -> String {
            format!("slice {index}")
        }
    }

    fn slice(volume: &str, position: f64) -> Option<Slice> {
        let (volume, normal) = (Some(volume.to_owned()), [0.0, 0.0, 1.0]);
        Some(Slice { volume, position, normal, apart: None, pixel: [0.5, 0.7] })
    }

    fn of(slices: Vec<Option<Slice>>) -> Stacked {
        Stacked::of(&Slices(slices))
    }

    #[test]
    fn slices_are_put_in_the_order_in_which_they_lie_whatever_their_order() {
        let slices = vec![
            slice("b", 7.5),
            slice("a", -2.0),
            slice("b", 2.5),
            slice("a", -6.004),
            slice("b", 5.0),
            slice("a", -3.999),
        ];
        let Stacked::Volumes(stacks) = of(slices) else { panic!("they are volumes") };
        let names: Vec<&str> = stacks.iter().map(|stack| stack.name.as_str()).collect();
        assert_eq!(names, ["b", "a"], "in the order of their first samples");
        assert_eq!((&stacks[0].samples, &stacks[0].planes), (&vec![2, 4, 0], &vec![0, 1, 2]));
        assert_eq!((&stacks[1].samples, stacks[1].depth()), (&vec![3, 5, 1], 3));
        assert_eq!(stacks[0].spacing, [2.5, 0.5, 0.7]);
        assert!((stacks[1].spacing[0] - 2.002).abs() < 1e-9, "rounding of positions is spread");
    }

    #[test]
    fn planes_that_a_volume_leaves_out_stay_empty() {
        let known = |position| slice("a", position).map(|slice| Slice { apart: Some(2.0), ..slice });
        let Stacked::Volumes(stacks) = of(vec![known(4.0), known(6.0), known(12.0)]) else { panic!("it is a volume") };
        assert_eq!((&stacks[0].planes, stacks[0].depth(), stacks[0].spacing[0]), (&vec![0, 1, 4], 5, 2.0));
        let Stacked::Volumes(one) = of(vec![known(4.0)]) else { panic!("it is a volume") };
        assert_eq!(one[0].depth(), 1);
        let mixed = of(vec![slice("a", 0.0), slice("b", 3.0), slice("b", 5.0)]);
        let Stacked::Volumes(mixed) = mixed else { panic!("they are volumes") };
        assert_eq!(mixed.iter().map(Stack::depth).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_is_no_even_stack_is_said() {
        assert_eq!(of(vec![None, None]), Stacked::No);
        assert_eq!(of(vec![slice("a", 0.0), slice("b", 0.0)]), Stacked::No, "series of one image each");
        let turned = slice("a", 3.0).map(|slice| Slice { normal: [1.0, 0.0, 0.0], ..slice });
        let coarse = slice("a", 3.0).map(|slice| Slice { pixel: [0.5, 0.8], ..slice });
        for (slices, says) in [
            (vec![slice("a", 0.0), None], "nothing says where slice 1"),
            (vec![slice("a", 0.0), slice("a", 0.0)], "on top of each other"),
            (vec![slice("a", 0.0), slice("a", 1.0), slice("a", 1.0)], "on top of each other"),
            (vec![slice("a", 0.0), slice("a", 1.0), slice("a", 2.4), slice("a", 3.4)], "uneven"),
            (vec![slice("a", 0.0), slice("a", 1.0), slice("a", 3.0)], "not all there"),
            (vec![slice("a", 0.0), turned], "one direction"),
            (vec![slice("a", 0.0), coarse], "pixels of one size"),
        ] {
            let Stacked::Not(reason) = of(slices) else { panic!("{says}") };
            assert!(reason.contains(says), "{reason}");
        }
    }
}
