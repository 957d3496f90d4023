"""Prints the licences of C libraries that crates compile into tstar, which cargo-about cannot see.

usage: python3 deploy/release.d/bundled.py TARGET FEATURES

Fails if a crate links a library that this script does not know.
"""

import json
import pathlib
import subprocess
import sys

# Crate, library, and the file in the crate that has its licence.
BUNDLED = {
    "rdkafka-sys": ("librdkafka", "librdkafka/LICENSES.txt"),
    "libz-sys": ("zlib", "src/zlib/LICENSE"),
    "zstd-sys": ("Zstandard", "zstd/LICENSE"),
    "openssl-src": ("OpenSSL", "openssl/LICENSE.txt"),
}
# The source of SQLite has no licence, but a blessing at its beginning.
SQLITE = "libsqlite3-sys"
# Crates that declare a library and compile none of another project into tstar, or whose own licence
# covers it. clang-sys runs while others are built.
OWN = {"clang-sys", "openssl-sys", "prettyplease", "rayon-core", "ring"}


def packages(target, features):
    """The packages that tstar is built of, without those of tests."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--offline"]
    command += ["--filter-platform", target]
    command += ["--no-default-features", "--features", features]
    found = json.loads(subprocess.check_output(command))
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    seen, rest = set(), [found["resolve"]["root"]]
    while rest:
        package = rest.pop()
        if package in seen:
            continue
        seen.add(package)
        for dep in nodes[package]["deps"]:
            if any(kind["kind"] != "dev" for kind in dep["dep_kinds"]):
                rest.append(dep["pkg"])
    return [package for package in found["packages"] if package["id"] in seen]


def section(library, crate, text):
    print("\n" + "=" * 78)
    print(f"{library}, compiled by {crate['name']} {crate['version']}\n\n{text.strip()}")


def main(target, features):
    unknown = []
    for crate in packages(target, features):
        name = crate["name"]
        folder = pathlib.Path(crate["manifest_path"]).parent
        if name in BUNDLED:
            library, path = BUNDLED[name]
            section(library, crate, (folder / path).read_text(encoding="utf-8"))
        elif name == SQLITE:
            with (folder / "sqlite3/sqlite3.h").open(encoding="utf-8") as header:
                head = "".join(line for _, line in zip(range(12), header))
            if "disclaims copyright" not in head:
                sys.exit(f"{folder}: sqlite3.h does not begin with the blessing any more")
            section("SQLite", crate, head)
        elif crate["links"] and name not in OWN:
            unknown.append(f"{name} {crate['version']} links {crate['links']}")
    if unknown:
        sys.exit(f"add them to {__file__}:\n" + "\n".join(unknown))


main(*sys.argv[1:])
