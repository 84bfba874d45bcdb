//! Checks of values that people and files give: names from a fixed list and numbers within a range, with the same wording of errors
//! everywhere; counts and bytes as words; and times.

mod absent;
mod span;

use std::fmt::Display;
use std::ops::RangeInclusive;

use bytesize::ByteSize;
use strum::VariantArray;

pub use absent::{auto, even, none, paper};
pub use span::Span;

/// An enum whose values are chosen by name. `strum` parses and displays the names; this trait provides the error for any other name.
///
/// ```
/// use kindling_given::{Named, UnknownName};
///
/// #[derive(Clone, Copy, Debug, PartialEq, strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
/// #[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
/// enum Precision {
///     F32,
///     Bf16,
///     F16,
/// }
///
/// impl Named for Precision {
///     const KIND: &str = "precision";
/// }
///
/// assert_eq!("bf16".parse(), Ok(Precision::Bf16));
/// let sentence = "fp8".parse::<Precision>().unwrap_err().to_string();
/// assert_eq!(sentence, "`fp8` is no precision: choose f32, bf16 or f16");
/// ```
pub trait Named: VariantArray + Copy + Into<&'static str> {
    /// What is named, as it reads after "is no".
    const KIND: &'static str;

    /// The error for a name that none of the values has.
    fn unknown(given: &str) -> UnknownName {
        let names: Vec<&str> = Self::VARIANTS.iter().map(|&value| value.into()).collect();
        UnknownName::new(Self::KIND, given, &names)
    }
}

/// All values of an enum, in order. An array of the wrong length does not compile.
pub const fn all<T: VariantArray + Copy, const COUNT: usize>() -> [T; COUNT] {
    match T::VARIANTS.first_chunk() {
        Some(values) if T::VARIANTS.len() == COUNT => *values,
        _ => panic!("the enum has another number of values"),
    }
}

/// The error for a name that is not in a fixed list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no {kind}: choose {known}", given.escape_debug())]
pub struct UnknownName {
    /// What is named.
    pub kind: &'static str,
    /// The unknown name.
    pub given: String,
    /// The known names as in a sentence: `train, val or test`.
    pub known: String,
}

impl UnknownName {
    /// The error for the name `given`, where one of `known` is expected.
    pub fn new(kind: &'static str, given: &str, known: &[&str]) -> Self {
        let known = match known {
            [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            few => few.concat(),
        };
        Self { kind, given: given.to_owned(), known }
    }
}

/// Bytes in binary units, with two or three digits that count: `17 B`, `1.43 MiB`, `8 GiB`.
pub fn in_units(bytes: u64) -> String {
    // The power of two of the unit: 30 for GiB.
    let unit = bytes.checked_ilog2().unwrap_or(0) / 10 * 10;
    let whole = bytes.trailing_zeros() >= unit;
    let digits = if whole { 0 } else { 1 + usize::from(bytes >> unit < 10) };
    format!("{:.digits$}", ByteSize(bytes).display().iec())
}

/// A number of things: `1 step`, `2 steps`, for words that take an `s`.
pub fn counted<T: PartialEq + Display + From<u8>>(count: T, one: &str) -> String {
    let end = if count == T::from(1) { "" } else { "s" };
    format!("{count} {one}{end}")
}

/// Checks that `value` lies in `range`.
///
/// # Errors
/// A sentence that names the value and the range: "the batch size is 0; it must lie between 1 and 1048576". NaN lies in no range.
pub fn within<T: PartialOrd + Display>(what: &str, value: T, range: RangeInclusive<T>) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(format!("the {what} is {value}; it must lie between {} and {}", range.start(), range.end()))
}

/// Checks that `value` is at least `from` and less than `below`.
///
/// # Errors
/// As [`within`].
pub fn below<T: PartialOrd + Display>(what: &str, value: T, from: T, below: T) -> Result<(), String> {
    if value >= from && value < below {
        return Ok(());
    }
    Err(format!("the {what} is {value}; it must be at least {from} and below {below}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_shown_as_it_is_and_the_known_ones_are_listed() {
        let sentence = |known: &[&str]| UnknownName::new("split", "a\u{7}b", known).to_string();
        assert_eq!(sentence(&["train", "val", "test"]), "`a\\u{7}b` is no split: choose train, val or test");
        assert_eq!(sentence(&["fail", "skip"]), "`a\\u{7}b` is no split: choose fail or skip");
        assert_eq!(sentence(&["all"]), "`a\\u{7}b` is no split: choose all");
    }

    #[test]
    fn one_thing_is_not_told_as_several() {
        assert_eq!([counted(0u64, "step"), counted(1, "step"), counted(2, "step")], ["0 steps", "1 step", "2 steps"]);
    }

    #[test]
    fn a_value_out_of_range_is_named_with_the_range() {
        assert_eq!(within("batch size", 7, 1..=8), Ok(()));
        let sentence = within("batch size", usize::MAX, 1..=8).expect_err("too many");
        assert_eq!(sentence, "the batch size is 18446744073709551615; it must lie between 1 and 8");
        assert!(within("rate", f64::NAN, 0.0..=1.0).is_err());
        assert!(below("rate", 1.0, 0.0, 1.0).is_err() && below("rate", f64::NAN, 0.0, 1.0).is_err());
        assert_eq!(below("rate", 0.0, 0.0, 1.0), Ok(()));
    }
}
