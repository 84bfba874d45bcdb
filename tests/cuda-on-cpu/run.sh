#!/bin/sh
# Runs a command with the stand-ins in the places of CUDA: run.sh FOLDER COMMAND...
# FOLDER is what build.sh was given. CubeCL reads cubecl.toml in the working folder: FOLDER/settings has one.
set -eu
folder="$(cd "$1" && pwd)"
shift
export LD_LIBRARY_PATH="$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CUDA_PATH="${CUDA_PATH:-$folder}"
export PATH="$folder/bin:$PATH"
export CUDASIM_KERNELS="${CUDASIM_KERNELS:-host}"
exec "$@"
