#!/usr/bin/env python3
"""A compact check of every name of the zoo, computed with torchvision and timm.

golden.json compares a few networks in depth; zoo.json compares all of them shallowly. Weights and images are filled by
the formula that golden.py documents. The first line of zoo.json names the versions, and each line after it is a case:

    model, batch, size          the network, and its images of [batch, 3, size, size]
    params                      elements of all parameters
    state                       tensors of the state dict, num_batches_tracked left out
    gain                        GAIN of the formula for the weights, where it is not golden.py's
    stages                      [reduction, channels] of each of timm's feature maps, null for torchvision
    eval_f64, train_f64         logits: first8 of row 0, and l2 of every row
    eval_f32, train_f32         l2 of every row in float32: how far the reference itself rounds
    loss_f64                    cross entropy of the train logits, image n being of class (7 n + 3) mod 1000
    grad_l2_f64                 norm of that loss's gradient with respect to all parameters together

train_f64, train_f32, loss_f64 and grad_l2_f64 are left out of cases of a single image, where the statistics of a batch
say too little. Nothing is dropped in training: neither features (dropout) nor residual branches (stochastic depth).

usage: zoo.py [--out zoo.json] [--only TEXT]   (needs torch, torchvision, timm; --only: models whose name has TEXT)
"""
import argparse, json
import torch, torchvision, timm
import golden
from golden import GAIN, build, fill01, load_fill

# With golden.py's gain the outputs of the deepest networks are chaotic: float32 and float64 share no digit.
GAINS = {"v2_m": 3.0, "v2_l": 3.0}

# Batch and size, then names. SAME padding (timm's tf_ names) is lopsided where a stride meets an even size, symmetric
# where it meets an odd one. So the odd sizes of those names halve to even ones: 71, 36, 18, 9, 5, 3 and 75, 38, 19, 10,
# 5, 3 and 83, 42, 21, 11, 6, 3 (65, 33, 17, 9, 5, 3 would not do). MobileNetV4 normalises its pooled features, a single
# value of each image: its batches are the largest.
CASES = """
3x64  torchvision: mobilenet_v2 efficientnet_b0 mnasnet0_75 resnet34
3x65  torchvision: mobilenet_v3_small efficientnet_b1 mnasnet1_0 resnet50
3x71  torchvision: mobilenet_v3_large efficientnet_b2 mnasnet1_3 resnet18
2x80  torchvision: efficientnet_b3 efficientnet_v2_s
2x75  torchvision: efficientnet_b4
3x97  torchvision: mnasnet0_5
2x64  torchvision: efficientnet_b5 efficientnet_b6 efficientnet_b7 efficientnet_v2_m efficientnet_v2_l

3x64  timm: mobilenetv2_035 mobilenetv3_large_100 efficientnet_b0 efficientnet_lite1 mnasnet_075 mixnet_s resnet34
3x65  timm: mobilenetv2_050 mobilenetv3_small_100 efficientnet_b1 efficientnet_lite0 mnasnet_100 ghostnet_100 resnet18
3x71  timm: mobilenetv2_075 efficientnet_b2 efficientnet_lite3 semnasnet_100 resnet50
3x80  timm: mobilenetv1_100 mobilenetv2_140 efficientnet_lite2
2x75  timm: efficientnet_b3 efficientnet_b4 efficientnet_lite4 efficientnetv2_s
3x97  timm: mobilenetv2_100 mnasnet_050
2x64  timm: efficientnet_b5 efficientnet_b6 efficientnet_b7 efficientnetv2_m efficientnetv2_l
4x64  timm: mobilenetv4_conv_small
4x71  timm: mobilenetv4_conv_medium
4x80  timm: mobilenetv4_conv_large

3x71  timm: tf_mobilenetv3_small_100 tf_efficientnet_b0 tf_efficientnet_b3 tf_efficientnet_lite0 tf_efficientnet_lite3
3x75  timm: tf_mobilenetv3_large_100 tf_efficientnet_b1 tf_efficientnet_lite1 tf_efficientnet_lite4 tf_mixnet_s
3x83  timm: tf_efficientnet_b2 tf_efficientnet_lite2
2x71  timm: tf_efficientnet_b4 tf_efficientnet_b5 tf_efficientnet_b6 tf_efficientnet_b7
2x71  timm: tf_efficientnetv2_s tf_efficientnetv2_m tf_efficientnetv2_l
3x64  timm: tf_mobilenetv3_small_100 tf_efficientnet_b0 tf_efficientnet_lite0 tf_efficientnetv2_s tf_mixnet_s
3x86  timm: tf_mobilenetv3_large_100 tf_efficientnet_b1 tf_efficientnet_lite1

1x50  timm: mobilenetv2_100 tf_efficientnet_lite0 ghostnet_100
1x57  torchvision: mobilenet_v3_small
"""

# A checkpoint of MNASNet must tell its version. A filled one has none; its tensors are those of the version installed.
del torchvision.models.MNASNet._load_from_state_dict


def cases(text):
    for line in filter(None, text.splitlines()):
        shape, library, *names = line.replace(":", "").split()
        batch, size = map(int, shape.split("x"))
        for name in names:
            yield f"{library}.{name}", batch, size


def gain(model):
    return next((gain for part, gain in GAINS.items() if part in model), GAIN)


def filled(model, dtype):
    """The filled network without dropout, including where timm keeps it as a number (GhostNet's is 0.2)."""
    golden.GAIN = gain(model)
    network = load_fill(build(model), dtype)
    network.drop_rate = 0.0
    return network


def stages(model):
    library, name = model.split(".", 1)
    if library != "timm":
        return None
    info = timm.create_model(name, features_only=True).feature_info
    return [[stage["reduction"], stage["num_chs"]] for stage in info.get_dicts()]


def norms(logits):
    return logits.detach().double().norm(dim=1).tolist()


def logits_summary(logits):
    return {"first8": logits[0, :8].tolist(), "l2": norms(logits)}


def run(model, batch, size):
    pixels = 1.7 * (2 * torch.from_numpy(fill01("input", batch * 3 * size * size)) - 1)
    images = pixels.reshape(batch, 3, size, size)
    train = batch > 1

    network = filled(model, torch.float32)
    out = {
        "model": model, "batch": batch, "size": size,
        "params": sum(p.numel() for p in network.parameters()),
        "state": sum(not name.endswith("num_batches_tracked") for name in network.state_dict()),
        "stages": stages(model),
    }
    if gain(model) != GAIN:
        out["gain"] = gain(model)
    with torch.no_grad():
        out["eval_f32"] = norms(network.eval()(images.float()))
        if train:
            out["train_f32"] = norms(network.train()(images.float()))

    network = filled(model, torch.float64)
    with torch.no_grad():
        out["eval_f64"] = logits_summary(network.eval()(images))
    if train:
        logits = network.train()(images)
        labels = torch.tensor([(7 * n + 3) % logits.shape[1] for n in range(batch)])
        loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
        out["train_f64"] = logits_summary(logits)
        out["loss_f64"] = loss.item()
        out["grad_l2_f64"] = torch.stack([p.grad.norm() for p in network.parameters()]).norm().item()
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="zoo.json")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    versions = {library.__name__: library.__version__ for library in (torch, torchvision, timm)} | {"gain": GAIN}
    compact = lambda value: json.dumps(value, separators=(",", ":"))
    lines = []
    for case in cases(CASES):
        if args.only in case[0]:
            print(*case, flush=True)
            lines.append(compact(run(*case)))
    with open(args.out, "w") as file:
        file.write(compact(versions)[:-1] + ',"cases":[\n' + ",\n".join(lines) + "\n]}\n")
