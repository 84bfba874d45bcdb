//! Opening images with masks: every layout, and every mistake.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use image::{ImageBuffer, Luma, Rgb, RgbImage};
use kindling_data::{
    DataError, Dataset, FileList, Fold, IGNORED, Normalisation, OnBadSample, Opened, Opening, Preprocess, Purpose,
    Source, Split, SplitBy, Task, open_segmentation,
};

/// A picture of `width` x `height` pixels of some numbers, one after another.
fn grey(path: &Path, (width, height): (u32, u32), numbers: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let number = |x, y| numbers[((y * width + x) as usize) % numbers.len()];
    ImageBuffer::from_fn(width, height, |x, y| Luma([number(x, y)])).save(path).unwrap();
}

/// An image and its mask, 6 x 4.
fn pair(image: &Path, mask: &Path, numbers: &[u8]) {
    grey(image, (6, 4), &[10, 20, 30]);
    grey(mask, (6, 4), numbers);
}

/// `images/NAME.png` and `masks/NAME.png` for so many names.
fn folder(dir: &Path, count: usize, numbers: &[u8]) {
    for number in 0..count {
        pair(&dir.join(format!("images/{number:02}.png")), &dir.join(format!("masks/{number:02}.png")), numbers);
    }
}

fn open(path: &Path) -> Result<Opened, DataError> {
    open_segmentation(path, &Opening::new(1))
}

fn dataset(path: &Path) -> Dataset {
    open(path).unwrap().dataset
}

fn refusal(path: &Path) -> String {
    let error = open(path).err().unwrap().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

fn sizes(dataset: &Dataset) -> [usize; 3] {
    Split::ALL.map(|split| dataset.source(split).len())
}

fn names(source: &dyn Source) -> BTreeSet<String> {
    (0..source.len()).map(|index| source.name_within(index).unwrap()).collect()
}

#[test]
fn images_and_masks_are_paired_by_name_and_split_as_other_folders_are() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path(), 20, &[0, 255]);
    let opened = open(dir.path()).unwrap();
    let dataset = &opened.dataset;
    assert_eq!((dataset.task, dataset.channels), (Task::Segmentation, 1));
    assert_eq!(dataset.classes, ["background", "foreground"]);
    assert_eq!((sizes(dataset), opened.split_here), ([14, 3, 3], true));
    let all: BTreeSet<String> = Split::ALL.iter().flat_map(|split| names(dataset.source(*split).as_ref())).collect();
    assert_eq!(all.len(), 20);
    let mask = dataset.test.read_mask(0).unwrap();
    assert_eq!((mask.width, mask.height, mask.classes), (6, 4, [0, 1].repeat(12)));
    assert_eq!((dataset.test.label(0), dataset.test.labels(0)), (0, vec![0, 1]));
    assert_eq!(dataset.class_counts(Split::Train), [14, 14]);
    assert!(dataset.about.contains("image by image"), "{}", dataset.about);
    // Where a sample goes depends on its name and the seed, not on how many there are.
    let before = names(dataset.test.as_ref());
    pair(&dir.path().join("images/new.png"), &dir.path().join("masks/new.png"), &[0, 255]);
    assert!(before.difference(&names(self::dataset(dir.path()).test.as_ref())).count() <= 1);
}

#[test]
fn a_mask_may_have_another_ending_and_a_word_after_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let endings = ["a_mask.png", "b_seg.tif", "c-mask.bmp", "d_label.png", "deep/e.png", "deep/f_segmentation.png"];
    for mask in endings {
        let image = mask.replace("_mask", "").replace("_seg.", ".").replace("-mask", "").replace("_label", "");
        let image = image.replace("_segmentation", "").replace("tif", "png").replace("bmp", "jpg");
        pair(&at("images").join(image), &at("labels").join(mask), &[0, 1, 2]);
    }
    // A name that ends like that of a mask is a name of its own.
    pair(&at("images/g_seg.png"), &at("labels/g_seg.png"), &[0, 2]);
    fs::write(at("labels/notes.txt"), "text").unwrap();
    let opened = open(dir.path()).unwrap();
    assert_eq!(opened.dataset.joined().len(), 7);
    assert_eq!(opened.dataset.classes, ["background", "class 1", "class 2"]);
    assert_eq!(opened.passed_over.files["txt"], 1);
    let joined = opened.dataset.joined();
    let without_1 = (0..7).find(|&index| joined.name_within(index).unwrap() == "images/g_seg.png").unwrap();
    assert_eq!(joined.labels(without_1), [0, 2]);
}

