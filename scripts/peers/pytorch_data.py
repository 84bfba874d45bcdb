"""What PyTorch's DataLoader makes of the files that `kindling bench data` loads: one JSON line.

    pytorch_data.py FOLDER [--workers 2] [--size 512] [--batch 8] [--augment none|light] [--images 512]

torchvision's ImageFolder with Pillow, the transforms that correspond to Kindling's policy, and no model. 16-bit files are
read as 16 bits (Pillow's mode I;16) and go through torchvision's transforms as float tensors, since its transforms of
Pillow images would cut them to 8.
"""

import argparse
import json
import time

import numpy
import PIL.Image
import torch
import torchvision
from torchvision.transforms import v2


def load(path):
    image = PIL.Image.open(path)
    if image.mode.startswith("I;16"):
        return torch.from_numpy(numpy.asarray(image).astype(numpy.float32) / 65535).unsqueeze(0)
    return image.convert("RGB")


def transforms(size, augment, deep):
    steps = [v2.Resize(size, antialias=True)]
    if augment == "light":
        steps += [
            v2.RandomHorizontalFlip(),
            v2.RandomAffine(10, translate=(0.04, 0.04), scale=(0.9, 1.1), interpolation=v2.InterpolationMode.BILINEAR),
            v2.ColorJitter(brightness=0.05, contrast=0.1),
        ]
    if not deep:
        steps += [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]
    mean, std = ([0.45], [0.225]) if deep else ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    return v2.Compose(steps + [v2.Normalize(mean, std)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--augment", default="light", choices=["none", "light"])
    parser.add_argument("--images", type=int, default=512)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    data = torchvision.datasets.ImageFolder(asked.folder, loader=load)
    deep = not isinstance(data[0][0], PIL.Image.Image)
    data.transform = transforms(asked.size, asked.augment, deep)
    loader = torch.utils.data.DataLoader(
        data, batch_size=asked.batch, shuffle=True, num_workers=asked.workers, persistent_workers=True
    )
    images, began = 0, None
    while images < asked.images:
        for batch, _ in loader:
            # The first batch pays for the start of the workers, which is not what is compared.
            if began is None:
                began = time.perf_counter()
                continue
            images += len(batch)
            if images >= asked.images:
                break
    seconds = time.perf_counter() - began
    print(json.dumps({
        "images": images, "images_per_second": images / seconds, "workers": asked.workers, "augment": asked.augment,
        "torch": torch.__version__, "torchvision": torchvision.__version__, "pillow": PIL.__version__,
    }))


main()
