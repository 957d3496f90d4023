"""Calls every operation of the client that was generated from the OpenAPI document as the package
`tstar_client`: client.py DOCUMENT URL TOKEN. The store is that of `worked_example` in http.rs."""

import datetime
import importlib
import json
import pkgutil
import sys

from tstar_client import AuthenticatedClient, Client, api, models
from tstar_client.types import Unset

DOCUMENT, URL, TOKEN = sys.argv[1:]
UTC = datetime.timezone.utc
DAY = datetime.date(2024, 5, 1)
START = datetime.datetime(2024, 5, 1, 8, tzinfo=UTC)
ID = "truck-17~20240501T080000.000Z"
RETIRED = "truck-17~20240501T081000.000Z"

client = AuthenticatedClient(base_url=URL, token=TOKEN)
# A browser: it has a cookie instead of the token, and names the page that requests come from.
browser = Client(base_url=URL, headers={"Origin": URL})
called = set()


def modules():
    """The module of each operation, by its name."""
    found = pkgutil.walk_packages(api.__path__, api.__name__ + ".")
    names = [module.name for module in found if not module.ispkg]
    return {name.rsplit(".", 1)[1]: importlib.import_module(name) for name in names}


operations = modules()


def call(name, status=200, caller=client, **arguments):
    """The parsed answer of an operation; None if the client does not know its format."""
    called.add(name)
    answer = operations[name].sync_detailed(client=caller, **arguments)
    assert answer.status_code == status, f"{name}: {answer.status_code} {answer.content!r}"
    return answer.parsed if answer.parsed is not None else answer.content


def health():
    assert call("livez") == "ok\n"
    assert call("readyz", verbose="").ready
    assert call("version").version
    assert "tstar_http" in call("metrics")


def single_trips():
    trip = call("trip", id=RETIRED)
    assert (trip.id, trip.match, trip.merged) == (ID, models.Match.RETIRED, True)
    assert trip.start_time == START and isinstance(trip.path, Unset)
    trip = call("trip", id=ID, path=True)
    assert trip.path.times[0] == START and len(trip.path.coordinates) == trip.samples == 5
    assert (trip.moving_s, trip.idle_s, trip.parked_s) == (None, None, 0)
    problem = call("trip", 400, id="x")
    assert (problem.code, problem.status) == ("bad_id", 400)
    assert call("trip_geojson", id=ID).features[0].to_dict()["id"] == ID
    assert call("trip_gpx", id=ID, simplify=5.0).count("<trkpt") > 1
    explained = call("explain", id=RETIRED)
    assert explained.id == ID and explained.retired.offset == explained.last_change.offset
    assert explained.minted.time == START

    at = START + datetime.timedelta(minutes=5)
    assert call("lookup", device="truck-17", at=at).id == ID
    problem = call("lookup", 404, device="truck-17", at=at - datetime.timedelta(days=1))
    assert problem.code == "no_trip" and problem.to_dict()["next"]["id"] == ID
    pairs = [models.Pair(device=device, at=at) for device in ["truck-17", "a b", "none"]]
    answers = call("lookup_many", body=models.Pairs(pairs=pairs)).answers
    assert [answer.code for answer in answers] == [None, None, "no_trip"]
    assert answers[1].trip.device_id == "a b"


def tags():
    business = models.NewTag(value="business")
    tag = call("put_tag", id=ID, key="purpose", body=business, if_none_match="*")
    assert (tag.value, tag.replaced, tag.superseded) == ("business", None, [])
    private = models.NewTag(value="private")
    problem = call("put_tag", 412, id=ID, key="purpose", body=private, if_match=f'"{"0" * 16}"')
    assert problem.code == "changed" and problem.to_dict()["tag"]["value"] == "business"
    tag = call("put_tag", id=RETIRED, key="purpose", body=private, if_match=f'"{tag.revision}"')
    assert (tag.id, tag.replaced.value) == (RETIRED, "business")
    assert call("trip", id=ID).tags.to_dict() == {"purpose": "private"}
    (tag,) = call("tags", id=ID).tags
    assert [older.id for older in tag.superseded] == [ID]
    assert [trip.id for trip in call("trips", day=DAY, tag="purpose=private").trips] == [ID]
    call("delete_tag", 204, id=ID, key="purpose")
    assert call("delete_tag", 404, id=ID, key="purpose").code == "no_tag"


def lists():
    page = call("trips", day=DAY)
    assert [trip.device_id for trip in page.trips] == ["a b", "truck-17", "truck-17"]
    assert page.next_ is None
    fields = call("trips", from_=START, to=START, fields="id,samples").trips
    assert [trip.to_dict() for trip in fields] == [{"id": ID, "samples": 5}]
    page = call("trips_of_device", token="truck-17", limit=1, order="desc")
    assert page.trips[0].start_time.minute == 40
    page = call("trips_of_device", token="truck-17", limit=1, order="desc", cursor=page.next_)
    assert [trip.id for trip in page.trips] == [ID]
    assert call("trips_of_device", 404, token="none").code == "no_device"
    # Also a device id as it is, which the client escapes.
    assert len(call("trips_of_device", token="a b").trips) == 1
    for name, argument, trips in [
        ("trips", {"day": DAY}, 3),
        ("trips_of_device", {"token": "truck-17"}, 2),
    ]:
        assert len(call(name + "_csv", **argument).splitlines()) == 1 + trips
        assert len(call(name + "_geojson", **argument).features) == trips
        assert len(call(name + "_ndjson", **argument).splitlines()) == trips
        assert call(name + "_gpx", **argument).count("<trk>") == trips
        assert call(name + "_parquet", **argument).payload.read(4) == b"PAR1"
    summary = call("summary", day=DAY, by="device")
    assert [(row.key, row.trips) for row in summary.rows] == [("a b", 1), ("truck-17", 2)]
    assert summary.total.trips == 3


