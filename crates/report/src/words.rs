//! Numbers and names as people write them. Units are held to their number by a no-break space.

/// `0.938` as `93.8 %`.
pub(crate) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1}\u{a0}%", share * 100.0) } else { "–".into() }
}

/// The same for a value that may be missing.
pub(crate) fn percent_or_dash(share: Option<f64>) -> String {
    share.map_or_else(|| "–".into(), percent)
}

/// Four significant digits, e.g. `0.3121`, `12.35`, `2.5e-4`.
pub(crate) fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞".into() } else { "−∞".into() };
    }
    let size = value.abs();
    if size == 0.0 {
        return "0".into();
    }
    if !(1e-3..1e6).contains(&size) {
        let text = format!("{value:.3e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{exponent}", without_trailing_zeros(digits));
    }
    let digits = (3 - size.log10().floor() as i32).clamp(0, 7) as usize;
    without_trailing_zeros(&format!("{value:.digits$}")).to_owned()
}

/// A distance between masks, of which a tenth of a pixel or a millimetre is as much as can be said: `3.2`.
pub(crate) fn tenths(distance: f64) -> String {
    number((distance * 10.0).round() / 10.0)
}

/// The name of a class; its index where it has none.
pub(crate) fn class(names: &[String], index: usize) -> String {
    names.get(index).cloned().unwrap_or_else(|| format!("class {index}"))
}

fn without_trailing_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// `1518899` as `1.52 M`.
pub(crate) fn count(value: u64) -> String {
    let size = value as f64;
    match value {
        0..10_000 => value.to_string(),
        10_000..1_000_000 => format!("{:.1}\u{a0}k", size / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2}\u{a0}M", size / 1e6),
        _ => format!("{:.2}\u{a0}G", size / 1e9),
    }
}

/// `3221225472` as `3.0 GiB`.
pub(crate) fn bytes(value: u64) -> String {
    let (scale, unit) = bytes_unit(value);
    let scaled = value as f64 / scale;
    let digits = if unit == "GiB" && scaled < 100.0 { 1 } else { 0 };
    format!("{scaled:.digits$}\u{a0}{unit}")
}

/// The unit in which numbers up to `largest` read well, with its size in bytes.
pub(crate) fn bytes_unit(largest: u64) -> (f64, &'static str) {
    match largest {
        0..1_048_576 => (1024.0, "KiB"),
        1_048_576..1_073_741_824 => (1_048_576.0, "MiB"),
        _ => (1_073_741_824.0, "GiB"),
    }
}

/// `252.4` as `4 min 12 s`.
pub(crate) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "–".into();
    }
    if seconds < 10.0 {
        return format!("{seconds:.1}\u{a0}s");
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}\u{a0}s"),
        (0, _) => format!("{minutes}\u{a0}min {seconds}\u{a0}s"),
        _ => format!("{hours}\u{a0}h {minutes}\u{a0}min"),
    }
}

/// `1 image`, `2 images`.
pub(crate) fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count}\u{a0}{}", if count == 1 { one } else { many })
}

/// Whole epochs: `less than one epoch`, `1 epoch`, `2 epochs`.
pub(crate) fn epochs(whole: u64) -> String {
    if whole == 0 { "less than one epoch".into() } else { plural(whole, "epoch", "epochs") }
}

/// A time stamp of RFC 3339 as `2026-07-01 14:05`.
pub(crate) fn moment(time: &str) -> String {
    time.get(..16).unwrap_or(time).replacen('T', " ", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: String) -> String {
        text.replace('\u{a0}', " ")
    }

    #[test]
    fn numbers_read_as_people_write_them() {
        let cases = [(0.312_14, "0.3121"), (12.0, "12"), (0.000_25, "2.5e-4"), (f64::NAN, "NaN"), (0.0, "0")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!([tenths(4.977), tenths(12.345), tenths(f64::NAN)], ["5", "12.3", "NaN"]);
        assert_eq!(plain(percent(0.9375)), "93.8 %");
        assert_eq!(plain(count(1_518_899)), "1.52 M");
        assert_eq!(plain(count(940)), "940");
        assert_eq!(plain(bytes(3 << 30)), "3.0 GiB");
        assert_eq!(plain(bytes(300 << 20)), "300 MiB");
        assert_eq!([0, 1, 4].map(|whole| plain(epochs(whole))), ["less than one epoch", "1 epoch", "4 epochs"]);
        assert_eq!(moment("2026-07-01T14:05:09+02:00"), "2026-07-01 14:05");
    }

    #[test]
    fn durations_read_as_people_say_them() {
        let cases =
            [(0.52, "0.5 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (252.4, "4 min 12 s"), (7_320.0, "2 h 2 min")];
        for (seconds, text) in cases {
            assert_eq!(plain(duration(seconds)), text);
        }
        assert_eq!(duration(f64::NAN), "–");
    }
}
