//! From flags, a configuration file and the data set to the resolved configuration.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use kindling_data::{
    Augment, Dataset, Fit, Normalisation, Policy, Preprocess, Scale, Split, SplitRule, Task, Usual, within,
};
use kindling_layers::{Checkpointing, Freeze, Precision};
use kindling_runs::{RunDir, read_toml};
use kindling_trainer::{MOST_SAMPLES, OptimizerConfig, SegmentationConfig, ValueLoss};
use kindling_zoo::is_segmentation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::defaults::{HEAD_LR, MOMENTUM, SEGMENTATION_BATCH, SEGMENTATION_MODEL, SGD_LR, SGD_WEIGHT_DECAY};
use super::settings::{OPENING, Settings, all};
use super::{Asked, Continuing, OptimizerName};
use crate::budget::{MemoryBudget, limit_before_reading};
use crate::config::{RunConfig, StartingPoint, defaults, measure, preprocess, usual};
use crate::dataset::{self, AskedTask, path_of};
use crate::device::DeviceChoice;
use crate::model::AnyModel;
use crate::output::note;
use crate::pretrained;
use crate::scores;
use crate::settings::{change, get, overlay, refused_change, remove, set, table_of};

/// What `--normalise percentiles` stretches each image by.
const PERCENTILES: [f32; 2] = [0.01, 0.99];

/// Settings whose defaults are others where each pixel has a class, or where the data set says what is usual.
const DEPEND_ON_TASK_AND_DATA: [&str; 4] = ["model.name", "train.batch_size", "data.preprocess.size", "train.epochs"];

/// Flags that say what is computed once the data set is known, and are no values of a configuration by themselves.
const NEED_THE_DATA: [&str; 2] = ["data.preprocess.fit", "data.preprocess.normalisation"];

/// What `kindling plan --out` writes: a layer of settings under the flags.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    #[serde(rename(serialize = "model.name"))]
    model: String,
    #[serde(rename(serialize = "data.preprocess.size"))]
    image_size: usize,
    #[serde(rename(serialize = "train.batch_size"))]
    batch_size: usize,
    #[serde(rename(serialize = "train.micro_batch"))]
    micro_batch: usize,
    #[serde(rename(serialize = "train.activation_checkpointing"), alias = "recompute")]
    activation_checkpointing: Checkpointing,
    #[serde(rename(serialize = "train.precision"), default)]
    precision: Precision,
    #[serde(serialize_with = "as_budget")]
    memory_budget: u64,
    #[serde(skip_serializing)]
    #[allow(dead_code)] // for people
    predicted_peak: u64,
}

fn as_budget<S: serde::Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    MemoryBudget::Bytes(*bytes).serialize(serializer)
}