def device_tags():
    name = models.NewTag(value="Blue van")
    tag = call("put_device_tag", token="truck-17", key="name", body=name)
    assert (tag.value, tag.replaced, tag.id) == ("Blue van", None, None)
    (tag,) = call("device_tags", token="truck-17").tags
    (truck,) = call("devices", tag="name=Blue van").devices
    assert (truck.device_id, truck.tags.to_dict()) == ("truck-17", {"name": tag.value})
    call("delete_device_tag", 204, token="truck-17", key="name")
    assert call("device_tags", 404, token="none").code == "no_device"


def devices():
    first = call("devices", day=DAY, limit=1)
    assert [(device.device_id, device.trips) for device in first.devices] == [("a b", 1)]
    (truck,) = call("devices", day=DAY, cursor=first.next_).devices
    assert (truck.token, truck.trips) == ("truck-17", 2)
    assert truck.last.time == START + datetime.timedelta(minutes=40)
    assert truck.last.trip_id == "truck-17~20240501T084000.000Z"
    assert (truck.last.position.lat, truck.last.position.lon) == (52.40, 13.5)


def changes():
    page = call("changes", after="0")
    assert {change.event.to_dict()["type"] for change in page.changes} >= {"started"}
    assert call("changes").next_ == page.next_
    # The stream has no end: its first event is enough.
    stream = operations["changes_stream"]._get_kwargs(last_event_id="0")
    called.add("changes_stream")
    with client.get_httpx_client().stream(**stream) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        event = dict(line.split(": ", 1) for line in iter(lambda: next(lines), ""))
    assert event["event"] == page.changes[0].event.to_dict()["type"], event


def samples():
    at = START + datetime.timedelta(days=1)
    sample = models.SampleBody(device_id="van-0", time=at, lat=52.52, lon=13.4, speed=8.0)
    bad = models.SampleBody(device_id="van-0", time=at, lat=91.0, lon=13.4)
    results = call("samples", body=[sample, bad])
    assert (results.taken, results.refused) == (1, 1)
    assert [result.status for result in results.results] == ["new", "dead"]
    place, seconds = {"lat": 52.52, "lon": 13.4}, int(at.timestamp())
    message = {"_type": "location", "tst": seconds, **place}
    assert call("in_owntracks", body=message, x_limit_d="van-1") == []
    properties = {"timestamp": at.isoformat(), "device_id": "van-2"}
    point = {"type": "Point", "coordinates": [13.4, 52.52]}
    feature = {"type": "Feature", "geometry": point, "properties": properties}
    assert call("in_overland", body={"locations": [feature]}) == {"result": "ok"}
    position = {"fixTime": at.isoformat(), "valid": True, "latitude": 52.52, "longitude": 13.4}
    body = {"position": position, "device": {"uniqueId": "van-3"}}
    assert call("in_traccar", body=body) == {}
    coordinates = {"latitude": 52.52, "longitude": 13.4}
    location = {"timestamp": at.isoformat(), "coords": coordinates}
    assert call("in_traccar_client", body={"location": location, "device_id": "van-4"}) == {}
    query = {"id": "van-5", "timestamp": str(seconds), "lat": "52.52", "lon": "13.4"}
    assert call("in_osmand", **query) == {}
    named = {"position.latitude": 52.52, "position.longitude": 13.4}
    assert call("in_flespi", body=[{"ident": "van-6", "timestamp": seconds, **named}]) == {}
    found = call("devices", day=at.date()).devices
    assert [device.device_id for device in found] == [f"van-{nth}" for nth in range(7)]
    assert {device.last.time for device in found} == {at}


def sessions():
    assert call("login", 401, caller=browser, body=models.Login(token="wrong")).code == "unauthorized"
    assert call("basemap", 404).code == "no_basemap"
    assert call("page", 401, caller=browser).code == "unauthorized"
    call("login", 204, caller=browser, body=models.Login(token=TOKEN))
    assert call("page", caller=browser).logged_in and not call("page").logged_in
    call("logout", 204, caller=browser)


for part in [health, single_trips, tags, lists, devices, device_tags, changes, samples, sessions]:
    part()
methods = [method for item in json.load(open(DOCUMENT))["paths"].values() for method in item]
assert len(methods) == len(operations), f"{len(methods)} operations, {len(operations)} generated"
missing = sorted(operations.keys() - called)
assert not missing, f"not called: {missing}"
print(f"{len(called)} operations called")
