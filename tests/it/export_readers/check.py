"""Reads every file in this folder with programs of others, and prints a line of JSON for each: the
reader, the number of trips, and the first difference to truth.ndjson, or null."""

import csv
import datetime
import io
import json
import sqlite3
import subprocess
import xml.etree.ElementTree as xml

import duckdb
import geopandas
import gpxpy
import movingpandas
import pandas
import pyarrow.parquet
import shapely

QUANTUM = 1e-7
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def ms(text):
    """RFC 3339, or a time of a library, as ms since 1970."""
    if isinstance(text, str):
        text = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    if isinstance(text, pandas.Timestamp) or not isinstance(text, datetime.datetime):
        stamp = pandas.Timestamp(text)
        stamp = stamp.tz_localize("UTC") if stamp.tzinfo is None else stamp
        text = stamp.to_pydatetime()
    if text.tzinfo is None:
        text = text.replace(tzinfo=datetime.timezone.utc)
    return (text - EPOCH) // datetime.timedelta(milliseconds=1)


def number(value):
    """None instead of the several kinds of absent values."""
    return None if value is None or pandas.isna(value) or value == "" else float(value)


def read_truth():
    trips = []
    with open("truth.ndjson", encoding="utf-8") as file:
        for line in file:
            trip = json.loads(line)
            trip["times"] = [ms(time) for time in trip["path"]["times"]]
            trip["positions"] = [tuple(it) for it in trip["path"]["coordinates"]]
            trip["speeds"] = trip["path"]["speed_mps"]
            trip["headings"] = trip["path"]["heading_deg"]
            trip["start_ms"], trip["end_ms"] = ms(trip["start_time"]), ms(trip["end_time"])
            trips.append(trip)
    return trips


def near(found, expected):
    """Whether two positions are less than the quantum apart."""
    return len(found) == len(expected) and all(
        abs(one[0] - other[0]) < QUANTUM / 2 and abs(one[1] - other[1]) < QUANTUM / 2
        for one, other in zip(found, expected)
    )


def equal(name, found, expected):
    if isinstance(expected, float) and found is not None:
        same = abs(found - expected) < 1e-6
    elif name == "positions":
        same = near(found, expected)
    elif name in ("speeds", "headings"):
        same = len(found) == len(expected) and all(
            (one is None) == (other is None) and (one is None or abs(one - other) < 1e-9)
            for one, other in zip(found, expected)
        )
    else:
        same = found == expected
    assert same, f"{name}: {str(found)[:200]} instead of {str(expected)[:200]}"


def compare(found, truth):
    """Trips by id, each with some of the fields of the truth."""
    assert len(found) == len(truth), f"{len(found)} trips instead of {len(truth)}"
    for expected in truth:
        assert expected["id"] in found, f"no trip {expected['id']}"
        for name, value in found[expected["id"]].items():
            equal(f"{name}", value, expected[name])
    for name in ("distance_m", "samples", "duration_s"):
        if all(name in trip for trip in found.values()):
            sums = [sum(trip[name] for trip in trips) for trips in (found.values(), truth)]
            assert abs(sums[0] - sums[1]) < 1e-3, f"sum of {name}: {sums}"


FIELDS = ("device_id", "samples", "distance_m", "avg_speed_mps", "max_speed_mps", "driver")


def fields(row):
    """The fields that every table has."""
    found = {name: row[name] for name in FIELDS}
    for name in ("distance_m", "avg_speed_mps", "max_speed_mps"):
        found[name] = number(found[name])
    found["samples"] = int(found["samples"])
    found["driver"] = None if pandas.isna(found["driver"]) else found["driver"]
    found["start_ms"], found["end_ms"] = ms(row["start_time"]), ms(row["end_time"])
    return found


def positions(geometry):
    return [tuple(it[:2]) for it in shapely.get_coordinates(geometry)]


def parquet_geopandas(truth):
    table = geopandas.read_parquet("trips.parquet")
    assert table.crs.to_authority() == ("OGC", "CRS84"), table.crs
    found = {}
    for row in table.to_dict("records"):
        found[row["id"]] = fields(row) | {
            "absorbed": list(row["absorbed"]),
            "times": [ms(time) for time in row["times"]],
            "positions": positions(row["geometry"]),
            "version": row["version"],
        }
        kind = row["geometry"].geom_type
        assert kind == ("Point" if row["samples"] == 1 else "LineString"), kind
    west, south, east, north = table.total_bounds
    part = geopandas.read_parquet("trips.parquet", bbox=(west, south, (west + east) / 2, north))
    inside = [it for it in truth if it["bbox"][0] <= (west + east) / 2]
    assert len(part) == len(inside), f"{len(part)} trips in a part, instead of {len(inside)}"
    return found


