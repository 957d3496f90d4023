"""Compares the system calls of programs with those that a unit allows.

usage: python3 calls.py UNIT TRACE...

A trace is what `strace -f -o TRACE` wrote.
"""

import pathlib
import re
import subprocess
import sys


def groups():
    """The groups of systemd, each with its calls and groups."""
    listed = subprocess.check_output(["systemd-analyze", "syscall-filter", "--no-pager"], text=True)
    found, name = {}, None
    for line in re.sub(r"\x1b\[[0-9;]*m", "", listed).splitlines():
        if line.startswith("@"):
            name = line.strip()
            found[name] = set()
        elif line.startswith("    ") and name and not line.lstrip().startswith("#"):
            found[name].add(line.strip())
    return found


def expand(name, known):
    if not name.startswith("@"):
        return {name}
    return set().union(*(expand(entry, known) for entry in known[name]))


def allowed(unit):
    known, calls = groups(), set()
    text = pathlib.Path(unit).read_text(encoding="utf-8")
    for value in re.findall(r"^SystemCallFilter=(.*)$", text, re.M):
        named = [expand(name, known) for name in value.lstrip("~").split()]
        calls = calls - set().union(*named) if value.startswith("~") else calls.union(*named)
    return calls | expand("@default", known)


def main(unit, *traces):
    calls = allowed(unit)
    if "read" not in calls or "reboot" in calls:
        sys.exit(f"{unit} allows {sorted(calls)}")
    made = set()
    for trace in traces:
        text = pathlib.Path(trace).read_text(encoding="utf-8", errors="replace")
        made |= set(re.findall(r"^\d+ +(\w+)\(", text, re.M))
    # strace starts the program; the service manager does that before the filter holds.
    if len(made) < 30 or "epoll_wait" not in made and "epoll_pwait" not in made:
        sys.exit(f"not the calls of a daemon: {sorted(made)}")
    if made - calls:
        sys.exit(f"{unit} does not allow {sorted(made - calls)}")
    print(f"unit: allows the {len(made)} system calls that a daemon and a demo make")


main(*sys.argv[1:])
