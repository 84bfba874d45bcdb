//! Scores of predictions against scikit-learn; tests/reference/predictions.py wrote what is expected.
#![allow(clippy::unwrap_used)]

use kindling_metrics::{ClassScores, DeLong, PredictionError, Predictions, Resampling, Scores};
use serde_json::Value;

const REFERENCE: &str = include_str!("reference/predictions.json");
const NO_INTERVALS: Resampling = Resampling { resamples: 0, seed: 0 };

struct Case {
    name: String,
    predictions: Predictions,
    names: Vec<String>,
    expected: Value,
}

impl Case {
    /// The scores; the cut-offs and the temperature are chosen on the predictions themselves.
    fn scores(&self) -> Scores {
        Scores::of("test", &self.names, &self.predictions, Some(&self.predictions), NO_INTERVALS)
    }

    fn close(&self, key: &str, found: f64, expected: &Value, tolerance: f64) {
        let expected = expected.as_f64().unwrap();
        assert!((found - expected).abs() < tolerance, "{}: {key} is {found}, the reference says {expected}", self.name);
    }
}

fn cases() -> Vec<Case> {
    let document: Value = serde_json::from_str(REFERENCE).unwrap();
    let numbers = |row: &Value| -> Vec<f64> { row.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect() };
    let case = |case: &Value| {
        let classes = case["classes"].as_u64().unwrap() as usize;
        let truths: Vec<Vec<usize>> = numbers(&case["truth"]).into_iter().map(|truth| vec![truth as usize]).collect();
        let rows: Vec<Vec<f64>> = case["probabilities"].as_array().unwrap().iter().map(numbers).collect();
        Case {
            name: case["name"].as_str().unwrap().to_string(),
            predictions: Predictions::new(classes, false, &truths, &rows, &vec![None; rows.len()]).unwrap(),
            names: (0..classes).map(|class| class.to_string()).collect(),
            expected: case.clone(),
        }
    };
    let cases: Vec<Case> = document["cases"].as_array().unwrap().iter().map(case).collect();
    assert_eq!(cases.len(), 4);
    cases
}

#[test]
fn scores_of_a_split_equal_scikit_learns() {
    for case in cases() {
        let found = case.scores();
        let expected = case.expected["scores"].as_object().unwrap();
        assert_eq!(found.figures.len(), expected.len(), "{}", case.name);
        for (key, expected) in expected {
            case.close(key, found.figure(key).unwrap().value, expected, 1e-12);
        }
    }
}

#[test]
fn scores_of_a_class_against_the_others_equal_scikit_learns() {
    for case in cases() {
        let expected = case.expected["each"].as_array().unwrap();
        for (found, expected) in case.scores().classes.iter().zip(expected) {
            let figure = |of: &ClassScores, key: &str| of.figure(key).unwrap().value;
            for key in ["auroc", "auprc", "sensitivity", "specificity", "ppv", "npv"] {
                case.close(key, figure(found, key), &expected[key], 1e-12);
            }
            case.close("cut_off", found.cut_off.unwrap(), &expected["cut_off"], 1e-15);
            for key in ["calibration_slope", "calibration_intercept"] {
                case.close(key, figure(found, key), &expected[key], 1e-7);
            }
        }
    }
}

#[test]
fn the_temperature_is_the_one_of_the_least_log_loss() {
    for case in cases() {
        let temperature = case.scores().temperature.unwrap();
        case.close("temperature", temperature.temperature, &case.expected["temperature"], 1e-5);
        let after = temperature.figures.iter().find(|figure| figure.name == "nll").unwrap().value;
        assert!(after <= case.scores().figure("nll").unwrap().value, "{}: scaling makes it worse", case.name);
    }
}

#[test]
fn delongs_error_is_that_of_all_pairs() {
    for case in cases() {
        for (class, expected) in case.expected["each"].as_array().unwrap().iter().enumerate() {
            let found = DeLong::of(&case.predictions, class).unwrap();
            case.close("AUROC", found.auroc, &expected["delong_auroc"], 1e-10);
            case.close("standard error", found.standard_error, &expected["delong_standard_error"], 1e-10);
        }
    }
}

#[test]
fn delongs_interval_is_refused_where_a_patient_has_several_images() {
    let patient = |name: &str| Some(name.to_string());
    let patients = [patient("a"), patient("b"), patient("a"), patient("c")];
    let truths = [vec![0], vec![0], vec![1], vec![1]];
    let rows = vec![vec![0.5, 0.5]; 4];
    let predictions = Predictions::new(2, false, &truths, &rows, &patients).unwrap();
    let refused = PredictionError::SeveralImagesAPatient { images: 4, patients: 3 };
    assert_eq!(DeLong::of(&predictions, 1), Err(refused));
}

#[test]
fn curves_run_through_the_points_of_the_roc_and_the_areas_below_them_are_close() {
    for case in cases() {
        for class in case.scores().classes {
            let below: f64 =
                class.roc.windows(2).map(|pair| (pair[0].y + pair[1].y) / 2.0 * (pair[1].x - pair[0].x)).sum();
            let area = class.figure("auroc").unwrap().value;
            assert!((below - area).abs() < 0.01, "{}: {below} {area}", case.name);
            assert_eq!(class.roc.last().map(|point| (point.x, point.y)), Some((1.0, 1.0)));
            let precision: f64 = class.precision_recall.iter().skip(1).map(|point| point.y / 100.0).sum();
            let area = class.figure("auprc").unwrap().value;
            assert!((precision - area).abs() < 0.01, "{}: {precision} {area}", case.name);
        }
    }
}
