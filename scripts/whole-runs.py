#!/usr/bin/env python3
"""Trains whole runs with several seeds and writes what they scored, as one JSON for benchmarks/.

    scripts/whole-runs.py --runs FOLDER --out benchmarks/DATE-whole-runs.json

Needs nothing but Python, a built `kindling`, scripts/fetch-brain-mri-orientation.sh and scripts/fetch-weights.sh. Runs in FOLDER are not
made twice, so that it can be stopped and started again. Scores do not depend on what else the machine does, times do.
"""

import argparse
import json
import pathlib
import subprocess

# What is trained: the flags of `kindling train`, the last without any.
CASES = [
    ["--data", "brain-mri-orientation", "--model", "mobilenet_v2", "--image-size", "128"],
    ["--data", "brain-mri-orientation", "--model", "mobilenet_v2", "--image-size", "128", "--pretrained", "--freeze", "backbone"],
    [],
]
SEEDS = (0, 1, 2)


def train(kindling: str, folder: pathlib.Path, flags: list, seed: int) -> tuple:
    """Trains unless it was done; returns what came of it and where."""
    run = folder / f"{CASES.index(flags)}-{seed}"
    if not (run / "metrics.json").exists():
        begin = ["--resume", str(run)] if (run / "config.toml").exists() else [*flags, "--seed", str(seed), "--out", str(run)]
        subprocess.run([kindling, "train", *begin, "--device", "cpu", "--quiet"], check=True)
    metrics = json.loads((run / "metrics.json").read_text())
    test = metrics["test"]
    kept = ("model", "data", "steps", "epochs", "peak_memory_bytes", "majority_baseline", "chance")
    result = {"seed": seed, "test": {key: test[key] for key in ("samples", "accuracy", "balanced_accuracy")},
              **{key: metrics[key] for key in kept if key in metrics}}
    environment = json.loads((run / "environment.json").read_text())
    del environment["command"]  # each case has its own, and this one names folders of the machine
    return result, environment


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kindling", default="target/release/kindling")
    parser.add_argument("--runs", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--done", action="store_true", help="train nothing, and write what is done so far")
    args = parser.parse_args()
    cases, environment = [], None
    for flags in CASES:
        runs = []
        for seed in SEEDS:
            if args.done and not (args.runs / f"{CASES.index(flags)}-{seed}" / "metrics.json").exists():
                continue
            result, environment = train(args.kindling, args.runs, flags, seed)
            runs.append(result)
            print(flags, seed, result["test"]["accuracy"], flush=True)
        cases.append({"command": " ".join(["kindling", "train", *flags]), "flags": flags, "runs": runs})
    document = {
        "what": "whole runs with three seeds; other programs ran beside them, so that no times stand here",
        "environment": environment,
        "cases": cases,
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
