#!/usr/bin/env python3
"""Times the start of the command: `kindling --help`, and `kindling predict` of one image with a run.

    scripts/start-up.py --out benchmarks/DATE-start-up.json

The run is the default model, trained for one step; the image is a grey PNG of the same size. Every command runs once before it is timed,
so that its files are in memory. Beside the time of the whole process stand the seconds of processors and the pages that it touched
for the first time. Needs nothing but Python and a built `kindling`.
"""

import argparse
import datetime
import json
import os
import pathlib
import resource
import struct
import subprocess
import tempfile
import time
import zlib

from machine import environment

SIDE = 512


def write_picture(path):
    """A grey PNG with a bright disc."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    middle = SIDE // 2
    rows = (bytes(200 if (x - middle) ** 2 + (y - middle) ** 2 < middle * middle // 2 else 20 for x in range(SIDE)) for y in range(SIDE))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def used():
    """Seconds of processors that commands have taken so far, and pages."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime, spent.ru_minflt


def timed(command, times):
    """Seconds, seconds of processors and pages of each of several runs."""
    subprocess.run(command, check=True, capture_output=True)
    found = {"seconds": [], "processor_seconds": [], "pages": []}
    for _ in range(times):
        before, (processor, pages) = time.perf_counter(), used()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = used()
        found["seconds"].append(round(time.perf_counter() - before, 4))
        found["processor_seconds"].append(round(after[0] - processor, 4))
        found["pages"].append(after[1] - pages)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kindling", default=os.environ.get("KINDLING_BIN", "target/release/kindling"))
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--note", default="")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run, picture = pathlib.Path(folder) / "run", pathlib.Path(folder) / "picture.png"
        train = f"train --data phantoms --max-steps 1 --epochs 1 --image-size {SIDE} --device cpu --quiet --out {run}"
        subprocess.run([args.kindling, *train.split()], check=True, capture_output=True)
        commit = json.loads((run / "environment.json").read_text())["commit"]
        write_picture(picture)
        commands = {"kindling --help": ["--help"], "kindling predict RUN IMAGE --device cpu": ["predict", run, picture, "--device", "cpu"]}
        rows = [{"command": name, **timed([args.kindling, *map(str, words)], args.times)} for name, words in commands.items()]
    document = {
        "what": "time of the whole process of two short commands, warm",
        "about": f"the run is the default model after one step, the image a grey PNG of {SIDE}x{SIDE}",
        "command": "scripts/start-up.py",
        "date": datetime.date.today().isoformat(),
        "environment": environment(args.note, commit=commit),
        "rows": rows,
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
