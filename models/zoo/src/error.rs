//! Errors of the zoo.

use std::path::PathBuf;

use kindling_layers::names::KeyStyle;
use kindling_layers::parameters::Mismatch;

use crate::limits::{MAX_CHANNELS, MAX_CLASSES};

/// An error of the zoo; each displays as one sentence.
#[derive(Debug, thiserror::Error)]
pub enum ZooError {
    /// No model has this name.
    #[error("there is no model `{name}`{}", did_you_mean(.near))]
    UnknownModel {
        /// The unknown name.
        name: String,
        /// Names close to it, nearest first.
        near: Vec<String>,
    },
    /// The model has no classes.
    #[error("{0} generates images and is not a classifier; `kindling models show {0}` describes it")]
    Generator(&'static str),
    /// The model cannot take images of this size.
    #[error("{model} takes images of {min} to {max} pixels a side, not {size}")]
    ImageSize {
        /// The model's name.
        model: &'static str,
        /// The size asked for.
        size: usize,
        /// The smallest it takes.
        min: usize,
        /// The largest it takes.
        max: usize,
    },
    /// A head has at least two classes.
    #[error("a classifier needs at least 2 classes, not {0}, and takes at most {most}", most = MAX_CLASSES)]
    Classes(usize),
    /// Images have at least one channel.
    #[error("a model needs images of at least 1 channel, not {0}, and takes at most {most}", most = MAX_CHANNELS)]
    Channels(usize),
    /// A rate is a share.
    #[error("the {what} must be at least 0 and below 1, not {rate}")]
    Rate {
        /// Which rate.
        what: &'static str,
        /// The value asked for.
        rate: f64,
    },
    /// Its library has no auxiliary classifier for the network.
    #[error("{0} has no auxiliary classifier; deeplabv3_ and fcn_ networks do")]
    NoAuxiliary(String),
    /// A file could not be read or written.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what it claims to be.
    #[error("{} is not a usable weights file: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A tensor could not be read from the device.
    #[error("the weights could not be read from the device: {0}")]
    Device(String),
    /// A library does not have this network.
    #[error("{library} has no {model}; its weights can be written with the keys of {}", .known.join(", "))]
    NoNames {
        /// The library whose keys were asked for.
        library: KeyStyle,
        /// The model.
        model: String,
        /// Whose keys there are.
        known: Vec<String>,
    },
    /// A file holds another model's weights.
    #[error("{} does not hold weights of {model}: {mismatch}", path.display())]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// The model that was to be filled.
        model: String,
        /// The first difference.
        mismatch: Mismatch,
    },
}

fn did_you_mean(near: &[String]) -> String {
    match near {
        [] => "; `kindling models` lists them".to_string(),
        [one] => format!("; did you mean `{one}`?"),
        several => format!("; did you mean one of `{}`?", several.join("`, `")),
    }
}
