//! Numbers, grades and several labels, asked of manifests and folders.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use image::{GrayImage, Luma};
use kindling_data::{
    Asked, DataError, Dataset, FileList, Loader, LoaderConfig, Normalisation, Opened, Opening, Preprocess, Purpose,
    Scale, Source, Split, Task, manifest_of, open_path,
};

fn picture(path: &Path, value: u8) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    GrayImage::from_pixel(4, 4, Luma([value])).save(path).unwrap();
}

/// `count` images `NN.png`, whose value is their number.
fn images(dir: &Path, count: u8) {
    (0..count).for_each(|number| picture(&dir.join(format!("{number:02}.png")), number));
}

fn numbers(column: &str) -> Asked {
    Asked::Regression { column: column.into() }
}

fn grades(order: &[&str]) -> Asked {
    let order = (!order.is_empty()).then(|| order.iter().map(|class| (*class).to_owned()).collect());
    Asked::Ordinal { order }
}

fn open(path: &Path, asked: Asked) -> Result<Opened, DataError> {
    open_path(path, &Opening { asked, ..Opening::new(1) })
}

fn manifest(dir: &Path, name: &str, text: &str, asked: Asked) -> Result<Dataset, DataError> {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    open(&path, asked).map(|opened| opened.dataset)
}

/// Twenty ages in a manifest with other columns, two images a patient.
fn ages(dir: &Path) -> Dataset {
    images(dir, 20);
    let rows: String = (0..20).map(|n| format!("{n:02}.png,{}.5,p{},x\n", 10 * n, n / 2)).collect();
    manifest(dir, "ages.csv", &format!("path,age,group,label\n{rows}"), numbers("age")).unwrap()
}

#[test]
fn a_column_of_numbers_is_read_from_both_notations_and_patients_stay_together() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = ages(dir.path());
    assert_eq!((dataset.task, dataset.classes.as_slice()), (Task::Regression, &["age".to_owned()][..]));
    let mut seen = Vec::new();
    for split in Split::ALL {
        let source = dataset.source(split);
        assert!(!source.is_empty(), "{split}");
        for index in 0..source.len() {
            let number: f64 = source.name_within(index).unwrap()[..2].parse().unwrap();
            assert_eq!((source.value(index), source.labels(index)), (Some(10.0 * number + 0.5), vec![0]));
            seen.push((source.group(index).unwrap(), split));
        }
    }
    for (group, split) in &seen {
        assert!(seen.iter().all(|(other, side)| other != group || side == split), "{group} is on two sides");
    }
    assert_eq!((dataset.majority_baseline(Split::Test), dataset.joined().value(3)), (0.0, dataset.train.value(3)));

    let json: String =
        (0..20).map(|n| format!("{{\"path\":\"{n:02}.png\",\"age\":{n}e1,\"group\":\"p{}\"}}\n", n / 2)).collect();
    let other = manifest(dir.path(), "ages.jsonl", &json, numbers("age")).unwrap();
    assert_eq!(
        (other.train.len(), other.train.value(0)),
        (dataset.train.len(), dataset.train.value(0).map(|v| v - 0.5))
    );
}

#[test]
fn a_changed_number_is_a_change_and_the_split_is_written_with_its_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = ages(dir.path());
    let before = FileList::of(&dataset);
    for json in [false, true] {
        let name = if json { "split.jsonl" } else { "split.csv" };
        let text = manifest_of(&dataset, dir.path(), dir.path(), true, json).unwrap();
        let again = manifest(dir.path(), name, &text, numbers("age")).unwrap();
        assert!(before.changes(&FileList::of(&again)).is_none(), "{text}");
    }
    let changed = fs::read_to_string(dir.path().join("split.csv")).unwrap().replace(",70.5,", ",71,");
    let changed = manifest(dir.path(), "changed.csv", &changed, numbers("age")).unwrap();
    assert_eq!(before.changes(&FileList::of(&changed)).changed, ["07.png"]);
}

#[test]
fn what_is_no_number_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path(), 1);
    for bad in ["", "NaN", "inf", "\"1,5\"", "1e400", "1e13", "-1e13", "old"] {
        let refused =
            manifest(dir.path(), "bad.csv", &format!("path,age\n00.png,{bad}\n"), numbers("age")).err().unwrap();
        let sentence = refused.to_string();
        assert!(
            sentence.contains("line 2") && sentence.contains("is no number from -1e12 to 1e12"),
            "{bad}: {sentence}"
        );
    }
    for bad in ["\"old\"", "true", "[1]", "{}"] {
        let line = format!("{{\"path\":\"00.png\",\"age\":{bad}}}\n");
        let sentence = manifest(dir.path(), "bad.jsonl", &line, numbers("age")).err().unwrap().to_string();
        assert!(sentence.contains("line 1") && sentence.contains("is no number"), "{bad}: {sentence}");
    }
    let lacking = manifest(dir.path(), "bad.csv", "path,label\n00.png,1\n", numbers("age")).err().unwrap().to_string();
    assert!(lacking.contains("no column `age`"), "{lacking}");
    picture(&dir.path().join("folder/a/0.png"), 0);
    let folder = open(&dir.path().join("folder"), numbers("age")).err().unwrap();
    assert!(matches!(folder, DataError::NoNumbers { .. }), "{folder}");
}

