//! Manifests, good and bad.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use image::{GrayImage, Luma};
use kindling_data::{DataError, Opened, Opening, Split, SplitBy, Task, open_path, parse_manifest};

/// `count` grey images `images/NN.png` whose value is their number.
fn images(dir: &Path, count: u8) {
    fs::create_dir_all(dir.join("images")).unwrap();
    for number in 0..count {
        GrayImage::from_pixel(4, 4, Luma([number])).save(dir.join(format!("images/{number:02}.png"))).unwrap();
    }
}

fn open(dir: &Path, name: &str, text: &str) -> Result<Opened, DataError> {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    open_path(&path, &Opening::new(1))
}

fn refusal(dir: &Path, name: &str, text: &str) -> String {
    open(dir, name, text).err().unwrap().to_string()
}

#[test]
fn a_csv_gives_labels_splits_groups_and_weights() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path(), 6);
    let text = "label,age,path,split,group,weight\n\
                cat,3,images/00.png,train,p1,0.5\n\
                dog,4,images/01.png,train,p1,\n\
                dog,4,\"images/02.png\",val,p2,2\n\
                cat,,images/03.png,test,p3,1\n\
                cat,9,images/04.png,validation,p4,1\n";
    let opened = open(dir.path(), "list.csv", text).unwrap();
    let dataset = opened.dataset;
    assert_eq!(
        (dataset.classes.as_slice(), dataset.task),
        (&["cat".to_owned(), "dog".to_owned()][..], Task::MultiClass)
    );
    assert!(dataset.about.contains("not used: age"), "{}", dataset.about);
    assert_eq!(Split::ALL.map(|split| dataset.class_counts(split)), [[1, 1], [1, 1], [1, 0]]);
    assert_eq!((dataset.train.weight(0), dataset.train.weight(1), dataset.val.weight(0)), (0.5, 1.0, 2.0));
    assert_eq!(dataset.val.group(0).as_deref(), Some("p2"));
    assert_eq!(dataset.test.read(0).unwrap().pixels, [3.0 / 255.0; 16]);
    assert_eq!(opened.split_by, None);
}

#[test]
fn several_classes_a_sample_are_read_from_both_notations_alike() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path(), 20);
    let label = |number: usize| ["a", "a;b", "b;c", ";"][number % 4];
    let csv: String = (0..20).map(|n| format!("images/{n:02}.png,{}\n", label(n))).collect();
    let json: String = (0..20)
        .map(|n| {
            let names: Vec<&str> = label(n).split(';').filter(|name| !name.is_empty()).collect();
            format!("{{\"path\": \"images/{n:02}.png\", \"label\": {}}}\n", serde_json::json!(names))
        })
        .collect();
    let csv = open(dir.path(), "list.csv", &format!("path,label\n{csv}")).unwrap().dataset;
    let json = open(dir.path(), "list.jsonl", &json).unwrap().dataset;
    for dataset in [&csv, &json] {
        assert_eq!((dataset.classes.join(""), dataset.task), ("abc".to_owned(), Task::MultiLabel));
        let totals: Vec<usize> =
            (0..3).map(|class| Split::ALL.iter().map(|split| dataset.class_counts(*split)[class]).sum()).collect();
        assert_eq!(totals, [10, 10, 5]);
    }
    for split in Split::ALL {
        let (csv, json) = (csv.source(split), json.source(split));
        assert!(csv.len() == json.len() && !csv.is_empty());
        for index in 0..csv.len() {
            assert_eq!((csv.name_of(index), csv.labels(index)), (json.name_of(index), json.labels(index)));
        }
    }
}

#[test]
fn classes_that_are_numbers_are_in_the_order_of_numbers() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path(), 9);
    let rows: String =
        (0..9).map(|n| format!("{{\"path\":\"images/{n:02}.png\",\"label\":{}}}\n", n % 3 * 5)).collect();
    assert_eq!(open(dir.path(), "list.jsonl", &rows).unwrap().dataset.classes, ["0", "5", "10"]);
}

