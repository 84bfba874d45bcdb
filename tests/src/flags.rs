//! Flags of a run, to be varied: the command takes each once.

use std::collections::BTreeMap;
use std::fmt;

/// Flags with their values, without the dashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags(BTreeMap<String, String>);

impl Flags {
    /// `--batch-size 8 --quiet`, as it is typed.
    ///
    /// # Panics
    /// If it does not begin with a flag.
    pub fn of(text: &str) -> Self {
        let mut flags: Vec<(String, Vec<&str>)> = Vec::new();
        for word in text.split_whitespace() {
            match word.strip_prefix("--") {
                Some(name) => flags.push((name.to_string(), Vec::new())),
                None => flags.last_mut().unwrap_or_else(|| panic!("`{word}` belongs to no flag")).1.push(word),
            }
        }
        Self(flags.into_iter().map(|(name, value)| (name, value.join(" "))).collect())
    }

    /// These flags, those of `text` in place of their own.
    pub fn with(&self, text: &str) -> Self {
        let mut all = self.0.clone();
        all.extend(Self::of(text).0);
        Self(all)
    }

    /// These flags but one.
    pub fn without(&self, name: &str) -> Self {
        let mut all = self.0.clone();
        all.remove(name);
        Self(all)
    }

    /// The value of a flag.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(name, value)| format!("--{name} {value}").trim().into()).collect();
        formatter.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::Flags;

    #[test]
    fn a_flag_that_is_given_again_replaces_the_first() {
        let flags = Flags::of("--lr 1 --quiet --seed 3").with("--lr 2").without("seed");
        assert_eq!(flags.to_string(), "--lr 2 --quiet");
        assert_eq!((flags.get("lr"), flags.get("quiet"), flags.get("seed")), (Some("2"), Some(""), None));
    }
}
