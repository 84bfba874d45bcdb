//! NIfTI volumes as folders of slices.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use kindling_data::{DataError, Format, Opening, Split, SplitBy, open_path};
use kindling_scans::Nifti;
use kindling_scans::nifti::synthetic::Nifti as File;

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
