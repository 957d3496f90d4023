"""Stores of the program: what it decided is what the package decides, and reads."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from datetime import datetime, timezone

import pyarrow as pa
import pytest
from pyarrow import parquet

import tstar
from conftest import EVENING, fleet

TABLES = ("trips", "stops", "points", "events")
SEEDS = range(11, 11 + int(os.environ.get("TSTAR_TEST_FLEETS", "1")))


def of_segments(result) -> dict[str, list]:
    """What a store has, too. It does not have what each row did."""
    tables = {name: pa.table(getattr(result, name)) for name in TABLES}
    tables["events"] = tables["events"].drop_columns(["effect"])
    return {name: table.to_pylist() for name, table in tables.items()}


def make(path, root, result, rules=None) -> None:
    """A store with what was decided, by the schema of the program."""
    ids: dict[str, dict[str, list[int]]] = {}
    for event in pa.table(result.events).to_pylist():
        history = ids.setdefault(event["now_id"], {})
        history.setdefault(str(ms(event["t_star"])), []).append(2 * event["row"])
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in ("trips", "log", "journal", "views", "tags"):
            connection.executescript((root / f"schema/{name}.sql").read_text())
        connection.execute("PRAGMA application_id = 0x54737472")
        connection.execute("PRAGMA user_version = 1")
        connection.execute(
            "INSERT INTO log VALUES (1, 'files', ?, 0, NULL)", [(rules or result.rules).json]
        )
        for table in (result.trips, result.stops):
            for it in pa.table(table).to_pylist():
                start, end = ms(it["start_time"]), ms(it["end_time"])
                for bucket in range(start - start % 86_400_000, end + 1, 86_400_000):
                    row = {
                        "device_id": it["device_id"],
                        "bucket": bucket,
                        "end_time": end,
                        "start_time": start,
                        "t_star": ms(it["t_star"]),
                        "kind": it["kind"],
                        "ids": json.dumps(ids[it["id"]]),
                        "version": it["version"],
                        "partition": 0,
                        "samples": it["samples"],
                        "parked_ms": 0,
                        "distance_m": 0,
                        "start_lat": 0,
                        "start_lon": 0,
                        "end_lat": 0,
                        "end_lon": 0,
                        "min_lat": 0,
                        "min_lon": 0,
                        "max_lat": 0,
                        "max_lon": 0,
                        "path": it["path"],
                    }
                    names, marks = ", ".join(row), ", ".join("?" * len(row))
                    connection.execute(
                        f"INSERT INTO trips ({names}) VALUES ({marks})", list(row.values())
                    )


def ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


@pytest.fixture(scope="module")
def decided(table):
    return tstar.trips(table, path=True, max_gap="7m")


@pytest.fixture
def store(tmp_path, root, decided):
    make(tmp_path / "trips.db", root, decided)
    return tmp_path / "trips.db"


def test_a_store_has_the_same_tables(store, decided):
    for name in (store, str(store), f"sqlite:{store}"):
        read = tstar.read(name, path=True)
        assert of_segments(read) == of_segments(decided)
        assert read.rules == decided.rules and read.rules.max_gap == 420.0
    assert read.counts["trips"] == decided.counts["trips"]
    assert len(read.effects) == len(read.dead_letters) == 0


def test_a_part_of_a_store(store, decided):
    (first, *_) = pa.table(decided.trips).to_pylist()
    device = first["device_id"]
    trips = [it for it in pa.table(decided.trips).to_pylist() if it["device_id"] == device]
    assert pa.table(tstar.read(store, device=device, path=True).trips).to_pylist() == trips
    since, until = trips[2]["end_time"], trips[5]["start_time"]
    part = tstar.read(store, device=device, since=since, until=until, path=True)
    assert pa.table(part.trips).to_pylist() == trips[2:5]
    of_all = pa.table(tstar.read(store, since=since, until=until).trips)
    assert of_all["device_id"].unique().to_pylist() != [device]
    assert len(tstar.read(store, device="nobody").trips) == 0


def test_a_span_of_a_store_has_no_evidence(store, decided):
    trip = pa.table(decided.trips).to_pylist()[3]
    for span in [{"since": trip["start_time"]}, {"until": trip["end_time"]}]:
        read = tstar.read(store, device=trip["device_id"], **span)
        assert trip["id"] in pa.table(read.trips)["id"].to_pylist()
        with pytest.raises(tstar.InputError, match="read the store without them"):
            read.evidence(trip["id"])
    read = tstar.read(store, device=trip["device_id"])
    assert read.evidence(trip["id"]) == decided.evidence(trip["id"])


def test_what_is_no_store(tmp_path, store):
    with pytest.raises(FileNotFoundError, match="no store at .*; tstar ingest makes one"):
        tstar.read(tmp_path / "other.db")
    text = tmp_path / "text.db"
    text.write_text("hello " * 1000)
    with pytest.raises(tstar.InputError, match="cannot be read: file is not a database"):
        tstar.read(text)
    with closing(sqlite3.connect(tmp_path / "empty.db")) as connection, connection:
        connection.execute("CREATE TABLE x (y)")
    with pytest.raises(tstar.InputError, match="is not a store of tstar"):
        tstar.read(tmp_path / "empty.db")

    def change(statement):
        with closing(sqlite3.connect(store)) as connection, connection:
            connection.execute(statement)

    change("UPDATE trips SET path = x'01' WHERE rowid = 3")
    with pytest.raises(tstar.InputError, match="stored trip of device .*: the path"):
        tstar.read(store)
    change("PRAGMA user_version = 2")
    with pytest.raises(tstar.InputError, match="has format 2; this version of the package reads 1"):
        tstar.read(store)


@pytest.mark.parametrize("settings", [{}, {"max_gap": "10m", "min_stop": "2m"}, {"min_stop": None}])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_program_decides_the_same(seed, settings, tmp_path, program):
    """The same samples in the same order: the same tables, to the bit."""
    columns = fleet(seed, devices=20, samples=500)
    rows = [dict(zip(columns, it)) for it in zip(*columns.values())]
    lines = [json.dumps({name: it for name, it in row.items() if it is not None}) for row in rows]
    (tmp_path / "log.ndjson").write_text("\n".join(lines))
    flags = [f"--{name.replace('_', '-')}={value or 'off'}" for name, value in settings.items()]
    command = [program, "ingest", "log.ndjson", "--store", "sqlite:trips.db", "--json", *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    result = tstar.trips(pa.table(columns), **settings)
    store = tstar.read(tmp_path / "trips.db")
    assert of_segments(store) == of_segments(result)
    shared = ("delivered", "applied", "duplicates", "conflicting", "dropped", "dead_letters")
    assert {it: result.counts[it] for it in shared} == {it: counted[it] for it in shared}
    assert {it: counted["arrivals"][it] for it in result.counts["arrivals"]} == result.counts[
        "arrivals"
    ]
    # The columns of an export are those of the tables.
    command = [
        program,
        "export",
        "--store",
        "sqlite:trips.db",
        "--kind",
        "all",
        "--out",
        "all.parquet",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    exported = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    both = pa.table(result.trips).to_pylist() + pa.table(result.stops).to_pylist()
    by_id = {it["id"]: it for it in both}
    assert len(exported) == len(by_id)
    for row in exported:
        own = by_id[row["id"]]
        for name in set(row) & set(own):
            assert row[name] == own[name], (name, row["id"])


def test_long_trips_of_the_program(tmp_path, program):
    """Their paths are compressed."""
    import random

    dice = random.Random(3)
    columns = {
        "device_id": ["a"] * 9000,
        "time": [EVENING + 1000 * it for it in range(9000)],
        "lat": [50 + dice.random() / 1000 for _ in range(9000)],
        "lon": [8.0] * 9000,
        "speed": [10.0] * 9000,
    }
    lines = [json.dumps(dict(zip(columns, it))) for it in zip(*columns.values())]
    (tmp_path / "log.ndjson").write_text("\n".join(lines))
    command = [program, "ingest", "log.ndjson", "--store", "sqlite:trips.db"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    with closing(sqlite3.connect(tmp_path / "trips.db")) as connection:
        (path,) = connection.execute("SELECT path FROM trips").fetchone()
    assert path[0] == 2
    result = tstar.trips(pa.table(columns), path=True)
    assert of_segments(tstar.read(tmp_path / "trips.db", path=True)) == of_segments(result)
    assert len(tstar.decode_path(path)) == 9000


def test_evidence_of_the_program(tmp_path, program):
    if (
        "--evidence"
        not in subprocess.run(
            [program, "explain", "--help"], capture_output=True, text=True, check=True
        ).stdout
    ):
        pytest.skip("this program writes no evidence")
    columns = fleet(5, devices=1)
    rows = [dict(zip(columns, it)) for it in zip(*columns.values())]
    lines = [json.dumps({name: it for name, it in row.items() if it is not None}) for row in rows]
    (tmp_path / "log.ndjson").write_text("\n".join(lines))
    command = [program, "ingest", "log.ndjson", "--store", "sqlite:trips.db"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    for trip in pa.table(tstar.read(tmp_path / "trips.db").trips).to_pylist()[:5]:
        command = [
            program,
            "explain",
            trip["id"],
            "log.ndjson",
            "--store",
            "sqlite:trips.db",
            "--evidence",
        ]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        assert tstar.verify(done.stdout)


def test_the_package_has_the_version_of_the_program(program):
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1] == tstar.__version__


def test_python_reads_times_of_stores_before_1970(tmp_path, root):
    frame = pa.table(
        {"device_id": ["a", "a"], "time": [-86_400_001, -1], "lat": [1.0] * 2, "lon": [1.0] * 2}
    )
    result = tstar.trips(frame, min_time="1900-01-01T00:00:00Z", path=True)
    make(tmp_path / "old.db", root, result)
    since = datetime(1969, 12, 31, tzinfo=timezone.utc)
    assert len(tstar.read(tmp_path / "old.db").trips) == 2
    assert len(tstar.read(tmp_path / "old.db", device="a", since=since).trips) == 1
