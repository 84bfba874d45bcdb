//! A network's answer for an image, from its logits: probabilities of classes, or a number.

use kindling_data::Task;

/// What the logits of one image mean: the probability of each class, or in a regression the number itself, in the loader's scale.
pub(crate) fn of_logits(task: Task, logits: &[f64]) -> Vec<f64> {
    match task {
        Task::MultiClass | Task::Segmentation => softmax(logits),
        Task::MultiLabel => logits.iter().copied().map(sigmoid).collect(),
        Task::Ordinal => grades(logits),
        Task::Regression => logits.to_vec(),
    }
}

/// Softmax, stable for large logits.
fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// The probability of each grade. Logit `j` is that of being above grade `j` for what is at least of grade `j`: a continuation-ratio
/// model, in which the probabilities of grades above cannot grow (Shi, Cao and Raschka 2023, CORN).
fn grades(logits: &[f64]) -> Vec<f64> {
    let mut reached = 1.0;
    let mut probabilities: Vec<f64> = logits
        .iter()
        .map(|logit| {
            let here = reached * sigmoid(-logit);
            reached *= sigmoid(*logit);
            here
        })
        .collect();
    probabilities.push(reached);
    probabilities
}

/// The index of the largest probability; the first of equals.
pub fn most_probable(probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (class, probability) in probabilities.iter().enumerate() {
        if *probability > probabilities[best] {
            best = class;
        }
    }
    best
}

/// The median of grades: the first at or below which half of the probability lies.
fn median_grade(probabilities: &[f64]) -> usize {
    let half = 0.5 * probabilities.iter().sum::<f64>();
    let mut sum = 0.0;
    let reaches_half = |probability: &f64| {
        sum += probability;
        sum >= half
    };
    probabilities.iter().position(reaches_half).unwrap_or(probabilities.len().saturating_sub(1))
}

/// The class that an image is said to be of.
pub fn answer(task: Task, probabilities: &[f64]) -> usize {
    if task == Task::Ordinal { median_grade(probabilities) } else { most_probable(probabilities) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_to_one_even_for_huge_logits() {
        for logits in [[1000.0, 1001.0, 0.0], [-1e6, -1e6, -1e6], [0.1, 0.2, 0.3]] {
            for task in [Task::MultiClass, Task::Ordinal] {
                let probabilities = of_logits(task, &logits);
                assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{probabilities:?}");
            }
        }
    }

    #[test]
    fn grades_are_what_is_left_by_those_below() {
        // Half of all are above the first, a fifth of those above the second.
        let found = of_logits(Task::Ordinal, &[0.0, -(4.0f64.ln())]);
        for (found, wanted) in found.iter().zip([0.5, 0.4, 0.1]) {
            assert!((found - wanted).abs() < 1e-15, "{found} for {wanted}");
        }
    }

    #[test]
    fn the_first_of_equally_probable_classes_is_predicted_and_of_grades_the_median() {
        assert_eq!(answer(Task::MultiClass, &[0.2, 0.4, 0.4]), 1);
        assert_eq!(answer(Task::Ordinal, &[0.4, 0.25, 0.35]), 1);
        assert_eq!(answer(Task::Ordinal, &[0.5, 0.0, 0.5]), 0);
        assert_eq!(answer(Task::Ordinal, &[f64::NAN; 3]), 2);
    }
}
