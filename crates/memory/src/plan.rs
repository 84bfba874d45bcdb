//! The plan of a step, in the form that planner, policy and command share.

use kindling_layers::Checkpointing;
use serde::{Deserialize, Serialize};

/// How a step is computed. It changes memory and time, never the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Samples computed at once.
    pub micro_batch: usize,
    /// What the backward pass recomputes. The key in checkpoints stays `recompute`, so that runs of earlier versions can be resumed.
    #[serde(rename = "recompute")]
    pub checkpointing: Checkpointing,
}

impl Plan {
    /// Whether this plan certainly needs at least as much memory as `other`.
    pub fn needs_at_least(&self, other: &Self) -> bool {
        self.micro_batch >= other.micro_batch && self.checkpointing <= other.checkpointing
    }
}