#[test]
fn folders_called_as_splits_are_the_splits_above_or_below_images() {
    for above in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        for (split, count) in [("train", 6), ("val", 2), ("test", 3)] {
            for number in 0..count {
                let path = |kind: &str| match above {
                    true => dir.path().join(format!("{split}/{kind}/{number}.png")),
                    false => dir.path().join(format!("{kind}/{split}/{number}.png")),
                };
                pair(&path("images"), &path("annotations"), &[0, 1]);
            }
        }
        let opened = open(dir.path()).unwrap();
        assert_eq!((sizes(&opened.dataset), opened.split_by, opened.split_here), ([6, 2, 3], None, false), "{above}");
    }
    let dir = tempfile::tempdir().unwrap();
    for number in 0..10 {
        let path = |kind: &str| dir.path().join(format!("train/{kind}/{number}.png"));
        pair(&path("images"), &path("masks"), &[0, 1]);
    }
    assert_eq!(sizes(&dataset(dir.path())), [6, 2, 2], "what is missing is split off");
    fs::create_dir(dir.path().join("more")).unwrap();
    assert!(refusal(dir.path()).contains("\"more\""));
    fs::remove_dir(dir.path().join("more")).unwrap();
    fs::rename(dir.path().join("train"), dir.path().join("test")).unwrap();
    assert!(refusal(dir.path()).contains("no train/"));
    let scored = open_segmentation(dir.path(), &Opening { purpose: Purpose::ScoreSplit, ..Opening::new(1) }).unwrap();
    assert_eq!(sizes(&scored.dataset), [0, 0, 10]);
}

#[test]
fn folders_can_keep_patients_together() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..30 {
        let path = |kind: &str| dir.path().join(format!("{kind}/p{}/{number}.png", number % 10));
        pair(&path("images"), &path("masks"), &[0, 1]);
    }
    let opening = Opening { split_by: Some("folder".parse().unwrap()), ..Opening::new(3) };
    let dataset = open_segmentation(dir.path(), &opening).unwrap().dataset;
    let groups = |split: Split| -> BTreeSet<String> {
        let source = dataset.source(split);
        (0..source.len()).map(|index| source.group(index).unwrap()).collect()
    };
    assert!(Split::ALL.iter().all(|split| !groups(*split).is_empty()));
    assert_eq!(Split::ALL.iter().map(|split| groups(*split).len()).sum::<usize>(), 10);
    let folds: Vec<BTreeSet<String>> = Fold::all(5)
        .map(|fold| {
            let opening = Opening { fold: Some(fold), ..opening.clone() };
            names(open_segmentation(dir.path(), &opening).unwrap().dataset.test.as_ref())
        })
        .collect();
    assert_eq!(folds.iter().map(BTreeSet::len).sum::<usize>(), 30);
}

