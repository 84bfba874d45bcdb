//! The trackers by name, as people give them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use kindling_given::UnknownName;
use kindling_runs::RunDir;

/// A tracker that a run is delivered to: `tensorboard`, `wandb`, `mlflow=URL` or `csv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An event file that TensorBoard reads, also while it is written.
    TensorBoard,
    /// A folder of an offline run, for `wandb sync`. Nothing is sent.
    Wandb,
    /// An MLflow server, over its REST interface.
    Mlflow(String),
    /// One table for spreadsheets.
    Csv,
}

/// The names, as they stand in a sentence about a wrong one.
const NAMES: [&str; 4] = ["tensorboard", "wandb", "mlflow=URL", "csv"];

/// Why a text names no tracker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The name is unknown.
    #[error("{0}")]
    Unknown(UnknownName),
    /// A tracker that is a server was given without its address.
    #[error("`mlflow` needs the address of its server, such as mlflow=http://localhost:5000")]
    NoAddress,
    /// The address of an MLflow server is invalid.
    #[error("`{}` is no address of an MLflow server: {reason}", given.escape_debug())]
    Address {
        /// The text that was given.
        given: String,
        /// What is wrong with the address.
        reason: &'static str,
    },
}

impl Target {
    /// What the tracker keeps in the run's folder by default: a folder for TensorBoard and W&B, a file otherwise. For MLflow it is
    /// the note under which name the run is known there.
    pub fn place(&self, run: &RunDir) -> PathBuf {
        run.tracking().join(match self {
            Self::TensorBoard => "tensorboard",
            Self::Wandb => "wandb",
            Self::Mlflow(_) => "mlflow.json",
            Self::Csv => "run.csv",
        })
    }

    /// The name of the tracker, as it reads in a sentence.
    pub fn title(&self) -> &'static str {
        match self {
            Self::TensorBoard => "TensorBoard",
            Self::Wandb => "Weights & Biases",
            Self::Mlflow(_) => "MLflow",
            Self::Csv => "CSV",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TensorBoard => f.write_str("tensorboard"),
            Self::Wandb => f.write_str("wandb"),
            Self::Mlflow(url) => write!(f, "mlflow={url}"),
            Self::Csv => f.write_str("csv"),
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(given: &str) -> Result<Self, TargetError> {
        match given.split_once('=') {
            None => match given {
                "tensorboard" => Ok(Self::TensorBoard),
                "wandb" => Ok(Self::Wandb),
                "csv" => Ok(Self::Csv),
                "mlflow" => Err(TargetError::NoAddress),
                _ => Err(TargetError::Unknown(UnknownName::new("tracker", given, &NAMES))),
            },
            Some(("mlflow", "")) => Err(TargetError::NoAddress),
            Some(("mlflow", url)) => address(url).map(Self::Mlflow),
            Some(_) => Err(TargetError::Unknown(UnknownName::new("tracker", given, &NAMES))),
        }
    }
}

/// Checks the address of a server, and takes slashes off its end.
fn address(given: &str) -> Result<String, TargetError> {
    let wrong = |reason| Err(TargetError::Address { given: given.to_owned(), reason });
    let Some(rest) = given.strip_prefix("http://").or_else(|| given.strip_prefix("https://")) else {
        return wrong("it must begin with http:// or https://");
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('@') {
        // Addresses stand in logs and in the run's files.
        return wrong(
            "name and password do not belong there; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
        );
    }
    if rest.contains(['?', '#']) {
        return wrong("it must end with its path");
    }
    let name = if host.starts_with('[') { host.split_inclusive(']').next() } else { host.split(':').next() };
    if name.is_none_or(str::is_empty) {
        return wrong("there is no host in it");
    }
    if given.contains(|character: char| character.is_whitespace() || character.is_control()) {
        return wrong("there are spaces in it");
    }
    let port = &host[name.map_or(0, str::len)..];
    if !(port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())) {
        return wrong("its port is no number from 0 to 65535");
    }
    Ok(given.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tracker_is_read_as_it_is_shown() {
        for given in ["tensorboard", "wandb", "csv", "mlflow=http://localhost:5000", "mlflow=https://[::1]:8080/a"] {
            assert_eq!(given.parse::<Target>().unwrap().to_string(), given);
        }
        assert_eq!("mlflow=http://a/".parse(), Ok(Target::Mlflow("http://a".into())));
    }

    #[test]
    fn a_wrong_name_or_address_gets_a_sentence() {
        for (given, said) in [
            ("tensorbord", "`tensorbord` is no tracker: choose tensorboard, wandb, mlflow=URL or csv"),
            ("wandb=x", "`wandb=x` is no tracker"),
            ("mlflow", "needs the address"),
            ("mlflow=", "needs the address"),
            ("mlflow=localhost:5000", "must begin with http://"),
            ("mlflow=http://", "no host"),
            ("mlflow=http://:5000", "no host"),
            ("mlflow=http://a:b", "port is no number"),
            ("mlflow=http://a b", "spaces"),
            ("mlflow=http://me:secret@a", "MLFLOW_TRACKING_USERNAME"),
            ("mlflow=http://a/?x=1", "end with its path"),
        ] {
            let sentence = given.parse::<Target>().unwrap_err().to_string();
            assert!(sentence.contains(said), "{given}: {sentence}");
        }
    }
}
