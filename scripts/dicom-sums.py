#!/usr/bin/env python3
"""Writes what pydicom reads from its test files: the reference of crates/scans/tests/published_files.rs.

    python3 -m venv .venv
    .venv/bin/pip install numpy pydicom==3.0.2 pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg pylibjpeg-rle
    scripts/fetch-test-files.sh --large
    .venv/bin/python scripts/dicom-sums.py FOLDER > crates/scans/tests/dicom-sums.json

FOLDER is the folder `test-files` that the fetch script names. For each DICOM file with pixels: its transfer syntax, the
shape of an image, and for each image the sum of its stored values, the SHA-256 of the values as little-endian int64,
and, where they are packed with loss so that decoders may differ by rounding, 32 of them at even distances.
"""

import hashlib
import json
import pathlib
import sys
import warnings

import numpy
import pydicom
from pydicom.pixels import iter_pixels

LOSSY = {"1.2.840.10008.1.2.4.50", "1.2.840.10008.1.2.4.51", "1.2.840.10008.1.2.4.91"}


def describe(path):
    dataset = pydicom.dcmread(path, force=True)
    if "PixelData" not in dataset:
        return None
    syntax = str(dataset.file_meta.TransferSyntaxUID)
    lossy = syntax in LOSSY
    images = []
    for values in iter_pixels(dataset, raw=True):
        flat = values.astype("<i8").ravel()
        image = {"sum": int(flat.sum()), "sha256": hashlib.sha256(flat.tobytes()).hexdigest()}
        if lossy:
            image["probe"] = [int(flat[place * len(flat) // 32]) for place in range(32)]
        images.append(image)
    samples = 1 if values.ndim == 2 else values.shape[2]
    return {
        "transfer_syntax": syntax,
        "lossy": lossy,
        "shape": [int(values.shape[0]), int(values.shape[1]), int(samples)],
        "images": images,
    }


def main():
    warnings.simplefilter("ignore")
    folder = pathlib.Path(sys.argv[1])
    table = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or path.suffix in {".txt", ".json", ".gz", ".dump", ".icc", ".png", ".tif", ".jpg"}:
            continue
        try:
            found = describe(path)
        except Exception as error:  # what pydicom cannot read is no reference
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        if found is None:
            print(f"{name}: no pixels", file=sys.stderr)
        else:
            table[name] = found
    lines = (f"{json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}" for name, entry in table.items())
    body = ",\n".join(lines)
    print(f'{{"pydicom": "{pydicom.__version__}", "numpy": "{numpy.__version__}", "files": {{\n{body}\n}}}}')


main()
