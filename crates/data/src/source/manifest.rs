//! Manifests: a table of files with their labels, as CSV or JSON Lines.
//!
//! The columns are `path,label[,split,group,weight]`, in any order, or `path,mask[,...]` where every image has a mask, or a column of
//! numbers in the label's place where these are asked for ([`Asked::Regression`]); others are left alone and named in the data set's
//! description. A label with `;` makes the data set one of several classes a sample: `a;b` is both, `;` is neither. In JSON Lines a
//! label may be a list instead.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindling_files as files;
use kindling_files::csv::Records;
use serde_json::Value;

use super::asked::{in_order, task_of};
use super::assemble::{Listed, Named, assemble, list_all};
use super::{Asked, Format, Opened, Opening, PassedOver, Purpose, Task};
use crate::error::DataError;
use crate::split::Split;
use kindling_given::{UnknownName, in_units};

/// The largest manifest that is read, in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// The longest line of JSON, in bytes: paths end at 4096 nearly everywhere.
const MAX_LINE: usize = 1 << 20;
/// Numbers of images: their squares can be added up.
const VALUES: RangeInclusive<f64> = -1e12..=1e12;

/// What a table gives for each of its images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tells<'a> {
    /// The names of their classes.
    Label,
    /// The files of their masks.
    Mask,
    /// Their numbers, in a column of this name.
    Value(&'a str),
}

impl<'a> Tells<'a> {
    /// Name of the column that says it.
    pub(super) fn column(self) -> &'a str {
        match self {
            Self::Label => "label",
            Self::Mask => "mask",
            Self::Value(column) => column,
        }
    }

    /// The columns that are understood.
    fn columns(self) -> [&'a str; 5] {
        ["path", self.column(), "split", "group", "weight"]
    }
}

/// A line of a manifest, about one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The line, from 1.
    pub line: u64,
    /// Path of the file, as it is written.
    pub path: String,
    /// The names of the classes, sorted, without repetition.
    pub labels: Vec<String>,
    /// Whether the label was written as a list: `a;b`, `;`, or `["a"]`.
    pub several: bool,
    /// The path of its mask, as written, in a table of masks.
    pub mask: Option<String>,
    /// The number to predict, in a table of numbers.
    pub value: Option<f64>,
    /// The split that the line gives the sample.
    pub split: Option<Split>,
    /// What the sample must not be parted from.
    pub group: Option<String>,
    /// How often the sample is drawn relative to others: finite, not negative, 1 by default.
    pub weight: f32,
}

/// The rows of a manifest, and the names of columns that are not used. `json_lines` chooses JSON Lines instead of CSV.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse_manifest(text: &[u8], json_lines: bool) -> Result<(Vec<Row>, BTreeSet<String>), (u64, String)> {
    parse(text, json_lines, Tells::Label)
}

pub(super) fn parse(text: &[u8], json_lines: bool, tells: Tells<'_>) -> Result<Rows, (u64, String)> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let (rows, strangers) = if json_lines { json_rows(text, tells)? } else { csv_rows(text, tells)? };
    let mut lines: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &rows {
        if let Some(before) = lines.insert(&row.path, row.line) {
            return Err((row.line, format!("the path {:?} is already on line {before}", row.path)));
        }
    }
    let several = rows.iter().any(|row| row.several);
    if let Some(row) =
        rows.iter().find(|row| !several && row.labels.is_empty() && row.mask.is_none() && row.value.is_none())
    {
        return Err((row.line, "the label is empty (where samples may have no class, write `;`)".to_owned()));
    }
    if let Some(with) = rows.iter().find(|row| row.split.is_some())
        && let Some(without) = rows.iter().find(|row| row.split.is_none())
    {
        return Err((without.line, format!("the split is empty, but on line {} it is not: all or none", with.line)));
    }
    Ok((rows, strangers))
}

