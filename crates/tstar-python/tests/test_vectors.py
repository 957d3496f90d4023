"""The vectors of the t* specification: the same effects, trips, ids and paths, to the byte."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

import tstar
from conftest import ROOT

FILE = ROOT / "tests/vectors/v1.ndjson"
NEVER = 253_402_300_799_999
"""As a time of arrival: no device time is in its future."""


def logs() -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """The heads of the logs, with the lines that follow each."""
    head, lines = None, []
    for text in FILE.read_text().splitlines():
        line = json.loads(text)
        if "log" in line:
            if head:
                yield head, lines
            head, lines = line, []
        else:
            lines.append(line)
    if head:
        yield head, lines


def rules_of(given: dict[str, Any]) -> tstar.Rules:
    whole = json.loads(tstar.Rules().json)
    return tstar.Rules.from_json(json.dumps({**whole, **given}))


LOGS = list(logs())
COLUMNS = (
    "device_id",
    "time_ms",
    "lat",
    "lon",
    "speed_mps",
    "heading_deg",
    "altitude_m",
    "accuracy_m",
    "ignition",
    "driver",
)


def ms(time: datetime) -> int:
    return round((time - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds() * 1000)


def message(path: bytes) -> bytes:
    """The message of a path, before compression."""
    assert path[0] == 1, "the package does not compress"
    return path[5:]


def segments(result: tstar.Trips) -> list[dict[str, Any]]:
    """The trips and stops as the vectors have them."""
    ids: dict[str, dict[int, list[int]]] = {}
    for event in pa.table(result.events).to_pylist():
        history = ids.setdefault(event["now_id"], {}).setdefault(ms(event["t_star"]), [])
        history.append(2 * event["row"])
    found = []
    for row in pa.table(result.trips).to_pylist() + pa.table(result.stops).to_pylist():
        t_star = ms(row["t_star"])
        uuid = tstar.id.format(row["device_id"], t_star, "uuid") if t_star >= 0 else None
        moving, idle = (
            None if row[it] is None else round(row[it] * 1000) for it in ("moving_s", "idle_s")
        )
        segment = {
            "device_id": row["device_id"],
            "id": row["id"],
            "key": tstar.id.format(row["device_id"], t_star, "bytes"),
            "uuid": uuid,
            "kind": row["kind"],
            "start_ms": ms(row["start_time"]),
            "end_ms": ms(row["end_time"]),
            "samples": row["samples"],
            "version": row["version"],
            "ids": [list(it) for it in sorted(ids[row["id"]].items())],
            "moving_ms": moving,
            "idle_ms": idle,
            "parked_ms": round(row["parked_s"] * 1000),
            "max_speed_mps": row["max_speed_mps"],
            "start": [row["start_lat"], row["start_lon"]],
            "end": [row["end_lat"], row["end_lon"]],
            "bbox": [row[f"bbox_{it}"] for it in ("west", "south", "east", "north")],
            "driver": row["driver"],
            "jumps": row["jumps"],
            "path": base64.b64encode(message(row["path"])).decode(),
            "distance_m": row["distance_m"],
        }
        found.append({name: it for name, it in segment.items() if it is not None})
    return sorted(found, key=lambda it: (it["device_id"].encode(), it["start_ms"]))


@pytest.mark.parametrize(("head", "lines"), LOGS, ids=[head["log"] for head, _ in LOGS])
def test_the_vectors(head, lines):
    records = [line for line in lines if "effect" in line]
    frame = pa.table(
        {
            **{name: [record.get(name) for record in records] for name in COLUMNS},
            "received": [record.get("log_time_ms", NEVER) for record in records],
        }
    )
    result = tstar.trips(
        frame,
        time="time_ms",
        speed="speed_mps",
        heading="heading_deg",
        altitude="altitude_m",
        accuracy="accuracy_m",
        received="received",
        rules=rules_of(head["rules"]),
        path=True,
    )
    # The package tells apart what differs from the kept sample.
    effects = [
        it.replace("conflicting", "duplicate")
        for it in pa.table(result.effects)["effect"].to_pylist()
    ]
    assert effects == [record["effect"] for record in records]
    expected = lines[-1]["segments"]
    for segment in expected:
        # Tables have it to 0.1 m; what it is made of, the path has.
        segment["distance_m"] = round(segment["distance_m"] * 10) / 10
        for name in ("driver_ms", "jump_s"):
            segment.pop(name, None)
    assert segments(result) == expected


@pytest.mark.parametrize(("head", "lines"), LOGS[:20], ids=[head["log"] for head, _ in LOGS[:20]])
def test_the_changes_of_the_vectors(head, lines):
    """Record by record, with the changes in between."""
    timeline = tstar.Timeline(rules=rules_of(head["rules"]))
    names = {
        "device_id": "device",
        "time_ms": "time",
        "speed_mps": "speed",
        "heading_deg": "heading",
        "altitude_m": "altitude",
        "accuracy_m": "accuracy",
        "log_time_ms": "received",
    }
    for line in lines:
        if "effect" in line:
            sample = {names.get(name, name): it for name, it in line.items() if name != "effect"}
            effect = timeline.add(**{"received": NEVER, **sample})
            assert effect.replace("conflicting", "duplicate") == line["effect"]
        elif "changes" in line:
            taken = pa.table(timeline.take_changes()).to_pylist()
            found = [
                (it["device_id"], it["id"], it["kind"], it["change"], it["retired"]) for it in taken
            ]
            expected = [
                (group["device_id"], it["id"], it["kind"], it["type"], it["absorbed"])
                for group in line["changes"]
                for it in group["segments"]
            ]
            assert sorted(found) == sorted(expected)


def test_there_are_vectors():
    assert len(LOGS) > 20
