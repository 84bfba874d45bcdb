#!/usr/bin/env bash
# Trains on several machines with Open MPI, ssh between them without a password, and the same paths on all:
#
#   bash scripts/cluster/hosts.sh "node1:1,node2:1" train --data /shared/scans --batch-size 32 --out /shared/runs/scans
#
# One process a machine uses all of its cores. mpirun does not notice a cut network; every process ends itself then, and `timeout`
# ends mpirun.
set -euo pipefail

[[ $# -ge 2 ]] || { echo "usage: hosts.sh HOST:PROCESSES,... train FLAGS..." >&2; exit 2; }
hosts=$1
shift
count=$(tr ',' '\n' <<<"$hosts" | awk -F: '{ sum += $2 == "" ? 1 : $2 } END { print sum }')
exec timeout --kill-after=60 "${KINDLING_AT_MOST:-7d}" \
    mpirun --host "$hosts" -n "$count" --bind-to none --mca odls_base_sigkill_timeout 20 \
    "${KINDLING:-kindling}" "$@" --resume-or-start