#[test]
fn classes_are_those_that_are_declared() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path(), 10, &[0, 2, 5, 9]);
    let declare = |text: &str| fs::write(dir.path().join("labels.json"), text).unwrap();
    declare(r#"{"tumour": 5, "organ": 2, "ignore": 9, "vessel": 3}"#);
    let declared = dataset(dir.path());
    assert_eq!(declared.classes, ["background", "organ", "vessel", "tumour"]);
    assert_eq!(declared.train.read_mask(0).unwrap().classes[..4], [0, 1, 3, IGNORED]);
    assert_eq!(declared.train.labels(0), [] as [usize; 0], "no mask was read");
    declare(r#"{"0": "nothing", "2": "organ", "5": "tumour", "9": "ignore"}"#);
    assert_eq!(dataset(dir.path()).classes, ["nothing", "organ", "tumour"]);
    declare(r#"{"organ": 2, "tumour": 5}"#);
    let error = dataset(dir.path()).train.read_mask(0).unwrap_err().to_string();
    assert!(error.contains("masks/") && error.contains("number 9") && error.contains("0, 2, 5"), "{error}");
    for (text, says) in [
        ("[1]", "not an object"),
        (r#"{"organ": "two"}"#, "no name with a whole number"),
        (r#"{"whole": [1, 2]}"#, "a region of several numbers"),
        (r#"{"organ": 2.5}"#, "no name with a whole number"),
        ("{}", "no class beside the background"),
    ] {
        declare(text);
        let error = refusal(dir.path());
        assert!(error.contains(says) && error.contains("labels.json"), "{error}");
    }
    fs::remove_file(dir.path().join("labels.json")).unwrap();
    fs::write(dir.path().join("classes.txt"), "background\na\nb\nc\nd\ne\nf\ng\nh\ni\n\n").unwrap();
    assert_eq!(dataset(dir.path()).classes[8..], ["h", "i"]);
    assert_eq!(dataset(dir.path()).train.read_mask(0).unwrap().classes[..4], [0, 2, 5, 9]);
}

#[test]
fn numbers_that_nobody_declares_and_that_are_not_clear_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    for (numbers, says) in
        [(&[0u8, 1, 2, 255][..], "nobody says whether 255 is a class or to be ignored"), (&[0], "every pixel is 0")]
    {
        folder(dir.path(), 6, numbers);
        assert!(refusal(dir.path()).contains(says), "{}", refusal(dir.path()));
    }
    fs::remove_dir_all(dir.path().join("images")).unwrap();
    fs::remove_dir_all(dir.path().join("masks")).unwrap();
    fs::create_dir_all(dir.path().join("masks")).unwrap();
    for number in 0..6 {
        grey(&dir.path().join(format!("images/{number:02}.png")), (20, 15), &[7]);
        let path = dir.path().join(format!("masks/{number:02}.png"));
        ImageBuffer::from_fn(20, 15, |x, y| Luma([(y * 20 + x) as u16])).save(path).unwrap();
    }
    assert!(refusal(dir.path()).contains("the masks hold 300 numbers"), "{}", refusal(dir.path()));
    // Who scores a model knows the classes.
    folder(dir.path(), 6, &[0]);
    let scored = open_segmentation(dir.path(), &Opening { purpose: Purpose::ScoreAll, ..Opening::new(1) }).unwrap();
    let known = ["background", "foreground"].map(str::to_owned);
    assert_eq!(scored.dataset.under_classes(&known, Task::Segmentation).unwrap().test.labels(0), [0]);
}

#[test]
fn a_palette_and_16_bits_are_numbers_too() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..6 {
        grey(&dir.path().join(format!("images/{number}.png")), (4, 2), &[9]);
        let path = dir.path().join(format!("masks/{number}.png"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if number % 2 == 0 {
            let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), 4, 2);
            encoder.set_color(png::ColorType::Indexed);
            encoder.set_palette([[0, 0, 0], [250, 0, 0], [0, 250, 0]].concat());
            encoder.write_header().unwrap().write_image_data(&[0, 1, 2, 0, 1, 2, 0, 1]).unwrap();
        } else {
            ImageBuffer::from_fn(4, 2, |x, y| Luma([((y * 4 + x) % 3) as u16])).save(path).unwrap();
        }
    }
    let dataset = dataset(dir.path());
    assert_eq!(dataset.classes, ["background", "class 1", "class 2"]);
    let joined = dataset.joined();
    assert!((0..6).all(|index| joined.read_mask(index).unwrap().classes == [0, 1, 2, 0, 1, 2, 0, 1]));
}

#[test]
fn every_mistake_in_a_folder_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let says = |parts: &[&str]| {
        let error = refusal(dir.path());
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    says(&["holds no images with masks", "dataset.json"]);
    fs::create_dir_all(at("images")).unwrap();
    says(&["no masks", "masks/"]);
    fs::create_dir_all(at("masks")).unwrap();
    says(&["images\" holds no images"]);
    folder(dir.path(), 8, &[0, 1]);
    fs::remove_file(at("masks/03.png")).unwrap();
    says(&["images/03.png", "has no mask in"]);
    fs::remove_file(at("masks/05.png")).unwrap();
    says(&["images/03.png", "1 more"]);
    folder(dir.path(), 8, &[0, 1]);
    grey(&at("masks/x.png"), (6, 4), &[0, 1]);
    says(&["masks/x.png", "is that of no image in"]);
    fs::remove_file(at("masks/x.png")).unwrap();
    grey(&at("masks/02_mask.png"), (6, 4), &[0, 1]);
    says(&["masks/02.png", "masks/02_mask.png", "same name"]);
    fs::remove_file(at("masks/02_mask.png")).unwrap();
    grey(&at("images/02.bmp"), (6, 4), &[0, 1]);
    says(&["images/02.bmp", "images/02.png", "same name"]);
    fs::remove_file(at("images/02.bmp")).unwrap();
    grey(&at("masks/04.png"), (4, 6), &[0, 1]);
    says(&["images/04.png\" is 6 x 4 pixels, but its mask is 4 x 6"]);
    RgbImage::from_pixel(6, 4, Rgb([255, 0, 0])).save(at("masks/04.png")).unwrap();
    says(&["masks/04.png", "colours", "save it grey"]);
    fs::write(at("masks/04.png"), "text").unwrap();
    says(&["masks/04.png", "not a PNG"]);
    assert!(refusal(&at("no")).contains("holds no images with masks"));
    assert!(refusal(&at("masks/04.png")).contains("holds no images with masks"));
    let few = tempfile::tempdir().unwrap();
    folder(few.path(), 2, &[0, 1]);
    assert!(refusal(few.path()).contains("has 2 images, but splitting needs at least 3"), "{}", refusal(few.path()));
}

#[test]
fn who_goes_on_is_told_of_every_mistake() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path(), 12, &[0, 1]);
    fs::remove_file(dir.path().join("masks/03.png")).unwrap();
    fs::remove_file(dir.path().join("images/05.png")).unwrap();
    grey(&dir.path().join("masks/07.png"), (4, 6), &[0, 1]);
    fs::write(dir.path().join("masks/08.png"), "text").unwrap();
    let opened = open_segmentation(dir.path(), &Opening { keep_going: true, ..Opening::new(1) }).unwrap();
    let told: Vec<String> = opened.problems.iter().map(DataError::to_string).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    for (told, part) in told.iter().zip(["05.png", "03.png", "07.png", "08.png"]) {
        assert!(told.contains(part), "{told}");
    }
    let skipping = Opening { on_bad: OnBadSample::Skip, ..Opening::new(1) };
    assert!(open_segmentation(dir.path(), &skipping).is_err(), "what has no mask is no bad file");
    folder(dir.path(), 12, &[0, 1]);
    grey(&dir.path().join("masks/07.png"), (4, 6), &[0, 1]);
    fs::write(dir.path().join("masks/08.png"), "text").unwrap();
    let joined = open_segmentation(dir.path(), &skipping).unwrap().dataset.joined();
    let preprocess = Preprocess::padded(8, 1, Normalisation::identity(1));
    let failing = (0..12).filter(|&index| joined.read_with_mask(index, &preprocess).is_err()).count();
    assert_eq!((joined.len(), failing), (12, 2));
}

#[test]
fn a_sample_is_read_with_its_mask_as_each_is_read_alone() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path(), 6, &[0, 1, 1]);
    let source = dataset(dir.path()).train;
    let preprocess = Preprocess::padded(9, 3, Normalisation::identity(3));
    let (image, mask) = source.read_with_mask(0, &preprocess).unwrap();
    assert_eq!(image, source.read_fitted(0, &preprocess).unwrap());
    assert_eq!(mask, preprocess.fit_mask(&source.read_mask(0).unwrap()));
}

