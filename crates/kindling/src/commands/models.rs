//! `kindling models`: the zoo.

use anyhow::{Result, bail};
use burn::tensor::Device;
use clap::Subcommand;
use kindling_layers::trace::Trace;
use kindling_zoo::{ModelEntry, ModelOptions, find, models};
use serde_json::json;

use crate::Done;
use crate::commands::Format;

/// List the models, or show one
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only names that match; `*` stands for anything
    #[arg(default_value = "*")]
    pattern: String,
    /// How the list is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Subcommand)]
enum Command {
    /// Show one model: parameters, multiply-adds, activations
    Show {
        /// Name or alias
        name: String,
        /// Side of the images
        #[arg(long, value_name = "PIXELS", default_value_t = 512)]
        image_size: usize,
        /// Channels of the images
        #[arg(long, value_name = "N", default_value_t = 3)]
        channels: usize,
        /// Classes of the head
        #[arg(long, value_name = "N", default_value_t = 1000)]
        classes: usize,
        /// A row for each layer
        #[arg(long)]
        layers: bool,
        /// How it is printed
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        match self.command {
            None => list(&self.pattern, self.format)?,
            Some(Command::Show { name, image_size, channels, classes, layers, format }) => {
                let entry = find(&name)?;
                entry.check_image_size(image_size)?;
                let trace = trace(entry, channels, classes, image_size)?;
                show(entry, &trace, [channels, image_size, image_size], layers, format);
            }
        }
        Ok(Done::Complete)
    }
}

fn trace(entry: &ModelEntry, in_channels: usize, classes: usize, image_size: usize) -> Result<Trace> {
    let options = ModelOptions { in_channels, classes, drop_rate: None, seed: 0 };
    Ok(entry.build(&options, &Device::flex())?.trace(in_channels, image_size))
}

fn list(pattern: &str, format: Format) -> Result<()> {
    let chosen: Vec<&ModelEntry> = models().iter().filter(|entry| matches(pattern, entry.name)).collect();
    if chosen.is_empty() {
        bail!("no model matches `{pattern}`; `kindling models` lists them all");
    }
    if format == Format::Table {
        println!("{:<20} {:>12} {:>12}  about", "model", "parameters", "GMAC at 512");
    }
    for entry in chosen {
        let trace = trace(entry, 3, 1000, 512)?;
        match format {
            Format::Table => {
                let giga = trace.macs() as f64 / 1e9;
                println!("{:<20} {:>12} {giga:>12.3}  {}", entry.name, trace.params(), entry.about);
            }
            Format::Json => println!(
                "{}",
                json!({ "name": entry.name, "aliases": entry.aliases, "family": entry.family,
                        "params": trace.params(), "macs_512": trace.macs(), "reference": entry.reference })
            ),
        }
    }
    Ok(())
}

fn show(entry: &ModelEntry, trace: &Trace, input: [usize; 3], layers: bool, format: Format) {
    if format == Format::Json {
        let rows: Vec<_> = trace
            .layers
            .iter()
            .map(|layer| {
                let map = layer.output;
                json!({ "name": layer.name, "kind": layer.kind, "output": [map.channels, map.height, map.width],
                        "params": layer.params, "macs": layer.macs, "activations": layer.activations })
            })
            .collect();
        let mut object = json!({
            "name": entry.name, "aliases": entry.aliases, "family": entry.family, "paper": entry.paper,
            "reference": entry.reference, "input": input, "params": trace.params(), "macs": trace.macs(),
            "activations": trace.activations(),
        });
        if layers {
            object["layers"] = rows.into();
        }
        println!("{object}");
        return;
    }
    println!("{} ({}): {}", entry.name, entry.family, entry.about);
    println!("  paper        {}\n  reference    {}", entry.paper, entry.reference);
    println!("  aliases      {}", entry.aliases.join(", "));
    println!("  input        {} x {} x {}", input[0], input[1], input[2]);
    println!(
        "  parameters   {}\n  multiply-adds {}\n  activations  {}",
        trace.params(),
        trace.macs(),
        trace.activations()
    );
    if layers {
        let width = trace.layers.iter().map(|layer| layer.name.len()).max().unwrap_or(0);
        println!("\n{:width$}  {:14} {:>16} {:>10} {:>12}", "layer", "kind", "output", "params", "macs");
        for layer in &trace.layers {
            let map = format!("{}x{}x{}", layer.output.channels, layer.output.height, layer.output.width);
            println!("{:width$}  {:14} {map:>16} {:>10} {:>12}", layer.name, layer.kind, layer.params, layer.macs);
        }
    }
}

/// Whether a name matches a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len()).filter(|at| tail.is_char_boundary(*at)).any(|at| matches(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_anything() {
        for pattern in ["*", "mobilenet*", "*v2", "mob*_v2", "mobilenet_v2"] {
            assert!(matches(pattern, "mobilenet_v2"), "{pattern}");
        }
        for pattern in ["", "mobilenet", "*v3", "resnet*"] {
            assert!(!matches(pattern, "mobilenet_v2"), "{pattern}");
        }
    }
}
