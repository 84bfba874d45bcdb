//! Numbers as people read them.

/// What stands where a number is not known.
pub(crate) const UNKNOWN: &str = "-";

/// A loss, a norm, a rate: about three digits that count, never wider than nine characters.
pub(crate) fn short(number: f64) -> String {
    let size = number.abs();
    if number.is_nan() {
        "NaN".into()
    } else if number.is_infinite() {
        if number > 0.0 { "inf".into() } else { "-inf".into() }
    } else if size == 0.0 {
        "0".into()
    } else if !(0.001..1e5).contains(&size) {
        format!("{number:.2e}")
    } else if size < 0.1 {
        format!("{number:.4}")
    } else if size < 100.0 {
        format!("{number:.3}")
    } else {
        format!("{number:.1}")
    }
}

/// A share of one as a percentage: `83.2 %`.
pub(crate) fn percent(share: f64, digits: usize) -> String {
    if share.is_finite() { format!("{:.digits$} %", share * 100.0) } else { short(share) }
}

/// Dice, which is usually not written as a percentage: `0.832`.
pub(crate) fn overlap(dice: f64) -> String {
    if dice.is_finite() { format!("{dice:.3}") } else { short(dice) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_stay_short() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (0.4123, "0.412"),
            (12.3456, "12.346"),
            (1234.56, "1234.6"),
            (0.003, "0.0030"),
            (3.0e-5, "3.00e-5"),
            (-1.5e300, "-1.50e300"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, text) in cases {
            assert_eq!(short(number), text);
            assert!(short(number).len() <= 9, "{text}");
        }
        assert_eq!([percent(0.8321, 1), percent(f64::NAN, 1)], ["83.2 %", "NaN"]);
        assert_eq!([overlap(0.08321), overlap(1.0), overlap(f64::NAN)], ["0.083", "1.000", "NaN"]);
    }
}
