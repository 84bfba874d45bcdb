//! Temperature scaling (Guo et al. 2017): one number that makes probabilities less or more extreme and changes no order.

use super::answers::Predictions;
use super::calibration::Costs;

/// Temperatures that are looked at.
const RANGE: (f64, f64) = (0.01, 100.0);
/// Golden-section steps: each leaves 0.618 of the range of the logarithm, and 60 leave 3e-12 of it.
const GOLDEN_STEPS: usize = 60;

/// The probability of a class after division of the logits by a temperature. Logarithms of probabilities are logits up to a constant,
/// which a softmax does not see.
pub(super) fn scaled(predictions: &Predictions, temperature: f64) -> Vec<f64> {
    let classes = predictions.classes();
    let mut all = Vec::with_capacity(predictions.images() * classes);
    let log = |probability: f64| probability.max(f64::MIN_POSITIVE).ln();
    for image in 0..predictions.images() {
        let of = |class: usize| predictions.probability(image, class);
        if predictions.several() {
            let logit = |p: f64| log(p) - log(1.0 - p);
            all.extend((0..classes).map(|class| 1.0 / (1.0 + (-logit(of(class)) / temperature).exp())));
        } else {
            let largest = log(of(predictions.answer(image)));
            let powers: Vec<f64> = (0..classes).map(|class| ((log(of(class)) - largest) / temperature).exp()).collect();
            let sum: f64 = powers.iter().sum();
            all.extend(powers.into_iter().map(|power| power / sum));
        }
    }
    all
}

/// The temperature from 0.01 to 100 of the least negative log-likelihood, found by golden-section search over its logarithm: the
/// likelihood has one maximum.
pub(super) fn fit(predictions: &Predictions) -> f64 {
    let once = vec![1; predictions.images()];
    let cost = |log: f64| {
        let probabilities = scaled(predictions, log.exp());
        let classes = predictions.classes();
        Costs::new(predictions, |image, class| probabilities[image * classes + class]).add_up(&once).nll
    };
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (RANGE.0.ln(), RANGE.1.ln());
    let (mut a, mut b) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_a, mut at_b) = (cost(a), cost(b));
    for _ in 0..GOLDEN_STEPS {
        if at_a < at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - golden * (high - low);
            at_a = cost(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + golden * (high - low);
            at_b = cost(b);
        }
    }
    ((low + high) / 2.0).exp()
}