#[test]
fn every_error_names_the_file_and_the_line() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path(), 3);
    fs::write(dir.path().join("images/broken.png"), b"no picture").unwrap();
    fs::write(dir.path().join("images/a\nb.png"), b"no picture").unwrap();
    let cases = [
        ("path,label\nimages/00.png,a\nimages/09.png,b\n", "line 3", "there is no file"),
        ("path,label\nimages/00.png,a\nimages,b\n", "line 3", "is not a file"),
        ("path,label\nimages/00.png,a\nimages/broken.png,b\n", "line 3", "not a PNG"),
        ("path,label\nimages/00.png,a\n\"images/a\nb.png\",b\n", "line 3", "a\\nb.png"),
        ("path,label\nimages/00.png,a\nimages/00.png,b\n", "line 3", "already on line 2"),
        ("path,label\nimages/00.png,\n", "line 2", "label is empty"),
        ("path,label\n,a\n", "line 2", "path is empty"),
        ("path,label\nimages/00.png,a,b\n", "line 2", "3 values stand under 2 columns"),
        ("path,class\nimages/00.png,a\n", "line 1", "no column `label`"),
        ("path,label,path\nimages/00.png,a,b\n", "line 1", "twice"),
        ("path,label,split\nimages/00.png,a,Train\n", "line 2", "train, val or test"),
        ("path,label,split\nimages/00.png,a,train\nimages/01.png,a,\n", "line 3", "all or none"),
        ("path,label,weight\nimages/00.png,a,-1\n", "line 2", "-1"),
        ("path,label,weight\nimages/00.png,a,much\n", "line 2", "not a number"),
        ("path,label,weight\nimages/00.png,a,NaN\n", "line 2", "NaN"),
        ("path,label\n", "line 1", "no samples"),
    ];
    for (text, line, says) in cases {
        let error = refusal(dir.path(), "list.csv", text);
        assert!(error.contains("list.csv") && error.contains(line) && error.contains(says), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{error:?} is one line");
    }
    for (text, line, says) in [
        ("{\"path\":\"images/00.png\",\"label\":\"a\"}\nnonsense\n", "line 2", "not a JSON object"),
        ("{\"path\":\"images/00.png\"}\n", "line 1", "no label"),
        ("{\"path\":\"images/00.png\",\"label\":{}}\n", "line 1", "neither a text nor a list"),
        ("{\"path\":[],\"label\":\"a\"}\n", "line 1", "not a text"),
        ("\n{\"path\":\"images/00.png\",\"label\":\"a\",\"weight\":\"x\"}\n", "line 2", "not a number"),
    ] {
        let error = refusal(dir.path(), "list.jsonl", text);
        assert!(error.contains("list.jsonl") && error.contains(line) && error.contains(says), "{text:?}: {error}");
    }
}

#[test]
fn a_group_on_two_sides_is_refused_unless_the_user_insists() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path(), 4);
    let text = "path,label,split,group\nimages/00.png,a,train,p1\nimages/01.png,b,train,p2\nimages/02.png,a,test,p1\n\
                images/03.png,b,val,p3\n";
    let error = refusal(dir.path(), "list.csv", text);
    for part in ["\"p1\"", "00.png", "train", "02.png", "test"] {
        assert!(error.contains(part), "{error}");
    }
    let insist = Opening { split_by: Some(SplitBy::None), ..Opening::new(1) };
    assert_eq!(open_path(&dir.path().join("list.csv"), &insist).unwrap().dataset.test.len(), 1);
    let look = Opening { keep_going: true, ..Opening::new(1) };
    let opened = open_path(&dir.path().join("list.csv"), &look).unwrap();
    assert!(matches!(opened.problems.as_slice(), [DataError::Leak { .. }]));
}

#[test]
fn a_manifest_with_groups_is_split_by_group_unless_told_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path(), 60);
    let rows: String = (0..60).map(|n| format!("images/{n:02}.png,{},p{}\n", ["a", "b"][n % 2], n / 4)).collect();
    let opened = open(dir.path(), "list.csv", &format!("path,label,group\n{rows}")).unwrap();
    assert_eq!(opened.split_by, Some(SplitBy::Group));
    let groups = Split::ALL.map(|split| {
        let source = opened.dataset.source(split);
        (0..source.len()).map(|index| source.group(index).unwrap()).collect::<std::collections::BTreeSet<_>>()
    });
    assert!(groups.iter().all(|groups| groups.len() >= 2));
    assert_eq!(groups.iter().map(|groups| groups.len()).sum::<usize>(), 15, "a group is on two sides: {groups:?}");
    let folder = Opening { split_by: Some(SplitBy::Group), ..Opening::new(1) };
    fs::write(dir.path().join("plain.csv"), "path,label\nimages/00.png,a\nimages/01.png,b\n").unwrap();
    let error = open_path(&dir.path().join("plain.csv"), &folder).err().unwrap();
    assert!(matches!(error, DataError::NoGroups { .. }));
}

#[test]
fn a_mark_at_the_start_and_line_ends_of_windows_do_no_harm() {
    let (rows, _) = parse_manifest(b"\xef\xbb\xbfpath,label\r\na.png, x \r\nb.png,y\r\n", false).unwrap();
    assert_eq!(rows.iter().map(|row| (row.line, &*row.labels[0])).collect::<Vec<_>>(), [(2, "x"), (3, "y")]);
    assert!(parse_manifest(b"path,label\n\xff.png,x\n", false).unwrap_err().1.contains("UTF-8"));
}