#[test]
fn a_changed_mask_is_a_changed_sample() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path(), 9, &[0, 1]);
    let before = FileList::of(&dataset(dir.path()));
    grey(&dir.path().join("masks/04.png"), (6, 4), &[1, 0]);
    let changes = before.changes(&FileList::of(&dataset(dir.path())));
    assert_eq!((changes.changed.as_slice(), changes.unchanged), (["images/04.png".to_owned()].as_slice(), 8));
}

#[test]
fn a_table_names_images_and_masks() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..12 {
        pair(&dir.path().join(format!("i/{number}.png")), &dir.path().join(format!("m/other{number}.png")), &[0, 3]);
    }
    let row = |number: usize| format!("m/other{number}.png,i/{number}.png,p{},2\n", number % 4);
    let csv = format!("mask,path,group,weight\n{}", (0..12).map(row).collect::<String>());
    fs::write(dir.path().join("list.csv"), &csv).unwrap();
    let opened = open(&dir.path().join("list.csv")).unwrap();
    assert_eq!((opened.split_by, opened.dataset.joined().len()), (Some(SplitBy::Group), 12));
    assert_eq!((opened.dataset.classes.len(), opened.dataset.train.weight(0)), (2, 2.0));
    let json = |number: usize| {
        let split = ["train", "val", "test"][number % 3];
        format!(
            "{{\"path\": \"i/{number}.png\", \"mask\": \"m/other{number}.png\", \"split\": \"{split}\", \"label\": \"x\"}}\n"
        )
    };
    fs::write(dir.path().join("list.jsonl"), (0..12).map(json).collect::<String>()).unwrap();
    fs::write(dir.path().join("labels.json"), r#"{"lesion": 3}"#).unwrap();
    let opened = open(&dir.path().join("list.jsonl")).unwrap();
    assert_eq!((sizes(&opened.dataset), opened.dataset.classes[1].as_str()), ([4, 4, 4], "lesion"));
    assert!(opened.dataset.about.contains("not used: label"), "{}", opened.dataset.about);
    for (text, says) in [
        ("path,label\ni/0.png,x\n", "no column `mask`; rename `label` to `mask`"),
        ("path,mask\ni/0.png,\n", "line 2: the mask is empty"),
        ("path,mask\ni/0.png,m/no.png\n", "line 2: there is no file"),
        ("path,mask\ni/0.png,m\n", "line 2: "),
        ("path,mask\n", "no samples"),
    ] {
        fs::write(dir.path().join("wrong.csv"), text).unwrap();
        let error = refusal(&dir.path().join("wrong.csv"));
        assert!(error.contains(says), "{error}");
    }
    grey(&dir.path().join("m/other1.png"), (4, 6), &[0]);
    fs::write(dir.path().join("wrong.csv"), "path,mask\ni/0.png,m/other0.png\ni/1.png,m/other1.png\n").unwrap();
    assert!(refusal(&dir.path().join("wrong.csv")).contains("line 3: the image"));
}

