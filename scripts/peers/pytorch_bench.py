#!/usr/bin/env python3
"""The rows of `kindling bench` with PyTorch, torchvision and timm, in the same JSON.

    scripts/peers/pytorch_bench.py train infer --models mobilenet_v2,resnet18 --image-size 512 --batch-size 4 \\
        --device cpu --out pytorch.json
    kindling bench compare kindling.json pytorch.json

Every row runs in several variants, each in a process of its own, and is recorded as a row with its `variant`; a
comparison takes the fastest one. The words of a variant: `contiguous` or `channels_last`, `compiled` for torch.compile,
`as-installed` for glibc's malloc as it is. Without that word it keeps memory that was freed on the CPU, as PyTorch's
tuning guide advises (there with jemalloc or TCMalloc): as installed, every large tensor is given back to the system, and
most of the time goes into page faults. On a GPU it chooses convolutions by measurement (cudnn.benchmark), and its images lie
in pinned memory. Half formats are autocast, with a gradient scaler for f16. Threads are those of
`--threads`, or all this process may use, as in `kindling bench`. Needs torch and torchvision, for timm's names timm, for
`compiled` a C++ compiler, for `unet-` segmentation_models_pytorch.
"""

import argparse
import ctypes
import datetime
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

FORMAT = "kindling-bench/1"
FIELDS = ["what", "model", "image_size", "channels", "classes", "batch_size", "micro_batch", "norm_group", "precision",
          "recompute", "optimizer", "memory_budget", "seed", "device", "threads"]

UNET = "unet-"  # then the name of an encoder; training takes cross-entropy and Dice

# https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html, "Switch Memory allocator"
KEEPS_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}


def configuration_hash(configuration: dict) -> str:
    """The hash of crates/runs/src/bench/configuration.rs."""
    shown = dict(configuration)
    shown["device"] = configuration["device"].split(":")[0]
    shown["micro_batch"] = "auto" if configuration["micro_batch"] is None else configuration["micro_batch"]
    shown["memory_budget"] = "none" if configuration["memory_budget"] is None else configuration["memory_budget"]
    shown["threads"] = configuration["threads"] if shown["device"] == "cpu" else "any"
    return hashlib.sha256("".join(f"{name}={shown[name]}\n" for name in FIELDS).encode()).hexdigest()[:16]


def check_hash() -> None:
    """The example whose hash a test of the command holds too."""
    example = dict(zip(FIELDS, ["train", "mobilenet_v2", 512, 3, 10, 4, None, 8, "f32", "none", "adamw", None, 0, "cpu", 2]))
    if configuration_hash(example) != "6ed1d089fa5562e9":
        sys.exit("error: this script and the command hash configurations differently")


def quartiles(values: list) -> dict:
    """With linear interpolation, as NumPy and the command do it."""
    ordered = sorted(values)
    last = len(ordered) - 1

    def at(share: float) -> float:
        place = share * last
        below = int(place)
        above = min(below + 1, last)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    return {"q1": at(0.25), "median": at(0.5), "q3": at(0.75)}


def build(configuration: dict):
    """The network that the zoo's name means: torchvision's where it has the name, otherwise timm's; of `unet-` smp's."""
    library, _, name = configuration["model"].rpartition(".")
    classes, channels = configuration["classes"], configuration["channels"]
    if name.startswith(UNET):
        import segmentation_models_pytorch as smp

        return smp.Unet(name.removeprefix(UNET), encoder_weights=None, in_channels=channels, classes=classes)
    import torchvision

    if library in ("", "torchvision") and name in torchvision.models.list_models():
        if channels != 3:
            raise ValueError("torchvision's networks take 3 channels")
        return torchvision.models.get_model(name, weights=None, num_classes=classes)
    import timm

    return timm.create_model(name, pretrained=False, num_classes=classes, in_chans=channels)


