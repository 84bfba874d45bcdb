//! `kindling predict`: image files in, class probabilities or masks out.

mod masks;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use burn::tensor::Device;
use clap::ValueEnum;
use kindling_data::{HostBatch, Opening, Part, Pictures, Preprocess, Scale, Task, images_in};
use kindling_layers::Precision;
use kindling_ops::FilterCache;
use kindling_runs::RunDir;
use kindling_trainer::{Inference, Ranks, Views, answer, predict};
use kindling_zoo::weights::{self, Adapt};
use kindling_zoo::{ModelOptions, Network, find};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Done;
use crate::commands::run_flags::Watched;
use crate::commands::{SlidingWindow, TestTimeAugmentation};
use crate::config::{DataConfig, RunConfig};
use crate::dataset::HowToOpen;
use crate::device::{Chosen, DeviceChoice};
use crate::output::{self, note};
use crate::pretrained;
use crate::ranges;
use crate::ranks::{self, Fingerprint};
use crate::targets::refuse_files_of_runs;

/// Give class probabilities for image files, with a run or with pretrained weights; or masks, with the run of a network for
/// segmentation
///
/// Images are prepared exactly as the run's own were, or as the pretrained weights were measured. Where an image may have several
/// labels, those of probability 0.5 or more are named. A file that cannot be read is named on standard error, the others are
/// predicted all the same, and the exit code is 1.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder (not with --model), then image files: PNG, JPEG, TIFF, GIF, BMP, WebP, DICOM or NIfTI; of a folder all
    /// of its images
    #[arg(required = true, value_name = "RUN|IMAGE|FOLDER")]
    paths: Vec<PathBuf>,
    /// Use the pretrained weights of this model instead of a run; scripts/fetch-weights.sh brings them
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Use the last weights instead of the best
    #[arg(long, conflicts_with = "model")]
    last: bool,
    /// Only so many classes of each image, 1 or more, the most probable first; one row a class in csv
    #[arg(long, value_name = "N", value_parser = ranges::many())]
    top: Option<usize>,
    /// Test-time augmentation: the views of each image whose probabilities are averaged
    #[arg(long, value_enum, value_name = "VIEWS", default_value_t)]
    tta: TestTimeAugmentation,
    #[command(flatten)]
    windows: SlidingWindow,
    /// csv: a row an image; json: one object a line
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// Write to a file instead of standard output; of a network for segmentation the folder of the masks, at the size of the images
    #[arg(long, value_name = "FILE|FOLDER")]
    out: Option<PathBuf>,
    /// How masks are written [default: png]
    #[arg(long, value_enum, value_name = "FORMAT")]
    mask_format: Option<masks::MaskFormat>,
    /// auto, cpu, cuda[:N] or wgpu
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// The MPI library that connects several processes, which `mpirun` or `srun` start; also KINDLING_MPI
    #[arg(long, value_name = "PATH")]
    mpi_library: Option<PathBuf>,
    #[command(flatten)]
    watched: Watched,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Csv,
    Json,
}

/// A network that is ready to predict.
struct Predictor {
    network: Network,
    classes: Vec<String>,
    task: Task,
    /// What numbers are in, of a regression.
    scale: Scale,
    preprocess: Preprocess,
    precision: Precision,
    opening: HowToOpen,
    views: Views,
    device: Device,
}

/// What is said of a file: lines of the output, and what could not be read.
#[derive(Default, Serialize, Deserialize)]
struct Said {
    rows: String,
    errors: Vec<String>,
}

