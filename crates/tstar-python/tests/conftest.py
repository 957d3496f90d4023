"""Frames of one fleet in every form that Arrow has for it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

ROOT = Path(__file__).resolve().parents[3]
EVENING = 1_795_204_800_000
"""2026-11-20T20:00:00Z."""


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def program() -> str:
    """The program tstar, which tests/nightly/python builds."""
    found = os.environ.get("TSTAR_TEST_BIN")
    if not found:
        pytest.skip("TSTAR_TEST_BIN names no program tstar")
    return found


def fleet(seed: int = 1, devices: int = 5, samples: int = 400) -> dict[str, list]:
    """A seeded fleet in the order of arrival, as columns: late samples, stops, duplicates."""
    dice = random.Random(seed)
    rows = []
    for nth in range(devices):
        device, time_ms = f"Zoë/{nth}", EVENING + 1000 * dice.randrange(3_600)
        lat, lon = 52.5, 13.4
        for _ in range(samples):
            time_ms += dice.choice([5_000, 10_000, 10_000, 20_000, 400_000])
            lat, lon = lat + dice.gauss(0, 5e-4), lon + dice.gauss(0, 5e-4)
            speed = dice.choice([None, 0.0, 8.0, 13.9, 20.25])
            # A late sample with the ignition off divides what others have joined.
            ignition = dice.random() < 0.95
            late = dice.choice([0, 0, 0, 300_000, 2_000_000]) if ignition else 4_000_000
            driver = dice.choice([None, "ann", "bob"])
            heading = dice.choice([None, 0.0, 180.5, 359.96])
            row = (device, time_ms, lat, lon, speed, heading, ignition, driver)
            rows.append((time_ms + late, row))
            if dice.random() < 0.02:
                rows.append((time_ms + late + 1, row))
    rows.sort(key=lambda row: row[0])
    names = ("device_id", "time", "lat", "lon", "speed", "heading", "ignition", "driver")
    return dict(zip(names, map(list, zip(*(row for _, row in rows)))))


@pytest.fixture(scope="session")
def columns() -> dict[str, list]:
    return fleet()


@pytest.fixture(scope="session")
def table(columns: dict[str, list]) -> pa.Table:
    """The fleet in pyarrow, with timestamps."""
    time = pa.array(columns["time"], pa.timestamp("ms", "UTC"))
    return pa.table({**columns, "time": time})


def content(result) -> dict[str, list]:
    """All that was decided, to compare."""
    tables = ("trips", "stops", "points", "events", "effects", "dead_letters")
    return {name: pa.table(getattr(result, name)).to_pylist() for name in tables}
