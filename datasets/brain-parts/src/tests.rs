use std::collections::BTreeSet;

use kindling_data::{Mask, Source, Split, Stacked};
use kindling_scans::nifti::synthetic::Nifti;
use kindling_scans::nifti::{Fetched, Labels, read_volume};

use super::*;

/// Voxels along a side; world coordinates run from -40 mm, 2 mm apart.
const SIDE: usize = 44;

/// The region of a voxel: the brain is a ball that does not lie in the middle, and its lower half the cerebellum.
fn region([x, y, z]: [usize; 3]) -> u8 {
    let centre = [SIDE / 2 - 4, SIDE / 2 + 2, SIDE / 2];
    let square: usize = [x, y, z].iter().zip(centre).map(|(at, centre)| at.abs_diff(centre).pow(2)).sum();
    match square {
        0..=169 if z < SIDE / 2 => 95,
        0..=169 => 20,
        _ => 0,
    }
}

/// The labels of [`region`], as they are read from a file.
fn labels() -> Labels {
    let nifti = Nifti { spacing: [2.0; 3], ..Nifti::of([SIDE; 3], region) };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nii.gz");
    std::fs::write(&path, nifti.packed()).unwrap();
    let sum = read_volume(&path, "a").unwrap().sha256;
    let sums = format!("{sum}  a.nii\n").leak();
    Fetched { name: "a", script: "a", cost: "a", sums }.labels(folder.path(), "a.nii").unwrap()
}

/// Heads whose brain is where the labels are, and twice as bright in its lower half.
fn heads(count: usize) -> Heads {
    let bright = |point| [0, 100, 200][usize::from(atlas::class_of(u16::from(region(point))))];
    let volume = || Nifti { spacing: [2.0; 3], ..Nifti::of([SIDE; 3], bright) }.read();
    Heads { volumes: (0..count).map(|_| volume()).collect(), atlas: Arc::new(labels()) }
}

#[test]
fn slices_on_which_a_head_ends_before_the_atlas_are_left_out() {
    let top = SIDE / 2 + 8;
    let bright = |point: [usize; 3]| [0, 100][usize::from(region(point) > 0 && point[2] <= top)];
    let volume = Nifti { spacing: [2.0; 3], ..Nifti::of([SIDE; 3], bright) }.read();
    let whole = heads(1);
    let low = Heads { volumes: [volume].into(), atlas: Arc::clone(&whole.atlas) };
    assert!(whole.shown().iter().any(|index| *index > top), "{:?}", whole.shown());
    assert_eq!(low.shown(), whole.shown().into_iter().filter(|index| *index <= top).collect::<Vec<_>>());
}

fn names(source: &dyn Source) -> BTreeSet<String> {
    (0..source.len()).map(|index| source.name_of(index)).collect()
}

#[test]
fn images_lie_under_their_masks_in_every_split_and_all_classes_are_there() {
    let dataset = assemble(&heads(1), &heads(1));
    for split in Split::ALL {
        let source = dataset.source(split);
        let mut seen = BTreeSet::new();
        for index in 0..source.len() {
            let (image, mask) = (source.read(index).unwrap(), source.read_mask(index).unwrap());
            assert_eq!((image.width, image.height, image.channels), (SIDE, SIDE, 1));
            assert_eq!((mask.width, mask.height), (SIDE, SIDE));
            let is_wrong = |at: &usize| (image.pixels[*at] >= 0.25) != (mask.classes[*at] > 0);
            let wrong = (0..SIDE * SIDE).filter(is_wrong).count();
            assert!(wrong <= 60, "{wrong} pixels of {}", source.name_of(index));
            assert_eq!(mask.present(), source.labels(index));
            seen.extend(mask.present());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2], "{split}");
    }
    assert_eq!(dataset.classes, CLASSES);
}

#[test]
fn the_splits_are_disjoint_and_both_pictures_lose_the_same_anatomy() {
    let dataset = assemble(&heads(2), &heads(1));
    let (train, held_back) = (positions(dataset.train.as_ref()), positions(dataset.val.as_ref()));
    assert!(train.len() > 5 && held_back.len() > 2, "{train:?} {held_back:?}");
    assert!(train.is_disjoint(&held_back));
    assert_eq!(dataset.val.len(), 2 * held_back.len());
}

/// Where slices lie, by their names.
fn positions(source: &dyn Source) -> BTreeSet<String> {
    names(source).iter().filter_map(|name| Some(name.split_once("z=")?.1.to_owned())).collect()
}

#[test]
fn the_test_shows_each_slice_in_some_poses_and_a_head_in_a_pose_is_a_volume() {
    let heads = heads(1);
    let dataset = assemble(&heads, &heads);
    assert_eq!(names(dataset.test.as_ref()).len(), dataset.test.len());
    assert_eq!(positions(dataset.test.as_ref()).len(), heads.shown().len());
    assert_eq!(dataset.test.len(), heads.shown().len() * moved::POSES / moved::EVERY);
    let Stacked::Volumes(stacks) = Stacked::of(dataset.test.as_ref()) else { panic!("the poses are no volumes") };
    assert_eq!(stacks.len(), moved::POSES);
    assert!(stacks.iter().all(|stack| stack.spacing == [8.0, 2.0, 2.0]), "{stacks:?}");
    assert!(matches!(Stacked::of(dataset.val.as_ref()), Stacked::Volumes(stacks) if stacks.len() == 1));
    assert_eq!(Stacked::of(dataset.train.as_ref()), Stacked::No);
}

#[test]
fn what_is_usual_at_the_place_of_a_slice_is_true_at_rest_and_wrong_in_the_poses() {
    let dataset = assemble(&heads(1), &heads(1));
    let share = |source: &dyn Source| {
        let [mut both, mut all] = [0, 0];
        for index in 0..source.len() {
            let Mask { classes: truth, .. } = source.read_mask(index).unwrap();
            let usual = source.usual_mask(index).unwrap().unwrap().classes;
            both += 2 * truth.iter().zip(&usual).filter(|(one, other)| **one > 0 && one == other).count();
            all += truth.iter().chain(&usual).filter(|class| **class > 0).count();
        }
        both as f64 / all as f64
    };
    assert_eq!(share(dataset.val.as_ref()), 1.0);
    let moved = share(dataset.test.as_ref());
    assert!((0.3..0.9).contains(&moved), "{moved}");
}

#[test]
fn the_augmentation_covers_the_poses_and_is_one() {
    let policy = augmentation();
    policy.check().unwrap();
    assert!(policy.rotate > 20.0 && policy.scale > 0.15 && policy.translate > 0.08);
}
