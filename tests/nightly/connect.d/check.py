"""check.py FOLDER FORMAT PARTITIONS DEVICE KILLS FREEZES: compares two tables in PostgreSQL, one of
them filled after compaction, and the table topic, which has PARTITIONS, with `tstar export`. Of
values in FORMAT avro, it looks only at which keys have one.

DEVICE was erased. Prints counts, and exits with 1 if anything differs, or if the run did not contain
what it is about: killed and frozen writers, aborted records, retired ids, nulls.
"""
import csv
import datetime
import json
import pathlib
import re
import sys

# Types of PostgreSQL, with those of Connect.
TYPES = {
    "text": "string",
    "timestamp": "int64",
    "integer": "int32",
    "bigint": "int64",
    "double precision": "double",
}
COLUMN = re.compile(r"^    (\w+) ([a-z ]+?)( PRIMARY KEY| NOT NULL)?,?$", re.M)
# The columns that trips.sql lists: the type of each, and whether it may be null.
FIELDS = {}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"

faults = []


def expect(holds, fault):
    if not holds:
        faults.append(fault)


def millis(text):
    """A time as ms since 1970. PostgreSQL prints UTC without a zone, tstar with Z."""
    second, _, fraction = text.removesuffix("Z").replace("T", " ").partition(".")
    assert len(fraction) <= 3, text
    span = datetime.datetime.fromisoformat(second + "+00:00") - EPOCH
    return span // datetime.timedelta(milliseconds=1) + int(fraction.ljust(3, "0"))


def value(column, text):
    if text is None:
        return None
    read = {"timestamp": millis, "integer": int, "bigint": int, "text": str}
    return read.get(FIELDS[column][0], float)(text)


def rows(file, is_null):
    """The rows of a CSV file by id, their cells as values, and its columns."""
    with open(file, newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines)
        found = {}
        for row in reader:
            assert row["id"] not in found, row["id"]
            cells = row.items()
            found[row["id"]] = {at: value(at, None if is_null(at, it) else it) for at, it in cells}
        return found, reader.fieldnames


def exported(file):
    """The rows of `tstar export`, without their tags."""
    found, columns = rows(file, lambda column, text: text == "" and column != "absorbed")
    for row in found.values():
        del row["tags"]
    return found, [column for column in columns if column != "tags"]


def records(file):
    """The records of a dump: partition, key, value or None. A value that is not shown is empty."""
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            partition, _, size, key, text = line.rstrip("\n").split("\t")
            yield int(partition), key, None if size == "-1" else json.loads(text or "{}")


def check_schema(schema, columns):
    """Whether a schema is the documented one."""
    expected = []
    for column in columns:
        kind, is_optional = FIELDS[column]
        field = {"field": column, "type": TYPES[kind], "optional": is_optional}
        if kind == "timestamp":
            field |= {"name": TIMESTAMP, "version": 1}
        expected.append(field)
    whole = {"type": "struct", "name": "tstar.Trip", "version": 1, "optional": False}
    expect(schema == whole | {"fields": expected}, f"another schema: {schema}")


def differing(name, one, other):
    """Counts and shows what is different between two tables."""
    for at in sorted(one.keys() - other.keys())[:5]:
        faults.append(f"{name}: only export has {at}")
    for at in sorted(other.keys() - one.keys())[:5]:
        faults.append(f"{name}: export does not have {at}")
    different = [at for at in one.keys() & other.keys() if one[at] != other[at]]
    for at in sorted(different)[:5]:
        pairs = {column: (cell, other[at].get(column)) for column, cell in one[at].items()}
        cells = {column: pair for column, pair in pairs.items() if pair[0] != pair[1]}
        faults.append(f"{name}: {at} differs: {cells}")
    return len(different) + len(one.keys() ^ other.keys())


def murmur2(data):
    """The hash by which Java clients choose the partition of a key."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        value = value * factor & mask ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return value ^ value >> 15


def device_of(key):
    return key.rsplit("~", 1)[0]


def from_topic(file, columns, partitions, device):
    """The table that a dump of the topic amounts to, all its keys, and what was counted."""
    last, schemas = {}, []
    count = {"records": 0, "nulls": 0, "records of the erased device": 0}
    for partition, key, record in records(file):
        count["records"] += 1
        home = (murmur2(device_of(key).encode()) & 0x7FFFFFFF) % partitions
        expect(partition == home, f"{key} is in partition {partition}, not {home}")
        last[key] = record
        if record is None:
            count["nulls"] += 1
            continue
        count["records of the erased device"] += device_of(key) == device
        if not record:
            continue
        last[key] = record["payload"]
        expect(record["payload"]["id"] == key, f"the key of {key} is not its id")
        if record["schema"] not in schemas:
            schemas.append(record["schema"])
            check_schema(record["schema"], columns)
    return {key: row for key, row in last.items() if row is not None}, set(last), count


def main(folder, value_format, partitions, device, kills, freezes):
    folder, partitions = pathlib.Path(folder), int(partitions)
    for column, kind, constraint in COLUMN.findall((folder / "trips.sql").read_text()):
        FIELDS[column] = kind, not constraint
    export, columns = exported(folder / "export.csv")
    for column in columns:
        is_set = any(row[column] not in [None, ""] for row in export.values())
        expect(is_set, f"{column} is never set")
    topic, keys, count = from_topic(folder / "committed.tsv", columns, partitions, device)
    after, _, compacted = from_topic(folder / "table.tsv", columns, partitions, device)
    written = sum(1 for _ in records(folder / "uncommitted.tsv"))
    retired = {at for row in export.values() for at in row["absorbed"].split()}
    gone = retired | {key for key in keys if device_of(key) == device}
    count |= {
        "aborted records": written - count["records"],
        "retired ids": len(retired),
        "rows": len(export),
    }
    for what, number in count.items():
        print(f"{what}: {number}")
        expect(number > 0, f"{what}: none")
    expect(int(kills) > 0 and int(freezes) > 0, "no writer was killed and frozen")
    print(f"records after the replay and compaction: {compacted['records']}")
    tables = {"the topic": topic, "the topic after compaction": after}
    if value_format == "avro":
        for name, table in tables.items():
            expect(table.keys() == export.keys(), f"{name} has values of other keys")
        tables = {}
    for database in ["fleet", "late"]:
        file = folder / f"postgres-{database}.csv"
        tables[f"PostgreSQL, {database}"], shown = rows(file, lambda _, text: text == r"\N")
        expect(shown == columns, f"{database}: columns {shown}, not {columns}")
    for name, table in tables.items():
        expect(not gone & table.keys(), f"{name} has retired or erased ids: {gone & table.keys()}")
        expect(all(row["device_id"] != device for row in table.values()), f"{name} has {device}")
        print(f"rows that differ, {name}: {differing(name, export, table)}")
    print(f"writers killed: {kills}; frozen within a transaction: {freezes}")
    for fault in faults[:40]:
        print(f"check.py: {fault}", file=sys.stderr)
    print("everything equals the export" if not faults else f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


main(*sys.argv[1:])
