"""The rules, as keywords."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, TypedDict

Duration = str | timedelta | int | float


class Settings(TypedDict, total=False):
    """The rules, as keywords. Durations are texts such as "5m", timedeltas, or seconds."""

    max_gap: Duration
    min_stop: Duration | None
    stop_speed: float
    max_samples: int
    min_time: datetime | str
    max_future: Duration
    max_accuracy: float | None
    keep_zero_position: bool
    max_leg_speed: float | None
    time_unit: Literal["s", "ms", "us", "ns"]
    speed_unit: Literal["mps", "kmh", "mph", "kn"]
