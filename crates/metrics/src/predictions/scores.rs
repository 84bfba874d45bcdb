//! All scores of a split with their intervals, as they are stored, printed and drawn.

use serde::{Deserialize, Serialize};

use super::answers::Predictions;
use super::bootstrap::Resampling;
use super::calibration::{BINS, BinSums, Costs, Recalibration};
use super::columns::{Columns, Curve, Figure};
use super::ranking::{Ranked, STEPS};
use super::subgroups::Subgroups;
use super::temperature;
use super::whole::Whole;

/// Up to so many classes each has its curves.
const MOST_CURVES: usize = 10;

/// One class against all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassScores {
    /// Name of the class, as it stands in the data.
    pub class: String,
    /// Images of the class.
    pub images: usize,
    /// The lowest probability, 0 to 1, at which an image is assigned to the class; chosen on validation, `None` without it.
    pub cut_off: Option<f64>,
    /// `auroc`, `auprc`, `calibration_slope`, `calibration_intercept`, and where there is a cut-off `sensitivity`, `specificity`,
    /// `ppv` and `npv`.
    pub figures: Vec<Figure>,
    /// The ROC curve; empty beyond ten classes, or without images of either kind.
    pub roc: Curve,
    /// The precision-recall curve; empty in the same cases.
    pub precision_recall: Curve,
}

/// A bin of the reliability diagram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// How many answers (labels, where images may have several) are that sure.
    pub count: usize,
    /// Their mean confidence.
    pub confidence: f64,
    /// The share that is right.
    pub right: Figure,
}

/// Temperature scaling, fitted on validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Temperature {
    /// What logits are divided by, 0.01 to 100; above 1 the model was too sure.
    pub temperature: f64,
    /// `brier`, `nll` and `ece` after it.
    pub figures: Vec<Figure>,
}

/// Images and patients of a split, and what was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRow {
    /// `train`, `val` or `test`.
    pub split: String,
    /// Images of the split, those left out included.
    pub images: usize,
    /// Their patients; an image without one counts as one.
    pub patients: usize,
    /// Images that could not be read.
    pub left_out: usize,
}

/// All scores of a split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// `val`, `test` or what the caller calls it.
    pub split: String,
    /// Images scored.
    pub images: usize,
    /// Their patients: what is drawn for the intervals.
    pub patients: usize,
    /// Resamples that the intervals come from; 0 where there are none.
    pub resamples: usize,
    /// Seed that the resamples were drawn with.
    pub seed: u64,
    /// `accuracy`, `balanced_accuracy`, `macro_f1`, `quadratic_kappa`, `mcc`, `macro_auroc`, `macro_auprc`, `brier`, `nll` and `ece`.
    /// Where images may have several labels there is no `balanced_accuracy`, `quadratic_kappa` and `mcc`; beyond 50 classes there is
    /// no `macro_auroc` and `macro_auprc`. Of grades `mae` and `rmse`, in grades, come last.
    pub figures: Vec<Figure>,
    /// Each class against the others; empty beyond 50 classes.
    pub classes: Vec<ClassScores>,
    /// The reliability diagram; bins without answers are left out.
    pub reliability: Vec<Bin>,
    /// Temperature scaling; none without validation.
    pub temperature: Option<Temperature>,
    /// Scores by a column, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgroups: Option<Subgroups>,
    /// Images and patients of every split that is known.
    #[serde(default)]
    pub flow: Vec<FlowRow>,
}

impl Scores {
    /// Scores predictions over the classes `names`. Cut-offs and the temperature are chosen on `validation`; without it there are
    /// none. `split` names the samples (`val`, `test`).
    pub fn of(
        split: &str,
        names: &[String],
        predictions: &Predictions,
        validation: Option<&Predictions>,
        resampling: Resampling,
    ) -> Self {
        let prepared = Prepared::new(predictions, validation);
        let once = vec![1; predictions.images()];
        let point = prepared.row(&once);
        let rows = resampling.rows(predictions.whose(), |times| prepared.row(times));
        let mut columns = Columns::new(&point, &rows);
        let figures = columns.figures(&prepared.whole.names());
        let of_bins: Vec<Figure> = (0..BINS).map(|_| columns.figure("right")).collect();
        let temperature = prepared.scaled.as_ref().map(|(temperature, _)| Temperature {
            temperature: *temperature,
            figures: columns.figures(&["brier", "nll", "ece"]),
        });
        let mut classes = Vec::with_capacity(prepared.classes.len());
        for (class, known) in prepared.classes.iter().enumerate() {
            let mut figures = columns.figures(&["auroc", "auprc", "calibration_slope", "calibration_intercept"]);
            if known.cut_off.is_some() {
                figures.extend(columns.figures(&["sensitivity", "specificity", "ppv", "npv"]));
            }
            let (roc, precision_recall) = match prepared.has_curves() {
                true => (columns.curve(), columns.curve()),
                false => Default::default(),
            };
            classes.push(ClassScores {
                class: names.get(class).cloned().unwrap_or_else(|| format!("class {class}")),
                images: predictions.images_of(class),
                cut_off: known.cut_off,
                figures,
                roc,
                precision_recall,
            });
        }
        let sums = prepared.whole.costs.add_up(&once).bins;
        let bin = |(sums, right): (&BinSums, Figure)| Bin {
            count: sums.count as usize,
            confidence: sums.confidence / sums.count,
            right,
        };
        Self {
            split: split.to_owned(),
            images: predictions.images(),
            patients: predictions.patients(),
            resamples: rows.len(),
            seed: resampling.seed,
            figures,
            classes,
            reliability: sums.iter().zip(of_bins).filter(|(sums, _)| sums.count > 0.0).map(bin).collect(),
            temperature,
            subgroups: None,
            flow: Vec::new(),
        }
    }

