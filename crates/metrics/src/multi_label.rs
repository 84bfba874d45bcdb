//! Scores of classification with any number of labels for each image.

use serde::{Deserialize, Serialize};

/// The scores of independent labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MultiLabel {
    /// Number of images with each label.
    pub positives: Vec<u64>,
    /// For each label, the area under the ROC curve: the probability that an image with the label is ranked above one without it, where
    /// ties count half. `None` if all images have the label, or none has.
    pub auroc: Vec<Option<f64>>,
    /// The mean of the areas that exist; `None` if none exists.
    pub mean_auroc: Option<f64>,
    /// For each label, F1: the harmonic mean of precision and recall at a threshold of one half; 0 if neither an image nor a prediction
    /// has the label.
    pub f1: Vec<f64>,
    /// The mean of F1 over the labels.
    pub macro_f1: f64,
    /// Share of images whose labels are all predicted correctly at a threshold of one half.
    pub subset_accuracy: f64,
}

impl MultiLabel {
    /// Computes the scores of `labels` labels. `truths` and `probabilities` have a row of `labels` values for each image: whether it has the
    /// label, and the predicted probability.
    pub fn of(labels: usize, truths: &[Vec<bool>], probabilities: &[Vec<f64>]) -> Self {
        let column = |label: usize| -> Vec<(f64, bool)> {
            probabilities.iter().zip(truths).map(|(sure, truth)| (sure[label], truth[label])).collect()
        };
        let columns: Vec<Vec<(f64, bool)>> = (0..labels).map(column).collect();
        let auroc: Vec<Option<f64>> = columns.iter().map(|column| auroc(column)).collect();
        let f1: Vec<f64> = columns.iter().map(|column| f1(column)).collect();
        let right = |(sure, truth): (&Vec<f64>, &Vec<bool>)| sure.iter().zip(truth).all(|(p, t)| (*p >= 0.5) == *t);
        let all_right = probabilities.iter().zip(truths).filter(|row| right(*row)).count();
        let exist: Vec<f64> = auroc.iter().flatten().copied().collect();
        Self {
            positives: columns.iter().map(|column| column.iter().filter(|(_, has)| *has).count() as u64).collect(),
            mean_auroc: (!exist.is_empty()).then(|| exist.iter().sum::<f64>() / exist.len() as f64),
            macro_f1: f1.iter().sum::<f64>() / labels.max(1) as f64,
            subset_accuracy: all_right as f64 / truths.len().max(1) as f64,
            auroc,
            f1,
        }
    }
}

/// Computed from the ranks of the positives (Mann and Whitney), where equal numbers share their mean rank.
fn auroc(column: &[(f64, bool)]) -> Option<f64> {
    let mut sorted = column.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let positives = sorted.iter().filter(|(_, has)| *has).count() as f64;
    let negatives = sorted.len() as f64 - positives;
    if positives == 0.0 || negatives == 0.0 {
        return None;
    }
    let (mut ranks, mut before) = (0.0, 0);
    for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
        let mean_rank = before as f64 + (equal.len() as f64 + 1.0) / 2.0;
        ranks += mean_rank * equal.iter().filter(|(_, has)| *has).count() as f64;
        before += equal.len();
    }
    Some((ranks - positives * (positives + 1.0) / 2.0) / (positives * negatives))
}

fn f1(column: &[(f64, bool)]) -> f64 {
    let count = |wanted: (bool, bool)| column.iter().filter(|(p, has)| (*p >= 0.5, *has) == wanted).count() as f64;
    let (hit, wrong, missed) = (count((true, true)), count((true, false)), count((false, true)));
    if hit == 0.0 { 0.0 } else { 2.0 * hit / (2.0 * hit + wrong + missed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SURE: [[f64; 3]; 6] =
        [[0.9, 0.2, 0.1], [0.8, 0.6, 0.2], [0.4, 0.6, 0.3], [0.4, 0.1, 0.4], [0.2, 0.7, 0.45], [0.1, 0.5, 0.2]];
    const HAS: [[bool; 3]; 6] = [
        [true, false, false],
        [true, true, false],
        [false, true, false],
        [true, false, false],
        [false, false, false],
        [false, true, false],
    ];

    fn score() -> MultiLabel {
        MultiLabel::of(3, &HAS.map(|row| row.to_vec()), &SURE.map(|row| row.to_vec()))
    }

    /// The definition, over all pairs of an image with the label and one without it.
    fn by_pairs(label: usize) -> f64 {
        let of = |wanted: bool| (0..6).filter(move |&row| HAS[row][label] == wanted).map(move |row| SURE[row][label]);
        let pairs: Vec<f64> = of(true)
            .flat_map(|with| of(false).map(move |without| (with, without)))
            .map(|(with, without)| {
                if with > without {
                    1.0
                } else if with == without {
                    0.5
                } else {
                    0.0
                }
            })
            .collect();
        pairs.iter().sum::<f64>() / pairs.len() as f64
    }

    #[test]
    fn the_area_under_the_curve_is_the_share_of_pairs_in_the_right_order() {
        let score = score();
        assert!((score.auroc[0].unwrap() - by_pairs(0)).abs() < 1e-12);
        assert!((score.auroc[1].unwrap() - by_pairs(1)).abs() < 1e-12);
        assert_eq!(score.auroc[2], None, "no image has it");
        assert!((score.mean_auroc.unwrap() - (by_pairs(0) + by_pairs(1)) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn f1_and_subset_accuracy_are_those_of_answers_at_one_half() {
        let score = score();
        // Label 0: two hits, one missed. Label 1: three hits, one wrong. Label 2: nothing to find and nothing found.
        assert_eq!(score.f1, [0.8, 6.0 / 7.0, 0.0]);
        assert!((score.macro_f1 - (0.8 + 6.0 / 7.0) / 3.0).abs() < 1e-12);
        // Rows 3 and 4 are wrong.
        assert_eq!(score.subset_accuracy, 4.0 / 6.0);
        assert_eq!(score.positives, [3, 3, 0]);
    }

    #[test]
    fn no_images_make_no_areas_and_no_nan() {
        let score = MultiLabel::of(2, &[], &[]);
        assert_eq!((score.auroc, score.mean_auroc), (vec![None, None], None));
        assert_eq!((score.macro_f1, score.subset_accuracy), (0.0, 0.0));
    }
}
