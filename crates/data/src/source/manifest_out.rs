//! A data set written as a manifest: what it was, with the sides that its samples have.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use kindling_files::csv::csv_line;
use serde_json::{Map, Value, json};

use super::manifest::{Tells, parse};
use super::{Dataset, Source, Task};
use crate::error::DataError;
use crate::split::Split;

/// A line of a manifest: a file, and what is known about it.
struct Line {
    path: String,
    labels: Vec<String>,
    /// Its number, of a regression.
    value: Option<f64>,
    split: Split,
    group: Option<String>,
    weight: f32,
}

/// A manifest of all samples of a data set, as CSV or JSON Lines, that [`open_manifest`](crate::open_manifest) reads with the
/// same splits. `root` is the folder of the data set (of a manifest that it was read from: the manifest's), `folder` the one that
/// the new manifest will lie in. Groups are left out where they may be parted.
///
/// # Errors
/// [`DataError::NotListed`] for a sample that a manifest cannot name: one that is no file, a file with images in two splits, a path
/// or a class that the notation cannot hold, and for a data set with masks.
pub fn manifest_of(
    dataset: &Dataset,
    root: &Path,
    folder: &Path,
    with_groups: bool,
    json_lines: bool,
) -> Result<String, DataError> {
    if dataset.task == Task::Segmentation {
        return Err(refused(&dataset.name, "has masks, which a manifest of classes cannot name"));
    }
    let from = way(root, folder);
    let mut lines: Vec<Line> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for split in Split::ALL {
        let source = dataset.source(split).as_ref();
        for index in 0..source.len() {
            let path = path_of(source, index, &from)?;
            if let Some(&place) = places.get(&path) {
                if lines[place].split != split {
                    return Err(refused(&path, "holds images of two splits, which a manifest cannot say"));
                }
                continue;
            }
            places.insert(path.clone(), lines.len());
            let value = source.value(index);
            let labels = match value {
                Some(_) => Vec::new(),
                None => source.labels(index).into_iter().map(|label| dataset.classes[label].clone()).collect(),
            };
            let group = source.group(index).filter(|_| with_groups);
            lines.push(Line { path, labels, value, split, group, weight: source.weight(index) });
        }
    }
    let tells = match (dataset.task, dataset.classes.as_slice()) {
        (Task::Regression, [column]) => Tells::Value(column),
        _ => Tells::Label,
    };
    let text = match json_lines {
        true => lines.iter().map(|line| json_of(line, dataset.task, tells) + "\n").collect(),
        false => csv_of(&lines, dataset.task, tells),
    };
    check(&lines, &text, json_lines, tells)?;
    Ok(text)
}

fn refused(name: &str, reason: &str) -> DataError {
    DataError::NotListed { name: name.to_owned(), reason: reason.to_owned() }
}

/// The path of a sample's file, from the folder of the manifest.
fn path_of(source: &dyn Source, index: usize, from: &Path) -> Result<String, DataError> {
    let no_file = || refused(&source.name_of(index), "is no file of its own, so a manifest cannot name it");
    let name = source.name_within(index).ok_or_else(no_file)?;
    let file = match source.file(index) {
        Some(_) => name.as_str(),
        // One of several images: the file is listed, and all of them with it.
        None => {
            name.rsplit_once('#').map(|(file, _)| file).filter(|file| !file.ends_with(".tar")).ok_or_else(no_file)?
        }
    };
    let path = from.join(file);
    let text = path.to_str().filter(|text| !text.contains(char::REPLACEMENT_CHARACTER));
    Ok(text.ok_or_else(|| refused(&name, "has a name that is not UTF-8, which a manifest cannot say"))?.to_owned())
}

/// The way from one folder to another, or the other folder itself where there is none.
fn way(to: &Path, from: &Path) -> PathBuf {
    let full = |path: &Path| if path.as_os_str().is_empty() { Path::new(".") } else { path }.canonicalize();
    let (Ok(to_full), Ok(from_full)) = (full(to), full(from)) else { return to.to_owned() };
    let same = to_full.components().zip(from_full.components()).take_while(|(one, other)| one == other).count();
    if same == 0 {
        return to_full;
    }
    let up = from_full.components().skip(same).map(|_| Component::ParentDir);
    up.chain(to_full.components().skip(same)).collect()
}

fn csv_of(lines: &[Line], task: Task, tells: Tells<'_>) -> String {
    let groups = lines.iter().any(|line| line.group.is_some());
    let weights = lines.iter().any(|line| line.weight != 1.0);
    let columns = ["path", tells.column(), "split"].into_iter().chain(groups.then_some("group"));
    let mut text = csv_line(columns.chain(weights.then_some("weight"))) + "\n";
    for line in lines {
        let label = match (line.value, task, line.labels.as_slice()) {
            (Some(number), ..) => number.to_string(),
            // One label, or none, is written so that it is seen to be a list.
            (None, Task::MultiLabel, [] | [_]) => line.labels.join("") + ";",
            (None, _, labels) => labels.join(";"),
        };
        let group = groups.then(|| line.group.as_deref().unwrap_or(""));
        let weight = weights.then(|| line.weight.to_string());
        let fields = [&line.path, &label, line.split.name()].into_iter().chain(group).chain(weight.as_deref());
        text.push_str(&csv_line(fields));
        text.push('\n');
    }
    text
}

fn json_of(line: &Line, task: Task, tells: Tells<'_>) -> String {
    let mut object = Map::new();
    object.insert("path".into(), json!(line.path));
    let label = match (line.value, task) {
        (Some(number), _) => json!(number),
        (None, Task::MultiLabel) => json!(line.labels),
        (None, _) => json!(line.labels.first()),
    };
    object.insert(tells.column().into(), label);
    object.insert("split".into(), json!(line.split.name()));
    if let Some(group) = &line.group {
        object.insert("group".into(), json!(group));
    }
    if line.weight != 1.0 {
        object.insert("weight".into(), json!(line.weight));
    }
    Value::Object(object).to_string()
}

/// Reads it back: names with spaces at an end, or a `;` in a class, are something else to who reads them.
fn check(lines: &[Line], text: &str, json_lines: bool, tells: Tells<'_>) -> Result<(), DataError> {
    let notation = if json_lines { "JSON Lines" } else { "CSV (a manifest that ends in .jsonl may hold it)" };
    let unlike =
        |line: &Line| refused(&line.path, &format!("has a path, class or group that cannot be told in {notation}"));
    let read = parse(text.as_bytes(), json_lines, tells).map(|(rows, _)| rows);
    let rows = match (read, lines.first()) {
        (Ok(rows), _) => rows,
        (Err((_, reason)), Some(line)) => {
            return Err(refused(&line.path, &format!("begins a list that is no manifest: {reason}")));
        }
        (Err(_), None) => return Ok(()),
    };
    let differs = |(at, line): &(usize, &Line)| {
        rows.get(*at).is_none_or(|row| {
            let mut labels = line.labels.clone();
            labels.sort();
            (&row.path, &row.labels, row.value, row.split, &row.group, row.weight)
                != (&line.path, &labels, line.value, Some(line.split), &line.group, line.weight)
        })
    };
    match lines.iter().enumerate().find(differs) {
        Some((_, line)) => Err(unlike(line)),
        None => Ok(()),
    }
}
