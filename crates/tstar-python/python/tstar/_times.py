"""Times of Python's values."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from . import _tstar

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)


def to_ms(time: datetime | str | int) -> int:
    """Ms since 1970, floored. A text of digits is such a number."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise _tstar.InputError(
                f"{time} has no zone; write datetime(..., tzinfo=timezone.utc), or its own zone"
            )
        return (time - _EPOCH) // _MS
    if isinstance(time, str):
        return _tstar.parse_time(time)
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    raise _tstar.InputError(
        f"{time!r} is not a time; give a datetime with a zone, RFC 3339 text, or ms since 1970"
    )


def from_ms(ms: int) -> datetime:
    """A datetime in UTC."""
    return _EPOCH + ms * _MS
