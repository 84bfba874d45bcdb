//! `data.csv` of a run: the samples it was trained on, written when it begins and compared when it goes on or is scored.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use kindling_data::{Dataset, FileList, Opening, Recorded, Split};
use kindling_files as files;
use kindling_runs::RunDir;

use crate::config::RunConfig;
use crate::dataset;
use crate::gan_config::GanRunConfig;

/// The data set of a run that goes on.
pub(crate) struct Again {
    pub(crate) dataset: Dataset,
    /// What has changed since it was last listed, and what becomes of it, where anything has.
    pub(crate) told: Option<String>,
    /// The list to keep from now on, where there is another than before.
    pub(crate) list: Option<FileList>,
}

/// The list of a run; runs of earlier versions have none, and those of some have none where samples are no files.
pub(crate) fn read(run: &RunDir) -> Result<Option<FileList>> {
    let path = run.data();
    if !path.exists() {
        return Ok(None);
    }
    let wrong = |reason: String| anyhow!("{}: {reason}", path.display());
    let text = files::read(&path, files::MAX_LOG_BYTES).map_err(|cause| wrong(cause.to_string()))?;
    FileList::parse(&text).map(Some).map_err(|(line, reason)| wrong(format!("line {line}: {reason}")))
}

/// The sides of a list, as an opening takes them.
pub(crate) fn sides(list: Option<&FileList>) -> Option<Arc<Recorded>> {
    list.map(|list| Arc::new(list.recorded()))
}

/// Writes the list of a run. One that is there already is kept beside it under another name.
pub(crate) fn write(run: &RunDir, list: &FileList) -> Result<()> {
    Ok(run.write_data(list.to_csv().as_bytes())?)
}

/// Opens the data set of a run that another process has opened and listed.
///
/// # Errors
/// Those of data sets.
pub(crate) fn open_as_listed(run: &RunDir, config: &RunConfig, place: &str) -> Result<Dataset> {
    let (data, list) = (&config.data, read(run)?);
    open(config, place, sides(list.as_ref())).with_context(|| format!("the data set {}", data.source))
}

fn open(config: &RunConfig, place: &str, recorded: Option<Arc<Recorded>>) -> Result<Dataset> {
    let opening = Opening { on_bad: config.data.on_bad_sample, recorded, ..Opening::new(config.train.seed) };
    Ok(dataset::open_any(place, &config.data.opening, opening)?.dataset)
}

/// Opens the data set of a run that goes on, which is at `place`. What is listed keeps its split.
///
/// # Errors
/// Those of data sets, and a sentence about what has changed unless that is accepted.
pub(crate) fn open_again(run: &RunDir, config: &RunConfig, place: &str, accepted: bool) -> Result<Again> {
    let list = read(run)?;
    let dataset = open(config, place, sides(list.as_ref()))?;
    let consequences =
        [", and normalisation constants stay", ", and the learning rate follows the new number of steps"];
    compared(run, (dataset, dataset::is_named(place)), list, accepted, consequences)
}

/// [`open_again`] for the run of a GAN.
///
/// # Errors
/// As there.
pub(crate) fn open_unlabelled_again(run: &RunDir, config: &GanRunConfig, place: &str, accepted: bool) -> Result<Again> {
    let list = read(run)?;
    let opening = Opening { recorded: sides(list.as_ref()), ..Opening::new(config.train.seed) };
    let dataset = dataset::open_unlabelled(place, config.data.split_rule, opening)?.dataset;
    compared(run, (dataset, dataset::is_named(place)), list, accepted, [""; 2])
}

/// Compares a data set, which comes with Kindling or from elsewhere, with the list of the run that goes on with it. Of a change that is
/// accepted it is told what else stays, and what another number of training images does.
fn compared(
    run: &RunDir,
    (dataset, is_named): (Dataset, bool),
    list: Option<FileList>,
    accepted: bool,
    [stays, of_number]: [&str; 2],
) -> Result<Again> {
    let now = FileList::of(&dataset);
    let Some(before) = &list else {
        return Ok(Again { dataset, told: None, list: Some(now) });
    };
    let changes = before.changes(&now);
    if changes.is_none() {
        return Ok(Again { dataset, told: None, list: None });
    }
    let run_path = run.path().display();
    if !accepted {
        let restore = match is_named {
            true => "use the version of Kindling that the run began with",
            false => "restore it",
        };
        bail!(
            "the data of {run_path} is not what it was: {changes}; {restore}, go on with it as it is with --accept-changed-data, \
             or start a new run"
        );
    }
    if files::read(&run.bad_samples(), files::MAX_LOG_BYTES).is_ok_and(|text| !text.is_empty()) {
        bail!(
            "{run_path} has skipped samples that could not be read and knows them by number, so it cannot go on with data that has \
             changed ({changes}); restore the data, or start a new run"
        );
    }
    let size = |list: &FileList, split| list.samples.iter().filter(|sample| sample.split == split).count();
    let sizes = Split::ALL.map(|split| format!("{split} {} -> {}", size(before, split), size(&now, split)));
    // The order of an epoch depends on the number of samples alone.
    let order = match size(before, Split::Train) == size(&now, Split::Train) {
        true => String::new(),
        false => format!("; the epoch it is in is drawn anew{of_number}"),
    };
    // What comes with Kindling brings its splits, whatever they were before.
    let keeps = if changes.moved.is_empty() { "What was there keeps its split" } else { "Splits are others now" };
    let told = format!("going on with data that has changed: {changes}. {keeps} ({}){stays}{order}", sizes.join(", "));
    Ok(Again { dataset, told: Some(told), list: Some(now) })
}
