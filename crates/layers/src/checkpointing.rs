//! Activation checkpointing: how much of a forward pass is kept for its backward pass.

use kindling_given::{Named, UnknownName, all};
use serde::{Deserialize, Serialize};

/// Activation checkpointing (Chen et al. 2016): which activations are kept for backward, and which are computed again. Each
/// level keeps less at once and takes longer; none changes a result.
///
/// It also says where a network is cut into the segments of [`Classifier::segments`](crate::Classifier::segments).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
pub enum Checkpointing {
    /// Every activation is kept; the network stays in one piece.
    #[default]
    None,
    /// What the stem and each stage hand on is kept, and one stage at a time is computed again: few maps are kept.
    Stages,
    /// What the stem and each block hand on is kept, and one block at a time is computed again: more maps are kept, but
    /// less is alive at once.
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
