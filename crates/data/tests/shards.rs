//! Shards: written and read back, foreign ones, and damaged ones.

#![allow(clippy::unwrap_used)]

mod tar_file;

use std::fs;
use std::path::Path;

use image::{GrayImage, ImageBuffer, Luma};
use kindling_data::shards::pack;
use kindling_data::{DataError, Dataset, Opening, Split, Task, open_folder, open_path};
use tar_file::{Members, shard};

fn folder_of_classes(dir: &Path, count: u8) {
    for (class, value) in [("bright", 200), ("dark", 20)] {
        fs::create_dir_all(dir.join(class)).unwrap();
        for number in 0..count {
            let path = dir.join(class).join(format!("{number:03}.png"));
            if number % 2 == 0 {
                GrayImage::from_pixel(5, 4, Luma([value + number])).save(path).unwrap();
            } else {
                ImageBuffer::from_pixel(5, 4, Luma([u16::from(value) * 251 + u16::from(number)])).save(path).unwrap();
            }
        }
    }
}

fn pixels_by_split(dataset: &Dataset) -> Vec<Vec<(String, Vec<u32>)>> {
    let of = |split: Split| {
        let source = dataset.source(split);
        let mut found: Vec<(String, Vec<u32>)> = (0..source.len())
            .map(|at| {
                let pixels = source.read(at).unwrap().pixels;
                (dataset.classes[source.label(at)].clone(), pixels.iter().map(|value| value.to_bits()).collect())
            })
            .collect();
        found.sort();
        found
    };
    Split::ALL.map(of).into()
}

#[test]
fn what_is_packed_is_read_back_and_packing_is_deterministic() {
    let dir = tempfile::tempdir().unwrap();
    folder_of_classes(&dir.path().join("images"), 40);
    let dataset = open_folder(&dir.path().join("images"), 3).unwrap();
    let mut told = 0;
    let out = dir.path().join("shards");
    let packed = pack(&dataset, &out, 40_000, 3, || told += 1).unwrap();
    assert_eq!((packed.samples, packed.rounded, told), (80, 0, 80));
    assert!(packed.shards >= 6, "{packed:?}");
    let shards: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(shards.len(), packed.shards);
    assert!(shards.iter().all(|shard| fs::metadata(shard).unwrap().len() <= 40_960));

    let opened = open_path(&out, &Opening::new(9)).unwrap().dataset;
    assert_eq!(opened.classes, dataset.classes);
    assert_eq!(pixels_by_split(&opened), pixels_by_split(&dataset));
    assert_eq!(opened.train.stretches().iter().sum::<usize>(), opened.train.len());
    assert!(opened.train.stretches().len() > 2 && dataset.train.stretches().is_empty());

    let again = dir.path().join("again");
    pack(&dataset, &again, 40_000, 3, || {}).unwrap();
    for shard in &shards {
        assert_eq!(fs::read(shard).unwrap(), fs::read(again.join(shard.file_name().unwrap())).unwrap());
    }
    assert!(matches!(pack(&dataset, &out, 40_000, 3, || {}), Err(DataError::Shard { .. })), "nothing is overwritten");
}

#[test]
fn the_index_is_built_once_and_anew_when_a_shard_changes() {
    let dir = tempfile::tempdir().unwrap();
    folder_of_classes(&dir.path().join("images"), 20);
    let dataset = open_folder(&dir.path().join("images"), 3).unwrap();
    let out = dir.path().join("shards");
    pack(&dataset, &out, 1 << 30, 3, || {}).unwrap();
    let names = |dataset: &Dataset| (0..dataset.train.len()).map(|at| dataset.train.name_of(at)).collect::<Vec<_>>();
    let first = names(&open_path(&out, &Opening::new(1)).unwrap().dataset);
    let index = out.join(".kindling-index.json");
    let written = fs::metadata(&index).unwrap().modified().unwrap();
    assert_eq!(names(&open_path(&out, &Opening::new(1)).unwrap().dataset), first);
    assert_eq!(fs::metadata(&index).unwrap().modified().unwrap(), written, "it was built again");
    // A damaged one, one that points outside of the shard, and one of a shard that has changed.
    let text = fs::read_to_string(&index).unwrap();
    let outside = text.replacen("\"offset\":512,", "\"offset\":99999999999,", 1);
    assert_ne!(outside, text);
    for bad in ["{", "[]", &outside, &text.replace("\"version\":1", "\"version\":2")] {
        fs::write(&index, bad).unwrap();
        assert_eq!(names(&open_path(&out, &Opening::new(1)).unwrap().dataset), first);
        assert_eq!(fs::read_to_string(&index).unwrap(), text);
    }
    let shard = out.join("train-000000.tar");
    fs::write(&shard, fs::read(out.join("val-000000.tar")).unwrap()).unwrap();
    assert_ne!(open_path(&out, &Opening::new(1)).unwrap().dataset.train.len(), first.len());
}

