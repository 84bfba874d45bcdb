#!/usr/bin/env python3
"""The operators of a training step of torchvision's network in PyTorch, and the bytes they are given, without running any.

    pytorch_ledger.py MODEL f32|bf16 SIZE BATCH

The step is eager, on tensors without data (`FakeTensorMode`, device cpu: autograd asks a GPU for its context): forward (under autocast for bf16),
cross-entropy, backward, AdamW. Counted is what reaches the dispatcher below autograd, without views and without what makes no kernel. An
operator's bytes are those of its different inputs and outputs; some operators launch more than one kernel, and some, as copies of
parameters under autocast, would be fused by torch.compile. AdamW counts as its fused form: one launch for 32 tensors, which
reads weights, gradients and two moments and writes weights and moments.
"""

import json
import math
import sys

import torch
import torchvision
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NO_KERNEL = {"detach", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "lift_fresh", "set_"}
TENSORS_A_LAUNCH = 32


class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operators, self.bytes = 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        if is_view or name in NO_KERNEL:
            return out
        given = {id(leaf): leaf for leaf in tree_leaves([args, kwargs or {}, out]) if isinstance(leaf, torch.Tensor)}
        self.operators += 1
        self.bytes += sum(leaf.numel() * leaf.element_size() for leaf in given.values())
        return out


def main():
    name, precision, size, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with FakeTensorMode(allow_non_fake_inputs=True):
        with torch.device("cpu"):
            model = torchvision.models.get_model(name, weights=None, num_classes=2).train()
            images = torch.empty(batch, 3, size, size).contiguous(memory_format=torch.channels_last)
            labels = torch.zeros(batch, dtype=torch.long)
        for parameter in model.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        with Count() as count:
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
        parameters = [parameter for parameter in model.parameters() if parameter.grad is not None]
        numbers = sum(parameter.numel() for parameter in parameters)
    launches = math.ceil(len(parameters) / TENSORS_A_LAUNCH)
    print(json.dumps({"operators": count.operators + launches, "bytes": count.bytes + 7 * 4 * numbers, "torch": torch.__version__,
                      "torchvision": torchvision.__version__}))


if __name__ == "__main__":
    main()
