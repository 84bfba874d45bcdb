"""Measurements in pairs: of two things in turn, so that what else the machine does hits both. What counts is the ratio within a pair."""

import json
import statistics
import subprocess


def bench_row(command, what, flags):
    """A command's row of training steps or of inference on the CPU, with the commit that it was built from, if it knows."""
    ran = subprocess.run([command, "bench", what, "--device", "cpu", *flags, "--format", "json"], capture_output=True, text=True, check=True)
    [row] = json.loads(ran.stdout.splitlines()[-1])["rows"]
    return row


def in_turn(both, pair):
    """The two of a pair; which is first changes from pair to pair."""
    return both if pair % 2 == 0 else both[::-1]


def ratio(above, below):
    """Median and range of the ratios within pairs."""
    ratios = sorted(a / b for a, b in zip(above, below))
    return {"median": round(statistics.median(ratios), 3), "least": round(ratios[0], 3), "most": round(ratios[-1], 3)}