class Energy:
    """Joules a GPU has used since its driver was loaded, by NVML; none where it does not tell."""

    def __init__(self, device: str):
        self.handle = None
        if not device.startswith("cuda"):
            return
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            index = int(device.partition(":")[2] or 0)
            visible = [part for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part]
            handle = ctypes.c_void_p()
            self.nvml.nvmlInit_v2()
            number = int(visible[index]) if visible else index
            if self.nvml.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle)) == 0:
                self.handle = handle
        except (OSError, ValueError, IndexError):
            pass

    def joules(self):
        millijoules = ctypes.c_ulonglong()
        if self.handle is None or self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle, ctypes.byref(millijoules)):
            return None
        return millijoules.value / 1e3


class Workload:
    """What a step of a row does; mirrors crates/kindling/src/commands/bench/workload.rs."""

    def __init__(self, configuration: dict, variant: str):
        import torch

        self.torch, self.c = torch, configuration
        self.cuda = configuration["device"].startswith("cuda")
        self.device = torch.device(configuration["device"])
        torch.manual_seed(configuration["seed"])
        torch.backends.cudnn.benchmark = self.cuda
        self.layout = torch.channels_last if "channels_last" in variant else torch.contiguous_format
        model = build(configuration).to(self.device).to(memory_format=self.layout)
        self.training = configuration["what"] != "infer"
        self.model = model.train(self.training)
        if "compiled" in variant:
            self.model = torch.compile(self.model)
        formats = {"f32": None, "bf16": torch.bfloat16, "f16": torch.float16}
        self.half = formats[configuration["precision"]]
        decay = 0.02
        if configuration["optimizer"] == "adamw":
            self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=decay)
        else:
            self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=decay)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=configuration["precision"] == "f16")
        batch, size = configuration["batch_size"], configuration["image_size"]
        self.micro = min(configuration["micro_batch"] or batch, batch)
        self.images = [torch.randn(batch, configuration["channels"], size, size) for _ in range(2)]
        if self.cuda:  # as a DataLoader with pin_memory gives them
            self.images = [images.pin_memory() for images in self.images]
        self.labels = [(torch.arange(batch) + index * batch) % configuration["classes"] for index in range(2)]
        self.segments = configuration["model"].startswith(UNET)
        if self.segments:
            import segmentation_models_pytorch as smp

            # Columns of every class.
            mask = (torch.arange(size) * configuration["classes"] // size).expand(batch, size, size)
            self.labels = [mask.contiguous() for _ in range(2)]
            self.dice = smp.losses.DiceLoss("multiclass")
        self.turn = 0
        self.loss = None
        self.parts = [self.upload(part) for part in self.images[0].split(self.micro)]

    def upload(self, images):
        return images.to(self.device, non_blocking=self.cuda).to(memory_format=self.layout)

    def sync(self):
        if self.cuda:
            self.torch.cuda.synchronize(self.device)

    def cast(self):
        return self.torch.autocast(self.device.type, dtype=self.half or self.torch.bfloat16, enabled=self.half is not None)

    def step(self) -> float:
        return getattr(self, self.c["what"])()

    def train(self) -> float:
        self.turn = 1 - self.turn
        images, labels = self.images[self.turn], self.labels[self.turn]
        began = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for part, truth in zip(images.split(self.micro), labels.split(self.micro)):
            x, y = self.upload(part), truth.to(self.device)
            with self.cast():
                logits = self.model(x)
            loss = self.torch.nn.functional.cross_entropy(logits.float(), y)
            if self.segments:
                loss = loss + self.dice(logits.float(), y)
            loss = loss * (len(part) / len(images))
            self.scaler.scale(loss).backward()
            total = total + loss.detach()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.loss = float(total)
        self.sync()
        return time.perf_counter() - began

    def infer(self) -> float:
        self.turn = 1 - self.turn
        began = time.perf_counter()
        with self.torch.inference_mode(), self.cast():
            for part in self.images[self.turn].split(self.micro):
                self.model(self.upload(part)).float().softmax(1).cpu()
        return time.perf_counter() - began

    def passes(self, timed_backward: bool) -> float:
        seconds = 0.0
        for part in self.parts:
            self.model.zero_grad(set_to_none=True)
            self.sync()
            began = time.perf_counter()
            with self.cast():
                logits = self.model(part)
            self.sync()
            forward = time.perf_counter() - began
            loss = logits.float().mean()
            if not timed_backward:
                seconds += forward
                continue
            self.sync()
            began = time.perf_counter()
            loss.backward()
            self.sync()
            seconds += time.perf_counter() - began
        return seconds

    def forward(self) -> float:
        return self.passes(False)

    def backward(self) -> float:
        return self.passes(True)


def measure(configuration: dict, protocol: dict, variant: str) -> dict:
    """The figures of a row."""
    import torch

    if configuration["recompute"] != "none" or configuration["memory_budget"] is not None:
        raise ValueError("PyTorch's rows neither recompute nor keep a memory budget")
    torch.set_num_threads(configuration["threads"])
    work = Workload(configuration, variant)
    if work.cuda:
        torch.cuda.reset_peak_memory_stats(work.device)
    first = work.step()
    for _ in range(1, protocol["warmup"]):
        work.step()
    energy = Energy(configuration["device"])
    before = energy.joules()
    windows, steps = [], []
    for _ in range(protocol["windows"]):
        images, seconds = 0, 0.0
        while seconds < protocol["window_seconds"]:
            taken = work.step()
            steps.append(taken)
            images += configuration["batch_size"]
            seconds += taken
        windows.append({"images": images, "seconds": seconds})
    joules = None if before is None or configuration["what"] == "backward" else energy.joules() - before
    images = sum(window["images"] for window in windows)
    memory = {"peak_in_use_bytes": None, "peak_reserved_bytes": None, "peak_process_bytes": process_peak(),
              "how": "the process alone: PyTorch does not count its memory on the CPU"}
    if work.cuda:
        memory |= {"peak_in_use_bytes": torch.cuda.max_memory_allocated(work.device),
                   "peak_reserved_bytes": torch.cuda.max_memory_reserved(work.device),
                   "how": "every allocation of PyTorch's caching allocator"}
    return {"images_per_second": quartiles([window["images"] / window["seconds"] for window in windows]),
            "step_seconds": quartiles(steps), "first_step_seconds": first, "windows": windows, "steps": len(steps),
            "micro_batch": work.micro, "recoveries": 0, "skipped_updates": 0, "loss": work.loss, "memory": memory,
            "energy": None if joules is None else {"joules": joules, "joules_per_image": joules / images}}


def process_peak():
    for line in open("/proc/self/status", encoding="utf-8"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return None


def field_of(path: str, key: str, separator: str):
    try:
        for line in open(path, encoding="utf-8"):
            name, found, value = line.partition(separator)
            if found and name.strip() == key:
                return value.strip().strip('"')
    except OSError:
        return None
    return None


def surroundings(configuration: dict) -> dict:
    """What every row says about the machine and the software."""
    import torch
    import torchvision

    software = {"torch": torch.__version__, "torchvision": torchvision.__version__}
    try:
        import timm

        software["timm"] = timm.__version__
    except ImportError:
        pass
    cuda = configuration["device"].startswith("cuda") and torch.cuda.is_available()
    memory = field_of("/proc/meminfo", "MemTotal", ":")
    environment = {
        "time": datetime.datetime.now().astimezone().isoformat(timespec="seconds"), "kindling": "", "commit": None,
        "burn": "", "rustc": None, "os": f"{field_of('/etc/os-release', 'PRETTY_NAME', '=')} (kernel {platform.release()})",
        "architecture": platform.machine(), "cpu": field_of("/proc/cpuinfo", "model name", ":"),
        "threads": len(os.sched_getaffinity(0)), "memory_bytes": int(memory.split()[0]) << 10 if memory else None,
        "device": torch.cuda.get_device_name(torch.device(configuration["device"])) if cuda else configuration["device"],
        "device_memory_bytes": torch.cuda.get_device_properties(torch.device(configuration["device"])).total_memory if cuda else None,
        "driver": None, "cuda": torch.version.cuda if cuda else None, "command": sys.argv}
    conditions = {"autotune": "cudnn.benchmark" if cuda else "none", "cpu_mhz": None,
                  "load": os.getloadavg()[0]}
    return {"software": software, "environment": environment, "conditions": conditions}


def one_row(text: str) -> None:
    """Measures the row given as JSON and prints it."""
    asked = json.loads(text)
    configuration, variant = asked["configuration"], asked["variant"]
    row = {"engine": "pytorch", "variant": variant, "configuration": configuration,
           "configuration_hash": configuration_hash(configuration), "protocol": asked["protocol"]}
    try:
        row["measured"] = measure(configuration, asked["protocol"], variant)
    except Exception as error:  # a failed row is a row with its reason
        kind = "out-of-memory" if "out of memory" in str(error).lower() or "DefaultCPUAllocator" in str(error) else "error"
        row["failed"] = {"kind": kind, "reason": " ".join(str(error).split())[:400]}
    row |= surroundings(configuration)
    kept = " ".join(f"{name}={os.environ[name]}" for name in KEEPS_MEMORY if name in os.environ)
    row["notes"] = [f"malloc keeps memory: {kept}"] if kept else []
    if configuration["what"] != "infer" and configuration["batch_size"] > configuration["norm_group"]:
        micro = min(configuration["micro_batch"] or configuration["batch_size"], configuration["batch_size"])
        row["notes"].append(f"batch norm takes {micro} samples together, not groups of {configuration['norm_group']}")
    print(json.dumps(row))


def isolated(configuration: dict, protocol: dict, variant: str) -> dict:
    """A row in a process of its own; whatever happens to it is a row."""
    asked = json.dumps({"configuration": configuration, "protocol": protocol, "variant": variant})
    environment = os.environ | {"OMP_NUM_THREADS": str(configuration["threads"])}
    if configuration["device"] == "cpu" and "as-installed" not in variant:
        environment |= KEEPS_MEMORY
    done = subprocess.run([sys.executable, __file__, "--row", asked], capture_output=True, text=True, env=environment)
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        kind = "killed" if done.returncode < 0 else "error"
        reason = f"its process ended with {done.returncode}; it last said: {(done.stderr.strip().splitlines() or ['nothing'])[-1]}"
        row = {"engine": "pytorch", "variant": variant, "configuration": configuration,
               "configuration_hash": configuration_hash(configuration), "protocol": protocol,
               "failed": {"kind": kind, "reason": reason}, "notes": []}
        return row | surroundings(configuration)


def main() -> None:
    check_hash()
    if sys.argv[1:2] == ["--row"]:
        return one_row(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="train, infer, forward, backward")
    parser.add_argument("--models", default="mobilenet_v3_small")
    parser.add_argument("--image-size", default="512")
    parser.add_argument("--batch-size", default="4")
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--micro-batch", default="auto")
    parser.add_argument("--ghost-batch-size", "--norm-group", dest="norm_group", type=int, default=8)
    parser.add_argument("--optimizer", default="adamw", choices=["adamw", "sgd"])
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--windows", type=int, default=7)
    parser.add_argument("--window-seconds", type=float, default=2.0)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--variants", "--layouts", default="contiguous,channels_last,channels_last compiled",
                        help="separated by commas, each of the words above")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    protocol = {"warmup": args.warmup, "windows": args.windows, "window_seconds": args.window_seconds}
    device = "cuda:0" if args.device == "cuda" else args.device
    rows = []
    for model in args.models.split(","):
        for size in map(int, args.image_size.split(",")):
            for batch in map(int, args.batch_size.split(",")):
                for precision in args.precision.split(","):
                    for what in args.what or ["train"]:
                        values = [what, model, size, args.channels, args.classes, batch,
                                  None if args.micro_batch == "auto" else int(args.micro_batch), args.norm_group,
                                  precision, "none", args.optimizer, None, args.seed, device, args.threads]
                        for variant in args.variants.split(","):
                            row = isolated(dict(zip(FIELDS, values)), protocol, variant)
                            found = row.get("measured", {}).get("images_per_second", row.get("failed"))
                            print(f"{what} {model} {size} batch {batch} {precision} {variant}: {found}", file=sys.stderr)
                            rows.append(row)
    args.out.write_text(json.dumps({"format": FORMAT, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
