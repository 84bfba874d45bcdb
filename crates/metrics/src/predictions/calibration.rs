//! Scores of probabilities: whether 0.8 happens in eight of ten.

use super::answers::Predictions;

/// Bins of the reliability diagram and of the expected calibration error, equally wide from 0 to 1.
pub(super) const BINS: usize = 15;
/// Probabilities are taken to be at least this far from 0 and 1 where their logarithm counts; what scikit-learn takes for float64.
const LEAST: f64 = f64::EPSILON;
/// The same where their logit is a regressor: a certain mistake must not decide a slope alone.
const LEAST_OF_LOGIT: f64 = 1e-12;

/// What each image adds to the sums. Computed once, added up for every resample.
pub(super) struct Costs {
    brier: Vec<f64>,
    nll: Vec<f64>,
    /// The bin, the confidence and whether it was right: one an image, or one a label where images may have several.
    sure: Vec<(u8, f64, bool)>,
    /// Entries of `sure` for each image.
    width: usize,
}

/// One bin's sums over a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BinSums {
    /// How often something was that sure.
    pub(super) count: f64,
    /// Sum of the confidences.
    pub(super) confidence: f64,
    /// How often it was so.
    pub(super) right: f64,
}

pub(super) struct Calibration {
    pub(super) brier: f64,
    pub(super) nll: f64,
    pub(super) ece: f64,
    pub(super) bins: [BinSums; BINS],
}

impl Costs {
    /// Of predictions whose probabilities are `of(image, class)`.
    ///
    /// The Brier score of an image is the squared distance of its probabilities from the truth, summed over the classes, halved
    /// where there are two (the score of one of them); of independent labels it is the mean over them, and so is the
    /// log-likelihood.
    pub(super) fn new(predictions: &Predictions, of: impl Fn(usize, usize) -> f64) -> Self {
        let (classes, several) = (predictions.classes(), predictions.several());
        let scale = match (several, classes) {
            (true, _) => 1.0 / classes as f64,
            (false, 2) => 0.5,
            (false, _) => 1.0,
        };
        let (mut brier, mut nll, mut sure) = (Vec::new(), Vec::new(), Vec::new());
        let cost = |probability: f64| -probability.clamp(LEAST, 1.0 - LEAST).ln();
        for image in 0..predictions.images() {
            let truth = |class: usize| if predictions.has(image, class) { 1.0 } else { 0.0 };
            brier.push(scale * (0..classes).map(|class| (of(image, class) - truth(class)).powi(2)).sum::<f64>());
            if several {
                let said = |class: usize| {
                    if predictions.has(image, class) { of(image, class) } else { 1.0 - of(image, class) }
                };
                nll.push(scale * (0..classes).map(|class| cost(said(class))).sum::<f64>());
                sure.extend((0..classes).map(|class| {
                    let probability = of(image, class);
                    (bin(probability), probability, predictions.has(image, class))
                }));
            } else {
                let answer = predictions.answer(image);
                nll.push(cost(of(image, predictions.truth(image))));
                sure.push((bin(of(image, answer)), of(image, answer), predictions.has(image, answer)));
            }
        }
        Self { brier, nll, sure, width: if several { classes } else { 1 } }
    }

    /// The scores where image `i` counts `times[i]` times.
    pub(super) fn add_up(&self, times: &[u32]) -> Calibration {
        let (mut images, mut brier, mut nll) = (0.0, 0.0, 0.0);
        let mut bins = [BinSums::default(); BINS];
        for (image, times) in times.iter().enumerate().filter(|(_, times)| **times > 0) {
            let times = f64::from(*times);
            images += times;
            brier += times * self.brier[image];
            nll += times * self.nll[image];
            for (bin, confidence, right) in &self.sure[image * self.width..(image + 1) * self.width] {
                let sums = &mut bins[usize::from(*bin)];
                sums.count += times;
                sums.confidence += times * confidence;
                sums.right += if *right { times } else { 0.0 };
            }
        }
        let gaps: f64 = bins.iter().map(|bin| (bin.confidence - bin.right).abs()).sum();
        Calibration { brier: brier / images, nll: nll / images, ece: gaps / (images * self.width as f64), bins }
    }
}

/// The bin of a probability: the first is `[0, 1/15]`, the others `(i/15, (i+1)/15]`, as Guo et al. 2017 have them.
fn bin(probability: f64) -> u8 {
    ((probability * BINS as f64).ceil() as usize).clamp(1, BINS) as u8 - 1
}

