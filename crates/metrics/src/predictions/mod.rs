//! Scores of predictions, with intervals: what a reader of a medical paper asks of a classifier.
//!
//! | file | holds |
//! |---|---|
//! | `answers.rs` | [`Predictions`]: truths, probabilities and patients, checked once |
//! | `patients.rs` | which images are of the same patient |
//! | `ranking.rs` | areas under the ROC and the precision-recall curve, and the curves |
//! | `agreement.rs` | accuracy, balanced accuracy, F1, quadratic kappa, Matthews correlation |
//! | `calibration.rs` | Brier score, negative log-likelihood, expected calibration error, calibration slope and intercept |
//! | `temperature.rs` | temperature scaling |
//! | `cut_off.rs` | a cut-off chosen on one split, and what it does on another |
//! | `bootstrap.rs` | resampling of patients, and percentile intervals |
//! | `delong.rs` | DeLong's variance of an area under the ROC curve, for one image a patient |
//! | `paired.rs` | two models on the same images: paired bootstrap, McNemar's test |
//! | `columns.rs` | a score with its interval, from the columns of resamples |
//! | `whole.rs` | the scores of a whole split |
//! | `subgroups.rs` | [`Subgroups`]: the same by the values of a column |
//! | `scores.rs` | [`Scores`]: all of it for a split |

mod agreement;
mod answers;
mod bootstrap;
mod calibration;
pub(crate) mod columns;
mod cut_off;
mod delong;
mod paired;
pub(crate) mod patients;
mod ranking;
mod scores;
mod subgroups;
mod temperature;
mod whole;

pub use answers::{PredictionError, Predictions};
pub use bootstrap::{MOST_RESAMPLES, Resampling};
pub use columns::{Curve, CurvePoint, Figure};
pub use delong::DeLong;
pub use paired::{McNemar, Paired, compare};
pub use scores::{Bin, ClassScores, FlowRow, Scores, Temperature};
pub use subgroups::{Subgroup, Subgroups};
pub use whole::overall;
