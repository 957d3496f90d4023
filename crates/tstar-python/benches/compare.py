"""Trips of one frame: tstar next to MovingPandas, trackintel, DuckDB and Polars.

    pip install -r benches/requirements.txt dist/tstar-*.whl
    python benches/compare.py                   prints a table
    python benches/compare.py --into README.md  writes it there, between its marks

Each tool runs in a process of its own, three times; the least CPU time counts, of all its threads.
The frame has the samples of 1,000 vehicles every 10 s in the order of arrival, a fifth of them late
by 10 minutes on average; a trip ends after a silence of 5 minutes.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import platform
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

SMALL, LARGE = 200_000, 5_000_000
DEVICES = 1_000
GAP_MS = 300_000
MARKS = ("<!-- bench: begin -->\n", "<!-- bench: end -->")


def frame(samples: int):
    """A polars frame of the seeded fleet."""
    import numpy as np
    import polars as pl

    dice = np.random.default_rng(1)
    shape = (DEVICES, samples // DEVICES)
    silent = dice.random(shape) < 0.01
    step = np.where(silent, dice.integers(1_200_000, 7_200_000, shape), 10_000)
    times = 1_790_000_000_000 + np.cumsum(step, 1)

    def walk(start):
        return start + np.cumsum(dice.normal(0, 5e-4, shape), 1)

    lat, lon = walk(52.0), walk(13.0)
    late = np.where(dice.random(shape) < 0.2, dice.exponential(600_000, shape), 0)
    order = np.argsort(times + late, axis=None, kind="stable")
    names = np.array([f"vehicle-{it:05}" for it in range(DEVICES)])
    columns = {
        "device_id": names[np.repeat(np.arange(DEVICES), shape[1])[order]],
        "time": times.ravel()[order],
        "lat": lat.ravel()[order],
        "lon": lon.ravel()[order],
    }
    return pl.DataFrame(columns).with_columns(pl.col("time").cast(pl.Datetime("ms", "UTC")))


def of_tstar(given):
    import polars as pl

    import tstar

    result = tstar.trips(given, max_gap="5m")
    points = pl.DataFrame(result.points)
    assert len(points) == len(given)
    return len(pl.DataFrame(result.trips))


def of_polars(given):
    import polars as pl

    gap = pl.col("time").diff().over("device_id") > pl.duration(milliseconds=GAP_MS)
    points = given.sort("device_id", "time").with_columns(
        gap.fill_null(False).cum_sum().over("device_id").alias("trip")
    )
    trips = points.group_by("device_id", "trip").agg(
        pl.col("time").min().alias("start"), pl.col("time").max().alias("end"), pl.len()
    )
    return len(trips)


def of_duckdb(given):
    import duckdb

    duckdb.sql(f"""
        CREATE OR REPLACE TEMP TABLE points AS
        SELECT *, sum(begins) OVER (PARTITION BY device_id ORDER BY time) AS trip FROM (
            SELECT *, coalesce(epoch_ms(time) - epoch_ms(lag(time) OVER (
                PARTITION BY device_id ORDER BY time)) > {GAP_MS}, true)::INT AS begins
            FROM given)
    """)
    query = (
        "SELECT count(*) FROM (SELECT device_id, trip, min(time), max(time), count(*) "
        "FROM points GROUP BY ALL)"
    )
    return duckdb.sql(query).fetchall()[0][0]


def of_movingpandas(given):
    import movingpandas

    collection = movingpandas.TrajectoryCollection(
        given, traj_id_col="device_id", t="time", x="lon", y="lat", crs=4326
    )
    gap = datetime.timedelta(milliseconds=GAP_MS)
    split = movingpandas.ObservationGapSplitter(collection).split(gap=gap)
    return len(split.trajectories)


def of_trackintel(given):
    import geopandas
    import trackintel

    points = geopandas.points_from_xy(given["lon"], given["lat"], crs=4326)
    columns = {"user_id": given["device_id"], "tracked_at": given["time"]}
    fixes = geopandas.GeoDataFrame(columns, geometry=points)
    # It wants an order of time.
    fixes = trackintel.Positionfixes(
        fixes.sort_values(["user_id", "tracked_at"], ignore_index=True)
    )
    # A silence is a stay where it stood; legs and trips are what lies between.
    fixes, stays = fixes.generate_staypoints(gap_threshold=1e6, time_threshold=5, n_jobs=1)
    fixes, legs = fixes.generate_triplegs(stays, gap_threshold=5)
    stays = stays.create_activity_flag()
    stays, legs, trips = trackintel.preprocessing.generate_trips(stays, legs, gap_threshold=5)
    return len(trips)


TOOLS = {
    "tstar": (of_tstar, "device and time of the first-arrived sample: lasts"),
    "polars": (of_polars, "none: a number, which late data shifts"),
    "duckdb": (of_duckdb, "none: a number, which late data shifts"),
    "movingpandas": (of_movingpandas, "none that lasts: device and a number"),
    "trackintel": (of_trackintel, "none: a row number"),
}
OF_PANDAS = ("movingpandas", "trackintel")


def run(tool: str, samples: int) -> None:
    """Runs a tool three times, and prints the least CPU time."""
    warnings.filterwarnings("ignore")
    given = frame(samples)
    if tool in OF_PANDAS:
        given = given.to_pandas()
        given["time"] = (
            given["time"].dt.tz_localize(None) if tool == "movingpandas" else given["time"]
        )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    least = float("inf")
    for _ in range(3):
        copy = given.copy() if tool in OF_PANDAS else given
        began = time.process_time()
        trips = TOOLS[tool][0](copy)
        least = min(least, time.process_time() - began)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"cpu_s": least, "trips": trips, "mib": grown / 1024}))


def table() -> str:
    lines = [
        "| tool | CPU s per million | samples a second a core | of 200,000: CPU s | trips "
        "| id of a trip |",
        "|---|---|---|---|---|---|",
    ]
    for tool, (_, ids) in TOOLS.items():
        found = {}
        for samples in (SMALL,) if tool in OF_PANDAS else (SMALL, LARGE):
            command = [sys.executable, __file__, "--run", tool, str(samples)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[samples] = json.loads(done.stdout.splitlines()[-1])
            print(tool, samples, found[samples], file=sys.stderr)
        samples = max(found)
        cpu = found[samples]["cpu_s"] * 1e6 / samples
        small = found[SMALL]
        lines.append(
            f"| {tool} {importlib.metadata.version(tool)} | {cpu:.2f} | {1e6 / cpu:,.0f} "
            f"| {small['cpu_s']:.2f} | {small['trips']:,} | {ids} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--into", type=Path, help="the page whose table is replaced")
    arguments.add_argument("--run", nargs=2, metavar=("TOOL", "SAMPLES"), help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.run:
        run(given.run[0], int(given.run[1]))
        return
    head = (
        f"{datetime.date.today()}, Python {platform.python_version()}, two cores of an AMD EPYC, "
        f"shared with other work. The figures per million are of {LARGE:,} samples, those of "
        f"{' and '.join(OF_PANDAS)} of {SMALL:,}.\n\n"
    )
    text = head + table()
    if given.into is None:
        print(text)
        return
    page = given.into.read_text()
    before, rest = page.split(MARKS[0])
    _, after = rest.split(MARKS[1])
    given.into.write_text(before + MARKS[0] + text + MARKS[1] + after)


if __name__ == "__main__":
    main()
