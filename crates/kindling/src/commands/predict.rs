//! `kindling predict`: image files in, class probabilities out.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use burn::tensor::Device;
use clap::ValueEnum;
use kindling_data::{HostBatch, Preprocess, read_image};
use kindling_runs::RunDir;
use kindling_trainer::{most_probable, predict};
use kindling_zoo::Network;
use serde_json::{Map, Value, json};

use crate::Done;
use crate::config::RunConfig;
use crate::device::DeviceChoice;

/// Give class probabilities for image files
///
/// Images are prepared exactly as the run's own were. A file that cannot be read is named on standard error, the
/// others are predicted all the same, and the exit code is 1.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder
    run: PathBuf,
    /// PNG, JPEG or TIFF files
    #[arg(required = true)]
    images: Vec<PathBuf>,
    /// Use the last weights instead of the best
    #[arg(long)]
    last: bool,
    /// csv: a row an image; json: one object a line
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// auto, cpu, cuda[:N] or wgpu
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Csv,
    Json,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        let run = RunDir::open(&self.run)?;
        let config: RunConfig = run.read_config()?;
        let device = self.device.open()?.device;
        let network = config.trained(&run, self.last, &device)?;
        let name = |path: &Path| format!("writing {}", path.display());
        let mut out: Box<dyn Write> = match &self.out {
            Some(path) => Box::new(BufWriter::new(File::create(path).with_context(|| name(path))?)),
            None => Box::new(std::io::stdout().lock()),
        };
        let classes = &config.data.classes;
        if self.format == Format::Csv {
            let header = ["file", "class"].into_iter().map(str::to_string).chain(classes.iter().map(|c| field(c)));
            writeln!(out, "{}", header.collect::<Vec<_>>().join(","))?;
        }
        let mut done = Done::Complete;
        for path in &self.images {
            match probabilities(&network, path, &config.data.preprocess, &device) {
                Ok(probabilities) => write_row(out.as_mut(), self.format, path, classes, &probabilities)?,
                Err(error) => {
                    eprintln!("error: {error:#}");
                    done = Done::SomeFailed;
                }
            }
        }
        out.flush()?;
        Ok(done)
    }
}

fn probabilities(network: &Network, path: &Path, preprocess: &Preprocess, device: &Device) -> Result<Vec<f64>> {
    let images = preprocess.apply(&read_image(path)?);
    let shape = [1, preprocess.channels, preprocess.size, preprocess.size];
    let batch = HostBatch { images, shape, labels: vec![0], samples: vec![0], epoch: 0, index: 0 };
    Ok(predict(network, &batch, 0..1, device)?.pop().unwrap_or_default())
}

fn write_row(
    out: &mut dyn Write,
    format: Format,
    path: &Path,
    classes: &[String],
    probabilities: &[f64],
) -> std::io::Result<()> {
    let file = path.display().to_string();
    let class = &classes[most_probable(probabilities)];
    match format {
        Format::Csv => {
            let numbers: Vec<String> = probabilities.iter().map(|p| format!("{p:.6}")).collect();
            writeln!(out, "{},{},{}", field(&file), field(class), numbers.join(","))
        }
        Format::Json => {
            let by_class: Map<String, Value> =
                classes.iter().cloned().zip(probabilities.iter().map(|p| json!(p))).collect();
            writeln!(out, "{}", json!({ "file": file, "class": class, "probabilities": by_class }))
        }
    }
}

/// A CSV field, quoted where it must be (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn a_field_with_a_comma_or_a_quote_is_one_csv_field() {
        assert_eq!(field("a.png"), "a.png");
        assert_eq!(field("a, b.png"), "\"a, b.png\"");
        assert_eq!(field("5\" disk"), "\"5\"\" disk\"");
    }
}
