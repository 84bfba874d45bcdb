//! `predictions.csv` of a regression: the number that a model said every evaluated image has. Any program can write such a file.
//!
//! The first line names the columns, in any order: `sample` (the image's name), `truth` and `prediction` (numbers in one unit). `split`
//! (`val`, `test`, ...) and `group` (the patient) may be left out or empty. Other columns are kept as they are: they can be scored as
//! subgroups.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::Path;

use kindling_files::csv::csv_line;
use kindling_metrics::Values;

use crate::csv::{Records, read_text};
use crate::{RunError, stream_atomically};

/// The columns that are understood.
const COLUMNS: [&str; 5] = ["sample", "group", "split", "truth", "prediction"];
/// Numbers whose squares can be added up.
const NUMBERS: RangeInclusive<f64> = -1e100..=1e100;

/// One line of the table: an image with its true and its predicted number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PredictedValue {
    /// Name of the image in its data set.
    pub sample: String,
    /// What it must not be parted from: the patient, usually.
    pub group: Option<String>,
    /// `val`, `test` or what else it was evaluated as; empty if that is not known.
    pub split: String,
    /// True number, in the unit of the target.
    pub truth: f64,
    /// Predicted number, in the same unit.
    pub prediction: f64,
    /// The values of the other columns, in the order of [`ValueTable::others`].
    pub others: Vec<String>,
}

/// The numbers that a model predicted, as `predictions.csv` holds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueTable {
    /// The names of columns that are none of those that are understood.
    pub others: Vec<String>,
    /// The lines of the table, in order.
    pub images: Vec<PredictedValue>,
}

impl ValueTable {
    /// Whether the table at a path is one of numbers, by its first line: it has a column `prediction`. `false` for one that cannot
    /// be read: reading it says why.
    pub fn is_at(path: &Path) -> bool {
        let has_prediction = |text: &[u8]| Ok(Records::of(text).header()?.iter().any(|name| name == "prediction"));
        read_text(path, has_prediction).unwrap_or(false)
    }

    /// Writes the table, atomically. Reading it gives the same numbers, bit by bit.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write(&self, path: &Path) -> Result<(), RunError> {
        stream_atomically(path, |file| {
            let mut out = BufWriter::new(file);
            let header = COLUMNS.into_iter().map(str::to_owned);
            writeln!(out, "{}", csv_line(header.chain(self.others.iter().cloned())))?;
            for image in &self.images {
                let group = image.group.clone().unwrap_or_default();
                let [truth, said] = [image.truth, image.prediction].map(|number| number.to_string());
                let texts = [image.sample.clone(), group, image.split.clone(), truth, said];
                writeln!(out, "{}", csv_line(texts.into_iter().chain(image.others.iter().cloned())))?;
            }
            out.flush()
        })
    }

    /// Reads a table.
    ///
    /// # Errors
    /// [`RunError::Malformed`] with the line, [`RunError::Io`].
    pub fn read(path: &Path) -> Result<Self, RunError> {
        read_text(path, Self::parse)
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let mut records = Records::of(text);
        let header = records.header()?;
        let mut seen = HashSet::new();
        if let Some(twice) = header.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(format!("the column `{twice}` is there twice"));
        }
        let places = COLUMNS.map(|name| header.iter().position(|have| have == name));
        for (name, place) in COLUMNS.iter().zip(places) {
            if place.is_none() && !["group", "split"].contains(name) {
                let known = COLUMNS.join(",");
                return Err(format!("the first line names no column `{name}`; it reads like this: {known}"));
            }
        }
        let others: Vec<usize> = (0..header.len()).filter(|at| !places.contains(&Some(*at))).collect();
        let mut table = Self { others: others.iter().map(|at| header[*at].clone()).collect(), images: Vec::new() };
        let mut known: BTreeSet<(String, String)> = BTreeSet::new();
        for record in records {
            let (line, fields) = record?;
            if fields.len() != header.len() {
                return Err(format!("line {line} has {} values under {} columns", fields.len(), header.len()));
            }
            let image = image(&fields, places, &others).map_err(|reason| format!("line {line}: {reason}"))?;
            if !known.insert((image.split.clone(), image.sample.clone())) {
                return Err(format!("line {line}: the sample {:?} is there twice", image.sample));
            }
            table.images.push(image);
        }
        Ok(table)
    }

    /// The splits there are, in the order of their first image.
    pub fn splits(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        self.images.iter().map(|image| image.split.as_str()).filter(|split| seen.insert(*split)).collect()
    }

    /// The images that were evaluated as this split, in order.
    pub fn of_split<'a>(&'a self, split: &'a str) -> impl Iterator<Item = &'a PredictedValue> {
        self.images.iter().filter(move |image| image.split == split)
    }

    /// The numbers of a split as they are scored; `Ok(None)` if it has no images.
    ///
    /// # Errors
    /// One sentence, for numbers that are none.
    pub fn values(&self, split: &str) -> Result<Option<Values>, String> {
        values_of(self.of_split(split), split)
    }
}

