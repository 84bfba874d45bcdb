#!/usr/bin/env python3
"""Measures what a step gains on the CPU where several normalisation groups are computed at once.

    scripts/groups-at-once.py --out benchmarks/DATE-groups-at-once-NAME.json

The groups (ghost batches) of a batch are computed one after the other, and several at once, each on threads of its own: the same bits, faster
where images are small, for more memory. In pairs, as in scripts/compare-commands.py.
"""

import argparse
import datetime
import json
import os
import pathlib

import pairs
from machine import environment

MODELS = ["mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "resnet18"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kindling", default=os.environ.get("KINDLING_BIN", "target/release/kindling"))
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--sizes", nargs="+", type=int, default=[64, 128, 224])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--group", type=int, default=8, help="the ghost batch size")
    parser.add_argument("--at-once", type=int, default=2, help="groups at once, of which no more are computed than there are threads")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--window-seconds", type=float, default=2)
    parser.add_argument("--note", default="")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    rows = [{"model": model, "image_size": size, "in_turn": [], "at_once": []} for model in args.models for size in args.sizes]
    commit = None
    for pair in range(args.pairs):
        for row in rows:
            for side, groups in pairs.in_turn([("in_turn", 1), ("at_once", args.at_once)], pair):
                flags = ["--models", row["model"], "--image-size", str(row["image_size"]), "--batch-size", str(args.batch_size),
                         "--ghost-batch-size", str(args.group), "--micro-batch", str(groups * args.group), "--windows", "3",
                         "--window-seconds", str(args.window_seconds)]
                measured = pairs.bench_row(args.kindling, "train", flags)
                commit = measured["environment"]["commit"]
                row[side].append(round(measured["measured"]["images_per_second"]["median"], 3))
    for row in rows:
        row["ratio"] = pairs.ratio(row["at_once"], row["in_turn"])
        print(row["model"], row["image_size"], row["ratio"])
    document = {
        "what": "images a second of training steps whose normalisation groups are computed one after the other, and several at once",
        "about": f"float32, AdamW, batch {args.batch_size} in groups of {args.group}, of which {args.at_once} are computed at once: {args.pairs} pairs, each the "
                 f"median of 3 windows of {args.window_seconds:g} s",
        "command": "scripts/groups-at-once.py",
        "date": datetime.date.today().isoformat(),
        "environment": environment(args.note, commit=commit),
        "rows": rows,
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
