#!/bin/sh
# Builds and runs the stand-in's own tests: run-tests.sh FOLDER, the folder of build.sh.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(cd "$1" && pwd)"
cxx="${CXX:-g++}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# Kernels are compiled anew, or a broken header would not be noticed.
export CUDASIM_CACHE="$scratch/cache"
for part in kernels driver; do
    $cxx -std=c++17 -O1 -Wall -Wextra -I"$here/../api" "$here/$part.cpp" -L"$folder/lib" -lcuda -lnvrtc -o "$scratch/$part"
done

$cxx -std=c++17 -O1 -Wall -Wextra -I"$here/../api" "$here/nccl.cpp" -L"$folder/lib" -l:libnccl.so.2 -o "$scratch/nccl"

"$here/../run.sh" "$folder" "$scratch/kernels" 2>"$scratch/errors" || { cat "$scratch/errors"; exit 1; }
grep -q "cannot end: 64 threads poll" "$scratch/errors"

driver() { name="$1"; shift; env "$@" "$here/../run.sh" "$folder" "$scratch/driver" "$name"; }
driver memory_is_limited CUDASIM_MEMORY=64MiB
driver faults_come_when_asked_for CUDASIM_FAULTS=alloc:2=2,launch:2=700
driver counters_count CUDASIM_STATS="$scratch/stats"
for count in '"live_streams": 1' '"live_events": 2' '"live_modules": 1' '"live_allocations": 0' '"most_allocations": 1' \
    '"executed": 1' '"invalid_launches": 1' '"current": 0' '"peak": 512'; do
    grep -qF "$count" "$scratch/stats" || { echo "FAILED $count is not in:"; cat "$scratch/stats"; exit 1; }
done
driver arguments_are_traced CUDASIM_KERNELS=none CUDASIM_TRACE="$scratch/trace" CUDASIM_TRACE_ARGUMENTS=1 CUDASIM_SOURCES="$scratch"
for line in 'arguments 1 told 7f0000001000 =01020300000000008877665544332211000000000000803f' 'launch 1 told grid 1 1 1'; do
    grep -qF "$line" "$scratch/trace" || { echo "FAILED $line is not in:"; cat "$scratch/trace"; exit 1; }
done
grep -q about_st "$scratch/told.cu"
driver the_clock_is_the_same_in_every_run CUDASIM_CLOCK=seed:3
driver devices_have_memories_of_their_own CUDASIM_DEVICES=2 CUDASIM_MEMORY=64MiB,32MiB
driver a_busy_device_gives_no_context CUDASIM_DEVICES=2 CUDASIM_BUSY=1 CUDA_VISIBLE_DEVICES=1
driver without_a_device_nothing_starts CUDASIM_DEVICES=0
driver an_old_driver_refuses_what_a_newer_compiler_wrote CUDASIM_DRIVER=12.2
driver the_compiler_refuses_devices_that_it_no_longer_knows CUDASIM_CC=3.5

nccl() { name="$1"; shift; env "$@" "$here/../run.sh" "$folder" timeout 60 "$scratch/nccl" "$name"; }
nccl everyone_gets_what_was_sent_to_it NCCLSIM_STATS="$scratch/moved"
grep -qF '{"groups": 1, "messages": 4, "bytes": 8388632}' "$scratch/moved.2" || { echo "FAILED bytes:"; cat "$scratch/moved.2"; exit 1; }
nccl a_fault_is_told_to_its_rank_and_breaks_the_others NCCLSIM_FAULTS=group:1=3 EXPECTED=3
nccl a_fault_is_told_to_its_rank_and_breaks_the_others NCCLSIM_FAULTS=async:1=6 EXPECTED=0
nccl another_length_than_expected_is_an_error
echo "all tests of CUDA on CPU passed"
