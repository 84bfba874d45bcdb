#!/usr/bin/env python3
"""Times `kindling eval --from` on a table of 10,000 images with 2,000 resamples of their patients.

    scripts/score-speed.py --out benchmarks/DATE-score-speed.json

The table is made up: 10,000 test images of 2,500 patients and as many validation images, in two and in ten classes. A time is that of
the whole command: reading the table, all scores, curves and intervals, and writing them;
beside it stand the seconds of processors, which other programs on the machine change less. Needs nothing but Python and a built
`kindling`.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import random
import resource
import subprocess
import tempfile
import time

from machine import environment

IMAGES, EACH, RESAMPLES = 10_000, 4, 2_000


def write_table(path, classes):
    draw = random.Random(classes)
    names = [f"class{index}" for index in range(classes)]
    with path.open("w") as out:
        print("sample", "group", "split", "truth", *(f"p:{name}" for name in names), sep=",", file=out)
        for split in ("val", "test"):
            for image in range(IMAGES):
                truth = draw.randrange(classes)
                powers = [math.exp(draw.gauss(1.5 * (index == truth), 1)) for index in range(classes)]
                probabilities = (repr(power / sum(powers)) for power in powers)
                print(f"{split}{image}", f"{split}{image // EACH}", split, names[truth], *probabilities, sep=",", file=out)


def spent():
    """Seconds of processors that commands have taken so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kindling", default=os.environ.get("KINDLING_BIN", "target/release/kindling"))
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--note", default="")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for classes in (2, 10):
            table = pathlib.Path(folder) / f"{classes}.csv"
            write_table(table, classes)
            command = [args.kindling, "eval", "--from", str(table), "--resamples", str(RESAMPLES), "--format", "json"]
            seconds, processor = [], []
            for _ in range(args.times):
                before, used = time.perf_counter(), spent()
                told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["scores"]
                seconds.append(round(time.perf_counter() - before, 2))
                processor.append(round(spent() - used, 2))
            assert (told["images"], told["resamples"]) == (IMAGES, RESAMPLES), told
            rows.append({"classes": classes, "images": IMAGES, "patients": told["patients"], "resamples": RESAMPLES,
                         "seconds": seconds, "processor_seconds": processor})
    document = {
        "what": "seconds of `kindling eval --from` on a made-up table",
        "about": "reading it, all scores, curves and 95 % intervals by patient, and the same number of validation images for cut-offs and a temperature",
        "command": "scripts/score-speed.py",
        "date": datetime.date.today().isoformat(),
        "environment": environment(args.note),
        "rows": rows,
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
