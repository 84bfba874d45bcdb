//! `predictions.csv`: what a model said of every evaluated image. Any program can write such a file.
//!
//! The first line names the columns, in any order: `sample` (the image's name), `truth` (its class; of several `a;b`, of none `;`) and
//! for each class `p:CLASS` (its probability, 0 to 1). `split` (`val`, `test`, ...) and `group` (the patient) may be left out or empty.
//! Other columns are kept as they are: they can be scored as subgroups.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufWriter, Write};
use std::path::Path;

use kindling_files::csv::csv_line;
use kindling_metrics::Predictions;

use crate::csv::{Records, read_text, shortest};
use crate::{RunDir, RunError, stream_atomically};

/// What stands before the name of a class.
const PROBABILITY: &str = "p:";
/// What configurations call the task of grades.
const ORDINAL: &str = "ordinal";

/// One line of the table: an image with its true classes and its probabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// Name of the image in its data set.
    pub sample: String,
    /// What it must not be parted from: the patient, usually.
    pub group: Option<String>,
    /// `val`, `test` or what else it was evaluated as; empty if that is not known.
    pub split: String,
    /// Indices of its true classes, ascending.
    pub truth: Vec<usize>,
    /// The probability of each class, 0 to 1.
    pub probabilities: Vec<f64>,
    /// The values of the other columns, in the order of [`PredictionTable::others`].
    pub others: Vec<String>,
}

/// The class probabilities that a model predicted, as `predictions.csv` holds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PredictionTable {
    /// Names of the classes, in the order of their indices.
    pub classes: Vec<String>,
    /// Whether an image may have several classes or none.
    pub several: bool,
    /// Whether the classes are grades, in their order. The file does not say it; the reader sets it.
    pub ordinal: bool,
    /// The names of columns that are none of the above.
    pub others: Vec<String>,
    /// The lines of the table, in order.
    pub images: Vec<Predicted>,
}