/// Files that each of several processes predicts before the first one writes what all found.
const FILES_AT_ONCE: usize = 8;

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        self.out.as_deref().map_or(Ok(()), refuse_files_of_runs)?;
        ranks::together(self.mpi_library.as_deref(), |ranks| self.run_on(ranks))
    }

    /// Of several processes each predicts a part of the files, and the first writes.
    fn run_on(&self, ranks: &Rc<Ranks>) -> Result<Done> {
        let _filters = FilterCache::open();
        let Chosen { device, facts } = self.device.of_rank(ranks.group().local_rank()).open()?;
        if !ranks.is_alone() {
            Fingerprint::of_process(&facts.device).compare(ranks)?;
        }
        let (predictor, images, run) = match (&self.model, self.paths.as_slice()) {
            (Some(name), images) => (Predictor::pretrained(name, device)?, images, None),
            (None, [run, images @ ..]) if !images.is_empty() => {
                let run = RunDir::open(run)?;
                let config = RunConfig::of(&run)?;
                if config.is_segmentation() {
                    return self.masks(&run, &config, images, &device, ranks);
                }
                (Predictor::of_run(&run, config, self.last, device)?, images, Some(run))
            }
            (None, _) => bail!("give a run's folder and then image files, or --model and image files"),
        };
        self.windows.refuse()?;
        if self.mask_format.is_some() {
            bail!("--mask-format is about masks, and this network gives classes of images, not of pixels");
        }
        let predictor = Predictor { views: self.tta.into(), ..predictor };
        if self.top.is_some() && predictor.task == Task::Regression {
            bail!("--top is about classes, and this run answers with a number");
        }
        let files = files_of(&predictor.opening, images)?;
        ranks::check_same("list of files", &files, ranks)?;
        ranks::watch_reading(ranks, self.watched.timeout(), run.as_ref().map(RunDir::path))?;
        self.write_all(&predictor, &files, ranks)
    }

    /// Predicts all files, in their order.
    fn write_all(&self, predictor: &Predictor, files: &[PathBuf], ranks: &Rc<Ranks>) -> Result<Done> {
        let name = |path: &Path| format!("writing {}", path.display());
        let mut out: Box<dyn Write> = match &self.out {
            _ if !ranks.is_first() => Box::new(std::io::sink()),
            Some(path) => Box::new(BufWriter::new(File::create(path).with_context(|| name(path))?)),
            None => Box::new(output::product()),
        };
        if self.format == Format::Csv {
            writeln!(out, "{}", self.header(predictor))?;
        }
        let mut done = Done::Complete;
        let at_once = if ranks.is_alone() { 1 } else { FILES_AT_ONCE * ranks.group().size() };
        for round in files.chunks(at_once) {
            let mine = round[ranks.share(round.len())].iter().map(|path| self.predict_file(predictor, path, ranks));
            let mine: Vec<Said> = mine.collect::<Result<_>>()?;
            let all = ranks.agree("predictions", mine)?;
            ranks.take_time();
            for said in all.into_iter().flatten() {
                out.write_all(said.rows.as_bytes())?;
                // The exit code of the first is that of all.
                for error in said.errors.iter().filter(|_| ranks.is_first()) {
                    note!("error: {error}");
                    done = Done::SomeFailed;
                }
            }
            ranks.lives();
        }
        out.flush()?;
        Ok(done)
    }

    /// What is said of all images of a file.
    fn predict_file(&self, predictor: &Predictor, path: &Path, ranks: &Ranks) -> Result<Said> {
        let format = format_of(&predictor.opening, path);
        let parts: Vec<Result<Part>> = match format.list(path) {
            Ok(parts) => parts.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error.into())],
        };
        let (mut rows, mut errors) = (Vec::new(), Vec::new());
        for part in parts {
            let named = part.map(|part| (part.name(), part));
            match named.and_then(|(name, part)| Ok((name, predictor.probabilities(format.as_ref(), &part)?))) {
                Ok((name, probabilities)) => self.write(&mut rows, &name, predictor, &probabilities)?,
                Err(error) => errors.push(format!("{error:#}")),
            }
            ranks.lives();
        }
        Ok(Said { rows: String::from_utf8_lossy(&rows).into_owned(), errors })
    }

    fn header(&self, predictor: &Predictor) -> String {
        if self.top.is_some() {
            return "file,class,probability".to_string();
        }
        if predictor.task == Task::Regression {
            return "file,prediction".to_string();
        }
        let names = predictor.classes.iter().map(|class| field(class));
        ["file", predictor.answer_is_called()]
            .into_iter()
            .map(str::to_string)
            .chain(names)
            .collect::<Vec<_>>()
            .join(",")
    }

    fn write(
        &self,
        out: &mut dyn Write,
        file: &str,
        predictor: &Predictor,
        probabilities: &[f64],
    ) -> std::io::Result<()> {
        let Some(top) = self.top else {
            return predictor.write_row(out, self.format, file, probabilities);
        };
        let mut ranked: Vec<(&String, f64)> = predictor.classes.iter().zip(probabilities.iter().copied()).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked.truncate(top);
        match self.format {
            Format::Csv => {
                ranked.into_iter().try_for_each(|(class, p)| writeln!(out, "{},{},{p:.6}", field(file), field(class)))
            }
            Format::Json => {
                let ranked: Vec<Value> =
                    ranked.into_iter().map(|(class, p)| json!({ "class": class, "probability": p })).collect();
                writeln!(out, "{}", json!({ "file": file, "top": ranked }))
            }
        }
    }
}

impl Predictor {
    fn of_run(run: &RunDir, config: RunConfig, last: bool, device: Device) -> Result<Self> {
        let network = config.trained(run, last, &device)?;
        let (precision, scale, views) = (config.train.precision, config.scale(), Views::default());
        let DataConfig { classes, task, preprocess, opening, .. } = config.data;
        Ok(Self { network, classes, task, scale, preprocess, precision, opening, views, device })
    }

