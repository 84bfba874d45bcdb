//! Scores of numbers and of grades against scikit-learn and NumPy; tests/reference/regression.py wrote what is expected.
#![allow(clippy::unwrap_used)]

use kindling_metrics::{Predictions, RegressionScore, RegressionScores, Resampling, Scores, Values};
use serde_json::Value;

const REFERENCE: &str = include_str!("reference/regression.json");
const NO_INTERVALS: Resampling = Resampling { resamples: 0, seed: 0 };

fn cases(kind: &str, count: usize) -> Vec<Value> {
    let document: Value = serde_json::from_str(REFERENCE).unwrap();
    let cases = document[kind].as_array().unwrap().clone();
    assert_eq!(cases.len(), count);
    cases
}

fn numbers(of: &Value) -> Vec<f64> {
    of.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// Relative to the largest numbers that are added up.
fn assert_close(case: &Value, key: &str, found: f64, size: f64) {
    let expected = case["scores"][key].as_f64().unwrap();
    assert!((found - expected).abs() <= 1e-12 * size.max(1.0), "{}: {key} is {found}, not {expected}", case["name"]);
}

#[test]
fn errors_and_limits_of_agreement_equal_the_reference() {
    for case in cases("numbers", 3) {
        let (truth, said) = (numbers(&case["truth"]), numbers(&case["prediction"]));
        let size = truth.iter().copied().fold(0.0, f64::max);
        let values = Values::new(truth.clone(), said.clone(), vec![None; truth.len()]).unwrap();
        let found = RegressionScores::of("test", "age", &values, NO_INTERVALS);
        assert_eq!(found.figures.len(), case["scores"].as_object().unwrap().len());
        for figure in &found.figures {
            assert_close(&case, &figure.name, figure.value, size);
        }
        let plain = RegressionScore::of(truth.into_iter().zip(said));
        assert_eq!(plain.samples, 60);
        for (key, found) in [("mae", plain.mae), ("rmse", plain.rmse), ("r2", plain.r2)] {
            assert_close(&case, key, found, size);
        }
    }
}

#[test]
fn grades_are_answered_by_the_median_and_scored_as_the_reference_does() {
    for case in cases("grades", 2) {
        let truths: Vec<Vec<usize>> = numbers(&case["truth"]).into_iter().map(|truth| vec![truth as usize]).collect();
        let rows: Vec<Vec<f64>> = case["probabilities"].as_array().unwrap().iter().map(numbers).collect();
        let classes = rows[0].len();
        let predictions = Predictions::new(classes, false, &truths, &rows, &vec![None; rows.len()]).unwrap().in_order();
        let answers: Vec<f64> = (0..predictions.images()).map(|image| predictions.answer(image) as f64).collect();
        assert_eq!(answers, numbers(&case["answers"]), "{}", case["name"]);
        let names: Vec<String> = (0..classes).map(|class| class.to_string()).collect();
        let found = Scores::of("test", &names, &predictions, None, NO_INTERVALS);
        for key in case["scores"].as_object().unwrap().keys() {
            assert_close(&case, key, found.figure(key).unwrap().value, 1.0);
        }
    }
}

#[test]
fn what_is_not_defined_is_no_number() {
    let same = RegressionScore::of([(2.0, 1.0), (2.0, 3.0)].into_iter());
    assert!(same.r2.is_nan() && same.mae == 1.0, "{same:?}");
    assert!(RegressionScore::of(std::iter::empty()).mae.is_nan());
}
