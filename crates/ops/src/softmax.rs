//! The softmax over the classes of each pixel, on the CPU and without gradients, for what is made of a network's answers.

use rayon::prelude::*;

use crate::cpu::lanes::vectorised;

/// Pixels that one thread takes at a time.
const PIXELS: usize = 1 << 14;

/// The softmax over the classes of each pixel, in float64; `logits` are `[classes, pixels]`, and so are the probabilities. Plane by plane,
/// which is fast for many pixels, and the same for any number of threads.
pub fn softmax_of_pixels(logits: &[f32], classes: usize) -> Vec<f64> {
    let pixels = (logits.len() / classes.max(1)).max(1);
    let mut probabilities = vec![0.0; logits.len()];
    // Some pixels of every plane at a time.
    let mut parts: Vec<Vec<&mut [f64]>> = (0..pixels.div_ceil(PIXELS)).map(|_| Vec::with_capacity(classes)).collect();
    for plane in probabilities.chunks_exact_mut(pixels) {
        parts.iter_mut().zip(plane.chunks_mut(PIXELS)).for_each(|(planes, part)| planes.push(part));
    }
    parts.into_par_iter().enumerate().for_each(|(number, planes)| {
        let of_class = |class: usize, count: usize| &logits[class * pixels + number * PIXELS..][..count];
        vectorised(
            #[inline(always)]
            || of_some(planes, of_class),
        );
    });
    probabilities
}

/// The softmax over the classes of some pixels: `planes` are to hold the probabilities, and `logits` has the logits of a class.
#[inline(always)]
fn of_some<'a>(mut planes: Vec<&mut [f64]>, logits: impl Fn(usize, usize) -> &'a [f32]) {
    let count = planes.first().map_or(0, |plane| plane.len());
    let mut largest = vec![f32::NEG_INFINITY; count];
    for class in 0..planes.len() {
        largest.iter_mut().zip(logits(class, count)).for_each(|(largest, logit)| *largest = largest.max(*logit));
    }
    let mut sums = vec![0.0; count];
    for (class, plane) in planes.iter_mut().enumerate() {
        let of_pixels = plane.iter_mut().zip(logits(class, count)).zip(&largest).zip(&mut sums);
        for (((power, &logit), &largest), sum) in of_pixels {
            *power = power_of_e(f64::from(logit) - f64::from(largest));
            *sum += *power;
        }
    }
    for plane in planes {
        plane.iter_mut().zip(&sums).for_each(|(power, sum)| *power /= sum);
    }
}

/// The exponential function of numbers that are not positive, to four units in the last place, in arithmetic that compiles to vector
/// instructions. What would be subnormal is zero.
///
/// `exp(x) = 2^n exp(r)` with `n` the nearest integer to `x / ln 2`; `exp(r)` is its Taylor polynomial, whose next term is below 1e-17 for
/// `|r| <= ln 2 / 2`.
#[inline(always)]
fn power_of_e(x: f64) -> f64 {
    // ln 2 in two parts, the first with 32 bits, so that n times it is exact.
    const LN_2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    /// Below this, powers of e are subnormal.
    const LEAST: f64 = -708.0;
    // Adding 1.5 * 2^52 rounds to an integer. The lowest bits of the sum are n + 1023, the exponent field of 2^n.
    const ROUNDING: f64 = 6_755_399_441_055_744.0 + 1023.0;
    let near = if x < LEAST { LEAST } else { x };
    let rounded = near.mul_add(std::f64::consts::LOG2_E, ROUNDING);
    let n = rounded - ROUNDING;
    let r = (-n).mul_add(LN_2_LOW, (-n).mul_add(LN_2_HIGH, near));
    // 1 / 13!, and from one to the next 1 / 12! to 1 / 0!.
    let mut polynomial = 1.0f64 / 6_227_020_800.0;
    for factorial in
        [479_001_600.0, 39_916_800.0, 3_628_800.0, 362_880.0, 40_320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0]
    {
        polynomial = polynomial.mul_add(r, 1.0 / factorial);
    }
    let power = polynomial * f64::from_bits(rounded.to_bits() << 52);
    if x < LEAST { 0.0 } else { power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_e_are_those_of_the_standard_library() {
        for step in 0..200_000 {
            let x = f64::from(step) * -0.003_54;
            let (found, expected) = (power_of_e(x), x.exp());
            assert!((found - expected).abs() <= 4.0 * f64::EPSILON * expected, "exp({x}): {found:e}, not {expected:e}");
        }
        assert_eq!([0.0, -709.0, f64::NEG_INFINITY].map(power_of_e), [1.0, 0.0, 0.0]);
        assert!(power_of_e(f64::NAN).is_nan());
    }

    #[test]
    fn probabilities_are_those_of_each_pixel_by_itself_for_any_number_of_pixels_and_threads() {
        for (classes, pixels) in [(1, 3), (2, 1), (3, PIXELS - 1), (3, PIXELS), (5, 2 * PIXELS + 7)] {
            let logits: Vec<f32> = (0..classes * pixels).map(|at| ((at * 7919) % 2003) as f32 * 0.02 - 20.0).collect();
            let of_pool = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
                pool.install(|| softmax_of_pixels(&logits, classes))
            };
            let found = of_pool(1);
            assert!(found == of_pool(3), "{classes} classes, {pixels} pixels");
            for pixel in (0..pixels).step_by(97) {
                let power = |class: usize| f64::from(logits[class * pixels + pixel]).exp();
                let sum: f64 = (0..classes).map(power).sum();
                for class in 0..classes {
                    let (found, expected) = (found[class * pixels + pixel], power(class) / sum);
                    assert!((found - expected).abs() <= 1e-14 * expected, "{found:e}, not {expected:e}");
                }
            }
        }
        assert!(softmax_of_pixels(&[], 3).is_empty());
    }
}
