#!/usr/bin/env python3
"""Writes the pages with measured figures from benchmarks/*.json, so that no figure is typed by hand:

    docs/benchmarks.md       the whole page
    docs/against-pytorch.svg its picture
    README.md                the lines between `<!-- benchmarks: begin -->` and `<!-- benchmarks: end -->`
    docs/step-ledger.md      the same markers

    scripts/benchmark-page.py            writes them
    scripts/benchmark-page.py --check    writes nothing, and fails if one of them is not what it would write

A new file in benchmarks/ is listed at the end of the page by itself, and rows of `kindling bench` get a table. Any other
figure gets a function here.
"""

import argparse
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks"
PAGE = ROOT / "docs/benchmarks.md"
PICTURE = ROOT / "docs/against-pytorch.svg"
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
shown = set()  # files that have a table


def load(name):
    shown.add(name)
    return json.loads((FOLDER / name).read_text())


# How numbers are written.

def table(head, rows, left=1):
    """A table of Markdown; the first `left` columns are text, the others are numbers."""
    rules = ["---" if at < left else "---:" for at in range(len(head))]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, rules, *rows])


def megabytes(count):
    return f"{count / 1e6:,.0f} MB" if count >= 10e6 else f"{count / 1e6:.1f} MB"


def percent(share, digits=1):
    return f"{100 * share:.{digits}f} %"


def interval(share, samples):
    """Wilson's 95 % interval of a share of so many samples."""
    z = 1.959964
    middle = (share + z * z / (2 * samples)) / (1 + z * z / samples)
    half = z / (1 + z * z / samples) * math.sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples))
    return f"{100 * (middle - half):.1f} to {100 * (middle + half):.1f} %"


def quartiles(figures):
    return f"{figures['median']:.2f} ({figures['q1']:.2f} to {figures['q3']:.2f})"


def median(numbers):
    ordered, middle = sorted(numbers), len(numbers) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


# What a figure was measured on.

def machine(environment):
    cores = environment.get("threads", environment.get("cores"))
    where = [f"{cores} cores of an {environment['cpu']}" if cores else environment["cpu"]]
    if environment.get("device") not in (None, "cpu"):
        where.append(environment["device"])
    return ", ".join(where)


def surroundings(document):
    """The first environment in a document."""
    if "environment" in document:
        return document["environment"]
    for value in document.values():
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict) and (found := surroundings(inner)):
                return found
    return {}


def on_gpus():
    """Which GPUs the files are from; a stand-in is none."""
    names = {environment["device"] for path in FOLDER.glob("*.json") if (environment := surroundings(json.loads(path.read_text()))).get("driver")}
    return f"GPUs that were measured: {', '.join(sorted(names))}." if names else "**Nothing has been measured on a GPU yet.**"


def source(name, document=None, note=""):
    """The line under a table: file, day, machine and commit."""
    document = document or load(name)
    environment = surroundings(document)
    versions = [f"{key} {environment[key]}" for key in ("torch",) if environment.get(key)]
    commit = environment.get("commit")
    parts = [f"`benchmarks/{name}`", name[:10], machine(environment), *versions, *([f"commit {commit}"] if commit else [])]
    return f"*Measured: {'; '.join(parts)}.{' ' + note if note else ''}*"


# The tables.

ROWS, PEERS = "2026-11-30-zen5-rows-kindling.json", "2026-11-30-zen5-rows-pytorch.json"
MORE_ROWS, MORE_PEERS = "2026-11-30-zen5-more-rows-kindling.json", "2026-11-30-zen5-more-rows-pytorch.json"
ZEN4_ROWS, ZEN4_PEERS = "2026-12-01-zen4-rows-kindling.json", "2026-12-01-zen4-rows-pytorch.json"
AVX2_ROWS, AVX2_PEERS = "2026-11-28-cpu-rows-avx2-kindling.json", "2026-11-28-cpu-rows-avx2-pytorch.json"
AMX_ROWS, AMX_PEERS = "2026-12-01-amx-rows-kindling.json", "2026-12-01-amx-rows-pytorch.json"
WITHOUT_AMX_ROWS, WITHOUT_AMX_PEERS = "2026-12-01-without-amx-rows-kindling.json", "2026-12-01-without-amx-rows-pytorch.json"
UNET_ROWS, UNET_PEERS = "2026-11-29-unet-rows-kindling.json", "2026-11-29-unet-rows-pytorch.json"


def rate(row):
    return row["measured"]["images_per_second"]["median"]


def fastest(rows):
    return max(rows, key=rate)


def beside_pytorch(rows=ROWS, peers=PEERS):
    """By network and what is done: the rows of Kindling, those of PyTorch at its best, and those of PyTorch as it is installed."""
    found = {}
    for file, at in ((rows, 0), (peers, 1)):
        for row in load(file)["rows"]:
            config = row["configuration"]
            rows = found.setdefault((config["model"], config["what"]), ([], [], []))
            rows[2 if "as-installed" in (row["variant"] or "") else at].append(row)
    return found


def in_format(rows, precision):
    return [row for row in rows if row["configuration"]["precision"] == precision]


def ratio_with_spread(row, peer):
    """How many times as fast, and the least and the most that the quartiles of both leave open."""
    ours, theirs = row["measured"]["images_per_second"], peer["measured"]["images_per_second"]
    return f"{rate(row) / rate(peer):.2f} ({ours['q1'] / theirs['q3']:.2f} to {ours['q3'] / theirs['q1']:.2f})"


def process(row):
    return row["measured"]["memory"]["peak_process_bytes"]


def variant(row):
    """How a row of PyTorch was measured: `bf16, channels last, compiled`."""
    return ", ".join([row["configuration"]["precision"], *(word.replace("_", " ") for word in row["variant"].split())])


DOES = {"train": "training", "infer": "inference"}


def conditions_of_rows(rows=ROWS):
    row = load(rows)["rows"][0]
    config = row["configuration"]
    return (f"{machine(row['environment'])}, {config['image_size']}x{config['image_size']}, batch {config['batch_size']}, "
            f"{row['environment']['time'][:10]}")


def pytorch_version():
    return load(PEERS)["rows"][0]["software"]["torch"].split("+")[0]


def readme():
    lines = []
    for (model, what), (ours, theirs, _) in beside_pytorch().items():
        single, best = fastest(in_format(theirs, "f32")), fastest(theirs)
        mine, mine_best = fastest(in_format(ours, "f32")), fastest(ours)
        memory = min(map(process, ours)) / min(map(process, theirs))
        lines.append([f"`{model}`", DOES[what], f"{rate(mine):.1f}", f"{rate(single):.1f}", ratio_with_spread(mine, single), f"{rate(best):.1f}",
                      f"{rate(mine_best) / rate(best):.2f}", f"{memory:.2f}"])
    windows = len(load(ROWS)["rows"][0]["measured"]["windows"])
    return "\n".join([
        table(["images a second", "", "Kindling, float32", "PyTorch, float32", "ratio", "PyTorch, its best", "ratio", "memory, ratio"], lines, 2), "",
        f"Measured on Zen 5: {conditions_of_rows()}, beside PyTorch {pytorch_version()} with a malloc that keeps memory, in its faster layout, eager or (inference) compiled; \"its best\" is the faster "
        f"of float32 and bf16, against the same of Kindling. Medians over {windows} windows of one round, in brackets what quartiles allow; memory the least "
        f"that a process took. All rows: [benchmarks](docs/benchmarks.md)."])


