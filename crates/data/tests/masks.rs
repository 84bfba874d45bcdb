//! The promises of a loader of images with masks.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kindling_data::{
    Augment, DataError, Draw, HostBatch, IGNORED, Image, Loader, LoaderConfig, Mask, Normalisation, OnBadSample,
    Policy, Preprocess, Source, Task,
};

const SIDE: usize = 16;

/// Images that know their index, with masks; some masks are broken, or of another size.
#[derive(Default)]
struct Masked {
    len: usize,
    broken: BTreeSet<usize>,
    panics: BTreeSet<usize>,
    short: BTreeSet<usize>,
    reads: AtomicUsize,
}

impl Source for Masked {
    fn len(&self) -> usize {
        self.len
    }
    fn label(&self, _: usize) -> usize {
        0
    }
    fn read(&self, index: usize) -> Result<Image, DataError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let (width, height) = size(index);
        let pixels = (0..width * height).map(|at| (at * (index + 1) % 60) as f32 / 60.0).collect();
        Ok(Image { width, height, channels: 1, pixels })
    }
    fn read_mask(&self, index: usize) -> Result<Mask, DataError> {
        assert!(!self.panics.contains(&index), "the decoder lost its footing");
        if self.broken.contains(&index) {
            return Err(DataError::Unreadable { path: format!("mask-{index}").into(), reason: "torn".to_owned() });
        }
        let (width, height) = size(index);
        let height = height - usize::from(self.short.contains(&index));
        let class = |at: usize| [0, 1, 2, IGNORED][(at / 3 + index) % 4];
        Ok(Mask { width, height, classes: (0..width * height).map(class).collect() })
    }
    fn name_of(&self, index: usize) -> String {
        format!("number-{index}")
    }
}

fn size(index: usize) -> (usize, usize) {
    (20 + index % 5, 13 + index % 7)
}

fn config(batch_size: usize, workers: usize) -> LoaderConfig {
    let preprocess = Preprocess::padded(SIDE, 1, Normalisation { mean: vec![0.4], std: vec![0.2] });
    LoaderConfig {
        workers,
        classes: 3,
        task: Task::Segmentation,
        augment: Augment::Medium,
        ..LoaderConfig::shuffled(batch_size, preprocess, 5)
    }
}

fn loader(source: Masked, config: LoaderConfig) -> Loader {
    Loader::new(Arc::new(source), config).unwrap()
}

fn batches(loader: &Loader, epoch: u64) -> Vec<HostBatch> {
    loader.epoch(epoch, 0).collect::<Result<_, _>>().unwrap()
}

#[test]
fn images_have_the_bits_that_they_have_without_masks() {
    let made =
        |task| batches(&loader(Masked { len: 23, ..Masked::default() }, LoaderConfig { task, ..config(4, 2) }), 3);
    for (with, without) in made(Task::Segmentation).into_iter().zip(made(Task::MultiClass)) {
        assert!(with.images.iter().zip(&without.images).all(|(a, b)| a.to_bits() == b.to_bits()));
        assert_eq!(with.masks.as_ref().unwrap().len(), with.images.len());
        assert_eq!(
            (with.targets.as_ref(), &with.samples, with.labels),
            (None, &without.samples, vec![0; without.len()])
        );
        assert_eq!(without.masks, None);
    }
}

#[test]
fn batches_with_masks_are_the_same_for_any_number_of_workers() {
    let made = |workers| batches(&loader(Masked { len: 30, ..Masked::default() }, config(4, workers)), 2);
    let one = made(1);
    for workers in [2, 7] {
        assert_eq!(made(workers), one, "{workers} workers");
    }
}

#[test]
fn a_mask_is_fitted_and_augmented_with_its_image() {
    let source = Masked { len: 20, ..Masked::default() };
    let (config, policy) = (config(7, 2), Augment::Medium.policy());
    for batch in batches(&loader(Masked { len: 20, ..Masked::default() }, config.clone()), 3) {
        for (row, &sample) in batch.samples.iter().enumerate() {
            let draw = Draw { seed: 5, epoch: 3, sample, showing: 0 };
            let image = config.preprocess.fit(&source.read(sample as usize).unwrap());
            let mask = config.preprocess.fit_mask(&source.read_mask(sample as usize).unwrap());
            let (image, mask) = policy.apply_with_mask(image, mask, &draw);
            assert_eq!(batch.images_of(row..row + 1), config.preprocess.to_tensor(&image));
            assert_eq!(batch.masks_of(row..row + 1), Some(mask.classes.as_slice()));
        }
    }
}

