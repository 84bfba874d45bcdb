//! Windows of grey values.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The values that are shown: `centre - width / 2` becomes black, `centre + width / 2` white. Written `40,400`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Window {
    /// The value that is shown as middle grey.
    pub centre: f64,
    /// The difference between the values for black and white, above 0.
    pub width: f64,
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.centre, self.width)
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once(',').and_then(|(centre, width)| {
            Some(Self { centre: centre.trim().parse().ok()?, width: width.trim().parse().ok()? })
        });
        parsed
            .filter(|window| window.centre.is_finite() && window.width.is_finite() && window.width > 0.0)
            .ok_or_else(|| format!("{text:?} is not a window; give its centre and its width, as in 40,400"))
    }
}

impl TryFrom<String> for Window {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Window> for String {
    fn from(window: Window) -> Self {
        window.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn windows_are_read_and_written_alike() {
        for text in ["40,400", "-600,1500", "0.5,0.25"] {
            assert_eq!(text.parse::<Window>().unwrap().to_string(), text);
        }
        assert_eq!(serde_json::to_string(&Window { centre: 40.0, width: 400.0 }).unwrap(), "\"40,400\"");
        for text in ["", "40", "40,0", "40,-1", "a,b", "inf,1", "1,NaN", "1,2,3"] {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }
}
