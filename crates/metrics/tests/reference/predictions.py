"""Writes predictions.json: fixed predictions, and what scikit-learn, SciPy and NumPy say about them.

    python crates/metrics/tests/reference/predictions.py

AUROC, AUPRC, F1, balanced accuracy, kappa, MCC, Brier score and log loss: scikit-learn. Calibration slope: scikit-learn's logistic
regression without penalty; intercept: the root of the likelihood's derivative, by SciPy. DeLong: the definition of DeLong, DeLong and
Clarke-Pearson (1988) over all pairs in O(n^2), in NumPy. Expected calibration error: the definition of Guo et al. (2017), in NumPy.
Temperature: bounded minimisation by SciPy.
"""

import json
import pathlib
import warnings

import numpy
import scipy
import sklearn
from scipy.optimize import brentq, minimize_scalar
from sklearn import metrics
from sklearn.linear_model import LogisticRegression


def delong(truth, score):
    """Area and standard error from the matrix of all pairs."""
    with_, without = score[truth == 1], score[truth == 0]
    pairs = (with_[:, None] > without[None, :]) + 0.5 * (with_[:, None] == without[None, :])
    above, below = pairs.mean(axis=1), pairs.mean(axis=0)
    variance = above.var(ddof=1) / len(with_) + below.var(ddof=1) / len(without)
    return float(pairs.mean()), float(numpy.sqrt(variance))


def ece(confidence, right, bins=15):
    total, edges = 0.0, numpy.linspace(0, 1, bins + 1)
    for index, (low, high) in enumerate(zip(edges[:-1], edges[1:])):
        inside = (confidence > low if index else confidence >= low) & (confidence <= high)
        if inside.any():
            total += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    return float(total)


def recalibration(truth, probability):
    probability = numpy.clip(probability, 1e-12, 1 - 1e-12)
    logit = numpy.log(probability / (1 - probability))
    model = LogisticRegression(C=numpy.inf, tol=1e-14, max_iter=10_000, solver="newton-cholesky").fit(logit[:, None], truth)
    error = lambda intercept: (truth - 1 / (1 + numpy.exp(-logit - intercept))).sum()
    return float(model.coef_[0, 0]), float(brentq(error, -20, 20, xtol=1e-14))


def temperature(truth, probability):
    log = numpy.log(numpy.maximum(probability, 1e-300))

    def cost(value):
        scaled = log / numpy.exp(value)
        scaled -= scaled.max(axis=1, keepdims=True)
        scaled -= numpy.log(numpy.exp(scaled).sum(axis=1, keepdims=True))
        return -scaled[numpy.arange(len(truth)), truth].mean()

    return float(numpy.exp(minimize_scalar(cost, bounds=(numpy.log(0.01), numpy.log(100)), options={"xatol": 1e-10}).x))


def case(name, classes, images, digits, seed, sharpness):
    random = numpy.random.default_rng(seed)
    truth = random.integers(0, classes, images)
    logits = random.normal(size=(images, classes)) * sharpness + 1.2 * sharpness * numpy.eye(classes)[truth]
    probability = numpy.exp(logits) / numpy.exp(logits).sum(axis=1, keepdims=True)
    if digits:  # ties
        probability = numpy.round(probability, digits)
        probability[:, -1] = 1 - probability[:, :-1].sum(axis=1)
        probability = numpy.clip(numpy.round(probability, digits), 0, 1)
    answer = probability.argmax(axis=1)
    one = numpy.eye(classes)[truth]
    each = []
    for k in range(classes):
        area, error = delong(one[:, k], probability[:, k])
        slope, intercept = recalibration(one[:, k], probability[:, k])
        false, true, cut_offs = metrics.roc_curve(one[:, k], probability[:, k], drop_intermediate=False)
        cut_off = cut_offs[1:][numpy.argmax((true - false)[1:])]
        said = probability[:, k] >= cut_off
        tn, fp, fn, tp = metrics.confusion_matrix(one[:, k], said).ravel()
        each.append({
            "auroc": float(metrics.roc_auc_score(one[:, k], probability[:, k])),
            "auprc": float(metrics.average_precision_score(one[:, k], probability[:, k])),
            "calibration_slope": slope, "calibration_intercept": intercept,
            "cut_off": float(cut_off), "sensitivity": tp / (tp + fn), "specificity": tn / (tn + fp), "ppv": tp / (tp + fp),
            "npv": tn / (tn + fn), "delong_auroc": area, "delong_standard_error": error,
        })
    scores = {
        "accuracy": metrics.accuracy_score(truth, answer),
        "balanced_accuracy": metrics.balanced_accuracy_score(truth, answer),
        "macro_f1": metrics.f1_score(truth, answer, average="macro"),
        "quadratic_kappa": metrics.cohen_kappa_score(truth, answer, weights="quadratic", labels=range(classes)),
        "mcc": metrics.matthews_corrcoef(truth, answer),
        "macro_auroc": float(numpy.mean([of["auroc"] for of in each])),
        "macro_auprc": metrics.average_precision_score(one, probability, average="macro"),
        "brier": metrics.brier_score_loss(truth, probability[:, 1] if classes == 2 else probability, labels=range(classes)),
        "nll": metrics.log_loss(truth, probability, labels=range(classes)),
        "ece": ece(probability.max(axis=1), (answer == truth).astype(float)),
    }
    return {
        "name": name, "classes": classes, "truth": truth.tolist(), "probabilities": probability.tolist(),
        "scores": {key: float(value) for key, value in scores.items()}, "each": each,
        "temperature": temperature(truth, probability),
    }


def main():
    cases = [
        case("two classes", 2, 120, None, 1, 1.0),
        case("two classes with ties", 2, 90, 2, 2, 1.5),
        case("four classes, too sure", 4, 150, None, 3, 3.0),
        case("three classes with ties", 3, 80, 1, 4, 1.0),
    ]
    versions = {"numpy": numpy.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__}
    path = pathlib.Path(__file__).with_name("predictions.json")
    path.write_text(json.dumps({"versions": versions, "cases": cases}, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