impl Asked {
    /// The configuration of a new run: defaults, over them the file, over that a plan, over that the flags; and what only the
    /// data set can say where nobody has said it.
    pub(crate) fn resolve(&self, quiet: bool) -> Result<(RunConfig, Dataset)> {
        let file: Option<RunConfig> = self.config.as_deref().map(read_toml).transpose()?;
        if let (Some(file), Some(path)) = (&file, &self.config) {
            file.clone().checked().with_context(|| path.display().to_string())?;
        }
        self.opening.check_task()?;
        let mut given = self.given()?;
        self.follow_plan(&mut given)?;
        let balanced = given.get("train.class_weights").is_some_and(|weights| weights.as_str() == Some("balanced"));
        given.retain(|key, _| !(NEED_THE_DATA.contains(&key) || balanced && key == "train.class_weights"));
        let mut layer = file.as_ref().map(table_of).transpose()?.unwrap_or_default();
        forget_what_depended(&mut layer, &given);
        let is_said = |key: &str| given.contains_key(key) || get(&layer, key).is_some();
        let [lr_said, augment_said] = ["train.lr", "data.augment"].map(is_said);
        let unsaid: Vec<&str> = DEPEND_ON_TASK_AND_DATA.into_iter().filter(|key| !is_said(key)).collect();
        let momentum_said = given.contains_key("train.optimizer.momentum");

        let mut table = defaults();
        if self.settings.optimizer == Some(OptimizerName::Sgd) {
            let sgd = OptimizerConfig::Sgd { momentum: MOMENTUM, weight_decay: SGD_WEIGHT_DECAY };
            set(&mut table, "train.optimizer", Value::try_from(sgd)?);
        }
        overlay(&mut table, layer);
        if momentum_said && get(&table, "train.optimizer.name").is_some_and(|name| name.as_str() == Some("adamw")) {
            bail!("--momentum belongs to --optimizer sgd; adamw has its own");
        }
        for (key, value) in given {
            set(&mut table, &key, value);
        }
        self.settle_task(&mut table, &unsaid)?;
        let mut config: RunConfig = configuration(table)?;

        // Names and sizes first: a typing error should not wait for a data set to be opened.
        let model = config.any_model()?;
        config.model.name = model.key();
        within("batch size", config.train.batch_size, 1..=MOST_SAMPLES).map_err(anyhow::Error::msg)?;
        let started_from = config.model.start.take();
        config.model.start = self.starting_point(&model)?.or(started_from);
        limit_before_reading(config.memory_budget, DeviceChoice::configured(&config.device)?)?;
        let same_data = file.as_ref().filter(|file| file.data.source == config.data.source);
        let data = &mut config.data;
        let place = match data.path.take().filter(|path| path.exists()) {
            Some(path) => path.to_string_lossy().into_owned(),
            None => data.source.clone(),
        };
        data.path = path_of(&place);
        data.subgroups.as_deref().map_or(Ok(()), |column| scores::check_column(&place, column))?;
        if !data.opening.segments() && self.opening.task.is_none() && dataset::looks_like_masks(&place) {
            bail!(
                "{place} has images beside masks: --task segmentation trains on them (or --task classification, if these folders are \
                 classes)"
            );
        }
        data.opening.split_rule = same_data.map_or(SplitRule::Keyed, |file| file.data.opening.split_rule);
        let opened = dataset::open_to(&place, config.train.seed, &data.opening, data.on_bad_sample)?;
        data.opening = data.opening.clone().resolved(&opened);
        if !quiet && !opened.passed_over.is_empty() {
            note!("{}", opened.passed_over);
        }
        let dataset = opened.dataset;
        data.classes = dataset.classes.clone();
        data.task = dataset.task;
        data.scale = (dataset.task == Task::Regression).then(|| match same_data.and_then(|file| file.data.scale) {
            Some(known) => known,
            None => Scale::measured(dataset.train.as_ref()),
        });
        if !augment_said {
            data.augment = dataset.augment.clone();
        }
        if same_data.is_none() {
            data.preprocess = preprocess(&dataset, data.preprocess.size, data.on_bad_sample)?;
        }
        if same_data.is_none_or(|file| file.model.start != config.model.start)
            && let (Some(StartingPoint::Pretrained(_)), Some(known)) =
                (&config.model.start, model.classifier().pretrained())
        {
            data.preprocess.normalisation = pretrained::normalisation(known, dataset.channels);
        }
        self.prepare(&mut config, &dataset)?;

        let train = &mut config.train;
        if !lr_said {
            train.lr = match train.optimizer {
                OptimizerConfig::AdamW { .. } if config.model.freeze == Freeze::Backbone => HEAD_LR,
                OptimizerConfig::AdamW { .. } => usual().lr,
                OptimizerConfig::Sgd { .. } => SGD_LR,
            };
        }
        if balanced && dataset.task == Task::Segmentation {
            bail!(
                "--class-weights balanced counts images; of a segmentation give one weight a class, the background's first"
            );
        }
        if balanced {
            train.class_weights = Some(balanced_weights(&dataset));
        }
        if let Some(file) = same_data {
            file.check_classes(&dataset)?;
        }
        if config.model.freeze != Freeze::None && config.model.start.is_none() {
            bail!("--freeze keeps random weights as they are unless --pretrained or --weights gives better ones");
        }
        Ok((config.checked()?, dataset))
    }

