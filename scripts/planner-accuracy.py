#!/usr/bin/env python3
"""Compares `kindling plan` with real runs on the CPU, and writes the table as JSON.

Each case is two steps of `kindling train` on small random images, scaled up to the case's size, in one micro-batch that
is also the normalisation group; measured is the peak of the whole run as its last line reports it, with validation,
test and checkpoint. Measurements are kept in a file of lines, so that an interrupted comparison goes on where it stopped.

    scripts/planner-accuracy.py --models mobilenet_v2,resnet18 --sizes 224,512 --batches 1,2,4,8 \\
        --measurements measured.jsonl --out benchmarks/DATE-planner-accuracy-cpu.json

Needs nothing but Python and a built `kindling`.
"""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import zlib

WORKERS = "1"
CLASSES = 2


def write_png(path: pathlib.Path, side: int) -> None:
    """Writes an RGB image of noise."""
    rows = b"".join(b"\0" + random.randbytes(3 * side) for _ in range(side))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)


def make_data(folder: pathlib.Path) -> None:
    """An image folder with more training images than two steps of the largest batch and the loader take."""
    random.seed(1)
    for split, count in (("train", 20), ("val", 1), ("test", 1)):
        for name in ("a", "b"):
            (folder / split / name).mkdir(parents=True)
            for index in range(count):
                write_png(folder / split / name / f"{index}.png", 64)


def measure(kindling: str, data: pathlib.Path, run: pathlib.Path, case: dict) -> dict:
    """Trains two steps; returns the case with its peak and the run's environment."""
    batch = str(case["batch"])
    command = [kindling, "train", "--data", str(data), "--model", case["model"], "--image-size", str(case["size"]),
               "--batch-size", batch, "--norm-group", batch, "--micro-batch", batch, "--recompute", case["recompute"],
               "--max-steps", "2", "--epochs", "1", "--workers", WORKERS, "--device", "cpu", "--augment", "none",
               "--quiet", "--out", str(run)]
    shutil.rmtree(run, ignore_errors=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    result = json.loads(done.stdout.strip().splitlines()[-1])
    environment = json.loads((run / "environment.json").read_text())
    del environment["command"]  # its paths are this machine's, and the case says the rest
    shutil.rmtree(run)
    return {**case, "peak": result["peak_memory_bytes"], "environment": environment}


def predict(kindling: str, case: dict) -> dict:
    """What the planner says about a case."""
    batch = str(case["batch"])
    command = [kindling, "plan", "--model", case["model"], "--image-size", str(case["size"]), "--batch-size", batch,
               "--norm-group", batch, "--memory", "1TiB", "--channels", "3", "--classes", str(CLASSES),
               "--device", "cpu", "--workers", WORKERS, "--format", "json"]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["rows"]
    of_case = [row for row in rows if row["precision"] == "f32" and row["recompute"] == case["recompute"]]
    return of_case[0]["prediction"]


def key(case: dict) -> tuple:
    return case["model"], case["size"], case["batch"], case.get("recompute", "none")


def summary(errors: list[float]) -> dict:
    return {"cases": len(errors), "median_error": round(statistics.median(map(abs, errors)), 5),
            "worst_under": round(min(0.0, *errors), 5), "worst_over": round(max(0.0, *errors), 5)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kindling", default="target/release/kindling")
    parser.add_argument("--models", default="")
    parser.add_argument("--sizes", default="224,512")
    parser.add_argument("--batches", default="1,2,4,8")
    parser.add_argument("--recompute", default="none")
    parser.add_argument("--measurements", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--left-out", default="", help="a sentence for the file about what was not measured")
    args = parser.parse_args()

    lines = args.measurements.read_text().splitlines() if args.measurements.exists() else []
    known = [json.loads(line) for line in lines]
    cases = [{"model": model, "size": int(size), "batch": int(batch), "recompute": recompute}
             for model in args.models.split(",") if model
             for size in args.sizes.split(",") for batch in args.batches.split(",")
             for recompute in args.recompute.split(",")]
    have = {key(case) for case in known}
    with tempfile.TemporaryDirectory() as place:
        data = pathlib.Path(place, "data")
        make_data(data)
        for case in (case for case in cases if key(case) not in have):
            try:
                found = measure(args.kindling, data, pathlib.Path(place, "run"), case)
            except RuntimeError as error:
                print(f"{key(case)}: {error}", file=sys.stderr)
                continue
            known.append(found)
            with args.measurements.open("a") as file:
                file.write(json.dumps(found) + "\n")

    table = []
    for case in sorted(known, key=key):
        prediction = predict(args.kindling, case)
        error = prediction["peak"] / case["peak"] - 1
        table.append({"model": case["model"], "image_size": case["size"], "batch": case["batch"],
                      "recompute": case.get("recompute", "none"), "measured": case["peak"],
                      "predicted": prediction["peak"], "error": round(error, 5), "moment": prediction["moment"]})
        print(f"{case['model']:24} {case['size']:4} {case['batch']:2} {table[-1]['recompute']:7} measured "
              f"{case['peak'] / 1e6:9.1f} MB, predicted {prediction['peak'] / 1e6:9.1f} MB, {100 * error:+6.2f} %")
    kept = [row["error"] for row in table if row["recompute"] == "none"]
    again = [row["error"] for row in table if row["recompute"] != "none"]
    about = "kindling plan against the peak of kindling train, float32, AdamW, CPU, batch = micro-batch = norm group"
    result = {"about": about,
              "everything_kept": summary(kept) if kept else None, "recomputed": summary(again) if again else None,
              "left_out": args.left_out, "environment": known[-1].get("environment") if known else None, "cases": table}
    print(json.dumps({name: result[name] for name in ("everything_kept", "recomputed")}))
    if args.out:
        rows = ",\n".join("  " + json.dumps(row) for row in table)
        head = json.dumps({name: value for name, value in result.items() if name != "cases"}, indent=1)[:-2]
        args.out.write_text(f"{head},\n \"cases\": [\n{rows}\n ]\n}}\n")


if __name__ == "__main__":
    main()
