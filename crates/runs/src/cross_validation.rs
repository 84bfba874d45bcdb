//! The folds of a cross-validation taken together: predictions of every sample by the one model that was not trained on it, and the
//! scores of the folds beside each other.

use std::collections::BTreeMap;
use std::path::Path;

use kindling_metrics::{Figure, Resampling, Scores};
use serde::{Deserialize, Serialize};

use crate::{PredictionTable, RunDir, RunError, Spread};

/// The split that a fold is tested on, and what all of them together are called.
const TEST: &str = "test";
/// The column of the pooled predictions that names the fold.
const FOLD: &str = "fold";

/// The results of a cross-validation. Stored as `cross-validation.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossValidation {
    /// The scores of each fold's test samples, in order.
    pub folds: Vec<FoldScores>,
    /// Mean and spread of each score over the folds.
    pub spread: Vec<NamedSpread>,
    /// The same of each class.
    pub classes: Vec<ClassSpread>,
    /// The scores of all test samples together. They have no cut-offs and no temperature: each fold chooses its own.
    pub pooled: Scores,
}

/// What one fold reaches on its test samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoldScores {
    /// From 1.
    pub fold: usize,
    /// The folder of its run.
    pub run: String,
    /// Test samples, and their patients.
    pub images: usize,
    /// See `images`.
    pub patients: usize,
    /// Scores of the whole split, with intervals.
    pub figures: Vec<Figure>,
    /// Scores of each class against the others, with the cut-off that was chosen on the fold's validation samples.
    pub classes: Vec<FoldClass>,
}

/// One class in one fold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoldClass {
    /// Its name.
    pub class: String,
    /// From this probability on an image is said to be of the class, 0 to 1.
    pub cut_off: Option<f64>,
    /// `auroc`, `sensitivity` and so on.
    pub figures: Vec<Figure>,
}

/// A score over the folds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedSpread {
    /// `accuracy`, `macro_auroc` and so on.
    pub name: String,
    /// Over the folds in which it is defined.
    pub spread: Spread,
}

/// The scores of a class over the folds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassSpread {
    /// Its name.
    pub class: String,
    /// Its scores.
    pub scores: Vec<NamedSpread>,
}

impl CrossValidation {
    /// Takes finished folds together, in order: the results, and the predictions of all test samples with a column `fold`.
    ///
    /// # Errors
    /// [`RunError::Malformed`] if a fold has other classes than the first, a sample or a patient that another fold has tested already,
    /// or nothing that can be scored; those of reading.
    pub fn of(folds: &[RunDir], resampling: Resampling) -> Result<(Self, PredictionTable), RunError> {
        let mut pooled = PredictionTable::default();
        let mut tested_by = Tested::default();
        let mut of_folds = Vec::with_capacity(folds.len());
        for (fold, run) in (1..).zip(folds) {
            let path = run.predictions();
            let malformed = |reason: String| RunError::Malformed { path: path.clone(), reason };
            let table = PredictionTable::of_run(run)?;
            if fold == 1 {
                pooled = PredictionTable { images: Vec::new(), others: vec![FOLD.to_owned()], ..table.clone() };
            } else if (&table.classes, table.several) != (&pooled.classes, pooled.several) {
                return Err(malformed("it has other classes than the first fold".to_owned()));
            }
            for mut image in table.images.into_iter().filter(|image| image.split == TEST) {
                tested_by.note(fold, &image.sample, image.group.as_deref()).map_err(malformed)?;
                image.others = vec![fold.to_string()];
                pooled.images.push(image);
            }
            let scores = run.read_scores()?.filter(|scores| scores.split == TEST);
            let scores = scores.ok_or_else(|| malformed("its test samples could not be scored".to_owned()))?;
            of_folds.push(FoldScores::of(fold, run.path(), &scores));
        }
        let path = || folds.first().map_or_else(Default::default, RunDir::predictions);
        let malformed = |reason: String| RunError::Malformed { path: path(), reason };
        let predictions = pooled.predictions(TEST).map_err(malformed)?;
        let predictions = predictions.ok_or_else(|| malformed("no fold has tested anything".to_owned()))?;
        let scores = Scores::of(TEST, &pooled.classes, &predictions, None, resampling);
        let of_class = |class: &String| {
            let figures = of_folds.iter().flat_map(|fold| &fold.classes).filter(|of| of.class == *class);
            ClassSpread { class: class.clone(), scores: spread(figures.map(|of| of.figures.as_slice())) }
        };
        let cross_validation = Self {
            spread: spread(of_folds.iter().map(|fold| fold.figures.as_slice())),
            classes: pooled.classes.iter().map(of_class).filter(|class| !class.scores.is_empty()).collect(),
            pooled: scores,
            folds: of_folds,
        };
        Ok((cross_validation, pooled))
    }
}

impl FoldScores {
    fn of(fold: usize, run: &Path, scores: &Scores) -> Self {
        let of_class = |of: &kindling_metrics::ClassScores| FoldClass {
            class: of.class.clone(),
            cut_off: of.cut_off,
            figures: of.figures.clone(),
        };
        Self {
            fold,
            run: run.display().to_string(),
            images: scores.images,
            patients: scores.patients,
            figures: scores.figures.clone(),
            classes: scores.classes.iter().map(of_class).collect(),
        }
    }
}

/// Mean and spread of the scores that rows of figures have, in the order of their first mention.
fn spread<'a>(rows: impl Iterator<Item = &'a [Figure]>) -> Vec<NamedSpread> {
    let (mut names, mut values): (Vec<&str>, BTreeMap<&str, Vec<f64>>) = Default::default();
    for figure in rows.flatten() {
        let of = values.entry(&figure.name).or_default();
        if of.is_empty() {
            names.push(&figure.name);
        }
        of.push(figure.value);
    }
    let of_name = |name: &str| Some(NamedSpread { name: name.to_owned(), spread: Spread::of(values.remove(name)?)? });
    names.into_iter().filter_map(of_name).collect()
}

