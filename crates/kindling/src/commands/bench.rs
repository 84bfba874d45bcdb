//! `kindling bench`: how fast, and with how much memory.

mod benched;
mod compare;
mod data;
mod gpu;
mod isolate;
mod list;
mod measure;
mod planned;
mod replay;
mod row;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kindling_layers::Precision;
use kindling_memory::MemorySize;
use kindling_report::bench_page;
use kindling_runs::bench::{Configuration, Protocol, Row, Rows, What, csv, markdown, table};
use kindling_runs::write_atomically;

use crate::Done;
use crate::budget::MemoryBudget;
use crate::choice::Choice;
use crate::commands::Format;
use crate::config::{DEFAULT_MODEL, IMAGE_SIZE, usual};
use crate::device::DeviceChoice;
use crate::output::{self, note, out};
use crate::ranges;
use crate::threads;

/// Measure speed and memory of models
///
/// Every combination of the lists is a row: images/s as median and quartiles over windows after warm-up, step time, peak
/// memory, the micro-batch and what it took to fit. Images are random and already in host memory, so no loader is timed.
/// `train` times whole steps of a run's own engine, `infer` class probabilities of a batch, `forward` and `backward` the
/// passes of training alone. A row that fails is a row with its reason. The last line of standard output with
/// --format json is one JSON object with all rows.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    measure: Measure,
}

#[derive(clap::Subcommand)]
enum Command {
    Compare(compare::Args),
    Data(Box<data::Args>),
    #[command(hide = true)]
    Row(row::Args),
}

#[derive(clap::Args)]
struct Measure {
    /// train, infer, forward, backward [default: train]
    #[arg(value_name = "WHAT")]
    what: Vec<What>,
    /// Models of the zoo
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = DEFAULT_MODEL)]
    models: Vec<String>,
    /// Sides of the square images, at most 8192
    #[arg(long, value_name = "PIXELS", value_delimiter = ',', default_values_t = [IMAGE_SIZE])]
    image_size: Vec<usize>,
    /// Samples of a step, 1 to 1048576: the global batch, the same on every machine
    #[arg(long, value_name = "N", value_parser = ranges::samples(), value_delimiter = ',', default_value = "4")]
    batch_size: Vec<usize>,
    /// Formats of feature maps: f32, bf16, f16
    #[arg(long, value_name = "FORMATS", value_delimiter = ',', default_value = "f32")]
    precision: Vec<Precision>,
    /// What training computes again rather than keeps: none, stages, blocks, or auto
    #[arg(
        long,
        alias = "recompute",
        value_name = "WHAT",
        value_delimiter = ',',
        default_value = "none",
        value_parser = ["none", "stages", "blocks", "auto"]
    )]
    activation_checkpointing: Vec<String>,
    /// Samples computed at once, 1 to 1048576; auto finds what fits
    #[arg(long, value_name = "N", value_parser = ranges::samples_or_auto, default_value = "auto")]
    micro_batch: Choice<usize>,
    /// Ghost batch size: the most samples whose statistics batch norm takes together, 1 to 1048576
    #[arg(long, alias = "norm-group", value_name = "N", value_parser = ranges::samples(), default_value_t = usual().ghost_batch_size)]
    ghost_batch_size: usize,
    /// adamw or sgd
    #[arg(long, value_name = "NAME", default_value = "adamw", value_parser = ["adamw", "sgd"])]
    optimizer: String,
    /// Channels of the images, 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 3)]
    channels: usize,
    /// Classes of the head, 2 to 100000
    #[arg(long, value_name = "N", default_value_t = 10)]
    classes: usize,
    /// Seed of weights and images, 0 to 9223372036854775807
    #[arg(long, value_name = "N", value_parser = ranges::seed(), default_value_t = 0)]
    seed: u64,
    /// The most memory to use: 8GiB, 500MiB, or a share of the device's: 80%
    #[arg(long, value_name = "SIZE|SHARE")]
    memory_budget: Option<MemoryBudget>,
    /// auto, cpu, cuda[:N] or wgpu
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
    /// Threads that compute on the CPU, 1 to 1024 [default: all]
    #[arg(long, value_name = "N", value_parser = ranges::threads())]
    threads: Option<usize>,
    /// Windows of time that are measured, 1 to 1000000000
    #[arg(long, value_name = "N", value_parser = ranges::many(), default_value_t = 7)]
    windows: usize,
    /// Seconds after which a window ends, at the end of a step, 0.001 to 86400
    #[arg(long, value_name = "SECONDS", value_parser = ranges::seconds, default_value_t = 2.0)]
    window_seconds: f64,
    /// Steps before the first window, at least 1
    #[arg(long, value_name = "N", value_parser = ranges::many(), default_value_t = 3)]
    warmup: usize,
    /// Every row in a process of its own [default: if there are several]
    #[arg(long, overrides_with = "no_isolate")]
    isolate: bool,
    /// All rows in this process
    #[arg(long)]
    no_isolate: bool,
    /// Seconds after which a row in a process of its own is given up, 1 to 86400
    #[arg(long, value_name = "SECONDS", value_parser = ranges::timeout())]
    row_timeout: Option<u64>,
    /// Measure again what is in a file of rows, or as a run trained that left this folder
    #[arg(long, value_name = "FILE|RUN")]
    replay: Option<PathBuf>,
    /// How rows are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write all rows as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write all rows as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write all rows as a Markdown table
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write a page with bars, and speed against memory
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        match self.command {
            Some(Command::Compare(args)) => args.run(),
            Some(Command::Data(args)) => args.run(),
            Some(Command::Row(args)) => args.run(),
            None => self.measure.run(),
        }
    }
}

