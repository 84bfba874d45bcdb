#!/usr/bin/env python3
"""What a training step asks of a GPU: kernel launches, bytes of the buffers they are given, copies, synchronizations.

`kindling train --device cuda` runs on the stand-in for CUDA with kernels that do nothing (tests/cuda-on-cpu), for some steps
and for one more; the difference is a step. A launch's bytes are those of the buffers that it is given, by the lengths that
CubeCL passes with them: what a kernel reads of a buffer in part counts as the whole, what it reads twice counts once. The
floor is the time in which an H200 moves that many bytes at 4.8 TB/s (NVIDIA's data sheet). With --python a Python with torch and
torchvision counts the operators of the same step on tensors without data (scripts/peers/pytorch_ledger.py).

    tests/cuda-on-cpu/build.sh target/cuda-on-cpu
    scripts/step-ledger.py --stand-in target/cuda-on-cpu --python PYTHON_WITH_TORCH --out benchmarks/DATE-step-ledger.json

scripts/benchmark-page.py makes the table of docs/step-ledger.md from it.
"""

import argparse
import collections
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODELS = "mobilenet_v2,mobilenet_v3_small,efficientnet_b0,efficientnet_b3,resnet18,resnet50"
BYTES_A_SECOND = 4.8e12  # NVIDIA H200, data sheet
STEPS, MOST_STEPS = 3, 12  # kernels are chosen and buffers made in the first
A_COPY_OF_THE_STATE = 60  # synchronizations: it has more tensors, and a step waits less often
BYTES = {"float": 4, "double": 8, "__half": 2, "__nv_bfloat16": 2, "uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2,
         "uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8, "bool": 1, "half": 2, "nv_bfloat16": 2,
         "__half2": 2, "__nv_bfloat162": 2}
# The kernels of crates/ops/src/cube; all others are Burn's and CubeCL's.
OWN = re.compile(r"(forward|backward|apply|blocks|over_groups|over_blocks|of_blocks|merged|sums|firsts|lerps|updates|means|scale|statistics|gate)")


def sibling(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Kernel:
    """What a kernel's text says about its arguments."""

    def __init__(self, text):
        listed = re.search(r"__global__.*?\b\w+\(((?:[^()])*)\)\s*\{", text, re.S).group(1)
        arguments = [argument.strip() for argument in listed.split(",")]
        # Shapes and strides lie in a buffer of their own where there are many.
        self.buffers = [argument for argument in arguments if "*" in argument and "dynamic_meta" not in argument]
        self.elements = [self.element(argument) for argument in self.buffers]
        fields = re.search(r"struct info_st \{(.*?)\};", text, re.S)
        self.at, self.width = None, 4
        offset = 0
        for kind, name, count in re.findall(r"(\w+) (\w+)\[(\d+)\];", fields.group(1) if fields else ""):
            offset = -(-offset // BYTES[kind]) * BYTES[kind]
            if name == "static_meta":
                self.at, self.width = offset, BYTES[kind]
            offset += BYTES[kind] * int(count)

    @staticmethod
    def element(argument):
        """Bytes of an element of a buffer: a number, or a vector of some, like `float_4`."""
        name = argument.replace("const", " ").split()[0].rstrip("*")
        vector = re.fullmatch(r"(.+)_(\d+)", name)
        return BYTES[vector[1]] * int(vector[2]) if vector else BYTES[name]

    def bytes(self, words):
        """Bytes of the buffers of a launch; None where the text does not say."""
        by_value = [word[1:] for word in words if word.startswith("=")]
        if self.at is None or not by_value:
            return None
        info = bytes.fromhex(by_value[-1])
        length = lambda index: int.from_bytes(info[self.at + index * self.width:][:self.width], "little")
        return sum(length(index) * size for index, size in enumerate(self.elements))


def run(args, data, place, model, precision, steps):
    """A run; its counters, and launches and bytes by kernel."""
    out, stats, trace, sources = place / "run", place / "stats", place / "trace", place / "sources"
    shutil.rmtree(out, ignore_errors=True)
    trace.unlink(missing_ok=True)
    sources.mkdir(exist_ok=True)
    batch = str(args.batch)
    command = ["train", "--data", data, "--model", model, "--image-size", args.size, "--batch-size", batch, "--ghost-batch-size", batch,
               "--micro-batch", batch, "--activation-checkpointing", "none", "--precision", precision, "--max-steps", steps, "--epochs", 1,
               "--workers", 1, "--augment", "none", "--device", "cuda", "--quiet", "--out", out]
    environment = {**sibling("planner-accuracy").environment_of(args.stand_in, stats), "CUDASIM_CC": args.capability,
                   "CUDASIM_MEMORY": "139GiB", "CUDASIM_TRACE": str(trace), "CUDASIM_TRACE_ARGUMENTS": "1",
                   "CUDASIM_SOURCES": str(sources)}
    done = subprocess.run([args.kindling, *map(str, command)], capture_output=True, text=True, env=environment,
                          cwd=args.stand_in / "settings")
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-400:])
    kernels, launches, moved = {}, collections.Counter(), collections.Counter()
    with trace.open() as lines:
        for words in (line.split() for line in lines):
            if words[1] != "arguments":
                continue
            name = words[3]
            if name not in kernels:
                kernels[name] = Kernel((sources / f"{name}.cu").read_text())
            found = kernels[name].bytes(words[4:])
            kind = re.sub(r"_[0-9a-f]{6,8}$", "", name)
            launches[kind] += 1
            moved[kind] += found or 0
            if found is None:
                launches["without lengths"] += 1
    return json.loads(stats.read_text()), launches, moved


