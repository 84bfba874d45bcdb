"""Writes segmentation.json: fixed label maps, and what nnU-Net and MONAI say about them.

    pip install numpy scipy monai==1.6.1
    python crates/metrics/tests/reference/segmentation.py

Counts, Dice and IoU: `compute_metrics` of nnU-Net 2.8.1 (nnunetv2/evaluation/evaluate_predictions.py), whose ten lines stand below,
because the package needs readers of medical images to be imported at all. Hausdorff distance and surface Dice: MONAI.

Labels are written as text, one digit a voxel, rows without a gap.
"""

import json
import pathlib
import warnings

import monai
import numpy
import scipy
import torch
from monai.metrics import HausdorffDistanceMetric, SurfaceDiceMetric

CLASSES = [1, 2, 3]
TOLERANCES = [0.6, 1.0, 2.5]
IGNORED = 9


def overlap(prediction, truth, label, ignored):
    """nnU-Net's compute_tp_fp_fn_tn and compute_metrics."""
    mask_ref, mask_pred = truth == label, prediction == label
    use_mask = numpy.ones_like(mask_ref, dtype=bool) if ignored is None else truth != ignored
    tp = numpy.sum((mask_ref & mask_pred) & use_mask)
    fp = numpy.sum(((~mask_ref) & mask_pred) & use_mask)
    fn = numpy.sum((mask_ref & (~mask_pred)) & use_mask)
    tn = numpy.sum(((~mask_ref) & (~mask_pred)) & use_mask)
    if tp + fp + fn == 0:
        dice = iou = numpy.nan
    else:
        dice = 2 * tp / (2 * tp + fp + fn)
        iou = tp / (tp + fp + fn)
    return [int(count) for count in (tp, fp, fn, tn)], float(dice), float(iou)


def one_hot(labels):
    """[1, background and classes, ...]; the ignored label has no channel, so its voxels are zero in all of them."""
    planes = numpy.stack([labels == index for index in [0, *CLASSES]])
    return torch.from_numpy(planes[None].astype(numpy.float32))


def surfaces(prediction, truth, spacing, ignored):
    prediction, truth = one_hot(prediction), one_hot(truth)
    # The ignored label is a sentinel to MONAI: where the truth has no channel at all, both masks are blanked.
    keys = {"include_background": False, "reduction": "none", "ignore_index": ignored}
    found = {"hausdorff_95": HausdorffDistanceMetric(percentile=95, **keys)}
    for name, subvoxels in [("surface_dice", False), ("surface_dice_subvoxels", True)]:
        found[name] = SurfaceDiceMetric(TOLERANCES, use_subvoxels=subvoxels, **keys)
    return {name: metric(prediction, truth, spacing=spacing)[0].tolist() for name, metric in found.items()}


def grid(shape):
    return numpy.meshgrid(*[numpy.arange(size) for size in shape], indexing="ij")


def ball(shape, centre, radii):
    return sum(((axis - at) / radius) ** 2 for axis, at, radius in zip(grid(shape), centre, radii)) <= 1


def draw(shape, *parts):
    labels = numpy.zeros(shape, dtype=numpy.uint8)
    for label, where in parts:
        labels[where] = label
    return labels


def noisy(rng, labels, share):
    """Some voxels get another label."""
    flips = rng.random(labels.shape) < share
    return numpy.where(flips, rng.integers(0, 4, labels.shape), labels).astype(numpy.uint8)


