#!/usr/bin/env python3
"""Compares `kindling plan` with real runs, and writes the table as JSON.

Each case is two steps, or six where the peak comes later (in half formats so many whose gradients are finite), of `kindling train` on small random images, scaled up to the case's size, in one micro-batch that
is also the normalisation group, or with --groups in as many groups at once as the planner takes; measured is the peak of the whole run as its last line reports it, with validation,
test and checkpoint. With --stand-in FOLDER (what tests/cuda-on-cpu/build.sh built) it is `--device cuda` on the stand-in for
CUDA with kernels that do nothing, and measured is the most memory that its driver gave away. With --draw N it is N cases
drawn over the whole registry, in everything that a plan is asked about and in the size of the source images; the same seed
draws the same cases. Measurements are kept in a file of lines, so that an interrupted comparison goes on where it stopped.

    scripts/planner-accuracy.py --models mobilenet_v2,resnet18 --sizes 224,512 --batches 1,2,4,8 \\
        --measurements measured.jsonl --out benchmarks/DATE-planner-accuracy-cpu.json

    scripts/planner-accuracy.py --models mobilenet_v2 --sizes 64,224 --batches 8 --precisions f32,f16 --optimizers adamw,sgd \\
        --stand-in target/cuda-on-cpu --measurements measured.jsonl --out benchmarks/DATE-planner-accuracy-cuda.json

    scripts/planner-accuracy.py --draw 300 --measurements measured.jsonl --out benchmarks/DATE-planner-random-cpu.json

Needs nothing but Python and a built `kindling`.
"""

import argparse
import json
import os
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
STEPS, MOST_STEPS = 2, 16
# Large images are read beside the steps: it takes some until one is read at the fullest moment. And on CUDA the holes between tensors
# are others in each of the first steps, until there are enough pages for all of them.
STEPS_UNTIL_FULL = 6
# What a case is where it does not say otherwise. `source` is the side of the images on disk.
PLAIN = {"recompute": "none", "precision": "f32", "optimizer": "adamw", "channels": 3, "classes": 2, "ema": False,
         "freeze": "none", "source": 64, "checkpoints": 0, "groups": 1}


# What names of networks for segmentation begin with.
DECODERS = ("unet", "deeplabv3plus", "lraspp", "deeplabv3", "fcn")


def write_png(path: pathlib.Path, side: int, channels: int = 3, values: int = 256) -> None:
    """Writes an image of noise, grey or RGB; `values` is how many numbers a byte may be."""
    noise = lambda: bytes(byte % values for byte in random.randbytes(channels * side))
    rows = b"".join(b"\0" + noise() for _ in range(side))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)


