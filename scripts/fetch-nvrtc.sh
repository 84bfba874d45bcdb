#!/usr/bin/env bash
# Makes a folder with which CUDA devices work where no CUDA toolkit is installed: NVRTC and the headers that kernels
# include, from NVIDIA's packages for Python (proprietary licences, in the packages; about 200 MB to fetch).
#
#   bash scripts/fetch-nvrtc.sh [FOLDER]      default: ~/.local/share/kindling/nvrtc
#
# Then, for every command that uses a GPU:
#
#   export CUDA_PATH=FOLDER LD_LIBRARY_PATH=FOLDER/lib64:$LD_LIBRARY_PATH
#
# Needs Python 3 with pip, and the network. CUDA 12.8, or the version in NVRTC_VERSION; the driver must be as new.
set -euo pipefail

readonly FOLDER=${1:-${XDG_DATA_HOME:-$HOME/.local/share}/kindling/nvrtc}
readonly VERSION=${NVRTC_VERSION:-12.8}
# Tensor-core kernels include crt/mma.h, which nvcc brings, and nv/target, which cccl brings.
readonly PARTS=(nvrtc runtime nvcc cccl)
readonly NEEDED=(include/cuda_runtime.h include/cuda_fp16.h include/mma.h include/crt/mma.h include/nv/target include/cuda/barrier
    lib64/libnvrtc.so lib64/libnvrtc.so.12)

complete() {
    local name
    for name in "${NEEDED[@]}"; do [[ -f $FOLDER/$name ]] || { echo "$FOLDER/$name is missing" >&2; return 1; }; done
    compgen -G "$FOLDER/lib64/libnvrtc-builtins.so.*" >/dev/null
}

if [[ -d $FOLDER ]] && complete 2>/dev/null; then
    echo "$FOLDER is complete already"
    exit
fi
mkdir -p -- "$(dirname -- "$FOLDER")"
work=$(mktemp -d -- "$FOLDER.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

for part in "${PARTS[@]}"; do
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$work/wheels" "nvidia-cuda-$part-cu12==$VERSION.*"
done
for wheel in "$work"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$work/unpacked"; done
mkdir -p "$work/whole/include" "$work/whole/lib64"
# Copies, for NVRTC does not find what symbolic links lead to.
for part in "${PARTS[@]}"; do
    from=$work/unpacked/nvidia/cuda_$part
    [[ ! -d $from/include ]] || cp -RL -- "$from/include/." "$work/whole/include/"
done
cp -RL -- "$work/unpacked/nvidia/cuda_nvrtc/lib/." "$work/whole/lib64/"
cp -- "$work/whole/lib64/libnvrtc.so.12" "$work/whole/lib64/libnvrtc.so"
find "$work/unpacked" -iname 'license*' -exec cp -- {} "$work/whole/" \;

rm -rf -- "$FOLDER"
mv -- "$work/whole" "$FOLDER"
complete || { echo "the packages of CUDA $VERSION lack what is named above" >&2; exit 1; }
echo "$FOLDER is complete; use it with:"
echo "  export CUDA_PATH=$FOLDER LD_LIBRARY_PATH=$FOLDER/lib64:\$LD_LIBRARY_PATH"
