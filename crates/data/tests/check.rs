//! `check`: what is wrong is found, and what is sound is called sound.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use image::{GrayImage, ImageBuffer, Luma, Rgb, RgbImage};
use kindling_data::check::{Report, check};
use kindling_data::{
    Augment, Dataset, Image, Loader, LoaderConfig, Normalisation, Opening, Preprocess, Split, Task, open_path,
    open_segmentation, sheet,
};

fn grey(path: &Path, value: u8) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    GrayImage::from_pixel(4, 4, Luma([value])).save(path).unwrap();
}

fn run(path: &Path) -> Report {
    let opened = open_path(path, &Opening { keep_going: true, ..Opening::new(1) }).unwrap();
    let told = AtomicUsize::new(0);
    let report = check(&opened.dataset, &opened.problems, || _ = told.fetch_add(1, Ordering::Relaxed));
    assert_eq!(told.into_inner(), report.samples.values().sum::<usize>());
    report
}

fn folder(dir: &Path) {
    for (at, (split, class)) in
        ["train", "val", "test"].iter().flat_map(|split| ["a", "b"].map(|class| (split, class))).enumerate()
    {
        for number in 0..3 {
            grey(&dir.join(split).join(class).join(format!("{number}.png")), (at * 3 + number) as u8 * 10);
        }
    }
}

#[test]
fn a_sound_folder_is_counted_and_measured() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path());
    ImageBuffer::from_pixel(4, 4, Luma([12_345u16])).save(dir.path().join("train/a/deep.png")).unwrap();
    let report = run(dir.path());
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.by_class["train"], [4, 3]);
    assert_eq!((report.samples["val"], report.sizes["4 x 4 x 1"]), (6, 19));
    assert_eq!((report.depths["8"], report.depths["16"]), (18, 1));
    let values: Vec<f64> = (0..18).map(|value| f64::from(value) * 10.0 / 255.0).chain([12_345.0 / 65_535.0]).collect();
    let mean = values.iter().sum::<f64>() / 19.0;
    let std = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 19.0).sqrt();
    assert!((report.mean[0] - mean).abs() < 1e-6 && (report.std[0] - std).abs() < 1e-6, "{report:?}");
    RgbImage::from_pixel(4, 4, Rgb([255, 0, 0])).save(dir.path().join("train/a/red.png")).unwrap();
    assert_eq!(run(dir.path()).mean.len(), 3);
}

#[test]
fn unreadable_files_copies_and_contradictions_are_found() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path());
    fs::write(dir.path().join("train/a/broken.png"), b"no picture").unwrap();
    let mut cut = fs::read(dir.path().join("train/a/0.png")).unwrap();
    cut.truncate(cut.len() / 2);
    fs::write(dir.path().join("val/a/cut.png"), cut).unwrap();
    fs::copy(dir.path().join("train/a/1.png"), dir.path().join("train/a/copy.png")).unwrap();
    let report = run(dir.path());
    assert_eq!(report.unreadable.len(), 2, "{report:?}");
    assert!(report.unreadable.iter().any(|line| line.contains("broken.png")));
    assert!(report.unreadable.iter().any(|line| line.contains("cut.png")));
    assert_eq!(report.duplicates.len(), 1);
    assert!(!report.duplicates[0].across_splits && !report.duplicates[0].contradicting);

    fs::remove_file(dir.path().join("train/a/broken.png")).unwrap();
    fs::remove_file(dir.path().join("val/a/cut.png")).unwrap();
    assert!(run(dir.path()).is_sound(), "a copy that agrees is told, but is not wrong");
    // The same pixels in another file format are the same image.
    image::open(dir.path().join("train/b/1.png")).unwrap().save(dir.path().join("test/b/same.tiff")).unwrap();
    let report = run(dir.path());
    assert!(!report.is_sound() && report.duplicates.iter().any(|duplicate| duplicate.across_splits), "{report:?}");
    fs::remove_file(dir.path().join("test/b/same.tiff")).unwrap();
    fs::copy(dir.path().join("train/a/2.png"), dir.path().join("train/b/other.png")).unwrap();
    let report = run(dir.path());
    assert!(!report.is_sound() && report.duplicates.iter().any(|duplicate| duplicate.contradicting), "{report:?}");
}

#[test]
fn a_group_on_two_sides_is_found_even_when_the_user_insists_on_it() {
    let dir = tempfile::tempdir().unwrap();
    (0..4).for_each(|at| grey(&dir.path().join(format!("{at}.png")), at * 10));
    let rows = "path,label,split,group\n0.png,a,train,p1\n1.png,b,train,p2\n2.png,a,test,p1\n3.png,b,val,p3\n";
    fs::write(dir.path().join("list.csv"), rows).unwrap();
    for split_by in [None, Some("none".parse().unwrap())] {
        let opening = Opening { keep_going: true, split_by, ..Opening::new(1) };
        let opened = open_path(&dir.path().join("list.csv"), &opening).unwrap();
        let report = check(&opened.dataset, &opened.problems, || {});
        assert_eq!(report.leaks.len(), 1, "{report:?}");
        assert!(report.leaks[0].contains("\"p1\"") && !report.is_sound());
        assert_eq!((report.groups["train"], report.groups["test"]), (2, 1));
    }
}

