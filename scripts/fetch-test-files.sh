#!/usr/bin/env bash
# Brings the scans that tests and benchmarks read into Kindling's cache folder. Needs no root; needs Python's pip.
#
#   scripts/fetch-test-files.sh [--large]
#
# The folder is $KINDLING_DATA/test-files, or, where KINDLING_DATA is not set, kindling/test-files in the user's cache
# folder. The files are those that the Python packages pydicom, scikit-image and stardist ship for their own tests and
# examples: 19 MB of downloads, 13 MB kept. --large also brings pydicom-data, 34 MB packed and 58 MB kept: whole CTs and
# radiographs. A package is taken only if its SHA-256 is right, and a folder appears under its name only when it is
# complete; a second run does nothing. Licences: pydicom and pydicom-data MIT, scikit-image and stardist BSD-3-Clause.
set -euo pipefail

# package version sha256-of-the-wheel folder-in-it
readonly PACKAGES=(
    "pydicom 3.0.2 abf971a5440f84dbaf42c4b6758e30e62480902584f8b270b9a5d146e278a07b pydicom/data/test_files"
    "scikit-image 0.26.0 74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af skimage/data"
    "stardist 0.9.2 2316c0feb7bd5621e7a277cb3868df475c338943c591925c420ee3622c42f023 stardist/data/images"
)
readonly LARGE=(
    "pydicom-data 1.0.0 622ac97265f1d91f76b5120b5bd6eb0f57737c392ef863b72c71779c91e33637 data_store/data"
)

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/fetch.sh
source "$here/lib/fetch.sh"

wanted=("${PACKAGES[@]}")
case ${1:-} in
'') ;;
--large) wanted+=("${LARGE[@]}") ;;
*) fail "knows only --large, not $1" ;;
esac

need sha256sum "apt-get install coreutils"
need_pip
cache_folder files
folder_for test-files
start_work

for entry in "${wanted[@]}"; do
    read -r name version sum inside <<<"$entry"
    # The folder of another version, or one that was not finished, is replaced.
    if [[ "$(cat -- "$folder/$name/.version" 2>/dev/null)" == "$version" ]]; then
        echo "test-files: $name $version is in $folder already"
        continue
    fi
    # One wheel, whatever Python runs this: nothing of it but files is used.
    unpack_wheel "$name==$version" --platform manylinux_2_28_x86_64 --platform manylinux_2_24_x86_64 --platform any \
        --python-version 3.11 --implementation cp --abi cp311 --abi none
    is_intact "$wheel" "$sum" ||
        fail "the downloaded $name $version is not the one listed in this script; nothing was changed"
    [[ -d "$work/wheel/files/$inside" ]] || fail "$name $version holds no $inside"
    echo "$version" >"$work/wheel/files/$inside/.version"
    rm -rf -- "${folder:?}/$name"
    mv -- "$work/wheel/files/$inside" "$folder/$name" || fail "cannot write to $folder (is the disk full?)"
    echo "test-files: $name $version is in $folder"
done
