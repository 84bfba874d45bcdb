//! Floating-point numbers in JSON, which cannot represent numbers that are not finite.
//!
//! A loss that became NaN is the most interesting one of a run. So such numbers are written as the texts `"NaN"`, `"inf"` and `"-inf"`
//! instead of `null`. Use with `#[serde(with = "kindling_metrics::number")]`.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a number, or the text for one that is not finite.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        serializer.serialize_f64(*value)
    } else if value.is_nan() {
        serializer.serialize_str("NaN")
    } else if *value > 0.0 {
        serializer.serialize_str("inf")
    } else {
        serializer.serialize_str("-inf")
    }
}

/// Reads a number, or the text for one that is not finite.
///
/// # Errors
/// Those of the deserializer, for anything else.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_any(Number)
}

/// The same for a number that may be missing, which is written as `null`. Use with `#[serde(with = "kindling_metrics::number::option")]`.
pub mod option {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Present(#[serde(with = "super")] f64);

    /// Writes a number, the text for one that is not finite, or `null`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(Present).serialize(serializer)
    }

    /// Reads a number, the text for one that is not finite, or `null`.
    ///
    /// # Errors
    /// Those of the deserializer, for anything else.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Present>::deserialize(deserializer)?.map(|Present(value)| value))
    }
}

struct Number;

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number, \"NaN\", \"inf\" or \"-inf\"")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        match text {
            "NaN" => Ok(f64::NAN),
            "inf" => Ok(f64::INFINITY),
            "-inf" => Ok(f64::NEG_INFINITY),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Maybe(#[serde(with = "super::option")] Option<f64>);

    #[test]
    fn a_number_that_is_none_is_told_apart_from_one_that_is_not_there() {
        for (value, text) in
            [(None, "null"), (Some(f64::NAN), "\"NaN\""), (Some(f64::INFINITY), "\"inf\""), (Some(0.5), "0.5")]
        {
            assert_eq!(serde_json::to_string(&Maybe(value)).unwrap(), text);
            let Maybe(read) = serde_json::from_str(text).unwrap();
            assert_eq!(read.map(f64::to_bits), value.map(f64::to_bits), "{text}");
        }
        assert!(serde_json::from_str::<Maybe>("\"one\"").is_err());
    }
}
