//! `kindling gan export`: a run's generator for other programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use burn::tensor::Device;
use clap::ValueEnum;
use kindling_layers::{parameters, tensors};
use kindling_runs::RunDir;
use serde_json::json;

use super::config::GanRunConfig;
use crate::Done;
use crate::output::note;
use crate::targets::refuse_files_of_runs;

/// Write a run's generator: safetensors, or ONNX from latent vectors to images in [-1, 1]
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder
    run: PathBuf,
    /// What is written
    #[arg(long, value_enum, default_value_t = Format::Safetensors)]
    format: Format,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tensors by name
    Safetensors,
    /// The network with its weights
    Onnx,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        refuse_files_of_runs(&self.output)?;
        // Nothing is computed here: the CPU device holds the tensors.
        let device = Device::flex();
        let run = RunDir::open(&self.run)?;
        let config = GanRunConfig::of(&run)?;
        let generator = config.trained(&run, &device)?;
        let name = config.gan.name.as_str();
        let weights = parameters::read(&generator).map_err(anyhow::Error::msg)?;
        let bytes = match self.format {
            Format::Safetensors => {
                let note = json!({ "version": env!("CARGO_PKG_VERSION"), "generator": name });
                tensors::to_bytes(&weights, Some(&note.to_string())).map_err(anyhow::Error::msg)?
            }
            Format::Onnx => {
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
        let megabytes = bytes.len() as f64 / 1e6;
        std::fs::write(&self.output, bytes).with_context(|| format!("writing {}", self.output.display()))?;
        note!("{} ({megabytes:.1} MB)", self.output.display());
        Ok(Done::Complete)
    }
}
