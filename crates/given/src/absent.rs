//! Values that may be absent, for files that are to have every setting: a word stands for what is not there.
//!
//! The modules are for serde's `with`, beside `default`, so that files without the key are read as well:
//!
//! ```
//! #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
//! struct Config {
//!     #[serde(default, with = "kindling_given::none")]
//!     clip_norm: Option<f64>,
//! }
//!
//! let read = |text| serde_json::from_str::<Config>(text).unwrap().clip_norm;
//! assert_eq!(serde_json::to_string(&Config { clip_norm: None }).unwrap(), r#"{"clip_norm":"none"}"#);
//! assert_eq!((read(r#"{"clip_norm":"none"}"#), read(r#"{"clip_norm":5}"#), read("{}")), (None, Some(5.0), None));
//! ```

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

macro_rules! absent_as {
    ($($(#[$about:meta])* $module:ident $word:literal)*) => {$(
        $(#[$about])*
        pub mod $module {
            use serde::de::{Deserialize, Deserializer};
            use serde::ser::{Serialize, Serializer};

            /// Writes the value, or the word.
            ///
            /// # Errors
            /// The serializer's.
            pub fn serialize<T: Serialize, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
                super::write($word, value, serializer)
            }

            /// Reads the value, or the word.
            ///
            /// # Errors
            /// The deserializer's, and those of the value.
            pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
            where
                T: Deserialize<'de>,
                D: Deserializer<'de>,
            {
                super::read($word, deserializer)
            }
        }
    )*};
}

absent_as! {
    /// `none`: there is nothing of the kind.
    none "none"
    /// `auto`: it is found out.
    auto "auto"
    /// `even`: all are the same.
    even "even"
    /// `paper`: as the model's paper has it.
    paper "paper"
}

fn write<T: Serialize, S: Serializer>(word: &str, value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => value.serialize(serializer),
        None => serializer.serialize_str(word),
    }
}

fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    word: &'static str,
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(OrWord(word, PhantomData))
}

/// Hands whatever it meets on to the type of the value, but for the word.
struct OrWord<T>(&'static str, PhantomData<T>);

impl<'de, T: Deserialize<'de>> OrWord<T> {
    fn value<E: Error>(deserializer: impl Deserializer<'de, Error = E>) -> Result<Option<T>, E> {
        T::deserialize(deserializer).map(Some)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for OrWord<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value or `{}`", self.0)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Self::value(value.into_deserializer())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Self::value(value.into_deserializer())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Self::value(value.into_deserializer())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Self::value(value.into_deserializer())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text == self.0 { Ok(None) } else { Self::value(text.into_deserializer()) }
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<Self::Value, A::Error> {
        Self::value(SeqAccessDeserializer::new(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, values: A) -> Result<Self::Value, A::Error> {
        Self::value(MapAccessDeserializer::new(values))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Level {
        None,
        File(String),
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Config {
        #[serde(default, with = "crate::none")]
        norm: Option<f64>,
        #[serde(default, with = "crate::auto")]
        level: Option<Level>,
        #[serde(default, with = "crate::even")]
        weights: Option<Vec<f64>>,
        #[serde(default, with = "crate::paper")]
        count: Option<u8>,
    }

    fn read(text: &str) -> Result<Config, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_absent_is_written_as_its_word_and_every_value_comes_back() {
        let absent = Config::default();
        let text = serde_json::to_string(&absent).unwrap();
        assert_eq!(text, r#"{"norm":"none","level":"auto","weights":"even","count":"paper"}"#);
        assert_eq!(read(&text), Ok(Config::default()));
        assert_eq!(read("{}"), Ok(Config::default()), "files of before leave it out");
        for level in [Level::None, Level::File("x".into())] {
            let weights = Some(vec![1.0, 2.5]);
            let config = Config { norm: Some(5.5), level: Some(level), weights, count: Some(7) };
            assert_eq!(read(&serde_json::to_string(&config).unwrap()), Ok(config));
        }
        assert_eq!(read(r#"{"norm":5}"#).unwrap().norm, Some(5.0), "a whole number is a number");
    }

    #[test]
    fn a_wrong_value_is_refused_as_its_type_would() {
        for (text, said) in [
            (r#"{"norm":"auto"}"#, "invalid type: string \"auto\", expected f64"),
            (r#"{"count":1000}"#, "expected u8"),
            (r#"{"level":"some"}"#, "unknown variant `some`"),
        ] {
            let sentence = read(text).unwrap_err();
            assert!(sentence.contains(said), "{sentence}");
        }
    }
}
