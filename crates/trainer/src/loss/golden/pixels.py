#!/usr/bin/env python3
"""Losses of segmentation, computed with PyTorch 2.15, MONAI 1.6.1 and segmentation_models_pytorch 0.5.0 in float64.

pixels.json has logits [images, classes, height, width], a truth [images, height, width] in which a class is absent from an image, one with
ignored pixels (255), and for each case its value, the first eight numbers of the gradient, and the gradient's norm; of some focal losses
what they are told.

MONAI takes the weights of generalised Dice in float32; here it takes them in float64. segmentation_models_pytorch sums over the batch, and
can leave pixels out. It adds nothing to the sums unless it is told to, and leaves a class out that no image has; here every class is in
some image, and it is told to add what MONAI adds: as much to half of Dice's ratio is half of that.

usage: pixels.py [--out pixels.json]   (needs torch, monai, segmentation_models_pytorch)
"""
import argparse, json
import torch
from monai.losses import DiceCELoss, DiceLoss, FocalLoss, GeneralizedDiceLoss, TverskyLoss
from segmentation_models_pytorch import losses as smp

SHAPE = (3, 3, 4, 5)
WEIGHTS = [1.0, 2.0, 0.5]
IGNORED = 255
torch.Tensor.float = torch.Tensor.double


def softmax_loss(kind, **settings):
    return kind(softmax=True, to_onehot_y=True, **settings)


def cross_entropy(**settings):
    if "weight" in settings:
        settings["weight"] = torch.tensor(settings["weight"], dtype=torch.float64)
    return lambda logits, truth: torch.nn.CrossEntropyLoss(ignore_index=IGNORED, **settings)(logits, truth[:, 0])


def of_smp(kind, **settings):
    loss = kind("multiclass", ignore_index=IGNORED, **settings)
    return lambda logits, truth: loss(logits, truth[:, 0])


CASES = [
    # name, loss, over, smoothing, weights, with ignored pixels, of the reference
    ("cross-entropy", "image", 0.0, None, False, cross_entropy()),
    ("cross-entropy", "image", 0.0, WEIGHTS, False, cross_entropy(weight=WEIGHTS)),
    ("cross-entropy", "image", 0.1, None, False, cross_entropy(label_smoothing=0.1)),
    ("cross-entropy", "image", 0.1, WEIGHTS, True, cross_entropy(label_smoothing=0.1, weight=WEIGHTS)),
    ("cross-entropy", "image", 0.0, None, True, cross_entropy()),
    ("dice", "image", 0.0, None, False, softmax_loss(DiceLoss)),
    ("dice", "group", 0.0, None, False, softmax_loss(DiceLoss, batch=True)),
    ("generalised-dice", "image", 0.0, None, False, softmax_loss(GeneralizedDiceLoss)),
    ("generalised-dice", "group", 0.0, None, False, softmax_loss(GeneralizedDiceLoss, batch=True)),
    ("tversky", "image", 0.0, None, False, softmax_loss(TverskyLoss, alpha=0.3, beta=0.7)),
    ("tversky", "group", 0.0, None, False, softmax_loss(TverskyLoss, alpha=0.3, beta=0.7, batch=True)),
    ("focal", "image", 0.0, None, False, FocalLoss(use_softmax=True, to_onehot_y=True, gamma=2.0)),
    ("dice+cross-entropy", "image", 0.0, None, False, softmax_loss(DiceCELoss)),
    ("dice+focal", "image", 0.0, None, False, None),
    ("dice", "group", 0.0, None, False, of_smp(smp.DiceLoss, smooth=5e-6)),
    ("dice", "group", 0.0, None, True, of_smp(smp.DiceLoss, smooth=5e-6)),
    ("tversky", "group", 0.0, None, False, of_smp(smp.TverskyLoss, alpha=0.3, beta=0.7, smooth=1e-5)),
    ("tversky", "group", 0.0, None, True, of_smp(smp.TverskyLoss, alpha=0.3, beta=0.7, smooth=1e-5)),
]
FOCAL = [
    # loss, what it is told, with ignored pixels, of the reference
    ("focal", {"gamma": 3.5}, False, FocalLoss(use_softmax=True, to_onehot_y=True, gamma=3.5)),
    # MONAI takes alpha in float32, which holds this one.
    ("focal", {"alpha": 0.75}, False, FocalLoss(use_softmax=True, to_onehot_y=True, gamma=2.0, alpha=0.75)),
    ("binary-focal", {}, False, of_smp(smp.FocalLoss)),
    ("binary-focal", {}, True, of_smp(smp.FocalLoss)),
    ("binary-focal", {"gamma": 1.5, "alpha": 0.25}, True, of_smp(smp.FocalLoss, gamma=1.5, alpha=0.25)),
    ("binary-focal", {"gamma": 3.0, "threshold": 0.5}, True, of_smp(smp.FocalLoss, gamma=3.0, reduced_threshold=0.5)),
    ("binary-focal", {"threshold": 0.3}, False, of_smp(smp.FocalLoss, reduced_threshold=0.3)),
]
CASES = [(*case, {}) for case in CASES]
CASES += [(loss, "image", 0.0, None, ignores, reference, told) for loss, told, ignores, reference in FOCAL]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="pixels.json")
    torch.manual_seed(11)
    images, classes, height, width = SHAPE
    logits = 2 * torch.randn(SHAPE, dtype=torch.float64)
    truth = torch.randint(0, classes, (images, height, width))
    truth[1] %= 2
    ignoring = truth.clone()
    ignoring[0, 1] = IGNORED
    ignoring[2, :, 3] = IGNORED
    parts = {}
    out = []
    for loss, over, smoothing, weights, ignores, reference, told in CASES:
        leaf = logits.clone().requires_grad_()
        if reference is None:
            value = sum(parts[name](leaf, truth[:, None]) for name in loss.split("+"))
        else:
            parts.setdefault(loss, reference)
            value = reference(leaf, (ignoring if ignores else truth)[:, None])
        value.backward()
        out.append({
            "loss": loss, "over": over, "smoothing": smoothing, "weights": weights, "ignores": ignores,
            **({"focal": told} if told else {}),
            "value": value.item(), "first8": leaf.grad.flatten()[:8].tolist(), "norm": leaf.grad.norm().item(),
        })
    with open(parser.parse_args().out, "w") as file:
        json.dump({"shape": SHAPE, "logits": logits.flatten().tolist(), "truth": truth.flatten().tolist(),
                   "ignoring": ignoring.flatten().tolist(), "cases": out}, file, indent=1)
        file.write("\n")


main()
