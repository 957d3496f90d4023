"""The native part of tstar."""

from collections.abc import Iterator
from typing import Any, final

from typing_extensions import Self

__all__ = [
    "FIELDS",
    "OPTIONAL_FIELDS",
    "InputError",
    "Rules",
    "Table",
    "Timeline",
    "Trips",
    "Verified",
    "__version__",
    "date_range",
    "decide",
    "decode_path",
    "device_of_token",
    "format",
    "load",
    "parse",
    "parse_time",
    "prefix",
    "prefix_range",
    "token",
    "verify",
]

__version__: str

FIELDS: tuple[str, ...]
"""The names of the fields of a sample, which name its columns."""

OPTIONAL_FIELDS: tuple[str, ...]
"""Those that are the columns of these names, if a frame has them and no other is named."""

class InputError(ValueError):
    """A frame, a column or a value that cannot be used. The message names it."""

@final
class Table:
    """A table with the Arrow C stream interface: pyarrow, polars, pandas and DuckDB read it."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...
    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""

    def to_pyarrow(self) -> Any:
        """The table in pyarrow."""

    def to_pandas(self) -> Any:
        """The table in pandas, which needs pyarrow for it."""

    def to_polars(self) -> Any:
        """The table in polars."""

@final
class Rules:
    """The rules that decide trips. Equal rules give equal trips.

    Keywords, all optional:

    - `max_gap` ("5m"): a trip ends after a longer silence, and where the ignition goes off.
    - `min_stop` ("5m"): standing this long ends a trip; None: standing alone ends none.
    - `stop_speed` (0.5): a vehicle stands while it reports a lower speed, m/s.
    - `max_samples` (100,000): a sample inside a trip that has this many is a dead letter.
    - `min_time` ("2000-01-01T00:00:00Z"): samples with an earlier device time are dead letters.
    - `max_future` ("24h"): those further past their arrival are, too.
    - `max_accuracy` (None): samples with a worse accuracy, m, are dropped.
    - `keep_zero_position` (False): keep samples at latitude 0 and longitude 0.
    - `max_leg_speed` (None): faster legs do not count for distance and average speed, m/s.
    - `time_unit` ("ms"): unit of times that are numbers: s, ms, us or ns.
    - `speed_unit` ("mps"): unit of speeds: mps, kmh, mph or kn.

    Durations are texts such as "5m", timedeltas, or seconds.
    """

    def __new__(cls, **settings: Any) -> Self: ...
    @staticmethod
    def from_json(json: str) -> Rules:
        """The rules that a store has, from their JSON."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def json(self) -> str:
        """The form that stores have, and whose SHA-256 is `hash`."""

    @property
    def hash(self) -> str:
        """SHA-256 of `json`, in hex."""

    @property
    def max_gap(self) -> float:
        """A trip ends after a longer silence, s."""

    @property
    def min_stop(self) -> float | None:
        """Standing this long ends a trip, s; None: standing alone ends none."""

    @property
    def stop_speed(self) -> float:
        """A vehicle stands while it reports a lower speed, m/s."""

    @property
    def max_samples(self) -> int:
        """Most samples of a trip."""

    @property
    def min_time(self) -> str:
        """Earlier device times are not accepted."""

    @property
    def max_future(self) -> float:
        """How far a device time may lie past the time of its arrival, s."""

    @property
    def max_accuracy(self) -> float | None:
        """Samples with a worse accuracy are dropped, m."""

    @property
    def keep_zero_position(self) -> bool:
        """Whether samples at latitude 0 and longitude 0 are kept."""

    @property
    def max_leg_speed(self) -> float | None:
        """Faster legs do not count for distance and average speed, m/s."""

    @property
    def time_unit(self) -> str:
        """Unit of times that are numbers: s, ms, us or ns."""

    @property
    def speed_unit(self) -> str:
        """Unit of speeds: mps, kmh, mph or kn."""

@final
class Trips:
    """The trips, stops, points and events of the rows so far, as tables."""

    @property
    def trips(self) -> Table:
        """The trips: a row for each, by device and time."""

    @property
    def stops(self) -> Table:
        """The stops: a row for each, by device and time."""

    @property
    def points(self) -> Table:
        """The kept samples, by device and time, each with the id of its trip or stop."""

    @property
    def events(self) -> Table:
        """What became of ids, by row: minted, retired by a merge, revived by a split."""

    @property
    def effects(self) -> Table:
        """What each row did."""

    @property
    def dead_letters(self) -> Table:
        """The rows that are not samples: row, reason, column, and a message with the value."""

    @property
    def counts(self) -> dict[str, Any]:
        """How many rows did what."""

    def evidence(self, id: str) -> str:
        """The evidence of the trip or stop with an id, as JSON: what it is, the rules, and the kept
        samples of its device within two days of it, at most 1,000,000. `verify` checks it.

        There is none of what `read` selected by time, which may lack samples of these days.
        """

    @property
    def rules(self) -> Rules:
        """The rules that decided."""

@final
class Verified:
    """Whether a trip follows from its evidence. True if it does."""

    @property
    def follows(self) -> bool:
        """Whether the trip follows from its records and rules."""

    @property
    def differences(self) -> list[tuple[str, str, str]]:
        """How it differs from what follows: name of the fact, what the evidence says, what follows;
        the last two as JSON."""

    @property
    def records(self) -> int:
        """Number of records."""

    @property
    def kept(self) -> int:
        """Number of records that are kept samples of the trip."""

    @property
    def rules_hash(self) -> str:
        """SHA-256 of the rules, in hex: `Rules.hash` of a frame or store with the same ones."""

    def __bool__(self) -> bool: ...

class Timeline:
    """The trips of samples as they arrive, one by one or frame by frame."""

    def __new__(cls, rules: Rules, strict: bool) -> Self: ...
    def _add(self, sample: dict[str, Any]) -> str: ...
    def _absorb(
        self, frame: Any, columns: dict[str, str | None], order_by: list[str], now_ms: int
    ) -> None: ...
    def _id_at(self, device: str, time_ms: int) -> str | None: ...
    def snapshot(self) -> Trips:
        """The trips, stops, points and events so far. They stay as they are when more arrives."""

    def take_changes(self) -> Table:
        """What changed since the last call, as the change feed of `tstar` announces it."""

def decide(
    frame: Any,
    columns: dict[str, str | None],
    rules: Rules,
    order_by: list[str],
    now_ms: int,
    strict: bool,
    path: bool,
) -> Trips: ...
def load(rules: Rules, rows: Iterator[tuple[Any, ...]], path: bool, span: bool) -> Trips: ...
def verify(evidence: str) -> Verified:
    """Decides whether a trip follows from its evidence, which `Trips.evidence` and
    `tstar explain --evidence` write.

    Only the records in it are known: one that was left out may have made another trip.
    """

def decode_path(path: bytes) -> Table:
    """The samples of a path, by time: `schema/path.proto` has the format."""

def format(device: str, t_star_ms: int, form: str) -> str | bytes: ...
def parse(given: str | bytes) -> tuple[str | None, int]: ...
def parse_time(text: str) -> int: ...
def token(device: str) -> str: ...
def device_of_token(token: str) -> str: ...
def prefix(device: str, date: str) -> str: ...
def prefix_range(prefix: str) -> tuple[str, int, int]: ...
def date_range(date: str) -> tuple[int, int]: ...
