"""Measurements in pairs: of two things in turn, so that what else the machine does hits both. What counts is the ratio within a pair."""

import json
import statistics
import subprocess


def train_row(command, flags):
    """The row of a command's training steps on the CPU."""
    ran = subprocess.run([command, "bench", "train", "--device", "cpu", *flags, "--format", "json"], capture_output=True, text=True, check=True)
    [row] = json.loads(ran.stdout.splitlines()[-1])["rows"]
    return row


def train_speed(command, flags):
    """Images a second of training steps, the median of a command's windows, and the commit that it was built from, if it knows."""
    row = train_row(command, flags)
    return row["measured"]["images_per_second"]["median"], row["environment"]["commit"]


def in_turn(both, pair):
    """The two of a pair; which is first changes from pair to pair."""
    return both if pair % 2 == 0 else both[::-1]


def ratio(above, below):
    """Median and range of the ratios within pairs."""
    ratios = sorted(a / b for a, b in zip(above, below))
    return {"median": round(statistics.median(ratios), 3), "least": round(ratios[0], 3), "most": round(ratios[-1], 3)}