/// Opens a manifest. Relative paths are relative to its folder.
///
/// # Errors
/// [`DataError::Manifest`] with the line, files that cannot be read included, and any [`DataError`] of splits.
pub fn open_manifest(path: &Path, opening: &Opening) -> Result<Opened, DataError> {
    let tells = match &opening.asked {
        Asked::Regression { column } => Tells::Value(column),
        _ => Tells::Label,
    };
    let table = Table::read(path, tells)?;
    let rows = &table.rows;
    let (task, classes) = match tells {
        Tells::Value(column) => (Task::Regression, vec![column.to_owned()]),
        _ => {
            let several = rows.iter().any(|row| row.several);
            (task_of(&opening.asked, several, path)?, in_order(classes_of(rows), &opening.asked, path)?)
        }
    };
    if classes.len() < 2 && task.is_single_label() && opening.purpose == Purpose::Learn {
        return Err(DataError::OneClass {
            dir: path.to_owned(),
            class: classes.into_iter().next().unwrap_or_default(),
        });
    }
    let label_of: BTreeMap<&str, usize> = classes.iter().map(String::as_str).zip(0..).collect();
    let folder = path.parent().unwrap_or(Path::new(""));
    let (mut files, mut lines, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let (file, format) = match file_of(folder, &row.path, opening) {
            Ok(found) => found,
            Err(reason) if opening.keep_going => {
                problems.push(table.wrong(row.line, reason));
                continue;
            }
            Err(reason) => return Err(table.wrong(row.line, reason)),
        };
        let mut labels: Vec<usize> = row.labels.iter().filter_map(|name| label_of.get(&**name).copied()).collect();
        if task == Task::Regression {
            labels.push(0);
        }
        labels.sort_unstable();
        lines.push(row.line);
        files.push(Named {
            path: file,
            below: PathBuf::from(&row.path),
            format,
            labels,
            value: row.value,
            group: row.group.clone(),
            weight: row.weight,
            split: row.split,
        });
    }
    let mut passed_over = PassedOver::default();
    let (entries, unreadable) =
        list_all(files, opening, &mut passed_over, |index, error| table.wrong(lines[index], error.to_string()))?;
    problems.extend(unreadable);
    let about = table.about();
    let (path, root) = (path.to_owned(), folder.to_owned());
    assemble(Listed { path, root, about, classes, task, entries, problems, passed_over }, opening)
}

/// A manifest with at least one line, read and checked.
pub(crate) struct Table {
    path: PathBuf,
    pub(crate) rows: Vec<Row>,
    /// Names of columns that are not used.
    strangers: BTreeSet<String>,
}

impl Table {
    /// Reads a manifest with at least one sample.
    ///
    /// # Errors
    /// [`DataError::Manifest`] with the line, and [`DataError::Io`].
    pub(crate) fn read(path: &Path, tells: Tells<'_>) -> Result<Self, DataError> {
        let io = |cause| DataError::Io { path: path.to_owned(), cause };
        let text = files::read(path, MAX_BYTES).map_err(io)?;
        let at = |(line, reason): (u64, String)| DataError::Manifest { path: path.to_owned(), line, reason };
        let json_lines = !path.extension().is_some_and(|have| have.eq_ignore_ascii_case("csv"));
        let (rows, strangers) = parse(&text, json_lines, tells).map_err(at)?;
        if rows.is_empty() {
            return Err(at((1, "there are no samples".to_owned())));
        }
        Ok(Self { path: path.to_owned(), rows, strangers })
    }

    /// Something wrong with a line.
    pub(crate) fn wrong(&self, line: u64, reason: String) -> DataError {
        DataError::Manifest { path: self.path.clone(), line, reason }
    }

    /// A description of the data set, with the columns that are not used.
    pub(crate) fn about(&self) -> String {
        let mut about = format!("Images listed in {}", self.path.display());
        if !self.strangers.is_empty() {
            let names: Vec<&str> = self.strangers.iter().map(String::as_str).collect();
            about.push_str(&format!(" (not used: {})", names.join(", ")));
        }
        about
    }
}

/// The file that a line names, with its format.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn file_of(folder: &Path, path: &str, opening: &Opening) -> Result<(PathBuf, Arc<dyn Format>), String> {
    let file = folder.join(path);
    match opening.format_of(&file) {
        Some(format) if file.is_file() => Ok((file, format)),
        _ if !file.exists() => Err(format!("there is no file {file:?}")),
        _ if !file.is_file() => Err(format!("{file:?} is not a file")),
        _ => Err(format!("{file:?} is of no kind that is understood")),
    }
}