    /// Puts what follows from the task and the data set: of `unsaid`, settings that nobody has said anything of, and the loss of a
    /// segmentation.
    fn settle_task(&self, table: &mut Table, unsaid: &[&str]) -> Result<()> {
        let source = get(table, "data.source").and_then(Value::as_str).unwrap_or_default().to_owned();
        let only_segments = dataset::usual(&source, true).task == Some(Task::Segmentation);
        if only_segments && get(table, "data.opening.task").is_none() {
            // Classification, which a configuration does not say.
            if self.opening.task.is_some() {
                bail!("{}", dataset::only_segments(&source));
            }
            set(table, "data.opening.task", Value::try_from(AskedTask::Segmentation)?);
        }
        let task = get(table, "data.opening.task").and_then(Value::as_str).map(str::to_owned);
        let segments = task.as_deref() == Some("segmentation");
        for key in unsaid {
            put_usual(table, key, segments, dataset::usual(&source, segments))?;
        }
        let name = get(table, "model.name").and_then(Value::as_str).unwrap_or_default();
        if !segments {
            if is_segmentation(name) {
                bail!("{name} gives each pixel a class; --task segmentation trains it");
            }
            let Settings { loss, dice_over, focal_gamma, focal_alpha, focal_threshold, .. } = &self.settings;
            if loss.is_some() || dice_over.is_some() {
                bail!("--loss and --dice-over belong to --task segmentation; classifiers have cross-entropy");
            }
            if [focal_gamma, focal_alpha, focal_threshold].into_iter().any(Option::is_some) {
                bail!("--focal-gamma, --focal-alpha and --focal-threshold belong to --task segmentation");
            }
            if self.settings.auxiliary_loss.is_some() {
                bail!("--auxiliary-loss belongs to --task segmentation");
            }
            let regresses = task.as_deref() == Some("regression");
            if self.settings.regression_loss.is_some() && !regresses {
                bail!("--regression-loss belongs to --task regression");
            }
            if regresses && get(table, "train.regression").is_none() {
                set(table, "train.regression", Value::try_from(ValueLoss::default())?);
            }
            return Ok(());
        }
        if self.settings.regression_loss.is_some() {
            bail!("--regression-loss belongs to --task regression; segmentation has --loss");
        }
        let loss = Value::try_from(SegmentationConfig::default())?;
        if get(table, "train.segmentation").is_none() {
            set(table, "train.segmentation", loss);
        }
        Ok(())
    }

    /// What the flags say, as a flat layer.
    fn given(&self) -> Result<Table> {
        let mut given = table_of(&self.settings)?;
        let mut say = |key: &str, value: Value| given.insert(key.to_string(), value);
        if let Some(model) = &self.settings.model {
            say("model.name", AnyModel::find(model)?.key().into());
        }
        if let Some(text) = &self.settings.augment {
            say("data.augment", Value::try_from(augment(text)?)?);
        }
        if let Some(text) = self.settings.class_weights.as_deref().filter(|text| !["even", "balanced"].contains(text)) {
            let weights: Result<Vec<f64>, _> = text.split(',').map(|word| word.trim().parse()).collect();
            let weights = weights.context("--class-weights takes even, balanced, or numbers separated by commas")?;
            say("train.class_weights", weights.into());
        }
        let [split_by, window, pages, fold, task, target, class_order] = OPENING.map(|(_, key)| key);
        if let Some(given) = self.opening.split_by {
            say(split_by, Value::try_from(given)?);
        }
        if let Some(given) = self.opening.window {
            say(window, Value::try_from(given)?);
        }
        if self.opening.pages {
            say(pages, true.into());
        }
        if let Some(given) = self.opening.fold {
            say(fold, Value::try_from(given)?);
        }
        let of_model = self.settings.model.as_deref().is_some_and(is_segmentation).then_some(AskedTask::Segmentation);
        // What a configuration says that says nothing is no value of it.
        if let Some(given) = self.opening.task().or(of_model.filter(|_| self.opening.task.is_none())) {
            say(task, Value::try_from(given)?);
        }
        if let Some(given) = &self.opening.target {
            say(target, given.as_str().into());
        }
        if let Some(given) = &self.opening.class_order {
            say(class_order, Value::try_from(given)?);
        }
        Ok(given)
    }

    /// Puts what the plan says under what the flags say.
    fn follow_plan(&self, given: &mut Table) -> Result<()> {
        if let Some(path) = &self.plan {
            for (key, value) in table_of(&read_toml::<PlanFile>(path)?)? {
                given.entry(key).or_insert(value);
            }
        }
        Ok(())
    }

