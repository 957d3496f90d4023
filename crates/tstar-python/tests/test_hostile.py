"""What no frame should be: errors name column, row and value, and nothing is lost silently."""

from __future__ import annotations

import ctypes

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tstar
from conftest import EVENING, content

GOOD = {"device_id": "a", "time": EVENING, "lat": 52.5, "lon": 13.4}


def frame(**columns) -> pa.Table:
    """Three good rows, but for these columns."""
    return pa.table({**{name: [value] * 3 for name, value in GOOD.items()}, **columns})


class Stream:
    """A frame of which nothing is known but its stream."""

    def __init__(self, table: pa.Table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def letters(result) -> list[tuple[int, str, str, str]]:
    rows = pa.table(result.dead_letters).to_pylist()
    return [(it["row"], it["reason"], it["column"], it["message"]) for it in rows]


@pytest.mark.parametrize(
    ("columns", "reason", "message"),
    [
        ({"device_id": ["a", None, "a"]}, "missing_field", "column `device_id` is null"),
        ({"device_id": ["a", "", "a"]}, "bad_device_id", 'is ""; a device id has 1 to 256 bytes'),
        ({"device_id": ["a", "a\0b", "a"]}, "bad_device_id", "none of them NUL"),
        ({"device_id": ["a", "d" * 5000, "a"]}, "bad_device_id", "... (5000 bytes)"),
        ({"time": [EVENING, None, EVENING]}, "missing_field", "column `time` is null"),
        ({"time": [EVENING, 10**18, EVENING]}, "out_of_range", "years 0000 to 9999; time_unit="),
        ({"time": [EVENING, EVENING // 1000, EVENING]}, "time_before_min", "1970-01-21"),
        ({"time": [EVENING, 4 * 10**12, EVENING]}, "time_in_future", "2096-"),
        ({"time": [f"{EVENING}", "soon", "2026-11-20T20:00:00Z"]}, "bad_time", '"soon"; write RFC'),
        ({"time": [f"{EVENING}", "2026-11-20T20:00:00", f"{EVENING}"]}, "bad_time", "an offset"),
        ({"time": [1.5, float("nan"), 2.5]}, "missing_field", "column `time` is null"),
        ({"lat": [52.5, 95.0, 52.5]}, "out_of_range", "column `lat` is 95, outside of -90 to 90"),
        ({"lat": [52.5, float("inf"), 52.5]}, "out_of_range", "column `lat` is inf"),
        ({"lat": [52.5, float("nan"), 52.5]}, "missing_field", "column `lat` is null"),
        ({"lon": [13.4, -180.1, 13.4]}, "out_of_range", "column `lon` is -180.1"),
        ({"speed": [1.0, 5e4, 1.0]}, "out_of_range", "column `speed` is 50000, outside"),
        ({"speed": [1.0, -3.0, 1.0]}, "out_of_range", "column `speed` is -3"),
        ({"heading": [1.0, 361.0, 1.0]}, "out_of_range", "column `heading` is 361"),
        ({"altitude": [1.0, 1e6, 1.0]}, "out_of_range", "column `altitude` is 1000000"),
        ({"accuracy": [1.0, -7.0, 1.0]}, "out_of_range", "column `accuracy` is -7"),
        ({"driver": ["x", "d" * 300, "x"]}, "bad_type", "name of a driver has at most 256 bytes"),
    ],
)
def test_a_bad_row_is_a_letter_or_an_error(columns, reason, message):
    given = frame(**columns)
    settings = {"min_time": "1800-01-01T00:00:00Z"} if columns.get("time") == [1.5, 2.5] else {}
    result = tstar.trips(given, **settings)
    found = [letter for letter in letters(result) if letter[0] == 1]
    assert [(it[1], it[2]) for it in found] == [(reason, next(iter(columns)))]
    assert message in found[0][3]
    counts = result.counts
    assert counts["delivered"] == 3
    assert counts["applied"] + counts["duplicates"] + sum(counts["dead_letters"].values()) == 3
    with pytest.raises(tstar.InputError, match="^row ") as error:
        tstar.trips(given, errors="raise")
    assert message in str(error.value) or str(error.value).startswith("row 0: ")


def test_the_first_reason_counts():
    given = frame(device_id=["", "", "a"], time=["soon", "soon", "soon"], lat=[None, 95.0, 95.0])
    assert [it[1] for it in letters(tstar.trips(given))] == [
        "missing_field",
        "bad_device_id",
        "bad_time",
    ]


def test_minus_one_and_nan_are_unknown():
    nan = float("nan")
    given = frame(
        speed=[-1.0, nan, None],
        heading=[-1, -1, -1],
        accuracy=[nan] * 3,
        altitude=[-1.0, nan, None],
        time=[EVENING, EVENING + 1000, EVENING + 2000],
    )
    points = pa.table(tstar.trips(given, speed_unit="kmh").points)
    assert points["speed_mps"].null_count == points["heading_deg"].null_count == 3
    assert points["altitude_m"].to_pylist() == [-1.0, None, None]


def test_dropped_and_duplicate_rows_are_counted():
    given = frame(lat=[0.0, 52.5, 52.6], lon=[0.0, 13.4, 13.4], accuracy=[1.0, 90.0, 1.0])
    result = tstar.trips(given, max_accuracy=50)
    assert result.counts["dropped"] == {"bad_fix": 1, "zero_position": 1}
    again = tstar.trips(
        pa.concat_tables([given, given.slice(2)]), max_accuracy=None, keep_zero_position=True
    )
    assert again.counts["duplicates"] == again.counts["conflicting"] == 3
    effects = pa.table(again.effects)["effect"].to_pylist()
    assert effects == ["new", "conflicting", "conflicting", "conflicting"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"device_id": [1.0, 2.0, 3.0]},
            "`device_id` has type Float64; it needs texts or integers",
        ),
        ({"device_id": [True, True, False]}, "`device_id` has type Boolean"),
        ({"device_id": [b"a", b"b", b"c"]}, "`device_id` has type Binary"),
        ({"device_id": [["a"], ["b"], ["c"]]}, "`device_id` has type List"),
        ({"time": [True, False, True]}, "`time` has type Boolean; it needs timestamps"),
        ({"time": pa.array([1, 2, 3], pa.date32())}, "`time` has type Date32"),
        ({"time": pa.array([1, 2, 3], pa.time64("us"))}, "`time` has type Time64"),
        ({"time": pa.array([1, 2, 3], pa.duration("ms"))}, "`time` has type Duration"),
        ({"lat": ["1", "2", "3"]}, "`lat` has type Utf8; it needs numbers"),
        ({"lat": [{"x": 1}] * 3}, "`lat` has type Struct"),
        ({"lon": [True, False, True]}, "`lon` has type Boolean; it needs numbers"),
        ({"speed": ["1", "2", "3"]}, "`speed` has type Utf8"),
        ({"ignition": [b"1", b"2", b"3"]}, "`ignition` has type Binary; it needs booleans"),
        ({"driver": [1.5, 2.5, 3.5]}, "`driver` has type Float64"),
    ],
)
def test_a_column_of_a_wrong_type_is_an_error(columns, message):
    with pytest.raises(tstar.InputError) as error:
        tstar.trips(frame(**columns))
    assert message in str(error.value) and "cast it" in str(error.value)
    # Also where there is no row to stumble over.
    with pytest.raises(tstar.InputError):
        tstar.trips(frame(**columns).slice(0, 0))


def test_columns_of_nulls():
    nulls = {name: pa.nulls(3) for name in ("speed", "heading", "ignition", "driver", "altitude")}
    for given in [frame(**nulls), pl.DataFrame(frame(**nulls)), frame(**nulls).to_pandas()]:
        assert tstar.trips(given).counts["applied"] == 1
    for name in GOOD:
        given = frame(**{name: pa.nulls(3)})
        for one in [given, pl.DataFrame(given), given.to_pandas()]:
            assert tstar.trips(one).counts["dead_letters"] == {"missing_field": 3}


def test_an_absent_column_is_named_with_those_that_there_are():
    given = frame().rename_columns(["vehicle", "time", "lat", "lon"])
    for one in [given, given.to_pandas(), pl.DataFrame(given)]:
        with pytest.raises(
            tstar.InputError, match="no column `device_id`; its columns are vehicle, time"
        ):
            tstar.trips(one)
    with pytest.raises(tstar.InputError, match='no column `device_id`.*device="..."; its columns'):
        tstar.trips(Stream(given))
    with pytest.raises(tstar.InputError, match="no column `pace`"):
        tstar.trips(frame(), speed="pace")
    with pytest.raises(tstar.InputError, match="several columns `lat`"):
        twice = pd.concat([frame().to_pandas(), frame().to_pandas()[["lat"]]], axis=1)
        tstar.trips(twice)
    repeated = frame().append_column("lat", pa.array([1.0] * 3))
    with pytest.raises(tstar.InputError, match="several columns `lat`"):
        tstar.trips(Stream(repeated))


def test_zero_rows():
    for given in [
        frame().slice(0, 0),
        frame().slice(0, 0).to_pandas(),
        pl.DataFrame(frame()).clear(),
    ]:
        result = tstar.trips(given, path=True)
        assert result.counts["delivered"] == 0
        assert all(rows == [] for rows in content(result).values())
        for name in ("trips", "points", "events", "effects", "dead_letters"):
            assert pl.DataFrame(getattr(result, name)).columns


@pytest.mark.parametrize("given", [None, 5, "x", [1], {"a": [1]}, object()])
def test_no_frame(given):
    with pytest.raises(tstar.InputError, match="not a frame with the Arrow C stream interface"):
        tstar.trips(given)


def test_objects_of_several_types():
    given = frame().to_pandas().astype({"device_id": object})
    given.loc[2, "device_id"] = 17
    with pytest.raises(tstar.InputError, match=r"`device_id` .* str in row 0, int \(17\) in row 2"):
        tstar.trips(given)
    # A column that is not read may be anything.
    given = frame().to_pandas().assign(extra=[object(), 1, "x"])
    assert tstar.trips(given).counts["applied"] == 1


def test_a_stream_that_fails_or_is_none():
    def batches():
        yield frame().to_batches()[0]
        raise RuntimeError("the disk is full")

    stream = pa.RecordBatchReader.from_batches(frame().schema, batches())
    with pytest.raises(tstar.InputError, match="the disk is full"):
        tstar.trips(stream)

    class Wrong:
        def __arrow_c_stream__(self, requested_schema=None):
            return "a text"

    with pytest.raises((TypeError, ValueError)):
        tstar.trips(Wrong())

    class Other:
        def __arrow_c_stream__(self, requested_schema=None):
            new = ctypes.pythonapi.PyCapsule_New
            new.restype, new.argtypes = (
                ctypes.py_object,
                [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
            )
            return new(1, b"something_else", None)

    with pytest.raises((TypeError, ValueError)):
        tstar.trips(Other())


@pytest.mark.skipif(
    not hasattr(pa.ChunkedArray, "__arrow_c_stream__"), reason="this pyarrow streams tables only"
)
def test_rows_that_are_null_as_a_whole():
    rows = pa.StructArray.from_arrays(
        [column.combine_chunks() for column in frame().columns],
        names=frame().column_names,
        mask=pa.array([False, True, False]),
    )
    with pytest.raises(tstar.InputError, match="has 2 rows that are null as a whole"):
        tstar.trips(pa.chunked_array([rows, rows]))
    whole = pa.chunked_array([rows, rows]).drop_null()
    assert tstar.trips(whole).counts["delivered"] == 4


class CArray(ctypes.Structure):
    """A batch in memory, as the C data interface has it."""


CArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.c_void_p),
    ("children", ctypes.POINTER(ctypes.POINTER(CArray))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(CArray))


class CStream(ctypes.Structure):
    _fields_ = [
        ("get_schema", ctypes.c_void_p),
        ("get_next", GetNext),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


class Malformed:
    """A stream whose batches are changed on their way."""

    def __init__(self, table: pa.Table, change):
        self._table, self._change = table, change

    def __arrow_c_stream__(self, requested_schema=None):
        capsule = self._table.__arrow_c_stream__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        address = pointer(capsule, b"arrow_array_stream")
        stream = CStream.from_address(address)
        # A copy: the field itself is about to be another function.
        real = GetNext(ctypes.cast(stream.get_next, ctypes.c_void_p).value)

        def get_next(it, out):
            code = real(it, out)
            if code == 0 and out.contents.release:
                self._change(out.contents)
            return code

        self._kept = GetNext(get_next)
        stream.get_next = self._kept
        return capsule


def lacks_a_column(batch: CArray) -> None:
    batch.n_children -= 1


def has_a_short_column(batch: CArray) -> None:
    batch.children[1].contents.length -= 1


@pytest.mark.parametrize("change", [lacks_a_column, has_a_short_column])
def test_a_batch_that_is_not_what_its_schema_says(change):
    assert tstar.trips(Malformed(frame(), lambda batch: None)).counts["delivered"] == 3
    with pytest.raises(tstar.InputError, match="the frame is not what its schema says"):
        tstar.trips(Malformed(frame(), change))
    timeline = tstar.Timeline()
    timeline.add("a", EVENING, 52.5, 13.4)
    for order in [None, "time"]:
        with pytest.raises(tstar.InputError, match="the frame is not what its schema says"):
            timeline.absorb(Malformed(frame(), change), order_by=order)
    assert timeline.add("a", EVENING + 1000, 52.5, 13.4) == "end"
    assert timeline.snapshot().counts["delivered"] == 2


def test_texts_that_are_not_utf8_are_an_error_and_no_crash():
    data = pa.py_buffer(b"a\xff\xfe")
    offsets = pa.py_buffer(b"".join(it.to_bytes(4, "little") for it in [0, 1, 2, 3]))
    bad = pa.StringArray.from_buffers(3, offsets, data)
    beyond = pa.py_buffer(b"".join(it.to_bytes(4, "little") for it in [0, 1, 900, 3]))
    far = pa.StringArray.from_buffers(3, beyond, data)
    for column in [bad, far]:
        for name in ("device_id", "time", "driver"):
            with pytest.raises(tstar.InputError, match=f"`{name}` is damaged"):
                tstar.trips(frame(**{name: column}))


def test_order_by_needs_values():
    for order, message in [
        ("n", "row 1: column `n` is null"),
        ("f", "row 1: column `f` is null"),
        ("no", "no column `no`"),
        ("b", "has type List"),
    ]:
        given = frame(n=[1, None, 2], f=[1.0, float("nan"), 2.0], b=[[1], [2], [3]])
        with pytest.raises(tstar.InputError, match=message):
            tstar.trips(given, order_by=order)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_gap": "5"}, "rule max_gap: `5` is not a duration: it has no unit"),
        ({"max_gap": -1}, "rule max_gap is -1; it needs a duration"),
        ({"max_gap": None}, "rule max_gap is None"),
        ({"max_gap": float("nan")}, "rule max_gap is nan"),
        ({"max_gap": 0}, "max_gap"),
        ({"min_stop": "soon"}, "rule min_stop: `soon` is not a duration"),
        ({"stop_speed": "fast"}, "rule stop_speed is 'fast'; it needs a number"),
        ({"stop_speed": 1e12}, "rule stop_speed is"),
        ({"max_samples": 0}, "max_samples"),
        ({"max_samples": 10**9}, "max_samples"),
        ({"max_samples": 1.5}, "rule max_samples is 1.5; it needs a whole number"),
        ({"min_time": "yesterday"}, "rule min_time: `yesterday` is not a time"),
        ({"time_unit": "h"}, 'it needs "s", "ms", "us" or "ns"'),
        ({"speed_unit": "c"}, 'it needs "mps", "kmh", "mph" or "kn"'),
        ({"keep_zero_position": "yes"}, "it needs True or False"),
    ],
)
def test_rules_that_cannot_be(settings, message):
    for use in [tstar.Rules, tstar.Timeline, lambda **it: tstar.trips(frame(), **it)]:
        with pytest.raises(tstar.InputError) as error:
            use(**settings)
        assert message in str(error.value)


def test_arguments_that_cannot_be():
    with pytest.raises(TypeError, match="no rule `max_gaps`"):
        tstar.trips(frame(), max_gaps="5m")
    with pytest.raises(TypeError, match="not both: max_gap"):
        tstar.trips(frame(), rules=tstar.Rules(), max_gap="5m")
    with pytest.raises(ValueError, match="errors= is 'ignore'"):
        tstar.trips(frame(), errors="ignore")
    with pytest.raises(TypeError, match="device= is the name of a column, not 5"):
        tstar.trips(frame(), device=5)
    with pytest.raises(tstar.InputError, match="does not know these rules"):
        tstar.Rules.from_json("{}")


def test_damaged_paths():
    path = pa.table(tstar.trips(frame(), path=True).trips)["path"][0].as_py()
    assert len(tstar.decode_path(path)) == 1
    for damaged in [b"", b"\x03", path[:-1], path[:5] + b"\x00" + path[6:], path + b"\0"]:
        with pytest.raises(tstar.InputError, match="the path"):
            tstar.decode_path(damaged)
    with pytest.raises(TypeError):
        tstar.decode_path("text")
