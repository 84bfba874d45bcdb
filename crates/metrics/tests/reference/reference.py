"""Writes reference.json: fixed features, and what NumPy and SciPy say about them.

    python crates/metrics/tests/reference/reference.py

Formulas as their papers have them; the Frechet distance with scipy.linalg.sqrtm, as its authors' code.
"""

import json
import pathlib

import numpy
import scipy
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist


def frechet(a, b):
    mean = a.mean(0) - b.mean(0)
    first, second = numpy.cov(a, rowvar=False), numpy.cov(b, rowvar=False)
    root = sqrtm(first @ second)
    return float(mean @ mean + numpy.trace(first) + numpy.trace(second) - 2 * numpy.trace(root).real)


def kernel(a, b):
    k = lambda x, y: (x @ y.T / x.shape[1] + 1) ** 3
    within = lambda x: (k(x, x).sum() - numpy.trace(k(x, x))) / (len(x) * (len(x) - 1))
    return float(within(a) + within(b) - 2 * k(a, b).mean())


def share_within(these, those, neighbours):
    reach = numpy.sort(cdist(those, those), axis=1)[:, neighbours]
    return float((cdist(these, those) <= reach).any(1).mean())


def case(rng, name, real, made, width):
    mix = rng.normal(size=(width, width))
    real = rng.normal(size=(real, width)) @ mix
    made = 0.7 * rng.normal(size=(made, width)) @ mix + 0.3 * rng.normal(size=width)
    real, made = real.round(4), made.round(4)
    return {
        "name": name, "width": width,
        "real": real.flatten().tolist(), "made": made.flatten().tolist(),
        "frechet": frechet(real, made), "kernel": kernel(real, made),
        "precision": share_within(made, real, 3), "recall": share_within(real, made, 3),
        "nearest": cdist(made, real).argmin(1).tolist(),
    }


def main():
    rng = numpy.random.default_rng(7)
    cases = [
        case(rng, "more images than numbers", 60, 45, 6),
        case(rng, "fewer images than numbers", 11, 9, 16),
        case(rng, "one of each", 40, 7, 12),
    ]
    document = {"numpy": numpy.__version__, "scipy": scipy.__version__, "cases": cases}
    path = pathlib.Path(__file__).with_name("reference.json")
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
