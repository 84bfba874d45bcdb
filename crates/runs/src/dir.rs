//! A run's folder: its name, its files, and the promise never to overwrite another's.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kindling_files as files;
use kindling_metrics::{RegressionScores, Scores, SegmentationScores};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::atomic::partial_name;
use crate::{CaseTable, Environment, GanMetrics, Metrics, RunError, write_atomically};

/// The files of answers, in a run and in the folder of a cross-validation.
pub(crate) const PREDICTIONS: &str = "predictions.csv";
pub(crate) const CASES: &str = "cases.csv";

/// The folder of one run. Nothing here deletes anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes the folder of a new run: `dir` if given, otherwise `runs/<time>-<model>-<data>` under the working
    /// directory, with `-2`, `-3`... if that name is taken. `data` is a name or a path, whose last part counts.
    ///
    /// The folder is a run once [`write_config`](Self::write_config) was called.
    ///
    /// # Errors
    /// [`RunError::Taken`], [`RunError::NotEmpty`] or [`RunError::NotAFolder`] if `dir` cannot take a new run;
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn create(dir: Option<&Path>, model: &str, data: &str) -> Result<Self, RunError> {
        match dir {
            Some(dir) => Self::create_at(dir),
            None => {
                let time = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
                let name = format!("{time}-{}-{}", file_name(model, "model"), file_name(data, "data"));
                Self::create_named(Path::new("runs"), &name)
            }
        }
    }

    /// Opens the folder of an existing run.
    ///
    /// # Errors
    /// [`RunError::NotYetARun`] if it was left before `config.toml` was written, [`RunError::NotARun`] if there is no
    /// `config.toml` in it for another reason.
    pub fn open(dir: &Path) -> Result<Self, RunError> {
        let run = Self { path: dir.into() };
        match run.config().is_file() {
            true => Ok(run),
            false if run.is_unused().unwrap_or(false) => Err(RunError::NotYetARun { path: run.path }),
            false => Err(RunError::NotARun { path: run.path }),
        }
    }

    /// Takes back what was written of a run that is refused before anything of it was computed: its configuration, the list of its
    /// samples, and the folder if that leaves it empty. So the folder can take a new run. What cannot be removed stays.
    pub fn withdraw(&self) {
        // It is a run as long as it has a configuration.
        for file in [self.data(), self.config()] {
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_dir(&self.path);
    }

    /// Whether there is nothing in the folder but, at most, half of a `config.toml`, which a run leaves that is killed in its first
    /// moment.
    fn is_unused(&self) -> Result<bool, RunError> {
        let half = partial_name(&self.config())?;
        let on = || RunError::on("read", &self.path);
        for entry in fs::read_dir(&self.path).map_err(on())? {
            if Some(entry.map_err(on())?.file_name().as_os_str()) != half.file_name() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn create_at(dir: &Path) -> Result<Self, RunError> {
        let run = Self { path: dir.into() };
        if run.config().exists() {
            return Err(RunError::Taken { path: run.path });
        }
        if dir.exists() && !dir.is_dir() {
            return Err(RunError::NotAFolder { path: run.path });
        }
        fs::create_dir_all(dir).map_err(RunError::on("create", dir))?;
        if run.is_unused()? { Ok(run) } else { Err(RunError::NotEmpty { path: run.path }) }
    }

    /// Making the folder is what claims the name, so two runs started in the same second get two folders.
    fn create_named(parent: &Path, name: &str) -> Result<Self, RunError> {
        fs::create_dir_all(parent).map_err(RunError::on("create", parent))?;
        let mut path = parent.join(name);
        for number in 2_u32.. {
            match fs::create_dir(&path) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    path = parent.join(format!("{name}-{number}"));
                }
                Err(error) => return Err(RunError::io("create", &path, error)),
            }
        }
        Ok(Self { path })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `config.toml`: the resolved configuration.
    pub fn config(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    /// `events.jsonl`: one line an event.
    pub fn events(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    /// `metrics.json`: the results.
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.json")
    }

    /// `predictions.csv`: what the model said of every evaluated image.
    pub fn predictions(&self) -> PathBuf {
        self.path.join(PREDICTIONS)
    }

    /// `scores.json`: all scores with their intervals.
    pub fn scores(&self) -> PathBuf {
        self.path.join("scores.json")
    }

    /// `cases.csv`: how well each class of each evaluated case was found, in a run that segments.
    pub fn cases(&self) -> PathBuf {
        self.path.join(CASES)
    }

    /// `segmentation.json`: all scores of the cases with their intervals, in a run that segments.
    pub fn segmentation_scores(&self) -> PathBuf {
        self.path.join("segmentation.json")
    }

    /// `regression.json`: all scores of the numbers with their intervals, in a run that answers with a number.
    pub fn regression_scores(&self) -> PathBuf {
        self.path.join("regression.json")
    }

    /// `weights.safetensors`: the best weights.
    pub fn weights(&self) -> PathBuf {
        self.path.join("weights.safetensors")
    }

    /// `weights-last.safetensors`: the weights after the last step.
    pub fn last_weights(&self) -> PathBuf {
        self.path.join("weights-last.safetensors")
    }

    /// `environment.json`: what it ran on.
    pub fn environment(&self) -> PathBuf {
        self.path.join("environment.json")
    }

    /// `history.jsonl`: one line each time the run was started or continued.
    pub fn history(&self) -> PathBuf {
        self.path.join("history.jsonl")
    }

    /// `report.html`: all of it for a reader.
    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }

    /// `bad-samples.jsonl`: what could not be read.
    pub fn bad_samples(&self) -> PathBuf {
        self.path.join("bad-samples.jsonl")
    }

    /// `data.csv`: the samples it was trained on.
    pub fn data(&self) -> PathBuf {
        self.path.join("data.csv")
    }

    /// `samples`: the folder of a generator's grids.
    pub fn samples(&self) -> PathBuf {
        self.path.join("samples")
    }

    /// `checkpoints`: the folder of states to resume from.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// `tracking`: the folder of what other trackers read.
    pub fn tracking(&self) -> PathBuf {
        self.path.join("tracking")
    }

    /// Whether a path inside the folder is one of the run's own, there or not yet.
    pub fn owns(&self, path: &Path) -> bool {
        let files = [
            self.config(),
            self.events(),
            self.metrics(),
            self.predictions(),
            self.scores(),
            self.cases(),
            self.segmentation_scores(),
            self.regression_scores(),
            self.last_weights(),
            self.weights(),
            self.environment(),
            self.history(),
            self.report(),
            self.bad_samples(),
            self.data(),
        ];
        files.iter().any(|file| file == path)
            || [self.samples(), self.checkpoints(), self.tracking()].iter().any(|it| path.starts_with(it))
    }

    /// Writes `config.toml`, atomically. Whole numbers above `i64::MAX` have no place in TOML and are an error.
    ///
    /// # Errors
    /// [`RunError::Inexpressible`], [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write_config<T: Serialize>(&self, config: &T) -> Result<(), RunError> {
        let path = self.config();
        match toml::to_string(config) {
            Ok(text) => write_atomically(&path, text.as_bytes()),
            Err(error) => Err(RunError::Inexpressible { path, reason: one_line(&error.to_string()) }),
        }
    }

    /// Reads `config.toml` back.
    ///
    /// # Errors
    /// See [`read_toml`].
    pub fn read_config<T: DeserializeOwned>(&self) -> Result<T, RunError> {
        read_toml(&self.config())
    }

    /// Writes `data.csv`, atomically. One that is there already is kept as `data-1.csv`, `data-2.csv` and so on.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write_data(&self, text: &[u8]) -> Result<(), RunError> {
        let path = self.data();
        if path.exists() {
            let kept = (1_u32..).map(|number| self.path.join(format!("data-{number}.csv"))).find(|kept| !kept.exists());
            if let Some(kept) = kept {
                // A second name, so that there is a list at every moment.
                fs::hard_link(&path, &kept)
                    .or_else(|_| fs::copy(&path, &kept).map(drop))
                    .map_err(RunError::on("write", &kept))?;
            }
        }
        write_atomically(&path, text)
    }

    /// Writes `metrics.json`, atomically.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write_metrics(&self, metrics: &Metrics) -> Result<(), RunError> {
        write_json(&self.metrics(), metrics)
    }

    /// Writes `metrics.json` of two networks, atomically.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write_gan_metrics(&self, metrics: &GanMetrics) -> Result<(), RunError> {
        write_json(&self.metrics(), metrics)
    }

    /// Reads `metrics.json` back.
    ///
    /// # Errors
    /// [`RunError::Malformed`], [`RunError::Io`].
    pub fn read_metrics(&self) -> Result<Metrics, RunError> {
        read_json(&self.metrics())
    }

    /// Reads `metrics.json` of two networks back.
    ///
    /// # Errors
    /// [`RunError::Malformed`], [`RunError::Io`].
    pub fn read_gan_metrics(&self) -> Result<GanMetrics, RunError> {
        read_json(&self.metrics())
    }

    /// Writes `scores.json`, atomically.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write_scores(&self, scores: &Scores) -> Result<(), RunError> {
        write_json(&self.scores(), scores)
    }

    /// Reads `scores.json` back; `None` if there is none, as in runs of earlier versions.
    ///
    /// # Errors
    /// [`RunError::Malformed`], [`RunError::Io`].
    pub fn read_scores(&self) -> Result<Option<Scores>, RunError> {
        if self.scores().exists() { read_json(&self.scores()).map(Some) } else { Ok(None) }
    }

    /// Writes `segmentation.json`, atomically.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write_segmentation_scores(&self, scores: &SegmentationScores) -> Result<(), RunError> {
        write_json(&self.segmentation_scores(), scores)
    }

    /// Reads `segmentation.json` back; `None` if there is none, as in runs that classify.
    ///
    /// # Errors
    /// [`RunError::Malformed`], [`RunError::Io`].
    pub fn read_segmentation_scores(&self) -> Result<Option<SegmentationScores>, RunError> {
        let path = self.segmentation_scores();
        if path.exists() { read_json(&path).map(Some) } else { Ok(None) }
    }

    /// Writes `regression.json`, atomically.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write_regression_scores(&self, scores: &RegressionScores) -> Result<(), RunError> {
        write_json(&self.regression_scores(), scores)
    }

    /// Reads `regression.json` back; `None` if there is none, as in runs that classify.
    ///
    /// # Errors
    /// [`RunError::Malformed`], [`RunError::Io`].
    pub fn read_regression_scores(&self) -> Result<Option<RegressionScores>, RunError> {
        let path = self.regression_scores();
        if path.exists() { read_json(&path).map(Some) } else { Ok(None) }
    }

    /// Writes `cases.csv`, atomically.
    ///
    /// # Errors
    /// See [`CaseTable::write`].
    pub fn write_cases(&self, cases: &CaseTable) -> Result<(), RunError> {
        cases.write(&self.cases())
    }

    /// Reads `cases.csv` back; `None` if there is none, as in runs that classify.
    ///
    /// # Errors
    /// [`RunError::Malformed`] with the line, [`RunError::Io`].
    pub fn read_cases(&self) -> Result<Option<CaseTable>, RunError> {
        let path = self.cases();
        if path.exists() { CaseTable::read(&path).map(Some) } else { Ok(None) }
    }

    /// Writes `environment.json`, atomically.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write_environment(&self, environment: &Environment) -> Result<(), RunError> {
        write_json(&self.environment(), environment)
    }

    /// Reads `environment.json` back.
    ///
    /// # Errors
    /// [`RunError::Malformed`], [`RunError::Io`].
    pub fn read_environment(&self) -> Result<Environment, RunError> {
        read_json(&self.environment())
    }

    /// Writes `report.html`, atomically.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write_report(&self, html: &str) -> Result<(), RunError> {
        write_atomically(&self.report(), html.as_bytes())
    }
}

