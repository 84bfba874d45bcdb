#!/usr/bin/env python3
"""The parts of scripts/gpu-suite.sh. Needs nothing but Python and a built `kindling`."""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
#: Share of the minutes that each part may take. What one leaves over the next ones have.
SHARES = {"environment": 0.02, "correctness": 0.2, "training": 0.1, "repeats": 0.1, "oom": 0.15, "planner": 0.1,
          "precision": 0.13, "bench": 0.2}
#: Relative difference of outputs that TF32 products (10 bits of mantissa) explain through a deep network. With batch statistics, rounding
#: is divided by small variances in the last layers: on the stand-in for CUDA, which rounds alike, it is 0.025 for images of 128 px, four
#: at a time, and on an H200 it was 0.17 for 64 px, two at a time.
LOGITS_AGREE = {"features": 2e-2, "train-mode": 0.1}
LOSSES_AGREE = 1e-2
#: Relative difference of the second loss of runs with different micro-batches, whose gradients are added in another order. On an H200 it
#: was 1.9e-4 and 4e-4. What comes later is told and not judged: AdamW's first updates have the size of the learning rate whatever
#: that of the gradient, so a gradient near zero that rounding turns round moves its weight by all of it.
REPEATS_AGREE = {"f32": 1e-3, "bf16": 5e-3}


class OutOfTime(Exception):
    pass


class Suite:
    def __init__(self, args):
        self.args = args
        self.device = args.device
        self.on_gpu = args.device != "cpu"
        self.began = time.monotonic()
        self.end = self.began + 60 * args.minutes
        self.part_end = self.end
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="kindling-suite-"))

    def call(self, *words, fault="", check=True):
        """Runs the command within the part's time; returns what it said."""
        left = self.part_end - time.monotonic()
        if left < 1:
            raise OutOfTime
        environment = {key: value for key, value in os.environ.items() if key != "RUST_BACKTRACE"}
        environment["KINDLING_FAULT"] = fault
        began = time.monotonic()
        self.note(f"begins: {' '.join(map(str, words))}")
        try:
            done = subprocess.run([self.args.kindling, *map(str, words)], capture_output=True, text=True, timeout=left,
                                  env=environment)
        except subprocess.TimeoutExpired as error:
            raise OutOfTime from error
        finally:
            self.note(f"ended after {time.monotonic() - began:.1f} s: {' '.join(map(str, words))}")
        if check and done.returncode:
            raise RuntimeError(f"kindling {' '.join(map(str, words))}: {done.stderr.strip()[-300:]}")
        return done

    def note(self, what):
        """A line of calls.log, which shows what a part is at."""
        with (self.args.out / "calls.log").open("a") as log:
            log.write(f"{time.monotonic() - self.began:7.1f} {what}\n")

    def train(self, name, *flags, device=None, fault=""):
        """A run on phantoms; returns its last line and its events."""
        run = self.work / name
        shutil.rmtree(run, ignore_errors=True)
        done = self.call("train", "--data", "phantoms", "--device", device or self.device, "--quiet", "--out", run,
                         *flags, fault=fault)
        events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        return json.loads(done.stdout.strip().splitlines()[-1]), events

    def bench(self, *flags, check=False):
        """Rows of `kindling bench`."""
        out = self.work / "rows.json"
        out.unlink(missing_ok=True)
        self.call("bench", *flags, "--device", self.device, "--out", out, check=check)
        return json.loads(out.read_text())["rows"]


def losses(events):
    return [event["loss"] for event in events if event["event"] == "step"]


def environment(suite):
    said = suite.call("devices", "--format", "json", check=False)
    devices = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    smi = shutil.which("nvidia-smi")
    gpu = subprocess.run([smi, "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit", "--format=csv"],
                         capture_output=True, text=True).stdout.strip() if smi else None
    version = suite.call("--version").stdout.strip()
    return {"devices": devices, "nvidia_smi": gpu, "kindling": version, "passed": True}


def write_safetensors(path, name, shape, values):
    data = struct.pack(f"<{len(values)}f", *values)
    header = json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def read_safetensors(path):
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        found[name] = struct.unpack(f"<{(end - start) // 4}f", raw[8 + length + start:8 + length + end])
    return found


def relative(a, b):
    """The largest difference over the largest value; None if a value is not finite."""
    if not all(map(math.isfinite, [*a, *b])):
        return None
    return max(abs(x - y) for x, y in zip(a, b)) / max(max(map(abs, a)), 1e-12)