#[test]
fn targets_are_numbers_in_the_scale_of_the_training_samples() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = ages(dir.path());
    let scale = Scale::measured(dataset.train.as_ref());
    let config = LoaderConfig {
        classes: 1,
        task: Task::Regression,
        scale,
        ..LoaderConfig::in_order(dataset.train.len(), Preprocess::padded(4, 1, Normalisation::identity(1)))
    };
    let loader = Loader::new(dataset.train.clone(), config).unwrap();
    let batch = loader.epoch(0, 0).next().unwrap().unwrap();
    let targets = batch.targets.unwrap();
    assert_eq!((targets.len(), batch.labels), (dataset.train.len(), vec![0; dataset.train.len()]));
    for (index, target) in targets.iter().enumerate() {
        let value = dataset.train.value(index).unwrap();
        assert_eq!(*target, ((value - scale.mean) / scale.std) as f32);
        assert!((scale.back(f64::from(*target)) - value).abs() < 1e-4, "{value}");
    }
    let mean = targets.iter().sum::<f32>() / targets.len() as f32;
    let square = targets.iter().map(|target| target * target).sum::<f32>() / targets.len() as f32;
    assert!(mean.abs() < 1e-6 && (square - 1.0).abs() < 1e-5, "{mean} {square}");
}

/// Numbers without images.
struct Bare(Vec<f64>);

impl Source for Bare {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn label(&self, _: usize) -> usize {
        0
    }

    fn value(&self, index: usize) -> Option<f64> {
        Some(self.0[index])
    }

    fn read(&self, index: usize) -> Result<kindling_data::Image, DataError> {
        Err(DataError::OutOfRange { index, len: 0 })
    }

    fn name_of(&self, index: usize) -> String {
        index.to_string()
    }
}

#[test]
fn a_scale_is_mean_and_deviation_and_never_divides_by_nothing() {
    let of = |values: &[f64]| Scale::measured(&Bare(values.to_vec()));
    // numpy.std([2, 4, 4, 4, 5, 5, 7, 9]) is 2.
    assert_eq!(of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), Scale { mean: 5.0, std: 2.0 });
    assert_eq!(of(&[7.0, 7.0]), Scale { mean: 7.0, std: 1.0 });
    assert_eq!(of(&[]), Scale::default());
    let large = of(&[1e12, -1e12]);
    assert!((large.std - 1e12).abs() < 1.0 && large.mean == 0.0, "{large:?}");
}

#[test]
fn grades_have_the_order_of_numbers_or_the_one_that_is_given() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path(), 30);
    let table = |names: [&str; 3]| -> String {
        let rows: String = (0..30).map(|n| format!("{n:02}.png,{}\n", names[n % 3])).collect();
        format!("path,label\n{rows}")
    };
    let read = |names, order: &[&str]| manifest(dir.path(), "grades.csv", &table(names), grades(order));
    let by_number = read(["10", "2", "0"], &[]).unwrap();
    assert_eq!((by_number.task, by_number.classes.join(" ")), (Task::Ordinal, "0 2 10".to_owned()));
    let named = ["severe", "none", "mild"];
    let ordered = read(named, &["none", "mild", "severe"]).unwrap();
    assert_eq!(ordered.classes.join(" "), "none mild severe");
    let first = (0..ordered.train.len()).find(|at| ordered.train.name_within(*at).unwrap() == "00.png");
    assert!(first.is_none_or(|at| ordered.train.label(at) == 2), "the first image is severe");
    for (names, order, expected) in [
        (named, &[][..], "--class-order none,mild,severe"),
        (named, &["none", "mild"], "\"severe\""),
        (named, &["none", "mild", "severe", "mild"], "stands 2 times"),
        (named, &["none", "mild", "severe", "fatal"], "\"fatal\""),
        (["a;b", "a", "b"], &["a", "b"], "one grade each"),
    ] {
        let sentence = read(names, order).err().unwrap().to_string();
        assert!(sentence.contains(expected), "{order:?}: {sentence}");
    }
    let scored =
        Opening { asked: grades(&["none", "mild", "severe", "fatal"]), purpose: Purpose::ScoreAll, ..Opening::new(1) };
    fs::write(dir.path().join("scored.csv"), table(named)).unwrap();
    assert_eq!(open_path(&dir.path().join("scored.csv"), &scored).unwrap().dataset.classes.len(), 4);

    // Folders are grades as well.
    for number in 0..24u8 {
        picture(&dir.path().join(format!("folder/{}/{number}.png", [0, 1, 10][number as usize % 3])), number);
    }
    let folder = open(&dir.path().join("folder"), grades(&[])).unwrap().dataset;
    assert_eq!((folder.task, folder.classes.join(" ")), (Task::Ordinal, "0 1 10".to_owned()));
    let ten = (0..folder.train.len()).find(|at| folder.train.label(*at) == 2).unwrap();
    assert!(folder.train.name_within(ten).unwrap().starts_with("10/"), "labels follow the order");
}

