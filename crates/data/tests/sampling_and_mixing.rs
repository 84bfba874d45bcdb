//! Draws with replacement and mixed images depend on (seed, epoch) alone too.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;

use kindling_data::{Augment, HostBatch, LoaderConfig, Policy, Sampling, Task};
use support::{CLASSES, Numbers, batches, config, loader};

fn numbers(slow: u64) -> Numbers {
    Numbers { len: 50, slow, ..Numbers::default() }
}

fn targets(batch: &HostBatch) -> Vec<&[f32]> {
    batch.targets.as_deref().unwrap().chunks_exact(CLASSES).collect()
}

#[test]
fn drawing_with_replacement_is_the_same_for_1_2_and_16_workers_and_resumes_anywhere() {
    for sampling in [Sampling::Balanced, Sampling::Weights] {
        let with = |workers| LoaderConfig { sampling, augment: Augment::Light, ..config(8, workers) };
        let one = batches(&loader(numbers(0), with(1)), 3, 0);
        assert_eq!(one.iter().map(HostBatch::len).collect::<Vec<_>>(), [8, 8, 8, 8, 8, 8, 2]);
        assert_eq!(batches(&loader(numbers(0), with(2)), 3, 0), one);
        assert_eq!(batches(&loader(numbers(1), with(16)), 3, 0), one);
        assert_eq!(batches(&loader(numbers(0), with(2)), 3, 4), one[4..]);
        assert_ne!(batches(&loader(numbers(0), with(1)), 4, 0)[0].samples, one[0].samples);
        assert_eq!(loader(numbers(0), with(1)).samples_of(3, 2), one[2].samples);
    }
}

#[test]
fn a_sample_that_is_drawn_twice_is_not_augmented_alike_twice() {
    let drawn = LoaderConfig { sampling: Sampling::Weights, augment: Augment::Light, ..config(50, 2) };
    let batch = batches(&loader(numbers(0), drawn), 0, 0).remove(0);
    let distinct: BTreeSet<u64> = batch.samples.iter().copied().collect();
    assert!(distinct.len() < 45, "fifty draws from fifty hit some twice");
    let images: BTreeSet<Vec<u32>> =
        (0..50).map(|row| batch.images_of(row..row + 1).iter().map(|v| v.to_bits()).collect()).collect();
    assert_eq!(images.len(), 50);
}

#[test]
fn without_mixing_and_with_one_class_a_sample_there_are_no_targets() {
    let plain = LoaderConfig { augment: Augment::Medium, ..config(8, 2) };
    assert!(batches(&loader(numbers(0), plain), 0, 0).iter().all(|batch| batch.targets.is_none()));
}

#[test]
fn mixed_batches_are_the_same_for_any_number_of_workers_and_their_targets_add_up_to_one() {
    for policy in [Policy { mixup: 0.3, ..Policy::none() }, Policy { cutmix: 1.0, ..Policy::light() }, Policy::heavy()]
    {
        let with = |workers| LoaderConfig { augment: Augment::custom(policy.clone()).unwrap(), ..config(8, workers) };
        let one = batches(&loader(numbers(0), with(1)), 1, 0);
        assert_eq!(batches(&loader(numbers(1), with(2)), 1, 0), one);
        assert_eq!(batches(&loader(numbers(0), with(16)), 1, 0), one);
        assert_eq!(batches(&loader(numbers(0), with(2)), 1, 3), one[3..]);
        let mut soft = 0;
        for batch in &one {
            for (target, label) in targets(batch).into_iter().zip(&batch.labels) {
                assert!((target.iter().sum::<f32>() - 1.0).abs() < 1e-6);
                assert!(target.iter().all(|share| *share <= target[*label]), "the label is the larger part");
                soft += usize::from(target[*label] < 1.0);
            }
        }
        assert!(soft > 5, "{soft} of 50 are mixed with another class");
    }
}

#[test]
fn samples_of_several_classes_have_a_one_for_each() {
    let several = Numbers { also: Some(2), ..numbers(0) };
    let with = LoaderConfig { task: Task::MultiLabel, ..config(8, 2) };
    for batch in batches(&loader(several, with), 0, 0) {
        for (target, sample) in targets(&batch).into_iter().zip(&batch.samples) {
            let own = *sample as usize % CLASSES;
            let expected: Vec<f32> =
                (0..CLASSES).map(|class| if class == own || class == 2 { 1.0 } else { 0.0 }).collect();
            assert_eq!(target, expected);
        }
    }
}
