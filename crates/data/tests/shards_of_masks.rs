//! Shards of images with masks: written and read back as the folder is, those of others, and every mistake.
#![allow(clippy::unwrap_used)]

mod tar_file;

use std::fs;
use std::io::Cursor;
use std::path::Path;

use image::{GrayImage, ImageBuffer, ImageFormat, Luma, RgbImage};
use kindling_data::check::check;
use kindling_data::shards::pack;
use kindling_data::{
    DataError, Dataset, IGNORED, Normalisation, Opening, Preprocess, Split, Task, open_path, open_segmentation,
};
use tar_file::{Members, shard};

const COUNT: u32 = 24;

/// Images of several sizes, depths and colours, with masks of the numbers 0, 3, 7 and 9.
fn folder(dir: &Path) {
    fs::create_dir_all(dir.join("images")).unwrap();
    fs::create_dir_all(dir.join("masks")).unwrap();
    for number in 0..COUNT {
        let (width, height) = (9 + number % 3, 7 + number % 2);
        let path = |kind: &str| dir.join(kind).join(format!("p{:02}_{number:02}.png", number % 12));
        let value = |x: u32, y: u32| x * 17 + y * 5 + number;
        match number % 3 {
            0 => GrayImage::from_fn(width, height, |x, y| Luma([value(x, y) as u8])).save(path("images")).unwrap(),
            1 => ImageBuffer::from_fn(width, height, |x, y| Luma([value(x, y) as u16 * 211]))
                .save(path("images"))
                .unwrap(),
            _ => RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, value(x, y) as u8]))
                .save(path("images"))
                .unwrap(),
        }
        let numbers: &[u8] = if number % 4 == 0 { &[0] } else { &[0, 0, 3, 7, 9] };
        let class = |x, y| Luma([numbers[(value(x, y) as usize) % numbers.len()]]);
        GrayImage::from_fn(width, height, class).save(path("masks")).unwrap();
    }
}

fn declare(dir: &Path) {
    fs::write(dir.join("labels.json"), r#"{"tumour": 7, "organ": 3, "vessel": 5, "ignore": 9}"#).unwrap();
}

fn dataset(path: &Path) -> Dataset {
    open_segmentation(path, &Opening::new(3)).unwrap().dataset
}

/// The bits of an image, and the classes of its mask.
type Pixels = (Vec<u32>, Vec<u8>);

/// Each sample of a split as it is, and as a network sees it.
fn contents(dataset: &Dataset, split: Split) -> Vec<[Pixels; 2]> {
    let source = dataset.source(split);
    let preprocess = Preprocess::padded(16, 3, Normalisation::identity(3));
    let bits = |pixels: &[f32]| pixels.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
    let of = |at| {
        let (image, mask) = (source.read(at).unwrap(), source.read_mask(at).unwrap());
        let (fitted, fitted_mask) = source.read_with_mask(at, &preprocess).unwrap();
        assert_eq!((image.width, image.height), (mask.width, mask.height));
        [(bits(&image.pixels), mask.classes), (bits(&fitted.pixels), fitted_mask.classes)]
    };
    let mut all: Vec<_> = (0..source.len()).map(of).collect();
    all.sort();
    all
}

#[test]
fn masks_that_are_packed_are_read_back_bit_for_bit_with_their_classes() {
    for declared in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (images, out) = (dir.path().join("data"), dir.path().join("shards"));
        folder(&images);
        if declared {
            declare(&images);
        }
        let dataset = dataset(&images);
        let packed = pack(&dataset, &out, 6_000, 3, || {}).unwrap();
        assert_eq!((packed.samples, packed.rounded), (COUNT as usize, 0));
        assert!(packed.shards > 3, "{packed:?}");
        let tars = || fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
        assert!(tars().all(|shard| fs::metadata(shard).unwrap().len() <= 6_144));

        // Another seed: the shards say the splits.
        let opened = open_segmentation(&out, &Opening::new(9)).unwrap().dataset;
        assert_eq!((&opened.classes, opened.task, opened.channels), (&dataset.classes, Task::Segmentation, 3));
        for split in Split::ALL {
            assert_eq!(contents(&opened, split), contents(&dataset, split), "{split} with declared: {declared}");
            let source = opened.source(split);
            for index in 0..source.len() {
                assert_eq!(source.labels(index), source.read_mask(index).unwrap().present(), "known without a look");
            }
        }
        assert_eq!(opened.train.stretches().iter().sum::<usize>(), opened.train.len());
        let ignored = contents(&opened, Split::Train).iter().any(|[(_, mask), _]| mask.contains(&IGNORED));
        assert_eq!(ignored, declared);

        let again = dir.path().join("again");
        pack(&dataset, &again, 6_000, 3, || {}).unwrap();
        for shard in tars().filter(|path| path.extension().is_some_and(|ending| ending == "tar")) {
            assert_eq!(fs::read(&shard).unwrap(), fs::read(again.join(shard.file_name().unwrap())).unwrap());
        }
        // What was packed can be packed again, and be opened by its index.
        let twice = dir.path().join("twice");
        pack(&opened, &twice, 1 << 20, 3, || {}).unwrap();
        for _ in 0..2 {
            let opened = self::dataset(&twice);
            assert!(Split::ALL.iter().all(|split| contents(&opened, *split) == contents(&dataset, *split)));
        }
    }
}

