//! The squared maximum mean discrepancy with a cubic kernel ("Demystifying MMD GANs", Binkowski et al. 2018). With Inception's features it
//! is called KID.

use super::error::MetricError;
use super::features::Features;

/// The unbiased estimate with the kernel `(x . y / width + 1)^3`, over all images. For sets of the same distribution it is close to 0, and
/// as likely to be negative as positive.
///
/// # Errors
/// [`MetricError::TooFew`] for less than two images, [`MetricError::Widths`].
pub fn kernel_distance(first: &Features, second: &Features) -> Result<f64, MetricError> {
    first.comparable(second, 2)?;
    let width = first.width() as f64;
    let kernel = |product: f64| (product / width + 1.0).powi(3);
    let within = |features: &Features| {
        let (count, products) = (features.count(), features.products(features));
        let others = |(index, product): (usize, &f64)| {
            if index / count == index % count { 0.0 } else { kernel(*product) }
        };
        products.iter().enumerate().map(others).sum::<f64>() / (count * (count - 1)) as f64
    };
    let across: f64 = first.products(second).into_iter().map(kernel).sum();
    Ok(within(first) + within(second) - 2.0 * across / (first.count() * second.count()) as f64)
}
