//! What people and files give: names of a fixed list, numbers within a range. One wording for all of them.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// A name that is not one of a fixed list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} {given:?}; choose one of {known}")]
pub struct UnknownName {
    /// What the name is for.
    pub kind: &'static str,
    /// The name given.
    pub given: String,
    /// The names there are, separated by commas.
    pub known: &'static str,
}

/// Whether `value` lies in `range`.
///
/// # Errors
/// A sentence that names the value and the range: "the batch size is 0; it must lie between 1 and 1048576". A number that is
/// not a number lies in no range.
pub fn within<T: PartialOrd + Display>(what: &str, value: T, range: RangeInclusive<T>) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(format!("the {what} is {value}; it must lie between {} and {}", range.start(), range.end()))
}

/// Whether `value` is at least `from` and less than `below`.
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
    fn a_value_out_of_range_is_named_with_the_range() {
        assert_eq!(within("batch size", 7, 1..=8), Ok(()));
        let sentence = within("batch size", usize::MAX, 1..=8).expect_err("too many");
        assert_eq!(sentence, "the batch size is 18446744073709551615; it must lie between 1 and 8");
        assert!(within("rate", f64::NAN, 0.0..=1.0).is_err());
        assert!(below("rate", 1.0, 0.0, 1.0).is_err() && below("rate", f64::NAN, 0.0, 1.0).is_err());
        assert_eq!(below("rate", 0.0, 0.0, 1.0), Ok(()));
    }
}
