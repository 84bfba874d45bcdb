#!/usr/bin/env python3
"""Networks for segmentation, computed with segmentation_models_pytorch 0.5.0.

Weights and images are filled by the formula that golden.py documents, images of any height and width. The first line of
segmentation.json names the versions, and each line after it is a case:

    encoder, batch, size        the encoder of `Unet`, and its images of [batch, 3, height, width]; CLASSES classes
    params                      elements of all parameters
    keys                        [name, shape] of the tensors of the state dict, num_batches_tracked left out
    eval, train                 logits in float64: first8 of the last row of the last image, and l2 of every image
    loss                        half the mean square of the train logits minus v of fill("target", [batch, CLASSES, height, width])
    grads                       norm of that loss's gradient with respect to each parameter that has one, by its key

Nothing is dropped in training. efficientnet-b0 pads as for images of 224 pixels, whatever it is given: its sizes here are
multiples of 32, for which that is TensorFlow's padding.

usage: segmentation.py [--out segmentation.json]   (needs torch, torchvision, timm, segmentation_models_pytorch)
"""
import argparse, json
import numpy as np
import torch
import segmentation_models_pytorch as smp
import golden
from golden import fill01, load_fill

CLASSES = 3
CASES = [
    ("mobilenet_v2", 3, (64, 96)),
    ("mobilenet_v2", 3, (75, 50)),
    ("timm-mobilenetv3_small_100", 3, (64, 65)),
    ("timm-mobilenetv3_large_100", 3, (65, 64)),
    ("timm-tf_efficientnet_lite0", 3, (71, 64)),
    ("efficientnet-b0", 3, (64, 96)),
    ("resnet18", 2, (64, 71)),
    ("resnet34", 2, (64, 64)),
]


def signed(name, shape):
    return 2 * torch.from_numpy(fill01(name, int(np.prod(shape))).reshape(shape)) - 1


def build(encoder):
    network = smp.Unet(encoder, encoder_weights=None, classes=CLASSES)
    for module in network.modules():
        if hasattr(module, "drop_prob"):
            module.drop_prob = 0.0
    if hasattr(network.encoder, "_drop_connect_rate"):
        network.encoder._drop_connect_rate = 0.0
    return load_fill(network, torch.float64)


def summary(logits):
    logits = logits.detach()
    return {"first8": logits[-1, -1, -1, :8].tolist(), "l2": logits.flatten(1).norm(dim=1).tolist()}


def run(encoder, batch, size):
    network = build(encoder)
    images = 1.7 * signed("input", (batch, 3, *size))
    state = {name: list(value.shape) for name, value in network.state_dict().items()}
    out = {
        "encoder": encoder, "batch": batch, "size": list(size),
        "params": sum(p.numel() for p in network.parameters()),
        "keys": [[name, shape] for name, shape in state.items() if not name.endswith("num_batches_tracked")],
    }
    with torch.no_grad():
        out["eval"] = summary(network.eval()(images))
    logits = network.train()(images)
    out["train"] = summary(logits)
    loss = ((logits - signed("target", logits.shape)) ** 2).mean() / 2
    loss.backward()
    out["loss"] = loss.item()
    out["grads"] = {name: p.grad.norm().item() for name, p in network.named_parameters() if p.grad is not None}
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="segmentation.json")
    args = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    versions = {"torch": torch.__version__, "segmentation_models_pytorch": smp.__version__, "gain": golden.GAIN}
    lines = ",\n".join(json.dumps(run(*case), separators=(",", ":")) for case in CASES)
    with open(args.out, "w") as file:
        file.write(f'{{"versions":{json.dumps(versions)},"cases":[\n{lines}\n]}}\n')