def ledger(args, data, place, model, precision):
    """A step: the difference of two runs. A run copies its state to the host now and then, and reads each of its tensors for
    that: pairs where one did and the other did not are left out."""
    less = run(args, data, place, model, precision, STEPS)
    for steps in range(STEPS + 1, MOST_STEPS + 1):
        more = run(args, data, place, model, precision, steps)
        (before, launches, moved), (after, more_launches, more_moved) = less, more
        if 0 <= after["synchronizations"] - before["synchronizations"] < A_COPY_OF_THE_STATE:
            break
        less = more
    else:
        raise RuntimeError(f"{model} copied its state in every run")
    launches, moved = (({kind: more[kind] - less[kind] for kind in more if more[kind] != less[kind]})
                       for less, more in ((launches, more_launches), (moved, more_moved)))
    unknown = launches.pop("without lengths", 0)
    total, ours = sum(moved.values()), lambda counts: sum(n for kind, n in counts.items() if OWN.match(kind))
    return {"model": model, "precision": precision, "launches": sum(launches.values()), "own_launches": ours(launches),
            "launches_without_lengths": unknown, "bytes": total, "own_bytes": ours(moved),
            "floor_seconds": round(total / BYTES_A_SECOND, 6),
            **{name: after[name] - before[name] for name in ("copies", "bytes_to_device", "bytes_to_host", "synchronizations",
                                                              "allocations", "events")},
            "by_kernel": {kind: {"launches": launches[kind], "bytes": moved.get(kind, 0)}
                          for kind in sorted(launches, key=lambda kind: -moved.get(kind, 0))}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kindling", default="target/release/kindling")
    parser.add_argument("--stand-in", type=pathlib.Path, required=True, help="what tests/cuda-on-cpu/build.sh built")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--precisions", default="f32,bf16")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--capability", default="8.0", help="of the device that the stand-in claims to be")
    parser.add_argument("--python", help="a Python with torch and torchvision")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    args.kindling, args.stand_in = str(pathlib.Path(args.kindling).resolve()), args.stand_in.resolve()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        data = place / "data"
        # More training images than the steps and the loader take.
        planner = sibling("planner-accuracy")
        for split, count in (("train", MOST_STEPS * args.batch // 2 + args.batch), ("val", 1), ("test", 1)):
            for name in ("a", "b"):
                (data / split / name).mkdir(parents=True)
                for index in range(count):
                    planner.write_png(data / split / name / f"{index}.png", 16)
        for model in args.models.split(","):
            for precision in args.precisions.split(","):
                row = ledger(args, data, place, model, precision)
                if args.python:
                    said = subprocess.run([args.python, HERE / "peers" / "pytorch_ledger.py", model, precision, str(args.size),
                                           str(args.batch)], capture_output=True, text=True, check=True).stdout
                    row["pytorch"] = json.loads(said)
                rows.append(row)
                peer = row.get("pytorch", {})
                print(f"{model:20} {precision:4} {row['launches']:6} launches ({row['own_launches']} own) {row['bytes'] / 1e9:8.2f} GB "
                      f"floor {1e3 * row['floor_seconds']:7.2f} ms, {row['synchronizations']} synchronizations, {row['copies']} copies"
                      + (f"; PyTorch {peer['operators']} operators, {peer['bytes'] / 1e9:.2f} GB" if peer else ""), flush=True)
        environment = json.loads((place / "run" / "environment.json").read_text())
        environment.pop("command", None)
    about = (f"a training step with AdamW at {args.size}x{args.size}, batch {args.batch}, on the stand-in for CUDA as a device of "
             f"compute capability {args.capability}; bytes are those of the buffers that a launch is given")
    if args.out:
        head = json.dumps({"about": about, "bytes_a_second": BYTES_A_SECOND, "environment": environment}, indent=1)[:-2]
        listed = ",\n".join("  " + json.dumps(row) for row in rows)
        args.out.write_text(f"{head},\n \"rows\": [\n{listed}\n ]\n}}\n")


if __name__ == "__main__":
    main()
