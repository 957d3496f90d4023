"""What tests/nightly/connect asks about records and sinks; its callers are in fleet.sh."""
import collections
import json
import pathlib
import sys


def slices(folder, count):
    """Splits the samples of stdin into files of `KEY<tab>VALUE` lines, in their order."""
    folder, count = pathlib.Path(folder), int(count)
    folder.mkdir()
    lines = sys.stdin.readlines()
    for nth in range(count):
        own = lines[len(lines) * nth // count : len(lines) * (nth + 1) // count]
        records = (json.loads(line)["device_id"] + "\t" + line for line in own)
        (folder / str(nth)).write_text("".join(records))


def victim(folder):
    """Prints the device with the most samples."""
    devices = collections.Counter()
    for file in pathlib.Path(folder).iterdir():
        devices.update(line.split("\t")[0] for line in file.read_text().splitlines())
    print(min(devices, key=lambda device: (-devices[device], device)))


def is_running():
    """Whether the status of a connector has tasks, all running."""
    status = json.loads(sys.stdin.read() or "{}")
    states = [task["state"] for task in status.get("tasks", [])]
    if "FAILED" in states:
        print(json.dumps(status), file=sys.stderr)
    return states != [] and set(states) == {"RUNNING"}


def is_drained(dump):
    """Whether the offsets of a sink are past the last record of each partition."""
    last = {}
    for line in pathlib.Path(dump).read_text().splitlines():
        partition, offset = line.split("\t")[:2]
        last[int(partition)] = int(offset)
    offsets = json.loads(sys.stdin.read() or '{"offsets": []}')["offsets"]
    committed = {it["partition"]["kafka_partition"]: it["offset"]["kafka_offset"] for it in offsets}
    return last != {} and all(committed.get(at, 0) > offset for at, offset in last.items())


def config(file, name, *changes):
    """Prints the configuration of another sink, as REST takes it."""
    lines = pathlib.Path(file).read_text().splitlines() + [f"name={name}", *changes]
    settings = (line for line in lines if line and not line.startswith("#"))
    print(json.dumps(dict(line.split("=", 1) for line in settings)))


what, *arguments = sys.argv[1:]
if what == "slices":
    slices(*arguments)
elif what == "victim":
    victim(*arguments)
elif what == "config":
    config(*arguments)
elif what == "running":
    sys.exit(0 if is_running() else 1)
elif what == "drained":
    sys.exit(0 if is_drained(*arguments) else 1)
else:
    sys.exit(f"records.py: what is {what}?")
