#!/usr/bin/env python3
"""Measures what a training step costs in several processes on one machine, beside one process with as many threads, in turn.

    python3 scripts/processes-cost.py --out benchmarks/DATE-several-processes.json

Each case is a short run of `kindling train` on the embedded phantoms, in one process and under Open MPI's `mpirun`; a round has one
of each, and the figures are of the steps after the first. Cores are divided among processes. Times compare the columns of one
machine with each other; they say nothing of a network.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = [("mobilenet_v3_small", 224), ("mobilenet_v2", 128), ("resnet18", 128)]
SIZES = [1, 2, 4]


def run(kindling, model, size, processes, steps, folder):
    flags = ["train", "--device", "cpu", "--quiet", "--model", model, "--image-size", str(size), "--batch-size", "32",
             "--ghost-batch-size", "8", "--max-steps", str(steps), "--workers", "1", "--out", str(folder)]
    launcher = [] if processes == 1 else ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(processes)]
    subprocess.run([*launcher, str(kindling), *flags], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    rows = [event for event in events if event["event"] == "step"][1:]
    together = [row.get("together") or {"waited_seconds": 0.0, "sent_bytes": 0, "slowest_seconds": 0.0} for row in rows]
    return {"step": [32 / row["images_per_second"] for row in rows], "waited": [row["waited_seconds"] for row in together],
            "sent": [row["sent_bytes"] for row in together]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kindling", type=pathlib.Path, default=ROOT / "target/release/kindling")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    found = {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(args.rounds):
            for model, size in MODELS:
                for processes in SIZES:
                    out = pathlib.Path(folder) / f"{model}-{processes}-{round_}"
                    for key, values in run(args.kindling, model, size, processes, args.steps, out).items():
                        found.setdefault((model, size, processes), {}).setdefault(key, []).extend(values)
        environment = json.loads((out / "environment.json").read_text())
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    rows = []
    for (model, size, processes), of in found.items():
        quartiles = statistics.quantiles(of["step"], n=4)
        rows.append({"model": model, "image_size": size, "batch_size": 32, "ghost_batch_size": 8, "processes": processes,
                     "steps": len(of["step"]), "step_seconds": {"q1": quartiles[0], "median": quartiles[1], "q3": quartiles[2]},
                     "waited_seconds_median": statistics.median(of["waited"]), "sent_bytes_median": int(statistics.median(of["sent"]))})
    document = {"about": "Seconds of a training step of one model in 1, 2 and 4 processes on one machine with 2 cores, in turn; waiting and bytes are the "
                         "first process's. By scripts/processes-cost.py.",
                "date": datetime.date.today().isoformat(), "load_at_start": load,
                "environment": {"commit": commit, "cpu": environment["cpu"], "cores": os.cpu_count(), "os": environment["os"], "kindling": environment["kindling"],
                                "mpi": subprocess.run(["mpirun.openmpi", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]},
                "rounds": args.rounds, "rows": rows}
    args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
