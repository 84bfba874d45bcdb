#!/usr/bin/env python3
"""Holds every name of the zoo against torchvision and timm, from the outside: through the command and its files.

The tests of models/zoo compare the networks in Rust with figures that were stored once. This script asks the installed
libraries themselves, and also checks what leaves Kindling. For each name that torchvision or timm has, with the weights
and images that models/zoo/tests/golden/golden.py makes from a formula, at an even and an odd size:

  eval, train  logits of `kindling forward`, without and with --train-mode, against the reference in float64
  features     maps of `kindling forward --features` against timm's features_only, where the name is timm's. timm's
               GhostNet names the first stage of each resolution; the last ones, which Kindling gives, are compared
  weights      `kindling export` gives back what it read, bit for bit, from safetensors and from both formats of
               torch.save; the reference loads it with strict=True. Where the other library has the same network,
               --keys of that one does the same there (both list the same layers in the same order), and Kindling
               reads these keys back
  onnx         `kindling export --format onnx` passes onnx.checker with full_check, and ONNX Runtime's logits are those
               of `kindling forward`, for two images and for one

An error is the largest difference divided by the largest expected value. Logits and maps may be off by 1e-4, or by ten
times what the reference in float32 is off itself (columns `own`); ONNX by 1e-4. All on the CPU. Exits with 1 on a failure.

usage: check-zoo.py [--kindling PATH] [--only TEXT] [--out FILE.json]
       (needs torch, torchvision, timm, safetensors, onnx and onnxruntime; 6 GB of memory and 3 GB of disk)
"""
import argparse, datetime, json, os, platform, resource, subprocess, sys, tempfile, time
from pathlib import Path

import onnx, onnxruntime, safetensors, timm, torch, torchvision
from safetensors.torch import load_file, save_file
from timm.models._features import FeatureListNet

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "models/zoo/tests/golden"))
import zoo  # also lets torchvision's MNASNet load tensors that carry no version
from golden import build, fill01

# With golden.py's gain EfficientNetV2 is chaotic: its own float32 is off by 1e-2 and says nothing. zoo.py knows of M and L.
zoo.GAINS["v2_s"] = 3.0

# timm's SAME padding is lopsided at 64, and at 71 too, whose halves are both even and odd: 36, 18, 9, 5, 3.
SIZES = (64, 71)
BATCH = 4  # MobileNetV4 normalises one value of each image: with two images its train logits would be signs.
TOLERANCE = 1e-4
OF_REFERENCE = 10
GHOSTNET = [("blocks.0", 16, 2), ("blocks.2", 24, 4), ("blocks.4", 40, 8), ("blocks.6", 112, 16), ("blocks.9", 960, 32)]