def speed_and_memory():
    """The lines of the tables of speed and of memory, and of what PyTorch is as installed."""
    speed, memory, installed = [], [], []
    for (model, what), (ours, theirs, plain) in beside_pytorch().items():
        name = [f"`{model}`", DOES[what]]
        for precision in ("f32", "bf16"):
            mine, peer = fastest(in_format(ours, precision)), fastest(in_format(theirs, precision))
            speed.append([*name, quartiles(mine["measured"]["images_per_second"]), quartiles(peer["measured"]["images_per_second"]),
                          f"{rate(mine) / rate(peer):.2f}", variant(peer)])
            if what == "train":
                mine, peer = (min(in_format(rows, precision), key=process) for rows in (ours, theirs))
                memory.append([*name, megabytes(process(mine)), megabytes(process(peer)), f"{process(mine) / process(peer):.2f}", variant(peer)])
        if plain:
            peer, best = fastest(plain), fastest(in_format(theirs, "f32"))
            installed.append([*name, f"{rate(peer):.2f}", f"{rate(best):.2f}", f"{rate(best) / rate(peer):.2f}"])
    return speed, memory, installed


SPEED_HEAD = ["network", "what", "Kindling, images/s", "PyTorch, images/s", "ratio", "PyTorch's rows: fastest"]
MEMORY_HEAD = ["network", "what", "Kindling, memory", "PyTorch, memory", "ratio", "PyTorch's rows: least memory"]


def rounds(rows):
    """Rows of one network, what is done and in which format, as they were measured: a round has each variant once."""
    found = []
    for row in rows:
        if not found or row["variant"] in [other["variant"] for other in found[-1]]:
            found.append([])
        found[-1].append(row)
    return found


ROUNDS_HEAD = ["network", "what", "format", "Kindling, images/s", "PyTorch, images/s", "ratio", "of each round", "memory, ratio", "PyTorch's fastest"]


def in_rounds(rows, peers):
    """The lines of a table of rows that were measured in rounds: medians over the rounds, of PyTorch the fastest row of each."""
    lines = []
    for (model, what), (ours, theirs, _) in beside_pytorch(rows, peers).items():
        for precision in ("f32", "bf16"):
            mine, peer = in_format(ours, precision), in_format(theirs, precision)
            if not mine:
                continue
            memory = min(map(process, mine)) / min(map(process, peer))
            mine, peer = [row for [row] in rounds(mine)], [fastest(row) for row in rounds(peer)]
            ratios = [rate(one) / rate(other) for one, other in zip(mine, peer, strict=True)]
            lines.append([f"`{model}`", DOES[what], precision, f"{median(list(map(rate, mine))):.2f}", f"{median(list(map(rate, peer))):.2f}",
                          f"{median(ratios):.2f}", ", ".join(f"{ratio:.2f}" for ratio in ratios), f"{memory:.2f}", variant(fastest(peer))])
    return lines


def measured_in_rounds(rows, peers):
    first, peer = load(rows)["rows"][0], load(peers)["rows"][0]
    return (f"*Measured: `benchmarks/{rows}` and `benchmarks/{peers}`, by `scripts/compare-peers.sh`; {conditions_of_rows(rows)}; torch "
            f"{peer['software']['torch']}; commit {first['environment']['commit']}.*")


def section_of_rounds(title, text, rows, peers):
    return [f"### {title}", "", text, "", table(ROUNDS_HEAD, in_rounds(rows, peers), 3), "", measured_in_rounds(rows, peers), ""]


def section_unet():
    classes = load(UNET_ROWS)["rows"][0]["configuration"]["classes"]
    return section_of_rounds(
        "Segmentation",
        f"`segmentation_models_pytorch` 0.5.0's same network with {classes} classes, trained with its Dice and PyTorch's cross-entropy: in both layouts, and compiled in "
        f"{compiled(UNET_PEERS)}. The median of the rounds, in each of which one took turns with the other; memory the least that a process took.", UNET_ROWS, UNET_PEERS)


def section_more():
    return section_of_rounds(
        "ResNet-50 and U-Net",
        "In bf16 alone, in which both sides are faster, on the processor of the four networks above. Channels last, and compiled in "
        f"{compiled(MORE_PEERS)}. Medians and memory as for segmentation.", MORE_ROWS, MORE_PEERS)


def section_zen4():
    return section_of_rounds(
        "On Zen 4",
        "The six networks on the processor before, whose instructions for bf16 do half as much in a cycle, in bf16 alone, in which both sides are faster. Channels last, "
        "eager and compiled. Medians and memory as for segmentation.", ZEN4_ROWS, ZEN4_PEERS)


def section_with_amx():
    return section_of_rounds(
        "With AMX",
        "The same on a processor that multiplies tiles of bf16, as PyTorch's products do there too. Channels last, and compiled in "
        f"{compiled(AMX_PEERS)}. ResNets and U-Net in bf16 alone, in which both sides are faster. Medians and memory as for segmentation.", AMX_ROWS, AMX_PEERS)


def best_to_best(rows, peers):
    """By network and what is done, how many times as fast the faster format of Kindling is as that of PyTorch."""
    found = beside_pytorch(rows, peers).items()
    return ", ".join(f"`{model}` {DOES[what]} {rate(fastest(ours)) / rate(fastest(theirs)):.2f}" for (model, what), (ours, theirs, _) in found)


def section_without_amx():
    return section_of_rounds(
        "Without AMX",
        "The same on a processor of Intel's whose AMX a hypervisor keeps back: `VDPBF16PS` does less than float32 there, so maps of bf16 are widened, and PyTorch's fastest "
        "rows are of float32. Channels last, eager and compiled. Rows of float32 took turns; of bf16, PyTorch's were measured half an hour before and Kindling's two hours after, "
        "with a later commit, whose float32 is the same. The faster format of each side, Kindling to PyTorch: "
        f"{best_to_best(WITHOUT_AMX_ROWS, WITHOUT_AMX_PEERS)}. Medians and memory as for segmentation.",
        WITHOUT_AMX_ROWS, WITHOUT_AMX_PEERS)


def section_without_avx512():
    return section_of_rounds(
        "Without AVX-512",
        "The same on a processor with AVX2 alone, in float32: without instructions for bf16, PyTorch's three steps in it did not end in five minutes. The fastest of "
        "eager and compiled, of U-Net in both layouts; medians and memory as for segmentation.", AVX2_ROWS, AVX2_PEERS)


def section_pytorch():
    speed, memory, installed = speed_and_memory()
    first, peer = load(ROWS)["rows"][0], load(PEERS)["rows"][0]
    versions = ", ".join(f"{name} {version}" for name, version in peer["software"].items())
    parts = ["## Against PyTorch on the CPU", "",
             "Images a second, the median over windows of whole steps with its quartiles, and below it the peak memory of the process. PyTorch was measured at its "
             "best: in float32 and under autocast to bf16, channels last, which was faster than the other layout in all 16 rows of 2026-11-24, with a malloc that keeps what "
             "is freed (`MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_`), as its tuning guide advises, eager, and with `torch.compile` in "
             f"{compiled()}. The fastest of these stands here, and for memory the one that took least. A row of Kindling and PyTorch's rows of the same network took "
             "turns, in one round, on a Zen 5 processor. Where the ratio is below 1, PyTorch is faster.", "",
             table(SPEED_HEAD, speed, 2), "",
             "![Images a second of PyTorch and Kindling](against-pytorch.svg)", "",
             table(MEMORY_HEAD, memory, 2), ""]
    if installed:
        parts += ["As it is installed, PyTorch uses glibc's malloc, which gives every large tensor back to the system. Earlier versions of this page compared with that:", "",
                  table(["network", "what", "PyTorch float32 as installed", "at its best", "ratio"], installed, 2), ""]
    return [*parts, f"*Measured: `benchmarks/{ROWS}` and `benchmarks/{PEERS}`, by `scripts/compare-peers.sh`; {conditions_of_rows()}; "
            f"{versions}; commit {first['environment']['commit']}.*", "", *section_more(), *section_unet(), *section_zen4(), *section_with_amx(), *section_without_amx(), *section_without_avx512()]


