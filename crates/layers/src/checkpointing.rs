//! Activation checkpointing: how much of a forward pass is kept for its backward pass.

use kindling_given::{Named, UnknownName, all};
use serde::{Deserialize, Serialize};

/// Activation checkpointing (Chen et al. 2016): which activations are kept for the backward pass, and which are recomputed. Each
/// level needs less memory and more time than the one before; none changes a result.
///
/// The level also determines the segments of [`Classifier::segments`](crate::Classifier::segments).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
pub enum Checkpointing {
    /// Every activation is kept.
    #[default]
    None,
    /// The outputs of the stem and of each stage are kept, and one stage at a time is recomputed.
    Stages,
    /// The outputs of the stem and of each block are kept, and one block at a time is recomputed. This keeps more maps than
    /// [`Checkpointing::Stages`], but its peak is lower, since less is recomputed at a time.
    Blocks,
}

impl Checkpointing {
    /// All levels, from the most memory and the least time to the least memory and the most time.
    pub const ALL: [Self; 3] = all();
}

impl Named for Checkpointing {
    const KIND: &str = "activation checkpointing";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpointing_reads_as_it_is_written() {
        for level in Checkpointing::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert!("some".parse::<Checkpointing>().is_err());
    }
}
