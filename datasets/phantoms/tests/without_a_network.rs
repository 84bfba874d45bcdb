//! What finds lesions without a network, so that the score of one can be judged: where they lie, and how bright they are.
#![allow(clippy::unwrap_used)]

use kindling_data::{Dataset, Source};
use kindling_phantoms::{SIZE, segmentation_dataset};

/// Hundredths of the brightness that there is.
const LEVELS: usize = 100;

/// Of the training images every fourth, which are of all kinds in turn.
fn in_training(dataset: &Dataset) -> impl Iterator<Item = usize> {
    (0..dataset.train.len()).step_by(4)
}

/// The Dice of so many pixels that are found and there, found, and there; none where there is nothing and nothing is found.
fn dice(both: usize, found: usize, there: usize) -> Option<f64> {
    (found + there > 0).then(|| 2.0 * both as f64 / (found + there) as f64)
}

/// The mean over the images in which it is defined, as nnU-Net has it.
fn mean(of_images: impl Iterator<Item = Option<f64>>) -> f64 {
    let defined: Vec<f64> = of_images.flatten().collect();
    defined.iter().sum::<f64>() / defined.len() as f64
}

fn lesion(source: &dyn Source, index: usize) -> Vec<bool> {
    source.read_mask(index).unwrap().classes.into_iter().map(|class| class == 1).collect()
}

/// The mean Dice of an answer that is the same for all images.
fn of_a_fixed_answer(answer: &[bool], lesions: &[Vec<bool>]) -> f64 {
    let found = answer.iter().filter(|it| **it).count();
    mean(lesions.iter().map(|lesion| {
        let both = answer.iter().zip(lesion).filter(|(found, there)| **found && **there).count();
        dice(both, found, lesion.iter().filter(|it| **it).count())
    }))
}

/// The answer is the same for each image: where the lesion is in so many training images, of all such answers the best.
#[test]
fn position_alone_finds_next_to_nothing() {
    let dataset = segmentation_dataset(0);
    let train: Vec<Vec<bool>> = in_training(&dataset).map(|index| lesion(&*dataset.train, index)).collect();
    let mut counts = vec![0; SIZE * SIZE];
    for lesion in &train {
        counts.iter_mut().zip(lesion).for_each(|(count, there)| *count += usize::from(*there));
    }
    let answer = |from: usize| counts.iter().map(|count| *count >= from).collect::<Vec<bool>>();
    let most = counts.iter().copied().max().unwrap();
    let tried = (1..=most).map(|from| (of_a_fixed_answer(&answer(from), &train), from));
    let best = tried.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1;
    let test: Vec<Vec<bool>> = (0..dataset.test.len()).map(|index| lesion(&*dataset.test, index)).collect();
    let found = of_a_fixed_answer(&answer(best), &test);
    assert!((0.01..0.07).contains(&found), "{found}");
}

/// How many pixels of an image are below each level of brightness, and how many of these are of the lesion.
fn below(source: &dyn Source, index: usize) -> Vec<[usize; 2]> {
    let (image, lesion) = (source.read(index).unwrap(), lesion(source, index));
    let mut counts = vec![[0; 2]; LEVELS + 1];
    for (value, there) in image.pixels.iter().zip(lesion) {
        let level = ((value * LEVELS as f32) as usize).min(LEVELS - 1);
        counts[level + 1][0] += 1;
        counts[level + 1][1] += usize::from(there);
    }
    let mut sums = [0; 2];
    for count in &mut counts {
        for (sum, count) in sums.iter_mut().zip(count) {
            *sum += *count;
            *count = *sum;
        }
    }
    counts
}

/// The mean Dice of the answer that all pixels between two levels are of the lesion.
fn of_a_band(images: &[Vec<[usize; 2]>], from: usize, to: usize) -> f64 {
    mean(images.iter().map(|below| {
        let [found, both] = [0, 1].map(|part| below[to][part] - below[from][part]);
        dice(both, found, below[LEVELS][1])
    }))
}

/// Two thresholds, the best of all pairs on training images. What is as bright in images without a lesion is what they cannot know.
#[test]
fn the_best_thresholds_find_half_of_what_is_to_be_found() {
    let dataset = segmentation_dataset(0);
    let train: Vec<_> = in_training(&dataset).map(|index| below(&*dataset.train, index)).collect();
    let test: Vec<_> = (0..dataset.test.len()).map(|index| below(&*dataset.test, index)).collect();
    let bands = (0..LEVELS).flat_map(|from| (from + 1..=LEVELS).map(move |to| (from, to)));
    let tried = bands.map(|(from, to)| (of_a_band(&train, from, to), from, to));
    let (_, from, to) = tried.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    assert!((65..75).contains(&from), "lesions are the brightest there is: {from} to {to}");
    let found = of_a_band(&test, from, to);
    assert!((0.49..0.59).contains(&found), "{found}");
    let with_a_lesion: Vec<_> = test.into_iter().filter(|below| below[LEVELS][1] > 0).collect();
    let found = of_a_band(&with_a_lesion, from, to);
    assert!((0.76..0.86).contains(&found), "{found} where there is a lesion");
}
