//! A value of a flag, or auto.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A value, or whatever turns out to be best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<T> {
    Auto,
    Fixed(T),
}

impl<T> Choice<T> {
    /// The value, if there is one.
    pub(crate) fn fixed(self) -> Option<T> {
        match self {
            Self::Auto => None,
            Self::Fixed(value) => Some(value),
        }
    }
}

impl<T: FromStr<Err: fmt::Display>> FromStr for Choice<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            value => value.parse().map(Self::Fixed).map_err(|error: T::Err| format!("{error} (or auto)")),
        }
    }
}

impl<T: Serialize> Serialize for Choice<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Fixed(value) => value.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_auto_or_a_value() {
        assert_eq!("auto".parse::<Choice<usize>>(), Ok(Choice::Auto));
        assert_eq!("4".parse(), Ok(Choice::Fixed(4usize)));
        assert!("some".parse::<Choice<usize>>().is_err());
    }
}
