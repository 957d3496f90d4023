"""Decides the trips of frames and of single samples."""

from __future__ import annotations

import time as _clock
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from . import _frame, _times, _tstar

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._settings import Settings

# The column of each field, as the arguments say.
_Given = dict[str, str | Literal[False] | None]


def _given(arguments: Mapping[str, Any]) -> _Given:
    """Of the arguments of a function, those that name columns."""
    return {field: arguments[field] for field in _tstar.FIELDS}


def _is_strict(errors: str) -> bool:
    if errors not in ("collect", "raise"):
        raise ValueError(f'errors= is {errors!r}; it needs "collect" or "raise"')
    return errors == "raise"


def _now_ms() -> int:
    return _clock.time_ns() // 1_000_000


def _rules(rules: _tstar.Rules | None, settings: Mapping[str, Any]) -> _tstar.Rules:
    if rules is None:
        return _tstar.Rules(**settings)
    if settings:
        names = ", ".join(sorted(settings))
        raise TypeError(f"give rules= or single rules, not both: {names}")
    return rules


def _columns(given: _Given) -> dict[str, str | None]:
    """The column of each field; None: that of the field's name, if the stream has one."""
    columns: dict[str, str | None] = {}
    for field, column in given.items():
        if column is None:
            if field in _tstar.OPTIONAL_FIELDS:
                columns[field] = None
        elif column is not False:
            if not isinstance(column, str):
                raise TypeError(f"{field}= is the name of a column, not {column!r}")
            columns[field] = column
    return columns


def _prepared(
    frame: Any,
    given: _Given,
    order_by: str | Iterable[str] | None,
) -> tuple[Any, dict[str, str | None], list[str]]:
    """The frame with the columns that are needed, these, and the order."""
    order = [order_by] if isinstance(order_by, str) else list(order_by or ())
    columns = _columns(given)
    # What only the stream can tell is not known here.
    known = _frame.names(frame) or ()
    used = [column or field for field, column in columns.items() if column or field in known]
    needed = list(dict.fromkeys([*used, *order]))
    return _frame.select(frame, needed), columns, order


def trips(
    frame: Any,
    *,
    device: str = "device_id",
    time: str = "time",
    lat: str = "lat",
    lon: str = "lon",
    speed: str | Literal[False] | None = None,
    heading: str | Literal[False] | None = None,
    altitude: str | Literal[False] | None = None,
    accuracy: str | Literal[False] | None = None,
    ignition: str | Literal[False] | None = None,
    driver: str | Literal[False] | None = None,
    received: str | None = None,
    order_by: str | Iterable[str] | None = None,
    errors: Literal["collect", "raise"] = "collect",
    path: bool = False,
    rules: _tstar.Rules | None = None,
    **settings: Unpack[Settings],
) -> _tstar.Trips:
    """Decides the trips of a frame.

    `frame` is a pandas or polars DataFrame, a pyarrow Table, or any object with the Arrow C stream
    interface (`__arrow_c_stream__`). Its rows are samples in their order of arrival, or in that of
    the columns `order_by`, in which rows with equal values stay as they are.

    `device`, `time`, `lat`, `lon` and the others name columns:

    - `device`: text, categories or integers, 1 to 256 bytes.
    - `time`: the device's own time, as timestamps of any unit and zone (without a zone: UTC), as
      numbers in `time_unit` since 1970 (ms unless set), also as text of digits, or as RFC 3339 text
      with an offset.
    - `lat`, `lon`: degrees, WGS 84.
    - `speed` (in `speed_unit`, m/s unless set), `heading` (degrees), `altitude`, `accuracy` (m),
      `ignition` (booleans, 0 and 1, or texts such as on and off), `driver` (text). None: the column
      of that name, if the frame has one. False: no column. A null, NaN or -1 means unknown.
    - `received`: when the row arrived, for the rule `max_future`; without it, now.

    A row that is not a sample is counted, and listed in `dead_letters` with its reason; with
    `errors="raise"` the first one is an `InputError`. An ignition that is neither on nor off makes
    no such row: it is unknown, and counts in `counts["unknown_ignition"]`. With `path=True`, the
    tables of trips and stops have the encoded samples, as `decode_path` reads them.

    The rules are keywords such as `max_gap="10m"`, which `Rules` documents, or `rules`, such as
    those of a store.
    """
    given = _given(locals())
    is_strict = _is_strict(errors)
    decided_by = _rules(rules, settings)
    selected, columns, order = _prepared(frame, given, order_by)
    return _tstar.decide(selected, columns, decided_by, order, _now_ms(), is_strict, path)


class Timeline(_tstar.Timeline):
    """The trips of samples as they arrive: one by one, or frame by frame.

    Takes rules as `trips` does, and `errors`. Methods may be called from several threads: each
    waits for the one before. What runs within a call, such as the generator of a frame that
    `absorb` reads, cannot call the same Timeline: a `RuntimeError`.
    """

    def __new__(
        cls,
        *,
        errors: Literal["collect", "raise"] = "collect",
        rules: _tstar.Rules | None = None,
        **settings: Unpack[Settings],
    ) -> Self:
        is_strict = _is_strict(errors)
        return super().__new__(cls, _rules(rules, settings), is_strict)

    def __init__(self, **_: Any) -> None:
        """What there is to do, `__new__` has done."""

    def add(
        self,
        device: str | int,
        time: datetime | str | int,
        lat: float,
        lon: float,
        *,
        speed: float | None = None,
        heading: float | None = None,
        altitude: float | None = None,
        accuracy: float | None = None,
        ignition: bool | None = None,
        driver: str | None = None,
        received: datetime | str | int | None = None,
    ) -> str:
        """Applies the next sample, and returns what it did.

        That is `new`, `end`, `beginning`, `inside`, `merge`, `split` or `turn` if it is kept;
        `duplicate` or `conflicting` if a sample of that time is kept; else the reason why it is
        not: `zero_position`, `bad_fix`, `out_of_range`, `time_before_min` and so on. Times are
        datetimes with a zone, RFC 3339 texts, or ms since 1970, also as text of digits.
        """
        return self._add(
            dict(
                device=str(device),
                time_ms=_times.to_ms(time),
                lat=lat,
                lon=lon,
                speed=speed,
                heading=heading,
                altitude=altitude,
                accuracy=accuracy,
                ignition=ignition,
                driver=driver,
                received_ms=_now_ms() if received is None else _times.to_ms(received),
            )
        )

    def absorb(
        self,
        frame: Any,
        *,
        device: str = "device_id",
        time: str = "time",
        lat: str = "lat",
        lon: str = "lon",
        speed: str | Literal[False] | None = None,
        heading: str | Literal[False] | None = None,
        altitude: str | Literal[False] | None = None,
        accuracy: str | Literal[False] | None = None,
        ignition: str | Literal[False] | None = None,
        driver: str | Literal[False] | None = None,
        received: str | None = None,
        order_by: str | Iterable[str] | None = None,
    ) -> None:
        """Applies the rows of a frame, as `trips` reads them. Row numbers count on.

        After an error, the rows that were applied before it stay: with `errors="raise"` those
        before the bad one, in their order of arrival.
        """
        selected, columns, order = _prepared(frame, _given(locals()), order_by)
        self._absorb(selected, columns, order, _now_ms())

    def id_at(self, device: str | int, time: datetime | str | int) -> str | None:
        """The id of the trip or stop that covers a time of a device; None if there is none.

        `time` is as in `add`.
        """
        return self._id_at(str(device), _times.to_ms(time))
