#!/usr/bin/env python3
"""Networks for segmentation, computed with segmentation_models_pytorch 0.5.0 and torchvision.

Weights and images are filled by the formula that golden.py documents, images of any height and width. The first line of
segmentation.json names the versions, and each line after it is a case:

    network, encoder            the network, and its encoder or backbone
    auxiliary                   true where torchvision's network has its auxiliary classifier (aux_loss=True), otherwise left out
    batch, size                 its images are [batch, 3, height, width], and it has CLASSES classes
    params                      elements of all parameters
    keys                        [name, shape] of the tensors of the state dict, num_batches_tracked left out
    eval, train                 logits in float64: first8 of the last row of the last image, and l2 of every image
    loss                        half the mean square of the train logits minus v of fill("target", [batch, channels, height, width])
    grads                       norm of that loss's gradient with respect to each parameter that has one, by its key

An auxiliary classifier's logits lie behind the others' in training, so that there are twice CLASSES channels, and the last row is of them.
They are no part of eval. Nothing is dropped in training. efficientnet-b0 pads as for images of 224 pixels, whatever it is given: its sizes
here are multiples of 32, for which that is TensorFlow's padding.

usage: segmentation.py [--out segmentation.json]   (needs torch, torchvision, timm, segmentation_models_pytorch)
"""
import argparse, json
import numpy as np
import torch
import segmentation_models_pytorch as smp
import torchvision
import golden
from golden import fill01, load_fill

CLASSES = 3
CASES = [
    ("unet", "mobilenet_v2", 3, (64, 96)),
    ("unet", "mobilenet_v2", 3, (75, 50)),
    ("unet", "timm-mobilenetv3_small_100", 3, (64, 65)),
    ("unet", "timm-mobilenetv3_large_100", 3, (65, 64)),
    ("unet", "timm-tf_efficientnet_lite0", 3, (71, 64)),
    ("unet", "efficientnet-b0", 3, (64, 96)),
    ("unet", "resnet18", 2, (64, 71)),
    ("unet", "resnet34", 2, (64, 64)),
    ("deeplabv3plus", "mobilenet_v2", 3, (64, 96)),
    ("deeplabv3plus", "resnet18", 2, (96, 64)),
    ("deeplabv3plus", "resnet34", 2, (64, 64)),
    ("lraspp", "mobilenet_v3_large", 3, (64, 96)),
    ("lraspp", "mobilenet_v3_large", 3, (75, 50)),
    ("deeplabv3", "mobilenet_v3_large", 3, (75, 50)),
    ("deeplabv3", "resnet50", 2, (64, 71)),
    ("fcn", "resnet50", 2, (64, 71)),
    ("deeplabv3", "mobilenet_v3_large", 3, (75, 50), True),
    ("deeplabv3", "resnet50", 2, (64, 71), True),
    ("fcn", "resnet50", 2, (64, 71), True),
]


def signed(name, shape):
    return 2 * torch.from_numpy(fill01(name, int(np.prod(shape))).reshape(shape)) - 1


class OfTorchvision(torch.nn.Module):
    """The logits of one of torchvision's networks; in training, those of its auxiliary classifier behind them."""

    def __init__(self, name, auxiliary):
        super().__init__()
        make = getattr(torchvision.models.segmentation, name)
        # Lite R-ASPP has none, and takes no such argument.
        given = {"aux_loss": True} if auxiliary else {}
        self.network = make(weights=None, weights_backbone=None, num_classes=CLASSES, **given)

    def forward(self, images):
        logits = self.network(images)
        if self.training and "aux" in logits:
            return torch.cat([logits["out"], logits["aux"]], dim=1)
        return logits["out"]


def build(network, encoder, auxiliary):
    """The network that has the weights, and what computes its logits."""
    if network in ("unet", "deeplabv3plus"):
        make = smp.Unet if network == "unet" else smp.DeepLabV3Plus
        whole = make(encoder, encoder_weights=None, classes=CLASSES)
        holder = whole
    else:
        whole = OfTorchvision(f"{network}_{encoder}", auxiliary)
        holder = whole.network
    for module in whole.modules():
        if hasattr(module, "drop_prob"):
            module.drop_prob = 0.0
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    if hasattr(holder, "encoder") and hasattr(holder.encoder, "_drop_connect_rate"):
        holder.encoder._drop_connect_rate = 0.0
    load_fill(holder, torch.float64)
    return holder, whole


def summary(logits):
    logits = logits.detach()
    return {"first8": logits[-1, -1, -1, :8].tolist(), "l2": logits.flatten(1).norm(dim=1).tolist()}


def run(name, encoder, batch, size, auxiliary=False):
    holder, network = build(name, encoder, auxiliary)
    images = 1.7 * signed("input", (batch, 3, *size))
    state = {name: list(value.shape) for name, value in holder.state_dict().items()}
    out = {
        "network": name, "encoder": encoder, **({"auxiliary": True} if auxiliary else {}),
        "batch": batch, "size": list(size),
        "params": sum(p.numel() for p in holder.parameters()),
        "keys": [[name, shape] for name, shape in state.items() if not name.endswith("num_batches_tracked")],
    }
    with torch.no_grad():
        out["eval"] = summary(network.eval()(images))
    logits = network.train()(images)
    out["train"] = summary(logits)
    loss = ((logits - signed("target", logits.shape)) ** 2).mean() / 2
    loss.backward()
    out["loss"] = loss.item()
    out["grads"] = {name: p.grad.norm().item() for name, p in holder.named_parameters() if p.grad is not None}
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="segmentation.json")
    args = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    versions = {"torch": torch.__version__, "segmentation_models_pytorch": smp.__version__,
                "torchvision": torchvision.__version__, "gain": golden.GAIN}
    lines = ",\n".join(json.dumps(run(*case), separators=(",", ":")) for case in CASES)
    with open(args.out, "w") as file:
        file.write(f'{{"versions":{json.dumps(versions)},"cases":[\n{lines}\n]}}\n')
