#!/usr/bin/env python3
"""Holds every name of the zoo against torchvision and timm, from the outside: through the command and its files.

For each name that either library has, with the weights and images that models/zoo/tests/golden/golden.py makes from a
formula, at an even and an odd size:

  eval, train  logits of `kindling forward`, without and with --train-mode, against the reference in float64
  features     maps of `kindling forward --features` against timm's features_only, where the name is timm's. timm's
               GhostNet names the first stage of each resolution; the last ones, which Kindling gives, are compared
  weights      `kindling export` gives back what it read, bit for bit, from safetensors and, below 10 M parameters,
               from both formats of torch.save; the reference loads it with strict=True. Where the other library has
               the network too, the same with --keys of that one, whose layers come in the same order, and back again
  onnx         `kindling export --format onnx` passes onnx.checker with full_check, and ONNX Runtime's logits are those
               of `kindling forward`, for two images and for one

An error is the largest difference divided by the largest expected value. Logits and maps may be off by 1e-4, or by ten
times what the reference in float32 is off itself (columns `own`); ONNX by 1e-4. All on the CPU, in 6 GB of memory.

usage: check-zoo.py [--kindling PATH] [--only TEXT] [--out FILE.json]   (needs the libraries imported below)
"""
import argparse, datetime, json, os, platform, subprocess, sys, tempfile, time
from pathlib import Path
import onnx, onnxruntime, safetensors, timm, torch, torchvision
from safetensors.torch import save_file

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "models/zoo/tests/golden"))
import zoo  # besides, it lets torchvision's MNASNet load tensors that carry no version
from golden import build, fill01

# zoo.py lowers the gain for EfficientNetV2 M and L, whose outputs are chaotic otherwise. In eval S is chaotic too.
zoo.GAINS["v2_s"] = 3.0
# SAME padding (timm's tf_ names) is lopsided at even sizes: 64 and its halves, and 36 and 18 after 71.
SIZES = (64, 71)
# MobileNetV4 normalises one value of each image: of two images, only which is the larger would be left in training.
BATCH = 4
TOLERANCE, OF_REFERENCE = 1e-4, 10
COLUMNS = ("eval", "eval own", "train", "train own", "features", "features own", "onnx")
# Module, channels and reduction of GhostNet's maps.
GHOSTNET = [("blocks.0", 16, 2), ("blocks.2", 24, 4), ("blocks.4", 40, 8), ("blocks.6", 112, 16), ("blocks.9", 960, 32)]


class Kindling:
    """The command, and a folder for its files."""

    def __init__(self, path, folder):
        self.path, self.folder = Path(path).resolve(), folder

    def __call__(self, *arguments):
        done = subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"kindling {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def forward(self, model, weights, size, *flags):
        source, output = self.folder / f"images-{size}.safetensors", self.folder / "output.safetensors"
        arguments = ("--device", "cpu", "--model", model, "--weights", weights, "--input", source, "--out", output)
        self("forward", *arguments, *flags)
        return read(output)

    def export(self, name, weights, output, *flags):
        self("export", "--model", name, "--weights", weights, "--out", self.folder / output, *flags)
        return self.folder / output

    def names(self):
        """Each name as it is listed, as LIBRARY.NAME, and what the other library calls the network (or None)."""
        for entry in map(json.loads, self("models", "--format", "json").splitlines()):
            if not entry["reference"].startswith(("torchvision.", "timm.")):
                continue  # a GAN
            models = {entry["name"]: entry["reference"]}
            for alias in entry["aliases"]:  # LIBRARY.NAME where both have the name
                library = "torchvision" if hasattr(torchvision.models, alias) else "timm"
                models[alias] = alias if "." in alias else f"{library}.{alias}"
            for name, model in models.items():
                twins = (twin for twin in models.values() if twin.split(".")[0] != model.split(".")[0])
                yield name, model, next(twins, None)


def read(path):
    """The tensors of a file, in memory: mapped ones would be lost when the command writes that file again."""
    return safetensors.torch.load(path.read_bytes())


def images(size):
    values = 1.7 * (2 * torch.from_numpy(fill01("input", BATCH * 3 * size * size)) - 1)
    return values.reshape(BATCH, 3, size, size).float()