def compiled(peers=PEERS):
    """Which rows were measured with torch.compile too, in words."""
    found = {}
    for row in load(peers)["rows"]:
        if "compiled" in row["variant"]:
            config = row["configuration"]
            found.setdefault((config["what"], config["precision"]), {})[f"`{config['model']}`"] = None  # once each, in order
    return "; ".join(f"{DOES[what]} in {precision} of {', '.join(models)}" for (what, precision), models in found.items())


BAR, WIDEST = 16, 420


def picture():
    """Bars of the figures of the README: Kindling in float32 and bf16, PyTorch in float32, and its best."""
    parts, y = [], 8
    for (model, what), (ours, theirs, _) in beside_pytorch().items():
        bars = [("kindling", fastest(in_format(ours, precision)), f"Kindling, {precision}") for precision in ("f32", "bf16")]
        bars += [("single", fastest(in_format(theirs, "f32")), ""), ("best", fastest(theirs), "")]
        most = max(rate(row) for _, row, _ in bars)
        y += 18
        parts.append(f'<text class="name" x="8" y="{y}">{model}, {DOES[what]}</text>')
        y += 6
        for kind, row, words in bars:
            width = WIDEST * rate(row) / most
            parts.append(f'<rect class="{kind}" x="8" y="{y}" width="{width:.1f}" height="{BAR - 3}"/>'
                         f'<text x="{width + 14:.1f}" y="{y + BAR - 6}">{rate(row):.1f} {words or "PyTorch, " + variant(row)}</text>')
            y += BAR
        y += 6
    style = ("text{font:11px sans-serif;fill:#333}.name{font-weight:bold;font-size:12px}.kindling{fill:#c2500f}.single{fill:#8fb0dd}.best{fill:#2468c4}"
             ".page{fill:#fff}@media(prefers-color-scheme:dark){.page{fill:#1b1b1b}text{fill:#ddd}}")
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 {y}" width="680" role="img">',
                      "<title>Images a second of Kindling and PyTorch, higher is better</title>", f"<style>{style}</style>",
                      f'<rect class="page" width="680" height="{y}"/>', *parts, "</svg>", ""])


def section_memory():
    document = load("2026-11-22-same-memory-cpu.json")
    rows = []
    for part in ("heavy", "light"):
        row, config = document[part]["row"], document[part]["row"]["configuration"]
        rows.append([f"`{config['model']}`", config["precision"], config["batch_size"], megabytes(document[part]["predicted_peak"]),
                     megabytes(row["measured"]["memory"]["peak_in_use_bytes"]), quartiles(row["measured"]["images_per_second"])])
    size = document["heavy"]["row"]["configuration"]["image_size"]
    return ["## Two networks in the same memory", "",
            f"The heavy network trains at {size}x{size} and sets the memory. The planner then says how many images the light network can train on at once "
            f"in that memory. The light network was {document['speed_ratio']:.1f} times as fast.", "",
            table(["network", "format", "images at once", "planned peak", "measured peak", "images/s"], rows, 2), "",
            source("2026-11-22-same-memory-cpu.json", document, "By `scripts/same-memory.py`."), ""]


RUNS = "2026-11-26-whole-runs-2-cores.json"


