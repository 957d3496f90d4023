"""Evidence: a trip can be checked without its frame, and nothing in it can be changed."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import tstar


def ids(result: tstar.Trips) -> list[str]:
    return pa.table(result.trips)["id"].to_pylist() + pa.table(result.stops)["id"].to_pylist()


@pytest.mark.parametrize("settings", [{}, {"max_gap": "10m", "max_leg_speed": 20.0}])
def test_every_trip_and_stop_follows_from_its_evidence(settings, table):
    result = tstar.trips(table, **settings)
    for trip_id in ids(result):
        verified = tstar.verify(result.evidence(trip_id))
        assert verified and verified.follows and verified.differences == [], trip_id
        assert verified.rules_hash == result.rules.hash
        assert verified.records >= verified.kept > 0


def test_a_retired_id_has_the_evidence_of_its_trip(table):
    result = tstar.trips(table)
    trip = next(it for it in pa.table(result.trips).to_pylist() if it["absorbed"])
    assert result.evidence(trip["absorbed"][0]) == result.evidence(trip["id"])
    key = tstar.id.parse(trip["id"]).format("bytes")
    assert result.evidence(key) == result.evidence(trip["id"])


def test_what_was_changed_does_not_follow(table):
    result = tstar.trips(table)
    trip = max(pa.table(result.trips).to_pylist(), key=lambda it: it["samples"])
    evidence = json.loads(result.evidence(trip["id"]))
    assert tstar.verify(json.dumps(evidence))

    def differs(**changes):
        return tstar.verify(json.dumps({**evidence, **changes}))

    facts, rules, records = evidence["trip"], evidence["rules"], evidence["records"]
    for fact in ("samples", "start_ms", "end_ms", "parked_ms", "distance_dm"):
        verified = differs(trip={**facts, fact: facts[fact] + 1})
        assert not verified and "not follow" in repr(verified), fact
    assert not differs(rules={**rules, "max_gap_ms": 1000})
    inside = [it for it in records if facts["start_ms"] <= it["time_ms"] <= facts["end_ms"]]
    for record in (inside[0], inside[len(inside) // 2], inside[-1]):
        assert not differs(records=[it for it in records if it != record])
        other = [{**it, "lat_e7": 1} if it == record else it for it in records]
        if "lat_e7" in record:
            assert not differs(records=other)


def test_what_is_not_evidence(table):
    result = tstar.trips(table)
    for text in ["", "{}", "[]", "null", "{" * 100_000]:
        with pytest.raises(tstar.InputError, match="not evidence"):
            tstar.verify(text)
    with pytest.raises(tstar.InputError, match="no trip or stop"):
        result.evidence("nobody~20261120T213800.123Z")
    with pytest.raises(tstar.InputError, match="is not a trip id"):
        result.evidence("nobody")
    with pytest.raises(tstar.InputError, match="only a hash"):
        result.evidence("01a1fae5-173b-8152-8ed4-88d4aacc8ddd")