/// The names of all classes: in the order of numbers where all are numbers, otherwise of the alphabet.
pub(crate) fn classes_of(rows: &[Row]) -> Vec<String> {
    let names: BTreeSet<&String> = rows.iter().flat_map(|row| &row.labels).collect();
    let mut names: Vec<String> = names.into_iter().cloned().collect();
    if names.iter().all(|name| name.parse::<u64>().is_ok()) {
        names.sort_by_key(|name| name.parse::<u64>().unwrap_or(u64::MAX));
    }
    names
}

pub(super) type Rows = (Vec<Row>, BTreeSet<String>);

fn csv_rows(text: &[u8], tells: Tells<'_>) -> Result<Rows, (u64, String)> {
    let mut records = Records::of(text);
    let (_, header) = records.next().unwrap_or(Ok((1, vec![])))?;
    let known = tells.columns();
    let mut columns: [Option<usize>; 5] = Default::default();
    let mut strangers = BTreeSet::new();
    for (place, name) in header.iter().enumerate() {
        let name = text_of(name, 1)?;
        match known.iter().position(|column| *column == name) {
            Some(column) if columns[column].is_some() => {
                return Err((1, format!("the column {name:?} is there twice")));
            }
            Some(column) => columns[column] = Some(place),
            None => drop(strangers.insert(name.to_owned())),
        }
    }
    for (name, column) in known.iter().zip(&columns).take(2) {
        if column.is_none() {
            let known = known.join(",");
            let hint = hint(name, &header);
            return Err((1, format!("the first line names no column `{name}`{hint}; it reads like this: {known}")));
        }
    }
    let mut rows = Vec::new();
    for record in records {
        let (line, record) = record?;
        if record.len() != header.len() {
            return Err((line, format!("{} values stand under {} columns", record.len(), header.len())));
        }
        let mut texts = [""; 5];
        for (text, column) in texts.iter_mut().zip(&columns) {
            if let Some(bytes) = column.and_then(|column| record.get(column)) {
                *text = text_of(bytes, line)?;
            }
        }
        let [path, told, split, group, weight] = texts;
        let told = match tells {
            Tells::Mask => Told::mask(line, told)?,
            Tells::Value(column) => Told::value(line, column, told)?,
            Tells::Label => {
                let labels = told.split(';').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
                Told::Labels(labels.collect(), told.contains(';'))
            }
        };
        let weight = match weight {
            "" => 1.0,
            text => text.parse().map_err(|_| (line, format!("the weight {text:?} is not a number")))?,
        };
        rows.push(row(line, path, told, [split, group], weight)?);
    }
    Ok((rows, strangers))
}

fn text_of(bytes: &[u8], line: u64) -> Result<&str, (u64, String)> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| (line, format!("{:?} is not UTF-8", String::from_utf8_lossy(bytes))))?;
    Ok(text.trim())
}

