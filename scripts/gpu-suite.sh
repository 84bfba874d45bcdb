#!/usr/bin/env bash
# What only a GPU can show: run it on a machine with an NVIDIA GPU, the release binary and Python 3; no Rust needed.
#
#   scripts/gpu-suite.sh --kindling BINARY --out FOLDER [--device cuda] [--minutes 25] [--python PYTHON_WITH_TORCH] [--only oom,bench]
#   scripts/gpu-suite.sh --device cpu --quick          # the same parts, small, where there is no GPU
#
# Writes one JSON a part and suite.json under FOLDER, and calls.log while it goes on. A part that has no time left is skipped and says so.
set -euo pipefail
exec python3 "$(dirname -- "${BASH_SOURCE[0]}")/gpu_suite.py" "$@"
