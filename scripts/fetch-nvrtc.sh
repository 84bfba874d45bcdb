#!/usr/bin/env bash
# Makes a folder with what --device cuda needs besides the driver: the kernel compiler NVRTC and the CUDA headers. Needs
# neither root nor a CUDA toolkit; needs Python's pip.
#
#   scripts/fetch-nvrtc.sh [FOLDER]
#
# The folder is $KINDLING_DATA/nvrtc, or, where KINDLING_DATA is not set, kindling/nvrtc in the user's cache folder. It gets
# lib/libnvrtc.so.12 and include/ of CUDA 12.8 for x86-64 Linux, from packages of the Python package index: 132 MB of
# downloads, 130 MB kept. A package is taken only if its SHA-256 is right, and the folder appears under its name only when it
# is complete; a second run does nothing. These files are NVIDIA's, under the CUDA Toolkit's licence.
#
# The last lines say which two variables to set.
set -euo pipefail

readonly VERSION=12.8.93
# package version sha256-of-the-wheel folder-in-it
readonly PACKAGES=(
    "nvidia-cuda-nvrtc-cu12 12.8.93 a7756528852ef889772a84c6cd89d41dfa74667e24cca16bb31f8f061e3e9994 cuda_nvrtc"
    "nvidia-cuda-runtime-cu12 12.8.90 adade8dcbd0edf427b7204d480d6066d33902cab2a4707dcfc48a2d0fd44ab90 cuda_runtime"
    "nvidia-cuda-nvcc-cu12 12.8.93 2d6dc36fb7cb5ac9c0b8825bc13d193c35487a315664007287d0126531238011 cuda_nvcc"
    "nvidia-cuda-cccl-cu12 12.8.90 575bc5cfb0fe4a1956c539215c0f1e6718821b95a68ef6b7abf226aa87e3a5ad cuda_cccl"
)

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/fetch.sh
source "$here/lib/fetch.sh"

(($# <= 1)) || fail "takes one folder at most"
need sha256sum "apt-get install coreutils"
need_pip
if (($# == 1)); then
    data=$(dirname -- "$1") name=$(basename -- "$1")
else
    cache_folder files
    name=nvrtc
fi
mkdir -p -- "$data" 2>/dev/null && folder=$(cd -- "$data" && pwd) && [[ -w "$folder" ]] || fail "cannot write to $data"
target=$folder/$name

say_how() {
    echo "nvrtc: CUDA $VERSION's compiler and headers are in $target; now set"
    printf '    export CUDA_PATH=%q\n    export LD_LIBRARY_PATH=%q${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\n' "$target" "$target/lib"
}

if [[ "$(cat -- "$target/.version" 2>/dev/null)" == "$VERSION" ]]; then
    say_how
    exit 0
fi
[[ ! -e "$target" || -e "$target/.version" || -z "$(ls -A -- "$target")" ]] ||
    fail "$target is there and holds something else; name another folder"

start_work
mkdir -p "$work/new/lib" "$work/new/include"
for entry in "${PACKAGES[@]}"; do
    read -r package version sum inside <<<"$entry"
    echo "nvrtc: fetching the Python package $package $version"
    unpack_wheel "$package==$version" --platform manylinux2014_x86_64 --platform manylinux2010_x86_64 --python-version 3.11
    is_intact "$wheel" "$sum" ||
        fail "the downloaded $package $version is not the one listed in this script; nothing was changed"
    files=$work/wheel/files/nvidia/$inside
    # Copies, not links: NVRTC does not follow symbolic links to headers.
    cp -R -- "$files/include/." "$work/new/include/"
    [[ "$inside" != cuda_nvrtc ]] || cp -- "$files"/lib/libnvrtc.so.12 "$files"/lib/libnvrtc-builtins.so.* "$work/new/lib/"
done
find "$work/new" -name __init__.py -delete
for file in lib/libnvrtc.so.12 include/cuda_runtime.h include/cuda_fp16.h include/mma.h include/crt/mma.h include/nv/target; do
    [[ -f "$work/new/$file" ]] || fail "the packages brought no $file"
done
echo "$VERSION" >"$work/new/.version"
rm -rf -- "$target"
mv -- "$work/new" "$target" || fail "cannot write to $target (is the disk full?)"
end_work
say_how
