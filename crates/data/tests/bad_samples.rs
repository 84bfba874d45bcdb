//! What happens to samples that cannot be read, with any number of workers and after any resume.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use kindling_data::{Augment, BadSample, DataError, HostBatch, LoaderConfig, MaxBad, OnBadSample};
use support::{CLASSES, Numbers, batches, config, loader};

fn damaged(slow: u64) -> Numbers {
    Numbers { len: 60, broken: [3, 20, 21].into(), panics: [47].into(), slow, ..Numbers::default() }
}

fn skipping(batch_size: usize, workers: usize) -> LoaderConfig {
    LoaderConfig { on_bad: OnBadSample::Skip, max_bad: MaxBad::Count(4), ..config(batch_size, workers) }
}

fn bad(batches: &[HostBatch]) -> Vec<BadSample> {
    batches.iter().flat_map(|batch| batch.bad.clone()).collect()
}

#[test]
fn bad_samples_are_replaced_alike_by_1_2_and_16_workers_and_after_a_resume() {
    let augmented = |workers| LoaderConfig { augment: Augment::Heavy, ..skipping(8, workers) };
    let one = batches(&loader(damaged(0), augmented(1)), 2, 0);
    assert_eq!(one.iter().map(HostBatch::len).sum::<usize>(), 60, "an epoch is as long as ever");
    for (workers, slow) in [(2, 0), (16, 0), (3, 1)] {
        assert_eq!(batches(&loader(damaged(slow), augmented(workers)), 2, 0), one, "{workers} workers");
    }
    for first in [1, 4, 7] {
        assert_eq!(batches(&loader(damaged(0), augmented(2)), 2, first), one[first..], "resumed at batch {first}");
    }
}

#[test]
fn a_replacement_depends_on_seed_epoch_and_sample_alone_and_is_of_the_same_class() {
    let by_sample = |batch_size, epoch| -> BTreeMap<u64, BadSample> {
        bad(&batches(&loader(damaged(0), skipping(batch_size, 2)), epoch, 0))
            .into_iter()
            .map(|b| (b.sample, b))
            .collect()
    };
    let found = by_sample(8, 0);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [3, 20, 21, 47]);
    assert_eq!(found, by_sample(7, 0), "another batch size is another neighbourhood");
    assert_ne!(found, by_sample(8, 1), "another epoch");
    for (sample, bad) in &found {
        assert_eq!(bad.name, format!("number-{sample}"));
        assert!(bad.reason.contains(if *sample == 47 { "footing" } else { "torn" }), "{}", bad.reason);
        let replacement = bad.replacement.unwrap();
        assert_eq!(replacement as usize % CLASSES, *sample as usize % CLASSES);
        assert!(!found.contains_key(&replacement));
    }
}

#[test]
fn what_is_in_a_batch_is_what_it_says_also_where_a_sample_was_replaced() {
    let sound = loader(Numbers { len: 60, ..Numbers::default() }, config(60, 1));
    let images: BTreeMap<u64, Vec<f32>> = {
        let batch = batches(&sound, 0, 0).remove(0);
        batch.samples.iter().enumerate().map(|(row, &s)| (s, batch.images_of(row..row + 1).to_vec())).collect()
    };
    for batch in batches(&loader(damaged(0), skipping(8, 3)), 0, 0) {
        for (row, sample) in batch.samples.iter().enumerate() {
            assert_eq!(batch.images_of(row..row + 1), images[sample]);
            assert_eq!(batch.labels[row], *sample as usize % CLASSES);
        }
    }
}

#[test]
fn an_evaluation_leaves_bad_samples_out_and_counts_none_twice() {
    for workers in [1, 4] {
        let in_order = LoaderConfig { shuffle: false, ..skipping(8, workers) };
        let batches = batches(&loader(damaged(0), in_order), 0, 0);
        let seen: Vec<u64> = batches.iter().flat_map(|batch| batch.samples.clone()).collect();
        let expected: Vec<u64> = (0..60).filter(|sample| ![3, 20, 21, 47].contains(sample)).collect();
        assert_eq!(seen, expected);
        assert!(bad(&batches).iter().all(|bad| bad.replacement.is_none()));
        assert!(batches.iter().all(|batch| batch.shape[0] == batch.len() && batch.images.len() == batch.len() * 64));
    }
}

