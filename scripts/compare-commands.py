#!/usr/bin/env python3
"""Compares two commands, of an earlier version and of today's, in pairs: the speed of a training step or of inference, and the memory of the
process.

    scripts/compare-commands.py --earlier OLD/kindling --out benchmarks/DATE-steps-against-NAME.json

With --budgets each network is measured in each of these memory budgets. Each pair is `kindling bench` of one command and of the other, one
right after the other, so that what else the machine does hits both; which is first changes from pair to pair. What counts is the ratio within a pair: its median, and its range. Needs nothing but Python
and the two commands.
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
    parser.add_argument("--earlier", required=True, help="the command of the earlier version")
    parser.add_argument("--kindling", default=os.environ.get("KINDLING_BIN", "target/release/kindling"))
    parser.add_argument("--commit", help="of the later command, if that does not know it")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--what", nargs="+", default=["train"], choices=["train", "infer"])
    parser.add_argument("--image-size", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--precisions", nargs="+", default=["f32"])
    parser.add_argument("--budgets", nargs="+", default=["none"], help="memory budgets, such as none or 850MiB")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--window-seconds", type=float, default=2)
    parser.add_argument("--note", default="")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    rows = [{"what": what, "model": model, "precision": precision, "memory_budget": budget, "earlier": [], "today": [],
             "process": {"earlier": [], "today": []}}
            for what in args.what for model in args.models for precision in args.precisions for budget in args.budgets]
    commits = {}
    for pair in range(args.pairs):
        for row in rows:
            flags = ["--models", row["model"], "--image-size", str(args.image_size), "--batch-size", str(args.batch_size),
                     "--windows", str(args.windows), "--window-seconds", str(args.window_seconds), "--precision", row["precision"], "--isolate"]
            flags += ["--memory-budget", row["memory_budget"]] if row["memory_budget"] != "none" else []
            for side, command in pairs.in_turn([("earlier", args.earlier), ("today", args.kindling)], pair):
                measured = pairs.bench_row(command, row["what"], flags)
                commits[side] = measured["environment"]["commit"]
                row[side].append(round(measured["measured"]["images_per_second"]["median"], 3))
                row["process"][side].append(measured["measured"]["memory"]["peak_process_bytes"])
                if len(commits) == 2 and commits["earlier"] == commits["today"]:
                    raise SystemExit(f"compare-commands: both commands are of commit {commits['today']}")
    for row in rows:
        row["ratio"] = pairs.ratio(row["today"], row["earlier"])
        row["process_ratio"] = pairs.ratio(row["process"]["today"], row["process"]["earlier"])
    document = {
        "what": "images a second, and bytes of the process at its peak, of an earlier version's command and of a later one's",
        "about": f"training with AdamW, or inference, {args.image_size}x{args.image_size}, batch {args.batch_size}: {args.pairs} pairs, one command right after the other, "
                 f"each the median of {args.windows} windows of {args.window_seconds:g} s",
        "command": "scripts/compare-commands.py",
        "date": datetime.date.today().isoformat(),
        "earlier": commits["earlier"],
        "environment": environment(args.note, commit=commits["today"] or args.commit),
        "rows": rows,
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    for row in rows:
        print(row["what"], row["model"], row["precision"], row["memory_budget"], row["ratio"], "process", row["process_ratio"])


if __name__ == "__main__":
    main()
