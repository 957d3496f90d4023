"""Vehicle trips with lasting ids from data frames of location samples, in any order of arrival.

    import tstar

    result = tstar.trips(frame, device="vehicle", time="ts", lat="lat", lon="lon")
    result.trips.to_pandas()

A trip's id is its device and the device time of its first-arrived sample. Late samples extend a
trip at either end without changing its id; a sample that joins two trips retires one of the ids,
which still resolves. The rules are those of the program tstar: the same samples in the same order
of arrival give the same trips, ids and paths.
"""

from . import id
from ._decide import Timeline, trips
from ._store import read
from ._tstar import InputError, Rules, Table, Trips, Verified, __version__, decode_path, verify

__all__ = [
    "InputError",
    "Rules",
    "Table",
    "Timeline",
    "Trips",
    "Verified",
    "__version__",
    "decode_path",
    "id",
    "read",
    "trips",
    "verify",
]