#[test]
fn shards_of_masks_are_checked_as_their_folder_is() {
    let dir = tempfile::tempdir().unwrap();
    let (images, out) = (dir.path().join("data"), dir.path().join("shards"));
    folder(&images);
    declare(&images);
    let folder = dataset(&images);
    pack(&folder, &out, 1 << 20, 3, || {}).unwrap();
    let [of_folder, of_shards] = [&folder, &dataset(&out)].map(|dataset| check(dataset, &[], || {}));
    assert_eq!(of_shards.masks, of_folder.masks);
    assert_eq!((&of_shards.by_class, &of_shards.lacking), (&of_folder.by_class, &of_folder.lacking));
    assert_eq!((&of_shards.sizes, &of_shards.unreadable), (&of_folder.sizes, &of_folder.unreadable));
}

#[test]
fn another_mask_is_another_sample_and_an_index_that_points_elsewhere_is_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (images, out) = (dir.path().join("data"), dir.path().join("shards"));
    folder(&images);
    pack(&dataset(&images), &out, 1 << 20, 3, || {}).unwrap();
    let opened = dataset(&out);
    let index = out.join(".kindling-index.json");
    let text = fs::read_to_string(&index).unwrap();
    let outside = text.replacen("\"mask\":{\"offset\":", "\"mask\":{\"offset\":999999999", 1);
    assert_ne!(outside, text);
    fs::write(&index, outside).unwrap();
    assert_eq!(contents(&dataset(&out), Split::Val), contents(&opened, Split::Val));
    assert_eq!(fs::read_to_string(&index).unwrap(), text);

    let before = opened.train.fingerprint(0).unwrap();
    let shard = out.join("train-000000.tar");
    let mut bytes = fs::read(&shard).unwrap();
    // A file begins 512 bytes behind its name.
    let name = bytes.windows(17).position(|bytes| bytes == b"00000000.mask.png").unwrap();
    bytes[name + 512 + 20] ^= 1;
    fs::write(&shard, bytes).unwrap();
    assert_ne!(opened.train.fingerprint(0).unwrap(), before);
}

fn png(width: u32, values: &[u8]) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let value = |x: u32, y: u32| Luma([values[(y * width + x) as usize % values.len()]]);
    GrayImage::from_fn(width, 2, value).write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