fn png(value: u8) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    GrayImage::from_pixel(2, 2, Luma([value])).write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

#[test]
fn shards_of_others_are_read_by_webdatasets_rules() {
    let dir = tempfile::tempdir().unwrap();
    let long = "a".repeat(150);
    let names: Vec<String> = (0..12).map(|at| format!("{long}/s{at:02}")).collect();
    let mut members: Vec<(String, Vec<u8>)> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        members.push((format!("{name}.seg.txt"), b"ignored".to_vec()));
        members.push((format!("{name}.PNG"), png(at as u8)));
        match at % 3 {
            0 => members.push((format!("{name}.cls"), b"10\n".to_vec())),
            1 => members.push((format!("{name}.json"), br#"{"label": 2, "group": "p", "weight": 0.5}"#.to_vec())),
            _ => {
                members.push((format!("{name}.cls"), b"2".to_vec()));
                members.push((format!("{name}.json"), br#"{"group": "q"}"#.to_vec()));
            }
        }
    }
    members.push(("README".into(), b"no sample".to_vec()));
    let members: Vec<(&str, &[u8])> = members.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
    for split in ["train", "valid", "test"] {
        shard(&dir.path().join(format!("{split}-0.tar")), &members[..members.len() / 3]);
    }
    // Groups are in all three: shards that leak are refused like any other.
    assert!(matches!(open_path(dir.path(), &Opening::new(1)), Err(DataError::Leak { .. })));
    let opening = Opening { split_by: Some("none".parse().unwrap()), ..Opening::new(1) };
    let dataset = open_path(dir.path(), &opening).unwrap().dataset;
    assert_eq!((dataset.classes.as_slice(), dataset.task), (&["2".to_owned(), "10".to_owned()][..], Task::MultiClass));
    assert_eq!(dataset.train.labels(0), [1]);
    assert_eq!((dataset.train.weight(1), dataset.train.group(1).as_deref()), (0.5, Some("p")));
    assert_eq!(dataset.train.group(2).as_deref(), Some("q"));
    assert_eq!(dataset.val.read(1).unwrap().pixels, [1.0 / 255.0; 4]);
}

#[test]
fn damaged_shards_are_errors_that_name_the_shard_and_the_sample() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a\nb.tar");
    let image = png(7);
    let cases: [(Members, &str); 8] = [
        (&[("a.png", &image)], "neither a .cls nor a .json"),
        (&[("a.png", &image), ("a.cls", b"")], "empty"),
        (&[("a.png", &image), ("a.json", b"{")], ".json of \"a\" is none"),
        (&[("a.png", &image), ("a.json", b"{}")], "nor a .json with a `label`"),
        (&[("a.png", &image), ("a.json", br#"{"label":"x","weight":-1}"#)], "-1"),
        (&[("a.png", &image), ("a.jpg", &image), ("a.cls", b"1")], "two images"),
        (&[("a.png", b"nothing"), ("a.cls", b"1")], "not a PNG"),
        (&[("README", b"")], "no samples"),
    ];
    for (members, says) in cases {
        shard(&path, members);
        let error = open_path(&path, &Opening::new(1)).err().unwrap().to_string();
        assert!(error.contains(says) && error.contains("a\\nb.tar") && !error.contains('\n'), "{says}: {error}");
    }
    shard(&path, &[("a.png", &image), ("a.cls", b"1"), ("b.png", &image), ("b.cls", b"2")]);
    let whole = fs::read(&path).unwrap();
    for end in (0..whole.len()).step_by(97) {
        fs::write(&path, &whole[..end]).unwrap();
        if let Err(error) = open_path(&path, &Opening::new(1)) {
            assert!(error.to_string().contains("a\\nb.tar"), "{error}");
        }
    }
}
