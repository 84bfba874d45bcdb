#!/usr/bin/env bash
# Kindling's loader beside PyTorch's DataLoader: the same files, the same output, turn by turn in one run, so that whatever
# else the machine does meets both. Prints one JSON object.
#
#     scripts/compare-data.sh [ROUNDS] [IMAGES]
#
# KINDLING is the command (default target/release/kindling), KINDLING_PYTHON a Python with torch, torchvision and scikit-image.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

rounds=${1:-5}
images=${2:-512}
kindling=${KINDLING:-target/release/kindling}
python=${KINDLING_PYTHON:-python3}
files=$(mktemp -d)
trap 'rm -rf -- "$files"' EXIT

"$python" scripts/peers/make_data.py "$files" 256 >&2
for kind in jpeg png16; do
    for augment in none light; do
        for round in $(seq "$rounds"); do
            printf '%s\t%s\t%s\tkindling\t' "$kind" "$augment" "$round"
            "$kindling" bench data --data "$files/$kind" --augment "$augment" --images "$images" --workers 2 --format json
            printf '%s\t%s\t%s\tpytorch\t' "$kind" "$augment" "$round"
            # Memory that is freed is kept, as PyTorch's tuning guide advises; by default glibc gives every large tensor back.
            MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184 \
                "$python" scripts/peers/pytorch_data.py "$files/$kind" --augment "$augment" --images "$images" --workers 2
        done
    done
done | tee /dev/stderr | "$python" scripts/peers/compare_data.py