/// Names that the columns `path`, `label` and `mask` have elsewhere, in lower case.
const OTHER_NAMES: [(&str, &[&str]); 3] = [
    ("path", &["path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "img", "name"]),
    ("mask", &["mask", "masks", "mask_path", "mask_file", "label", "label_path", "seg", "segmentation", "annotation"]),
    ("label", &["label", "labels", "class", "target", "category", "diagnosis", "y"]),
];

/// What may be meant where the first line lacks a column, with a semicolon before it.
fn hint(lacking: &str, header: &[Vec<u8>]) -> String {
    let names: Vec<String> = header.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect();
    if let [one] = names.as_slice() {
        for (separator, called) in [(';', "`;`"), ('\t', "tabs"), ('|', "`|`")] {
            if one.contains(separator) {
                return format!("; its values seem to be separated by {called}, and commas are what is read");
            }
        }
    }
    let others = OTHER_NAMES.iter().find(|(column, _)| *column == lacking).map_or(&[] as &[&str], |(_, others)| others);
    match names.iter().find(|name| others.contains(&name.to_lowercase().as_str())) {
        Some(meant) => format!("; rename `{}` to `{lacking}`", meant.escape_debug()),
        None => String::new(),
    }
}

fn json_rows(text: &[u8], tells: Tells<'_>) -> Result<Rows, (u64, String)> {
    let (mut rows, mut strangers) = (Vec::new(), BTreeSet::new());
    for (line, bytes) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let wrong = |reason: String| (line, reason);
        if bytes.len() > MAX_LINE {
            return Err(wrong(format!("it is longer than {}", in_units(MAX_LINE as u64))));
        }
        let mut object: serde_json::Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|error| wrong(format!("it is not a JSON object: {error}")))?;
        let mut take = |name: &str| object.remove(name).filter(|value| !value.is_null());
        let texts = ["path", "split", "group"].map(|name| match take(name) {
            None => Ok(String::new()),
            Some(value) => plain(&value).ok_or_else(|| wrong(format!("the {name} {value} is not a text"))),
        });
        let [path, split, group] = texts;
        let name = tells.column();
        let told = take(name).ok_or_else(|| wrong(format!("it has no {name}")))?;
        let told = match tells {
            Tells::Label => labels_of(&told).map_err(wrong)?,
            Tells::Mask => Told::mask(line, &plain(&told).unwrap_or_default())?,
            Tells::Value(column) => Told::value(line, column, &plain(&told).unwrap_or_else(|| told.to_string()))?,
        };
        let weight = match take("weight") {
            None => 1.0,
            Some(value) => value.as_f64().ok_or_else(|| wrong(format!("the weight {value} is not a number")))? as f32,
        };
        strangers.extend(object.into_iter().map(|(name, _)| name));
        rows.push(row(line, &path?, told, [&split?, &group?], weight)?);
    }
    Ok((rows, strangers))
}

/// What a line gives for its image.
enum Told {
    /// The names of its classes, and whether they were written as a list.
    Labels(Vec<String>, bool),
    /// Path of the mask, as it is written.
    Mask(String),
    /// The number to predict.
    Value(f64),
}

impl Told {
    fn mask(line: u64, path: &str) -> Result<Self, (u64, String)> {
        if path.is_empty() { Err((line, "the mask is empty".to_owned())) } else { Ok(Self::Mask(path.to_owned())) }
    }

    fn value(line: u64, column: &str, text: &str) -> Result<Self, (u64, String)> {
        let number = text.parse().ok().filter(|number| VALUES.contains(number));
        number.map(Self::Value).ok_or_else(|| {
            let (least, most) = (VALUES.start(), VALUES.end());
            (line, format!("the {column} {text:?} is no number from {least:e} to {most:e}"))
        })
    }
}

/// The classes that a label of JSON names.
fn labels_of(label: &Value) -> Result<Told, String> {
    let names: Option<Vec<String>> = match label {
        Value::Array(names) => names.iter().map(plain).collect(),
        one => plain(one).map(|name| vec![name]),
    };
    let names = names.ok_or_else(|| format!("the label {label} is neither a text nor a list of texts"))?;
    Ok(Told::Labels(names.into_iter().filter(|name| !name.is_empty()).collect(), label.is_array()))
}

/// A text, or a whole number as it is written.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn row(line: u64, path: &str, told: Told, [split, group]: [&str; 2], weight: f32) -> Result<Row, (u64, String)> {
    if path.is_empty() {
        return Err((line, "the path is empty".to_owned()));
    }
    if !weight.is_finite() || weight < 0.0 {
        return Err((line, format!("the weight {weight} is not a number from 0 on")));
    }
    let split = match split {
        "" => None,
        "valid" | "validation" => Some(Split::Val),
        text => Some(text.parse().map_err(|error: UnknownName| (line, error.to_string()))?),
    };
    let (mut labels, several, mask, value) = match told {
        Told::Labels(labels, several) => (labels, several, None, None),
        Told::Mask(path) => (Vec::new(), false, Some(path), None),
        Told::Value(number) => (Vec::new(), false, None, Some(number)),
    };
    labels.sort();
    labels.dedup();
    let group = (!group.is_empty()).then(|| group.to_owned());
    Ok(Row { line, path: path.to_owned(), labels, several, mask, value, split, group, weight })
}
