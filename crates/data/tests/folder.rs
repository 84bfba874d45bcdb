//! Image folders, good and bad.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use image::{DynamicImage, GrayImage, Luma, Rgb, RgbImage};
use kindling_data::{DataError, Dataset, Opening, Split, open_folder, open_folder_with, sheet};

/// Grey images whose value tells the class and whose width tells the number.
fn fill(dir: &Path, class: &str, value: u8, count: u32) {
    let dir = dir.join(class);
    fs::create_dir_all(&dir).unwrap();
    for number in 0..count {
        let image = GrayImage::from_pixel(8 + number, 8, Luma([value]));
        image.save(dir.join(format!("{number:03}.png"))).unwrap();
    }
}

fn names(dataset: &Dataset, split: Split) -> Vec<String> {
    let source = dataset.source(split);
    (0..source.len()).map(|index| source.name_of(index)).collect()
}

#[test]
fn a_folder_of_classes_is_split_70_15_15_class_by_class() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "bright", 200, 40);
    fill(dir.path(), "dark", 20, 20);
    fs::write(dir.path().join("bright/notes.txt"), "not an image").unwrap();
    fs::write(dir.path().join("bright/._hidden.png"), "not an image").unwrap();
    let dataset = open_folder(dir.path(), 1).unwrap();
    assert_eq!(dataset.classes, ["bright", "dark"]);
    assert_eq!(dataset.channels, 1);
    assert_eq!(Split::ALL.map(|split| dataset.class_counts(split)), [[28, 14], [6, 3], [6, 3]]);
    assert!((dataset.majority_baseline(Split::Test) - 2.0 / 3.0).abs() < 1e-9);

    let all: Vec<String> = Split::ALL.iter().flat_map(|&split| names(&dataset, split)).collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 60, "no image is in two splits");
    for split in Split::ALL {
        let source = dataset.source(split);
        for index in 0..source.len() {
            let value = source.read(index).unwrap().at(0, 0, 0);
            assert_eq!(source.label(index), usize::from(value < 0.5));
        }
    }
    assert!(matches!(dataset.train.read(42), Err(DataError::OutOfRange { index: 42, len: 42 })));
}

#[test]
fn the_split_depends_on_the_seed_alone() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "a", 1, 30);
    fill(dir.path(), "b", 2, 30);
    let test = |seed| names(&open_folder(dir.path(), seed).unwrap(), Split::Test);
    assert_eq!(test(1), test(1));
    assert_ne!(test(1), test(2));
}

#[test]
fn given_splits_are_kept_and_missing_ones_are_split_off_from_train() {
    let dir = tempfile::tempdir().unwrap();
    fill(&dir.path().join("train"), "a", 1, 20);
    fill(&dir.path().join("train/b"), "nested", 2, 20);
    fill(&dir.path().join("test"), "b", 2, 5);
    let dataset = open_folder(dir.path(), 1).unwrap();
    assert_eq!(Split::ALL.map(|split| dataset.class_counts(split)), [[17, 17], [3, 3], [0, 5]]);
    assert!(names(&dataset, Split::Val).iter().all(|name| name.contains("train")));
    assert!(names(&dataset, Split::Test).iter().all(|name| name.contains("test")));

    fill(&dir.path().join("val"), "a", 1, 2);
    let dataset = open_folder(dir.path(), 1).unwrap();
    assert_eq!(Split::ALL.map(|split| dataset.class_counts(split)), [[20, 20], [2, 0], [0, 5]]);
}

#[test]
fn one_colour_image_makes_the_set_a_colour_set() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "a", 1, 4);
    fill(dir.path(), "b", 2, 4);
    let colour: DynamicImage = RgbImage::from_pixel(8, 8, Rgb([1, 2, 3])).into();
    colour.save(dir.path().join("b/colour.JPG")).unwrap();
    assert_eq!(open_folder(dir.path(), 1).unwrap().channels, 3);
}

#[test]
fn a_class_may_be_called_train() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "bus", 1, 10);
    fill(dir.path(), "train", 2, 10);
    assert_eq!(open_folder(dir.path(), 1).unwrap().classes, ["bus", "train"]);
}

