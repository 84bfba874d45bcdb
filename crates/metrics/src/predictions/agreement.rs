//! Scores of answers: what follows from counts of truths and answers.

use super::answers::Predictions;

/// Scores of a confusion matrix, as scikit-learn defines them; `NaN` where one is not defined.
pub(super) struct Agreement {
    /// Share of right answers.
    pub(super) accuracy: f64,
    /// Mean recall of the classes that occur.
    pub(super) balanced_accuracy: f64,
    /// Mean F1 of the classes that occur or are answered.
    pub(super) macro_f1: f64,
    /// Cohen's kappa with weights that grow with the square of the distance between classes.
    pub(super) quadratic_kappa: f64,
    /// Matthews correlation coefficient (Gorodkin 2004 for more than two classes).
    pub(super) mcc: f64,
}

impl Agreement {
    /// Where image `i` counts `times[i]` times. Images are of one class.
    pub(super) fn of(predictions: &Predictions, pairs: &[(u32, u32)], times: &[u32]) -> Self {
        let classes = predictions.classes();
        let mut counts = vec![0_u64; classes * classes];
        for ((truth, answer), times) in pairs.iter().zip(times) {
            counts[*truth as usize * classes + *answer as usize] += u64::from(*times);
        }
        Self::of_counts(classes, &counts)
    }

    /// Of counts `[truth][answer]`.
    fn of_counts(classes: usize, counts: &[u64]) -> Self {
        let count = |truth: usize, answer: usize| counts[truth * classes + answer] as f64;
        let truths: Vec<f64> = (0..classes).map(|t| (0..classes).map(|a| count(t, a)).sum()).collect();
        let answers: Vec<f64> = (0..classes).map(|a| (0..classes).map(|t| count(t, a)).sum()).collect();
        let total: f64 = truths.iter().sum();
        let right: f64 = (0..classes).map(|class| count(class, class)).sum();
        let recalls = (0..classes).filter(|c| truths[*c] > 0.0).map(|c| count(c, c) / truths[c]);
        let f1 = (0..classes)
            .filter(|c| truths[*c] + answers[*c] > 0.0)
            .map(|c| 2.0 * count(c, c) / (truths[c] + answers[c]));
        let (mut observed, mut expected) = (0.0, 0.0);
        for (truth, of_truth) in truths.iter().enumerate() {
            for (answer, of_answer) in answers.iter().enumerate() {
                let weight = (truth as f64 - answer as f64).powi(2);
                observed += weight * count(truth, answer);
                expected += weight * of_truth * of_answer;
            }
        }
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let covariance = right * total - product(&truths, &answers);
        let spread = |of: &[f64]| total * total - product(of, of);
        let spreads = spread(&truths) * spread(&answers);
        Self {
            accuracy: right / total,
            balanced_accuracy: mean(recalls),
            macro_f1: mean(f1),
            quadratic_kappa: 1.0 - observed * total / expected,
            // Zero by convention where truths or answers are all of one class.
            mcc: if spreads > 0.0 { covariance / spreads.sqrt() } else { 0.0 },
        }
    }
}

/// Mean of F1 over labels at a probability of one half; 0 for a label that neither occurs nor is answered.
pub(super) fn label_f1(predictions: &Predictions, times: &[u32]) -> f64 {
    mean((0..predictions.classes()).map(|class| {
        let (mut hits, mut either) = (0.0, 0.0);
        for (image, times) in times.iter().enumerate() {
            let (has, says) = (predictions.has(image, class), predictions.probability(image, class) >= 0.5);
            hits += f64::from(*times) * f64::from(u8::from(has && says));
            either += f64::from(*times) * f64::from(u8::from(has) + u8::from(says));
        }
        if hits == 0.0 { 0.0 } else { 2.0 * hits / either }
    }))
}

/// The mean of the finite values; `NaN` if there are none.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.filter(|v| v.is_finite()).fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
    sum / count
}
