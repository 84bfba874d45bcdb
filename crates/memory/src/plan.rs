//! How a step is computed: the words in which the planner, the policy and the command speak about it.

use kindling_layers::Checkpointing;
use serde::{Deserialize, Serialize};

/// How a step is computed. It changes memory and time, never the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Samples computed at once.
    pub micro_batch: usize,
    /// What backward computes again. Its key in checkpoints stays `recompute`: runs of earlier versions go on.
    #[serde(rename = "recompute")]
    pub checkpointing: Checkpointing,
}

impl Plan {
    /// Whether this plan surely needs no less memory than `other`.
    pub fn needs_at_least(&self, other: &Self) -> bool {
        self.micro_batch >= other.micro_batch && self.checkpointing <= other.checkpointing
    }
}
