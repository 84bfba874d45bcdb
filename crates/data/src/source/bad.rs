//! What happens to a sample that cannot be read.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use kindling_given::{Named, UnknownName};

/// What happens to a sample that cannot be read. Written `fail` and `skip`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
pub enum OnBadSample {
    /// Loading ends with its error.
    #[default]
    Fail,
    /// Another sample, of its class where there is one, takes its place: which one depends on (seed, epoch, sample)
    /// alone. In an epoch that is not shuffled it is left out, because an evaluation counts nothing twice.
    Skip,
}

impl Named for OnBadSample {
    const KIND: &str = "answer to a bad sample";
}

/// How many samples of a source may be bad before loading ends: a share, written `1%`, or a number, written `3`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxBad {
    /// A share of the source's samples, 0 to 1.
    Share(f64),
    /// This many.
    Count(u64),
}

impl Default for MaxBad {
    fn default() -> Self {
        Self::Share(0.01)
    }
}

impl MaxBad {
    /// The most bad samples a source of `len` samples may have.
    pub fn of(self, len: usize) -> u64 {
        match self {
            Self::Share(share) => (share * len as f64) as u64,
            Self::Count(count) => count,
        }
    }
}

impl fmt::Display for MaxBad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => write!(f, "{}%", share * 100.0),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

impl FromStr for MaxBad {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = || text.strip_suffix('%')?.trim().parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
        match (share(), text.parse()) {
            (Some(percent), _) => Ok(Self::Share(percent / 100.0)),
            (None, Ok(count)) => Ok(Self::Count(count)),
            (None, Err(_)) => Err(format!("`{text}` is neither a share like 1% nor a number of samples like 3")),
        }
    }
}

/// A sample that could not be read, and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadSample {
    /// Index of the sample in its source.
    pub sample: u64,
    /// Its name in messages: a path, usually.
    pub name: String,
    /// Why it could not be read.
    pub reason: String,
    /// The sample that took its place; none if it was left out.
    pub replacement: Option<u64>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn limits_are_shares_or_numbers() {
        assert_eq!("1%".parse(), Ok(MaxBad::default()));
        assert_eq!("0".parse(), Ok(MaxBad::Count(0)));
        for text in ["2.5%", "17", "100%"] {
            assert_eq!(text.parse::<MaxBad>().unwrap().to_string(), text);
        }
        for wrong in ["", "%", "-1", "101%", "NaN%", "0.5", "some"] {
            assert!(wrong.parse::<MaxBad>().unwrap_err().contains(wrong), "{wrong}");
        }
        assert_eq!([99, 100, 250].map(|len| MaxBad::default().of(len)), [0, 1, 2]);
        assert_eq!(MaxBad::Count(3).of(10), 3);
    }
}
