"""Trip ids in all forms.

    >>> tstar.id.format("truck-17", "2026-11-20T21:38:00.123Z")
    'truck-17~20261120T213800.123Z'
    >>> tstar.id.parse("truck-17~20261120T213800.123Z").device
    'truck-17'

| form | example | property |
|---|---|---|
| `text` | `truck-17~20261120T213800.123Z` | readable; sorts by time within a device |
| `key` | bytes: the device, a zero byte and the time, big-endian | for keys of stores |
| `bytes` | `ehp7aorb5koje040000q3un52stg` | the key in base32hex, which sorts like it |
| `uuid` | `01a1fae5-173b-8152-8ed4-88d4aacc8ddd` | for UUID columns; has a hash of the device |
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from . import _times, _tstar

Form = Literal["text", "key", "bytes", "uuid"]

__all__ = [
    "TripId",
    "date_range",
    "device_of_token",
    "format",
    "parse",
    "prefix",
    "prefix_range",
    "token",
]


@dataclass(frozen=True, order=True)
class TripId:
    """The parts of an id. A UUID has a hash of the device: `device` is None then."""

    device: str | None
    t_star_ms: int
    """Device time of the first-arrived sample, ms since 1970."""

    uuid: UUID | None = None
    """The UUID, if that is what was parsed."""

    @property
    def t_star(self) -> datetime:
        """Device time of the first-arrived sample."""
        return _times.from_ms(self.t_star_ms)

    def matches(self, device: str) -> bool:
        """Whether this is the id of that device's trip."""
        if self.uuid is None:
            return self.device == device
        return _tstar.format(device, self.t_star_ms, "uuid") == str(self.uuid)

    def format(self, form: Form = "text") -> str | bytes:
        """The id in a form."""
        if self.uuid is not None and form == "uuid":
            return str(self.uuid)
        if self.device is None:
            raise _tstar.InputError(
                f"{self.uuid} has only a hash of the device; use format(device, t_star, {form!r})"
            )
        return _tstar.format(self.device, self.t_star_ms, form)

    def __str__(self) -> str:
        return str(self.uuid) if self.uuid is not None else str(self.format())


def format(device: str, t_star: datetime | str | int, form: Form = "text") -> str | bytes:
    """The id of a device's trip in a form.

    `t_star` is a datetime with a zone, RFC 3339 text, or ms since 1970, also as text of digits.
    """
    return _tstar.format(device, _times.to_ms(t_star), form)


def parse(given: str | bytes | UUID) -> TripId:
    """The parts of an id in any form, each of which has one spelling."""
    device, t_star_ms = _tstar.parse(str(given) if isinstance(given, UUID) else given)
    uuid = UUID(str(given)) if device is None else None
    return TripId(device, t_star_ms, uuid)


def prefix(device: str, date: str) -> str:
    """The prefix of the text ids of a device's trips in a year, month, day or hour of UTC.

    `date` is 2026, 2026-11, 2026-11-20 or 2026-11-20T21, with or without dashes.
    """
    return _tstar.prefix(device, date)


def prefix_range(prefix: str) -> tuple[str, datetime, datetime]:
    """The device of such a prefix, and the first and last time of its ids."""
    device, from_ms, upto_ms = _tstar.prefix_range(prefix)
    return device, _times.from_ms(from_ms), _times.from_ms(upto_ms)


def date_range(date: str) -> tuple[datetime, datetime]:
    """The first and last time of a year, month, day or hour of UTC."""
    from_ms, upto_ms = _tstar.date_range(date)
    return _times.from_ms(from_ms), _times.from_ms(upto_ms)


def token(device: str) -> str:
    """The device as in text ids and URLs: bytes other than A-Z a-z 0-9 . _ - are ~ and hex."""
    return _tstar.token(device)


def device_of_token(token: str) -> str:
    """The device of a token."""
    return _tstar.device_of_token(token)
