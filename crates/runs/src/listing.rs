//! Many runs at once: what matters of each, to list, filter and sort.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::comparing::flat;
use crate::{RunDir, RunError};

/// The columns of every run. A configuration's keys, such as `train.lr`, are columns as well.
pub const COLUMNS: [&str; 12] = [
    "run",
    "model",
    "data",
    "ended",
    "steps",
    "accuracy",
    "balanced_accuracy",
    "macro_auroc",
    "loss",
    "images_per_second",
    "peak_memory_bytes",
    "seconds",
];

/// The column of runs that segment: the mean foreground Dice of the test split. It is among [`columns_of`] runs of which one has it.
const DICE: &str = "dice";

/// The columns of runs that answer with a number: mean absolute error and R2 of the test split.
const OF_NUMBERS: [&str; 2] = ["mae", "r2"];

/// The columns of these runs: [`COLUMNS`], and behind the other scores `dice` if any of them segments, `mae` and `r2` if any answers with
/// a number.
pub fn columns_of(runs: &[Listed]) -> Vec<&'static str> {
    let mut columns = COLUMNS.to_vec();
    for column in [DICE].into_iter().chain(OF_NUMBERS) {
        if runs.iter().any(|run| run.value(column).is_some()) {
            let place = columns.iter().position(|column| *column == "loss").unwrap_or(columns.len());
            columns.insert(place, column);
        }
    }
    columns
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    values: BTreeMap<String, Value>,
    config: BTreeMap<String, String>,
}

impl Listed {
    /// What is known of a run. What it has not come to yet is missing.
    ///
    /// # Errors
    /// [`RunError::Malformed`] or [`RunError::Io`], if a file of it cannot be read.
    pub fn of(run: &RunDir) -> Result<Self, RunError> {
        let config = flat(&run.read_config::<toml::Table>()?);
        let mut values = BTreeMap::from([("run".to_owned(), Value::from(run.path().display().to_string()))]);
        let named = |keys: &[&str]| keys.iter().find_map(|key| config.get(*key)).cloned();
        values.insert("model".to_owned(), named(&["model.name", "model"]).into());
        values.insert("data".to_owned(), named(&["data.source", "data"]).into());
        values.insert("ended".to_owned(), run.metrics().is_file().into());
        if run.metrics().is_file() {
            let metrics = run.read_metrics()?;
            values.insert("steps".to_owned(), metrics.steps.into());
            if let Some(test) = &metrics.test {
                values.insert("accuracy".to_owned(), test.accuracy.into());
                values.insert("balanced_accuracy".to_owned(), test.balanced_accuracy.into());
                values.insert("loss".to_owned(), test.loss.into());
            }
            let dice = metrics.segmentation.and_then(|reached| reached.test_dice);
            values.insert(DICE.to_owned(), dice.into());
            if let Some(test) = metrics.regression.and_then(|reached| reached.test) {
                let [mae, r2] = OF_NUMBERS.map(str::to_owned);
                values.extend([(mae, test.mae.into()), (r2, test.r2.into())]);
            }
            values.insert("images_per_second".to_owned(), metrics.images_per_second.into());
            values.insert("peak_memory_bytes".to_owned(), metrics.peak_memory_bytes.into());
            values.insert("seconds".to_owned(), metrics.seconds.into());
        }
        if let Some(figure) = run.read_scores()?.as_ref().and_then(|scores| scores.figure("macro_auroc")) {
            values.insert("macro_auroc".to_owned(), figure.value.into());
        }
        values.retain(|_, value| !value.is_null());
        Ok(Self { values, config })
    }

    /// A value: of [`columns_of`] the runs, or of the configuration. `None` if the run has none.
    pub fn value(&self, column: &str) -> Option<Value> {
        self.values.get(column).cloned().or_else(|| self.config.get(column).map(|text| number_or_text(text)))
    }

    /// A value as text; empty if there is none.
    pub fn text(&self, column: &str) -> String {
        match self.value(column) {
            Some(Value::String(text)) => text,
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }

    /// The order by a column, numbers by size; those without it come last.
    pub fn compare(&self, other: &Self, column: &str) -> Ordering {
        match (self.value(column), other.value(column)) {
            (Some(a), Some(b)) => match (a.as_f64(), b.as_f64()) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                _ => self.text(column).cmp(&other.text(column)),
            },
            (a, b) => a.is_none().cmp(&b.is_none()),
        }
    }
}