def maps():
    """(name, prediction, truth, spacing, ignored)"""
    rng = numpy.random.default_rng(11)
    flat, deep = (24, 30), (7, 13, 16)
    disc = lambda row, column, radius: ball(flat, (row, column), (radius, radius))
    solid = lambda z, y, x, radius: ball(deep, (z, y, x), (radius / 2, radius, radius))
    many = draw(flat, (1, disc(8, 8, 6)), (2, disc(14, 20, 7)), (3, disc(18, 6, 3)))
    moved = draw(flat, (1, disc(9, 10, 5)), (2, disc(14, 18, 7)), (3, disc(16, 6, 3)))
    deep_truth = draw(deep, (1, solid(3, 5, 5, 4)), (2, solid(3, 8, 11, 4)), (3, solid(5, 10, 3, 2)))
    deep_moved = draw(deep, (1, solid(3, 6, 6, 4)), (2, solid(2, 8, 10, 4)), (3, solid(5, 9, 4, 2)))
    point = lambda shape, *places: draw(shape, *[(label, place) for label, place in places])
    yield "image, several classes", moved, many, [1.0, 1.0], None
    yield "image, anisotropic", moved, many, [0.5, 2.0], None
    yield "image, tolerance at the spacing", moved, many, [0.2, 0.3], None
    yield "image, the same twice", many, many, [0.7, 0.7], None
    yield "image, noisy", noisy(rng, moved, 0.1), noisy(rng, many, 0.05), [0.8, 1.3], None
    yield "image, ignored voxels", moved, draw(flat, *[(c, many == c) for c in CLASSES], (9, disc(10, 14, 5))), [0.8, 1.3], 9
    yield "image, absent in one", numpy.where(moved == 1, 0, moved), numpy.where(many == 2, 0, many), [0.8, 1.3], None
    yield "image, absent in both", numpy.where(moved == 3, 0, moved), numpy.where(many == 3, 0, many), [1.0, 1.0], None
    yield "image, nothing at all", many * 0, many * 0, [1.0, 1.0], None
    yield "image, single pixels", point(flat, (1, (0, 0)), (2, (23, 29)), (3, (5, 5))), \
        point(flat, (1, (3, 4)), (2, (23, 29)), (3, (5, 6))), [1.0, 0.5], None
    yield "image, touching the border", draw(flat, (1, grid(flat)[0] < 5), (2, grid(flat)[0] > 20)), \
        draw(flat, (1, grid(flat)[0] < 7), (2, grid(flat)[1] > 25), (3, grid(flat)[0] > 22)), [0.9, 1.1], None
    yield "image, one row", noisy(rng, numpy.zeros((1, 40), dtype=numpy.uint8), 0.5), \
        noisy(rng, numpy.zeros((1, 40), dtype=numpy.uint8), 0.5), [1.0, 0.4], None
    yield "volume, several classes", deep_moved, deep_truth, [1.0, 1.0, 1.0], None
    yield "volume, anisotropic", deep_moved, deep_truth, [5.0, 0.7, 0.9], None
    yield "volume, all spacings unlike", deep_moved, deep_truth, [0.3, 1.7, 0.6], None
    yield "volume, noisy", noisy(rng, deep_moved, 0.2), noisy(rng, deep_truth, 0.1), [3.0, 0.5, 0.8], None
    yield "volume, nothing but noise", noisy(rng, deep_truth, 1.0), noisy(rng, deep_truth, 1.0), [1.1, 0.9, 1.3], None
    yield "volume, ignored voxels", deep_moved, \
        draw(deep, *[(c, deep_truth == c) for c in CLASSES], (9, solid(3, 6, 8, 4))), [2.5, 0.7, 0.7], 9
    yield "volume, absent in one", numpy.where(deep_moved == 2, 0, deep_moved), numpy.where(deep_truth == 3, 0, deep_truth), \
        [2.0, 1.0, 1.0], None
    yield "volume, single voxels", point(deep, (1, (0, 0, 0)), (2, (6, 12, 15)), (3, (3, 3, 3))), \
        point(deep, (1, (6, 12, 15)), (2, (6, 12, 15)), (3, (3, 4, 3))), [4.0, 0.6, 0.8], None
    yield "volume, touching the border", draw(deep, (1, grid(deep)[0] < 3), (2, grid(deep)[2] > 12)), \
        draw(deep, (1, grid(deep)[0] < 4), (2, grid(deep)[2] > 11), (3, grid(deep)[1] > 10)), [2.0, 0.9, 1.1], None
    yield "volume, one plane", noisy(rng, deep_moved[3:4], 0.1), noisy(rng, deep_truth[3:4], 0.1), [5.0, 1.0, 1.0], None
    yield "volume, full", numpy.full((3, 4, 5), 1, dtype=numpy.uint8), numpy.full((3, 4, 5), 1, dtype=numpy.uint8), [1.0, 1.0, 1.0], None


def case(name, prediction, truth, spacing, ignored):
    text = lambda labels: "".join(map(str, labels.flatten().tolist()))
    scores = [overlap(prediction, truth, label, ignored) for label in CLASSES]
    # NaN is written as null.
    plain = lambda values: [None if numpy.isnan(value) else value for value in values]
    return {
        "name": name, "shape": list(truth.shape), "spacing": spacing, "ignored": ignored,
        "prediction": text(prediction), "truth": text(truth),
        "voxels": [counts for counts, _, _ in scores],
        "dice": plain([dice for _, dice, _ in scores]), "iou": plain([iou for _, _, iou in scores]),
        **{key: plain(values) for key, values in surfaces(prediction, truth, spacing, ignored).items()},
    }


def main():
    warnings.simplefilter("ignore")
    document = {
        "monai": monai.__version__, "torch": torch.__version__, "numpy": numpy.__version__, "scipy": scipy.__version__,
        "nnunetv2": "2.8.1, formulas copied", "classes": CLASSES, "tolerances": TOLERANCES,
        "cases": [case(*drawn) for drawn in maps()],
    }
    path = pathlib.Path(__file__).with_name("segmentation.json")
    path.write_text(json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n")


main()