/// nnU-Net's layout of 2-D images, with so many cases to train and to test.
fn nnunet(dir: &Path, train: usize, test: usize) {
    for (kind, count) in [("Tr", train), ("Ts", test)] {
        for number in 0..count {
            let image = dir.join(format!("images{kind}/case_{number:02}_0000.png"));
            pair(&image, &dir.join(format!("labels{kind}/case_{number:02}.png")), &[0, 1, 2]);
        }
    }
    let about = r#"{"channel_names": {"0": "MR"}, "labels": {"background": 0, "edema": 1, "ignore": 2}, "file_ending": ".png",
                    "numTraining": 9, "name": "Tiny"}"#;
    fs::write(dir.join("dataset.json"), about).unwrap();
}

#[test]
fn nnunets_folders_are_read() {
    let dir = tempfile::tempdir().unwrap();
    nnunet(dir.path(), 9, 0);
    let opened = open(dir.path()).unwrap();
    assert_eq!((sizes(&opened.dataset), opened.dataset.classes.join(" ")), ([7, 1, 1], "background edema".into()));
    assert_eq!(opened.dataset.train.read_mask(0).unwrap().classes[..3], [0, 1, IGNORED]);
    assert!(opened.dataset.about.contains("(Tiny)"), "{}", opened.dataset.about);
    nnunet(dir.path(), 9, 4);
    let opened = open(dir.path()).unwrap();
    assert_eq!((sizes(&opened.dataset), opened.split_here), ([8, 1, 4], true));
    fs::remove_dir_all(dir.path().join("labelsTs")).unwrap();
    assert!(dataset(dir.path()).about.contains("imagesTs/ is left out"));
}