def correctness(suite):
    """Every model on the device against the CPU: features and logits, with batch statistics and with running ones."""
    rng = random.Random(1)
    quick = suite.args.quick
    size, batch = 128, 4
    listed = map(json.loads, suite.call("models", "--format", "json").stdout.splitlines())
    names = [model["name"] for model in listed if model["family"] != "segmentation"]
    names = names[:: max(1, len(names) // 4)] if quick else names[:: suite.args.every]
    source = suite.work / "input.safetensors"
    write_safetensors(source, "input", [batch, 3, size, size], [rng.gauss(0, 1) for _ in range(batch * 3 * size * size)])

    def case(name):
        """The largest differences of one model, of both modes."""
        found = []
        try:
            for mode in ("--train-mode", "--features"):
                outputs = []
                for device in ("cpu", suite.device):
                    out = suite.work / f"{name}-{device.replace(':', '-')}.safetensors"
                    suite.call("forward", "--model", name, "--input", source, "--out", out, "--device", device, mode)
                    outputs.append(read_safetensors(out))
                errors = {key: relative(outputs[0][key], outputs[1][key]) for key in outputs[0]}
                worst = None if None in errors.values() else max(errors.values())
                found.append({"model": name, "mode": mode[2:], "largest_relative_difference": worst,
                              "passed": worst is not None and worst < LOGITS_AGREE[mode[2:]]})
        except RuntimeError as error:
            found.append({"model": name, "error": str(error), "passed": False})
        except OutOfTime:
            found.append({"model": name, "not_reached": True})
        return found

    with concurrent.futures.ThreadPoolExecutor(suite.args.jobs) as pool:
        cases = [entry for found in pool.map(case, names) for entry in found]
    skipped = [entry["model"] for entry in cases if "not_reached" in entry]
    cases = [entry for entry in cases if "not_reached" not in entry]
    return {"bounds": LOGITS_AGREE, "cases": cases, "not_reached": skipped,
            "passed": bool(cases) and all(case["passed"] for case in cases)}


def training(suite):
    """The same steps on the device and on the CPU: forward, both gradients of every operation, optimizer."""
    cases = []
    models = ["mobilenet_v3_small"] if suite.args.quick else ["mobilenet_v3_small", "mobilenet_v2", "efficientnet_b0", "resnet18"]
    for model in models:
        flags = ["--model", model, "--image-size", 64, "--batch-size", 8, "--max-steps", 4, "--epochs", 1, "--lr", "0.001",
                 "--drop-rate", 0, "--drop-path-rate", 0]
        found = [losses(suite.train(f"training-{device}", *flags, device=device)[1]) for device in ("cpu", suite.device)]
        errors = [abs(a - b) / abs(a) for a, b in zip(*found)]
        # Later losses pass through updates that rounding has moved; the second is the first that depends on gradients.
        cases.append({"model": model, "cpu": found[0], "device": found[1], "relative_differences": errors,
                      "passed": len(errors) == 4 and errors[0] < LOSSES_AGREE and errors[1] < 5 * LOSSES_AGREE})
    return {"bound": LOSSES_AGREE, "cases": cases, "passed": all(case["passed"] for case in cases)}


def repeats(suite):
    """The first promise: the same run again, with activations recomputed, and after running out of memory has the same bits. In smaller
    micro-batches the first loss has; the second, the first that depends on gradients, agrees to rounding."""
    steps = 6
    ways = {"straight": ([], ""), "again": ([], ""), "micro_batch_2": (["--micro-batch", 2], ""),
            "activation_checkpointing": (["--activation-checkpointing", "blocks"], ""),
            "out_of_memory": ([], "oom@step=2,phase=forward;oom@step=4,phase=backward")}
    models = ["mobilenet_v3_small"] if suite.args.quick else ["mobilenet_v3_small", "resnet18", "efficientnet_b0"]

    def run(model, form, name):
        """The losses of one way; None if there is no time left."""
        changes, fault = ways[name]
        flags = {"--model": model, "--image-size": 64, "--batch-size": 8, "--micro-batch": 8, "--ghost-batch-size": 2,
                 "--activation-checkpointing": "none", "--precision": form, "--max-steps": steps, "--epochs": 1}
        changed = flags | dict(zip(changes[::2], changes[1::2]))
        words = [word for pair in changed.items() for word in pair]
        try:
            return losses(suite.train(f"repeats-{model}-{form}-{name}", *words, fault=fault)[1])
        except OutOfTime:
            return None

    forms = ("f32",) if suite.args.quick else ("f32", "bf16")
    asked = [(model, form, name) for model in models for form in forms for name in ways]
    with concurrent.futures.ThreadPoolExecutor(suite.args.jobs) as pool:
        found = dict(zip(asked, pool.map(lambda which: run(*which), asked)))
    cases, not_reached = [], [" ".join(which) for which, result in found.items() if result is None]
    for (model, form, name), result in found.items():
        straight = found[model, form, "straight"]
        if name == "straight" or straight is None or result is None:
            continue
        apart = [abs(a - b) / abs(a) for a, b in zip(straight, result)]
        same = result == straight
        agrees = apart[0] == 0 and apart[1] < REPEATS_AGREE[form] if name == "micro_batch_2" else same
        cases.append({"model": model, "precision": form, "how": name, "losses": result, "undisturbed": straight,
                      "same_bits": same, "relative_differences": apart, "passed": len(result) == steps and agrees})
    return {"bounds": REPEATS_AGREE, "cases": cases, "same_bits": sum(case["same_bits"] for case in cases), "not_reached": not_reached,
            "passed": bool(cases) and all(case["passed"] for case in cases)}


class Watch(threading.Thread):
    """Memory of the GPU as `nvidia-smi` sees it, a sample a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.samples, self.done = [], threading.Event()

    def run(self):
        while not self.done.wait(1.0):
            said = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                                  capture_output=True, text=True)
            if said.returncode == 0 and said.stdout.strip():
                self.samples.append(int(said.stdout.split()[0]))


def oom(suite):
    """Recoveries: injected ones, a hundred in one process; a real lack of memory; a buffer that is too big."""
    steps = 8 if suite.args.quick else 100
    flags = ["--model", "mobilenet_v3_small", "--image-size", 64, "--batch-size", 4, "--micro-batch", 4, "--activation-checkpointing", "none",
             "--epochs", 100, "--drop-rate", 0]
    whole_groups = [*flags, "--ghost-batch-size", 4, "--max-steps", steps]
    straight = losses(suite.train("straight", *whole_groups)[1])
    fault = ";".join(f"oom@step={step},phase={('forward', 'backward', 'finite-check', 'optimizer')[step % 4]}"
                     for step in range(1, steps + 1))
    watch = Watch() if suite.on_gpu and shutil.which("nvidia-smi") else None
    if watch:
        watch.start()
    _, events = suite.train("disturbed", *whole_groups, fault=fault)
    if watch:
        watch.done.set()
    disturbed = losses(events)
    recovered = sum(event["event"] == "recovered" for event in events)
    drift = max(abs(a - b) / abs(a) for a, b in zip(straight, disturbed))
    used = watch.samples if watch else []
    half = used[len(used) // 2:]
    stable = None if len(half) < 4 else max(half[len(half) // 2:]) <= max(half[:len(half) // 2]) * 1.05 + 16
    injected = {"steps": steps, "recovered": recovered, "largest_relative_difference_of_losses": drift,
                "gpu_memory_used_mib": used, "memory_stable_in_the_second_half": stable,
                "passed": recovered == steps and len(disturbed) == steps and stable is not False
                and (drift == 0 if not suite.on_gpu else drift < 0.05)}

    # Groups of 2 leave room for a smaller micro-batch: what a device can never hold is not tried again as it is. The CPU computes a group
    # at a time as it is, so there the run ends and says so.
    never = ["train", "--data", "phantoms", "--device", suite.device, "--quiet", "--out", suite.work / "too-large", *flags,
             "--ghost-batch-size", 2, "--max-steps", 4]
    done = suite.call(*never, fault="toolarge@step=2,phase=forward", check=False)
    events = [json.loads(line) for line in (suite.work / "too-large" / "events.jsonl").read_text().splitlines()]
    too_large = {"recovered": [event["lever"] for event in events if event["event"] == "recovered"]}
    too_large["passed"] = (len(too_large["recovered"]) == 1 and done.returncode == 0 if suite.on_gpu
                           else done.returncode != 0 and "there is no smaller step" in done.stderr)

    model, size = ("mobilenet_v3_small", 128) if suite.args.quick else ("mobilenet_v2", 512)
    batch = 16 if suite.args.quick else 64
    row = ["train", "--models", model, "--image-size", size, "--batch-size", batch, "--activation-checkpointing", "auto", "--windows", 3,
           "--window-seconds", 0.5, "--warmup", 2]
    whole = suite.bench(*row)[0]
    memory = whole["measured"]["memory"]
    # On the CPU a budget is one of the process.
    peak = (memory["peak_reserved_bytes"] or memory["peak_in_use_bytes"]) if suite.on_gpu else memory["peak_process_bytes"]
    # A GPU has half. What a process on the CPU takes is more than it needs, and what a small network takes on a GPU, which is what is
    # planned, too. So less and less is given until it is too little.
    for share in (0.8, 0.7, 0.6, 0.5) if not suite.on_gpu else (0.8, 0.75, 0.7, 0.65, 0.6) if suite.args.quick else (0.5,):
        scarce = suite.bench(*row, "--memory-budget", max(int(peak * share), 1))[0]
        if "failed" in scarce or scarce["measured"]["recoveries"]:
            break
    nothing = suite.bench(*row, "--memory-budget", "10MiB")[0]
    real = {"peak_without_a_limit": peak, "share": share, "with_less": scarce.get("measured", scarce.get("failed")),
            "with_10_mib": nothing.get("failed", nothing.get("measured")),
            "passed": scarce.get("measured", {}).get("recoveries", 0) >= 1 and "failed" in nothing}
    return {"injected": injected, "too_large": too_large, "real": real,
            "passed": injected["passed"] and too_large["passed"] and real["passed"]}


def planner(suite):
    """`kindling plan` against the peak of two steps of a run."""
    cases = []
    models = ["mobilenet_v3_small"] if suite.args.quick else ["mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "resnet50"]
    size = 128 if suite.args.quick else 512
    for model in models:
        for batch in (4,) if suite.args.quick else (4, 16):
            shape = ["--image-size", size, "--batch-size", batch, "--ghost-batch-size", batch]
            said = suite.call("plan", "--model", model, *shape, "--memory", "1000GiB", "--channels", 1, "--classes", 3,
                              "--workers", 1, "--device", suite.device, "--format", "json").stdout
            row = next(row for row in json.loads(said)["rows"] if (row["precision"], row["recompute"]) == ("f32", "none"))
            result, _ = suite.train("planned", "--model", model, *shape, "--micro-batch", batch, "--activation-checkpointing", "none",
                                    "--max-steps", 2, "--epochs", 1, "--workers", 1)
            measured, predicted = result["peak_memory_bytes"], row["prediction"]["peak"]
            cases.append({"model": model, "image_size": size, "batch": batch, "predicted": predicted,
                          "measured": measured, "error": predicted / measured - 1 if measured else None})
    note = ("measured is what Burn's pools had in use at the ends of steps, which misses what rises and falls within one"
            if suite.on_gpu else "every allocation is measured")
    # Figures to look at, not a bar: on a GPU the measurement itself is a lower bound.
    return {"cases": cases, "note": note, "passed": all(case["error"] is not None for case in cases)}


def precision(suite):
    """The same short run in each format: losses and accuracy side by side."""
    small = ["--image-size", 64, "--max-steps", 12, "--epochs", 1] if suite.args.quick else ["--image-size", 256, "--epochs", 2]
    runs = {}
    for form in ("f32", "bf16", "f16"):
        try:
            result, events = suite.train(f"precision-{form}", "--precision", form, *small)
            runs[form] = {"losses": losses(events), "test_accuracy": result["test_accuracy"], "chance": result["chance"],
                          "images_per_second": result["images_per_second"],
                          "skipped_updates": sum(event["event"] == "skipped" for event in events)}
        except RuntimeError as error:
            runs[form] = {"error": str(error)}
    first = [run["losses"][0] for run in runs.values() if run.get("losses")]
    return {"runs": runs, "passed": len(first) == 3 and max(first) - min(first) < 0.05 * first[0]}


def bench(suite):
    """Rows of Kindling, and of PyTorch where there is one, row by row."""
    quick = suite.args.quick
    what = ["train", "infer"]
    models = ["mobilenet_v3_small"] if quick else ["mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "efficientnet_b3",
                                                   "resnet18", "resnet50"]
    size, batch = (64, 2) if quick else (512, 32)
    time_of = ["--windows", 3, "--window-seconds", 0.1 if quick else 1, "--warmup", 1 if quick else 5]
    forms = "f32" if quick else "bf16"
    ours, theirs, not_reached = [], [], []
    for model in models:
        row = [*what, "--models", model, "--image-size", size, "--batch-size", batch, "--precision", forms, *time_of]
        try:
            ours += suite.bench(*row, "--isolate")
            if suite.args.python:
                out = suite.work / "pytorch.json"
                variants = "contiguous" if quick else "channels_last,channels_last compiled"
                subprocess.run([suite.args.python, HERE / "peers" / "pytorch_bench.py", *map(str, row), "--device",
                                suite.device, "--variants", variants, "--out", out], capture_output=True, check=True,
                               timeout=max(1, suite.part_end - time.monotonic()))
                theirs += json.loads(out.read_text())["rows"]
        except (OutOfTime, subprocess.TimeoutExpired):
            not_reached = models[models.index(model):]
            break
    for name, rows in (("kindling", ours), ("pytorch", theirs)):
        if rows:
            (suite.args.out / f"rows-{name}.json").write_text(json.dumps({"format": "kindling-bench/1", "rows": rows}, indent=1) + "\n")
    comparison = None
    if ours and theirs:
        said = suite.call("bench", "compare", suite.args.out / "rows-pytorch.json", suite.args.out / "rows-kindling.json",
                          "--format", "json", "--html", suite.args.out / "compare.html", check=False)
        comparison = json.loads(said.stdout) if said.returncode == 0 else said.stderr.strip()
    return {"rows": len(ours), "failed": [row["failed"] for row in ours if "failed" in row], "comparison": comparison,
            "pytorch": "measured" if theirs else "not measured: --python names no Python with torch", "not_reached": not_reached,
            "passed": bool(ours) and all("measured" in row for row in ours)}


PARTS = {"environment": environment, "correctness": correctness, "training": training, "repeats": repeats, "oom": oom, "planner": planner,
         "precision": precision, "bench": bench}


def main():
    parser = argparse.ArgumentParser(description="What only a GPU can show; see scripts/gpu-suite.sh")
    parser.add_argument("--kindling", default=str(HERE.parent / "target" / "release" / "kindling"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-suite"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--python", help="a Python with torch and torchvision, for rows beside Kindling's")
    parser.add_argument("--only", help="parts, by name")
    parser.add_argument("--jobs", type=int, default=1, help="models that are compared at a time [default: 1]")
    parser.add_argument("--every", type=int, default=1, help="compare one model of so many [default: 1]")
    parser.add_argument("--quick", action="store_true", help="small sizes and few models")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    args.kindling = str(pathlib.Path(args.kindling).resolve())
    suite = Suite(args)
    chosen = args.only.split(",") if args.only else list(PARTS)
    gpu = None if suite.on_gpu else "GPU figures are missing: this ran on the CPU, which shows that the parts work and nothing more"
    summary = {"device": args.device, "quick": args.quick, "gpu_figures": gpu or "measured", "parts": {}}
    left = [name for name in PARTS if name in chosen]
    try:
        for name in list(left):
            began = time.monotonic()
            # The part's share of what is left, among the parts that are left.
            share = SHARES[name] / sum(SHARES[other] for other in left)
            suite.part_end = began + max(share * max(0.0, suite.end - began), min(30.0, suite.end - began))
            left.remove(name)
            try:
                found = PARTS[name](suite)
            except OutOfTime:
                found = {"skipped": "no time was left for it", "passed": None}
            except Exception as error:  # one part does not stop the others
                found = {"error": f"{type(error).__name__}: {error}", "passed": False}
            found = {"part": name, "device": args.device, "gpu_figures": gpu or "measured",
                     "seconds": round(time.monotonic() - began, 1)} | found
            (args.out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
            state = {True: "passed", False: "FAILED", None: "skipped"}[found["passed"]]
            summary["parts"][name] = {"state": state, "seconds": found["seconds"]}
            print(f"{name}: {state} in {found['seconds']} s {found.get('error', found.get('skipped', ''))}", flush=True)
    finally:
        shutil.rmtree(suite.work, ignore_errors=True)
    (args.out / "suite.json").write_text(json.dumps(summary, indent=1) + "\n")
    if gpu:
        print(gpu)
    sys.exit(any(part["state"] == "FAILED" for part in summary["parts"].values()))


if __name__ == "__main__":
    main()
