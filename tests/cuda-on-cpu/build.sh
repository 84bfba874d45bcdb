#!/bin/sh
# Builds the stand-ins for the CUDA driver, NVRTC and NCCL: build.sh FOLDER (default: build/ beside this file).
# Needs g++ for x86-64 Linux, and no file of the CUDA toolkit.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
out="${1:-$here/build}"
cxx="${CXX:-g++}"
flags="-std=c++17 -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra -I$here/api"
mkdir -p "$out/lib" "$out/cache"

# library FILE SONAME SOURCES...: whole or not at all, for programs may be running on the one that is there.
library() {
    file="$1" soname="$2"
    shift 2
    $cxx $flags "-Wl,-soname,$soname" "$@" -o "$out/lib/.$file" -ldl -lpthread
    mv "$out/lib/.$file" "$out/lib/$file"
}
library libcuda.so.1 libcuda.so.1 "$here"/driver/*.cpp "$here"/machine/*.cpp
library libnvrtc.so libnvrtc.so "$here"/compiler/*.cpp
library libnccl.so.2 libnccl.so.2 "$here"/nccl/*.cpp
# Programs try this name first, and must not find a real driver elsewhere.
ln -sf libcuda.so.1 "$out/lib/libcuda.so"

# The folder is all that is needed to run: what kernels include, nvidia-smi, settings for CubeCL.
for part in include bin settings; do
    mkdir -p "$out/$part"
    cp -R "$here/$part/." "$out/$part/"
done
