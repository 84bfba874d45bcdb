//! All scores, computed in host memory from predictions and labels that the caller provides.
//!
//! | file | scores |
//! |---|---|
//! | `classification.rs` | one class an image: accuracy, balanced accuracy, recall, precision, majority-class baseline |
//! | `multi_label.rs` | any number of labels an image: area under the ROC curve, F1 |
//! | `predictions/` | all scores of predictions with 95 % intervals by patient, curves, calibration, comparisons of two models |
//! | `image_sets/` | two sets of images: Frechet and kernel distance, precision and recall, nearest neighbours |
//! | `regression/` | numbers of images: errors and limits of agreement with intervals, comparisons of two models |
//! | `segmentation/` | masks of classes, case by case: Dice, IoU, Hausdorff distance, surface Dice; and over cases with intervals |
//! | `quartiles.rs` | median and quartiles of measured times and speeds |
//!
//! Scores are written to JSON files, in which numbers that are not finite are written as text: [`number`].

mod classification;
mod image_sets;
mod multi_label;
pub mod number;
mod predictions;
mod quartiles;
mod regression;
mod segmentation;

pub use classification::Score;
pub use image_sets::{
    Features, MetricError, Neighbour, PrecisionRecall, frechet_distance, kernel_distance, nearest, precision_recall,
};
pub use multi_label::MultiLabel;
pub use predictions::{
    Bin, ClassScores, Curve, CurvePoint, DeLong, Figure, FlowRow, MOST_RESAMPLES, McNemar, Paired, PredictionError,
    Predictions, Resampling, Scores, Subgroup, Subgroups, Temperature, compare, overall,
};
pub use quartiles::Quartiles;
pub use regression::{RegressionScore, RegressionScores, ValueError, Values, compare_values, value_subgroups};
pub use segmentation::{
    ClassMaskScores, ClassSummary, LabelMap, LengthUnit, NamedClass, SegmentationError, SegmentationScorer,
    SegmentationScores, SegmentedCase, SegmentedClass, SegmentedClassScores, Spread, SurfaceDice, VoxelCounts,
    compare_cases,
};