def make_data(folder: pathlib.Path, classes: int = 2, side: int = 64, channels: int = 3) -> None:
    """An image folder with more training images than two steps of the largest batch and the loader take."""
    random.seed(1)
    for split, count in (("train", 40 // classes), ("val", 1), ("test", 1)):
        for name in (f"class{index:03}" for index in range(classes)):
            (folder / split / name).mkdir(parents=True)
            for index in range(count):
                write_png(folder / split / name / f"{index}.png", side, channels)


def make_masks(folder: pathlib.Path, classes: int, side: int, channels: int) -> None:
    """As make_data, with a mask for each image."""
    random.seed(1)
    names = {"background": 0, **{f"class{label}": label for label in range(1, classes)}}
    for split, count in (("train", 40), ("val", 1), ("test", 1)):
        for kind in ("images", "masks"):
            (folder / split / kind).mkdir(parents=True)
        for index in range(count):
            write_png(folder / split / "images" / f"{index}.png", side, channels)
            write_png(folder / split / "masks" / f"{index}.png", side, 1, classes)
    (folder / "labels.json").write_text(json.dumps(names))


def data_of(place: pathlib.Path, case: dict) -> pathlib.Path:
    """The data set of a case, made when it is first asked for."""
    shape = case["classes"], case["source"], case["channels"]
    has_masks = case["model"].startswith(DECODERS)
    folder = place / "-".join(map(str, (has_masks, *shape)))
    if not folder.exists():
        (make_masks if has_masks else make_data)(folder, *shape)
    return folder


def environment_of(stand_in: pathlib.Path | None, stats: pathlib.Path) -> dict:
    """Where the command finds CUDA; the stand-in counts in `stats`."""
    if not stand_in:
        return dict(os.environ)
    before = lambda name, ours: os.pathsep.join(filter(None, [str(stand_in / ours), os.environ.get(name)]))
    return {**os.environ, "LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", "lib"), "PATH": before("PATH", "bin"),
            "CUDA_PATH": str(stand_in), "CUDASIM_KERNELS": "none", "CUDASIM_FILL": "2", "CUDASIM_MEMORY": "64GiB",
            "CUDASIM_CC": os.environ.get("CUDASIM_CC", "6.1"), "CUDASIM_STATS": str(stats), "CUBECL_AUTOTUNE_CACHE": "false"}


def measure(args: argparse.Namespace, data: pathlib.Path, run: pathlib.Path, case: dict,
            keep: pathlib.Path | None = None, skipped: int = 0) -> dict:
    """Trains some steps; returns the case with its peak and the run's environment. `keep` is a place for the weights."""
    group, batch, stats = str(case["batch"]), str(case["batch"] * case["groups"]), run.with_suffix(".stats")
    at_once = group if case["groups"] == 1 else "auto"
    steps = skipped + (STEPS_UNTIL_FULL if args.stand_in or case["source"] > case["size"] else STEPS)
    command = [args.kindling, "train", "--data", str(data), "--model", case["model"], "--image-size", str(case["size"]),
               "--batch-size", batch, "--ghost-batch-size", group, "--micro-batch", at_once, "--activation-checkpointing", case["recompute"],
               "--precision", case["precision"], "--optimizer", case["optimizer"],
               "--max-steps", str(steps), "--epochs", "100", "--workers", WORKERS, "--device", args.device, "--augment", "none",
               "--quiet", "--out", str(run)]
    command += ["--ema", "0.9"] if case["ema"] else []
    command += ["--checkpoint-steps", str(case["checkpoints"])] if case["checkpoints"] else []
    if case["freeze"] != "none":
        # Only given weights can be frozen: those of a run without.
        weights = run.with_suffix(".safetensors")
        start = {**case, "freeze": "none"}
        measure(args, data, run, start, keep=weights)
        command += ["--freeze", case["freeze"], "--weights", str(weights)]
    shutil.rmtree(run, ignore_errors=True)
    done = subprocess.run(command, capture_output=True, text=True, env=environment_of(args.stand_in, stats),
                          cwd=args.stand_in / "settings" if args.stand_in else None)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    result = json.loads(done.stdout.strip().splitlines()[-1])
    environment = json.loads((run / "environment.json").read_text())
    del environment["command"]  # its paths are this machine's, and the case says the rest
    skipped_now = json.loads((run / "metrics.json").read_text())["skipped_updates"]
    if keep:
        shutil.move(run / "weights.safetensors", keep)
    shutil.rmtree(run)
    if skipped_now > skipped:
        # Without an update there is no state of the optimizer.
        if steps >= MOST_STEPS:
            raise RuntimeError(f"{skipped_now} of {steps} updates were left out: gradients beyond the half format")
        return measure(args, data, run, case, keep, skipped_now)
    reported = result["peak_memory_bytes"]
    peak = json.loads(stats.read_text())["peak"] if args.stand_in else reported
    return {**case, "peak": peak, "reported": reported, "environment": environment}


def predict(args: argparse.Namespace, case: dict) -> dict:
    """What the planner says about a case."""
    group, batch = str(case["batch"]), str(case["batch"] * case["groups"])
    command = [args.kindling, "plan", "--model", case["model"], "--image-size", str(case["size"]), "--batch-size", batch,
               "--ghost-batch-size", group, "--memory", "1TiB", "--channels", str(case["channels"]),
               "--classes", str(case["classes"]), "--freeze", case["freeze"], *(["--ema"] if case["ema"] else []),
               "--optimizer", case["optimizer"], "--device", args.device, "--workers", WORKERS, "--format", "json",
               *(["--source-size", str(case["source"])] if case["source"] > case["size"] else [])]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["rows"]
    wanted = case["precision"], case["recompute"]
    return next(row["prediction"] for row in rows if (row["precision"], row["recompute"]) == wanted)


def key(case: dict) -> tuple:
    return (case["model"], case["size"], case["batch"], *(case[name] for name in PLAIN))


def drawn(kindling: str, count: int, seed: int) -> list[dict]:
    """Cases over the registry of classifiers and all that a plan is asked about, the cheapest first."""
    listed = subprocess.run([kindling, "models", "--format", "json"], capture_output=True, text=True, check=True).stdout
    classifiers = (model for model in map(json.loads, listed.splitlines()) if model["family"] not in ("GAN", "segmentation"))
    macs = {model["name"]: model["macs_512"] for model in classifiers}
    models, draw = sorted(macs), random.Random(seed)
    found = [{"model": draw.choice(models), "size": draw.choice([64, 96, 128, 160, 224]), "batch": draw.choice([1, 2, 4, 8]),
             "recompute": draw.choice(["none", "none", "stages", "blocks"]),
             "precision": draw.choice(["f32", "f32", "f16", "bf16"]), "optimizer": draw.choice(["adamw", "sgd"]),
             "channels": draw.choice([1, 3]), "classes": draw.choice([2, 5, 20]), "ema": draw.random() < 0.25,
             "freeze": draw.choice(["none", "none", "none", "backbone"]), "source": draw.choice([64, 64, 512, 1500]),
             "checkpoints": draw.choice([0, 1]), "groups": 1} for _ in range(count)]
    # The cheapest first, so that a comparison that is cut short has seen most.
    return sorted(found, key=lambda case: macs[case["model"]] * case["size"] ** 2 * case["batch"])


def summary(errors: list[float]) -> dict:
    return {"cases": len(errors), "median_error": round(statistics.median(map(abs, errors)), 5),
            "worst_under": round(min(0.0, *errors), 5), "worst_over": round(max(0.0, *errors), 5)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kindling", default="target/release/kindling")
    parser.add_argument("--models", default="")
    parser.add_argument("--sizes", default="224,512")
    parser.add_argument("--batches", default="1,2,4,8")
    parser.add_argument("--groups", default="1", help="normalisation groups of a step")
    parser.add_argument("--activation-checkpointing", dest="recompute", default="none")
    parser.add_argument("--precisions", default="f32")
    parser.add_argument("--optimizers", default="adamw")
    parser.add_argument("--draw", type=int, default=0, help="cases to draw over the registry")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--stand-in", type=pathlib.Path, help="the built stand-in for CUDA; means --device cuda")
    parser.add_argument("--measurements", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--left-out", default="", help="a sentence for the file about what was not measured")
    args = parser.parse_args()
    args.kindling = str(pathlib.Path(args.kindling).resolve())
    if args.stand_in:
        args.device, args.stand_in = "cuda", args.stand_in.resolve()

    lines = args.measurements.read_text().splitlines() if args.measurements.exists() else []
    known = [{**PLAIN, **json.loads(line)} for line in lines]
    cases = [{**PLAIN, "model": model, "size": int(size), "batch": int(batch), "recompute": recompute, "precision": precision,
              "optimizer": optimizer, "groups": int(groups)}
             for model in args.models.split(",") if model
             for size in args.sizes.split(",") for batch in args.batches.split(",")
             for recompute in args.recompute.split(",") for precision in args.precisions.split(",")
             for optimizer in args.optimizers.split(",") for groups in args.groups.split(",")]
    cases += drawn(args.kindling, args.draw, args.seed)
    have = {key(case) for case in known}
    with tempfile.TemporaryDirectory() as place:
        for case in (case for case in cases if key(case) not in have):
            try:
                found = measure(args, data_of(pathlib.Path(place), case), pathlib.Path(place, "run"), case)
            except RuntimeError as error:
                print(f"{key(case)}: {error}", file=sys.stderr)
                continue
            known.append(found)
            with args.measurements.open("a") as file:
                file.write(json.dumps(found) + "\n")

    table = []
    for case in sorted(known, key=key):
        prediction = predict(args, case)
        error = prediction["peak"] / case["peak"] - 1
        table.append({"model": case["model"], "image_size": case["size"], "batch": case["batch"],
                      **{name: case[name] for name in PLAIN},
                      "measured": case["peak"], "reported": case.get("reported", case["peak"]), "predicted": prediction["peak"], "error": round(error, 5), "moment": prediction["moment"]})
        print(f"{case['model']:24} {case['size']:4} {case['batch']:2} {case['recompute']:7} "
              f"{case['precision']:4} {case['optimizer']:5} measured "
              f"{case['peak'] / 1e6:9.1f} MB, predicted {prediction['peak'] / 1e6:9.1f} MB, {100 * error:+6.2f} %")
    kept = [row["error"] for row in table if row["recompute"] == "none"]
    again = [row["error"] for row in table if row["recompute"] != "none"]
    where = "CUDA's driver counted on the stand-in, kernels that do nothing" if args.stand_in else args.device
    about = f"kindling plan against the peak of kindling train, {where}, batch = norm group, of which a step has as many as `groups` says"
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
