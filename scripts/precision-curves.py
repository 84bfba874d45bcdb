#!/usr/bin/env python3
"""Trains the same run in float32 with several seeds and in the half formats, and compares: does a half format end within
the spread of the seeds? Writes the figures as JSON and the losses of one seed in every format as an SVG picture.

    scripts/precision-curves.py --runs FOLDER --out benchmarks/DATE-precision-cpu.json --picture docs/precision.svg

Needs nothing but Python, a built `kindling`, and scripts/fetch-brain-mri-orientation.sh. Runs in FOLDER are not made twice.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

# Data set, and what its runs are trained with.
CASES = {
    "phantoms": ["--model", "mobilenet_v3_small", "--image-size", "256"],
    "brain-mri-orientation": ["--model", "mobilenet_v2", "--image-size", "128"],
}
SEEDS = (1, 2, 3)
COLOURS = {"f32": "#1f5fa8", "bf16": "#c8551b", "f16": "#2f8f4e"}


def train(kindling: str, folder: pathlib.Path, data: str, precision: str, seed: int, device: str) -> dict:
    """Trains unless it was done; returns accuracy, losses and environment."""
    run = folder / f"{data}-{precision}-{seed}"
    if not (run / "metrics.json").exists():
        command = [kindling, "train", "--data", data, *CASES[data], "--precision", precision, "--seed", str(seed),
                   "--device", device, "--quiet", "--out", str(run)]
        subprocess.run(command, check=True)
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    metrics = json.loads((run / "metrics.json").read_text())
    return {
        "precision": precision,
        "seed": seed,
        "test_accuracy": metrics["test"]["accuracy"],
        "losses": [event["loss"] for event in events if event["event"] == "step"],
        "skipped_updates": sum(bool(event.get("skipped")) for event in events),
        "environment": json.loads((run / "environment.json").read_text()),
    }


def smooth(losses: list, window: int = 15) -> list:
    """The mean of the last `window` losses at each step."""
    return [statistics.fmean(losses[max(0, step - window + 1):step + 1]) for step in range(len(losses))]


def panel(title: str, curves: dict, left: int) -> str:
    """One chart: a smoothed curve for each format."""
    width, height, top, bottom = 400, 230, 46, 276
    highest = max(max(curve) for curve in curves.values())
    parts = [f'<text x="{left}" y="30" class="title">{title}</text>']
    for tick in range(5):
        y = bottom - height * tick / 4
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
                     f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{highest * tick / 4:.2f}</text>')
    for name, curve in curves.items():
        step = width / max(1, len(curve) - 1)
        points = " ".join(f"{left + i * step:.1f},{bottom - height * loss / highest:.1f}" for i, loss in enumerate(curve))
        parts.append(f'<polyline points="{points}" stroke="{COLOURS[name]}" class="curve"/>')
    for index, name in enumerate(curves):
        y = top + 16 + 18 * index
        parts.append(f'<line x1="{left + width - 80}" x2="{left + width - 56}" y1="{y}" y2="{y}" '
                     f'stroke="{COLOURS[name]}" class="curve"/><text x="{left + width - 50}" y="{y + 4}">{name}</text>')
    steps = max(len(curve) for curve in curves.values())
    parts.append(f'<text x="{left + width}" y="{bottom + 20}" text-anchor="end">{steps} steps</text>')
    return "".join(parts)


def draw(cases: dict, seed: int) -> str:
    """The picture: a panel for each data set."""
    panels = []
    for index, (data, runs) in enumerate(cases.items()):
        curves = {run["precision"]: smooth(run["losses"]) for run in runs if run["seed"] == seed}
        panels.append(panel(f"{data}: training loss", curves, 60 + 480 * index))
    width = 480 * len(panels) + 20
    style = ("text{font:12px sans-serif;fill:#333}.title{font-size:15px;font-weight:600}.grid{stroke:#ddd}"
             ".curve{fill:none;stroke-width:1.8}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 310"><style>{style}</style>'
            f'<rect width="{width}" height="310" fill="#fff"/>{"".join(panels)}</svg>\n')


def summary(runs: list) -> dict:
    """The accuracies, and whether each half format lies within the float32 seeds' spread."""
    full = [run["test_accuracy"] for run in runs if run["precision"] == "f32"]
    halves = {run["precision"]: run["test_accuracy"] for run in runs if run["precision"] != "f32"}
    return {"f32_seeds": full, **halves,
            "within_the_spread": {name: min(full) <= value <= max(full) for name, value in halves.items()},
            "not_below_the_spread": {name: min(full) <= value for name, value in halves.items()},
            "skipped_updates": {run["precision"]: run["skipped_updates"] for run in runs if run["precision"] != "f32"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kindling", default="target/release/kindling")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", required=True, type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--picture", type=pathlib.Path)
    args = parser.parse_args()
    args.runs.mkdir(parents=True, exist_ok=True)
    wanted = [("f32", seed) for seed in SEEDS] + [("bf16", SEEDS[0]), ("f16", SEEDS[0])]
    cases = {data: [train(args.kindling, args.runs, data, *run, args.device) for run in wanted] for data in CASES}
    result = {
        "about": "test accuracy of float32 runs with three seeds and of runs in the half formats with the first seed",
        "environment": cases[next(iter(cases))][-1]["environment"],
        "cases": {data: {"command": CASES[data], **summary(runs)} for data, runs in cases.items()},
    }
    result["environment"].pop("command", None)
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    if args.picture:
        args.picture.write_text(draw(cases, SEEDS[0]))


if __name__ == "__main__":
    main()