def feature_network(model, network):
    """timm's network of feature maps, with the weights of this one."""
    if model == "timm.ghostnet_100":
        network = zoo.filled(model, torch.float32)
        network.feature_info = [dict(module=module, num_chs=n, reduction=r) for module, n, r in GHOSTNET]
        return timm.models.FeatureListNet(network, flatten_sequential=True).eval()
    features = timm.create_model(model.removeprefix("timm."), features_only=True)
    assert not features.load_state_dict(network.state_dict(), strict=False).missing_keys, "features_only has other tensors"
    return features.eval()


@torch.no_grad()
def reference(row, weights):
    """Writes weights, and gives lists of tensors by (what, size, type): logits of `eval` and `train`, maps of `features`."""
    network = zoo.filled(row["model"], torch.float32)
    row["parameters"] = sum(parameter.numel() for parameter in network.parameters())
    save_file(network.state_dict(), weights)
    features = feature_network(row["model"], network) if row["model"].startswith("timm.") else None
    outputs = {}
    for what in ("eval", "train"):  # the other way round training would have changed the statistics
        network.train(what == "train")
        for dtype in (torch.float32, torch.float64):
            network.to(dtype)
            for size in SIZES:
                outputs[what, size, dtype] = [network(images(size).to(dtype))]
                if features and what == "eval":
                    outputs["features", size, dtype] = features.to(dtype)(images(size).to(dtype))
    return outputs


def error(found, expected):
    """The largest error of any tensor, as a share of that tensor's largest value."""
    assert [a.shape for a in found] == [b.shape for b in expected], "other shapes than expected"
    assert all(tensor.isfinite().all() for tensor in [*found, *expected]), "values that are not finite"
    largest = max(float((a.double() - b.double()).abs().max() / b.double().abs().max()) for a, b in zip(found, expected))
    return float(f"{largest:.3g}")


def note(row, what, where, off, own=0.0):
    row[what][where] = off
    if off > max(TOLERANCE, OF_REFERENCE * own):
        row["failures"].append(f"{what} at {where}: off by {off}, the reference itself by {own}")


def check_outputs(kindling, row, weights):
    expected = reference(row, weights)
    for size in SIZES:
        found = kindling.forward(row["model"], weights, size, "--features")
        compared = {"eval": [found.pop("logits")], "features": [found[f"features.{index}"] for index in range(len(found))]}
        compared |= {"train": [kindling.forward(row["model"], weights, size, "--train-mode")["logits"]]}
        for what, tensors in compared.items():
            if double := expected.get((what, size, torch.float64)):
                own = error(expected[what, size, torch.float32], double)
                row[f"{what} own"][str(size)] = own
                note(row, what, str(size), error(tensors, double), own)


def check_weights(kindling, row, weights):
    given, twin = read(weights), row["twin"]

    def same(what, found, expected):
        """Notes whether two lists of tensors hold the same bits; shapes may differ by ones, as those of libraries do."""
        equal = all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in zip(found, expected, strict=True))
        (row["weights"] if equal else row["failures"]).append(what if equal else f"weights, {what}: other bits came out")

    def loaded(model, path):
        """All tensors of the library's network, in its order, once it has loaded the file."""
        network = build(model)
        network.load_state_dict(read(path), strict=True)
        return network.state_dict()

    def again(what, path):
        found = read(kindling.export(row["name"], path, "exported.safetensors"))
        same(what, [found[key] for key in sorted(found)], [given[key] for key in sorted(given)])

    again("safetensors", weights)
    state = loaded(row["model"], kindling.folder / "exported.safetensors")
    for what, zipped in (("pth", True), ("legacy pth", False)) if row["parameters"] < 1e7 else ():
        torch.save(state, kindling.folder / "weights.pth", _use_new_zipfile_serialization=zipped)
        again(what, kindling.folder / "weights.pth")
    if twin:
        library = twin.split(".")[0]
        theirs = kindling.export(row["name"], weights, "twin.safetensors", "--keys", library)
        same(f"{library}'s keys", loaded(twin, theirs).values(), state.values())
        again(f"back from {library}'s keys", theirs)