#[test]
fn bad_folders_are_refused_in_one_sentence() {
    let refuse = |make: &dyn Fn(&Path), expected: &str| {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path());
        let error = open_folder(dir.path(), 1).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(&dir.path().display().to_string()), "{error}");
    };
    let missing = open_folder(Path::new("/nowhere/at/all"), 1).unwrap_err().to_string();
    assert!(missing.contains("\"/nowhere/at/all\" is not a folder"), "{missing}");
    refuse(&|_| (), "has no sub-folders");
    refuse(&|dir| fill(dir, "a", 1, 5), "single class \"a\"");
    refuse(&|dir| [("a", 5), ("b", 0)].iter().for_each(|(c, n)| fill(dir, c, 1, *n)), "class \"b\" is empty");
    refuse(&|dir| [("a", 5), ("b", 2)].iter().for_each(|(c, n)| fill(dir, c, 1, *n)), "2 images, but splitting");
    refuse(&|dir| fill(&dir.join("val"), "a", 1, 5), "no train/");
    refuse(
        &|dir| {
            fill(&dir.join("train"), "a", 1, 5);
            fill(&dir.join("valid"), "a", 1, 5);
        },
        "also \"valid\"",
    );
    refuse(
        &|dir| {
            fill(&dir.join("train"), "a", 1, 5);
            fill(&dir.join("train"), "b", 1, 5);
            fill(&dir.join("test"), "c", 1, 5);
        },
        "class \"c\", which train/ has not",
    );
    refuse(
        &|dir| {
            fill(dir, "a", 1, 5);
            fill(dir, "b", 1, 5);
            fs::write(dir.join("b/torn.png"), "PNG, honestly").unwrap();
        },
        "torn.png",
    );
}

#[cfg(unix)]
#[test]
fn links_that_lead_in_a_circle_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "a", 1, 5);
    fill(dir.path(), "b", 2, 5);
    std::os::unix::fs::symlink(dir.path(), dir.path().join("a/again")).unwrap();
    let dataset = open_folder(dir.path(), 1).unwrap();
    assert_eq!(Split::ALL.map(|split| dataset.source(split).len()).iter().sum::<usize>(), 10);
}

#[test]
fn a_sheet_of_a_folder_shows_every_class() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "bright", 200, 10);
    fill(dir.path(), "dark", 20, 10);
    let dataset = open_folder(dir.path(), 1).unwrap();
    let groups = sheet::groups_of(&*dataset.train, &dataset.classes, 4, 32).unwrap();
    assert_eq!(groups.iter().map(|group| &*group.caption).collect::<Vec<_>>(), ["bright (6)", "dark (6)"]);
    assert!(groups.iter().all(|group| group.images.len() == 4));
    assert!(matches!(sheet::groups_of(&*dataset.train, &[], 4, 32), Ok(groups) if groups.is_empty()));
}

#[test]
fn folders_inside_a_class_stay_on_one_side_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    for class in ["ill", "well"] {
        for patient in 0..12 {
            fill(&dir.path().join(class), &format!("p{patient:02}"), 9, 1 + patient % 4);
        }
    }
    let opening = Opening { split_by: Some("folder".parse().unwrap()), ..Opening::new(3) };
    let opened = open_folder_with(dir.path(), &opening).unwrap();
    let sides = Split::ALL.map(|split| {
        let source = opened.dataset.source(split);
        (0..source.len()).map(|index| source.group(index).unwrap()).collect::<HashSet<_>>()
    });
    assert_eq!(sides.iter().map(HashSet::len).sum::<usize>(), 12, "a patient is on two sides: {sides:?}");
    assert!(sides.iter().all(|side| !side.is_empty()));
    let deeper = Opening { split_by: Some("folder:2".parse().unwrap()), ..Opening::new(3) };
    assert!(matches!(open_folder_with(dir.path(), &deeper), Err(DataError::NoGroup { .. })));
    // Folders of a patient on two sides of a split that the folder brings.
    let given = tempfile::tempdir().unwrap();
    for split in ["train", "val", "test"] {
        for class in ["ill", "well"] {
            fill(&given.path().join(split).join(class), &format!("{split}-p1"), 9, 2);
        }
    }
    let opening = Opening { split_by: Some("folder".parse().unwrap()), ..Opening::new(3) };
    assert!(open_folder_with(given.path(), &opening).is_ok());
    fill(&given.path().join("test/ill"), "train-p1", 9, 1);
    assert!(matches!(open_folder_with(given.path(), &opening), Err(DataError::Leak { .. })));
}

#[cfg(unix)]
#[test]
fn links_that_lead_in_a_circle_end() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "a", 1, 10);
    fill(dir.path(), "b", 2, 10);
    std::os::unix::fs::symlink(dir.path(), dir.path().join("a/up")).unwrap();
    std::os::unix::fs::symlink("loop.png", dir.path().join("b/loop.png")).unwrap();
    let error = open_folder(dir.path(), 1).unwrap_err().to_string();
    assert!(error.contains("loop.png"), "a link to itself is an error with its path: {error}");
    fs::remove_file(dir.path().join("b/loop.png")).unwrap();
    assert_eq!(open_folder(dir.path(), 1).unwrap().train.len(), 12);
}
