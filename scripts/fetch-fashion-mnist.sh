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

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/fetch.sh
source "$here/lib/fetch.sh"

need gzip "apt-get install gzip"
need sha256sum "apt-get install coreutils"
readonly sums=$here/../datasets/fashion-mnist/SHA256SUMS
[[ -f "$sums" ]] || fail "$sums is missing: run the script from a complete checkout"
cache_folder files
folder_for fashion-mnist

missing=()
while read -r sum name; do
    is_intact_unpacked "$folder/$name.gz" "$sum" || missing+=("$name")
done <"$sums"
if ((${#missing[@]} == 0)); then
    echo "fashion-mnist: all files are in $folder already"
    exit 0
fi

start_work
from=/$INSIDE
if [[ -d $from ]]; then
    echo "fashion-mnist: taking the files of the installed package $PACKAGE"
else
    echo "fashion-mnist: fetching the Debian package $PACKAGE (31 MB)"
    unpack_package "$PACKAGE"
    from=$work/package/files/$INSIDE
fi
for name in "${missing[@]}"; do
    cp -- "$from/$name.gz" "$work/" 2>/dev/null || fail "this release's $PACKAGE holds no $name.gz"
    sum=$(awk -v name="$name" '$2 == name { print $1 }' "$sums")
    is_intact_unpacked "$work/$name.gz" "$sum" ||
        fail "the $name.gz of $PACKAGE is not the one listed in datasets/fashion-mnist/SHA256SUMS; nothing was changed"
done
for name in "${missing[@]}"; do
    keep "$work/$name.gz" "$folder"
done
echo "fashion-mnist: $(wc -l <"$sums") files are in $folder"