#[test]
fn a_share_of_the_rows_has_the_masks_of_these_rows() {
    let whole = batches(&loader(Masked { len: 20, ..Masked::default() }, config(8, 2)), 0);
    let part = loader(Masked { len: 20, ..Masked::default() }, config(8, 2)).sharing(|rows| rows / 2..rows);
    for (whole, part) in whole.iter().zip(batches(&part, 0)) {
        assert_eq!(part.rows(), whole.len() / 2..whole.len());
        assert_eq!(part.masks_of(part.rows()), whole.masks_of(part.rows()));
        assert_eq!(part.masks.as_ref().unwrap().len(), part.rows().len() * SIDE * SIDE);
    }
}

#[test]
fn a_mask_that_cannot_be_read_makes_its_image_a_bad_sample() {
    let source =
        || Masked { len: 200, broken: [3].into(), panics: [5].into(), short: [8].into(), reads: AtomicUsize::new(0) };
    let error = |index: usize| {
        let config = LoaderConfig { shuffle: false, ..config(1, 1) };
        loader(source(), config).batches(0, index..index + 1).next().unwrap().unwrap_err().to_string()
    };
    assert!(error(3).contains("mask-3") && error(3).contains("torn"), "{}", error(3));
    assert!(error(5).contains("number-5") && error(5).contains("lost its footing"), "{}", error(5));
    assert!(error(8).contains("\"number-8\" is 23 x 14 pixels, but its mask is 23 x 13"), "{}", error(8));

    let config = LoaderConfig { on_bad: OnBadSample::Skip, max_bad: "3".parse().unwrap(), ..config(8, 3) };
    let mut bad = BTreeSet::new();
    for batch in batches(&loader(source(), config.clone()), 0) {
        assert_eq!(batch.masks.as_ref().unwrap().len(), batch.len() * SIDE * SIDE);
        assert!(batch.bad.iter().all(|bad| bad.replacement.is_some()));
        bad.extend(batch.bad.into_iter().map(|bad| bad.sample));
    }
    assert_eq!(bad, [3, 5, 8].into());
    // Without shuffling, bad samples are left out and not replaced, and masks stay beside their images.
    let in_order = LoaderConfig { shuffle: false, augment: Augment::None, ..config };
    let first = batches(&loader(source(), in_order.clone()), 0).swap_remove(0);
    assert_eq!(first.samples, [0, 1, 2, 4, 6, 7]);
    let mask = in_order.preprocess.fit_mask(&source().read_mask(4).unwrap());
    assert_eq!(first.masks_of(3..4), Some(mask.classes.as_slice()));
    assert_eq!(first.masks.unwrap().len(), 6 * SIDE * SIDE);
}

#[test]
fn a_class_that_the_model_does_not_have_is_an_error_with_the_samples_name() {
    let config = LoaderConfig { classes: 2, shuffle: false, ..config(4, 1) };
    let error = loader(Masked { len: 4, ..Masked::default() }, config).epoch(0, 0).next().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the mask of \"number-0\" has pixels of class 2, but there are 2 classes, counted from 0 (255 is ignored)"
    );
}

#[test]
fn masks_count_among_the_bytes_that_are_made_ahead() {
    // Room for the images of two batches of four, and not for their masks too.
    let reads = |task| {
        let source = Arc::new(Masked { len: 100, ..Masked::default() });
        let prefetch_bytes = 2 * (4 * SIDE * SIDE * size_of::<f32>()) as u64;
        let loader = Loader::new(source.clone(), LoaderConfig { task, prefetch_bytes, ..config(4, 2) }).unwrap();
        let mut epoch = loader.epoch(0, 0);
        epoch.next().unwrap().unwrap();
        std::thread::sleep(Duration::from_millis(150));
        source.reads.load(Ordering::SeqCst)
    };
    assert_eq!((reads(Task::MultiClass), reads(Task::Segmentation)), (4 * 3, 4 * 2));
}

#[test]
fn images_with_masks_are_not_mixed() {
    let mixed = [Augment::Heavy, Augment::custom(Policy { cutmix: 1.0, ..Policy::light() }).unwrap()];
    for augment in mixed {
        let made =
            Loader::new(Arc::new(Masked { len: 4, ..Masked::default() }), LoaderConfig { augment, ..config(2, 1) });
        let error = made.err().unwrap();
        assert!(matches!(error, DataError::Policy { .. }) && error.to_string().contains("mixup and CutMix"), "{error}");
    }
}

#[test]
fn a_source_without_masks_says_so() {
    struct Bare;
    impl Source for Bare {
        fn len(&self) -> usize {
            1
        }
        fn label(&self, _: usize) -> usize {
            0
        }
        fn read(&self, _: usize) -> Result<Image, DataError> {
            Ok(Image::filled(4, 4, 1, 0.5))
        }
        fn name_of(&self, _: usize) -> String {
            "bare".to_owned()
        }
    }
    let error = Loader::new(Arc::new(Bare), config(1, 1)).unwrap().epoch(0, 0).next().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("there is no mask for \"bare\""), "{error}");
}