/// So many images in each split, with masks of some numbers.
fn masked(dir: &Path, numbers: [&[u8]; 3]) {
    for (at, (split, numbers)) in ["train", "val", "test"].into_iter().zip(numbers).enumerate() {
        for number in 0..3 {
            let value = (at * 3 + number) as u8 * 10;
            grey(&dir.join(format!("{split}/images/{number}.png")), value);
            fs::create_dir_all(dir.join(format!("{split}/masks"))).unwrap();
            let class = |x, y| Luma([numbers[((4 * y + x) as usize + number) % numbers.len()]]);
            GrayImage::from_fn(4, 4, class).save(dir.join(format!("{split}/masks/{number}.png"))).unwrap();
        }
    }
    fs::write(dir.join("labels.json"), r#"{"background": 0, "a": 1, "b": 2, "c": 3, "ignore": 9}"#).unwrap();
}

fn checked(dir: &Path) -> (Dataset, Report) {
    let opened = open_segmentation(dir, &Opening { keep_going: true, ..Opening::new(1) }).unwrap();
    let report = check(&opened.dataset, &opened.problems, || {});
    (opened.dataset, report)
}

#[test]
fn masks_are_counted_by_class_and_what_they_lack_is_told() {
    let dir = tempfile::tempdir().unwrap();
    masked(dir.path(), [&[0, 1, 2, 9], &[0, 1], &[0]]);
    let (_, report) = checked(dir.path());
    assert_eq!((report.task, report.unreadable.len()), (Task::Segmentation, 0));
    assert_eq!(
        [&report.by_class["train"], &report.by_class["val"], &report.by_class["test"]],
        [&[3, 3, 3, 0], &[3, 3, 0, 0], &[3, 0, 0, 0]]
    );
    let masks = report.masks.as_ref().unwrap();
    assert_eq!(masks.without_foreground, [("train", 0), ("val", 0), ("test", 3)].into());
    assert_eq!(masks.shares, [84.0, 36.0, 12.0, 0.0].map(|pixels| pixels / 132.0), "what is ignored does not count");
    assert_eq!(
        report.lacking,
        [
            "the class \"a\" occurs in 6 masks, but in none of test",
            "the class \"b\" occurs in 3 masks, but in none of val and test",
            "the class \"c\" occurs in no mask"
        ]
    );
    assert!(!report.is_sound());
}

#[test]
fn a_sound_segmentation_is_called_sound_and_wrong_masks_are_not() {
    let dir = tempfile::tempdir().unwrap();
    masked(dir.path(), [&[0, 1, 2, 3]; 3]);
    assert!(checked(dir.path()).1.is_sound(), "{:?}", checked(dir.path()).1);
    GrayImage::from_pixel(4, 4, Luma([77])).save(dir.path().join("val/masks/0.png")).unwrap();
    let (_, report) = checked(dir.path());
    assert!(report.unreadable.len() == 1 && report.unreadable[0].contains("the number 77"), "{report:?}");
    // The same image with two masks.
    grey(&dir.path().join("train/images/1.png"), 0);
    let (_, report) = checked(dir.path());
    assert!(report.duplicates.len() == 1 && report.duplicates[0].contradicting, "{report:?}");
    fs::copy(dir.path().join("train/masks/0.png"), dir.path().join("train/masks/1.png")).unwrap();
    let (_, report) = checked(dir.path());
    assert!(report.duplicates.len() == 1 && !report.duplicates[0].contradicting, "{report:?}");
}

#[test]
fn a_sheet_of_images_with_masks_shows_their_outlines() {
    let dir = tempfile::tempdir().unwrap();
    masked(dir.path(), [&[0, 0, 1, 1, 2, 2, 0], &[0, 1], &[0]]);
    let coloured = |image: &Image| image.pixels.chunks_exact(3).any(|pixel| pixel[0] != pixel[2]);
    let (dataset, _) = checked(dir.path());
    let source = dataset.source(Split::Train).as_ref();
    let groups = sheet::masked_groups_of(source, &dataset.classes, 2, 32).unwrap();
    assert_eq!(groups.iter().map(|group| group.caption.as_str()).collect::<Vec<_>>(), ["all classes (3)"]);
    assert!(groups[0].images.len() == 2 && groups[0].images.iter().all(coloured));
    // Without declared classes the masks were read.
    fs::remove_file(dir.path().join("labels.json")).unwrap();
    let (dataset, _) = checked(dir.path());
    let of = |split: Split| {
        let groups = sheet::masked_groups_of(dataset.source(split).as_ref(), &dataset.classes, 2, 32).unwrap();
        groups.into_iter().map(|group| group.caption).collect::<Vec<String>>()
    };
    assert_eq!(
        (of(Split::Train), of(Split::Test)),
        (vec!["class 1 (3)".to_owned(), "class 2 (3)".to_owned()], vec!["all background (3)".to_owned()])
    );
    let preprocess = Preprocess::padded(32, 1, Normalisation::identity(1));
    let config = LoaderConfig {
        task: Task::Segmentation,
        classes: 3,
        augment: Augment::Light,
        ..LoaderConfig::shuffled(2, preprocess.clone(), 1)
    };
    let loader = Loader::new(dataset.train.clone(), config).unwrap();
    let groups = sheet::augmented_groups(&loader, &preprocess, &dataset.classes, 2, 3, 40).unwrap();
    assert!(groups.len() == 1 && groups[0].images.len() == 6 && groups[0].images.iter().all(coloured));
}
