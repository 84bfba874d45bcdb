#!/usr/bin/env bash
# Brings the pictures of the data set `fashion-mnist` into Kindling's cache folder. Needs no root.
#
#   scripts/fetch-fashion-mnist.sh
#
# The folder is $KINDLING_DATA/fashion-mnist, or, where KINDLING_DATA is not set, kindling/fashion-mnist in the user's
# cache folder. Files that are there and intact are left alone, so a second run does nothing. A file appears under its
# name only once its SHA-256 is right; an interrupted run leaves the folder as it was.
set -euo pipefail

readonly PACKAGE=dataset-fashion-mnist
readonly INSIDE=usr/share/datasets/fashion-mnist

fail() {
    printf 'fetch-fashion-mnist: %s\n' "$*" >&2
    exit 1
}

need() {
    command -v "$1" >/dev/null || fail "needs $1, which is not here ($2)"
}

# The last line a tool wrote: what it died of.
reason() {
    tail -n 1 "$work/log" 2>/dev/null || true
}

# The sums are those of the unpacked files: every release of Debian packs them anew.
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

need gzip "apt-get install gzip"
need sha256sum "apt-get install coreutils"

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
readonly sums=$here/../datasets/fashion-mnist/SHA256SUMS
[[ -f "$sums" ]] || fail "$sums is missing: run the script from a complete checkout"

if [[ -z "${KINDLING_DATA:-}" && -z "${XDG_CACHE_HOME:-}" && -z "${HOME:-}" ]]; then
    fail "neither KINDLING_DATA nor HOME is set: set KINDLING_DATA to the folder that the files shall go to"
fi
data=${KINDLING_DATA:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/kindling}
mkdir -p -- "$data/fashion-mnist" 2>/dev/null && folder=$(cd -- "$data/fashion-mnist" && pwd) && [[ -w "$folder" ]] ||
    fail "cannot write to $data/fashion-mnist: set KINDLING_DATA to a folder that you can write to"
readonly folder

missing=()
while read -r sum name; do
    is_intact "$folder/$name.gz" "$sum" || missing+=("$name")
done <"$sums"
if ((${#missing[@]} == 0)); then
    echo "fashion-mnist: all files are in $folder already"
    exit 0
fi

# On the same file system as the folder, so that the last step is a rename.
work=$(mktemp -d -- "$folder/.fetching.XXXXXX") || fail "cannot make a temporary folder in $folder"
trap 'rm -rf -- "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

from=/$INSIDE
if [[ -d $from ]]; then
    echo "fashion-mnist: taking the files of the installed package $PACKAGE"
else
    need apt-get "a Debian or Ubuntu system has it"
    need dpkg-deb "a Debian or Ubuntu system has it"
    echo "fashion-mnist: fetching the Debian package $PACKAGE (31 MB)"
    mkdir "$work/package"
    (cd "$work/package" && download_package) || exit 1
    dpkg-deb -x "$work/package/$PACKAGE"_*.deb "$work/package/files" 2>"$work/log" ||
        fail "the downloaded package $PACKAGE cannot be unpacked ($(reason))"
    from=$work/package/files/$INSIDE
fi
for name in "${missing[@]}"; do
    cp -- "$from/$name.gz" "$work/" 2>/dev/null || fail "this release's $PACKAGE holds no $name.gz"
    sum=$(awk -v name="$name" '$2 == name { print $1 }' "$sums")
    is_intact "$work/$name.gz" "$sum" ||
        fail "the $name.gz of $PACKAGE is not the one listed in datasets/fashion-mnist/SHA256SUMS; nothing was changed"
done
for name in "${missing[@]}"; do
    chmod 644 "$work/$name.gz"
    mv -f -- "$work/$name.gz" "$folder/" || fail "cannot write to $folder (is the disk full?)"
done
echo "fashion-mnist: $(wc -l <"$sums") files are in $folder"
