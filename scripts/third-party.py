#!/usr/bin/env python3
"""Prints the licences of every crate that is compiled into the command, as those licences ask of whoever passes the command on.

    scripts/third-party.py > THIRD-PARTY.txt

Reads `cargo metadata` and the sources that cargo has fetched; nothing is downloaded once the command has been built. A text that
several crates share is printed once. A crate whose sources hold no licence text is listed with the licence it declares.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "kindling-cli"
# LICENSE, LICENSE-MIT, licence.md, COPYING, NOTICE, UNLICENSE and the like.
TEXTS = re.compile(r"^(un)?licen[sc]e|^copying|^notice|^copyright", re.IGNORECASE)


def cargo(*words):
    answer = subprocess.run(["cargo", *words, "--locked"], cwd=ROOT, capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(f"third-party: cargo {words[0]} failed: {answer.stderr.strip().splitlines()[-1]}")
    return answer.stdout


def compiled_in():
    """Names and versions of what the command links: neither build scripts' crates nor those of tests."""
    lines = cargo("tree", "-p", PACKAGE, "-e", "normal,no-proc-macro", "--prefix", "none", "-f", "{p}").splitlines()
    return {tuple(line.split()[:2]) for line in lines if line.strip()}


def texts_of(package):
    """The licence texts in a package's sources, those of C libraries that it brings along included."""
    folder = pathlib.Path(package["manifest_path"]).parent
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()
             and (TEXTS.match(path.name) or TEXTS.match(path.parent.name)) and path.suffix not in (".rs", ".toml", ".json")]
    return [path.read_text(errors="replace").replace("\r\n", "\n").strip() for path in found]


def main():
    wanted = compiled_in()
    crates, owners = [], {}
    for package in sorted(json.loads(cargo("metadata", "--format-version", "1"))["packages"], key=lambda package: package["name"]):
        # Without a source it is a crate of this repository, whose licences lie beside this list.
        if package["source"] is None or (package["name"], f"v{package['version']}") not in wanted:
            continue
        name = f"{package['name']} {package['version']}"
        crates.append((name, package["license"] or "see its text", package["repository"] or ""))
        for text in texts_of(package):
            owners.setdefault(text, []).append(name)
    if len(crates) < 100:
        sys.exit(f"third-party: only {len(crates)} crates were found; cargo's answer is misread")
    print(f"The command kindling is made of Kindling's own crates, Rust's standard library (MIT OR Apache-2.0) and these {len(crates)} crates:\n")
    for name, licence, repository in crates:
        print(f"  {name}: {licence}{f', {repository}' if repository else ''}")
    for text, names in owners.items():
        print(f"\n{'=' * 80}\n{', '.join(names)}\n{'-' * 80}\n{text}")


main()
