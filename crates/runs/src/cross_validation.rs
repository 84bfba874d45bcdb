//! The folds of a cross-validation taken together: predictions of every sample by the one model that was not trained on it, and the
//! scores of the folds beside each other.

use std::collections::BTreeMap;
use std::path::Path;

use kindling_metrics::{ClassScores, Figure, Resampling, SegmentedClassScores};
use serde::{Deserialize, Serialize};

use crate::{Answers, RunDir, RunError, Spread, TaskScores};

/// The split that a fold is tested on, and the name of all folds' test samples together.
const TEST: &str = "test";

/// The results of a cross-validation. Stored as `cross-validation.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossValidation {
    /// The scores of each fold's test samples, in order.
    pub folds: Vec<FoldScores>,
    /// Mean and spread of each score over the folds.
    pub spread: Vec<NamedSpread>,
    /// Mean and spread of each class's scores over the folds.
    pub classes: Vec<ClassSpread>,
    /// The scores of all test samples together. They have no cut-offs and no temperature: each fold chooses its own.
    pub pooled: TaskScores,
}

/// The scores of one fold on its test samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoldScores {
    /// Number of the fold, from 1.
    pub fold: usize,
    /// Path of the folder of the fold's run.
    pub run: String,
    /// Number of test samples: images, or cases where masks are scored.
    pub images: usize,
    /// Number of patients that these samples are of.
    pub patients: usize,
    /// Scores of the whole split, with intervals.
    pub figures: Vec<Figure>,
    /// Scores of each class: against the others, with the cut-off that was chosen on the fold's validation samples, or of its masks.
    pub classes: Vec<FoldClass>,
}

/// The scores of one class in one fold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoldClass {
    /// Name of the class, as it stands in the data.
    pub class: String,
    /// The lowest probability, 0 to 1, at which an image is assigned to the class.
    pub cut_off: Option<f64>,
    /// `auroc`, `sensitivity` and so on; of masks `dice` and `iou`.
    pub figures: Vec<Figure>,
}

/// Mean and spread of one score over the folds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedSpread {
    /// `accuracy`, `macro_auroc`, `mae`, `mean_dice` and so on.
    pub name: String,
    /// Taken over the folds in which the score is defined.
    pub spread: Spread,
}

/// The scores of a class over the folds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassSpread {
    /// Name of the class, as it stands in the data.
    pub class: String,
    /// Mean and spread of each score of the class, in the order of their first mention.
    pub scores: Vec<NamedSpread>,
}

impl CrossValidation {
    /// Takes finished folds together, in order: the results, and the answers to all test samples, in which a column `fold` says whose
    /// they are, but for masks.
    ///
    /// # Errors
    /// [`RunError::Malformed`] if a fold has another task or other classes than the first, a sample or a patient that another fold has
    /// tested already, or nothing that can be scored; those of reading.
    pub fn of(folds: &[RunDir], resampling: Resampling) -> Result<(Self, Answers), RunError> {
        let mut tested_by = Tested::default();
        let (mut of_folds, mut of_first, mut pooled) = (Vec::with_capacity(folds.len()), None, None::<Answers>);
        for (fold, run) in (1..).zip(folds) {
            let malformed = |reason: String| RunError::Malformed { path: run.predictions(), reason };
            let answers = Answers::of_run(run)?.of_fold(TEST, fold);
            for (sample, patient) in answers.samples() {
                tested_by.note(fold, sample, patient).map_err(malformed)?;
            }
            match &mut pooled {
                Some(pooled) => pooled.extend(answers).map_err(malformed)?,
                none => *none = Some(answers),
            }
            let scores = TaskScores::of_run(run)?.filter(|scores| scores.split() == TEST);
            let scores = scores.ok_or_else(|| malformed("its test samples could not be scored".to_owned()))?;
            of_folds.push(FoldScores::of(fold, run.path(), &scores));
            let first = of_first.get_or_insert_with(|| scores.clone());
            if !first.is_alike(&scores) {
                return Err(malformed("it is scored otherwise than the first fold".to_owned()));
            }
        }
        let path = || folds.first().map_or_else(Default::default, RunDir::predictions);
        let malformed = |reason: String| RunError::Malformed { path: path(), reason };
        let (Some(first), Some(answers)) = (of_first, pooled) else {
            return Err(malformed("there are no folds".to_owned()));
        };
        let pooled = first.alike(&answers, TEST, resampling).map_err(malformed)?;
        let classes = of_folds.first().map(|fold| fold.classes.iter()).into_iter().flatten();
        let of_class = |FoldClass { class, .. }: &FoldClass| {
            let figures = of_folds.iter().flat_map(|fold| &fold.classes).filter(|of| of.class == *class);
            ClassSpread { class: class.clone(), scores: spread(figures.map(|of| of.figures.as_slice())) }
        };
        let cross_validation = Self {
            spread: spread(of_folds.iter().map(|fold| fold.figures.as_slice())),
            classes: classes.map(of_class).filter(|class| !class.scores.is_empty()).collect(),
            pooled,
            folds: of_folds,
        };
        Ok((cross_validation, answers))
    }
}

