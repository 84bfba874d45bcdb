//! Rounding of channel counts.

/// Rounds a scaled channel count to a multiple of `divisor`, but never to less than 90 % of the count.
///
/// This is the rule of the MobileNet reference implementation, which torchvision and timm use as well.
pub fn make_divisible(channels: f64, divisor: usize) -> usize {
    let step = divisor as f64;
    let rounded = (((channels + step / 2.0) / step).floor() as usize * divisor).max(divisor);
    if (rounded as f64) < 0.9 * channels { rounded + divisor } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::make_divisible;

    /// Squeeze widths of MobileNetV3-Small and widths of MobileNetV2 at 0.35 and 1.4, as torchvision and timm build them.
    #[test]
    fn channels_round_as_the_references_round_them() {
        for (channels, expected) in [
            (16.0 / 4.0, 8),
            (96.0 / 4.0, 24),
            (120.0 / 4.0, 32),
            (144.0 / 4.0, 40),
            (576.0 / 4.0, 144),
            (32.0 * 0.35, 16),
            (24.0 * 0.35, 8),
            (24.0 * 1.4, 32),
            (1280.0 * 1.4, 1792),
        ] {
            assert_eq!(make_divisible(channels, 8), expected, "{channels}");
        }
    }
}
