//! NIfTI volumes as folders of slices.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use kindling_data::{
    DataError, Format, Mask, Normalisation, Opening, Preprocess, Split, SplitBy, open_path, open_segmentation,
};
use kindling_scans::Nifti;
use kindling_scans::nifti::synthetic::{self, Nifti as File};

/// A ball whose brightness grows towards the top.
fn ball(side: usize, seed: usize) -> File {
    let centre = (side - 1) as f32 / 2.0;
    File::of([side; 3], move |point| {
        let distance = point.map(|p| (p as f32 - centre).powi(2)).iter().sum::<f32>().sqrt();
        if distance < centre * 0.9 { (60 + seed + point[2] * 8) as u8 } else { 0 }
    })
}

#[test]
fn a_folder_of_volumes_is_a_data_set_of_slices_split_by_volume() {
    let dir = tempfile::tempdir().unwrap();
    for (at, class) in ["ill", "well"].into_iter().enumerate() {
        std::fs::create_dir(dir.path().join(class)).unwrap();
        for volume in 0..5 {
            let file = ball(16, at * 5 + volume);
            let path = dir.path().join(class).join(format!("v{volume}.nii"));
            match volume % 2 {
                0 => std::fs::write(path, file.unpacked()).unwrap(),
                _ => std::fs::write(path.with_extension("nii.gz"), file.packed()).unwrap(),
            }
        }
    }
    let opening = Opening { formats: vec![Arc::new(Nifti::default())], ..Opening::new(1) };
    let opened = open_path(dir.path(), &opening).unwrap();
    assert_eq!(opened.split_by, Some(SplitBy::Group));
    let mut groups = std::collections::BTreeMap::new();
    let mut slices = 0;
    for split in Split::ALL {
        let source = opened.dataset.source(split);
        assert_eq!(source.stretches().iter().sum::<usize>(), source.len());
        slices += source.len();
        for index in 0..source.len() {
            let group = source.group(index).unwrap();
            assert_eq!(*groups.entry(group).or_insert(split), split, "a volume is on two sides");
            let image = source.read(index).unwrap();
            assert_eq!((image.width, image.height, image.channels), (16, 16, 1));
            assert!(image.pixels.iter().all(|value| (0.0..=1.0).contains(value)));
            assert!(image.at(8, 8, 0) > 0.1 && image.at(0, 0, 0) == 0.0);
        }
    }
    assert_eq!(groups.len(), 10);
    assert!(slices % 10 == 0 && slices < 160, "empty slices are left out: {slices} of 160");
}

#[test]
fn damaged_volumes_are_errors_with_their_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a\nb.nii");
    let good = ball(8, 0).unpacked();
    let huge = File { dim: [3, 30_000, 30_000, 30_000, 1, 1, 1, 1], ..ball(2, 0) }.unpacked();
    for bytes in [&good[..good.len() - 1], &good[..300], &[], b"<html>", &huge] {
        std::fs::write(&path, bytes).unwrap();
        let error = Nifti::default().list(&path).unwrap_err();
        assert!(matches!(error, DataError::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains("a\\nb.nii") && !error.to_string().contains('\n'), "{error}");
    }
}

/// Its mask: 1 in the lower half of the ball, 2 in the upper one, and a mark in a slice that shows next to nothing.
fn halves(side: usize) -> File {
    let centre = (side - 1) as f32 / 2.0;
    File::of([side; 3], move |point| {
        let distance = point.map(|p| (p as f32 - centre).powi(2)).iter().sum::<f32>().sqrt();
        match (distance < centre * 0.9, point) {
            (true, [_, _, z]) => 1 + u8::from(z >= side / 2),
            (false, [1, 2, 0]) => 2,
            _ => 0,
        }
    })
}

fn opening() -> Opening {
    Opening { formats: vec![Arc::new(Nifti::default())], ..Opening::new(1) }
}

/// A folder of volumes as nnU-Net has it, with masks stored in other orders than their images.
fn nnunet(dir: &std::path::Path, count: usize) {
    for folder in ["imagesTr", "labelsTr"] {
        std::fs::create_dir_all(dir.join(folder)).unwrap();
    }
    for case in 0..count {
        let (image, mask) = (ball(16, case), halves(16));
        let mask = if case % 2 == 0 { mask } else { mask.stored_as([2, 0, 1], [true, false, true]) };
        // Whole numbers in floating point are numbers too.
        let mask = File { element: if case % 3 == 0 { 16 } else { 2 }, ..mask };
        std::fs::write(dir.join(format!("imagesTr/case_{case}_0000.nii.gz")), image.packed()).unwrap();
        std::fs::write(dir.join(format!("labelsTr/case_{case}.nii.gz")), mask.packed()).unwrap();
    }
    let about =
        r#"{"channel_names": {"0": "CT"}, "labels": {"background": 0, "low": 1, "high": 2}, "file_ending": ".nii.gz"}"#;
    std::fs::write(dir.join("dataset.json"), about).unwrap();
}

