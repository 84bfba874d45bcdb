//! Ratios of sums over the pixels of some images, which Dice and its relatives are: of tensors; and, about the sums of a whole batch,
//! as what each part of it adds.

use burn::tensor::{Tensor, TensorData};
use kindling_ops::{mean, sum};

use super::pixel_terms::PixelTerm;

/// What keeps a ratio of sums defined where a class is absent, above and below.
const SMOOTH: f64 = 1e-5;
/// Share of false positives in Tversky's denominator, and of false negatives.
const TVERSKY: [f64; 2] = [0.3, 0.7];

/// The ratio of one group of images: 1 where everything is right. `together` and `found` are `[1, classes]`, the sums of probability
/// where the truth is and everywhere; `there` counts pixels.
pub(super) fn ratio(term: PixelTerm, together: Tensor<2>, found: Tensor<2>, there: &[f64]) -> Tensor<1> {
    let shape = [1, there.len()];
    let truth = numbers::<2>(there, shape, &together);
    match term {
        PixelTerm::Tversky => {
            let [of_found, of_missed] = TVERSKY;
            let too_much = (found - together.clone()) * of_found;
            let missed = (truth - together.clone()) * of_missed;
            mean((together.clone() + SMOOTH) / (together + too_much + missed + SMOOTH))
        }
        PixelTerm::GeneralisedDice => {
            let weights = numbers::<2>(&inverse_squares(there), shape, &together);
            let above = sum(together * weights.clone()) * 2.0 + SMOOTH;
            above / (sum((found + truth) * weights) + SMOOTH)
        }
        _ => mean((together * 2.0 + SMOOTH) / (found + truth + SMOOTH)),
    }
}

/// The weights of generalised Dice.
fn inverse_squares(there: &[f64]) -> Vec<f64> {
    let largest = there.iter().filter(|count| **count > 0.0).map(|count| 1.0 / (count * count)).fold(0.0, f64::max);
    there.iter().map(|count| if *count > 0.0 { 1.0 / (count * count) } else { largest }).collect()
}

/// The sum over the pixels of each image and class: `[rows, classes]`. Rows of pixels first, which keeps rounding small.
pub(super) fn over_pixels(x: Tensor<4>) -> Tensor<2> {
    x.sum_dim(3).sum_dim(2).flatten::<3>(2, 3).squeeze_dim(2)
}

/// Numbers as a tensor beside another, in its format.
pub(super) fn numbers<const D: usize>(values: &[f64], shape: [usize; D], beside: &Tensor<D>) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), (&beside.device(), beside.dtype()))
}

/// One minus the [`ratio`] of a whole batch, as a function that is linear in the sums of its parts. At the sums that it was made of it has
/// the value and the gradient of the loss; so the gradients of parts add up to that of the batch.
#[derive(Debug)]
pub(super) struct Linear {
    constant: f64,
    /// The loss's derivatives, by class.
    of_together: Vec<f64>,
    of_found: Vec<f64>,
}

impl Linear {
    /// About the sums over a batch, by class: of probability where the truth is, of probability, and of pixels.
    pub(super) fn about(term: PixelTerm, together: &[f64], found: &[f64], there: &[f64]) -> Self {
        // Each class has the ratio (u I + e) / (v I + x P + y T + e); generalised Dice has one ratio of weighted sums over all classes.
        let [u, v, x, y] = match term {
            PixelTerm::Tversky => [1.0, 1.0 - TVERSKY[0] - TVERSKY[1], TVERSKY[0], TVERSKY[1]],
            _ => [2.0, 0.0, 1.0, 1.0],
        };
        let classes = there.len();
        let is_one = term == PixelTerm::GeneralisedDice;
        let weights = if is_one { inverse_squares(there) } else { vec![1.0; classes] };
        let of_class = |class: usize| {
            let below = v * together[class] + x * found[class] + y * there[class];
            [u * together[class], below].map(|part| weights[class] * part)
        };
        let mut parts: Vec<[f64; 2]> = (0..classes).map(of_class).collect();
        if is_one {
            let all = parts.iter().fold([0.0; 2], |sum, part| [sum[0] + part[0], sum[1] + part[1]]);
            parts.fill(all);
        }
        let below: Vec<f64> = parts.iter().map(|part| part[1] + SMOOTH).collect();
        let ratios: Vec<f64> = parts.iter().zip(&below).map(|(part, below)| (part[0] + SMOOTH) / below).collect();
        let slope = |class: usize, above: f64, of_below: f64| {
            let share = if is_one { 1.0 } else { 1.0 / classes as f64 };
            share * weights[class] * (ratios[class] * of_below - above) / below[class]
        };
        let of_together: Vec<f64> = (0..classes).map(|class| slope(class, u, v)).collect();
        let of_found: Vec<f64> = (0..classes).map(|class| slope(class, 0.0, x)).collect();
        let loss = 1.0 - ratios.iter().sum::<f64>() / classes as f64;
        let constant = loss - product(&of_together, together) - product(&of_found, found);
        Self { constant, of_together, of_found }
    }