    fn pretrained(name: &str, device: Device) -> Result<Self> {
        let model = find(name)?;
        let (known, path) = pretrained::find(&model)?;
        let options = ModelOptions { classes: known.classes, ..ModelOptions::imagenet() };
        let network = model.build_to_fill(&options, &device)?;
        let (network, _) = weights::load(network, &model, &path, Adapt::Strict)?;
        Ok(Self {
            network,
            classes: known.class_names(),
            task: Task::MultiClass,
            scale: Scale::default(),
            preprocess: pretrained::preprocess(known),
            precision: Precision::F32,
            opening: HowToOpen::default(),
            views: Views::default(),
            device,
        })
    }

    fn probabilities(&self, format: &dyn kindling_data::Format, part: &Part) -> Result<Vec<f64>> {
        let images = self.preprocess.to_tensor(&format.read_fitted(part, &self.preprocess)?);
        let shape = [1, self.preprocess.channels, self.preprocess.size, self.preprocess.size];
        let batch = HostBatch { images, shape, labels: vec![0], samples: vec![0], ..HostBatch::default() };
        let inference = Inference::new(&self.device, 1, self.precision).seeing(self.views);
        let mut found = predict(&self.network, &batch, 0..1, self.task, &inference)?.pop().unwrap_or_default();
        if self.task == Task::Regression {
            found.iter_mut().for_each(|answer| *answer = self.scale.back(*answer));
        }
        Ok(found)
    }

    fn answer_is_called(&self) -> &'static str {
        match self.task {
            Task::MultiLabel => "labels",
            _ => "class",
        }
    }

    /// The classes that are said to be there: one, or every label that is likelier than not.
    fn answers(&self, probabilities: &[f64]) -> Vec<&String> {
        match self.task {
            Task::MultiLabel => {
                self.classes.iter().zip(probabilities).filter(|(_, p)| **p >= 0.5).map(|(class, _)| class).collect()
            }
            one_of => vec![&self.classes[answer(one_of, probabilities)]],
        }
    }

    fn write_row(&self, out: &mut dyn Write, format: Format, file: &str, probabilities: &[f64]) -> std::io::Result<()> {
        if self.task == Task::Regression {
            return self.write_number(out, format, file, probabilities);
        }
        let answers = self.answers(probabilities);
        match format {
            Format::Csv => {
                let numbers: Vec<String> = probabilities.iter().map(|p| format!("{p:.6}")).collect();
                // As in a manifest: `a;b` is both, `;` is neither.
                let answer = match answers.as_slice() {
                    [] => ";".to_string(),
                    some => some.iter().map(|class| class.as_str()).collect::<Vec<_>>().join(";"),
                };
                writeln!(out, "{},{},{}", field(file), field(&answer), numbers.join(","))
            }
            Format::Json => {
                let by_class: Map<String, Value> =
                    self.classes.iter().cloned().zip(probabilities.iter().map(|p| json!(p))).collect();
                let answer = match self.task {
                    Task::MultiLabel => json!(answers),
                    _ => json!(answers.first()),
                };
                writeln!(out, "{}", json!({ "file": file, self.answer_is_called(): answer, "probabilities": by_class }))
            }
        }
    }
}

impl Predictor {
    /// A line of a regression: the number, in its own unit.
    fn write_number(&self, out: &mut dyn Write, format: Format, file: &str, answer: &[f64]) -> std::io::Result<()> {
        let number = answer.first().copied().unwrap_or(f64::NAN);
        match format {
            Format::Csv => writeln!(out, "{},{number}", field(file)),
            Format::Json => {
                let target = self.classes.first();
                writeln!(out, "{}", json!({ "file": file, "target": target, "prediction": number }))
            }
        }
    }
}

/// Pictures are recognised by content, everything else by whoever claims the file.
fn format_of(opening: &HowToOpen, path: &Path) -> Arc<dyn kindling_data::Format> {
    let claims = |format: &Arc<dyn kindling_data::Format>| format.claims(path);
    opening.formats().into_iter().find(claims).unwrap_or_else(|| Arc::new(Pictures))
}

/// The files given, and in place of folders what is in them.
fn files_of(how: &HowToOpen, given: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let opening = Opening { formats: how.formats(), ..Opening::new(0) };
    let of = |path: &PathBuf| match path.is_dir() {
        true => Ok(images_in(path, &opening)?),
        false => Ok(vec![path.clone()]),
    };
    Ok(given.iter().map(of).collect::<Result<Vec<_>>>()?.concat())
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
