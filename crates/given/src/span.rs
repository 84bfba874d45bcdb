//! A time as people write it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// A time in whole seconds, from nothing to some hundred million years. Written `90s`, `10m`, `1h 30m`, in files too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(u32);

impl Span {
    /// So many minutes.
    pub const fn minutes(minutes: u32) -> Self {
        Self(60 * minutes)
    }

    /// So many hours.
    pub const fn hours(hours: u32) -> Self {
        Self(3600 * hours)
    }

    /// So many seconds.
    pub const fn seconds(seconds: u32) -> Self {
        Self(seconds)
    }

    /// For clocks.
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.0))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed: Option<SignedDuration> = text.trim().parse().ok();
        let seconds =
            parsed.filter(|time| time.subsec_nanos() == 0).and_then(|time| u32::try_from(time.as_secs()).ok());
        seconds
            .map(Self)
            .ok_or_else(|| format!("`{}` is no time in whole seconds: write 90s, 10m or 1h 30m", text.escape_debug()))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", SignedDuration::from_secs(i64::from(self.0)))
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("1h 30m", 5400), ("0s", 0), ("24h", 86400)] {
            let span: Span = text.parse().expect("a time");
            assert_eq!(span, Span::seconds(seconds));
            assert_eq!(span.to_string().parse(), Ok(span), "{span}");
        }
        assert_eq!(Span::minutes(10).to_string(), "10m");
    }

    #[test]
    fn what_is_no_time_is_told_with_examples() {
        for text in ["10", "-1s", "0.5s", "ten", "", "10000000000000000h"] {
            let sentence = text.parse::<Span>().expect_err(text);
            assert!(sentence.contains("write 90s, 10m or 1h 30m"), "{sentence}");
        }
    }
}
