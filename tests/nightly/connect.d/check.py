"""check.py FOLDER DEVICE KILLS FREEZES: compares the table in PostgreSQL, the table topic and `tstar export`.

DEVICE was erased. Prints counts, and exits with 1 if anything differs, or if the run did not contain what it is
about: killed and frozen writers, retired ids, tombstones.
"""
import csv
import datetime
import json
import pathlib
import sys

TIMES = ["t_star", "start_time", "end_time"]
INTEGERS = ["samples", "jumps", "version"]
TEXTS = ["id", "device_id", "driver", "absorbed"]
OPTIONAL = ["avg_speed_mps", "max_speed_mps", "jumps", "driver"]
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
    if column in TIMES:
        return millis(text)
    if column in INTEGERS:
        return int(text)
    return text if column in TEXTS else float(text)


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
    """The records of a dump: partition, key, value or None."""
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            partition, _, size, key, text = line.rstrip("\n").split("\t")
            yield int(partition), key, None if size == "-1" else json.loads(text)


def check_schema(schema, columns):
    """Whether a schema is the documented one."""
    types = {"samples": "int32", "jumps": "int32", "version": "int64"}
    types |= {column: "int64" for column in TIMES} | {column: "string" for column in TEXTS}
    expected = []
    for column in columns:
        field = {"field": column, "type": types.get(column, "double")}
        field["optional"] = column in OPTIONAL + ["absorbed"]
        if column in TIMES:
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
        cells = {k: (one[at].get(k), other[at].get(k)) for k in one[at] if one[at][k] != other[at].get(k)}
        faults.append(f"{name}: {at} differs: {cells}")
    return len(different) + len(one.keys() ^ other.keys())


def from_topic(folder, columns, device):
    """What the last record of each key says, and what was counted on the way."""
    last, partitions, schemas = {}, {}, []
    count = {"records": 0, "tombstones": 0, "of the erased device": 0}
    for partition, key, record in records(folder / "table.tsv"):
        count["records"] += 1
        owner = key.rsplit("~", 1)[0]
        expect(partitions.setdefault(owner, partition) == partition, f"{owner} is in two partitions")
        if record is None:
            count["tombstones"] += 1
        else:
            count["of the erased device"] += owner == device
            expect(record["payload"]["id"] == key, f"the key of {key} is not its id")
            if record["schema"] not in schemas:
                schemas.append(record["schema"])
                check_schema(record["schema"], columns)
        last[key] = record and record["payload"]
    return {key: row for key, row in last.items() if row is not None}, last, count


def main(folder, device, kills, freezes):
    folder = pathlib.Path(folder)
    export, columns = exported(folder / "export.csv")
    table, table_columns = rows(folder / "postgres.csv", lambda _, text: text == r"\N")
    expect(table_columns == columns, f"columns {table_columns}, not {columns}")
    for column in columns:
        expect(any(row[column] not in [None, ""] for row in export.values()), f"{column} is never set")
    topic, last, count = from_topic(folder, columns, device)
    count["rows"] = len(export)
    count["rows that differ"] = differing("PostgreSQL", export, table)
    count["keys that differ"] = differing("topic", export, topic)
    retired = {at for row in export.values() for at in row["absorbed"].split()}
    count["retired ids"] = len(retired)
    expect(not retired & table.keys(), f"retired and in PostgreSQL: {retired & table.keys()}")
    erased = [key for key in last if key.rsplit("~", 1)[0] == device]
    expect(all(last[key] is None for key in erased), f"{device} is left in the topic")
    expect(all(row["device_id"] != device for row in table.values()), f"{device} is in PostgreSQL")
    count["aborted records"] = sum(1 for _ in records(folder / "uncommitted.tsv")) - count["records"]
    happened = {"rows", "records", "tombstones", "retired ids", "of the erased device"}
    for what in happened:
        expect(count[what] > 0, f"{what}: none")
    expect(int(kills) > 0 and int(freezes) > 0, "no writer was killed and frozen")
    for what, number in count.items():
        print(f"{what}: {number}")
    print(f"writers killed: {kills}; frozen over a hand-over: {freezes}")
    for fault in faults[:40]:
        print(f"check.py: {fault}", file=sys.stderr)
    print("PostgreSQL equals the export" if not faults else f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


main(*sys.argv[1:])
