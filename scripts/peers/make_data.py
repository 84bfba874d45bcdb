"""Writes the files that the loaders are compared on: 512x512 JPEGs and 16-bit PNGs, in one folder a class.

    make_data.py FOLDER [FILES]

The content is cut from the pictures that the package scikit-image carries (photographs, a retina, a stained tissue, the
moon), scaled by a random factor, turned and mirrored; the 16-bit ones hold 12 significant bits and get the noise of a
scanner, which is what makes such files hard to unpack. The same numbers are drawn every time.
"""

import sys
from pathlib import Path

import numpy
from PIL import Image
import skimage.data

SIDE = 512
PICTURES = ["astronaut.png", "chelsea.png", "coffee.png", "ihc.png", "retina.jpg", "rocket.jpg", "moon.png", "camera.png"]


def crop(picture, rng):
    """A square of SIDE pixels."""
    width, height = picture.size
    side = min(width, height, int(SIDE * rng.uniform(0.7, 1.5)))
    left, top = (int(rng.integers(0, length - side + 1)) for length in (width, height))
    square = picture.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    square = square.rotate(90 * int(rng.integers(4)))
    return square.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.integers(2) else square


def scan(picture, rng):
    """12 bits of grey with noise, spread over 16 bits."""
    grey = numpy.asarray(picture.convert("L"), dtype=numpy.float64) / 255
    values = 4095 * grey + rng.normal(0, 12, grey.shape)
    return Image.fromarray((numpy.clip(numpy.round(values), 0, 4095) * 16).astype(numpy.uint16))


def main():
    folder = Path(sys.argv[1])
    files = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    sources = [Image.open(Path(skimage.data.__file__).parent / name).convert("RGB") for name in PICTURES]
    rng = numpy.random.default_rng(5)
    for kind in ("jpeg", "png16"):
        for index in range(files):
            picture = crop(sources[index % len(sources)], rng)
            place = folder / kind / f"class-{index % 2}"
            place.mkdir(parents=True, exist_ok=True)
            if kind == "jpeg":
                picture.save(place / f"{index:05}.jpg", quality=90)
            else:
                scan(picture, rng).save(place / f"{index:05}.png")


main()
