"""Samples one by one, frames one after another, and threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import polars as pl
import pyarrow as pa
import pytest

import tstar
from conftest import EVENING, content, fleet


def test_sample_by_sample_as_in_a_frame(columns, table):
    timeline = tstar.Timeline()
    effects = []
    for row in zip(*columns.values()):
        device, time, lat, lon, speed, heading, ignition, driver = row
        effects.append(
            timeline.add(
                device,
                time,
                lat,
                lon,
                speed=speed,
                heading=heading,
                ignition=ignition,
                driver=driver,
            )
        )
    expected = content(tstar.trips(table))
    assert content(timeline.snapshot()) == expected
    assert effects == [it["effect"] for it in expected["effects"]]


def test_frame_by_frame_as_in_one(table):
    whole = tstar.Timeline()
    whole.absorb(table)
    expected = content(tstar.trips(table))
    assert content(whole.snapshot()) == expected
    parts = tstar.Timeline()
    for first in range(0, len(table), 700):
        parts.absorb(pl.DataFrame(table.slice(first, 700)))
    assert content(parts.snapshot()) == expected
    sorted_parts = tstar.Timeline()
    numbered = table.append_column("n", pa.array(range(len(table))))
    for first in range(0, len(table), 700):
        part = numbered.slice(first, 700)
        reversed_part = part.take(pa.array(range(len(part) - 1, -1, -1)))
        sorted_parts.absorb(reversed_part, order_by="n")
    assert pa.table(sorted_parts.snapshot().trips).to_pylist() == expected["trips"]


def test_rows_count_on_in_every_order(table):
    """Frames in the order of a column, others, and single samples: rows are those of all."""
    numbered = table.append_column("n", pa.array(range(len(table), 0, -1)))
    timeline = tstar.Timeline()
    for first, order in [(0, None), (300, "n"), (600, None), (900, "n"), (1200, None)]:
        timeline.absorb(numbered.slice(first, 300), order_by=order)
        timeline.add(f"single {first}", EVENING, 52.5, 13.4)
    points = pa.table(timeline.snapshot().points).to_pylist()
    names, times = table["device_id"].to_pylist(), table["time"].to_pylist()
    singles = {300: "single 0", 601: "single 300", 902: "single 600", 1203: "single 900"}
    for point in points:
        row = point["row"]
        if point["device_id"].startswith("single"):
            assert row == 1504 or singles[row] == point["device_id"]
            continue
        place = row - sum(row > single for single in singles)
        assert (point["device_id"], point["time"]) == (names[place], times[place])
    assert len(points) > 1000


@pytest.mark.parametrize("order", [None, "n"])
def test_after_an_error_the_rows_before_it_count(order):
    bad = pa.table(
        {
            "device_id": ["a"] * 4,
            "time": [EVENING + 1000 * it for it in range(4)],
            "lat": [1.0, 1.0, 95.0, 1.0],
            "lon": [1.0] * 4,
            "n": [0, 1, 2, 3],
        }
    )
    timeline = tstar.Timeline(errors="raise")
    with pytest.raises(tstar.InputError, match="row 2: column `lat` is 95"):
        timeline.absorb(bad, order_by=order)
    timeline.add("a", EVENING + 9000, 1.0, 1.0)
    rows = pa.table(timeline.snapshot().points)["row"].to_pylist()
    assert rows == ([0, 1, 2] if order is None else [0, 1, 4])
    assert len(timeline.snapshot().effects) == (3 if order is None else 5)
    assert timeline.snapshot().counts["applied"] == 3


def test_a_snapshot_stays_as_it_is():
    timeline = tstar.Timeline()
    assert timeline.add("a", EVENING, 52.5, 13.4) == "new"
    before = timeline.snapshot()
    points = before.points
    assert timeline.add("a", EVENING + 60_000, 52.5, 13.4) == "end"
    assert (len(pa.table(points)), len(pa.table(before.trips)), before.counts["applied"]) == (
        1,
        1,
        1,
    )
    assert len(timeline.snapshot().points) == 2


def test_changes_are_those_since_the_last_call():
    timeline = tstar.Timeline()

    def minute(it):
        return datetime.fromtimestamp(EVENING / 1000 + it * 60, timezone.utc)

    for it in (10, 0):
        timeline.add("van", minute(it), 52.5, 13.4)
    changes = pa.table(timeline.take_changes()).to_pylist()
    assert [it["change"] for it in changes] == ["started", "started"]
    assert len(timeline.take_changes()) == 0
    assert timeline.add("van", minute(5), 52.5, 13.4) == "merge"
    (change,) = pa.table(timeline.take_changes()).to_pylist()
    assert change["change"] == "merged" and change["retired"] == ["van~20261120T201000.000Z"]
    assert change["id"] == "van~20261120T200000.000Z"
    assert timeline.add("van", minute(7), 52.5, 13.4, ignition=False) == "split"
    changes = pa.table(timeline.take_changes()).to_pylist()
    assert [(it["change"], it["kind"]) for it in changes] == [
        ("changed", "trip"),
        ("started", "stop"),
        ("revived", "trip"),
    ]
    assert timeline.id_at("van", minute(9)) is None
    assert timeline.id_at("van", minute(10)) == "van~20261120T201000.000Z"
    assert timeline.id_at("bus", minute(10)) is None


def test_a_sample_that_is_none_has_its_reason():
    timeline = tstar.Timeline(max_accuracy=50)
    assert timeline.add("a", "2026-11-20T20:00:00Z", 95.0, 13.4) == "out_of_range"
    assert timeline.add("", EVENING, 52.5, 13.4) == "bad_device_id"
    assert timeline.add("a", EVENING, 0.0, 0.0) == "zero_position"
    assert timeline.add("a", EVENING, 1.0, 0.0, accuracy=51) == "bad_fix"
    assert timeline.add("a", EVENING, float("nan"), 0.0) == "out_of_range"
    assert timeline.add("a", EVENING, 1.0, 0.0, received=EVENING - 10**9) == "time_in_future"
    assert timeline.add(17, EVENING, 1.0, 0.0, speed=-1, heading=float("nan")) == "new"
    assert timeline.add("17", EVENING, 1.0, 0.0) == "duplicate"
    assert timeline.add("17", EVENING, 1.5, 0.0) == "conflicting"
    snapshot = timeline.snapshot()
    assert snapshot.counts["delivered"] == 9 and len(snapshot.dead_letters) == 4
    strict = tstar.Timeline(errors="raise")
    strict.add("a", EVENING, 1.0, 0.0)
    with pytest.raises(tstar.InputError, match="row 1: column `lat` is 95"):
        strict.add("a", EVENING + 1, 95.0, 0.0)
    with pytest.raises(tstar.InputError, match="has no zone"):
        strict.add("a", datetime(2026, 1, 1), 5.0, 0.0)
    with pytest.raises((TypeError, ValueError)):
        strict.add("a", EVENING, "north", 0.0)
    assert len(strict.snapshot().points) == 1


def test_frames_in_threads_at_once():
    tables = [pa.table(fleet(seed)) for seed in range(8)]
    expected = [content(tstar.trips(it)) for it in tables]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(lambda it: content(tstar.trips(it)), tables)) == expected


def test_one_timeline_in_threads():
    timeline = tstar.Timeline()
    barrier = threading.Barrier(4)

    def feed(device):
        barrier.wait()
        for nth in range(500):
            assert timeline.add(device, EVENING + nth * 1000, 52.5, 13.4) != "duplicate"
            if nth % 100 == 0:
                timeline.absorb(pa.table(fleet(nth, devices=1, samples=50)))
                pa.table(timeline.snapshot().points)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(feed, "abcd"))
    counts = timeline.snapshot().counts
    assert counts["delivered"] == counts["applied"] + counts["duplicates"]
    by_device = pl.DataFrame(timeline.snapshot().points).group_by("device_id").len()
    assert dict(by_device.filter(pl.col("device_id").str.len_chars() == 1).iter_rows()) == {
        it: 500 for it in "abcd"
    }


@pytest.mark.parametrize(
    "call",
    [
        lambda timeline: timeline.id_at("a", EVENING),
        lambda timeline: timeline.add("a", EVENING, 52.5, 13.4),
        lambda timeline: timeline.absorb(pa.table(fleet(1, devices=1, samples=5))),
        lambda timeline: timeline.snapshot(),
        lambda timeline: timeline.take_changes(),
    ],
)
def test_a_call_within_a_call_is_an_error(call):
    table = pa.table(fleet(1, devices=1, samples=50))
    (batch,) = table.to_batches()
    timeline, errors = tstar.Timeline(), []

    def caught():
        yield batch.slice(0, 20)
        try:
            call(timeline)
        except RuntimeError as error:
            errors.append(str(error))
        yield batch.slice(20)

    def not_caught():
        yield batch.slice(0, 20)
        call(timeline)

    def absorb():
        timeline.absorb(pa.RecordBatchReader.from_batches(table.schema, caught()))

    # A daemon: what waits for itself must not hold up the tests.
    thread = threading.Thread(target=absorb, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert len(errors) == 1 and "in a call of the same thread" in errors[0]
    assert content(timeline.snapshot()) == content(tstar.trips(table))
    call(timeline)
    timeline = tstar.Timeline()
    with pytest.raises(tstar.InputError, match="in a call of the same thread"):
        timeline.absorb(pa.RecordBatchReader.from_batches(table.schema, not_caught()))
    call(timeline)


def test_another_thread_waits_for_a_frame_that_is_being_made():
    table = pa.table(fleet(1, devices=1, samples=50))
    (batch,) = table.to_batches()
    timeline, applied = tstar.Timeline(), []
    other = threading.Thread(target=lambda: applied.append(timeline.snapshot().counts["delivered"]))

    def batches():
        yield batch.slice(0, 20)
        other.start()
        other.join(0.1)
        assert applied == []
        yield batch.slice(20)

    timeline.absorb(pa.RecordBatchReader.from_batches(table.schema, batches()))
    other.join(30)
    assert applied == [len(table)]


def test_other_threads_run_while_a_frame_is_decided():
    """The GIL is released: a thread that only counts makes progress meanwhile."""
    columns = fleet(3, devices=2, samples=1000)
    many = pa.concat_tables([pa.table(columns)] * 100)
    done, counted = threading.Event(), []

    def count():
        number = 0
        while not done.is_set():
            number += 1
        counted.append(number)

    thread = threading.Thread(target=count)
    thread.start()
    tstar.trips(many)
    done.set()
    thread.join()
    assert counted[0] > 1000
