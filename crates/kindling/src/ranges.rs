//! Ranges of flags that no configuration checks.

use clap::builder::RangedU64ValueParser;
use kindling_trainer::MOST_SAMPLES;

use crate::config::MOST_WORKERS;

/// Samples that are computed, or normalised, together.
pub(crate) fn samples() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MOST_SAMPLES as u64)
}

/// Threads that load images; 0 is one.
pub(crate) fn workers() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..=MOST_WORKERS as u64)
}

/// Images or steps, one after another.
pub(crate) fn many() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=1_000_000_000)
}
