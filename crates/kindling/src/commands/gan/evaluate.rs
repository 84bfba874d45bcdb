//! `kindling gan evaluate`: how far what a run makes is from what it was taught with.

use std::path::PathBuf;

use anyhow::{Result, bail};
use burn::module::Module;
use kindling_data::{FileList, Image, Opening, Split, SplitRule};
use kindling_gan_training::{AdversarialConfig, calibrate, sample_latent};
use kindling_metrics::{frechet_distance, kernel_distance, precision_recall};
use kindling_runs::{RunDir, write_atomically};
use serde_json::json;

use super::compare::{make, of_fakes, of_real};
use super::features::Extractor;
use super::neighbours;
use super::pictures;
use crate::Done;
use crate::commands::Format;
use crate::dataset;
use crate::device::DeviceChoice;
use crate::gan_config::{GanRunConfig, preprocess};
use crate::output::{note, out};
use crate::ranges;
use crate::recorded;

/// The neighbour whose distance is an image's reach: the paper's.
const NEIGHBOURS: usize = 3;
/// Of every so many samples one is shown with its nearest training image, up to this many.
const EVERY: usize = 10;
const MOST_SHOWN: usize = 100;

/// Compare what a run makes with its data set
///
/// Frechet and kernel distance, precision and recall in the features of the zoo's pretrained MobileNetV2
/// (scripts/fetch-weights.sh brings it): they are no FID and no KID. For every tenth sample the nearest training image
/// stands beside it in nearest.png, so that one sees whether images were learnt by heart. Everything goes into
/// evaluation.json of the run as well.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder
    run: PathBuf,
    /// Images of either kind, 4 to 1048576; fewer if the data set has fewer
    #[arg(long, value_name = "N", value_parser = ranges::samples(), default_value_t = 1000)]
    samples: usize,
    /// What the fake ones are drawn with, 0 to 9223372036854775807
    #[arg(long, value_name = "N", value_parser = ranges::seed(), default_value_t = 0)]
    seed: u64,
    /// Another data set or image folder [default: the run's]
    #[arg(long, value_name = "NAME|DIR")]
    data: Option<String>,
    /// Which real images they are compared with
    #[arg(long, default_value = "train")]
    split: Split,
    /// Compare the generator as it was before training instead: what a distance has to be seen against
    #[arg(long)]
    untrained: bool,
    /// Images computed at once, 1 to 1048576; fewer where memory runs out
    #[arg(long, value_name = "N", value_parser = ranges::samples(), default_value_t = 8)]
    micro_batch: usize,
    /// auto, cpu, cuda[:N] or wgpu
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        if self.samples <= NEIGHBOURS {
            bail!("--samples must be above {NEIGHBOURS}");
        }
        let run = RunDir::open(&self.run)?;
        let config = GanRunConfig::of(&run)?;
        let source = self.data.clone().map_or_else(|| config.data.place(&run, None), Ok)?;
        let of_run = config.data.path.as_ref().map(|path| path.to_string_lossy());
        let own = self.data.is_none() || dataset::is_same(&source, of_run.as_deref().unwrap_or(&config.data.source));
        let list = recorded::read(&run)?.filter(|_| own);
        let opening = Opening { recorded: recorded::sides(list.as_ref()), ..Opening::new(config.train.seed) };
        let rule = if own { config.data.split_rule } else { SplitRule::Keyed };
        let dataset = dataset::open_unlabelled(&source, rule, opening)?.dataset;
        if let Some(list) = list
            && let changes = list.changes(&FileList::of(&dataset))
            && !changes.is_none()
        {
            note!("note: the data is not what the run began with: {changes}");
        }
        let asked = &config.data.preprocess;
        // Says what is wrong if the images are of another kind than the generator's.
        preprocess(&dataset, asked.size, Some(asked.channels))?;
        let chosen = self.device.open()?;
        let device = chosen.device;
        let width = config.entry()?.latent;
        let generator = match self.untrained {
            true => {
                let AdversarialConfig { seed, ghost_batch_size, .. } = config.train;
                calibrate(config.networks(&device)?.generator.valid(), seed, width, ghost_batch_size, &device)?
            }
            false => config.trained(&run, &device)?,
        };
        let extractor = Extractor::new(asked.size, &device)?;
        let real = of_real(&extractor, &dataset, self.split, asked, self.samples)?;
        let samples = real.count();
        let fakes = of_fakes(&extractor, &generator, (self.seed, samples, width), self.micro_batch, &device)?;
        let frechet = frechet_distance(&real, &fakes)?;
        let kernel = kernel_distance(&real, &fakes)?;
        let shares = precision_recall(&real, &fakes, NEIGHBOURS)?;

        let shown: Vec<u64> = (0..samples as u64).step_by(EVERY).take(MOST_SHOWN).collect();
        let mut images: Vec<Image> = Vec::with_capacity(shown.len());
        let latents = shown.iter().map(|&index| sample_latent(self.seed, index, width));
        make(&generator, latents, self.micro_batch, &device, |fakes| {
            images.extend(fakes);
            Ok(())
        })?;
        let found = neighbours::find(&extractor, &dataset, asked, &images)?;
        let pairs: Vec<Image> =
            images.iter().zip(&found).flat_map(|(fake, found)| [fake.clone(), found.image.clone()]).collect();
        let picture = run.path().join("nearest.png");
        // Five pairs in a row.
        pictures::write_grid(&pairs, 10.min(pairs.len()), &picture)?;
        let nearest: Vec<_> = shown
            .iter()
            .zip(&found)
            .map(|(index, it)| {
                json!({ "image": index, "training_image": it.sample, "name": it.name, "distance": it.distance })
            })
            .collect();

        let result = json!({
            "run": run.path(), "data": dataset.name, "split": self.split.to_string(), "samples": samples,
            "seed": self.seed, "untrained": self.untrained, "features": extractor.name(), "frechet_distance": frechet,
            "kernel_distance": kernel, "precision": shares.precision, "recall": shares.recall,
            "device": chosen.facts.device, "nearest": nearest,
        });
        if !self.untrained {
            let text = serde_json::to_vec_pretty(&result)?;
            write_atomically(&run.path().join("evaluation.json"), &text)?;
        }
        match self.format {
            Format::Json => out!("{result}"),
            Format::Table => {
                out!(
                    "{samples} fake images and {samples} of {} ({}), in features of {}",
                    dataset.name,
                    self.split,
                    extractor.name()
                );
                out!("Frechet distance  {frechet:.2}\nKernel distance   {kernel:.5}");
                out!(
                    "precision         {:.1} %\nrecall            {:.1} %",
                    100.0 * shares.precision,
                    100.0 * shares.recall
                );
                out!("every {EVERY}th image beside its nearest training image: {}", picture.display());
            }
        }
        Ok(Done::Complete)
    }
}
