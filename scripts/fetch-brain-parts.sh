#!/usr/bin/env bash
# Brings the MR volumes and the atlas of the data set `brain-parts` into Kindling's cache folder. Needs no root.
#
#   scripts/fetch-brain-parts.sh
#
# The folder is $KINDLING_DATA/brain-parts, or, where KINDLING_DATA is not set, kindling/brain-parts in the user's cache folder.
# Volumes that fetch-brain-mri-orientation.sh has brought are taken from there. Those that are in the folder and intact are left
# alone, so a second run does nothing. A volume appears under its name only once its SHA-256 is right; an interrupted run leaves
# the folder as it was.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/fetch.sh
source "$here/lib/fetch.sh"
# shellcheck source=lib/volumes.sh
source "$here/lib/volumes.sh"

cache_folder volumes
folder_for brain-parts
fetch_volumes brain-parts "$here/../datasets/brain-parts/SHA256SUMS" "$data/brain-mri-orientation" "$data/brain-planes"
