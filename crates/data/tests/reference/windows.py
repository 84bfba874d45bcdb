"""Writes windows.json: where nnU-Net has the windows of an image, and the weights of their pixels.

    pip install numpy scipy
    python crates/data/tests/reference/windows.py

The formulae are those of nnU-Net 2.8.1 (`compute_steps_for_sliding_window` and `compute_gaussian` in
nnunetv2/inference/sliding_window_prediction.py), written down anew: evenly spread, rounded steps, as many as are needed for no step
to be wider than asked for; and SciPy's Gaussian filter of a single point.
"""

import json
import math
import pathlib

import numpy
import scipy
from scipy.ndimage import gaussian_filter


def starts(length, side, step):
    number = math.ceil((length - side) / (side * step)) + 1
    if number == 1:
        return [0]
    apart = (length - side) / (number - 1)
    return [int(numpy.round(apart * index)) for index in range(number)]


def gaussian(side):
    point = numpy.zeros((side, side))
    point[side // 2, side // 2] = 1
    weights = gaussian_filter(point, [side / 8, side / 8], 0, mode="constant", cval=0)
    weights /= weights.max()
    weights[weights == 0] = weights[weights != 0].min()
    return weights


def main():
    lengths = [64, 65, 95, 96, 97, 110, 127, 128, 129, 200, 256, 511, 512, 1000, 2017]
    cases = [(length, 64, step) for length in lengths for step in (1.0, 0.75, 0.5, 0.3, 0.2, 0.1)]
    cases += [(length, side, 0.5) for side in (1, 2, 7, 33, 96, 512) for length in (side, side + 1, 2 * side + 5, 1234)]
    cases += [(110, 100, 0.1), (120, 100, 0.1), (190, 100, 0.9), (107, 100, 0.7), (1024, 512, 0.5)]
    document = {
        "nnunetv2": "2.8.1, formulae", "numpy": numpy.__version__, "scipy": scipy.__version__,
        "starts": [{"length": n, "side": k, "step": s, "starts": starts(n, k, s)} for n, k, s in cases],
        "gaussians": [
            {"side": side, "middle_row": gaussian(side)[side // 2].tolist(), "first_row": gaussian(side)[0].tolist()}
            for side in (1, 2, 3, 8, 9, 32, 97)
        ],
    }
    path = pathlib.Path(__file__).with_name("windows.json")
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


main()
