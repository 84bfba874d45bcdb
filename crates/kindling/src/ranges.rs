//! Ranges of flags, most of which no configuration checks.

use clap::builder::RangedU64ValueParser;
use kindling_data::{FEWEST_FOLDS, MOST_FOLDS, within};
use kindling_given::Span;
use kindling_metrics::MOST_RESAMPLES;
use kindling_trainer::MOST_SAMPLES;

use crate::choice::Choice;

/// The most threads that load images.
pub(crate) const MOST_WORKERS: usize = 1024;
/// As many of anything as one after another makes sense.
const MOST_TIMES: u64 = 1_000_000_000;
/// More processes than anybody starts for one run.
const MOST_PROCESSES: u64 = 65_536;
/// More runs than anybody averages over.
const MOST_SEEDS: u64 = 1000;
/// A day, beyond which nobody waits for a measurement.
const MOST_SECONDS: f64 = 86_400.0;

/// The most that windows may share: beyond this an image takes hundreds of times as long.
const MOST_OVERLAP: f64 = 0.9;

/// How much of a window lies in the next one.
///
/// # Errors
/// A sentence with the range.
pub(crate) fn overlap(text: &str) -> Result<f64, String> {
    let share = text.parse().map_err(|error| format!("{error}"))?;
    within("overlap of windows", share, 0.0..=MOST_OVERLAP)?;
    Ok(share)
}

/// Samples that are computed, or normalised, together.
pub(crate) fn samples() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MOST_SAMPLES as u64)
}

/// The same, or `auto`.
///
/// # Errors
/// A sentence with the range.
pub(crate) fn samples_or_auto(text: &str) -> Result<Choice<usize>, String> {
    let choice: Choice<usize> = text.parse()?;
    choice.fixed().map_or(Ok(()), |samples| within("number of samples", samples, 1..=MOST_SAMPLES))?;
    Ok(choice)
}

/// The same, or `auto`, or 0 for none.
///
/// # Errors
/// A sentence with the range.
pub(crate) fn samples_none_or_auto(text: &str) -> Result<Choice<usize>, String> {
    let choice: Choice<usize> = text.parse()?;
    choice.fixed().map_or(Ok(()), |samples| within("number of samples", samples, 0..=MOST_SAMPLES))?;
    Ok(choice)
}

/// Processes of a run.
pub(crate) fn processes() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MOST_PROCESSES)
}

/// Pixels of a side of a model's input, or of an image on disk.
pub(crate) fn image_side() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=8192)
}

/// Passes over samples, or steps.
pub(crate) fn times() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..=MOST_TIMES)
}

/// Seeds that one after another is trained with.
pub(crate) fn seeds() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..=MOST_SEEDS)
}

/// Folds of a cross-validation.
pub(crate) fn folds() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(FEWEST_FOLDS as u64..=MOST_FOLDS as u64)
}

/// Threads that compute.
pub(crate) fn threads() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MOST_WORKERS as u64)
}

/// How long something is measured.
///
/// # Errors
/// A sentence with the range.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().map_err(|error| format!("{error}"))?;
    within("number of seconds", seconds, 0.001..=MOST_SECONDS)?;
    Ok(seconds)
}

/// Seconds until something is given up.
pub(crate) fn timeout() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..=MOST_SECONDS as u64)
}

/// How long processes wait for each other.
///
/// # Errors
/// A sentence with the range.
pub(crate) fn patience(text: &str) -> Result<Span, String> {
    let span = text.parse()?;
    within("time", span, Span::seconds(1)..=Span::hours(24))?;
    Ok(span)
}

/// A learning rate.
///
/// # Errors
/// A sentence with the range.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().map_err(|error| format!("{error}"))?;
    within("learning rate", rate, 1e-10..=100.0)?;
    Ok(rate)
}

/// Learning rates that are tried one after another.
pub(crate) fn tested_rates() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(10..=1_000_000)
}

/// Pixels of a side of a picture that people look at.
pub(crate) fn picture_side() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(16..=1024)
}

/// What random numbers are drawn with: no more than a configuration can hold.
pub(crate) fn seed() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(0..=i64::MAX as u64)
}

/// New processes, one after another.
pub(crate) fn restarts() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(0..=MOST_TIMES)
}

/// Threads that load images; 0 is one.
pub(crate) fn workers() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..=MOST_WORKERS as u64)
}

/// Images or steps, one after another.
pub(crate) fn many() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MOST_TIMES)
}

/// Resamples of patients; 0 is no intervals.
pub(crate) fn resamples() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..=MOST_RESAMPLES as u64)
}
