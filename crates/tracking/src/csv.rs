//! One table for spreadsheets: a row for each step, each evaluation and each comparison of a generator's images.

use std::path::PathBuf;

use kindling_files::{self as files, csv::csv_line};
use kindling_runs::write_atomically;

use crate::TrackingError;
use crate::about::About;
use crate::appended::Appended;
use crate::entry::{Entry, Name, What};
use crate::marks::Marks;
use crate::tracker::Tracker;
use crate::vocabulary::Ending;

/// The columns before the values.
const FIRST: [&str; 4] = ["step", "epoch", "split", "seconds"];
/// The values of a classifier's run. The first one of a row says what the row is.
const CLASSIFIER: &[&str] = SEGMENTER.split_at(SEGMENTER.len() - 1).0;
/// Those of a run that segments.
const SEGMENTER: &[&str] = &[
    "loss",
    "loss_scale",
    "accuracy",
    "lr",
    "gradient_norm",
    "images_per_second",
    "waiting_seconds",
    "micro_batch",
    "memory_peak_bytes",
    "processes_slowest_seconds",
    "processes_waited_seconds",
    "processes_sent_bytes",
    "dice",
];
/// Those of a run that answers with a number, whose answers are neither right nor wrong.
const REGRESSOR: &[&str] = &[
    "loss",
    "loss_scale",
    "accuracy",
    "lr",
    "gradient_norm",
    "images_per_second",
    "waiting_seconds",
    "micro_batch",
    "memory_peak_bytes",
    "processes_slowest_seconds",
    "processes_waited_seconds",
    "processes_sent_bytes",
    "mae",
    "r2",
];
/// The values of two networks against each other.
const GAN: &[&str] = &[
    "discriminator_loss",
    "loss_scale",
    "generator_loss",
    "discriminator_gradient_norm",
    "generator_gradient_norm",
    "real_believed",
    "fake_believed",
    "spread",
    "frechet_distance",
    "kernel_distance",
    "images_per_second",
    "micro_batch",
    "memory_peak_bytes",
];

/// All kinds of tables.
const KINDS: [&[&str]; 4] = [CLASSIFIER, SEGMENTER, REGRESSOR, GAN];

/// The table in a file.
#[derive(Debug)]
pub(crate) struct Csv {
    path: PathBuf,
    file: Option<Appended>,
    /// Those of the file; none before it has a header.
    columns: &'static [&'static str],
    /// Whether the configuration is one of two networks.
    is_gan: bool,
}

impl Csv {
    /// In the file `path`, which need not be there.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None, columns: &[], is_gan: false }
    }

    /// Makes a classifier's table one of a run that segments or answers with a number, which is known by its first evaluation: the rows
    /// so far have no such scores.
    fn widen(&mut self, wider_columns: &'static [&'static str]) -> Result<(), TrackingError> {
        let bytes = files::read(&self.path, files::MAX_LOG_BYTES).map_err(TrackingError::on("read", &self.path))?;
        let text = String::from_utf8_lossy(&bytes);
        let empty = ",".repeat(wider_columns.len() - CLASSIFIER.len());
        let rows = text.lines().skip(1).map(|row| format!("{row}{empty}\n"));
        let wider: String = std::iter::once(header(wider_columns) + "\n").chain(rows).collect();
        // As a file of its own: the old one is open, and half of either would be none.
        write_atomically(&self.path, wider.as_bytes())?;
        self.file = Some(Appended::open(&self.path)?.0);
        self.columns = wider_columns;
        Ok(())
    }
}

fn header(columns: &[&str]) -> String {
    csv_line(FIRST.iter().chain(columns))
}

/// The split of a row, and the columns of its values.
fn row(values: &[(Name, f64)]) -> (&str, Vec<(String, f64)>) {
    let split = values.first().and_then(|(name, _)| name.split_once('/')).map_or("", |(split, _)| split);
    let column = |name: &str| match name.split_once('/') {
        Some((first, rest)) if first == split => rest.to_owned(),
        _ => name.replace('/', "_"),
    };
    (split, values.iter().map(|(name, value)| (column(name), *value)).collect())
}