def parquet_duckdb(truth):
    columns = "id, device_id, samples, distance_m, avg_speed_mps, max_speed_mps, driver"
    query = f"SELECT {columns}, start_time, end_time, t_star, times, absorbed, geometry, bbox"
    rows = duckdb.sql(f"{query} FROM 'trips.parquet'")
    rows = [dict(zip(rows.columns, row)) for row in rows.fetchall()]
    found = {}
    for row in rows:
        shape = row["geometry"]
        wkb = shape if isinstance(shape, (bytes, bytearray)) else shapely.to_wkb(shape)
        found[row["id"]] = fields(row) | {
            "times": [ms(time) for time in row["times"]],
            "absorbed": row["absorbed"],
            "positions": positions(shapely.from_wkb(bytes(wkb))),
            "bbox": [row["bbox"][it] for it in ("xmin", "ymin", "xmax", "ymax")],
        }
    order = [(row["device_id"].encode(), ms(row["start_time"])) for row in rows]
    assert order == sorted(order), "the rows are not sorted by device and time"
    return found


def points(rows):
    """Trips of the rows of samples."""
    found, trips = {}, {}
    for row in rows:
        trips.setdefault(row["trip_id"], []).append(row)
    for trip, rows in trips.items():
        found[trip] = {
            "device_id": rows[0]["device_id"],
            "samples": len(rows),
            "times": [ms(row["time"]) for row in rows],
            "positions": [(row["lon"], row["lat"]) for row in rows],
            "speeds": [number(row["speed_mps"]) for row in rows],
            "headings": [number(row["heading_deg"]) for row in rows],
        }
    return found


def points_duckdb(truth):
    rows = duckdb.sql("SELECT * FROM 'points.parquet'")
    return points([dict(zip(rows.columns, row)) for row in rows.fetchall()])


def points_pyarrow(truth):
    file = pyarrow.parquet.ParquetFile("points.parquet")
    kinds = {file.metadata.row_group(0).column(at).compression for at in range(9)}
    assert kinds == {"ZSTD"}, kinds
    return points(file.read().to_pylist())


def points_csv(truth):
    return points(pandas.read_csv("points.csv", keep_default_na=False).to_dict("records"))


def trips_csv(truth):
    table = pandas.read_csv("trips.csv")
    absorbed = table["absorbed"].fillna("").str.split()
    return {
        row["id"]: fields(row) | {"absorbed": ids}
        for row, ids in zip(table.to_dict("records"), absorbed)
    }


def geojson_geopandas(truth):
    table = geopandas.read_file("trips.geojson")
    found = {}
    for row in table.to_dict("records"):
        times = row["coordTimes"]
        times = json.loads(times) if isinstance(times, str) else times
        found[row["id"]] = fields(row) | {
            "times": [ms(time) for time in times],
            "positions": positions(row["geometry"]),
        }
    return found


def kepler(truth):
    # What kepler.gl demands of a layer of trips: lines only, and four coordinates everywhere.
    table = geopandas.read_file("trips.kepler.json")
    assert set(table.geom_type) == {"LineString"}, set(table.geom_type)
    with open("trips.kepler.json", encoding="utf-8") as file:
        features = json.load(file)["features"]
    found = {}
    for feature in features:
        coordinates = feature["geometry"]["coordinates"]
        assert all(len(it) == 4 for it in coordinates)
        if feature["properties"]["samples"] == 1:
            assert coordinates[0] == coordinates[1]
            coordinates = coordinates[:1]
        found[feature["id"]] = fields(feature["properties"]) | {
            "times": [int(it[3]) for it in coordinates],
            "positions": [tuple(it[:2]) for it in coordinates],
        }
    return found


def mfjson_movingpandas(truth):
    with open("trips.mf.json", encoding="utf-8") as file:
        collection = json.load(file)
    lines = [it for it in collection["features"] if it["properties"]["samples"] > 1]
    one = {"type": "FeatureCollection", "features": lines}
    found = {}
    for line in movingpandas.read_mf_dict(one, traj_id_property="id").trajectories:
        found[line.id] = {
            "times": [ms(time) for time in line.df.index],
            "positions": [tuple(it) for it in shapely.get_coordinates(line.df.geometry)],
            "start_ms": ms(line.get_start_time()),
            "end_ms": ms(line.get_end_time()),
        }
        if "speed" in line.df:
            found[line.id]["speeds"] = [number(it) for it in line.df["speed"]]
    # A trajectory has at least two positions.
    for feature in collection["features"]:
        if feature["properties"]["samples"] == 1:
            moving = feature["temporalGeometry"]
            found[feature["id"]] = {
                "times": [ms(time) for time in moving["datetimes"]],
                "positions": [tuple(it) for it in moving["coordinates"]],
            }
    return found