#[test]
fn more_bad_samples_than_allowed_end_the_epoch_at_the_same_batch_for_any_number_of_workers() {
    let ended_at = |workers, slow| {
        let strict = LoaderConfig { max_bad: MaxBad::Count(2), ..skipping(4, workers) };
        let results: Vec<_> = loader(damaged(slow), strict).epoch(0, 0).collect();
        let error = results.last().unwrap().as_ref().unwrap_err();
        assert!(matches!(error, DataError::TooManyBad { bad: 3.., of: 60, .. }), "{error}");
        assert!(error.to_string().contains(" of 60") && error.to_string().contains("number-"), "{error}");
        results.len()
    };
    let one = ended_at(1, 0);
    assert!(one < 15, "the epoch has 15 batches");
    for (workers, slow) in [(2, 0), (16, 0), (3, 1)] {
        assert_eq!(ended_at(workers, slow), one, "{workers} workers");
    }
}

#[test]
fn what_an_earlier_sitting_found_counts_and_the_same_sample_counts_once() {
    let all = loader(damaged(0), skipping(8, 2));
    for epoch in 0..3 {
        assert_eq!(bad(&batches(&all, epoch, 0)).len(), 4, "four bad samples are four in every epoch");
    }
    let resumed = loader(damaged(0), skipping(8, 2));
    resumed.remember_bad([3, 20, 21, 47]);
    assert_eq!(bad(&batches(&resumed, 0, 0)).len(), 4);
    let worse = loader(damaged(0), skipping(8, 2));
    worse.remember_bad([3, 55]);
    assert!(worse.epoch(0, 0).any(|batch| matches!(batch, Err(DataError::TooManyBad { .. }))));
}

#[test]
fn the_first_bad_sample_is_the_one_that_is_told_where_none_may_be() {
    for workers in [1, 2, 16] {
        let failing = LoaderConfig { shuffle: false, ..config(60, workers) };
        let mut epoch = loader(damaged(1), failing).epoch(0, 0);
        let error = epoch.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("\"number-3\""), "{workers} workers: {error}");
        assert!(epoch.next().is_none());
    }
}

#[test]
fn a_source_without_a_good_sample_is_an_error_and_no_endless_search() {
    let len = 30;
    let source = Numbers { len, broken: BTreeSet::from_iter(0..len), ..Numbers::default() };
    let generous = LoaderConfig { max_bad: MaxBad::Share(1.0), ..skipping(4, 2) };
    assert!(matches!(loader(source, generous).epoch(0, 0).next(), Some(Err(DataError::Unreadable { .. }))));
}

#[test]
fn processes_read_their_rows_alone_and_know_together_what_one_process_knows() {
    let whole = batches(&loader(damaged(0), skipping(8, 1)), 2, 0);
    let third = |rank: usize| move |rows: usize| rows * rank / 3..rows * (rank + 1) / 3;
    let parts: Vec<_> = (0..3).map(|rank| loader(damaged(0), skipping(8, 2)).sharing(third(rank))).collect();
    let mut read: Vec<Vec<HostBatch>> = parts.iter().map(|part| batches(part, 2, 0)).collect();
    for (index, expected) in whole.iter().enumerate() {
        let told: Vec<_> = read.iter().map(|batches| (batches[index].rows(), batches[index].samples.clone())).collect();
        for (part, batches) in parts.iter().zip(&mut read) {
            let batch = &mut batches[index];
            assert!(batch.rows().len() < expected.len(), "a process reads a part");
            assert_eq!(batch.images_of(batch.rows()), expected.images_of(batch.rows()));
            for (rows, samples) in &told {
                part.correct(batch, rows.clone(), &samples[rows.clone()]);
            }
            assert_eq!(
                (&batch.samples, &batch.labels, &batch.targets),
                (&expected.samples, &expected.labels, &expected.targets)
            );
        }
        let found: usize = read.iter().map(|batches| batches[index].bad.len()).sum();
        assert_eq!(found, expected.bad.len());
    }
    // Too many in all are too many for each.
    let strict = LoaderConfig { max_bad: MaxBad::Count(3), ..skipping(8, 1) };
    let one = loader(damaged(0), strict).sharing(third(0));
    assert!(matches!(one.count_bad(&bad(&whole)), Err(DataError::TooManyBad { bad: 4, .. })));
}
