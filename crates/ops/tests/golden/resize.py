"""Writes resize.json: what PyTorch's `interpolate` and its gradient compute in float64.

    python3 -m venv env && env/bin/pip install torch && env/bin/python crates/ops/tests/golden/resize.py

Neither inputs nor gradients of outputs are in the file. Number `i` of an input is (37 i + 11) mod 64 / 16 - 2, and of a gradient
(29 i + 5) mod 64 / 16 - 2: exact in every format.
"""

import json
import pathlib

import torch
import torch.nn.functional as functional

MODES = {
    "Nearest": {"mode": "nearest"},
    "Bilinear": {"mode": "bilinear", "align_corners": False},
    "BilinearCorners": {"mode": "bilinear", "align_corners": True},
}
# Shapes [channels, height, width] and sizes: twice as large, fractions, smaller, a single row or column, no change.
SIZES = [
    ([2, 3, 4], [6, 8]),
    ([1, 5, 3], [7, 11]),
    ([1, 7, 9], [3, 4]),
    ([1, 1, 4], [3, 1]),
    ([1, 6, 1], [1, 5]),
    ([1, 4, 3], [4, 3]),
    ([1, 2, 13], [1, 2]),
]


def numbers(shape, factor, shift):
    count = torch.Size(shape).numel()
    values = [((factor * i + shift) % 64) / 16 - 2 for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def case(mode, shape, size):
    x = numbers([1, *shape], 37, 11).requires_grad_()
    y = functional.interpolate(x, size=size, **MODES[mode])
    (dx,) = torch.autograd.grad(y, x, numbers(y.shape, 29, 5))
    return {"mode": mode, "shape": shape, "size": size, "y": y.flatten().tolist(), "dx": dx.flatten().tolist()}


def main():
    cases = [case(mode, shape, size) for mode in MODES for shape, size in SIZES]
    # Sizes at which PyTorch's nearest does not divide the output evenly between two columns, because it computes places in float32.
    columns = torch.arange(2, dtype=torch.float64).reshape(1, 1, 1, 2)
    uneven = [n for n in range(2, 200) if functional.interpolate(columns, size=(1, n))[0, 0, 0, (n + 1) // 2] == 0]
    head = f'  "torch": "{torch.__version__}",\n  "uneven": {uneven},\n'
    lines = ",\n".join("    " + json.dumps(case) for case in cases)
    text = f'{{\n{head}  "cases": [\n{lines}\n  ]\n}}\n'
    pathlib.Path(__file__).with_suffix(".json").write_text(text)


if __name__ == "__main__":
    main()
