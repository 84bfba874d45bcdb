"""Turns the lines of compare-data.sh into one JSON object: medians, and the median of the rounds' ratios."""

import json
import platform
import statistics
import sys
from collections import defaultdict


def main():
    rates, facts = defaultdict(list), {}
    stages = {}
    for line in sys.stdin:
        kind, augment, _, who, result = line.rstrip("\n").split("\t", 4)
        result = json.loads(result)
        case = f"{kind} {augment}"
        if who == "kindling":
            rates[case, who].append(result["loader"]["images_per_second"])
            stages[case] = {name: round(row["images_per_second"], 1) for name, row in result["stages_one_thread"].items()}
        else:
            rates[case, who].append(result["images_per_second"])
            facts = {name: result[name] for name in ("torch", "torchvision", "pillow")}
    rows = {}
    for case in dict.fromkeys(case for case, _ in rates):
        ours, theirs = rates[case, "kindling"], rates[case, "pytorch"]
        rows[case] = {
            "kindling_images_per_second": round(statistics.median(ours), 1),
            "pytorch_images_per_second": round(statistics.median(theirs), 1),
            "ratio": round(statistics.median(a / b for a, b in zip(ours, theirs)), 2),
            "rounds": [[round(a, 1), round(b, 1)] for a, b in zip(ours, theirs)],
            "stages_of_the_last_round_one_thread": stages[case],
        }
    print(json.dumps({"workers": 2, "size": 512, "rows": rows, "peers": facts, "system": platform.platform()}, indent=1))


main()
