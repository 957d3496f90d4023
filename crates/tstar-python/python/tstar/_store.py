"""Reads the SQLite stores that the program tstar writes."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from . import _times, _tstar
from ._tstar import InputError

_APPLICATION_ID = 0x54737472
_FORMAT = 1
_DAY_MS = 86_400_000

# A trip that touches two days has a row in each.
_ROWS = f"""
SELECT device_id, start_time, kind, ids, version, path FROM trips
WHERE bucket = start_time - ((start_time % {_DAY_MS}) + {_DAY_MS}) % {_DAY_MS}
  AND (?1 IS NULL OR device_id = ?1) AND end_time >= ?2 AND start_time < ?3
  AND (?1 IS NULL OR bucket BETWEEN ?2 - 2 * {_DAY_MS} AND ?3)
ORDER BY device_id, start_time
"""


def read(
    store: str | os.PathLike[str],
    *,
    device: str | None = None,
    since: datetime | str | int | None = None,
    until: datetime | str | int | None = None,
    path: bool = False,
) -> _tstar.Trips:
    """Reads the trips and stops of a store: an SQLite file that `tstar ingest` or `run` wrote.

    `store` is the file, such as `trips.db`, also with `sqlite:` before it. `device` selects the
    trips of a device, `since` and `until` those that end at or after a time and start before one.
    Times are datetimes with a zone, RFC 3339 texts, or ms since 1970, also as text of digits.
    The samples of what is read are held in memory, at 72 bytes each.

    Tables are those of `trips`; `row` counts the records of the store's log, from 0, so that
    `row` is version / 2. Nothing was decided here: `effects` and `dead_letters` are empty. There is
    `evidence` only without `since` and `until`.
    """
    file = Path(os.fspath(store).removeprefix("sqlite:"))
    if not file.is_file():
        raise FileNotFoundError(f"there is no store at {file}; tstar ingest makes one")
    from_ms = -(2**62) if since is None else _times.to_ms(since)
    until_ms = 2**62 if until is None else _times.to_ms(until)
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        try:
            rules = _rules(connection, file)
            rows = connection.execute(_ROWS, (device, from_ms, until_ms))
            is_span = since is not None or until is not None
            return _tstar.load(rules, _parsed(rows), path, is_span)
        except sqlite3.Error as error:
            raise InputError(f"the store {file} cannot be read: {error}") from error


def _parsed(rows: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
    for device, start_ms, kind, ids, version, path in rows:
        histories = [(int(t_star_ms), history) for t_star_ms, history in json.loads(ids).items()]
        yield device, start_ms, kind, histories, version, path


def _rules(connection: sqlite3.Connection, file: Path) -> _tstar.Rules:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (format,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION_ID:
        raise InputError(f"{file} is not a store of tstar; tstar ingest makes one")
    if format != _FORMAT:
        raise InputError(
            f"the store {file} has format {format}; this version of the package reads {_FORMAT}: "
            "use the one that has the version of the program that wrote it"
        )
    # A topic has the rules of its epochs, files those of the log.
    found = connection.execute("SELECT rules FROM epochs ORDER BY epoch DESC LIMIT 1").fetchone()
    if found is None:
        found = connection.execute("SELECT rules FROM log").fetchone()
    return _tstar.Rules() if found is None else _tstar.Rules.from_json(found[0])