def scores(case):
    """Test accuracy by seed, the median one (of two the lower) with its interval, and what it was tested on."""
    runs = case["runs"]
    tests = [run["test"] for run in runs]
    accuracies = [test["accuracy"] for test in tests]
    middle, samples = sorted(accuracies)[(len(accuracies) - 1) // 2], tests[0]["samples"]
    each = ", ".join(f"{percent(run['test']['accuracy'])} ({run['seed']})" for run in runs)
    return each, f"{percent(middle)} ({interval(middle, samples)})", samples, percent(runs[0]["chance"])


def frozen(case):
    return "--freeze" in case["flags"]


def section_runs():
    document = load(RUNS)
    head = ["command", "epochs", "test accuracy (seed)", "the median (95 % interval)", "of", "baseline", "steps", "peak memory"]
    rows = {True: [], False: []}
    for case in document["cases"]:
        runs = case["runs"]
        most = max(run["peak_memory_bytes"] for run in runs)
        rows[frozen(case)].append([f"`{case['command']}`", runs[0]["epochs"], *scores(case), runs[0]["steps"], megabytes(most)])
    measured = source(RUNS, document, f"By `scripts/whole-runs.py`; {document['what']}.")
    return ["## Whole runs", "",
            "Accuracy on the test samples, seed by seed: seeds differ by several percent, and a short run from scratch may fail with one of them, so a single run is no score of a model. "
            "The interval is Wilson's, for the number of samples, and knows nothing of seeds. The baseline is the score of always naming the test "
            "samples' largest class. `brain-mri-orientation` is tested on a subject that was not trained on. The memory is the most of all seeds.", "",
            table(head, rows[False], 1), "",
            "### A linear head on frozen ImageNet weights", "", table(head, rows[True], 1), "", measured, ""]


def yardstick():
    """What the README of brain-mri-orientation says about it."""
    document = load(RUNS)
    case = next(case for case in document["cases"] if frozen(case))
    each, _, samples, baseline = scores(case)
    return (f"A linear head on a frozen ImageNet MobileNetV2, at 128 pixels, reaches {each} on the {samples} test slices; in\n"
            f"brackets the seed (`benchmarks/{RUNS}`). Always naming the largest class, coronal, reaches {baseline}.")


def section_precision():
    document, rows = load("2026-11-22-precision-cpu.json"), []
    for data, case in document["cases"].items():
        rows.append([data, f"`{' '.join(case['command'])}`", ", ".join(percent(seed) for seed in case["f32_seeds"]), percent(case["bf16"]),
                     percent(case["f16"])])
    return ["## Half formats", "",
            "Test accuracy of three float32 runs with different seeds, and of one run in each half format with the first seed. These runs are short, and "
            "the seeds differ more than the formats do.", "",
            table(["data", "settings", "float32, three seeds", "bf16", "f16"], rows, 2), "",
            source("2026-11-22-precision-cpu.json", document, "By `scripts/precision-curves.py`, which draws the picture as well."), "",
            "The training losses of the first seed:", "", "![Training losses in float32, bf16 and f16](precision.svg)", ""]


SOAK_ON_CUDA = "2026-11-28-soak-cuda-stand-in.json"

PLANS = [("2026-11-22-planner-accuracy-cpu.json", "CPU, float32, AdamW"),
         ("2026-11-23-planner-random-cpu.json", "CPU, drawn at random"),
         ("2026-11-27-planner-segmentation-cpu.json", "CPU, networks for segmentation, float32 and bf16, AdamW"),
         ("2026-11-23-planner-random-cuda-stand-in.json", "stand-in for CUDA before memory was taken first, AdamW tensor by tensor"),
         ("2026-11-24-planner-random-cuda-stand-in.json", "stand-in for CUDA before memory was taken first, AdamW eight tensors at once"),
         ("2026-11-26-planner-cuda-stand-in.json", "stand-in for CUDA, a run takes its memory first"),
         ("2026-11-28-planner-registry-cuda-stand-in.json", "the same, every classifier, 64 px, float32"),
         ("2026-11-28-planner-half-formats-cuda-stand-in.json", "the same, 64 px, bf16 and f16"),
         ("2026-11-28-planner-larger-cuda-stand-in.json", "the same, ten networks, 64 and 224 px, float32 and bf16, AdamW and SGD")]


def section_plans():
    rows, sources, wrong = [], [], []
    for name, what in PLANS:
        document = load(name)
        errors = [case["error"] for case in document["cases"]]
        for label, chosen in (("everything kept", [case for case in document["cases"] if case["recompute"] == "none"]),
                              ("with activation checkpointing", [case for case in document["cases"] if case["recompute"] != "none"])):
            these = [case["error"] for case in chosen]
            if not these:
                continue
            rows.append([what, label, len(these), percent(median([abs(error) for error in these]), 2), percent(max(0.0, -min(these))), percent(max(0.0, max(these))),
                         sum(error > 0.05 for error in these)])
        high = [case for case in document["cases"] if case["error"] > 0.05]
        if high:
            wrong.append(f"{what}: {len(high)} of {len(errors)} plans were too high by more than 5 %; the measured peaks of those cases were "
                         f"{megabytes(min(case['measured'] for case in high))} to {megabytes(max(case['measured'] for case in high))}.")
        left_out = document["left_out"].rstrip(".")
        sources += [source(name, document, f"Left out: {left_out}." if left_out else ""), ""]
    return ["## Plans against measured peaks", "",
            "`kindling plan` says how much memory a step needs. Here its figure stands against the peak of a real run with those settings. The cases drawn at "
            "random vary network, optimizer, precision, activation checkpointing, freezing, averages, channels, classes, size of the source images and checkpoints. "
            "On the stand-in for CUDA the peak is what its driver gave away. [A run takes what is planned before its weights "
            "exist](decisions/a-run-takes-its-memory-first.md), so an error of 0 there says that all tensors found room in that, and not how much room they left.", "",
            table(["where", "activations", "cases", "median error", "most too low", "most too high", "more than 5 % too high"], rows, 2), "",
            *(f"- {sentence}" for sentence in wrong), "", *sources[:-1],
            "", "All by `scripts/planner-accuracy.py`.", ""]


def section_budget():
    document, groups = load("2026-11-23-budget-holds-cpu.json"), {}
    for case in document["cases"]:
        groups.setdefault((case["share"]), []).append(case)
    rows = []
    for share, cases in sorted(groups.items(), reverse=True):
        ran = [case for case in cases if case["outcome"] == "ran"]
        rows.append([percent(share, 0), len(cases), len(ran), sum(case["outcome"] == "refused" for case in cases),
                     percent(max(case["of_budget"] for case in ran)) if ran else "none ran"])
    return ["## A memory budget on the CPU", "",
            f"Runs with `--memory-budget` at a share of what the plan wants, over {len({case['model'] for case in document['cases']})} networks and "
            f"{len({case['size'] for case in document['cases']})} image sizes. The peak is the kernel's figure for the process (VmHWM). A run that does not "
            f"fit is refused with one sentence. It is refused with the network already in memory, so a refused run can have taken more than its budget.", "",
            table(["budget, of what is wanted", "cases", "ran", "refused", "highest peak of those that ran, of the budget"], rows, 0), "",
            source("2026-11-23-budget-holds-cpu.json", document, "By `scripts/budget-holds.py`."), ""]


PROCESSES, SUMS = "2026-11-24-several-processes-2-cores.json", "2026-11-24-sum-over-processes.json"


def section_processes():
    document, sums = load(PROCESSES), load(SUMS)
    alone = {row["model"]: row["step_seconds"]["median"] for row in document["rows"] if row["processes"] == 1}
    rows = [[f"{row['model']}, {row['image_size']} px", row["processes"], f"{1000 * row['step_seconds']['median']:.0f}",
             f"{1000 * row['step_seconds']['q1']:.0f} to {1000 * row['step_seconds']['q3']:.0f}", f"{row['step_seconds']['median'] / alone[row['model']]:.2f}",
             f"{1000 * row['waited_seconds_median']:.0f}", megabytes(row["sent_bytes_median"])] for row in document["rows"]]
    exchange = [[run["ranks"], f"{row['vector_bytes'] / 1e6:.0f} MB", f"{row['tree_ms']['least']:.1f}",
                 f"{row['mpi_allreduce_ms']['least']:.1f}" if row["mpi_allreduce_ms"] else "none", megabytes(row["bytes_sent_by_rank_0"])]
                for run in sums["runs"] for row in run["rows"]]
    return ["## Several processes", "",
            f"A training step in several processes on one machine, beside one process with as many threads, batches of 32 in ghost batches of 8, in turn. "
            f"There are {document['environment']['cores']} cores: with two processes each has one, and four share them. Waiting and sending are the first "
            f"process's. The load of the machine at the start was {document['load_at_start']:.1f}.", "",
            table(["network", "processes", "ms a step", "quartiles", "of one process", "ms waiting", "sent"], rows, 1), "",
            source(PROCESSES, document, "By `scripts/processes-cost.py`."), "",
            "The exchange alone, and MPI's own sum of one vector a process, whose order depends on the number of processes; the least of 15 rounds:", "",
            table(["processes", "vector", "ms in the order of the tree", "ms of MPI", "sent"], exchange, 0), "",
            source(SUMS, sums, "By `crates/processes/examples/exchange.rs`."), ""]


def megabytes(count):
    return f"{count / 1e6:.1f} MB" if count else "nothing"


def section_loading():
    name = "2026-11-22-data-against-pytorch-2-cores.json"
    document = load(name)
    rows = [[*what.split(), case["kindling_images_per_second"], case["pytorch_images_per_second"], case["ratio"]]
            for what, case in document["against_pytorch"].items()]
    decoders = [[kind, what, " and ".join(f"{time:.2f}" for time in times)]
                for kind, cases in document["decoders_ms_per_image_one_thread"].items() if isinstance(cases, dict) for what, times in cases.items()]
    flat, waiting = document["flat_memory"], document["waiting_in_training"]
    return ["## Loading images", "", "By `" + document["about"].replace(": ", "`: ", 1), "",
            table(["files", "augmentation", "Kindling, images/s", "PyTorch, images/s", "ratio"], rows, 2), "",
            "The DataLoader had glibc's malloc as it is installed. With one that keeps memory, which `scripts/compare-data.sh` now gives it, it was not measured "
            "again, and may be faster.", "",
            source(name, document, f"torchvision {document['environment']['torchvision']}, Pillow {document['environment']['pillow']}."), "",
            f"**Memory stays flat.** `kindling bench data`{flat['about'].removeprefix('kindling bench data')}: {megabytes(flat['live_bytes_settled'])} and "
            f"{megabytes(flat['live_bytes_peak_after'])}, at {flat['images_per_second']:,.0f} images/s.", "",
            f"**Waiting for data.** `kindling train`{waiting['about'].removeprefix('kindling train')}. Training waited for data in {percent(waiting['waiting_share'])} of its time, "
            f"and in {percent(waiting['waiting_share_without_the_first_step'])} of it after the first step.", "",
            f"**Decoders alone.** Milliseconds an image on one thread: {document['decoders_ms_per_image_one_thread']['about']}.", "",
            table(["files", "decoder", "ms, two runs"], decoders, 2), "",
            f"Not measured: {document['decoders_ms_per_image_one_thread']['not_measured']}.", ""]


def section_gans():
    document = load("2026-11-22-dcgan-fashion-mnist.json")
    rows = [[f"{images:,}", f"{document[key]['before']['frechet']:.1f}", f"{document[key]['after']['frechet']:.1f}",
             f"{document[key]['after']['kernel']:.3f}", f"{document[key]['after']['precision_percent']} %",
             f"{document[key]['after']['recall_percent']} %"] for images, key in ((2000, "at_2000"), (10000, "at_10000"))]
    graph, fast = load("2026-11-22-dcgan-graph-memory.json"), load("2026-11-22-fastgan-512-brain-planes-6GiB.json")
    metrics = fast["metrics"]
    return ["## GANs", "", "### DCGAN on Fashion-MNIST", "", f"    {document['command']}", "", "`" + document["about"].replace(" ", "` ", 1), "",
            table(["images compared", "Frechet distance before", "after", "kernel distance after", "precision", "recall"], rows, 0), "",
            source("2026-11-22-dcgan-fashion-mnist.json", document,
                   f"{document['metrics']['images_per_second']:.0f} images/s, peak memory {megabytes(document['metrics']['peak_memory_bytes'])}."), "",
            "![64 samples of that run](dcgan-fashion-mnist.png)", "",
            "### The discriminator's half of an iteration", "",
            f"While the discriminator trains, nothing of the generator is alive but its images. That half then holds "
            f"{megabytes(graph['result']['discriminator_half_bytes'])}, where a recorded graph of the generator would hold "
            f"{megabytes(graph['result']['generator_half_bytes'])}. These are the {graph['what']}.", "",
            source("2026-11-22-dcgan-graph-memory.json", graph), "",
            "### FastGAN at 512x512 in 6 GiB", "", f"    {fast['command']}", "",
            f"{fast['what'].split(':')[0]}: {metrics['iterations']} iterations, {metrics['recoveries']} recoveries, peak memory "
            f"{megabytes(metrics['peak_memory_bytes'])}. The machine was busy with other things, so its speed says nothing.", "",
            source("2026-11-22-fastgan-512-brain-planes-6GiB.json", fast), ""]


def section_stand_in():
    document = load("2026-11-23-networks-cuda-stand-in.json")
    cases = document["cases"]
    near, far = ([case for case in cases if (case["cpu_when_pixels_move"] is None) == is_near] for is_near in (True, False))

    def row(label, chosen):
        most = [max(case[key] for case in chosen) for key in ("loss", "gradients", "weights")]
        moved = [case["cpu_when_pixels_move"] for case in chosen if case["cpu_when_pixels_move"] is not None]
        return [label, len(chosen), *(f"{value:.1e}" for value in most), f"{min(moved):.2f} to {max(moved):.2f}" if moved else ""]
    return ["## A step on the stand-in for CUDA beside the CPU's", "",
            document["about"][0].upper() + document["about"][1:] + ". A stand-in is no GPU: it executes the kernels on the CPU.", "",
            table(["networks", "cases", "loss, at most", "gradients, at most", "weights and statistics, at most",
                   "the CPU's own gradients when pixels move"],
                  [row("gradients nearer than 1e-4, or not compared with moved pixels", near),
                   row("gradients further apart, compared with moved pixels", far)]), "",
            source("2026-11-23-networks-cuda-stand-in.json", document, "By `tests/tests/cuda_networks.rs` with `KINDLING_RECORD`."), "",
            *stand_in_formats()]


def stand_in_formats():
    """The steps in half formats and on tensor cores, a row a format."""
    name = "2026-12-01-networks-tensor-cores-cuda-stand-in.json"
    document = load(name)
    formats = {}
    for case in document["cases"]:
        formats.setdefault((case["precision"], case["capability"], case["recompute"]), []).append(case)

    def row(precision, capability, recompute, cases):
        most = [max(case[key] for case in cases) for key in ("loss", "gradients", "weights")]
        moved = [case["cpu_when_pixels_move"] for case in cases if case["cpu_when_pixels_move"] is not None]
        return [f"{precision} on {capability}, recompute {recompute}", len(cases), *(f"{value:.1e}" for value in most),
                f"{len(moved)}: {min(moved):.2f} to {max(moved):.2f}" if moved else "0"]
    return [document["about"][0].upper() + document["about"][1:] + ".", "",
            table(["format", "cases", "loss, at most", "gradients, at most", "weights and statistics, at most",
                   "compared with moved pixels, and the CPU's own gradients then"],
                  [row(*format, cases) for format, cases in formats.items()]), "",
            source(name, document, "By `tests/tests/cuda_networks.rs` with `KINDLING_NIGHTLY` and `KINDLING_RECORD`."), ""]


def section_gpu():
    name = "2026-11-26-h200-first-runs.json"
    document = load(name)
    named, peer = document["with_named_kernels"], document["pytorch_2_11_same_machine"]
    ours = named["inference_mobilenet_v2_512px_batch_32_bf16"]
    theirs = peer["mobilenet_v2_512px_batch_32"]
    exact = named["training_512px_batch_32_f32_with_exact_factors"]
    cases = named["networks_against_the_cpu_64px_batch_2_f32"]
    inference = f"{ours['images_per_second']['median']:.0f}"
    rows = [["`mobilenet_v2`, inference, bf16", inference, f"{theirs['inference_images_per_second']:.0f}"],
            ["`mobilenet_v2`, training, bf16", "not measured", f"{theirs['training_images_per_second']:.0f}"]]
    rows += [[f"`{row['model']}`, training, float32 with exact factors and direct convolutions", f"{row['images_per_second']['median']:.0f}", "not measured"]
             for row in exact["rows"]]

    def largest(mode):
        found = [case["largest_relative_difference"] for case in cases if case["mode"] == mode]
        return f"{max(found):.1e}", len(found)
    (features, count), (trained, _) = largest("features"), largest("train-mode")
    before, compiler = document["with_autotune"], document["nvrtc_12_8_for_sm_90a_on_one_core"]
    return ["## First runs on a GPU", "",
            f"A quarter of an hour on an NVIDIA H200, which showed that Burn's autotune does not end in a time that anyone would wait: a forward pass of MobileNetV3-Small was "
            f"{before['forward_of_mobilenet_v3_small_2_images_224px']}, and {before['in_the_first_40_s']['kernels_compiled']} kernels were compiled in 40 s. "
            f"NVRTC takes {compiler['the_98_kernels_of_autotune_seconds']} s for them on a slower core. [Kernels are named since](decisions/kernels-are-named-not-timed.md); "
            "those of the rows below were named by hand and are not all that the command has now.", "",
            table(["512x512, batch 32", "Kindling, images/s", "PyTorch 2.11, images/s"], rows), "",
            f"PyTorch: {peer['settings']}. Feature maps and logits of {count} networks at 64x64 in inference differed from the CPU's by at most {features} of the largest number, as TF32 explains; "
            f"with batch statistics over two images by at most {trained}, where rounding is divided by small variances. "
            f"Not measured: {document['not_measured']}", "",
            source(name, document), "", *section_gpu_rows()]


def section_gpu_rows():
    name = "2026-11-26-h200-second-runs.json"
    document = load(name)

    def speeds(rows):
        return {(row["model"], row["what"]): row for row in rows}
    before, now, peer = speeds(document["rows_before"]), speeds(document["rows"]), speeds(document["pytorch"]["rows"])
    rows = []
    for key, row in now.items():
        ours, theirs = row["images_per_second"]["median"], peer[key]["images_per_second"]["median"]
        earlier = f"{before[key]['images_per_second']['median']:.0f}" if key in before else "not measured"
        rows.append([f"`{key[0]}`, {'training' if key[1] == 'train' else 'inference'}", earlier, f"{ours:.0f}", f"{theirs:.0f}", f"{ours / theirs:.2f}",
                     f"{row['peak_in_use_bytes'] / 2**30:.2f}", f"{peer[key]['peak_in_use_bytes'] / 2**30:.2f}", f"{row['first_step_seconds']:.0f}"])
    kinds = document["step_by_kernels"]["mobilenet_v2_at_13ab45f"]
    parts = [[kind, part["launches"], f"{part['ms']:.2f}", f"{part['gigabytes']:.2f}"] for kind, part in kinds.items()]
    computing = sum(part["ms"] for part in kinds.values())
    step = 1e3 * before["mobilenet_v2", "train"]["step_seconds"]["median"]
    changes, tried = document["changes"], document["tried_and_left"]
    return ["### Rows, and where a step's time goes", "",
            f"{document['about'][0].upper() + document['about'][1:]}. {document['settings']}.", "",
            table(["bf16", "before, images/s", "now, images/s", "PyTorch, images/s", "ratio", "GiB in use", "PyTorch's", "first step, s"], rows), "",
            f"{document['pytorch']['settings']}.", "",
            f"Before, the GPU computed for {computing:.0f} of the {step:.0f} ms of a training step of `mobilenet_v2`:", "",
            table(["kernels", "launches", "ms", "GB"], parts), "",
            f"What changed: {changes['images_through_pinned_memory']}; {changes['gradients_of_filters_in_more_parts']}. What takes the time now: the host, which hands out "
            "some 800 launches a step through three threads, and ResNet's dense convolutions.", "",
            f"Tried and left: {tried['eight_numbers_of_a_half_format_at_once']}; {tried['tiles_of_our_own']}.", "",
            f"Not measured: {document['not_measured']}", "",
            source(name, document, "Put together from `kindling bench`, `scripts/peers/pytorch_bench.py` and Nsight Compute."), "",
            *section_gpu_repeats()]


def section_gpu_repeats():
    name = "2026-11-27-h200-third-runs.json"
    document = load(name)
    cases, words = document["repeats"]["cases"], {"again": "again", "activation_checkpointing": "with activations recomputed",
                                                 "out_of_memory": "after two failures", "micro_batch_2": "in micro-batches of 2"}
    rows = []
    for how, said in words.items():
        of = [case for case in cases if case["how"] == how]

        def most(step):
            found = max(case["relative_differences"][step] for case in of)
            return "0" if found == 0 else f"{found:.1e}"
        rows.append([said, f"{sum(case['same_bits'] for case in of)} of {len(of)}", most(0), most(1),
                     f"{max(max(case['relative_differences']) for case in of):.1e}" if any(not case["same_bits"] for case in of) else "0"])
    networks = document["networks_against_the_cpu_128px_batch_4_f32"]

    def largest(mode):
        return f"{max(case['largest_relative_difference'] for case in networks if case['mode'] == mode):.1e}"
    seconds, half = document["recovery"]["seconds"], document["half_the_memory"]
    whole, less = half["whole"], half["half"]
    return ["### The same bits again, and recovery", "",
            f"Losses of six steps of three networks in float32 and bf16 ({document['repeats']['settings']}):", "",
            table(["the same run", "all bits the same", "first loss apart, at most", "second", "any"], rows), "",
            "A forward pass has the same bits in any micro-batch; gradients are added in another order, and AdamW multiplies what that rounds.", "",
            f"Recovery ({document['recovery']['settings']}) took {min(seconds):.2f} to {max(seconds):.2f} s; {document['recovery']['a_hundred']}. "
            f"With half the memory ({half['settings']}) a run recovered {less['recoveries']} times and went on with {less['micro_batch']} images at once, at "
            f"{less['images_per_second']['median']:.0f} images a second instead of {whole['images_per_second']['median']:.0f}: there "
            "[each tensor has an allocation of its own](decisions/where-memory-was-short-each-tensor-has-an-allocation-of-its-own.md).", "",
            f"Outputs of {len(networks) // 2} networks at 128x128 differed from the CPU's by at most {largest('features')} of the largest number in inference and "
            f"{largest('train-mode')} with batch statistics. Not measured: {document['not_measured']}", "",
            source(name, document, "By `scripts/gpu-suite.sh`, and by hand what it was too short of time for."), ""]


LEDGER = "2026-11-28-step-ledger.json"
LEDGER_JOINED = "2026-11-24-step-ledger.json"  # before convolutions were named anew


def ledger():
    rows = []
    for row in load(LEDGER)["rows"]:
        peer = row.get("pytorch") or {}
        rows.append([row["model"], row["precision"], row["launches"], row["own_launches"], f"{row['bytes'] / 1e9:.1f}", f"{1e3 * row['floor_seconds']:.2f}",
                     row["synchronizations"], row["copies"], peer.get("operators", ""), f"{peer['bytes'] / 1e9:.1f}" if peer else ""])
    return table(["network", "format", "launches", "of ours", "GB", "floor, ms", "synchronizations", "copies", "PyTorch: operators", "GB"], rows, 2)


def section_ledger():
    now, before = load(LEDGER_JOINED), {(row["model"], row["precision"]): row for row in load("2026-11-23-step-ledger.json")["rows"]}
    rows = [[row["model"], row["precision"], before[row["model"], row["precision"]]["launches"], row["launches"],
             percent(1 - row["launches"] / before[row["model"], row["precision"]]["launches"], 0)]
            for row in now["rows"] if (row["model"], row["precision"]) in before]
    return ["## Launches of a training step", "",
            "Kernel launches of a training step before and after the gradient's norm, the check of the new state, AdamW and the running averages "
            "took a launch for eight tensors, and a normalisation's statistics one. "
            "[The ledger of a step](step-ledger.md) has the bytes and what they mean. No time was measured.", "",
            table(["network", "format", "before", "after", "fewer"], rows, 2), "",
            source(LEDGER_JOINED, now, "Before: `benchmarks/2026-11-23-step-ledger.json`. By `scripts/step-ledger.py`."), ""]


def section_robustness():
    soak, fuzz = load("2026-11-22-soak-10000-steps.json"), load("2026-11-22-fuzzing.json")
    cuda = load(SOAK_ON_CUDA)
    short, long = cuda["short"], cuda["long"]
    counted = [(what, short["counters"][name], long["counters"][name]) for what, name in (
        ("most bytes of the device", "peak"), ("most allocations", "most_allocations"), ("streams", "live_streams"),
        ("events", "live_events"), ("modules", "live_modules"), ("pinned buffers", "live_pinned"))]
    counted.append(("most bytes of the process", short["process_peak_bytes"], long["process_peak_bytes"]))
    live = soak["live_bytes_at_every_thousandth_step"]
    rows = [[what, f"{count:,}", f"{fuzz['inputs_a_second'][what]:,}"] for what, count in fuzz["executed_inputs"].items()]
    return ["## Long runs with failures", "", soak["what"][0].upper() + soak["what"][1:] + ".", "",
            f"Over {soak['steps']:,} steps with {soak['recoveries']:,} recoveries the live bytes at every thousandth step were between "
            f"{min(live):,} and {max(live):,}.", "", source("2026-11-22-soak-10000-steps.json", soak, soak["environment"]["note"][0].upper()
                                                               + soak["environment"]["note"][1:] + "."), "",
            f"{long['steps']:,} {cuda['what']}.", "",
            table(["", f"{short['steps']:,} steps", f"{long['steps']:,} steps"], [[what, f"{a:,}", f"{b:,}"] for what, a, b in counted]),
            "", "The process had, in the middle of each tenth of the time of the longer run, "
            + ", ".join(f"{size / 1e6:.0f}" for size in long["process_bytes_in_each_tenth_of_its_time"]) + " MB.",
            "", source(SOAK_ON_CUDA, cuda, cuda["environment"]["note"][0].upper() + cuda["environment"]["note"][1:] + "."), "",
            "## Fuzzing our own parsers", "", "`" + fuzz["about"].replace(",", "`,", 1), "", table(["parser", "inputs", "inputs a second"], rows), "",
            source("2026-11-22-fuzzing.json", fuzz), ""]


SWEEP = "2026-11-28-sweep-cuda-stand-in.json"


def outcome(row):
    """What became of a run on a small card, in a few words."""
    if not row["finished"]:
        return "refused"
    levers = row["found"].split(" after ", 1)[1]
    shrunk = any(word in levers for word in ("micro-batch", "checkpointing"))
    found = "same bits" if row["found"].startswith("the same bits") else "same losses"
    return f"{found}, smaller step" if shrunk else f"{found}, freed" if "freed" in levers else found


def section_small_cards():
    document = load(SWEEP)
    cases = {}
    for row in document["rows"]:
        cases.setdefault((row["model"], row["image_size"]), {})[row["card"]] = row
    cards = ["90-percent", "75-percent", "60-percent", "45-percent", "smallest-and-a-tenth"]
    rows = []
    for (model, side), of in cases.items():
        first = next(iter(of.values()))
        least = f"{first['smallest_step_by_the_planner'] / 1e6:.0f}"
        rows.append([f"`{model}`", side, f"{first['peak_on_a_large_card'] / 1e6:.0f}", least] + [outcome(of[card]) if card in of else "" for card in cards])
    kept = sum(row["as_promised"] for row in document["rows"])
    return ["## Small cards, on the stand-in for CUDA", "",
            f"{document['what'][:1].upper()}{document['what'][1:]}. A run must end with the losses of the large card, or be refused where the planner says "
            f"that nothing fits; on a card with a tenth more than the planner's smallest step it must end. {kept} of {len(document['rows'])} did as they must.", "",
            table(["network", "pixels", "peak, MB", "smallest step, MB", "90 % of the peak", "75 %", "60 %", "45 %", "smallest step + 10 %"], rows, 2), "",
            "\"Freed\": after what was cached was freed, each tensor had an allocation of its own. \"Smaller step\": fewer samples at once, or activations computed again.", "",
            source(SWEEP, document, document["environment"]["note"][:1].upper() + document["environment"]["note"][1:] + ". " + document["added"] + "."), ""]


BUILD = "2026-11-23-first-build.json"
SCORES = "2026-11-26-score-speed.json"
VERSIONS = "2026-11-26-steps-against-9716220.json"
PROCESS = "2026-11-28-process-large-blocks.json"
SQUARES = "2026-11-28-squares-of-four-pixels.json"
PANELS = "2026-11-28-packed-bands-avx2.json"
PIECES = "2026-11-28-gradients-of-pieces-avx2.json"
ENLARGED = "2026-11-29-enlarged-maps.json"
TILES = "2026-11-29-tiles.json"
START_UP = "2026-11-26-start-up.json"
GROUPS = "2026-11-27-groups-at-once-2-cores.json"
PLANS_OF_GROUPS = "2026-11-27-planner-groups-at-once-cpu.json"


def section_build():
    document = load(BUILD)
    total, units = document["seconds_of_all_units"], document["seconds_of_units"]
    rows = [[f"`{name}`", f"{seconds:.0f}", percent(seconds / total)] for name, seconds in list(units.items())[:12]]
    tried = [[f"`{case['crate']}`", case["opt_level"], "off" if case.get("lto") else "the default", case["seconds"]] for case in document["tried"]["cases"]]
    return ["## A first build", "",
            f"`{document['command']}` is {document['what']}. It took {document['wall_seconds'] / 60:.1f} minutes, and "
            f"{(document['user_seconds'] + document['system_seconds']) / 60:.1f} minutes of processor time; on {document['again']['date']}, {document['again']['note']}, {document['again']['wall_seconds'] / 60:.1f} minutes (commit {document['again']['commit']}). "
            f"These crates took longest in the first. The seconds are {document['about_units']}.", "",
            table(["crate", "seconds", "of all crates"], rows), "",
            f"Crates alone with other settings: {document['tried']['about']}.", "",
            table(["crate", "`opt-level`", "`lto`", "seconds"], tried, 3), "",
            source(BUILD, document, f"rustc {document['environment']['rustc']}; {document['environment']['note']}."), ""]


def section_scores():
    document = load(SCORES)
    rows = [[row["classes"], f"{row['images']:,}", f"{row['patients']:,}", f"{row['resamples']:,}", min(row["seconds"]), min(row["processor_seconds"])]
            for row in document["rows"]]
    return ["## Scores with intervals", "",
            f"Time of `kindling eval --from` on a made-up table: {document['about']}. The best of {len(document['rows'][0]['seconds'])}.", "",
            table(["classes", "images", "patients", "resamples", "seconds", "seconds of processors"], rows, 0), "",
            source(SCORES, document, f"{document['environment']['note']}."), ""]


def section_start_up():
    document = load(START_UP)

    def milliseconds(numbers):
        return f"{1e3 * median(numbers):.0f} ({1e3 * min(numbers):.0f} to {1e3 * max(numbers):.0f})"

    rows = [[f"`{row['command']}`", milliseconds(row["seconds"]), milliseconds(row["processor_seconds"]), f"{median(row['pages']):,.0f}"]
            for row in document["rows"]]
    return ["## Start of the command", "",
            f"Time of a whole process, warm: {document['about']}. Median and range of {len(document['rows'][0]['seconds'])}, and the pages that the "
            "process touched for the first time.", "",
            table(["command", "ms", "ms of processors", "pages"], rows), "",
            f"By `perf`, {percent(document['perf']['clearing_share'], 0)} of `predict`'s processor time is the kernel clearing the allocator's first pages, and "
            f"{percent(document['perf']['relocation_share'], 0)} the loader writing {document['perf']['relocations']:,} addresses into a program that may lie anywhere. "
            "A fixed address would save the latter, and give up that an attacker cannot know it; packed relocations need glibc 2.36.", "",
            source(START_UP, document, f"{document['environment']['note'][:1].upper()}{document['environment']['note'][1:]}."), ""]


def ratio(row):
    """A ratio of pairs, with its range."""
    return f"{row['ratio']['median']:.2f} ({row['ratio']['least']:.2f} to {row['ratio']['most']:.2f})"


def section_groups():
    document = load(GROUPS)
    rows = [[f"`{row['model']}`", row["image_size"], f"{median(row['in_turn']):.1f}", f"{median(row['at_once']):.1f}", ratio(row)]
            for row in document["rows"]]
    plans = load(PLANS_OF_GROUPS)
    errors = sorted(case["error"] for case in plans["cases"] if case["groups"] > 1)
    return ["## Normalisation groups at once", "",
            "On the CPU, each normalisation group (ghost batch) of a step is a part with its own gradients, and parts are added in a fixed tree. So "
            "groups may be computed one after the other or at once, each on threads of its own: the bits are the same. "
            f"{document['what'][:1].upper()}{document['what'][1:]}; {document['about']}. A ratio above 1 is a gain.", "",
            table(["network", "pixels", "in turn", "at once", "ratio"], rows), "",
            source(GROUPS, document, document["environment"]["note"][:1].upper() + document["environment"]["note"][1:] + "."), "",
            f"The plan of such a step counts the peaks of all groups at the same time. Of {len(errors)} cases of four networks with two and three "
            f"groups, it is {100 * median(errors):.1f} % too high in the median, {-100 * errors[0]:.1f} % too low at worst, and "
            f"{100 * errors[-1]:.0f} % too high at most (`benchmarks/{PLANS_OF_GROUPS}`).", ""]


def section_versions():
    document = load(VERSIONS)
    alone = {row["model"]: ratio(row) for row in document["earlier_against_itself"]["rows"]}
    rows = [[f"`{row['model']}`", f"{median(row['earlier']):.1f}", f"{median(row['today']):.1f}", ratio(row), alone[row["model"]]]
            for row in document["rows"]]
    return ["## A training step against an earlier version", "",
            f"Images a second of commit {document['earlier'][:7]} and of the one below; {document['about']}. A ratio is the median of all pairs and their "
            f"range; the last column is {document['earlier_against_itself']['about']}.", "",
            table(["network", "earlier", "later", "ratio", "earlier against itself"], rows), "",
            source(VERSIONS, document, document["environment"]["note"][0].upper() + document["environment"]["note"][1:] + "."), ""]


def section_process():
    document = load(PROCESS)
    rows = [[f"`{row['model']}`", row["precision"], "none" if row["memory_budget"] == "none" else row["memory_budget"].replace("MiB", " MiB"),
             *(f"{median(row['process'][side]) / 1e6:.0f}" for side in ("earlier", "today")), f"{row['process_ratio']['median']:.2f}", ratio(row)]
            for row in document["rows"]]
    return ["## Memory of the process, and speed in a budget", "",
            f"Before and after large blocks were laid side by side (commit {document['earlier'][:7]} and the one below; [why](decisions/mimalloc-with-a-counter-around-it.md)): "
            f"{document['about']}. The budgets have room for everything, by a few percent.", "",
            table(["network", "format", "budget", "process before, MB", "after, MB", "ratio", "images a second, ratio"], rows, 3), "",
            source(PROCESS, document), ""]


def section_squares():
    return pairs_of_commands(SQUARES, "3x3 convolutions of large maps", "they made 4x4 pixels of output at a time instead of 2x2", "own-operations-on-the-cpu")


def section_packed_bands():
    return pairs_of_commands(PANELS, "Inverted residuals without AVX-512",
                             "the filters and pixels of a band were packed once, and rows of what is multiplied lay an odd number of cache lines apart",
                             "inference-computes-inverted-residuals-in-bands")


def section_pieces():
    return pairs_of_commands(PIECES, "1x1 convolutions and SiLU",
                             "products were written to maps that had not been filled with zeros, 1x1 convolutions took both gradients of a piece while it was in the "
                             "cache, and SiLU was computed in eight registers abreast",
                             "own-operations-on-the-cpu")


def section_enlarged():
    return pairs_of_commands(ENLARGED, "Convolutions of enlarged maps",
                             "the decoder of a U-Net convolved maps of bf16 that are to be enlarged as they are", "own-operations-on-the-cpu")


def section_tiles():
    return pairs_of_commands(TILES, "Products of tiles",
                             "convolutions of maps of bf16 multiplied tiles where the processor can (AMX), and squared gradients on all threads",
                             "own-operations-on-the-cpu")


def pairs_of_commands(name, title, change, decision):
    """What `scripts/compare-commands.py` found before and after a change."""
    document = load(name)
    rows = [[row["what"], f"`{row['model']}`", row["precision"], *(f"{median(row[side]):.2f}" for side in ("earlier", "today")), ratio(row),
             *(f"{median(row['process'][side]) / 1e6:.0f}" for side in ("earlier", "today"))] for row in document["rows"]]
    return [f"## {title}", "",
            f"Before and after {change} (commit {document['earlier'][:7]} and the one below; "
            f"[why](decisions/{decision}.md)): {document['about']}.", "",
            table(["what", "network", "format", "images a second before", "after", "ratio", "process before, MB", "after, MB"], rows, 3), "",
            source(name, document, f"{document['environment']['note']}."), ""]


def bench_rows(name, document):
    """Rows of `kindling bench` that no section above shows."""
    rows = []
    for row in document["rows"]:
        config, measured = row["configuration"], row.get("measured")
        figures = ([quartiles(measured["images_per_second"]), megabytes(measured["memory"]["peak_in_use_bytes"] or process(row))]
                   if measured else [str(row.get("failed") or "failed"), ""])
        rows.append([f"`{config['model']}`", config["what"], config["precision"], f"{row['engine']}{' ' + row['variant'] if row['variant'] else ''}",
                     config["image_size"], config["batch_size"], *figures])
    return [f"## {name}", "", table(["network", "what", "format", "engine", "pixels", "batch", "images/s", "peak memory"], rows, 4), "",
            source(name, document), ""]


def section_files():
    rows = []
    for path in sorted(FOLDER.glob("*.json")):
        document = json.loads(path.read_text())
        environment = surroundings(document)
        rows.append([f"`benchmarks/{path.name}`", path.name[:10], machine(environment) if environment.get("cpu") else "not recorded",
                     environment.get("commit") or "not recorded"])
    return ["## All files", "", "One JSON a measurement. `benchmarks/README.md` says what each one is and which script made it.", "",
            table(["file", "date", "machine", "commit"], rows, 4), ""]


def page():
    lines = ["# Benchmarks", "",
             "<!-- Written by scripts/benchmark-page.py from benchmarks/*.json: change the script, not this page. -->", "",
             "Every figure here comes from a file in `benchmarks/`, which holds the measurement with its environment. Absolute times on shared machines are "
             f"noise; compare what was measured side by side. {on_gpus()} "
             "[How results are measured](concepts/measuring.md) says what each figure means, and [measuring](how-to/measure.md) how to make your own.", ""]
    for section in (section_pytorch, section_memory, section_runs, section_precision, section_plans, section_budget, section_processes, section_loading, section_gans,
                    section_gpu, section_stand_in, section_ledger, section_groups, section_small_cards, section_robustness, section_scores, section_start_up, section_process, section_squares,
                    section_packed_bands, section_pieces, section_enlarged, section_tiles, section_versions,
                    section_build):
        lines += section()
    for path in sorted(FOLDER.glob("*.json")):
        document = json.loads(path.read_text())
        if path.name not in shown and document.get("format") == "kindling-bench/1":
            lines += bench_rows(path.name, document)
    return "\n".join(lines + section_files()).rstrip() + "\n"


def between(path, text):
    """A document with other lines between its markers."""
    old = path.read_text()
    if old.count(BEGIN) != 1 or old.count(END) != 1:
        sys.exit(f"benchmark-page: {path.relative_to(ROOT)} should have `{BEGIN}` and `{END}` once each")
    before, rest = old.split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="writes nothing, and fails if a page is stale")
    args = parser.parse_args()
    readme_file, ledger_file = ROOT / "README.md", ROOT / "docs/step-ledger.md"
    planes_file = ROOT / "datasets/brain-mri-orientation/README.md"
    written = {PAGE: page(), readme_file: between(readme_file, readme()), ledger_file: between(ledger_file, ledger()),
               planes_file: between(planes_file, yardstick()), PICTURE: picture()}
    stale = [path for path, text in written.items() if not path.exists() or path.read_text() != text]
    names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
    if args.check and stale:
        sys.exit(f"benchmark-page: {names} does not say what benchmarks/ does: run scripts/benchmark-page.py")
    for path in () if args.check else stale:
        path.write_text(written[path])
    print(f"benchmark-page: {len(list(FOLDER.glob('*.json')))} files, {names + ' written' if stale else 'nothing to change'}")


if __name__ == "__main__":
    main()