#[test]
fn nnunets_folds_are_the_split() {
    let dir = tempfile::tempdir().unwrap();
    nnunet(dir.path(), 9, 2);
    let case = |number: usize| format!("\"case_{number:02}\"");
    let fold = |val: usize| {
        let of = |is_val: bool| {
            (0..9).filter(|number| (number % 3 == val) == is_val).map(case).collect::<Vec<String>>().join(",")
        };
        format!("{{\"train\": [{}], \"val\": [{}]}}", of(false), of(true))
    };
    let write = |text: String| fs::write(dir.path().join("splits_final.json"), text).unwrap();
    write(format!("[{},{},{}]", fold(0), fold(1), fold(2)));
    let first = dataset(dir.path());
    assert_eq!(sizes(&first), [6, 3, 2]);
    let expected = |val: usize| -> BTreeSet<String> {
        (0..9).filter(|number| number % 3 == val).map(|number| format!("imagesTr/case_{number:02}_0000.png")).collect()
    };
    assert_eq!(names(first.val.as_ref()), expected(0));
    let with =
        |fold: &str| open_segmentation(dir.path(), &Opening { fold: Some(fold.parse().unwrap()), ..Opening::new(1) });
    assert_eq!(names(with("3/3").unwrap().dataset.val.as_ref()), expected(2));
    assert!(with("1/5").err().unwrap().to_string().contains("it has 3 folds, so there is no fold 1/5"));
    for (text, says) in [
        ("[]", "no folds"),
        ("{}", "not a list of folds"),
        (r#"[{"train": ["case_00"], "val": ["case_01"]}]"#, "\"case_02\" is neither in train nor in val"),
        (r#"[{"train": ["case_00"], "val": ["case_00"]}]"#, "both in train and in val"),
    ] {
        write(text.to_owned());
        assert!(refusal(dir.path()).contains(says), "{}", refusal(dir.path()));
    }
    write(format!("[{}]", fold(0).replace("case_04", "case_44\", \"case_04")));
    assert!(refusal(dir.path()).contains("names the case \"case_44\", which has no image"));
}

#[test]
fn folds_that_nnunets_file_brings_may_be_two_and_those_that_are_drawn_may_not() {
    let dir = tempfile::tempdir().unwrap();
    nnunet(dir.path(), 6, 0);
    let fold = |text: &str| Opening { fold: Some(text.parse().unwrap()), ..Opening::new(1) };
    let error = open_segmentation(dir.path(), &fold("1/2")).err().unwrap().to_string();
    assert!(error.contains("there is no fold 1/2") && error.contains("at least 3 folds"), "{error}");
    nnunet(dir.path(), 6, 2);
    let list = |half: usize| {
        let cases: Vec<String> =
            (0..6).filter(|number| number % 2 == half).map(|number| format!("\"case_{number:02}\"")).collect();
        cases.join(",")
    };
    let of = |val: usize| format!("{{\"train\": [{}], \"val\": [{}]}}", list(1 - val), list(val));
    fs::write(dir.path().join("splits_final.json"), format!("[{},{}]", of(0), of(1))).unwrap();
    for (text, val) in [("1/2", 0), ("2/2", 1)] {
        let dataset = open_segmentation(dir.path(), &fold(text)).unwrap().dataset;
        assert_eq!(sizes(&dataset), [3, 3, 2], "{text}");
        let expected: BTreeSet<String> = (0..6)
            .filter(|number| number % 2 == val)
            .map(|number| format!("imagesTr/case_{number:02}_0000.png"))
            .collect();
        assert_eq!(names(dataset.val.as_ref()), expected, "{text}");
    }
    let error = open_segmentation(dir.path(), &fold("1/3")).err().unwrap().to_string();
    assert!(error.contains("it has 2 folds, so there is no fold 1/3"), "{error}");
}

#[test]
fn mistakes_in_nnunets_folders_are_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    nnunet(dir.path(), 9, 0);
    let says = |parts: &[&str]| {
        let error = refusal(dir.path());
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    grey(&at("imagesTr/case_03_0001.png"), (6, 4), &[1]);
    says(&["case_03_0001.png", "channel 0001", "three into one RGB PNG"]);
    fs::rename(at("imagesTr/case_03_0001.png"), at("imagesTr/other.png")).unwrap();
    says(&["other.png", "no number of a channel"]);
    fs::remove_file(at("imagesTr/other.png")).unwrap();
    fs::remove_file(at("labelsTr/case_03.png")).unwrap();
    says(&["case_03_0000.png", "has no mask"]);
    fs::remove_file(at("imagesTr/case_03_0000.png")).unwrap();
    let about = |text: &str| fs::write(at("dataset.json"), text).unwrap();
    about(r#"{"labels": {"background": 0, "a": [1, 2]}, "file_ending": ".png"}"#);
    says(&["dataset.json", "region"]);
    about(r#"{"file_ending": ".png"}"#);
    says(&["no object `labels`"]);
    about(r#"{"labels": {"a": 1}}"#);
    says(&["file_ending", "training"]);
    about(r#"{"labels": {"a": 1}, "file_ending": ".tif"}"#);
    says(&["imagesTr", "no file", ".tif"]);
    about("{");
    says(&["dataset.json", "not a JSON object"]);
    about(r#"{"labels": {"a": 1}, "file_ending": ".png"}"#);
    let error = dataset(dir.path()).train.read_mask(0).unwrap_err().to_string();
    assert!(error.contains("the number 2") && error.contains("known are 0, 1;"), "{error}");
    fs::rename(at("labelsTr"), at("labels")).unwrap();
    says(&["no masks", "labelsTr"]);
}

#[test]
fn images_of_three_channels_in_a_file_are_colours() {
    let dir = tempfile::tempdir().unwrap();
    nnunet(dir.path(), 4, 0);
    for number in 0..4 {
        let path = dir.path().join(format!("imagesTr/case_{number:02}_0000.png"));
        RgbImage::from_pixel(6, 4, Rgb([1, 2, 3])).save(path).unwrap();
    }
    assert_eq!(dataset(dir.path()).channels, 3);
}

#[test]
fn the_decathlons_list_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let entry = |number: usize| {
        let image = format!("imagesTr/part_{number:02}.png");
        // One is called as by nnU-Net's first version.
        let stored = if number == 3 { "imagesTr/part_03_0000.png".to_owned() } else { image.clone() };
        let mask = format!("labelsTr/part_{number:02}.png");
        pair(&dir.path().join(stored), &dir.path().join(&mask), &[0, 1]);
        format!("{{\"image\": \"./{image}\", \"label\": \"./{mask}\"}}")
    };
    let list = (0..10).map(entry).collect::<Vec<String>>().join(",");
    let about = |training: &str| {
        let text = format!(
            "{{\"name\": \"Tiny\", \"labels\": {{\"0\": \"background\", \"1\": \"cancer\"}}, \"training\": {training}, \
             \"test\": [\"./imagesTs/part_99.png\"]}}"
        );
        fs::write(dir.path().join("dataset.json"), text).unwrap();
    };
    about(&format!("[{list}]"));
    let dataset = dataset(dir.path());
    assert_eq!((sizes(&dataset), dataset.classes.join(" ")), ([6, 2, 2], "background cancer".into()));
    about(&format!("[{list}, {{\"image\": \"imagesTr/gone.png\", \"label\": \"labelsTr/gone.png\"}}]"));
    assert!(refusal(dir.path()).contains("imagesTr/gone.png"));
    about("[]");
    assert!(refusal(dir.path()).contains("`training` is empty"));
    about("[\"imagesTr/part_00.png\"]");
    assert!(refusal(dir.path()).contains("not a list of `image` and `label`"));
}