#[test]
fn shards_of_others_need_no_more_than_images_and_masks() {
    let dir = tempfile::tempdir().unwrap();
    let (image, mask, empty) = (png(3, &[9, 8, 7]), png(3, &[0, 4, 2]), png(3, &[0]));
    for split in ["train", "val", "test"] {
        let members: Members = &[("a.png", &image), ("a.mask.png", &mask), ("b.mask.PNG", &empty), ("b.PNG", &image)];
        shard(&dir.path().join(format!("{split}-0.tar")), members);
    }
    let opened = dataset(dir.path());
    assert_eq!(opened.classes, ["background", "class 2", "class 4"]);
    assert_eq!(opened.train.read_mask(0).unwrap().classes, [0, 2, 1, 0, 2, 1]);
    assert_eq!((opened.train.labels(0), opened.train.labels(1)), (vec![0, 1, 2], vec![0]));
    // What is there for classifiers and for segmentation is taken by both.
    let both: Members = &[
        ("a.png", &image),
        ("a.mask.png", &mask),
        ("a.json", br#"{"label": "x", "group": "p", "weight": 2, "labels": {"organ": 4, "vessel": 2}}"#),
        ("b.png", &image),
        ("b.mask.png", &empty),
        ("b.json", br#"{"label": "y", "labels": {"organ": 4, "vessel": 2}, "present": ["background"]}"#),
    ];
    for split in ["train", "val", "test"] {
        shard(&dir.path().join(format!("{split}-0.tar")), both);
    }
    let opening = Opening { split_by: Some("none".parse().unwrap()), ..Opening::new(1) };
    let classes = open_path(dir.path(), &opening).unwrap().dataset;
    assert_eq!((classes.classes.join(" "), classes.task), ("x y".into(), Task::MultiClass));
    let masks = open_segmentation(dir.path(), &opening).unwrap().dataset;
    assert_eq!(masks.classes, ["background", "vessel", "organ"]);
    assert_eq!((masks.train.group(0).as_deref(), masks.train.weight(0)), (Some("p"), 2.0));
    assert_eq!((masks.train.labels(0), masks.train.labels(1)), (vec![], vec![0]), "what is not said is not known");
    assert_eq!(masks.train.read_mask(0).unwrap().classes, [0, 2, 1, 0, 2, 1]);
}

#[test]
fn every_mistake_in_shards_of_masks_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a\nb.tar");
    let (image, mask, wide) = (png(3, &[9]), png(3, &[0, 1]), png(4, &[0, 1]));
    let mut jpeg = Cursor::new(Vec::new());
    GrayImage::new(3, 2).write_to(&mut jpeg, ImageFormat::Jpeg).unwrap();
    let jpeg = jpeg.into_inner();
    let says = |error: DataError, says: &str| {
        let error = error.to_string();
        assert!(error.contains(says) && error.contains("a\\nb.tar") && !error.contains('\n'), "{says}: {error}");
    };
    let one: &[u8] = br#"{"labels": {"a": 1}}"#;
    let cases: [(Members, &str); 14] = [
        (&[("k.png", &image), ("k.cls", b"1")], "\"k\" has no mask; --task segmentation takes a k.mask.png"),
        (&[("k.png", &image)], "\"k\" has no mask"),
        (&[("k.png", &image), ("k.mask.png", &mask), ("l.png", &image)], "\"l\" has no mask"),
        (&[("k.mask.png", &mask)], "no image for \"k.mask.png\""),
        (&[("k.png", &image), ("l.png", &image), ("k.mask.png", &mask)], "no image for \"k.mask.png\""),
        (&[("k.png", &image), ("k.mask.png", &mask), ("k.mask.tif", &mask)], "two masks"),
        (&[("k.png", &image), ("k.mask.png", &wide)], "3 x 2 pixels, but its mask is 4 x 2"),
        (&[("k.png", &image), ("k.mask.png", b"nothing")], "not a PNG"),
        (&[("k.png", &image), ("k.mask.jpg", &jpeg)], "JPEG and WebP change"),
        (
            &[("k.png", &image), ("k.mask.png", &mask), ("k.json", br#"{"labels": [1]}"#)],
            "no object of names and numbers",
        ),
        (&[("k.png", &image), ("k.mask.png", &mask), ("k.json", br#"{"labels": {"a": [1]}}"#)], "a region of several"),
        (&[("k.png", &image), ("k.mask.png", &mask), ("k.json", br#"{"present": 3}"#)], "no list of names"),
        (
            &[("k.png", &image), ("k.mask.png", &mask), ("k.json", one), ("l.png", &image), ("l.mask.png", &mask)],
            "`labels` of the sample \"l\" are not those of \"k\"",
        ),
        (
            &[("k.png", &image), ("k.mask.png", &mask), ("k.json", br#"{"labels": {"a": 1}, "present": ["b"]}"#)],
            "shows \"b\", which is none of its classes",
        ),
    ];
    for (members, part) in cases {
        shard(&path, members);
        says(open_segmentation(&path, &Opening::new(1)).err().unwrap(), part);
    }
    shard(&path, &[("k.png", &image), ("k.mask.png", &mask), ("k.json", one)]);
    says(open_path(&path, &Opening::new(1)).err().unwrap(), "has a mask and no label; --task segmentation");
    shard(&path, &[("README", b"")]);
    says(open_segmentation(&path, &Opening::new(1)).err().unwrap(), "no samples");
    let whole: Members = &[("k.png", &image), ("k.mask.png", &mask), ("l.png", &image), ("l.mask.png", &mask)];
    shard(&path, whole);
    let whole = fs::read(&path).unwrap();
    for end in (0..whole.len()).step_by(97) {
        fs::write(&path, &whole[..end]).unwrap();
        if let Err(error) = open_segmentation(&path, &Opening::new(1)) {
            assert!(error.to_string().contains("a\\nb.tar"), "{error}");
        }
    }
    // A tar file beside a folder of images is no shard.
    let images = dir.path().join("data");
    folder(&images);
    fs::copy(&path, images.join("copy.tar")).unwrap();
    assert_eq!(dataset(&images).joined().len(), COUNT as usize);
}