fn number_or_text(text: &str) -> Value {
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map_or_else(|| text.into(), Value::from)
}

/// The runs in a folder, in the order of their names: the folder itself if it is one, otherwise what lies directly in it. Hidden folders
/// are left out: those of programs have a `config.toml`, too, as Cargo's.
///
/// # Errors
/// [`RunError::Io`] if it cannot be read.
pub fn runs_in(folder: &Path) -> Result<Vec<RunDir>, RunError> {
    if let Ok(run) = RunDir::open(folder) {
        return Ok(vec![run]);
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(RunError::on("read", folder))? {
        let entry = entry.map_err(RunError::on("read", folder))?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths.iter().filter_map(|path| RunDir::open(path).ok()).collect())
}

#[cfg(test)]
mod tests {
    use kindling_metrics::Score;

    use super::*;
    use crate::{Metrics, SegmentationSummary};

    fn run(folder: &Path, name: &str, config: &str, right: Option<u64>) -> RunDir {
        let run = RunDir::create(Some(&folder.join(name)), "m", "d").unwrap();
        run.write_config(&config.parse::<toml::Table>().unwrap()).unwrap();
        if let Some(right) = right {
            let test = Some(Score::from_confusion(0.5, vec![vec![right, 10 - right], vec![0, 10]]));
            run.write_metrics(&Metrics { steps: 12, test, ..Metrics::default() }).unwrap();
        }
        run
    }

    #[test]
    fn runs_are_found_and_sorted_by_scores_and_settings_with_unknown_ones_last() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), "a", "[train]\nlr = 0.01\n[model]\nname = 'x'", Some(3));
        run(folder.path(), "b", "[train]\nlr = 0.003", None);
        run(folder.path(), "c", "[train]\nlr = 0.1", Some(9));
        fs::create_dir(folder.path().join("other")).unwrap();
        run(folder.path(), ".cargo", "[build]\njobs = 2", None);
        let mut found: Vec<Listed> =
            runs_in(folder.path()).unwrap().iter().map(|run| Listed::of(run).unwrap()).collect();
        let names = |found: &[Listed]| -> String {
            found.iter().map(|run| run.text("run").chars().last().unwrap_or('?')).collect()
        };
        assert_eq!(names(&found), "abc");
        found.sort_by(|a, b| a.compare(b, "train.lr"));
        assert_eq!(names(&found), "bac");
        found.sort_by(|a, b| a.compare(b, "accuracy"));
        assert_eq!(names(&found), "acb");
        assert_eq!((found[0].text("accuracy"), found[0].text("model")), ("0.65".into(), "x".into()));
        assert_eq!((found[2].text("accuracy"), found[2].value("ended")), (String::new(), Some(false.into())));
        assert_eq!(runs_in(&folder.path().join("a")).unwrap().len(), 1, "a run itself");
        assert!(runs_in(&folder.path().join("missing")).is_err());
    }

    #[test]
    fn runs_that_segment_stand_in_the_list_with_their_dice_and_others_have_no_such_column() {
        let folder = tempfile::tempdir().unwrap();
        let listed = |name: &str, dice: Option<f64>| {
            let run = run(folder.path(), name, "seed = 1", None);
            let segmentation =
                dice.map(|dice| SegmentationSummary { test_dice: Some(dice), ..SegmentationSummary::default() });
            run.write_metrics(&Metrics { segmentation, ..Metrics::default() }).unwrap();
            Listed::of(&run).unwrap()
        };
        let [other, without, with] =
            [("a", None), ("b", Some(f64::NAN)), ("c", Some(0.75))].map(|(name, dice)| listed(name, dice));
        assert_eq!(columns_of(&[other.clone(), without.clone()]), COLUMNS, "a Dice that is not defined is none");
        let columns = columns_of(&[other.clone(), without.clone(), with.clone()]);
        assert_eq!((columns.len(), columns[7..10].join(" ")), (13, "macro_auroc dice loss".into()));
        assert_eq!([&other, &without, &with].map(|run| run.text("dice")), ["", "", "0.75"]);
        assert_eq!(with.compare(&other, "dice"), Ordering::Less, "runs without it come last");
    }
}
