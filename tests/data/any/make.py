"""Writes the files here: the same 80 samples of two vehicles, as people export them.

Each vehicle drives for 19 minutes, is silent for an hour, and drives again; a sample each minute.
table.parquet needs pyarrow (it was written by version 26) and is written only where that is.
"""
import csv
import io
import math
from datetime import datetime, timedelta

START = datetime(2026, 3, 27, 6, 4, 0)
SPEED = 15.0  # m/s


def samples():
    for index, minute in enumerate([*range(20), *range(80, 100)]):
        for vehicle in range(2):
            way = index * 60 * SPEED
            lat = 48.137 + vehicle * 0.5 + way / 111_195.08
            lon = 11.575 + 0.002 * math.sin(index / 8)
            yield vehicle, START + timedelta(minutes=minute), round(lat, 6), round(lon, 6)


def write(name, header, row, delimiter=",", encoding="utf-8", end="\n", before="", only=None):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    out.write(before)
    writer.writerow(header)
    for vehicle, time, lat, lon in samples():
        if only is None or vehicle == only:
            writer.writerow(row(vehicle, time, lat, lon))
    with open(name, "wb") as file:
        file.write(out.getvalue().encode(encoding))


def comma(number, digits=6):
    return f"{number:.{digits}f}".replace(".", ",")


def us_time(time, seconds=False):
    clock = time.strftime("%I:%M:%S %p" if seconds else "%I:%M %p").lstrip("0")
    return clock


PLATES = ["M-AB 12", "M-ÄX 7"]

write("german.csv", ["Fahrzeug", "Zeit", "Breite", "Länge", "km/h", "Zündung"],
      lambda v, t, lat, lon: [PLATES[v], t.strftime("%d.%m.%Y %H:%M"), comma(lat), comma(lon),
                              comma(SPEED * 3.6, 1), "ein"], ";", "utf-8-sig")
write("datum-uhrzeit.csv",
      ["Kennzeichen", "Datum", "Uhrzeit", "Geogr. Breite", "Geogr. Länge", "Fahrer"],
      lambda v, t, lat, lon: [PLATES[v], t.strftime("%d.%m.%Y"), t.strftime("%H:%M:%S"),
                              comma(lat), comma(lon), "Jörg Müller"], ";", "cp1252", "\r\n")
write("us.csv", ["Vehicle Name", "Timestamp (Local)", "Latitude", "Longitude", "Speed (mph)"],
      lambda v, t, lat, lon: [f"Truck #{v}", f"{t.month}/{t.day}/{t:%y} {us_time(t)}", lat, lon,
                              round(SPEED / 0.44704, 1)])
write("positions.tsv", ["unit", "time", "y", "x"],
      lambda v, t, lat, lon: [f"u{v}", t.strftime("%Y-%m-%d %H:%M:%S"), lat, lon], "\t")
write("serial.csv", ["Objekt", "Zeitpunkt", "Breitengrad", "Längengrad"],
      lambda v, t, lat, lon: [f"o{v}", comma((t - datetime(1899, 12, 30)) / timedelta(days=1), 5),
                              comma(lat), comma(lon)], ";", "utf-8", "\r\n", "sep=;\r\n")
write("french.csv",
      ["Véhicule", "Horodatage", "Latitude", "Longitude", "Vitesse (km/h)", "Contact"],
      lambda v, t, lat, lon: [f"AB-{v}-CD", t.strftime("%d/%m/%Y %H:%M:%S"), comma(lat),
                              comma(lon), 54, "marche"], ";", "latin-1")
for vehicle in range(2):
    write(f"nameless-{vehicle}.csv", ["c1", "c2", "c3", "c4"],
          lambda v, t, lat, lon: [t.strftime("%Y-%m-%dT%H:%M:%S"), lat, lon, 7], only=vehicle)
write("polish.csv",
      ["pojazd", "data i czas", "szerokość geograficzna", "długość geograficzna", "prędkość"],
      lambda v, t, lat, lon: [f"p{v}", t.strftime("%Y-%m-%d %H:%M:%S.000 UTC"), lat, lon, SPEED],
      "|")

write("excel-german.csv", ["Fahrzeug", "Datum/Uhrzeit", "Breite", "Länge", "Geschwindigkeit"],
      lambda v, t, lat, lon: [PLATES[v], t.strftime("%d.%m.%Y %H:%M"), comma(lat), comma(lon), 54],
      ";", "cp1252", "\r\n")
write("excel-us.csv", ["Vehicle", "Date", "Time", "Lat", "Lon", "Speed"],
      lambda v, t, lat, lon: [f"Truck {v}", f"{t.month}/{t.day}/{t.year}", us_time(t, True), lat,
                              lon, round(SPEED / 0.44704, 1)], end="\r\n")
write("excel-unicode.txt", ["Fahrzeug", "Zeit", "Breite", "Länge"],
      lambda v, t, lat, lon: [PLATES[v], t.strftime("%d.%m.%Y %H:%M:%S"), comma(lat), comma(lon)],
      "\t", "utf-16", "\r\n")

# The way of the first vehicle, as two tracks of one phone.
points = [it for it in samples() if it[0] == 0]
for name, part in [("monday", points[:20]), ("tuesday", points[20:])]:
    with open(f"phone-{name}.gpx", "w") as file:
        file.write('<gpx version="1.1"><trk><trkseg>\n')
        for _, time, lat, lon in part:
            file.write(f'<trkpt lat="{lat}" lon="{lon}"><time>{time.isoformat()}Z</time></trkpt>\n')
        file.write("</trkseg></trk></gpx>\n")

try:
    import pyarrow
    from pyarrow import parquet
except ImportError:
    pass
else:
    rows = list(samples())
    table = pyarrow.table({
        "vehicle": [f"v{v}" for v, _, _, _ in rows],
        "position_time": pyarrow.array([t for _, t, _, _ in rows], pyarrow.timestamp("us")),
        "latitude": [lat for _, _, lat, _ in rows],
        "longitude": [lon for _, _, _, lon in rows],
        "speed_kmh": pyarrow.array([54.0 for _ in rows], pyarrow.float32()),
        "ignition": [None if t.minute % 7 == 0 else True for _, t, _, _ in rows],
        "satellites": [[7, 9] for _ in rows],
    })
    parquet.write_table(table, "table.parquet", row_group_size=30)