def check_onnx(kindling, row, weights):
    for size in SIZES:
        path = kindling.export(row["name"], weights, "network.onnx", "--format", "onnx", "--image-size", size)
        onnx.checker.check_model(str(path), full_check=True)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        expected = kindling.forward(row["model"], weights, size)["logits"]
        for batch in (2, 1):
            logits = session.run(None, {session.get_inputs()[0].name: images(size)[:batch].numpy()})[0]
            note(row, "onnx", f"{size}, batch {batch}", error([torch.from_numpy(logits)], [expected[:batch]]))


def check(kindling, name, model, twin):
    """The figures of one name, and under `failures` what is wrong. Commands take it as it is listed or LIBRARY.NAME."""
    began = time.monotonic()
    row = {"name": name, "model": model, "twin": twin, "gain": zoo.gain(model), "failures": [], "weights": []}
    row |= {column: {} for column in COLUMNS}
    for part in (check_outputs, check_weights, check_onnx):
        try:
            part(kindling, row, kindling.folder / "weights.safetensors")
        except Exception as problem:
            row["failures"].append(f"{part.__name__}: {type(problem).__name__}: {' '.join(str(problem).split())[:400]}")
    return row | {"seconds": round(time.monotonic() - began, 1)}


def summary(rows, path, seconds):
    """The largest figures, and what they were measured on."""
    figures = {what: [(max(row[what].values()), row["model"]) for row in rows if row[what]] for what in COLUMNS}
    # The command holds the commit it was built from, and does not say it; a compiler may split more than eight letters.
    commits = subprocess.run(["git", "rev-list", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True).stdout.split()
    command = path.read_bytes()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), None)
    return {
        "what": "every name of the zoo against torchvision, timm and ONNX Runtime", "command": "scripts/check-zoo.py",
        "result": {"names": len(rows), "failed": [row["model"] for row in rows if row["failures"]], "seconds": round(seconds),
                   "largest": {what: max(found, default=None) for what, found in figures.items()}},
        "environment": {"time": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
                        "commit": next((it[:12] for it in commits if it[:8].encode() in command), None),
                        "os": f"{platform.freedesktop_os_release()['PRETTY_NAME']} (kernel {platform.release()})",
                        "architecture": platform.machine(), "cpu": cpu, "threads": os.cpu_count(),
                        "device": "cpu", "python": platform.python_version(),
                        **{it.__name__: it.__version__ for it in (torch, torchvision, timm, safetensors, onnx, onnxruntime)}},
        "config": {"sizes": SIZES, "batch": BATCH, "tolerance": TOLERANCE, "of_reference": OF_REFERENCE},
    }


def main():
    parser = argparse.ArgumentParser(description="Holds every name of the zoo against torchvision and timm.")
    parser.add_argument("--kindling", default=REPOSITORY / "target/release/kindling", metavar="PATH", help="the command")
    parser.add_argument("--only", default="", metavar="TEXT", help="only names that have this text in LIBRARY.NAME")
    parser.add_argument("--out", metavar="FILE.json", help="where all figures go")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    began, rows = time.monotonic(), []
    print(" " * 37, *(f"{column.split()[-1]:>8}" for column in COLUMNS), " seconds", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        kindling = Kindling(arguments.kindling, Path(folder))
        for size in SIZES:
            save_file({"input": images(size)}, kindling.folder / f"images-{size}.safetensors")
        for name, model, twin in kindling.names():
            if arguments.only in model:
                rows.append(row := check(kindling, name, model, twin))
                figures = [f"{max(row[what].values()):8.1e}" if row[what] else f"{'-':>8}" for what in COLUMNS]
                print("FAIL" if row["failures"] else "PASS", f"{model:32}", *figures, f"{row['seconds']:8}", flush=True)
                print(*(f"     {failure}\n" for failure in row["failures"]), sep="", end="", flush=True)
    head = summary(rows, kindling.path, time.monotonic() - began)
    print(json.dumps(head["result"], indent=1))
    if arguments.out:
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        Path(arguments.out).write_text(json.dumps(head, indent=1)[:-2] + f',\n "models": [\n{lines}\n ]\n}}\n')
    sys.exit(1 if head["result"]["failed"] or not rows else 0)


if __name__ == "__main__":
    main()
