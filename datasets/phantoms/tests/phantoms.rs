//! Tests of the promises of the synthetic scans.
#![allow(clippy::unwrap_used)]

use kindling_data::{Image, Normalisation, Preprocess, Source, Split, Task};
use kindling_phantoms::{
    CLASSES, Phantoms, SIZE, TEST, TRAIN, VAL, dataset, dataset_with, image, label, mask, segmentation_dataset,
    segmentation_dataset_with,
};

#[test]
fn an_image_is_the_same_made_alone_or_in_any_order() {
    let run = Phantoms { seed: 3, first: 100, count: 12 };
    let forward: Vec<Image> = (0..12).map(|index| run.read(index).unwrap()).collect();
    for index in (0..12).rev() {
        assert!(forward[index] == image(3, 100 + index as u64), "image {index}");
    }
    let threaded = std::thread::spawn(move || run.read(7).unwrap()).join().unwrap();
    assert!(threaded == forward[7]);
}

#[test]
fn seed_and_index_change_the_image() {
    assert!(image(0, 0) != image(0, 3));
    assert!(image(0, 0) != image(1, 0));
}

#[test]
fn images_are_full_and_in_range() {
    for index in 0..30 {
        let image = image(9, index);
        assert_eq!((image.width, image.height, image.channels), (SIZE, SIZE, 1));
        assert_eq!(image.pixels.len(), SIZE * SIZE);
        assert!(image.pixels.iter().all(|v| (0.0..=1.0).contains(v)));
        let mean = image.pixels.iter().sum::<f32>() / image.pixels.len() as f32;
        assert!((0.12..0.40).contains(&mean), "image {index} has the mean {mean}");
    }
}

#[test]
fn the_default_splits_are_balanced_and_apart() {
    let dataset = dataset(5);
    assert_eq!(dataset.classes, CLASSES);
    for (split, size) in Split::ALL.into_iter().zip([TRAIN, VAL, TEST]) {
        assert_eq!(dataset.source(split).len(), size);
        assert_eq!(dataset.class_counts(split), vec![size / 3; 3]);
        assert!((dataset.majority_baseline(split) - 1.0 / 3.0).abs() < 1e-9);
    }
    let names: std::collections::HashSet<String> = Split::ALL
        .into_iter()
        .flat_map(|split| (0..dataset.source(split).len()).map(move |index| (split, index)))
        .map(|(split, index)| dataset.source(split).name_of(index))
        .collect();
    assert_eq!(names.len(), TRAIN + VAL + TEST);
    assert!(dataset.train.read(TRAIN).is_err());
}

#[test]
fn more_training_images_leave_the_other_splits_as_they_are() {
    let (small, large) = (dataset_with(5, 3, 3, 3), dataset_with(5, 1000, 3, 3));
    assert!(small.test.read(0).unwrap() == large.test.read(0).unwrap());
    assert!(small.train.read(2).unwrap() == large.train.read(2).unwrap());
}

#[test]
fn a_mask_has_a_lesion_exactly_where_the_image_has_one() {
    for index in 0..60 {
        let mask = mask(4, index);
        assert_eq!((mask.width, mask.height, mask.classes.len()), (SIZE, SIZE, SIZE * SIZE));
        let area = mask.classes.iter().filter(|class| **class == 1).count();
        assert!(mask.classes.iter().all(|class| *class < 2));
        // The smallest core, and the largest with the most and longest rays.
        match label(index) {
            0 => assert_eq!(area, 0, "image {index}"),
            _ => assert!((700..8000).contains(&area), "image {index}: {area}"),
        }
    }
}

#[test]
fn lesions_are_brighter_than_what_lies_around_them() {
    for index in (0..30).filter(|index| label(*index) != 0) {
        let (image, mask) = (image(4, index), mask(4, index));
        let mean = |of: &dyn Fn(usize) -> bool| {
            let values: Vec<f32> = (0..SIZE * SIZE).filter(|at| of(*at)).map(|at| image.pixels[at]).collect();
            values.iter().sum::<f32>() / values.len() as f32
        };
        let near = |at: usize| {
            let moved = [at.saturating_sub(12), at + 12, at.saturating_sub(12 * SIZE), at + 12 * SIZE];
            moved.iter().any(|at| mask.classes.get(*at) == Some(&1))
        };
        let (inside, around) = (mean(&|at| mask.classes[at] == 1), mean(&|at| mask.classes[at] == 0 && near(at)));
        assert!(inside > around + 0.15, "image {index}: {inside} in {around}");
    }
}

