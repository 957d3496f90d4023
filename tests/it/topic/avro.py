"""avro.py FILE: prints records as JSON. FILE is {"schema": text, "values": [hex, ...]}."""
import datetime
import io
import json
import sys

import fastavro

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def plain(value):
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(milliseconds=1)
    return value


def record(schema, datum):
    rest = io.BytesIO(datum)
    found = fastavro.schemaless_reader(rest, schema)
    assert not rest.read(1), "bytes follow the record"
    return {name: plain(value) for name, value in found.items()}


with open(sys.argv[1], encoding="utf-8") as file:
    given = json.load(file)
schema = fastavro.parse_schema(json.loads(given["schema"]))
print(json.dumps([record(schema, bytes.fromhex(value)) for value in given["values"]]))
