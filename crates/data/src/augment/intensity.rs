//! Brightness, contrast and gamma.

use crate::Image;

/// Entries of the table that a power is looked up in.
const TABLE: usize = 1 << 14;

/// `mean + (value - mean) * contrast + brightness`, within `[0, 1]`.
pub(super) fn stretch(image: &mut Image, contrast: f32, brightness: f32) {
    let mean = mean(image);
    for value in &mut image.pixels {
        *value = (mean + (*value - mean) * contrast + brightness).clamp(0.0, 1.0);
    }
}

/// The mean of all values of an image.
pub(super) fn mean(image: &Image) -> f32 {
    // Eight sums at a time: one alone would wait for each addition. In double precision the order of additions is lost in
    // the rounding of the mean to single precision, but for one image in a million.
    let (eights, rest) = image.pixels.as_chunks::<8>();
    let mut sums = [0.0f64; 8];
    for values in eights {
        sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += f64::from(value));
    }
    let sum = sums.iter().sum::<f64>() + rest.iter().map(|&value| f64::from(value)).sum::<f64>();
    (sum / image.pixels.len().max(1) as f64) as f32
}

/// `value ^ exponent`, by a table with straight lines between its entries: a power of each value would take longer than
/// all other changes together.
pub(super) fn gamma(image: &mut Image, exponent: f32) {
    let steps = (TABLE - 1) as f32;
    let table: Vec<f32> = (0..TABLE).map(|entry| (entry as f32 / steps).powf(exponent)).collect();
    for value in &mut image.pixels {
        let at = value.clamp(0.0, 1.0) * steps;
        let entry = (at as usize).min(TABLE - 2);
        *value = table[entry] + (at - entry as f32) * (table[entry + 1] - table[entry]);
    }
}
