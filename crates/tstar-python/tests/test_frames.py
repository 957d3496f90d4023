"""Frames of every library and type give the same trips, which are those of the core."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tstar
from conftest import EVENING, content


@pytest.fixture(scope="module")
def expected(table):
    result = content(tstar.trips(table))
    assert len(result["trips"]) > 20 and len(result["stops"]) > 5
    assert {event["change"] for event in result["events"]} == {"minted", "retired", "revived"}
    return result


def with_time(table: pa.Table, time: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index("time"), "time", time)


def test_the_worked_example():
    minutes = [10, 12, 0, 2, 6]
    frame = pd.DataFrame(
        {
            "device_id": "truck-17",
            "time": [
                pd.Timestamp("2025-11-20T21:00Z") + pd.Timedelta(minutes=it) for it in minutes
            ],
            "lat": 52.52,
            "lon": 13.41,
        }
    )
    result = tstar.trips(frame)
    (trip,) = pa.table(result.trips).to_pylist()
    assert trip["id"] == "truck-17~20251120T210000.000Z"
    assert trip["absorbed"] == ["truck-17~20251120T211000.000Z"]
    assert (trip["samples"], trip["version"], trip["duration_s"]) == (5, 8, 720.0)
    assert trip["t_star"] == datetime(2025, 11, 20, 21, tzinfo=timezone.utc)
    effects = pa.table(result.effects)["effect"].to_pylist()
    assert effects == ["new", "end", "new", "end", "merge"]
    events = [
        (it["row"], it["change"], it["id"][-20:]) for it in pa.table(result.events).to_pylist()
    ]
    assert events == [
        (0, "minted", "20251120T211000.000Z"),
        (2, "minted", "20251120T210000.000Z"),
        (4, "retired", "20251120T211000.000Z"),
    ]
    points = pa.table(result.points)
    assert points["row"].to_pylist() == [2, 3, 4, 0, 1]
    assert set(points["trip_id"].to_pylist()) == {trip["id"]}
    assert result.counts["arrivals"]["merge"] == 1
    assert repr(result) == "<1 trips and 0 stops of 1 devices, of 5 rows>"


def test_points_join_the_frame_by_row(table):
    result = tstar.trips(table)
    rows = pa.table(result.points)
    frame = table.take(rows["row"])
    assert rows["device_id"].to_pylist() == frame["device_id"].to_pylist()
    assert rows["time"].to_pylist() == frame["time"].to_pylist()
    kept = [
        lat == pytest.approx(given, abs=5.1e-8)
        for lat, given in zip(rows["lat"].to_pylist(), frame["lat"].to_pylist())
    ]
    assert all(kept) and len(kept) == result.counts["applied"]


@pytest.mark.parametrize(
    "frame",
    [
        lambda it: it.to_pandas(),
        lambda it: it.to_pandas(types_mapper=pd.ArrowDtype),
        lambda it: it.to_pandas().astype({"device_id": "category", "driver": "category"}),
        lambda it: it.to_pandas().astype({"device_id": object}),
        lambda it: pl.DataFrame(it),
        lambda it: pl.DataFrame(it).lazy(),
        lambda it: pl.DataFrame(it).with_columns(pl.col("device_id").cast(pl.Categorical)),
        lambda it: pl.concat([pl.DataFrame(it)[:77], pl.DataFrame(it)[77:]], rechunk=False),
        lambda it: pa.RecordBatchReader.from_batches(it.schema, it.to_batches(max_chunksize=31)),
        lambda it: pa.concat_tables([it[:0], it[:1], it[1:900], it[900:900], it[900:]]),
        lambda it: it.append_column("later", pa.nulls(len(it))),
        lambda it: it.set_column(0, "device_id", it["device_id"].dictionary_encode()),
        lambda it: it.set_column(0, "device_id", it["device_id"].cast(pa.large_string())),
        lambda it: it.set_column(0, "device_id", it["device_id"].cast(pa.string_view())),
        lambda it: pl.DataFrame(it).select(
            "lon", "lat", "time", pl.all().exclude("lon", "lat", "time")
        ),
    ],
    ids=[
        "pandas",
        "pandas of Arrow types",
        "pandas categories",
        "pandas objects",
        "polars",
        "polars lazy",
        "polars categories",
        "polars chunks",
        "stream",
        "chunks",
        "other columns",
        "dictionary",
        "large string",
        "string view",
        "other order",
    ],
)
def test_every_kind_of_frame_gives_the_same(frame, table, expected):
    try:
        given = frame(table)
    except (AttributeError, pa.ArrowNotImplementedError) as error:  # of older versions
        pytest.skip(str(error))
    assert content(tstar.trips(given)) == expected


def test_of_a_table_any_object_may_make_a_stream(table, expected):
    class Frame:
        column_names = table.column_names

        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    assert content(tstar.trips(Frame())) == expected


def test_of_an_object_that_is_only_a_stream_all_columns_count(table, expected):
    class Stream:
        def __init__(self, table: pa.Table):
            self._table = table

        def __arrow_c_stream__(self, requested_schema=None):
            return self._table.__arrow_c_stream__(requested_schema)

    assert content(tstar.trips(Stream(table))) == expected
    timeline = tstar.Timeline()
    timeline.absorb(Stream(table))
    assert content(timeline.snapshot()) == expected
    without = content(tstar.trips(table, ignition=False))
    assert content(tstar.trips(Stream(table), ignition=False)) == without != expected
    named = table.rename_columns(["pace" if it == "speed" else it for it in table.column_names])
    assert content(tstar.trips(Stream(named), speed="pace")) == expected


ZONES = ["UTC", "Europe/Berlin", "+05:30"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, *ZONES])
def test_timestamps_of_every_unit_and_zone(unit, zone, table, expected):
    time = table["time"].cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, zone))
    if zone is None:
        time = table["time"].cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit))
    assert content(tstar.trips(with_time(table, time))) == expected


@pytest.mark.parametrize(
    ("unit", "per_ms"), [("s", 1 / 1000), ("ms", 1), ("us", 1_000), ("ns", 1_000_000)]
)
def test_numbers_since_1970(unit, per_ms, columns, table, expected):
    whole = pa.array([int(it * per_ms) for it in columns["time"]], pa.int64())
    exact = pa.array([float(it) * per_ms for it in columns["time"]], pa.float64())
    for time in [whole, exact, whole.cast(pa.uint64()), whole.cast(pa.decimal128(38, 0))]:
        assert content(tstar.trips(with_time(table, time), time_unit=unit)) == expected


def test_decimal_times_are_exact(columns, table, expected):
    from decimal import Decimal

    decimals = [Decimal(it) / 1000 for it in columns["time"]]
    time = pa.array(decimals, pa.decimal128(20, 3))
    assert content(tstar.trips(with_time(table, time), time_unit="s")) == expected


def test_texts_of_times(columns, table, expected):
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    times = [epoch + timedelta(milliseconds=it) for it in columns["time"]]
    berlin = timezone(timedelta(hours=1))
    for texts in [
        [it.isoformat().replace("+00:00", "Z") for it in times],
        [it.astimezone(berlin).isoformat() for it in times],
        [str(it) for it in columns["time"]],
    ]:
        assert content(tstar.trips(with_time(table, pa.array(texts)))) == expected


def test_floors_what_is_below_a_millisecond():
    frame = pa.table(
        {
            "device_id": ["a", "a"],
            "time": pa.array([EVENING * 1_000_000 + 999_999, -1], pa.timestamp("ns", "UTC")),
            "lat": [1.0, 1.0],
            "lon": [1.0, 1.0],
        }
    )
    result = tstar.trips(frame, min_time="1900-01-01T00:00:00Z")
    ids = pa.table(result.trips)["id"].to_pylist()
    assert ids == ["a~19691231T235959.999Z", "a~20261120T200000.000Z"]


def test_columns_by_other_names_and_other_types(table, expected):
    names = {"device": "vehicle", "time": "ts", "lat": "y", "lon": "x", "speed": "v"}
    renamed = table.rename_columns(
        ["vehicle", "ts", "y", "x", "v", "heading", "ignition", "driver"]
    )
    assert content(tstar.trips(renamed, **names)) == expected
    without = tstar.trips(table, speed=False, ignition=False, heading=False, driver=False)
    assert len(without.stops) == 0 and without.counts["trips"] != len(expected["trips"])


def test_ignition_as_numbers_and_words(table, expected):
    index = table.column_names.index("ignition")
    flags = table["ignition"].to_pylist()
    for values in [
        pa.array([int(it) for it in flags], pa.int8()),
        pa.array([float(it) for it in flags]),
        pa.array(["On" if it else "off" for it in flags]).dictionary_encode(),
    ]:
        result = tstar.trips(table.set_column(index, "ignition", values))
        assert content(result) == expected
    lost = tstar.trips(table.set_column(index, "ignition", pa.array(["perhaps"] * len(table))))
    assert lost.counts["unknown_ignition"] == len(table)
    assert lost.counts["applied"] > 0


def test_units_of_speed(table):
    index = table.column_names.index("speed")
    kmh = [None if it is None else it * 3.6 for it in table["speed"].to_pylist()]
    result = tstar.trips(table.set_column(index, "speed", pa.array(kmh)), speed_unit="kmh")
    assert result.rules != tstar.trips(table).rules
    assert content(result) == content(tstar.trips(table))


def test_integers_and_small_floats(table):
    numbers = pa.array(range(5)).take(
        pa.array([int(it[-1]) for it in table["device_id"].to_pylist()])
    )
    by_text = content(tstar.trips(table.set_column(0, "device_id", numbers.cast(pa.string()))))
    for kind in [pa.int64(), pa.int8(), pa.uint16(), pa.uint64()]:
        given = table.set_column(0, "device_id", numbers.cast(kind))
        assert content(tstar.trips(given)) == by_text
    rough = table.set_column(2, "lat", table["lat"].cast(pa.float32()))
    assert tstar.trips(rough).counts["applied"] == tstar.trips(table).counts["applied"]


def test_order_by_has_the_order_of_arrival(table, expected):
    import random

    rows = list(range(len(table)))
    random.Random(7).shuffle(rows)
    arrival = pa.array(range(len(table)))
    # Hours in which rows arrived, then their places in them.
    keyed = table.append_column("hour", pa.array([f"{it // 100:05}" for it in range(len(table))]))
    keyed = keyed.append_column("place", pa.array([it % 100 for it in range(len(table))]))
    keyed = keyed.append_column("n", arrival).append_column("f", arrival.cast(pa.float64()))
    keyed = keyed.append_column("at", arrival.cast(pa.timestamp("us")))
    shuffled = keyed.take(pa.array(rows))
    for order in ["n", "f", "at", ["hour", "place"]]:
        for frame in [shuffled, shuffled.to_pandas(), pl.DataFrame(shuffled)]:
            result = tstar.trips(frame, order_by=order)
            assert pa.table(result.trips).to_pylist() == expected["trips"]
            # Rows are those of the frame.
            found = [rows[it] for it in pa.table(result.points)["row"].to_pylist()]
            assert found == [it["row"] for it in expected["points"]]
            effects = pa.table(result.effects)["effect"].to_pylist()
            assert effects == [expected["effects"][it]["effect"] for it in rows]


def test_received_is_what_future_is_measured_by():
    frame = pa.table(
        {
            "device_id": ["a"] * 3,
            "time": [EVENING, EVENING + 90_000_000, 4_000_000_000_000],
            "lat": [1.0] * 3,
            "lon": [1.0] * 3,
            "at": pa.array([EVENING, EVENING, None], pa.timestamp("ms", "UTC")),
        }
    )
    result = tstar.trips(frame, received="at")
    assert result.counts["dead_letters"] == {"time_in_future": 2}
    far = tstar.trips(frame, received="at", max_future="100000d")
    assert far.counts["applied"] == 3


def test_the_paths_are_those_of_the_points(table):
    result = tstar.trips(table, path=True)
    points = pa.table(result.points)
    paths = {it["id"]: it["path"] for it in pa.table(result.trips).to_pylist()}
    paths |= {it["id"]: it["path"] for it in pa.table(result.stops).to_pylist()}
    shared = ["time", "lat", "lon", "speed_mps", "heading_deg", "altitude_m", "accuracy_m"]
    for trip_id, path in paths.items():
        decoded = pa.table(tstar.decode_path(path))
        own = points.filter(pc.equal(points["trip_id"], trip_id))
        assert decoded.select(shared).to_pylist() == own.select(shared).to_pylist()
        rows = pc.divide(decoded["version"], 2)
        assert rows.to_pylist() == own["row"].to_pylist()
        driver = table["driver"].take(own["row"]).to_pylist()
        assert decoded["driver"].to_pylist() == driver
        ignition = table["ignition"].take(own["row"]).to_pylist()
        assert decoded["ignition"].to_pylist() == ignition


def test_tables_go_into_every_library(table):
    result = tstar.trips(table)
    for name in ("trips", "stops", "points", "events", "effects", "dead_letters"):
        one = getattr(result, name)
        read = pa.table(one)
        assert one.column_names == read.column_names and len(one) == len(read)
        # A table may be read again.
        assert pa.table(one).equals(read)
        assert pl.DataFrame(one).shape == read.shape == one.to_polars().shape
        assert one.to_pandas().shape == read.shape
        assert one.to_pyarrow().equals(read)
        assert repr(one).startswith(f"<{len(read)} rows: ")
        read.validate(full=True)
