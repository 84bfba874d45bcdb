"""Writes regression.json: fixed numbers and grades, and what scikit-learn and NumPy say about them.

    python crates/metrics/tests/reference/regression.py

Errors and R2: scikit-learn. Correlation: NumPy's corrcoef. Limits of agreement: Bland and Altman (1986), the mean of the differences and
1.96 of their standard deviations (n - 1), in NumPy. Grades: the median of each distribution by NumPy's cumsum and argmax, errors and
quadratic kappa by scikit-learn.
"""

import json
import pathlib

import numpy
import sklearn
from sklearn import metrics


def numbers(name, truth, said):
    off = said - truth
    half = 1.96 * off.std(ddof=1)
    return {
        "name": name,
        "truth": truth.tolist(),
        "prediction": said.tolist(),
        "scores": {
            "mae": metrics.mean_absolute_error(truth, said),
            "rmse": metrics.root_mean_squared_error(truth, said),
            "r2": metrics.r2_score(truth, said),
            "pearson": numpy.corrcoef(truth, said)[0, 1],
            "bias": off.mean(),
            "limit_low": off.mean() - half,
            "limit_high": off.mean() + half,
        },
    }


def grades(name, truth, probabilities):
    answer = (numpy.cumsum(probabilities, axis=1) >= 0.5).argmax(axis=1)
    return {
        "name": name,
        "truth": truth.tolist(),
        "probabilities": probabilities.tolist(),
        "answers": answer.tolist(),
        "scores": {
            "accuracy": metrics.accuracy_score(truth, answer),
            "quadratic_kappa": metrics.cohen_kappa_score(truth, answer, weights="quadratic"),
            "mae": metrics.mean_absolute_error(truth, answer),
            "rmse": metrics.root_mean_squared_error(truth, answer),
        },
    }


rng = numpy.random.default_rng(7)
age = rng.uniform(0, 228, 60)
steps = rng.integers(0, 5, 40)
document = {
    "versions": {"numpy": numpy.__version__, "scikit-learn": sklearn.__version__},
    "numbers": [
        numbers("ages in months", age, age * 0.9 + rng.normal(8, 12, 60)),
        numbers("far from zero", 1e6 + age, 1e6 + age + rng.normal(0, 3, 60)),
        numbers("worse than the mean", age, 228 - age),
    ],
    "grades": [
        grades("five grades", steps, rng.dirichlet([0.6] * 5, 40) * 0.7 + 0.3 * numpy.eye(5)[steps]),
        grades("two grades", steps % 2, rng.dirichlet([1, 1], 40)),
    ],
}
path = pathlib.Path(__file__).with_suffix(".json")
path.write_text(json.dumps(document, indent=1) + "\n")
