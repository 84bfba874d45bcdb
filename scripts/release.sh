#!/usr/bin/env bash
# Packs the built command as people get it: one archive with the command, licences, shell completions and manual pages, and the
# sums of everything in the folder. Builds nothing.
#
#   scripts/release.sh [--kindling BINARY] [--out FOLDER]
#
# BINARY is target/release/kindling, which `cargo build --release --locked` makes. FOLDER is target/dist; wheels that lie there
# already are listed in SHA256SUMS too. Needs cargo, whose sources hold the licences of what the command is made of, Python 3 and
# GNU tar. The same binary and commit make the same archive, byte for byte.
#
# The archive is unpacked again and its command run before it gets its name.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
binary=$root/target/release/kindling
out=$root/target/dist

fail() {
    printf 'release: %s\n' "$*" >&2
    exit 1
}

while (($# > 0)); do
    case $1 in
        --kindling) binary=${2:?release: --kindling needs a file} && shift 2 ;;
        --out) out=${2:?release: --out needs a folder} && shift 2 ;;
        *) fail "knows --kindling BINARY and --out FOLDER, not '$1'" ;;
    esac
done
[[ -x $binary && -f $binary ]] || fail "there is no command at $binary: cargo build --release --locked makes it"
[[ $(tar --version 2>/dev/null) == *'GNU tar'* ]] || fail "needs GNU tar"
mkdir -p -- "$out"
out=$(cd -- "$out" && pwd)

version=$("$binary" --version) || fail "$binary does not run here"
version=$(cut -d ' ' -f 2 <<<"$version")
name=kindling-$version-$(uname -m)-$(uname -s | tr '[:upper:]' '[:lower:]')
work=$(mktemp -d -- "$out/.release.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
folder=$work/$name

mkdir -p -- "$folder"/{completions,man/man1,scripts/lib}
install -m 755 -- "$binary" "$folder/kindling"
cp -- "$root"/{README.md,CHANGELOG.md,LICENSE-MIT,LICENSE-APACHE} "$folder/"
# What CUDA needs beside the driver, for machines without a toolkit.
install -m 755 -- "$root/scripts/fetch-nvrtc.sh" "$folder/scripts/"
cp -- "$root/scripts/lib/fetch.sh" "$folder/scripts/lib/"
# The names under which each shell looks for them.
"$binary" completions bash >"$folder/completions/kindling.bash"
"$binary" completions zsh >"$folder/completions/_kindling"
"$binary" completions fish >"$folder/completions/kindling.fish"
"$binary" completions elvish >"$folder/completions/kindling.elv"
"$binary" completions powershell >"$folder/completions/_kindling.ps1"
"$binary" man "$folder/man/man1" 2>/dev/null
python3 "$root/scripts/third-party.py" >"$folder/THIRD-PARTY.txt"

# The same bytes for the same commit: order, owner, times and the header of gzip depend on nothing else.
time=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w --mtime="@$time" -cf - "$name" |
    gzip -9 -n >"$work/archive"

mkdir -- "$work/unpacked"
tar -C "$work/unpacked" -xzf "$work/archive"
told=$("$work/unpacked/$name/kindling" --version) || fail "the packed command does not run"
[[ $(cut -d ' ' -f 2 <<<"$told") == "$version" ]] || fail "the packed command says $told"
mv -- "$work/archive" "$out/$name.tar.gz"

cd -- "$out"
shopt -s nullglob
sha256sum -- *.tar.gz *.whl >"$work/sums"
mv -- "$work/sums" SHA256SUMS
needed=$(grep -aoE 'GLIBC_2\.[0-9]+' "$binary" | sort -V | tail -n 1 || true)
echo "release: $out/$name.tar.gz, $(stat -c %s "$name.tar.gz") bytes${needed:+, needs glibc ${needed#GLIBC_} or newer}"
