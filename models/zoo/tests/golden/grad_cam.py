#!/usr/bin/env python3
"""Reference maps of Grad-CAM in float64, by hooks on networks of torchvision and timm.

Weights and images are those of golden.py. The map is the one before the global average pool; its values and its gradient for the
logit of a class are taken by a hook, as in github.com/jacobgil/pytorch-grad-cam: weights are the gradient's means over places,
and the map is relu(sum of weights times channels), not stretched to 0..1.

usage: grad_cam.py [--out grad_cam.json]   (needs torch, torchvision, timm)
"""
import argparse, json
import torch
from golden import build, fill01, load_fill

# What is pooled: the last convolution with its activation, or ResNet's last block; and of MobileNetV3 and V4 the convolution before the
# hidden layer.
CASES = [
    ("torchvision.resnet18", "layer4", 128),
    ("torchvision.mobilenet_v2", "features", 96),
    ("torchvision.mobilenet_v3_small", "features", 97),
    ("torchvision.efficientnet_b0", "features", 160),
    ("timm.mobilenetv4_conv_small", "blocks", 96),
]
# Of each image of a case, the class that is looked at: from this one on the first that any place speaks for.
FIRST_CLASSES = [3, 17]


def grad_cam(model, layer, images, classes):
    seen = {}

    def hook(_module, _inputs, output):
        output.retain_grad()
        seen["map"] = output

    handle = dict(model.named_modules())[layer].register_forward_hook(hook)
    logits = model(images.requires_grad_())
    handle.remove()
    logits[torch.arange(len(classes)), torch.tensor(classes)].sum().backward()
    weights = seen["map"].grad.mean(dim=(2, 3), keepdim=True)
    return torch.relu((weights * seen["map"]).sum(1)).detach()


def run(name, layer, size):
    model = load_fill(build(name), torch.float64).eval()
    classes = list(FIRST_CLASSES)
    n = len(classes)
    images = 1.7 * (2 * torch.from_numpy(fill01("input", n * 3 * size * size).reshape(n, 3, size, size)) - 1)
    while True:
        cam = grad_cam(model, layer, images, classes)
        silent = [image for image in range(n) if cam[image].max() == 0]
        if not silent:
            break
        for image in silent:
            classes[image] += 1
    keys = [[k, list(v.shape)] for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")]
    return {"model": name, "size": size, "classes": classes, "keys": keys, "shape": list(cam.shape), "map": cam.flatten().tolist()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="grad_cam.json")
    args = parser.parse_args()
    cases = [run(*case) for case in CASES]
    with open(args.out, "w") as file:
        json.dump({"torch": torch.__version__, "cases": cases}, file, separators=(",", ":"))
        file.write("\n")
