"""Compares the crates that a program is built of with the list in it, with its SBOM and with the
list of licences. The list in it may name more: cargo-auditable takes features that only the tests'
dependencies enable for those of the program.

usage: python3 crates.py PROGRAM SBOM THIRD-PARTY.txt FEATURES
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib


def audited(program):
    """Names and versions of the crates in the program, by its section of cargo-auditable."""
    with tempfile.TemporaryDirectory() as folder:
        section = pathlib.Path(folder, "section")
        command = ["objcopy", "--dump-section", f".dep-v0={section}", program, f"{folder}/copy"]
        subprocess.run(command, check=True)
        packages = json.loads(zlib.decompress(section.read_bytes()))["packages"]
    return {(it["name"], it["version"]) for it in packages}


def built(features):
    """Names and versions of the crates that cargo builds the program of, and its macros."""
    command = ["cargo", "tree", "--locked", "--offline", "--no-default-features"]
    command += ["--features", features, "--edges", "normal", "--prefix", "none", "--format", "{p}"]
    lines = subprocess.check_output(command, text=True).splitlines()
    return {(name, version[1:]) for name, version in (line.split()[:2] for line in lines if line)}


def main(program, sbom, licences, features):
    crates = built(features)
    if crates - audited(program):
        sys.exit(f"not in the program's own list: {sorted(crates - audited(program))}")
    if len(crates) < 100 or not any(name == "rdkafka-sys" for name, _ in crates):
        sys.exit(f"not the crates of tstar: {sorted(crates)}")
    found = json.loads(pathlib.Path(sbom).read_text(encoding="utf-8"))
    listed = {(it["name"], it["version"]) for it in found["components"]}
    listed.add((found["metadata"]["component"]["name"], found["metadata"]["component"]["version"]))
    if crates - listed:
        sys.exit(f"not in the SBOM: {sorted(crates - listed)}")
    text = pathlib.Path(licences).read_text(encoding="utf-8")
    named = set(re.findall(r"^  (\S+) (\d\S*?),?(?: \S+)?$", text, re.M))
    ours = {it for it in crates if it[0] in ("tstar", "tstar-core", "rdkafka-extra")}
    if crates - named - ours:
        sys.exit(f"without a licence text: {sorted(crates - named - ours)}")
    for library in ("librdkafka", "SQLite", "zlib", "Zstandard"):
        if f"\n{library}, compiled by " not in text:
            sys.exit(f"without a licence text: {library}")
    print(f"licences: {len(crates)} crates in the program's list, the SBOM and the licence texts")


main(*sys.argv[1:])
