//! Distances against NumPy and SciPy; tests/reference/reference.py wrote what is expected.
#![allow(clippy::unwrap_used)]

use kindling_metrics::{Features, MetricError, frechet_distance, kernel_distance, nearest, precision_recall};
use serde_json::Value;

const REFERENCE: &str = include_str!("reference/reference.json");

struct Case {
    name: String,
    real: Features,
    made: Features,
    expected: Value,
}

fn cases() -> Vec<Case> {
    let document: Value = serde_json::from_str(REFERENCE).unwrap();
    let case = |case: &Value| {
        let width = case["width"].as_u64().unwrap() as usize;
        let of = |key: &str| {
            let values = case[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
            Features::new(values, width).unwrap()
        };
        let name = case["name"].as_str().unwrap().to_string();
        Case { name, real: of("real"), made: of("made"), expected: case.clone() }
    };
    let cases: Vec<Case> = document["cases"].as_array().unwrap().iter().map(case).collect();
    assert_eq!(cases.len(), 3);
    cases
}

fn close(case: &Case, key: &str, found: f64, tolerance: f64) {
    let expected = case.expected[key].as_f64().unwrap();
    let off = (found - expected).abs() / expected.abs().max(1.0);
    assert!(off < tolerance, "{}: {key} is {found}, SciPy says {expected}", case.name);
}

#[test]
fn the_frechet_distance_equals_scipys() {
    for case in cases() {
        // Where covariances have no full rank, the reference itself roots rounding errors.
        close(&case, "frechet", frechet_distance(&case.real, &case.made).unwrap(), 1e-6);
        let back = frechet_distance(&case.made, &case.real).unwrap();
        close(&case, "frechet", back, 1e-6);
    }
}

#[test]
fn the_kernel_distance_equals_numpys() {
    for case in cases() {
        close(&case, "kernel", kernel_distance(&case.real, &case.made).unwrap(), 1e-11);
    }
}

#[test]
fn precision_recall_and_neighbours_equal_scipys() {
    for case in cases() {
        let found = precision_recall(&case.real, &case.made, 3).unwrap();
        close(&case, "precision", found.precision, 1e-12);
        close(&case, "recall", found.recall, 1e-12);
        let found: Vec<usize> =
            nearest(&case.made, &case.real, 1).unwrap().iter().map(|neighbours| neighbours[0].index).collect();
        let expected: Vec<usize> =
            case.expected["nearest"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap() as usize).collect();
        assert_eq!(found, expected, "{}", case.name);
    }
}

#[test]
fn equal_sets_have_no_distance() {
    for case in cases() {
        let scale: f64 = (0..case.real.count()).flat_map(|row| case.real.row(row)).map(|value| value * value).sum();
        assert!(frechet_distance(&case.real, &case.real).unwrap() < 1e-6 * scale, "{}", case.name);
        let same = precision_recall(&case.real, &case.real, 3).unwrap();
        assert_eq!((same.precision, same.recall), (1.0, 1.0));
    }
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let rows = |count: usize, width: usize| Features::new(vec![0.5; count * width], width).unwrap();
    assert_eq!(frechet_distance(&rows(3, 2), &rows(3, 4)), Err(MetricError::Widths(2, 4)));
    assert_eq!(kernel_distance(&rows(1, 2), &rows(3, 2)), Err(MetricError::TooFew { found: 1, needed: 2 }));
    assert!(matches!(precision_recall(&rows(3, 2), &rows(9, 2), 3), Err(MetricError::TooFew { .. })));
    assert_eq!(Features::new(vec![f64::NAN; 2], 2), Err(MetricError::NotFinite));
    assert!(matches!(Features::new(vec![0.0; 3], 2), Err(MetricError::NoRows { .. })));
}