class Kindling:
    """The command, and a folder for its files."""

    def __init__(self, path, folder):
        self.path, self.folder = Path(path).resolve(), folder

    def __call__(self, *arguments):
        done = subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["nothing"]
            raise RuntimeError(f"kindling {arguments[0]} ended with {done.returncode}: {said[-1]}")
        return done.stdout

    def new(self, name):
        """The path of a file that is not there: tensors read from an earlier one may still be mapped from its pages."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        return path

    def forward(self, model, weights, size, *flags):
        output = self.new("output.safetensors")
        images = self.folder / f"images-{size}.safetensors"
        self("forward", "--device", "cpu", "--model", model, "--weights", weights, "--input", images, "--output", output,
             *flags)
        return load_file(output)

    def export(self, name, weights, output, *flags):
        output = self.new(output)
        self("export", "--model", name, "--weights", weights, "--output", output, *flags)
        return output

    def names(self):
        """For each listed name of a network of torchvision or timm: that name, LIBRARY.NAME, and the twins in the other."""
        for line in self("models", "--format", "json").splitlines():
            entry = json.loads(line)
            if entry["reference"].split(".")[0] not in ("torchvision", "timm"):
                print(f"not compared: {entry['name']}, which neither library has")
                continue
            models = {
                name: json.loads(self("models", "show", name, "--format", "json"))["reference"]
                for name in [entry["name"], *entry["aliases"]]
            }
            for name, model in models.items():
                library = model.split(".")[0]
                yield name, model, [other for other in models.values() if other.split(".")[0] != library]


def images(size):
    values = 1.7 * (2 * torch.from_numpy(fill01("input", BATCH * 3 * size * size)) - 1)
    return values.reshape(BATCH, 3, size, size).float()


def feature_network(model, network):
    """timm's network of feature maps with the weights of this one, None for torchvision's."""
    library, name = model.split(".", 1)
    if library != "timm":
        return None
    if name.startswith("ghostnet"):
        network = zoo.filled(model, torch.float32)
        network.feature_info = [dict(module=module, num_chs=n, reduction=r) for module, n, r in GHOSTNET]
        return FeatureListNet(network, flatten_sequential=True).eval()
    features = timm.create_model(name, features_only=True)
    missing = features.load_state_dict(network.state_dict(), strict=False).missing_keys
    assert not missing, f"features_only has other tensors: {missing[:3]}"
    return features.eval()


@torch.no_grad()
def reference(model, network):
    """Lists of tensors by (what, size, type): logits of "eval" and "train", feature maps of "features"."""
    features = feature_network(model, network)
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
    shapes = [[list(tensor.shape) for tensor in tensors] for tensors in (found, expected)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"shapes {shapes[0]} for {shapes[1]}")
    errors = [(a.double() - b.double()).abs().max() / b.double().abs().max() for a, b in zip(found, expected)]
    return float(f"{torch.stack(errors).max():.3g}")


def check_outputs(kindling, row, model, weights, expected):
    for size in SIZES:
        found = kindling.forward(model, weights, size, "--features")
        maps = sorted((key for key in found if key.startswith("features.")), key=lambda key: int(key.split(".")[1]))
        compared = {"eval": [found["logits"]], "features": [found[key] for key in maps]}
        compared["train"] = [kindling.forward(model, weights, size, "--train-mode")["logits"]]
        for what, tensors in compared.items():
            if (what, size, torch.float64) not in expected:
                continue
            double = expected[what, size, torch.float64]
            off, own = error(tensors, double), error(expected[what, size, torch.float32], double)
            row[what][size] = {"error": off, "own": own}
            if not off <= max(TOLERANCE, OF_REFERENCE * own):
                row["failures"].append(f"{what} at {size}: off by {off}, the reference itself by {own}")


def check_weights(kindling, row, name, model, twins, weights):
    given = load_file(weights)

    def same(what, found, expected):
        """Whether two sequences of tensors hold the same bits; shapes may differ by ones, as those of two libraries do."""
        found, expected = list(found), list(expected)
        pairs = zip(found, expected)
        if len(found) == len(expected) and all(a.dtype == b.dtype and torch.equal(a.flatten(), b.flatten()) for a, b in pairs):
            row["weights"].append(what)
        else:
            row["failures"].append(f"weights: {what}: other tensors came out than went in")

    def loaded(model, path):
        """All tensors of a network of the library, in its order, once it has loaded the file."""
        network = build(model)
        network.load_state_dict(load_file(path), strict=True)
        return network.state_dict()

    exported = kindling.export(name, weights, "exported.safetensors")
    state = loaded(model, exported)
    same(f"{model}, strict", [state[key] for key in given], given.values())

    for what, zipped in (("pth", True), ("legacy pth", False)):
        path = kindling.folder / "weights.pth"
        torch.save(given, path, _use_new_zipfile_serialization=zipped)
        found = load_file(kindling.export(name, path, "exported.safetensors"))
        path.unlink()
        same(what, [found[key] for key in given if key in found], given.values())

    for twin in twins:
        library = twin.split(".")[0]
        exported = kindling.export(name, weights, "twin.safetensors", "--keys", library)
        same(f"{twin}, strict", loaded(twin, exported).values(), state.values())
    if twins:
        found = load_file(kindling.export(name, exported, "exported.safetensors"))
        same(f"read back from {library}'s keys", [found[key] for key in given if key in found], given.values())


def check_onnx(kindling, row, name, model, weights):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    for size in SIZES:
        path = kindling.export(name, weights, "network.onnx", "--format", "onnx", "--image-size", size)
        onnx.checker.check_model(str(path), full_check=True)
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        path.unlink()
        expected = kindling.forward(model, weights, size)["logits"]
        for batch in (2, 1):
            inputs = {session.get_inputs()[0].name: images(size)[:batch].numpy()}
            off = error([torch.from_numpy(session.run(None, inputs)[0])], [expected[:batch]])
            row["onnx"][f"{batch}x{size}"] = off
            if not off <= TOLERANCE:
                row["failures"].append(f"onnx at {size}, {batch} images: off by {off}")


def check(kindling, name, model, twins):
    """The figures of one name; what is wrong stands under `failures`."""
    began = time.monotonic()
    row = {"name": name, "model": model, "parameters": None, "gain": zoo.gain(model), "eval": {}, "train": {}, "features": {},
           "onnx": {}, "weights": [], "failures": []}
    weights = kindling.new("weights.safetensors")

    def outputs():
        network = zoo.filled(model, torch.float32)
        row["parameters"] = sum(parameter.numel() for parameter in network.parameters())
        save_file(network.state_dict(), weights)
        check_outputs(kindling, row, model, weights, reference(model, network))

    # Each part says what is wrong by itself; the model is asked for by LIBRARY.NAME and as it is listed.
    for part in (outputs, lambda: check_weights(kindling, row, name, model, twins, weights),
                 lambda: check_onnx(kindling, row, name, model, weights)):
        try:
            part()
        except Exception as problem:
            row["failures"].append(f"{type(problem).__name__}: {' '.join(str(problem).split())[:400]}")
    row["seconds"] = round(time.monotonic() - began, 1)
    return row


def worst(row, what, which="error"):
    figures = [figure[which] if isinstance(figure, dict) else figure for figure in row[what].values()]
    return max(figures, default=None, key=lambda figure: (figure != figure, figure))


COLUMNS = [("eval", "error"), ("eval", "own"), ("train", "error"), ("train", "own"), ("features", "error"), ("features", "own"),
           ("onnx", "error")]


def document(rows, seconds):
    """What the table shows, and what it was measured on."""
    def text(path, start):
        lines = Path(path).read_text().splitlines() if Path(path).exists() else []
        return next((line[len(start):].strip(' \t:="') for line in lines if line.startswith(start)), None)

    largest = {" ".join(column): max(filter(lambda it: it[0] is not None, ((worst(row, *column), row["model"]) for row in rows)),
                                     default=None) for column in COLUMNS}
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    versions = {it.__name__: it.__version__ for it in (torch, torchvision, timm, safetensors, onnx, onnxruntime)}
    return {
        "what": "every name of the zoo against torchvision, timm and ONNX Runtime, through the command",
        "command": "scripts/check-zoo.py",
        "result": {
            "names": len(rows), "failed": [row["model"] for row in rows if row["failures"]], "largest": largest,
            "peak_memory_bytes": 1024 * peak, "seconds": round(seconds),
        },
        "environment": {
            "time": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "commit": commit.stdout.strip() or None, "os": f"{text('/etc/os-release', 'PRETTY_NAME')} (kernel {platform.release()})",
            "architecture": platform.machine(), "cpu": text("/proc/cpuinfo", "model name"), "threads": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "device": "cpu",
            "python": platform.python_version(), **versions,
        },
        "config": {"sizes": SIZES, "batch": BATCH, "tolerance": TOLERANCE, "of_reference": OF_REFERENCE},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kindling", default=REPOSITORY / "target/release/kindling", help="the command to check", metavar="PATH")
    parser.add_argument("--only", default="", help="only names that have this text in LIBRARY.NAME", metavar="TEXT")
    parser.add_argument("--out", help="where to write all figures", metavar="FILE.json")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    began, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        kindling = Kindling(arguments.kindling, Path(folder))
        for size in SIZES:
            save_file({"input": images(size)}, kindling.folder / f"images-{size}.safetensors")
        print(" " * 42, *(f"{what if which == 'error' else which:>8}" for what, which in COLUMNS), " seconds", flush=True)
        for name, model, twins in kindling.names():
            if arguments.only not in model:
                continue
            row = check(kindling, name, model, twins)
            rows.append(row)
            figures = ("-" if figure is None else f"{figure:.1e}" for figure in (worst(row, *column) for column in COLUMNS))
            print("FAIL" if row["failures"] else "PASS", f"{model:37}", *(f"{it:>8}" for it in figures), f"{row['seconds']:8.1f}")
            print(*(f"     {failure}\n" for failure in row["failures"]), sep="", end="", flush=True)
    if not rows:
        sys.exit(f"no name of torchvision or timm has {arguments.only!r} in it")
    head = document(rows, time.monotonic() - began)
    print(json.dumps(head["result"], indent=1))
    if arguments.out:
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        Path(arguments.out).write_text(json.dumps(head, indent=1)[:-2] + f',\n "models": [\n{lines}\n ]\n}}\n')
    sys.exit(1 if head["result"]["failed"] else 0)


if __name__ == "__main__":
    main()