impl PredictionTable {
    /// Writes the table, atomically. Reading it gives the same numbers, bit by bit.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write(&self, path: &Path) -> Result<(), RunError> {
        stream_atomically(path, |file| {
            let mut out = BufWriter::new(file);
            let header = ["sample", "group", "split", "truth"].into_iter().map(str::to_owned);
            let classes = self.classes.iter().map(|class| format!("{PROBABILITY}{class}"));
            writeln!(out, "{}", csv_line(header.chain(classes).chain(self.others.iter().cloned())))?;
            for image in &self.images {
                let group = image.group.clone().unwrap_or_default();
                let texts = [image.sample.clone(), group, image.split.clone(), self.truth_of(image)];
                let numbers = image.probabilities.iter().map(|value| shortest(*value));
                writeln!(out, "{}", csv_line(texts.into_iter().chain(numbers).chain(image.others.iter().cloned())))?;
            }
            out.flush()
        })
    }

    /// As in a manifest: `a;b` is both, `;` is neither, and one of several is `a;`.
    fn truth_of(&self, image: &Predicted) -> String {
        let name = |class: &usize| self.classes.get(*class).cloned().unwrap_or_default();
        let names = image.truth.iter().map(name).collect::<Vec<_>>().join(";");
        if self.several && image.truth.len() < 2 { names + ";" } else { names }
    }

    /// Reads a table.
    ///
    /// # Errors
    /// [`RunError::Malformed`] with the line, [`RunError::Io`].
    pub fn read(path: &Path) -> Result<Self, RunError> {
        read_text(path, Self::parse)
    }

    /// Reads that of a run, whose configuration says whether its classes are grades.
    ///
    /// # Errors
    /// As [`PredictionTable::read`].
    pub fn of_run(run: &RunDir) -> Result<Self, RunError> {
        let config: toml::Table = run.read_config()?;
        let task = config.get("data").and_then(|data| data.get("task")).and_then(toml::Value::as_str);
        Ok(Self { ordinal: task == Some(ORDINAL), ..Self::read(&run.predictions())? })
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let mut records = Records::of(text);
        let header = records.header()?;
        let columns = Columns::of(&header)?;
        let mut table =
            Self { classes: columns.classes.clone(), others: columns.other_names.clone(), ..Self::default() };
        let mut lines: Vec<(u64, String)> = Vec::new();
        for record in records {
            let (line, fields) = record?;
            if fields.len() != header.len() {
                return Err(format!("line {line} has {} values under {} columns", fields.len(), header.len()));
            }
            let (image, truth) = columns.image(&fields).map_err(|reason| format!("line {line}: {reason}"))?;
            table.several |= truth.contains(';') && !table.classes.contains(&truth);
            table.images.push(image);
            lines.push((line, truth));
        }
        let index: BTreeMap<&str, usize> = table.classes.iter().map(String::as_str).zip(0..).collect();
        let mut seen = HashSet::new();
        for ((line, truth), image) in lines.iter().zip(&mut table.images) {
            if !seen.insert((image.split.clone(), image.sample.clone())) {
                let split =
                    if image.split.is_empty() { String::new() } else { format!(" of the split {}", image.split) };
                return Err(format!("line {line}: the sample {:?}{split} is there twice", image.sample));
            }
            let names: Vec<&str> = match table.several {
                true => truth.split(';').map(str::trim).filter(|name| !name.is_empty()).collect(),
                false => vec![truth],
            };
            for name in names {
                let class = index.get(name).ok_or_else(|| {
                    let known = table.classes.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
                    format!(
                        "line {line}: the truth {name:?} has no column `{PROBABILITY}{name}`; the classes are {known}"
                    )
                })?;
                image.truth.push(*class);
            }
            image.truth.sort_unstable();
            image.truth.dedup();
        }
        Ok(table)
    }

    /// The splits there are, in the order of their first image.
    pub fn splits(&self) -> Vec<&str> {
        let mut splits: Vec<&str> = Vec::new();
        for image in &self.images {
            if splits.last() != Some(&image.split.as_str()) && !splits.contains(&image.split.as_str()) {
                splits.push(&image.split);
            }
        }
        splits
    }

    /// The images that were evaluated as this split, in order.
    pub fn of_split<'a>(&'a self, split: &'a str) -> impl Iterator<Item = &'a Predicted> {
        self.images.iter().filter(move |image| image.split == split)
    }

    /// The predictions of a split as they are scored; `Ok(None)` if it has no images.
    ///
    /// # Errors
    /// One sentence with the sample, for probabilities that are none.
    pub fn predictions(&self, split: &str) -> Result<Option<Predictions>, String> {
        let images: Vec<&Predicted> = self.of_split(split).collect();
        if images.is_empty() {
            return Ok(None);
        }
        let truths: Vec<Vec<usize>> = images.iter().map(|image| image.truth.clone()).collect();
        let rows: Vec<Vec<f64>> = images.iter().map(|image| image.probabilities.clone()).collect();
        let patients: Vec<Option<String>> = images.iter().map(|image| image.group.clone()).collect();
        let found = Predictions::new(self.classes.len(), self.several, &truths, &rows, &patients);
        let found = found.map(|found| if self.ordinal && !self.several { found.in_order() } else { found });
        let called = if split.is_empty() { String::new() } else { format!("the split {split}: ") };
        found.map(Some).map_err(|error| format!("{called}{error}"))
    }
}

/// Where the columns of a table stand.
struct Columns {
    sample: usize,
    group: Option<usize>,
    split: Option<usize>,
    truth: usize,
    probabilities: Vec<usize>,
    classes: Vec<String>,
    others: Vec<usize>,
    other_names: Vec<String>,
}

