//! Activation checkpointing: how much of a forward pass is kept for its backward pass.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Activation checkpointing (Chen et al. 2016): which activations are kept for backward, and which are computed again. Each
/// level keeps less at once and takes longer; none changes a result.
///
/// It also says where a network is cut into the segments of [`Classifier::segments`](crate::Classifier::segments).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
    pub const ALL: [Self; 3] = [Self::None, Self::Stages, Self::Blocks];
}

impl fmt::Display for Checkpointing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Stages => "stages",
            Self::Blocks => "blocks",
        })
    }
}

impl FromStr for Checkpointing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|level| level.to_string() == text);
        found.ok_or_else(|| format!("'{text}' is no activation checkpointing: say none, stages or blocks"))
    }
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
