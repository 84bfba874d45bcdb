#!/usr/bin/env bash
# Trains in containers: the host's mpirun starts one a process, and the library inside, of the same MPI, connects them. The image needs that
# library: for Open MPI 4 of Debian 12, a line `apt-get -q install -y libopenmpi3` in %post of packaging/kindling.def.
#
#   bash scripts/cluster/apptainer.sh kindling.sif 4 train --data /shared/scans --batch-size 32 --out /shared/runs/scans
set -euo pipefail

[[ $# -ge 3 ]] || { echo "usage: apptainer.sh IMAGE PROCESSES train FLAGS..." >&2; exit 2; }
image=$1 count=$2
shift 2
exec mpirun -n "$count" --bind-to none apptainer exec --bind "${KINDLING_SHARED:-/shared}" "$image" kindling "$@" --resume-or-start
