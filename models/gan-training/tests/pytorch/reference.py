"""Writes reference.json: spectral normalisation and differentiable augmentation by PyTorch, in float64.

    python models/gan-training/tests/pytorch/reference.py

Spectral normalisation is torch.nn.utils.spectral_norm. Augmentation is written from its paper and its authors' formulas
(Zhao et al. 2020) with numbers that are given instead of drawn.
"""

import json
import pathlib
import warnings

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def spectral():
    generator = torch.Generator().manual_seed(3)
    conv = torch.nn.Conv2d(3, 5, 3, padding=1, bias=False)
    conv.weight.data = torch.randn(conv.weight.shape, generator=generator).round(decimals=3)
    weight = conv.weight.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        conv = torch.nn.utils.spectral_norm(conv)
    left = F.normalize(torch.randn(5, generator=generator), dim=0).float().double()
    conv.weight_u.data = left.clone()
    images = torch.randn(2, 3, 4, 4, generator=generator).round(decimals=3)
    weights = torch.randn(2, 5, 4, 4, generator=generator).round(decimals=3)
    conv.train()
    rounds = []
    for _ in range(2):
        conv.weight_orig.grad = None
        output = conv(images)
        (output * weights).sum().backward()
        rounds.append({
            "output": output.detach().flatten().tolist(),
            "gradient": conv.weight_orig.grad.flatten().tolist(),
            "left": conv.weight_u.flatten().tolist(),
            "right": conv.weight_v.flatten().tolist(),
        })
        # Not in float32: the second round divides other weights by another number.
        conv.weight_orig.data = conv.weight_orig.data * torch.linspace(0.5, 1.5, 27).view(1, 3, 3, 3)
    return {"weight": weight.flatten().tolist(), "left": left.tolist(), "images": images.flatten().tolist(),
            "weights": weights.flatten().tolist(), "factors": torch.linspace(0.5, 1.5, 27).tolist(), "rounds": rounds}


def shifted(image, down, right):
    channels, height, width = image.shape
    padded = F.pad(image, (width, width, height, height))
    return padded[:, height - down:2 * height - down, width - right:2 * width - right]


def augmented(images, changes):
    x = images + torch.tensor([c["brightness"] for c in changes]).view(-1, 1, 1, 1)
    mean = x.mean(dim=1, keepdim=True)
    x = (x - mean) * torch.tensor([c["saturation"] for c in changes]).view(-1, 1, 1, 1) + mean
    mean = x.mean(dim=[1, 2, 3], keepdim=True)
    x = (x - mean) * torch.tensor([c["contrast"] for c in changes]).view(-1, 1, 1, 1) + mean
    x = torch.stack([shifted(image, *c["shift"]) for image, c in zip(x, changes)])
    size = x.shape[2]
    side = int(size * 0.5 + 0.5)
    mask = torch.ones(x.shape[0], 1, size, size)
    for row, change in enumerate(changes):
        top, left = change["cutout"][0] - side // 2, change["cutout"][1] - side // 2
        for y in range(top, top + side):
            for x_ in range(left, left + side):
                if 0 <= y < size and 0 <= x_ < size:
                    mask[row, 0, y, x_] = 0
    return x * mask


def augmentation(channels):
    generator = torch.Generator().manual_seed(5 + channels)
    images = (2 * torch.rand(3, channels, 8, 8, generator=generator) - 1).round(decimals=3).requires_grad_()
    weights = torch.randn(3, channels, 8, 8, generator=generator).round(decimals=3)
    changes = [
        {"brightness": 0.25, "saturation": 1.75, "contrast": 0.5, "shift": [1, -1], "cutout": [4, 2]},
        {"brightness": -0.5, "saturation": 0.0, "contrast": 1.25, "shift": [-1, 0], "cutout": [0, 8]},
        {"brightness": 0.0625, "saturation": 1.0, "contrast": 1.5, "shift": [0, 1], "cutout": [8, 5]},
    ]
    output = augmented(images, changes)
    (output * weights).sum().backward()
    return {"channels": channels, "images": images.detach().flatten().tolist(), "weights": weights.flatten().tolist(),
            "changes": changes, "output": output.detach().flatten().tolist(), "gradient": images.grad.flatten().tolist()}


def main():
    document = {"torch": torch.__version__, "spectral": spectral(), "augment": [augmentation(1), augmentation(3)]}
    path = pathlib.Path(__file__).with_name("reference.json")
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
