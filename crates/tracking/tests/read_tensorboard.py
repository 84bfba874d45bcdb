"""What TensorBoard makes of a folder: `read_tensorboard.py FOLDER` prints it as JSON. First its library's reader, then its server."""

import json
import math
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from importlib.metadata import version
from pathlib import Path

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import metadata

WHOLE = {"scalars": 0, "images": 0, "histograms": 0, "tensors": 0}


def read(folder):
    """By the library that notebooks use."""
    read = event_accumulator.EventAccumulator(str(folder), size_guidance=WHOLE).Reload()
    tags = read.Tags()
    settings = {}
    start = read.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    for key, value in metadata.parse_session_start_info_plugin_data(start).hparams.items():
        settings[key] = getattr(value, value.WhichOneof("kind"))
    return {
        "scalars": {tag: [[at.step, at.value, at.wall_time] for at in read.Scalars(tag)] for tag in tags["scalars"]},
        "images": {tag: [[at.step, at.width, at.height] for at in read.Images(tag)] for tag in tags["images"]},
        "histograms": {
            tag: [[at.step, at.histogram_value.num, sum(at.histogram_value.bucket)] for at in read.Histograms(tag)]
            for tag in tags["histograms"]
        },
        "texts": {
            tag: [[at.step, at.tensor_proto.string_val[0].decode()] for at in read.Tensors(tag)]
            for tag in tags["tensors"]
            if not tag.startswith("_hparams_")
        },
        "settings": settings,
        "is_ended": "_hparams_/session_end_info" in tags["tensors"],
    }


def show(folder):
    """By the server that people look at."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", "0", "--host", "127.0.0.1"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        address = next(found[0] for line in server.stderr if (found := re.findall(r"http://127\.0\.0\.1:\d+", line)))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def ask(what, **query):
            query = query.get("query") or urllib.parse.urlencode(query)
            with opener.open(f"{address}/data/plugin/{what}?{query}", timeout=30) as answer:
                return answer.read()

        until = time.monotonic() + 60
        while not (tags := json.loads(ask("scalars/tags"))) and time.monotonic() < until:
            time.sleep(0.2)
        (run,) = tags
        images = json.loads(ask("images/images", run=run, tag="samples", sample=0))
        return {
            "scalars": sorted(tags[run]),
            "loss": json.loads(ask("scalars/scalars", run=run, tag="train/loss")),
            "images": len(images),
            "is_png": ask("images/individualImage", query=images[0]["query"]).startswith(b"\x89PNG"),
            "histograms": sorted(json.loads(ask("histograms/tags"))[run]),
            "texts": sorted(json.loads(ask("text/tags"))[run]),
        }
    finally:
        server.terminate()
        server.wait()


def plain(value):
    """Numbers that JSON does not have, as words."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(json.dumps(plain({"version": version("tensorboard"), "read": read(folder), "shown": show(folder)})))
