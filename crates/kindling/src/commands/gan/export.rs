//! `kindling gan export`: a run's generator for other programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use burn::tensor::Device;
use kindling_layers::{parameters, tensors};
use kindling_memory::MemorySize;
use kindling_runs::RunDir;
use serde_json::json;

use crate::Done;
use crate::commands::ExportFormat;
use crate::gan_config::GanRunConfig;
use crate::output::note;
use crate::targets::refuse_files_of_runs;

/// Write a run's generator: safetensors, or ONNX from latent vectors to images in [-1, 1]
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder
    run: PathBuf,
    /// What is written [default: what the file's ending says, otherwise safetensors]
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// The file to write
    #[arg(long, alias = "output", value_name = "FILE")]
    out: PathBuf,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        refuse_files_of_runs(&self.out)?;
        let format = ExportFormat::of(self.format, &self.out)?;
        // Nothing is computed here: the CPU device holds the tensors.
        let device = Device::flex();
        let run = RunDir::open(&self.run)?;
        let config = GanRunConfig::of(&run)?;
        let generator = config.trained(&run, &device)?;
        let name = config.gan.name.as_str();
        let weights = parameters::read(&generator).map_err(anyhow::Error::msg)?;
        let bytes = match format {
            ExportFormat::Safetensors => {
                let note = json!({ "version": env!("CARGO_PKG_VERSION"), "generator": name });
                tensors::to_bytes(&weights, Some(&note.to_string())).map_err(anyhow::Error::msg)?
            }
            ExportFormat::Onnx => {
                let metadata = BTreeMap::from([
                    ("generator".to_string(), name.to_string()),
                    ("images".to_string(), "from -1 to 1".to_string()),
                    ("latent".to_string(), "standard normal".to_string()),
                ]);
                let export =
                    kindling_onnx::Export { model_name: name, input_name: "latent", output_name: "images", metadata };
                kindling_onnx::encode(&generator.trace(config.entry()?.latent), &weights, &export)?
            }
        };
        let size = MemorySize(bytes.len() as u64);
        std::fs::write(&self.out, bytes).with_context(|| format!("writing {}", self.out.display()))?;
        note!("{} ({size})", self.out.display());
        Ok(Done::Complete)
    }
}
