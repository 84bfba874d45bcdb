//! Scores of predicted numbers.
//!
//! | file | holds |
//! |---|---|
//! | `values.rs` | [`Values`]: numbers that were predicted, with the truth and whose they are |
//! | `errors.rs` | how far they are off, and how the two agree (Bland and Altman 1986) |
//! | `scores.rs` | [`RegressionScore`], and [`RegressionScores`] with intervals by patient |
//! | `paired.rs` | two models on the same images |

mod errors;
mod paired;
mod scores;
mod values;

pub use paired::compare_values;
pub use scores::{RegressionScore, RegressionScores, value_subgroups};
pub use values::{ValueError, Values};