/// The columns of a run that has told these values, if they are not those of every network that learns from labels.
fn wider(entries: &[Entry]) -> Option<&'static [&'static str]> {
    let tells = |name: &str| {
        let is_told = |entry: &Entry| matches!(&entry.what, What::Values(values) if row(values).1.iter().any(|(column, _)| column == name));
        entries.iter().any(is_told)
    };
    match (tells("dice"), tells("mae")) {
        (true, _) => Some(SEGMENTER),
        (false, true) => Some(REGRESSOR),
        (false, false) => None,
    }
}

impl Tracker for Csv {
    fn open(&mut self, about: &About) -> Result<Marks, TrackingError> {
        let (mut file, bytes) = Appended::open(&self.path)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let mut lines = bytes[..whole].split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
        let first = lines.next().unwrap_or_default();
        let known = KINDS.into_iter().find(|columns| header(columns) == first);
        self.columns = match known {
            Some(columns) => columns,
            // A kill may have left the beginning of a header.
            None if whole == 0 && KINDS.iter().any(|it| header(it).as_bytes().starts_with(&bytes)) => &[],
            None => {
                return Err(TrackingError::Foreign { path: self.path.clone(), reason: "it is no table of a run" });
            }
        };
        file.cut(whole as u64)?;
        let mut marks = Marks::default();
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            let [step, _, split, _, values @ ..] = &fields[..] else { continue };
            let first = self.columns.iter().zip(values).find(|(_, value)| !value.is_empty());
            if let (Ok(step), Some((column, _))) = (step.parse(), first) {
                marks.count(&format!("{split}/{column}"), step);
            }
        }
        self.file = Some(file);
        self.is_gan = about.config.get("gan").is_some();
        Ok(marks)
    }

    fn takes(&self, what: &What) -> bool {
        matches!(what, What::Values(_))
    }

    fn deliver(&mut self, entries: &[Entry]) -> Result<(), TrackingError> {
        let wider = wider(entries);
        if let Some(columns) = wider.filter(|_| self.columns == CLASSIFIER) {
            self.widen(columns)?;
        }
        let mut text = String::new();
        for entry in entries {
            let What::Values(values) = &entry.what else { continue };
            let (split, values) = row(values);
            if self.columns.is_empty() {
                let known = wider.unwrap_or(CLASSIFIER);
                let is_gan = self.is_gan || values.iter().any(|(column, _)| !known.contains(&column.as_str()));
                self.columns = if is_gan { GAN } else { known };
                text.push_str(&header(self.columns));
                text.push('\n');
            }
            let of = |column: &&str| {
                let found = values.iter().find(|(name, _)| name == column);
                found.map(|(_, value)| value.to_string()).unwrap_or_default()
            };
            let epoch = entry.epoch.map(|epoch| epoch.to_string()).unwrap_or_default();
            let first = [entry.step.to_string(), epoch, split.to_owned(), entry.seconds.to_string()];
            text.push_str(&csv_line(first.into_iter().chain(self.columns.iter().map(of))));
            text.push('\n');
        }
        self.file.as_mut().map_or(Ok(()), |file| file.append(text.as_bytes()))
    }

    fn end(&mut self, _: Ending, _: &Entry) -> Result<(), TrackingError> {
        Ok(())
    }
}

