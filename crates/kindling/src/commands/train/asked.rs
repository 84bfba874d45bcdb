//! What a run is asked to be, by whatever command starts it.

use std::path::PathBuf;

use super::settings::Settings;
use crate::dataset::HowToOpen;

/// What a run is asked to be.
#[derive(clap::Args)]
pub(crate) struct Asked {
    #[command(flatten)]
    pub(super) settings: Settings,
    #[command(flatten)]
    pub(super) opening: HowToOpen,
    /// Start from pretrained weights; scripts/fetch-weights.sh brings them, `kindling models --pretrained` lists them
    #[arg(long, help_heading = "What", conflicts_with = "weights")]
    pub(super) pretrained: bool,
    /// Start from a weights file (safetensors or PyTorch, with torchvision's, timm's or Kindling's keys), or from the best
    /// weights of a run
    #[arg(long, value_name = "FILE|RUN", help_heading = "What")]
    pub(super) weights: Option<PathBuf>,
    /// Follow the plan that `kindling plan --out` wrote; flags beside it win
    #[arg(long, value_name = "FILE", help_heading = "Memory")]
    pub(super) plan: Option<PathBuf>,
    /// Take the settings of a config.toml; flags beside it win
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub(super) config: Option<PathBuf>,
}

impl Asked {
    /// Whether a learning rate is asked for.
    pub(crate) fn says_rate(&self) -> bool {
        self.settings.lr.is_some()
    }
}