def kml(truth):
    # GDAL has the positions, but not their times.
    run = ["ogr2ogr", "-f", "GeoJSON", "/vsistdout/", "trips.kml"]
    features = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)["features"]
    found = {}
    for feature in features:
        geometry = feature["geometry"]
        coordinates = geometry["coordinates"]
        while geometry["type"] == "Point" and not isinstance(coordinates[0], list):
            coordinates = [coordinates]
        found[feature["properties"]["Name"]] = {
            "device_id": feature["properties"]["device_id"],
            "distance_m": float(feature["properties"]["distance_m"]),
            "positions": [tuple(it[:2]) for it in coordinates],
        }
    spaces = {"": "http://www.opengis.net/kml/2.2", "gx": "http://www.google.com/kml/ext/2.2"}
    for mark in xml.parse("trips.kml").getroot().iterfind(".//Placemark", spaces):
        trip = found[mark.find("name", spaces).text]
        trip["times"] = [ms(it.text) for it in mark.iterfind("gx:Track/when", spaces)]
        assert len(mark.findall("gx:Track/gx:coord", spaces)) == len(trip["times"])
    return found


def gpx(truth):
    with open("trips.gpx", encoding="utf-8") as file:
        tracks = gpxpy.parse(file).tracks
    found = {}
    for track in tracks:
        (segment,) = track.segments
        readings = {"speed": [], "course": []}
        for point in segment.points:
            own = {it.tag.split("}")[1]: it.text for ext in point.extensions for it in ext}
            for name, values in readings.items():
                values.append(number(own.get(name)))
        found[track.name] = {
            "device_id": track.source,
            "samples": len(segment.points),
            "times": [ms(point.time) for point in segment.points],
            "positions": [(point.longitude, point.latitude) for point in segment.points],
            "speeds": readings["speed"],
            "headings": readings["course"],
        }
    return found


def of_view(rows):
    found = {}
    for row in rows:
        found[row["id"]] = {
            "device_id": row["device_id"],
            "t_star": row["t_star"],
            "samples": int(row["samples"]),
            "distance_m": float(row["km"]) * 1000,
            "duration_s": float(row["duration_s"]),
            "start_ms": ms(row["start_time"]),
            "end_ms": ms(row["end_time"]),
            "start": {"lat": float(row["start_lat"]), "lon": float(row["start_lon"])},
        }
    return found


def view_pandas(truth):
    with sqlite3.connect("file:trips.db?mode=ro", uri=True) as store:
        return of_view(pandas.read_sql("SELECT * FROM trip", store).to_dict("records"))


def view_duckdb(truth):
    with duckdb.connect() as connection:
        connection.execute("ATTACH 'trips.db' AS store (TYPE sqlite, READ_ONLY)")
        rows = connection.sql("SELECT * FROM store.trip")
        found = of_view([dict(zip(rows.columns, row)) for row in rows.fetchall()])
        absorbed = "SELECT id, absorbed_id FROM store.trip_absorbed ORDER BY absorbed_id"
        for trip in found.values():
            trip["absorbed"] = []
        for trip, retired in connection.sql(absorbed).fetchall():
            found[trip]["absorbed"].append(retired)
        return found


def view_gdal(truth):
    run = ["ogr2ogr", "-f", "CSV", "/vsistdout/", "trips.db", "trip"]
    out = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    return of_view(csv.DictReader(io.StringIO(out)))


CHECKS = (
    parquet_geopandas,
    parquet_duckdb,
    points_duckdb,
    points_pyarrow,
    points_csv,
    trips_csv,
    geojson_geopandas,
    kepler,
    mfjson_movingpandas,
    kml,
    gpx,
    view_pandas,
    view_duckdb,
    view_gdal,
)


def main():
    truth = read_truth()
    for check in CHECKS:
        found, difference = {}, None
        try:
            found = check(truth)
            compare(found, truth)
        except AssertionError as wrong:
            difference = str(wrong)
        print(json.dumps({"reader": check.__name__, "trips": len(found), "difference": difference}))


main()