impl Columns {
    fn of(header: &[String]) -> Result<Self, String> {
        let mut seen = HashSet::new();
        if let Some(twice) = header.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(format!("the column `{twice}` is there twice"));
        }
        let place = |name: &str| header.iter().position(|have| have == name);
        let must = |name: &str| {
            place(name).ok_or_else(|| {
                format!("the first line names no column `{name}`; it reads like this: sample,group,split,truth,p:CLASS,p:CLASS")
            })
        };
        let class = |(at, name): (usize, &String)| Some((at, name.strip_prefix(PROBABILITY)?.to_owned()));
        let (probabilities, classes): (Vec<usize>, Vec<String>) = header.iter().enumerate().filter_map(class).unzip();
        let known = ["sample", "group", "split", "truth"];
        let is_other = |(_, name): &(usize, &String)| !known.contains(&name.as_str()) && !name.starts_with(PROBABILITY);
        let (others, other_names) =
            header.iter().enumerate().filter(is_other).map(|(at, name)| (at, name.clone())).unzip();
        let columns = Self {
            sample: must("sample")?,
            group: place("group"),
            split: place("split"),
            truth: must("truth")?,
            probabilities,
            classes,
            others,
            other_names,
        };
        match columns.classes.len() {
            0 | 1 => Err(format!(
                "{} columns hold probabilities, and two classes need two: name them `{PROBABILITY}CLASS`",
                columns.classes.len()
            )),
            _ => Ok(columns),
        }
    }

    /// An image without its truth, and the text of that.
    fn image(&self, fields: &[String]) -> Result<(Predicted, String), String> {
        let text = |column: Option<usize>| column.and_then(|at| fields.get(at)).cloned().unwrap_or_default();
        let number = |(at, class): (&usize, &String)| {
            let value = fields.get(*at).map(String::as_str).unwrap_or_default();
            let number = value.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
            number.ok_or_else(|| format!("the probability {value:?} of {class} is not a number from 0 to 1"))
        };
        let sample = text(Some(self.sample));
        if sample.is_empty() {
            return Err("the sample is empty".to_owned());
        }
        let image = Predicted {
            sample,
            group: Some(text(self.group)).filter(|group| !group.is_empty()),
            split: text(self.split),
            truth: Vec::new(),
            probabilities: self.probabilities.iter().zip(&self.classes).map(number).collect::<Result<_, _>>()?,
            others: self.others.iter().map(|at| text(Some(*at))).collect(),
        };
        Ok((image, text(Some(self.truth))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(several: bool) -> PredictionTable {
        let image = |sample: &str, truth: Vec<usize>, p: f64| Predicted {
            sample: sample.into(),
            group: (sample != "b").then(|| "p, \"1\"".into()),
            split: "test".into(),
            truth,
            probabilities: vec![p, 1.0 - p],
            others: vec!["f".into()],
        };
        let truths = if several { [vec![], vec![1], vec![0, 1]] } else { [vec![0], vec![1], vec![0]] };
        let [a, b, c] = truths;
        let images = vec![image("a", a, 0.1 + 0.2), image("b", b, 3e-19), image("c", c, 1.0)];
        let (classes, others) = (vec!["no".into(), "yes, it is".into()], vec!["sex".into()]);
        PredictionTable { classes, several, ordinal: false, others, images }
    }

    #[test]
    fn a_table_reads_back_as_the_same_bits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("predictions.csv");
        for several in [false, true] {
            table(several).write(&path).unwrap();
            assert_eq!(PredictionTable::read(&path).unwrap(), table(several), "{several}");
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("sample,group,split,truth,p:no,\"p:yes, it is\",sex\na,"), "{text}");
    }

    #[test]
    fn the_table_of_another_program_needs_no_more_than_names_truths_and_probabilities() {
        let found = PredictionTable::parse(b"p:a,truth,p:b,sample\r\n0.5,b,.5,x\r\n\r\n1,a,0,y\r\n").unwrap();
        assert_eq!(found.images.len(), 2);
        assert_eq!(
            (found.images[0].truth.as_slice(), found.images[0].probabilities.as_slice()),
            (&[1][..], &[0.5, 0.5][..])
        );
        assert_eq!(found.splits(), [""]);
        assert_eq!(found.predictions("").unwrap().unwrap().patients(), 2);
        assert_eq!(found.predictions("test"), Ok(None));
    }

    #[test]
    fn a_wrong_table_is_refused_with_its_line() {
        for (text, expected) in [
            ("", "no column `sample`"),
            ("sample,p:a,p:b\n", "no column `truth`"),
            ("sample,truth,p:a\n", "1 columns hold probabilities"),
            ("sample,truth,p:a,p:a\n", "twice"),
            ("sample,truth,p:a,p:b\nx,a,0.5\n", "line 2 has 3 values under 4 columns"),
            ("sample,truth,p:a,p:b\nx,a,0.5,NaN\n", "line 2: the probability \"NaN\" of b"),
            ("sample,truth,p:a,p:b\nx,a,1.5,-0.5\n", "\"1.5\" of a"),
            ("sample,truth,p:a,p:b\nx,a,0.5,\n", "the probability \"\" of b"),
            ("sample,truth,p:a,p:b\n\nx,c,0.5,0.5\n", "line 3: the truth \"c\" has no column `p:c`"),
            ("sample,truth,p:a,p:b\n,a,0.5,0.5\n", "line 2: the sample is empty"),
            ("sample,truth,p:a,p:b\nx,a,0.5,0.5\nx,a,0.5,0.5\n", "line 3: the sample \"x\" is there twice"),
        ] {
            let reason = PredictionTable::parse(text.as_bytes()).unwrap_err();
            assert!(reason.contains(expected) && !reason.contains('\n'), "{text:?}: {reason}");
        }
        let sum = PredictionTable::parse(b"sample,truth,p:a,p:b\nx,a,0.5,0.2\n").unwrap();
        assert!(sum.predictions("").unwrap_err().contains("add up to 0.7000"));
    }
}