/// Numbers as they are scored; `Ok(None)` if there are none.
fn values_of<'a>(images: impl Iterator<Item = &'a PredictedValue>, split: &str) -> Result<Option<Values>, String> {
    let images: Vec<&PredictedValue> = images.collect();
    if images.is_empty() {
        return Ok(None);
    }
    let truth = images.iter().map(|image| image.truth).collect();
    let said = images.iter().map(|image| image.prediction).collect();
    let groups = images.iter().map(|image| image.group.clone()).collect();
    let called = if split.is_empty() { String::new() } else { format!("the split {split}: ") };
    Values::new(truth, said, groups).map(Some).map_err(|error| format!("{called}{error}"))
}

/// The numbers that two models said of the images of a split that both have, in the order of the first.
///
/// # Errors
/// A sentence: no image in common, or one with another truth or patient.
pub fn common_values(first: &ValueTable, second: &ValueTable, split: &str) -> Result<(Values, Values), String> {
    let theirs: HashMap<&str, &PredictedValue> =
        second.of_split(split).map(|image| (image.sample.as_str(), image)).collect();
    let both: Vec<(&PredictedValue, &PredictedValue)> =
        first.of_split(split).filter_map(|image| Some((image, *theirs.get(image.sample.as_str())?))).collect();
    if let Some((image, _)) = both.iter().find(|(one, other)| (one.truth, &one.group) != (other.truth, &other.group)) {
        return Err(format!("the sample {:?} has another truth or group in the other", image.sample));
    }
    let of = |images: Vec<&PredictedValue>| {
        values_of(images.into_iter(), split)?.ok_or_else(|| format!("there is no image of the split {split} in both"))
    };
    let (ours, others) = both.into_iter().unzip();
    Ok((of(ours)?, of(others)?))
}

fn image(fields: &[String], places: [Option<usize>; 5], others: &[usize]) -> Result<PredictedValue, String> {
    let [sample, group, split, truth, said] =
        places.map(|place| place.and_then(|at| fields.get(at)).map_or("", String::as_str));
    if sample.is_empty() {
        return Err("the sample is empty".to_owned());
    }
    let number = |what: &str, text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|number| NUMBERS.contains(number));
        number.ok_or_else(|| format!("the {what} {text:?} is not a number from -1e100 to 1e100"))
    };
    Ok(PredictedValue {
        sample: sample.to_owned(),
        group: (!group.is_empty()).then(|| group.to_owned()),
        split: split.to_owned(),
        truth: number("truth", truth)?,
        prediction: number("prediction", said)?,
        others: others.iter().map(|at| fields.get(*at).cloned().unwrap_or_default()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(samples: &[(&str, f64, f64)]) -> ValueTable {
        let image = |&(sample, truth, prediction): &(&str, f64, f64)| PredictedValue {
            sample: sample.into(),
            group: (sample != "b").then(|| "p, \"1\"".into()),
            split: "test".into(),
            truth,
            prediction,
            others: vec!["f".into()],
        };
        ValueTable { others: vec!["sex".into()], images: samples.iter().map(image).collect() }
    }

    #[test]
    fn a_table_reads_back_as_the_same_bits_and_is_told_from_one_of_classes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("predictions.csv");
        let written = table(&[("a", 0.1 + 0.2, -3e-19), ("b", 1e12, f64::MIN_POSITIVE), ("c", -0.0, 7.0)]);
        written.write(&path).unwrap();
        assert_eq!(ValueTable::read(&path).unwrap(), written);
        assert!(ValueTable::is_at(&path));
        std::fs::write(&path, "sample,truth,p:a,p:b\n").unwrap();
        assert!(!ValueTable::is_at(&path) && !ValueTable::is_at(folder.path()));
    }

    #[test]
    fn a_wrong_table_is_refused_with_its_line() {
        for (text, expected) in [
            ("", "no column `sample`"),
            ("sample,prediction\n", "no column `truth`"),
            ("sample,truth,prediction,truth\n", "twice"),
            ("sample,truth,prediction\nx,1\n", "line 2 has 2 values under 3 columns"),
            ("sample,truth,prediction\nx,1,NaN\n", "line 2: the prediction \"NaN\" is not a number"),
            ("sample,truth,prediction\nx,,1\n", "line 2: the truth \"\" is not a number"),
            ("sample,truth,prediction\nx,1e300,1\n", "\"1e300\" is not a number from"),
            ("sample,truth,prediction\n,1,1\n", "line 2: the sample is empty"),
            ("sample,truth,prediction\nx,1,1\nx,1,1\n", "line 3: the sample \"x\" is there twice"),
        ] {
            let reason = ValueTable::parse(text.as_bytes()).unwrap_err();
            assert!(reason.contains(expected) && !reason.contains('\n'), "{text:?}: {reason}");
        }
    }

    #[test]
    fn numbers_of_the_same_images_are_found_whatever_their_order() {
        let first = table(&[("x", 1.0, 2.0), ("y", 2.0, 2.0), ("z", 3.0, 5.0)]);
        let (ours, theirs) = common_values(&first, &table(&[("z", 3.0, 4.0), ("x", 1.0, 0.0)]), "test").unwrap();
        assert_eq!((ours.pairs(), theirs.pairs()), (&[(1.0, 2.0), (3.0, 5.0)][..], &[(1.0, 0.0), (3.0, 4.0)][..]));
        assert!(common_values(&first, &table(&[("x", 7.0, 2.0)]), "test").unwrap_err().contains("another truth"));
        assert!(common_values(&first, &table(&[("w", 1.0, 2.0)]), "test").unwrap_err().contains("no image"));
    }
}