/// Reads a configuration from a TOML file, a run's or any other.
///
/// # Errors
/// [`RunError::Malformed`] with the place, [`RunError::Io`].
pub fn read_toml<T: DeserializeOwned>(path: &Path) -> Result<T, RunError> {
    let text = files::read_to_string(path, files::MAX_TEXT_BYTES).map_err(RunError::on("read", path))?;
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let place = line.map(|line| format!(" in line {line}")).unwrap_or_default();
        RunError::Malformed { path: path.into(), reason: one_line(error.message()) + &place }
    })
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), RunError> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| RunError::Inexpressible { path: path.into(), reason: error.to_string() })?;
    text.push(b'\n');
    write_atomically(path, &text)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, RunError> {
    let text = files::read(path, files::MAX_TEXT_BYTES).map_err(RunError::on("read", path))?;
    serde_json::from_slice(&text).map_err(|error| RunError::Malformed { path: path.into(), reason: error.to_string() })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The last part of a path or name, in characters that every file system and shell takes.
fn file_name(text: &str, otherwise: &str) -> String {
    let last = Path::new(text).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let safe: String = last
        .chars()
        .take(48)
        .map(|character| if character.is_ascii_alphanumeric() || "_.".contains(character) { character } else { '-' })
        .collect();
    match safe.trim_matches(['-', '.']) {
        "" => otherwise.to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindling_metrics::{ClassMaskScores, LengthUnit, NamedClass, Resampling, SegmentedCase, VoxelCounts};

    #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
    struct Config {
        model: String,
        seed: u64,
    }

    fn config() -> Config {
        Config { model: "mobilenet_v2".into(), seed: 7 }
    }

    #[test]
    fn a_run_that_is_withdrawn_leaves_room_for_another_and_what_is_not_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        for others in [false, true] {
            let run = RunDir::create(Some(&path), "m", "d").unwrap();
            run.write_data(b"split,path\n").unwrap();
            run.write_config(&config()).unwrap();
            let own = path.join("notes.txt");
            if others {
                fs::write(&own, "mine").unwrap();
            }
            run.withdraw();
            assert_eq!((path.exists(), own.exists()), (others, others));
        }
        assert!(!path.join("config.toml").exists() && !path.join("data.csv").exists());
    }

    #[test]
    fn an_existing_run_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let run = RunDir::create(Some(&path), "m", "d").unwrap();
        run.write_config(&config()).unwrap();
        let error = RunDir::create(Some(&path), "m", "d").unwrap_err();
        assert!(matches!(error, RunError::Taken { .. }));
        let text = error.to_string();
        assert!(text.contains("--resume") && text.contains("--out"), "{text}");
        assert_eq!(run.read_config::<Config>().unwrap(), config());
    }

    #[test]
    fn a_folder_with_other_files_is_not_taken_for_a_run() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.txt"), "mine").unwrap();
        let error = RunDir::create(Some(folder.path()), "m", "d").unwrap_err();
        assert!(matches!(error, RunError::NotEmpty { .. }), "{error}");
        let error = RunDir::create(Some(&folder.path().join("thesis.txt")), "m", "d").unwrap_err();
        assert!(matches!(error, RunError::NotAFolder { .. }), "{error}");
        assert!(matches!(RunDir::open(folder.path()), Err(RunError::NotARun { .. })));
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let names: Vec<_> = (0..3).map(|_| RunDir::create_named(&runs, "t-m-d").unwrap().path).collect();
        assert_eq!(names, [runs.join("t-m-d"), runs.join("t-m-d-2"), runs.join("t-m-d-3")]);
    }

    #[test]
    fn a_run_can_be_opened_once_its_configuration_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(Some(folder.path()), "m", "d").unwrap();
        RunDir::open(folder.path()).unwrap_err();
        run.write_config(&config()).unwrap();
        assert_eq!(RunDir::open(folder.path()).unwrap(), run);
    }

    #[test]
    fn what_a_kill_in_the_first_moment_leaves_takes_a_run_and_is_none_yet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        assert!(matches!(RunDir::open(&path), Err(RunError::NotARun { .. })), "there is no folder");
        for half in [None, Some(".config.toml.partial")] {
            RunDir::create(Some(&path), "m", "d").unwrap();
            half.into_iter().for_each(|name| fs::write(path.join(name), "mo").unwrap());
            let error = RunDir::open(&path).unwrap_err();
            assert!(matches!(error, RunError::NotYetARun { .. }), "{error}");
        }
        RunDir::create(Some(&path), "m", "d").unwrap().write_config(&config()).unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "what was half written is taken over");
    }

    #[test]
    fn names_of_data_become_safe_file_names() {
        assert_eq!(file_name("/scans/Köln 2024/", "data"), "K-ln-2024");
        assert_eq!(file_name("brain-planes", "data"), "brain-planes");
        assert_eq!(file_name("..", "data"), "data");
        assert_eq!(file_name("../.hidden", "data"), "hidden");
        assert_eq!(file_name("<b>;$(rm)", "data"), "b----rm");
        assert_eq!(file_name("", "data"), "data");
    }

    #[test]
    fn a_wrong_configuration_names_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        fs::write(&path, "model = \"m\"\nseed = \"seven\"\n").unwrap();
        let text = read_toml::<Config>(&path).unwrap_err().to_string();
        assert!(text.contains("config.toml") && text.contains("line 2") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn scores_of_a_run_that_segments_are_its_own_files_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(Some(&folder.path().join("run")), "m", "d").unwrap();
        assert!(run.read_segmentation_scores().unwrap().is_none() && run.read_cases().unwrap().is_none());
        assert!(run.owns(&run.cases()) && run.owns(&run.segmentation_scores()));
        let scores = ClassMaskScores {
            class: 1,
            voxels: VoxelCounts::default(),
            dice: 0.5,
            iou: 1.0 / 3.0,
            hausdorff_95: 2.0,
            surface_dice: 0.75,
        };
        let case = |sample: &str| SegmentedCase {
            sample: sample.into(),
            split: "test".into(),
            scores: vec![scores],
            ..SegmentedCase::default()
        };
        let classes = vec![NamedClass { name: "a".into(), label: 1 }];
        let table = CaseTable { classes: classes.clone(), cases: vec![case("x"), case("y")] };
        let tolerance = (2.0, LengthUnit::Millimetres);
        let scores = SegmentationScores::of("test", &classes, tolerance, &table.cases, Resampling::default()).unwrap();
        run.write_cases(&table).unwrap();
        run.write_segmentation_scores(&scores).unwrap();
        assert_eq!(run.read_cases().unwrap(), Some(table));
        assert_eq!(run.read_segmentation_scores().unwrap(), Some(scores));
        assert!(fs::read_to_string(run.segmentation_scores()).unwrap().contains("\"unit\": \"mm\""));
        fs::write(run.segmentation_scores(), "{\n\"split\": 7}").unwrap();
        let sentence = run.read_segmentation_scores().unwrap_err().to_string();
        assert!(sentence.contains("segmentation.json") && sentence.contains("line 2"), "{sentence}");
    }
}