    /// One of the scores of the whole split; `None` if it is not among them.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

impl ClassScores {
    /// One of the scores; `None` if it is not among them.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

/// What all scores need, prepared once for all resamples.
struct Prepared<'a> {
    whole: Whole<'a>,
    /// The temperature, and what the probabilities cost after it.
    scaled: Option<(f64, Costs)>,
    classes: Vec<OfClass>,
}

struct OfClass {
    recalibration: Recalibration,
    /// Slope with the intercept beside it, and the intercept at slope 1, of all images: resamples are not far from them.
    start: ((f64, f64), f64),
    cut_off: Option<f64>,
}

impl<'a> Prepared<'a> {
    fn new(predictions: &'a Predictions, validation: Option<&Predictions>) -> Self {
        let validation = validation.filter(|validation| validation.classes() == predictions.classes());
        let whole = Whole::new(predictions);
        let once = vec![1; predictions.images()];
        let of_class = |class: usize| {
            let recalibration = Recalibration::new(predictions, class);
            let or = |value: f64, otherwise: f64| if value.is_finite() { value } else { otherwise };
            let (slope, beside) = recalibration.slope(&once, (0.0, 0.0));
            let intercept = recalibration.intercept(&once, 0.0);
            OfClass {
                recalibration,
                start: ((or(slope, 0.0), or(beside, 0.0)), or(intercept, 0.0)),
                cut_off: validation.and_then(|validation| Ranked::new(validation, class).best_cut_off()),
            }
        };
        let classes = (0..whole.ranked.len()).map(of_class).collect();
        let scaled = validation.map(|validation| {
            let temperature = temperature::fit(validation);
            let probabilities = temperature::scaled(predictions, temperature);
            let width = predictions.classes();
            (temperature, Costs::new(predictions, |image, class| probabilities[image * width + class]))
        });
        Self { whole, scaled, classes }
    }

    fn has_curves(&self) -> bool {
        self.classes.len() <= MOST_CURVES
    }

    /// Everything where image `i` counts `times[i]` times, in the order in which [`Scores::of`] takes it.
    fn row(&self, times: &[u32]) -> Vec<f64> {
        let whole = &self.whole;
        let areas: Vec<(f64, f64)> =
            whole.ranked.iter().map(|ranked| ranked.areas(times)).map(|of| (of.auroc, of.auprc)).collect();
        let calibration = whole.costs.add_up(times);
        let mut row = whole.row_with(times, &areas, &calibration);
        row.extend(calibration.bins.iter().map(|bin| bin.right / bin.count));
        if let Some((_, costs)) = &self.scaled {
            let scaled = costs.add_up(times);
            row.extend([scaled.brier, scaled.nll, scaled.ece]);
        }
        for ((known, ranked), (auroc, auprc)) in self.classes.iter().zip(&whole.ranked).zip(areas) {
            let (slope, _) = known.recalibration.slope(times, known.start.0);
            row.extend([auroc, auprc, slope, known.recalibration.intercept(times, known.start.1)]);
            if let Some(cut_off) = known.cut_off {
                let at = ranked.at(cut_off, times);
                row.extend([at.sensitivity, at.specificity, at.ppv, at.npv]);
            }
            if self.has_curves() {
                match ranked.curves(times) {
                    Some((roc, precision_recall)) => row.extend(roc.into_iter().chain(precision_recall)),
                    None => row.extend(std::iter::repeat_n(f64::NAN, 2 * (STEPS + 1))),
                }
            }
        }
        row
    }
}