impl Measure {
    fn run(&self) -> Result<Done> {
        let asked = match &self.replay {
            Some(path) => replay::rows(path, self.protocol())?,
            None => {
                let protocol = self.protocol();
                list::configurations(self)?.into_iter().map(|configuration| (configuration, protocol)).collect()
            }
        };
        let isolate = self.isolates(&asked)?;
        let mut rows = Vec::new();
        for (index, (configuration, protocol)) in asked.iter().enumerate() {
            note!("[{}/{}] {} on {}", index + 1, asked.len(), configuration.label(), configuration.device);
            let row = if isolate {
                isolate::run(configuration, *protocol, self.row_timeout.map(Duration::from_secs))?
            } else {
                row::measure(configuration, *protocol)
            };
            note!("      {}", in_short(&row));
            rows.push(row);
        }
        self.report(Rows::new(rows))
    }

    fn protocol(&self) -> Protocol {
        Protocol { warmup: self.warmup, windows: self.windows, window_seconds: self.window_seconds }
    }

    /// Whether every row gets a process: several rows do, and rows of other threads than this process has.
    fn isolates(&self, asked: &[(Configuration, Protocol)]) -> Result<bool> {
        let here = threads::usual();
        let other = asked.iter().find(|(row, _)| row.threads != here);
        if let (true, Some((row, _))) = (self.no_isolate, other) {
            bail!("this process computes with {here} threads; rows of {} need --isolate", row.threads);
        }
        Ok(self.isolate || (!self.no_isolate && (asked.len() > 1 || other.is_some() || self.row_timeout.is_some())))
    }

    fn report(&self, rows: Rows) -> Result<Done> {
        if let Some(path) = &self.out {
            rows.write(path)?;
        }
        let title = format!("{} rows of kindling bench", rows.rows.len());
        let texts: [(&Option<PathBuf>, &dyn Fn() -> String); 3] = [
            (&self.csv, &|| csv(&rows.rows)),
            (&self.markdown, &|| markdown(&rows.rows)),
            (&self.html, &|| bench_page(&title, &rows.rows, None)),
        ];
        for (path, text) in texts {
            if let Some(path) = path {
                write_atomically(path, text().as_bytes()).with_context(|| format!("writing {}", path.display()))?;
            }
        }
        match self.format {
            Format::Table => output::text_of_product(&table(&rows.rows)),
            Format::Json => out!("{}", serde_json::to_string(&rows)?),
        }
        let failed = rows.rows.iter().filter(|row| row.failure().is_some()).count();
        Ok(if failed > 0 { Done::SomeFailed } else { Done::Complete })
    }
}

/// What came out, for the line of progress.
fn in_short(row: &Row) -> String {
    match (row.measured(), row.failure()) {
        (Some(measured), _) => {
            let speed = measured.images_per_second;
            let peak = measured.memory.peak_in_use_bytes.map_or("unknown".to_string(), |it| MemorySize(it).to_string());
            format!("{:.2} images/s ({:.2} to {:.2}), peak memory {peak}", speed.median, speed.q1, speed.q3)
        }
        (None, Some(failure)) => format!("failed, {}: {}", failure.kind, failure.reason),
        (None, None) => String::new(),
    }
}
