#!/usr/bin/env python3
"""Two models in the same memory: what batch each fits, and how fast it trains.

The question this project began with: a heavy network in float32 that fits a batch of 8 into some memory, against a light one in
bf16. The memory is what `kindling plan` predicts for the heavy network's training step; the light one's batch is the largest that
the planner fits into it. Both are then measured by `kindling bench` as one micro-batch within that budget, so that the prediction
is checked and nothing is recomputed. If the measurement does not fit, the batch becomes smaller until it does, and that is said.

    scripts/same-memory.py --heavy resnet50 --light mobilenet_v2 --image-size 512 --batch-size 8 --device cpu --out result.json

Needs nothing but Python and a built `kindling`.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def plan(args, model: str, precision: str, memory: str, batch=None):
    """The planner's row with everything kept: micro-batch and peak."""
    command = [args.kindling, "plan", "--model", model, "--image-size", args.image_size, "--memory", memory, "--channels", 3,
               "--classes", 10, "--device", args.device, "--ghost-batch-size", batch or 4096, "--format", "json"]
    command += ["--batch-size", batch] if batch else []
    said = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    rows = json.loads(said)["rows"]
    row = next(row for row in rows if (row["precision"], row["recompute"]) == (precision, "none"))
    return row["micro_batch"], row["prediction"]


def bench(args, model: str, precision: str, batch: int, budget=None) -> dict:
    """A row of training, the whole batch at once."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "row.json"
        command = [args.kindling, "bench", "train", "--models", model, "--image-size", args.image_size, "--batch-size", batch,
                   "--micro-batch", batch, "--ghost-batch-size", batch, "--precision", precision, "--device", args.device,
                   "--windows", args.windows, "--window-seconds", args.window_seconds, "--warmup", 2, "--isolate", "--out", out]
        command += ["--memory-budget", budget] if budget else []
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if not out.exists():
            sys.exit(done.stderr.strip())
        return json.loads(out.read_text())["rows"][0]


def peak_of(row: dict):
    """What the device's allocator held at most; on the CPU what was live. None for a row without figures."""
    memory = row.get("measured", {}).get("memory", {})
    return memory.get("peak_reserved_bytes") or memory.get("peak_in_use_bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kindling", default="target/release/kindling")
    parser.add_argument("--heavy", default="resnet50")
    parser.add_argument("--light", default="mobilenet_v2")
    parser.add_argument("--image-size", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--window-seconds", type=float, default=2.0)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()

    _, heavy_plan = plan(args, args.heavy, "f32", "4000GiB", args.batch_size)
    # The heavy row sets the memory, as it is measured: a card that it just fits.
    heavy = bench(args, args.heavy, "f32", args.batch_size)
    if "failed" in heavy:
        sys.exit(f"error: {args.heavy} itself cannot be measured: {heavy['failed']['reason']}")
    budget = peak_of(heavy)
    planned, light_plan = plan(args, args.light, "bf16", str(budget))
    if not planned:
        sys.exit(f"error: not one image of {args.light} fits into {budget} bytes by the planner")
    # On the CPU a budget keeps a tenth for what is not announced beforehand, so the limit is left to the measurement.
    limit = None if args.device == "cpu" else budget
    batch, tried = planned, []
    while True:
        light = bench(args, args.light, "bf16", batch, limit)
        peak = peak_of(light)
        tried.append({"batch": batch, "peak_bytes": peak, "failed": light.get("failed")})
        if (peak is not None and peak <= budget) or batch == 1:
            break
        batch = max(1, batch * 15 // 16 if batch > 16 else batch - 1)

    fits = peak is not None and peak <= budget
    speed = [row["measured"]["images_per_second"] if "measured" in row else None for row in (heavy, light)]
    result = {"about": f"{args.heavy} in f32 against {args.light} in bf16, training at {args.image_size}x{args.image_size}, "
                       "each as one micro-batch, in the memory that the first takes",
              "memory_bytes": budget, "heavy": {"batch": args.batch_size, "predicted_peak": heavy_plan["peak"], "row": heavy},
              "light": {"batch_by_the_planner": planned, "predicted_peak": light_plan["peak"], "batch_measured_to_fit": batch if fits else None,
                        "tried": tried, "row": light},
              "images_per_second": {args.heavy: speed[0], args.light: speed[1]}}
    if all(speed):
        result["speed_ratio"] = speed[1]["median"] / speed[0]["median"]
    text = json.dumps(result, indent=1)
    if args.out:
        args.out.write_text(text + "\n")
    print(json.dumps({name: result.get(name) for name in ("memory_bytes", "images_per_second", "speed_ratio")} |
                     {"batches": [args.batch_size, batch if fits else None], "by_the_planner": planned}))


if __name__ == "__main__":
    main()