#[test]
fn the_segmentation_has_the_images_of_the_classification_and_a_third_without_a_lesion() {
    let (masked, plain) = (segmentation_dataset(5), dataset(5));
    assert_eq!((masked.task, masked.classes.len()), (Task::Segmentation, 2));
    for split in Split::ALL {
        let (masked, plain) = (masked.source(split), plain.source(split));
        assert_eq!((masked.len(), masked.name_of(3)), (plain.len(), plain.name_of(3)));
        assert!(masked.read(4).unwrap() == plain.read(4).unwrap());
        for index in 0..4 {
            assert_eq!(masked.read_mask(index).unwrap().present(), masked.labels(index));
            assert_eq!((masked.label(index), masked.labels(index).len() > 1), (0, plain.label(index) != 0));
        }
    }
    assert_eq!(masked.class_counts(Split::Test), [TEST, TEST * 2 / 3]);
    let small = segmentation_dataset_with(5, 3, 1, 2);
    assert_eq!(Split::ALL.map(|split| small.source(split).len()), [3, 1, 2]);
    assert!(small.train.read_mask(3).is_err() && small.train.read(3).is_err());
    let preprocess = Preprocess::padded(100, 1, Normalisation::identity(1));
    let (image, mask) = small.train.read_with_mask(2, &preprocess).unwrap();
    assert!(image == small.train.read_fitted(2, &preprocess).unwrap());
    assert!(mask == preprocess.fit_mask(&small.train.read_mask(2).unwrap()) && mask.present() == [0, 1]);
}

#[test]
fn the_normalisation_is_that_of_the_images() {
    let dataset = dataset(77);
    let measured = Normalisation::measure(&*dataset.train, 1, SIZE, 90).unwrap();
    let known = dataset.normalisation.unwrap();
    assert!((measured.mean[0] - known.mean[0]).abs() < 0.015, "{measured:?}");
    assert!((measured.std[0] - known.std[0]).abs() < 0.015, "{measured:?}");
}

#[test]
fn the_classes_have_the_same_brightness() {
    // A spiculated lesion covers about 1 % of the image: less than what heads differ by.
    let mut means = [Vec::new(), Vec::new(), Vec::new()];
    for index in 0..180 {
        let image = image(11, index);
        means[label(index)].push(f64::from(image.pixels.iter().sum::<f32>()) / (SIZE * SIZE) as f64);
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let deviation = |values: &[f64]| {
        let middle = mean(values);
        (values.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
    };
    let spread = deviation(&means[0]);
    for class in &means {
        assert!((mean(class) - mean(&means[0])).abs() < 0.5 * spread, "{} against {spread}", mean(class));
    }
}

/// Images as 32x32 pixels, less their mean, with a 1 at the end.
fn features(source: &dyn Source) -> Vec<(Vec<f32>, usize)> {
    let fit = Preprocess::padded(32, 1, Normalisation::identity(1));
    let one = |index| {
        let mut pixels = fit.fit(&source.read(index).unwrap()).pixels;
        let mean = pixels.iter().sum::<f32>() / 1024.0;
        pixels.iter_mut().for_each(|value| *value -= mean);
        pixels.push(0.1);
        (pixels, source.label(index))
    };
    (0..source.len()).map(one).collect()
}

fn scores(weights: &[Vec<f32>], pixels: &[f32]) -> [f32; 3] {
    std::array::from_fn(|class| weights[class].iter().zip(pixels).map(|(w, p)| w * p).sum())
}

fn accuracy(weights: &[Vec<f32>], samples: &[(Vec<f32>, usize)]) -> f32 {
    let right = samples.iter().filter(|(pixels, label)| {
        let scores = scores(weights, pixels);
        (0..3).max_by(|&a, &b| scores[a].total_cmp(&scores[b])) == Some(*label)
    });
    right.count() as f32 / samples.len() as f32
}

#[test]
fn a_linear_model_on_pixels_stays_near_chance() {
    let dataset = dataset_with(1, 480, 0, 300);
    let (train, test) = (features(&*dataset.train), features(&*dataset.test));
    // Softmax regression by plain gradient descent, stopped at intervals: it must fail early and late.
    let mut weights = vec![vec![0.0f32; 1025]; 3];
    let mut best: f32 = 0.0;
    for epoch in 0..60 {
        for (pixels, label) in &train {
            let scores = scores(&weights, pixels);
            let largest = scores.into_iter().fold(f32::MIN, f32::max);
            let exponents = scores.map(|score| (score - largest).exp());
            let sum: f32 = exponents.iter().sum();
            for (class, weights) in weights.iter_mut().enumerate() {
                let error = exponents[class] / sum - f32::from(u8::from(class == *label));
                weights.iter_mut().zip(pixels).for_each(|(w, p)| *w -= 0.02 * (error * p + 1e-4 * *w));
            }
        }
        if epoch % 10 == 9 {
            best = best.max(accuracy(&weights, &test));
        }
    }
    let learned = accuracy(&weights, &train);
    assert!(learned > 0.6, "the linear model learned nothing, {learned}: this test is broken");
    // The standard deviation of chance on 300 images is 2.7 %.
    assert!(best < 0.48, "a linear model reaches {best}");
}