    /// Puts what the configuration file says under what the flags and the plan say, for a run that began with all of them.
    fn follow_file(&self, given: &mut Table, stored: &RunConfig) -> Result<()> {
        let Some(path) = &self.config else { return Ok(()) };
        let file: RunConfig = read_toml(path)?;
        let mut layer = table_of(&file)?;
        forget_what_depended(&mut layer, given);
        if file.model.start != stored.model.start {
            // Pretrained weights bring constants of their own.
            remove(&mut layer, "data.preprocess.normalisation");
        }
        for key in all().iter().map(|setting| setting.key) {
            if let Some(value) = get(&layer, key) {
                given.entry(key).or_insert_with(|| value.clone());
            }
        }
        Ok(())
    }

    /// Puts what was asked for into a new run's preprocessing.
    fn prepare(&self, config: &mut RunConfig, dataset: &Dataset) -> Result<()> {
        let on_bad = config.data.on_bad_sample;
        let preprocess = &mut config.data.preprocess;
        if let Some(text) = &self.settings.fit {
            preprocess.fit = fit(text, preprocess)?;
        }
        preprocess.normalisation = match self.settings.normalise.as_deref() {
            None => return Ok(()),
            Some("none") => Normalisation::identity(dataset.channels),
            Some("imagenet") => Normalisation::imagenet(dataset.channels),
            Some("data") => measure(dataset, preprocess, on_bad)?,
            Some("percentiles") => {
                preprocess.percentiles = Some(PERCENTILES);
                measure(dataset, preprocess, on_bad)?
            }
            Some(other) => bail!("--normalise takes data, imagenet, percentiles or none, not `{other}`"),
        };
        Ok(())
    }

    /// What the run is asked to start from, after a look that it is there.
    fn starting_point(&self, model: &AnyModel) -> Result<Option<StartingPoint>> {
        if self.pretrained {
            let (known, _) = pretrained::find(&model.classifier())?;
            return Ok(Some(StartingPoint::Pretrained(known.sha256.to_string())));
        }
        let Some(path) = &self.weights else { return Ok(None) };
        // A run is repeated from anywhere.
        let path = pretrained::file_of(path)?;
        let path = path.canonicalize().with_context(|| format!("reading {}", path.display()))?;
        Ok(Some(StartingPoint::File(path)))
    }

    /// The configuration of a run as its resume is asked to go on, and what that changes. A flag that would make it another run
    /// is an error, not a silent change.
    pub(super) fn resumed(
        &self,
        run: &RunDir,
        stored: &RunConfig,
        how: Continuing,
    ) -> Result<(RunConfig, Vec<(String, String)>)> {
        let (settings, mut given) = (all(), self.given()?);
        if self
            .settings
            .data
            .as_deref()
            .is_some_and(|data| path_of(data).is_some_and(|it| Some(it) == stored.data.path))
        {
            given.remove("data.source");
        }
        if let Some(text) = &self.settings.fit {
            given.insert("data.preprocess.fit".to_string(), Value::try_from(fit(text, &stored.data.preprocess)?)?);
        }
        if self.settings.normalise.as_deref().is_some_and(|text| is_normalised(&stored.data.preprocess, text)) {
            given.remove("data.preprocess.normalisation");
        }
        if self.is_balanced() && stored.train.class_weights.is_some() {
            // Which they are is known once the data set is.
            given.remove("train.class_weights");
        }
        if how.is_extended {
            given.remove("train.max_steps");
        }
        if how.one_line_for_both {
            self.follow_plan(&mut given)?;
            self.follow_file(&mut given, stored)?;
        }
        let mut table = table_of(stored)?;
        if let Some(change) = self.refused_start(stored, how)?.or_else(|| refused_change(&settings, &given, &table)) {
            bail!(
                "{} cannot be resumed as something else: {change}; start a new run, with --config {} to keep its settings",
                run.path().display(),
                run.config().display()
            );
        }
        let changed = change(&settings, &given, &mut table);
        Ok((configuration(table)?, changed))
    }

    /// What a run starts from is said of its start alone, unless one command line is for both.
    fn refused_start(&self, stored: &RunConfig, how: Continuing) -> Result<Option<String>> {
        let flag = match (self.pretrained, &self.weights) {
            (true, _) => "--pretrained",
            (false, Some(_)) => "--weights",
            (false, None) => return Ok(None),
        };
        if !how.one_line_for_both {
            return Ok(Some(format!("{flag} says what a run starts from")));
        }
        let differs = self.starting_point(&stored.any_model()?)? != stored.model.start;
        Ok(differs.then(|| format!("{flag} is not what the run started from")))
    }