/// The series of a table's rows, each with its step.
#[cfg(test)]
pub(crate) fn arrived(bytes: &[u8]) -> Vec<(String, u64)> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap_or_default();
    let row = |fields: Vec<&str>| {
        let column = (FIRST.len()..header.len()).find(|at| !fields[*at].is_empty())?;
        Some((format!("{}/{}", fields[2], header[column]), fields[0].parse().ok()?))
    };
    lines.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{append, evaluated, started, step};
    use crate::{Follower, Target};
    use kindling_runs::Event;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn the_columns_are_those_of_the_kind_of_run_whatever_is_told_first() {
        for (section, column) in [("gan", "frechet_distance"), ("model", "accuracy")] {
            let folder = tempfile::tempdir().unwrap();
            let run = crate::testing::run(folder.path());
            fs::write(run.config(), format!("[{section}]\nname = \"a\"\n")).unwrap();
            append(&run, &[started(), Event::Skipped { step: 1, loss_scale: 512.0 }]);
            Follower::new(&run, &Target::Csv).unwrap().finish(Duration::from_secs(60)).unwrap();
            let table = fs::read_to_string(Target::Csv.place(&run)).unwrap();
            assert!(table.lines().next().unwrap().split(',').any(|name| name == column), "{table}");
            assert!(table.contains("\n1,,train,0,,512,"), "{table}");
        }
    }

    #[test]
    fn a_table_gets_columns_of_other_scores_as_soon_as_a_run_says_them_and_loses_nothing() {
        gets_columns((Some(0.75), Some(0.625), None, None), ("dice", "0.625", ","));
        gets_columns((None, None, Some(7.5), Some(0.25)), ("mae,r2", "7.5,0.25", ",,"));
    }

    /// Accuracy, Dice, mean absolute error and R2 of an evaluation; the last columns with their names, with their values, and empty.
    type Told = (Option<f64>, Option<f64>, Option<f64>, Option<f64>);

    fn gets_columns((accuracy, dice, mae, r2): Told, (names, values, empty): (&str, &str, &str)) {
        let scored = |step| match evaluated(step, "validation") {
            Event::Evaluated { step, epoch, split, loss, samples, .. } => {
                Event::Evaluated { step, epoch, split, loss, accuracy, samples, dice, mae, r2 }
            }
            other => other,
        };
        let parts = [vec![started(), step(1, 1), step(2, 1)], vec![scored(2), step(3, 2)], vec![scored(3)]];
        // At once, and in parts, by a follower that goes on and by a new one.
        let tables = [(1, false), (3, false), (3, true)].map(|(polls, anew)| {
            let folder = tempfile::tempdir().unwrap();
            let run = crate::testing::run(folder.path());
            let mut follower = Follower::new(&run, &Target::Csv).unwrap();
            for (number, part) in parts.iter().enumerate() {
                append(&run, part);
                if anew {
                    drop(follower);
                    follower = Follower::new(&run, &Target::Csv).unwrap();
                }
                if number + 1 == parts.len() || polls > 1 {
                    follower.poll().unwrap();
                }
            }
            fs::read_to_string(Target::Csv.place(&run)).unwrap()
        });
        assert_eq!(tables[0], tables[1]);
        assert_eq!(tables[0], tables[2]);
        let lines: Vec<&str> = tables[0].lines().collect();
        assert!(lines.len() == 6 && lines[0].ends_with(&format!(",processes_sent_bytes,{names}")), "{}", tables[0]);
        assert!(lines[1].ends_with(empty) && lines[3].ends_with(&format!(",{values}")), "{}", tables[0]);
        let columns = |line: &&str| line.split(',').count();
        assert!(lines.iter().all(|line| columns(line) == columns(&lines[0])), "{}", tables[0]);
    }

    #[test]
    fn a_table_of_somebody_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let run = crate::testing::run(folder.path());
        append(&run, &[started(), crate::testing::step(1, 1)]);
        let theirs = folder.path().join("theirs.csv");
        for text in ["name,age\nA,7\n", "name,age\nA,7", "name", "\n"] {
            fs::write(&theirs, text).unwrap();
            let error = Follower::at(&run, &Target::Csv, &theirs).unwrap().poll().unwrap_err();
            assert!(matches!(error, TrackingError::Foreign { .. }), "{error}");
            assert_eq!(fs::read_to_string(&theirs).unwrap(), text);
        }
    }
}