#[test]
fn folders_name_several_labels_or_none_and_copies_are_one_image() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for number in 0..10u8 {
        picture(&root.join(format!("effusion/e{number}.png")), number);
        picture(&root.join(format!("mass/m{number}.png")), 50 + number);
        picture(&root.join(format!("effusion+mass/b{number}.png")), 100 + number);
        picture(&root.join(format!("none/n{number}.png")), 150 + number);
        // The same file in both, and one name with other pixels.
        picture(&root.join(format!("effusion/both{number}.png")), 200 + number);
        picture(&root.join(format!("mass/both{number}.png")), 200 + number);
        picture(&root.join(format!("effusion/other{number}.png")), 220);
        picture(&root.join(format!("mass/other{number}.png")), 230);
    }
    let dataset = open(root, Asked::MultiLabel).unwrap().dataset;
    assert_eq!((dataset.task, dataset.classes.join(" ")), (Task::MultiLabel, "effusion mass".to_owned()));
    let all: Arc<dyn Source> = dataset.joined();
    let mut by_kind = std::collections::BTreeMap::new();
    for index in 0..all.len() {
        let name = all.name_within(index).unwrap();
        let kind =
            name.rsplit('/').next().unwrap().trim_end_matches(|c: char| c.is_ascii_digit() || ".png".contains(c));
        by_kind.entry(kind.to_owned()).or_insert_with(Vec::new).push(all.labels(index));
    }
    let of = |kind: &str| by_kind[kind].clone();
    assert_eq!(of("e"), vec![vec![0]; 10]);
    assert_eq!(of("m"), vec![vec![1]; 10]);
    assert_eq!((of("b"), of("both")), (vec![vec![0, 1]; 10], vec![vec![0, 1]; 10]));
    assert_eq!(of("other").len(), 20, "other pixels are other images");
    assert_eq!(all.len(), 70);
    assert!(by_kind.values().flatten().filter(|labels| labels.is_empty()).count() == 10, "{by_kind:?}");

    // Unasked, folders are classes as ever.
    let plain = open(root, Asked::Unsaid).unwrap().dataset;
    assert_eq!((plain.task, plain.classes.len(), plain.joined().len()), (Task::MultiClass, 4, 80));
}

#[test]
fn a_manifest_without_a_list_may_have_several_labels_where_that_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path(), 20);
    let rows: String = (0..20).map(|n| format!("{n:02}.png,{}\n", ["a", "b"][n % 2])).collect();
    let dataset = manifest(dir.path(), "list.csv", &format!("path,label\n{rows}"), Asked::MultiLabel).unwrap();
    assert_eq!(dataset.task, Task::MultiLabel);
}

#[test]
fn a_check_tells_the_numbers_of_each_split_and_copies_that_have_other_numbers() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path(), 20);
    picture(&dir.path().join("00.png"), 1);
    let rows: String = (0..20).map(|n| format!("{n:02}.png,{n}\n")).collect();
    let dataset = manifest(dir.path(), "ages.csv", &format!("path,age\n{rows}"), numbers("age")).unwrap();
    let report = kindling_data::check::check(&dataset, &[], || {});
    let of_train = report.values["train"];
    let values: Vec<f64> = (0..dataset.train.len()).filter_map(|index| dataset.train.value(index)).collect();
    assert_eq!(of_train.samples, values.len());
    assert_eq!(of_train.mean, values.iter().sum::<f64>() / values.len() as f64);
    assert!(values.contains(&of_train.min) && values.contains(&of_train.max) && of_train.std > 0.0);
    assert_eq!(report.duplicates.iter().map(|copies| copies.contradicting).collect::<Vec<_>>(), [true]);
}
