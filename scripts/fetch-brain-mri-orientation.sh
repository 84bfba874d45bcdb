#!/usr/bin/env bash
# Brings the MR volumes of the data set `brain-mri-orientation` into Kindling's cache folder. Needs no root.
#
#   scripts/fetch-brain-mri-orientation.sh
#
# The folder is $KINDLING_DATA/brain-mri-orientation, or, where KINDLING_DATA is not set, kindling/brain-mri-orientation in
# the user's cache folder. Where an earlier version fetched to brain-planes beside it, that folder stays in use. Volumes that
# are there and intact are left alone, so a second run does nothing. A volume appears under its name only once its SHA-256 is
# right; an interrupted run leaves the folder as it was.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/fetch.sh
source "$here/lib/fetch.sh"
# shellcheck source=lib/volumes.sh
source "$here/lib/volumes.sh"

cache_folder volumes
name=brain-mri-orientation
[[ -d "$data/$name" || ! -d "$data/brain-planes" ]] || name=brain-planes
folder_for "$name"
fetch_volumes brain-mri-orientation "$here/../datasets/brain-mri-orientation/SHA256SUMS" "$data/brain-parts"