/// Logistic regression of the truth on the logit of a class's probability (Cox 1958; Van Calster et al. 2019). A slope below 1 says
/// that probabilities are too extreme; the intercept, at slope 1, says by how much, in logits, they are too low on the whole.
pub(super) struct Recalibration {
    logits: Vec<f64>,
    has: Vec<bool>,
}

impl Recalibration {
    pub(super) fn new(predictions: &Predictions, class: usize) -> Self {
        let logit = |image: usize| {
            let probability = predictions.probability(image, class).clamp(LEAST_OF_LOGIT, 1.0 - LEAST_OF_LOGIT);
            (probability / (1.0 - probability)).ln()
        };
        let images = 0..predictions.images();
        Self {
            logits: images.clone().map(logit).collect(),
            has: images.map(|image| predictions.has(image, class)).collect(),
        }
    }

    /// The slope with the intercept beside it, which the slope alone needs; `NaN` where the classes are parted, so that there is none.
    /// `near` is where the solution is expected.
    pub(super) fn slope(&self, times: &[u32], near: (f64, f64)) -> (f64, f64) {
        let found = self.slope_from(times, near);
        // Newton's method may leap away from a start that was not near; from 0 it seldom does.
        if found.0.is_nan() && near != (0.0, 0.0) { self.slope_from(times, (0.0, 0.0)) } else { found }
    }

    fn slope_from(&self, times: &[u32], start: (f64, f64)) -> (f64, f64) {
        let (mut slope, mut beside) = start;
        for _ in 0..MOST_ITERATIONS {
            // Gradient and curvature of the log-likelihood.
            let (mut g, mut h) = ([0.0; 2], [0.0; 3]);
            for ((logit, has), times) in self.counted(times) {
                let probability = sigmoid(slope * logit + beside);
                let (error, spread) = (times * (has - probability), times * probability * (1.0 - probability));
                g[0] += error * logit;
                g[1] += error;
                h[0] += spread * logit * logit;
                h[1] += spread * logit;
                h[2] += spread;
            }
            let determinant = h[0] * h[2] - h[1] * h[1];
            let step = [(h[2] * g[0] - h[1] * g[1]) / determinant, (h[0] * g[1] - h[1] * g[0]) / determinant];
            slope += step[0];
            beside += step[1];
            if !(slope.is_finite() && beside.is_finite() && slope.abs() < MOST_SLOPE) {
                break;
            }
            if step[0].abs() + step[1].abs() < PRECISE * (1.0 + slope.abs() + beside.abs()) {
                return (slope, beside);
            }
        }
        (f64::NAN, f64::NAN)
    }

    /// The intercept at slope 1 ("calibration in the large"); `NaN` where all images are of the class, or none is.
    pub(super) fn intercept(&self, times: &[u32], start: f64) -> f64 {
        let mut intercept = start;
        for _ in 0..MOST_ITERATIONS {
            let (mut gradient, mut curvature) = (0.0, 0.0);
            for ((logit, has), times) in self.counted(times) {
                let probability = sigmoid(logit + intercept);
                gradient += times * (has - probability);
                curvature += times * probability * (1.0 - probability);
            }
            // Far from the solution a whole step may leap over it.
            let step = (gradient / curvature).clamp(-2.0, 2.0);
            intercept += step;
            if intercept.is_nan() || intercept.abs() >= MOST_SLOPE {
                break;
            }
            if step.abs() < PRECISE * (1.0 + intercept.abs()) {
                return intercept;
            }
        }
        f64::NAN
    }

    fn counted<'a>(&'a self, times: &'a [u32]) -> impl Iterator<Item = ((f64, f64), f64)> + 'a {
        let truths = self.has.iter().map(|has| if *has { 1.0 } else { 0.0 });
        let rows = self.logits.iter().copied().zip(truths).zip(times);
        rows.filter(|(_, times)| **times > 0).map(|(row, times)| (row, f64::from(*times)))
    }
}

/// Newton's method doubles the right digits with each iteration; where it needs more than these, there is no solution.
const MOST_ITERATIONS: usize = 30;
const PRECISE: f64 = 1e-11;
/// Beyond this the classes are parted.
const MOST_SLOPE: f64 = 1e3;

fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}