#[test]
fn volumes_and_their_masks_are_paired_slice_by_slice_and_split_by_case() {
    let dir = tempfile::tempdir().unwrap();
    nnunet(dir.path(), 8);
    let opened = open_segmentation(dir.path(), &opening()).unwrap();
    assert_eq!(
        (opened.split_by, opened.dataset.classes.join(" ")),
        (Some(SplitBy::Group), "background low high".into())
    );
    let mut groups = std::collections::BTreeMap::new();
    let preprocess = Preprocess::padded(16, 1, Normalisation::identity(1));
    let (mut low, mut high) = (0, 0);
    for split in Split::ALL {
        let source = opened.dataset.source(split);
        for index in 0..source.len() {
            let group = source.group(index).unwrap();
            assert!(group.starts_with("case_"), "{group}");
            assert_eq!(*groups.entry(group).or_insert(split), split, "a case is on two sides");
            let (image, mask) = source.read_with_mask(index, &preprocess).unwrap();
            let marked = mask.present().last().copied();
            low += usize::from(marked == Some(1));
            high += usize::from(marked == Some(2));
            // The ball is bright exactly where its mask is; its brightness grows with the slices.
            let alike = |at: usize| (image.pixels[at] > 0.05) == (mask.classes[at] > 0);
            let is_mark = |mask: &Mask| mask.classes.iter().filter(|class| **class > 0).count() == 1;
            assert!(is_mark(&mask) || (0..256).all(alike), "{}", source.name_of(index));
        }
    }
    assert_eq!(groups.len(), 8);
    // A slice at the edge of the ball is kept for its mark.
    assert!(low > 8 * 3 && high == low + 8, "{low} {high}");
}

#[test]
fn pixels_of_masks_are_as_square_as_those_of_their_images() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let long = |file: File| File { spacing: [1.0, 3.0, 1.0], ..file };
    std::fs::write(path("image.nii"), long(ball(16, 0)).unpacked()).unwrap();
    std::fs::write(path("mask.nii"), long(halves(16)).unpacked()).unwrap();
    let nifti = Nifti::default();
    let pairs = nifti.list_with_masks(&path("image.nii"), &path("mask.nii"), &nifti).unwrap();
    let (image, mask) = &pairs[pairs.len() / 2];
    let (image, mask) = (nifti.read(image).unwrap(), nifti.read_mask_values(mask).unwrap());
    assert_eq!((image.width, image.height, mask.width, mask.height), (16, 48, 16, 48));
    let unlike = (0..16 * 48).filter(|&at| (image.pixels[at] > 0.2) != (mask.values[at] > 0)).count();
    // Where the image is between two voxels.
    assert!(unlike < 16 * 4, "{unlike}");
    // Three pixels a voxel have one number.
    assert!((0..16).all(|voxel| {
        (1..3).all(|more| mask.values[48 * voxel..][..16] == mask.values[48 * voxel + 16 * more..][..16])
    }));
}

#[test]
fn masks_that_do_not_fit_their_volumes_are_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    nnunet(dir.path(), 5);
    let mask = dir.path().join("labelsTr/case_2.nii.gz");
    let refusal = || {
        let error = open_segmentation(dir.path(), &opening()).err().unwrap();
        assert!(!error.to_string().contains('\n') && error.to_string().contains("case_2.nii.gz"), "{error}");
        error.to_string()
    };
    for (file, says) in [
        (halves(12), "has 12 x 12 x 12 voxels of 1.000 x 1.000 x 1.000 mm, where the other has 16 x 16 x 16"),
        (File { spacing: [1.0, 1.0, 2.0], ..halves(16) }, "voxels of 1.000 x 1.000 x 2.000 mm"),
        (File { slope: 0.5, ..halves(16) }, "scaled"),
        (File { element: 256, values: vec![200; 4096], ..halves(16) }, "its voxels hold -56"),
        (File { dim: [3, 16, 16, 40, 1, 1, 1, 1], ..halves(16) }, "ends too early"),
    ] {
        std::fs::write(&mask, file.packed()).unwrap();
        assert!(refusal().contains(says), "{}", refusal());
    }
    // One voxel further to the right.
    let mut moved = halves(16).unpacked();
    moved[280 + 12..280 + 16].copy_from_slice(&(-39.0f32).to_le_bytes());
    std::fs::write(&mask, synthetic::pack(&moved)).unwrap();
    assert!(refusal().contains("lies 1.0 voxels away"), "{}", refusal());
    std::fs::write(&mask, File { values: vec![7; 4096], ..halves(16) }.packed()).unwrap();
    let dataset = open_segmentation(dir.path(), &opening()).unwrap().dataset;
    let joined = dataset.joined();
    let of_2 = (0..joined.len()).find(|&index| joined.group(index).as_deref() == Some("case_2")).unwrap();
    let error = joined.read_mask(of_2).unwrap_err().to_string();
    assert!(error.contains("the number 7") && error.contains("case_2.nii.gz"), "{error}");
}

#[test]
fn a_volume_needs_a_volume_as_its_mask() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["images", "masks"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    for case in 0..4 {
        std::fs::write(dir.path().join(format!("images/{case}.nii")), ball(16, case).unpacked()).unwrap();
        std::fs::write(dir.path().join(format!("masks/{case}.png")), "a picture").unwrap();
    }
    let error = open_segmentation(dir.path(), &opening()).err().unwrap().to_string();
    assert!(error.contains("the mask of a volume is one"), "{error}");
}