impl FoldScores {
    fn of(fold: usize, run: &Path, scores: &TaskScores) -> Self {
        let classes = match scores {
            TaskScores::Classes(scores) => {
                let of_class = |of: &ClassScores| FoldClass {
                    class: of.class.clone(),
                    cut_off: of.cut_off,
                    figures: of.figures.clone(),
                };
                scores.classes.iter().map(of_class).collect()
            }
            TaskScores::Masks(scores) => {
                let of_class = |of: &SegmentedClassScores| FoldClass {
                    class: of.name.clone(),
                    cut_off: None,
                    figures: vec![of.dice.clone(), of.iou.clone()],
                };
                scores.classes.iter().map(of_class).collect()
            }
            TaskScores::Values(_) => Vec::new(),
        };
        Self {
            fold,
            run: run.display().to_string(),
            images: scores.samples(),
            patients: scores.patients(),
            figures: scores.figures().into_iter().cloned().collect(),
            classes,
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
    use kindling_metrics::{
        ClassMaskScores, LengthUnit, NamedClass, RegressionScores, Scores, SegmentationScores, SegmentedCase,
        VoxelCounts,
    };

    use super::*;
    use crate::{CaseTable, Predicted, PredictedValue, PredictionTable, ValueTable};

    const FEW: Resampling = Resampling { resamples: 20, seed: 0 };

    fn run(folder: &Path, fold: usize) -> RunDir {
        let run = RunDir::create(Some(&folder.join(format!("fold-{fold}"))), "model", "data").unwrap();
        run.write_config(&BTreeMap::from([("model", "none")])).unwrap();
        run
    }

    fn group(name: &str) -> Option<String> {
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// A finished fold that has tested these samples: name, patient, truth, probability of the second class.
    fn fold(folder: &Path, fold: usize, tested: &[(&str, &str, usize, f64)], classes: [&str; 2]) -> RunDir {
        let run = run(folder, fold);
        let classes: Vec<String> = classes.map(str::to_owned).into();
        let image = |split: &str, &(sample, patient, truth, p): &(&str, &str, usize, f64)| Predicted {
            sample: sample.to_owned(),
            group: group(patient),
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
        run.write_scores(&Scores::of(TEST, &table.classes, &test, Some(&validation), FEW)).unwrap();
        run
    }

    /// A finished fold that has tested these samples: name, patient, truth, prediction.
    fn fold_of_values(folder: &Path, fold: usize, target: &str, tested: &[(&str, &str, f64, f64)]) -> RunDir {
        let run = run(folder, fold);
        let image = |split: &str, &(sample, patient, truth, prediction): &(&str, &str, f64, f64)| PredictedValue {
            sample: sample.to_owned(),
            group: group(patient),
            split: split.to_owned(),
            truth,
            prediction,
            others: Vec::new(),
        };
        let validation = image("val", &("v", "", 1.0, 2.0));
        let images = std::iter::once(validation).chain(tested.iter().map(|it| image(TEST, it))).collect();
        let table = ValueTable { others: Vec::new(), images };
        table.write(&run.predictions()).unwrap();
        run.write_regression_scores(&RegressionScores::of(TEST, target, &table.values(TEST).unwrap().unwrap(), FEW))
            .unwrap();
        run
    }

    /// A finished fold that has tested these cases: name, patient, Dice of either class.
    fn fold_of_masks(folder: &Path, fold: usize, tolerance: f64, tested: &[(&str, &str, [f64; 2])]) -> RunDir {
        let run = run(folder, fold);
        let classes: Vec<NamedClass> = ["heart", "lung"]
            .into_iter()
            .zip(1..)
            .map(|(name, label)| NamedClass { name: name.into(), label })
            .collect();
        let scores = |(class, dice): (u32, f64)| ClassMaskScores {
            class,
            voxels: VoxelCounts { true_positives: 3, ..VoxelCounts::default() },
            dice,
            iou: dice / (2.0 - dice),
            hausdorff_95: 1.0,
            surface_dice: 1.0,
        };
        let case = |split: &str, &(sample, patient, dice): &(&str, &str, [f64; 2])| SegmentedCase {
            sample: sample.to_owned(),
            group: group(patient),
            split: split.to_owned(),
            scores: (1..).zip(dice).map(scores).collect(),
        };
        let validation = case("val", &("v", "", [1.0, 1.0]));
        let cases: Vec<_> = std::iter::once(validation).chain(tested.iter().map(|it| case(TEST, it))).collect();
        let found = SegmentationScores::of(TEST, &classes, (tolerance, LengthUnit::Pixels), &cases, FEW).unwrap();
        run.write_segmentation_scores(&found).unwrap();
        run.write_cases(&CaseTable { classes, cases }).unwrap();
        run
    }

    fn of(folds: &[RunDir]) -> Result<(CrossValidation, Answers), RunError> {
        CrossValidation::of(folds, Resampling { resamples: 50, ..Resampling::default() })
    }

    /// The same, written and read. The last digit of a number may be another then.
    fn read_again(found: &CrossValidation) -> CrossValidation {
        let read: CrossValidation = serde_json::from_str(&serde_json::to_string(found).unwrap()).unwrap();
        assert_eq!((read.folds.len(), read.classes.len()), (found.folds.len(), found.classes.len()));
        assert_eq!(read.pooled.figures().len(), found.pooled.figures().len());
        for (read, figure) in read.pooled.figures().into_iter().zip(found.pooled.figures()) {
            assert!(read.name == figure.name && (read.value - figure.value).abs() < 1e-12, "{read:?} {figure:?}");
        }
        read
    }

    #[test]
    fn every_test_sample_is_scored_once_and_folds_stand_beside_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let folds = [
            fold(folder.path(), 1, &[("a", "p1", 0, 0.1), ("b", "p1", 1, 0.9)], ["no", "yes"]),
            fold(folder.path(), 2, &[("c", "p2", 0, 0.7), ("d", "p3", 1, 0.8)], ["no", "yes"]),
            fold(folder.path(), 3, &[("e", "", 0, 0.3), ("f", "", 1, 0.4), ("g", "", 1, 0.9)], ["no", "yes"]),
        ];
        let (found, answers) = of(&folds).unwrap();
        let Answers::Classes(table) = answers else { panic!("of classes") };
        let row = |image: &Predicted| format!("{}{}", image.sample, image.others.join(""));
        assert_eq!(table.images.iter().map(row).collect::<Vec<_>>(), ["a1", "b1", "c2", "d2", "e3", "f3", "g3"]);
        assert_eq!((found.pooled.samples(), found.pooled.patients()), (7, 6));
        // Right: a b, d, e g.
        assert_eq!(found.pooled.figure("accuracy").map(|figure| figure.value), Some(5.0 / 7.0));
        let of_folds: Vec<f64> = found.folds.iter().map(|fold| fold.figures[0].value).collect();
        assert_eq!(of_folds, [1.0, 0.5, 2.0 / 3.0]);
        let accuracy = &found.spread[0];
        assert_eq!((accuracy.name.as_str(), accuracy.spread.runs), ("accuracy", 3));
        assert!((accuracy.spread.mean - (1.0 + 0.5 + 2.0 / 3.0) / 3.0).abs() < 1e-12);
        let TaskScores::Classes(pooled) = &found.pooled else { panic!("of classes") };
        assert!(pooled.classes.iter().all(|class| class.cut_off.is_none()) && pooled.temperature.is_none());
        let names = |class: &ClassSpread| class.scores.iter().any(|score| score.name == "sensitivity");
        assert!(found.classes.len() == 2 && found.classes.iter().all(names), "at the cut-off of each fold");
        assert!(matches!(read_again(&found).pooled, TaskScores::Classes(_)));
    }

    #[test]
    fn numbers_of_all_folds_are_scored_together() {
        let folder = tempfile::tempdir().unwrap();
        let folds = [
            fold_of_values(folder.path(), 1, "age", &[("a", "p1", 1.0, 2.0), ("b", "p1", 2.0, 2.0)]),
            fold_of_values(folder.path(), 2, "age", &[("c", "", 7.0, 4.0)]),
        ];
        let (found, answers) = of(&folds).unwrap();
        let Answers::Values(table) = answers else { panic!("of numbers") };
        let row = |image: &PredictedValue| format!("{}{}", image.sample, image.others.join(""));
        assert_eq!(table.others, ["fold"]);
        assert_eq!(table.images.iter().map(row).collect::<Vec<_>>(), ["a1", "b1", "c2"]);
        assert_eq!((found.pooled.samples(), found.pooled.patients()), (3, 2));
        assert_eq!(found.pooled.figure("mae").map(|figure| figure.value), Some(4.0 / 3.0));
        let (name, spread) = (&found.spread[0].name, found.spread[0].spread);
        assert_eq!((name.as_str(), spread.mean, spread.least, spread.most), ("mae", 1.75, 0.5, 3.0));
        assert!(found.classes.is_empty());
        assert!(matches!(read_again(&found).pooled, TaskScores::Values(scores) if scores.target == "age"));
    }

    #[test]
    fn masks_of_all_folds_are_scored_together() {
        let folder = tempfile::tempdir().unwrap();
        let folds = [
            fold_of_masks(folder.path(), 1, 2.0, &[("a", "p1", [0.5, 1.0]), ("b", "p1", [0.0, 0.5])]),
            fold_of_masks(folder.path(), 2, 2.0, &[("c", "", [1.0, 0.75])]),
        ];
        let (found, answers) = of(&folds).unwrap();
        let names: Vec<&str> = answers.samples().into_iter().map(|(sample, _)| sample).collect();
        assert_eq!(names, ["a", "b", "c"], "and none that only validated");
        assert_eq!((found.pooled.samples(), found.pooled.patients()), (3, 2));
        // The mean of the classes' means, 0.5 and 0.75.
        assert_eq!(found.pooled.figure("mean_dice").map(|figure| figure.value), Some(0.625));
        assert_eq!((found.spread[0].name.as_str(), found.spread[0].spread.mean), ("mean_dice", (0.5 + 0.875) / 2.0));
        let of_class =
            |class: &ClassSpread| (class.class.clone(), class.scores[0].name.clone(), class.scores[0].spread.mean);
        let expected = [("heart", (0.25 + 1.0) / 2.0), ("lung", 0.75)];
        let expected = expected.map(|(class, mean)| (class.to_owned(), "dice".to_owned(), mean));
        assert_eq!(found.classes.iter().map(of_class).collect::<Vec<_>>(), expected);
        assert!(matches!(read_again(&found).pooled, TaskScores::Masks(scores) if scores.tolerance == 2.0));
    }

    #[test]
    fn folds_that_do_not_belong_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let tested = [("a", "p1", 0, 0.1), ("b", "", 1, 0.9)];
        let first = fold(folder.path(), 1, &tested, ["no", "yes"]);
        let both = |first: &RunDir, second: RunDir| of(&[first.clone(), second]).unwrap_err().to_string();
        let reason = |second: RunDir| both(&first, second);
        let again = fold(folder.path(), 2, &[("b", "", 1, 0.9)], ["no", "yes"]);
        assert!(reason(again).contains("\"b\" is tested by fold 1 and by fold 2"));
        let parted = fold(folder.path(), 3, &[("c", "p1", 1, 0.9)], ["no", "yes"]);
        assert!(reason(parted).contains("patient \"p1\" is tested by fold 1 and by fold 2"));
        let others = fold(folder.path(), 4, &[("c", "", 1, 0.9)], ["no", "maybe"]);
        assert!(reason(others).contains("other classes"));
        let of_age = fold_of_values(folder.path(), 5, "age", &[("c", "", 7.0, 4.0)]);
        assert!(reason(of_age.clone()).contains("another task"));
        let of_width = fold_of_values(folder.path(), 6, "width", &[("d", "", 7.0, 4.0)]);
        assert!(both(&of_age, of_width).contains("scored otherwise"), "another number");
        let narrow = fold_of_masks(folder.path(), 7, 1.0, &[("a", "", [0.5, 1.0])]);
        let wide = fold_of_masks(folder.path(), 8, 2.0, &[("b", "", [0.5, 1.0])]);
        assert!(both(&narrow, wide).contains("scored otherwise"), "another tolerance");
        let reason = of(&[]).unwrap_err().to_string();
        assert!(reason.contains("no folds"), "{reason}");
    }
}
