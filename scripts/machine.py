"""What scripts say of the machine that they measured on."""

import os
import pathlib
import platform


def processor_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def environment(note, **more):
    """What a file in benchmarks/ says of this machine, and of what else there is to say."""
    return {"cpu": processor_name(), "cores": len(os.sched_getaffinity(0)), **more, "note": note}
