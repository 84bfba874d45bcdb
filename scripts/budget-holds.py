#!/usr/bin/env python3
"""Trains under memory budgets on the CPU and holds the kernel's peak of the process against each.

Four networks at three sizes and batches, each with three budgets: shares of what the step wants with everything at once, by
`kindling plan`. A run either ends well, and then its process (VmHWM) may have taken 5 % more than the budget and no more, or it
is refused: that a step does not fit is known only with the network in memory, so that a refusal may have taken more than a
budget that has no room even for it. Both are written down. Measurements are kept in a file of lines, so that an interrupted comparison goes on where it stopped.

    scripts/budget-holds.py --measurements measured.jsonl --out benchmarks/DATE-budget-holds-cpu.json

Needs nothing but Python, Linux and a built `kindling`.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

MODELS = ["mobilenet_v3_small", "mobilenet_v2", "efficientnet_b0", "resnet18"]
SHAPES = [(224, 16), (320, 8), (512, 8)]  # side of an image, samples of a step
SHARES = [1.5, 0.5, 0.05]
ALLOWED = 1.05
GROUP = "4"


def sibling(name: str):
    """The module of a script beside this one."""
    spec = importlib.util.spec_from_file_location(name, pathlib.Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def need(kindling: str, model: str, size: int, batch: int) -> int:
    """What the process takes with everything kept and the batch at once, in bytes."""
    command = [kindling, "plan", "--model", model, "--image-size", str(size), "--batch-size", str(batch), "--memory",
               "1TiB", "--channels", "3", "--classes", "2", "--device", "cpu", "--ghost-batch-size", GROUP, "--format", "json"]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["rows"]
    return next(row for row in rows if row["precision"] == "f32" and row["recompute"] == "none")["resident"]


def measure(kindling: str, data: pathlib.Path, run: pathlib.Path, case: dict) -> dict:
    """Trains two steps under the case's budget."""
    command = [kindling, "train", "--data", str(data), "--model", case["model"], "--image-size", str(case["size"]),
               "--batch-size", str(case["batch"]), "--ghost-batch-size", GROUP, "--max-steps", "2", "--epochs", "1",
               "--workers", "1", "--device", "cpu", "--augment", "none", "--quiet", "--memory-budget",
               str(case["budget"]), "--out", str(run)]
    shutil.rmtree(run, ignore_errors=True)
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    environment = run / "environment.json"
    known = json.loads(environment.read_text()) if environment.exists() else {}
    known.pop("command", None)  # its paths are this machine's, and the case says the rest
    refused = child.returncode == 1 and "what would fit into" in said
    outcome = "ran" if child.returncode == 0 else "refused" if refused else f"failed: {said.strip()[-300:]}"
    peak = usage.ru_maxrss * 1024
    levers, events = [], run / "events.jsonl"
    if events.exists():
        lines = (json.loads(line) for line in events.read_text().splitlines())
        levers = [line["lever"] for line in lines if line.get("event") == "recovered"]
    return {**case, "outcome": outcome, "peak": peak, "of_budget": round(peak / case["budget"], 4), "levers": levers,
            "environment": known}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kindling", default="target/release/kindling")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--measurements", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()

    lines = args.measurements.read_text().splitlines() if args.measurements.exists() else []
    known = [json.loads(line) for line in lines]
    have = {(case["model"], case["size"], case["batch"], case["share"]) for case in known}
    with tempfile.TemporaryDirectory() as place:
        data = pathlib.Path(place, "data")
        sibling("planner-accuracy").make_data(data)
        for size, batch in SHAPES:
            for model in args.models.split(","):
                wanted = need(args.kindling, model, size, batch)
                for share in SHARES:
                    if (model, size, batch, share) in have:
                        continue
                    case = {"model": model, "size": size, "batch": batch, "share": share, "budget": int(share * wanted)}
                    found = measure(args.kindling, data, pathlib.Path(place, "run"), case)
                    known.append(found)
                    with args.measurements.open("a") as file:
                        file.write(json.dumps(found) + "\n")
                    print(f"{model:20} {size:4} {batch:3} {share:5} budget {case['budget'] / 2**20:8.1f} MiB, peak "
                          f"{found['peak'] / 2**20:8.1f} MiB ({100 * found['of_budget']:6.1f} %), {found['outcome'][:60]}",
                          flush=True)

    ran = [case for case in known if case["outcome"] == "ran"]
    refused = [case for case in known if case["outcome"] == "refused"]
    over = [case for case in ran if case["peak"] > ALLOWED * case["budget"]]
    failed = [case for case in known if case["outcome"].startswith("failed")]
    summary = {"runs": len(known), "ran": len(ran), "refused": len(refused), "failed": len(failed),
               "ran_over_budget": len(over), "worst_of_budget_ran": max((case["of_budget"] for case in ran), default=None),
               "most_bytes_of_a_refusal_beyond_its_budget": max((case["peak"] - case["budget"] for case in refused), default=None)}
    print(json.dumps(summary))
    if args.out:
        about = "VmHWM of kindling train on the CPU against --memory-budget; float32, AdamW, two steps, one loader thread"
        environment = next((case["environment"] for case in known if case["environment"]), None)
        rows = [{name: value for name, value in case.items() if name != "environment"} for case in known]
        text = ",\n".join("  " + json.dumps(row) for row in rows)
        head = json.dumps({"about": about, **summary, "environment": environment}, indent=1)[:-2]
        args.out.write_text(f"{head},\n \"cases\": [\n{text}\n ]\n}}\n")
    sys.exit(1 if over or failed else 0)


if __name__ == "__main__":
    main()