/// Which fold has tested a sample, and a patient.
#[derive(Default)]
struct Tested {
    samples: BTreeMap<String, usize>,
    patients: BTreeMap<String, usize>,
}

impl Tested {
    /// # Errors
    /// A sentence, if another fold has tested it.
    fn note(&mut self, fold: usize, sample: &str, patient: Option<&str>) -> Result<(), String> {
        if let Some(other) = self.samples.insert(sample.to_owned(), fold) {
            return Err(format!(
                "{sample:?} is tested by fold {other} and by fold {fold}; folds are of one seed and of the same data"
            ));
        }
        let Some(patient) = patient else { return Ok(()) };
        match self.patients.insert(patient.to_owned(), fold) {
            Some(other) if other != fold => Err(format!(
                "the patient {patient:?} is tested by fold {other} and by fold {fold}; folds are of one seed and of the same data"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Predicted;

    /// A finished fold that has tested these samples: name, patient, truth, probability of the second class.
    fn fold(folder: &Path, fold: usize, tested: &[(&str, &str, usize, f64)], classes: [&str; 2]) -> RunDir {
        let run = RunDir::create(Some(&folder.join(format!("fold-{fold}"))), "model", "data").unwrap();
        run.write_config(&BTreeMap::from([("model", "none")])).unwrap();
        let classes: Vec<String> = classes.map(str::to_owned).into();
        let image = |split: &str, &(sample, group, truth, p): &(&str, &str, usize, f64)| Predicted {
            sample: sample.to_owned(),
            group: (!group.is_empty()).then(|| group.to_owned()),
            split: split.to_owned(),
            truth: vec![truth],
            probabilities: vec![1.0 - p, p],
            others: Vec::new(),
        };
        let validation = [("v1", "", 0, 0.2), ("v2", "", 1, 0.6)];
        let images = validation.iter().map(|it| image("val", it)).chain(tested.iter().map(|it| image(TEST, it)));
        let table = PredictionTable { classes, images: images.collect(), ..PredictionTable::default() };
        table.write(&run.predictions()).unwrap();
        let [test, validation] = [TEST, "val"].map(|split| table.predictions(split).unwrap().unwrap());
        let resampling = Resampling { resamples: 20, ..Resampling::default() };
        run.write_scores(&Scores::of(TEST, &table.classes, &test, Some(&validation), resampling)).unwrap();
        run
    }

    fn of(folds: &[RunDir]) -> Result<(CrossValidation, PredictionTable), RunError> {
        CrossValidation::of(folds, Resampling { resamples: 50, ..Resampling::default() })
    }

    #[test]
    fn every_test_sample_is_scored_once_and_folds_stand_beside_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let folds = [
            fold(folder.path(), 1, &[("a", "p1", 0, 0.1), ("b", "p1", 1, 0.9)], ["no", "yes"]),
            fold(folder.path(), 2, &[("c", "p2", 0, 0.7), ("d", "p3", 1, 0.8)], ["no", "yes"]),
            fold(folder.path(), 3, &[("e", "", 0, 0.3), ("f", "", 1, 0.4), ("g", "", 1, 0.9)], ["no", "yes"]),
        ];
        let (found, table) = of(&folds).unwrap();
        let row = |image: &Predicted| format!("{}{}", image.sample, image.others.join(""));
        assert_eq!(table.images.iter().map(row).collect::<Vec<_>>(), ["a1", "b1", "c2", "d2", "e3", "f3", "g3"]);
        assert_eq!((found.pooled.images, found.pooled.patients), (7, 6));
        // Right: a b, d, e g.
        assert_eq!(found.pooled.figure("accuracy").map(|figure| figure.value), Some(5.0 / 7.0));
        let of_folds: Vec<f64> = found.folds.iter().map(|fold| fold.figures[0].value).collect();
        assert_eq!(of_folds, [1.0, 0.5, 2.0 / 3.0]);
        let accuracy = &found.spread[0];
        assert_eq!((accuracy.name.as_str(), accuracy.spread.runs), ("accuracy", 3));
        assert!((accuracy.spread.mean - (1.0 + 0.5 + 2.0 / 3.0) / 3.0).abs() < 1e-12);
        assert!(found.pooled.classes.iter().all(|class| class.cut_off.is_none()) && found.pooled.temperature.is_none());
        let names = |class: &ClassSpread| class.scores.iter().any(|score| score.name == "sensitivity");
        assert!(found.classes.len() == 2 && found.classes.iter().all(names), "at the cut-off of each fold");
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<CrossValidation>(&text).unwrap().folds.len(), 3);
    }

    #[test]
    fn folds_that_do_not_belong_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let tested = [("a", "p1", 0, 0.1), ("b", "", 1, 0.9)];
        let first = fold(folder.path(), 1, &tested, ["no", "yes"]);
        let reason = |second: RunDir| of(&[first.clone(), second]).unwrap_err().to_string();
        let again = fold(folder.path(), 2, &[("b", "", 1, 0.9)], ["no", "yes"]);
        assert!(reason(again).contains("\"b\" is tested by fold 1 and by fold 2"));
        let parted = fold(folder.path(), 3, &[("c", "p1", 1, 0.9)], ["no", "yes"]);
        assert!(reason(parted).contains("patient \"p1\" is tested by fold 1 and by fold 2"));
        let others = fold(folder.path(), 4, &[("c", "", 1, 0.9)], ["no", "maybe"]);
        assert!(reason(others).contains("other classes"));
    }
}