    /// What some rows add, which are this share of the batch. `together` and `found` are `[rows, classes]`.
    pub(super) fn part(&self, together: Tensor<2>, found: Tensor<2>, share: f64) -> Tensor<1> {
        let weighed = |x: Tensor<2>, slopes: &[f64]| {
            let slopes = numbers::<2>(slopes, [1, slopes.len()], &x);
            sum(x * slopes)
        };
        weighed(together, &self.of_together) + weighed(found, &self.of_found) + self.constant * share
    }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOGETHER: [f64; 3] = [40.5, 3.25, 0.0];
    const FOUND: [f64; 3] = [55.0, 12.5, 2.5];
    const THERE: [f64; 3] = [60.0, 10.0, 0.0];

    /// The definitions, as they stand at [`PixelTerm`].
    fn loss(term: PixelTerm, together: &[f64], found: &[f64]) -> f64 {
        let of_class = |class: usize| {
            let (i, p, t) = (together[class], found[class], THERE[class]);
            match term {
                PixelTerm::Tversky => (i + 1e-5) / (i + 0.3 * (p - i) + 0.7 * (t - i) + 1e-5),
                _ => (2.0 * i + 1e-5) / (p + t + 1e-5),
            }
        };
        if term == PixelTerm::GeneralisedDice {
            // The class that is absent has the largest of the others' weights.
            let weights = [1.0 / 3600.0, 0.01, 0.01];
            let all = |of: &dyn Fn(usize) -> f64| (0..3).map(|class| weights[class] * of(class)).sum::<f64>();
            let above = 2.0 * all(&|class| together[class]) + 1e-5;
            return 1.0 - above / (all(&|class| found[class] + THERE[class]) + 1e-5);
        }
        1.0 - (0..3).map(of_class).sum::<f64>() / 3.0
    }

    #[test]
    fn the_linear_form_has_the_value_and_the_slopes_of_the_loss() {
        for term in [PixelTerm::Dice, PixelTerm::GeneralisedDice, PixelTerm::Tversky] {
            let linear = Linear::about(term, &TOGETHER, &FOUND, &THERE);
            let at = linear.constant + product(&linear.of_together, &TOGETHER) + product(&linear.of_found, &FOUND);
            assert!((at - loss(term, &TOGETHER, &FOUND)).abs() < 1e-12, "{term}");
            // Central differences.
            let step = 1e-4;
            for class in 0..3 {
                let moved = |mut sums: [f64; 3], by: f64| {
                    sums[class] += by;
                    sums
                };
                let [up, down] = [step, -step].map(|by| loss(term, &moved(TOGETHER, by), &FOUND));
                let (found, expected) = (linear.of_together[class], (up - down) / (2.0 * step));
                assert!((found - expected).abs() < 1e-10, "{term} {class}: {found} for {expected}");
                let [up, down] = [step, -step].map(|by| loss(term, &TOGETHER, &moved(FOUND, by)));
                let (found, expected) = (linear.of_found[class], (up - down) / (2.0 * step));
                assert!((found - expected).abs() < 1e-10, "{term} {class}: {found} for {expected}");
            }
        }
    }
}
