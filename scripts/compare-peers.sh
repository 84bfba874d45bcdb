#!/usr/bin/env bash
# Kindling beside PyTorch: a row of one, the same row of the other, several rounds, so that what disturbs the machine
# disturbs both. Not for continuous integration: it wants a quiet machine and a Python with torch and torchvision.
#
#   scripts/compare-peers.sh --python PYTHON [--kindling BINARY] [--rounds 3] [--out FOLDER] [--what "train infer"]
#       [--models a,b] [--image-size 512] [--batch-size 4] [--precision f32,bf16]
#       [--variants 'contiguous,channels_last,channels_last compiled']
#       [--device cpu] [-- FLAGS OF BOTH, e.g. --windows 5 --threads 2]
#
# Leaves kindling.json, pytorch.json and compare.html in FOLDER and prints the comparison.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

python=python3 kindling=$here/../target/release/kindling rounds=3 out=peers what="train infer"
models=mobilenet_v2,mobilenet_v3_small,efficientnet_b0,resnet18 sizes=512 batches=4 precisions=f32,bf16
variants='contiguous,channels_last,channels_last compiled' device=cpu
while (($# > 0)); do
    case $1 in
    --python) python=$2 ;;
    --kindling) kindling=$2 ;;
    --rounds) rounds=$2 ;;
    --out) out=$2 ;;
    --what) what=$2 ;;
    --models) models=$2 ;;
    --image-size) sizes=$2 ;;
    --batch-size) batches=$2 ;;
    --precision) precisions=$2 ;;
    --variants) variants=$2 ;;
    --device) device=$2 ;;
    --) shift && break ;;
    *) echo "error: unknown option $1" >&2 && exit 2 ;;
    esac
    shift 2
done
"$python" -c "import torch, torchvision" || { echo "error: --python names one without torch and torchvision" >&2 && exit 1; }
[[ -x $kindling ]] || { echo "error: there is no command at $kindling; build it or name one with --kindling" >&2 && exit 1; }
mkdir -p "$out/rows"
rm -f "$out"/rows/*.json

for ((round = 1; round <= rounds; round++)); do
    number=0
    for model in ${models//,/ }; do for size in ${sizes//,/ }; do for batch in ${batches//,/ }; do
        for precision in ${precisions//,/ }; do for each in $what; do
            number=$((number + 1))
            name=$(printf '%02d-%04d' "$round" "$number")
            row=("$each" --models "$model" --image-size "$size" --batch-size "$batch" --precision "$precision"
                --device "$device" "$@")
            # A failed row is in the file; the rest goes on.
            "$kindling" bench "${row[@]}" --isolate --out "$out/rows/kindling-$name.json" >/dev/null || true
            "$python" "$here/peers/pytorch_bench.py" "${row[@]}" --variants "$variants" --out "$out/rows/pytorch-$name.json"
        done; done
    done; done; done
done

"$python" - "$out" <<'PYTHON'
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
for engine in ("kindling", "pytorch"):
    files = sorted((out / "rows").glob(f"{engine}-*.json"))
    rows = [row for file in files for row in json.loads(file.read_text())["rows"]]
    (out / f"{engine}.json").write_text(json.dumps({"format": "kindling-bench/1", "rows": rows}, indent=1) + "\n")
PYTHON
"$kindling" bench compare "$out/pytorch.json" "$out/kindling.json" --html "$out/compare.html"