    /// Whether rare classes are to weigh more.
    fn is_balanced(&self) -> bool {
        self.settings.class_weights.as_deref() == Some("balanced")
    }

    /// Fails if a run that goes on is said to have balanced weights and has others.
    pub(super) fn check_balanced(&self, config: &RunConfig, dataset: &Dataset) -> Result<()> {
        if self.is_balanced() && config.train.class_weights.as_ref().is_some_and(|it| *it != balanced_weights(dataset))
        {
            bail!("--class-weights is balanced, the run has weights of its own; leave it out, or start a new run");
        }
        Ok(())
    }
}

/// Whether images are prepared as this word of `--normalise` says. What is measured is not measured again: the constants are the
/// run's.
fn is_normalised(preprocess: &Preprocess, text: &str) -> bool {
    let is_identity = preprocess.normalisation == Normalisation::identity(preprocess.channels);
    let is_imagenet = preprocess.normalisation == Normalisation::imagenet(preprocess.channels);
    match text {
        "none" => is_identity,
        "imagenet" => is_imagenet,
        "percentiles" => preprocess.percentiles.is_some(),
        "data" => preprocess.percentiles.is_none() && !is_identity && !is_imagenet,
        _ => false,
    }
}

/// Puts a setting that nobody has said anything of as the task and the data set have it, where one of them does.
fn put_usual(table: &mut Table, key: &str, segments: bool, of_data: Usual) -> Result<()> {
    let value = match key {
        "model.name" => segments.then(|| Value::String(SEGMENTATION_MODEL.to_owned())),
        "train.batch_size" => segments.then_some(Value::Integer(SEGMENTATION_BATCH)),
        "data.preprocess.size" => of_data.image_size.map(Value::try_from).transpose()?,
        "train.epochs" => of_data.epochs.map(Value::try_from).transpose()?,
        _ => None,
    };
    if let Some(value) = value {
        set(table, key, value);
    }
    Ok(())
}

/// A configuration from all of its layers.
fn configuration<T: DeserializeOwned>(table: Table) -> Result<T> {
    table.try_into().map_err(|error: toml::de::Error| anyhow!("{}", error.message()))
}

/// Takes out of a file's layer what held for other data, another batch, another rule or another length.
fn forget_what_depended(layer: &mut Table, given: &Table) {
    let differs = |key: &str| given.get(key).is_some_and(|value| get(layer, key) != Some(value));
    let data = differs("data.source");
    let batch = differs("train.batch_size") || differs("train.ghost_batch_size");
    let rule = given.contains_key("train.optimizer.name");
    let length = data || ["train.epochs", "train.max_steps", "train.batch_size"].into_iter().any(differs);
    let of_data = [
        "data.path",
        "data.opening",
        "data.classes",
        "data.task",
        "data.scale",
        "data.augment",
        "data.subgroups",
        "data.preprocess.channels",
        "data.preprocess.normalisation",
        "data.preprocess.fit",
        "data.preprocess.interpolation",
        "data.preprocess.percentiles",
    ];
    let dependent: [(bool, &[&str]); 4] = [
        (data, &of_data),
        (batch, &["train.micro_batch"]),
        (rule, &["train.optimizer", "train.lr"]),
        (length, &["train.extended"]),
    ];
    for key in dependent.into_iter().filter(|(changed, _)| *changed).flat_map(|(_, keys)| keys) {
        remove(layer, key);
    }
}

fn fit(text: &str, preprocess: &Preprocess) -> Result<Fit> {
    match text {
        "pad" => Ok(Fit::Pad),
        "crop" => Ok(Fit::Crop(preprocess.size)),
        other => bail!("--fit takes pad or crop, not `{other}`"),
    }
}

/// A policy by its name, or from a file.
pub(crate) fn augment(text: &str) -> Result<Augment> {
    if let Ok(named) = text.parse() {
        return Ok(named);
    }
    let path = Path::new(text);
    if !path.is_file() {
        bail!("there is no augmentation `{text}` and no such file; choose none, light, medium, heavy, or a TOML file");
    }
    let policy: Policy = read_toml(path)?;
    Augment::custom(policy).with_context(|| text.to_string())
}

/// The weights with which all classes count as much.
fn balanced_weights(dataset: &Dataset) -> Vec<f64> {
    let counts = dataset.class_counts(Split::Train);
    let even = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    counts.iter().map(|&count| even / count.max(1) as f64).collect()
}
