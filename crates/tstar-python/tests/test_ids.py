"""Ids in all forms, with the examples of the documents."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest

import tstar
from tstar import id

T_STAR = datetime(2026, 11, 20, 21, 38, 0, 123_000, tzinfo=timezone.utc)
FORMS = {
    "text": "truck-17~20261120T213800.123Z",
    "bytes": "ehp7aorb5koje040000q3un52stg",
    "uuid": "01a1fae5-173b-8152-8ed4-88d4aacc8ddd",
}


def test_every_form_of_an_id():
    for form, text in FORMS.items():
        assert id.format("truck-17", T_STAR, form) == text
        parsed = id.parse(text)
        assert (parsed.t_star, parsed.t_star_ms) == (T_STAR, 1_795_210_680_123)
        assert parsed.matches("truck-17") and not parsed.matches("truck-18")
        assert parsed.format(form) == text
        assert (parsed.device is None) == (form == "uuid")
    key = id.format("truck-17", "2026-11-20T22:38:00.123+01:00", "key")
    assert key[:9] == b"truck-17\0" and len(key) == 17
    assert id.parse(key) == id.parse(FORMS["text"]) == id.parse(FORMS["bytes"])
    assert str(id.parse(FORMS["bytes"])) == FORMS["text"]
    uuid = UUID(FORMS["uuid"])
    assert id.parse(uuid).uuid == uuid and str(id.parse(uuid)) == FORMS["uuid"]
    assert id.format("truck-17", 1_795_210_680_123) == FORMS["text"]
    with pytest.raises(tstar.InputError, match="only a hash of the device"):
        id.parse(uuid).format("text")


def test_forms_sort_by_time():
    times = [T_STAR + timedelta(hours=it) for it in range(-30, 30)]
    for form in ["text", "key", "bytes", "uuid"]:
        ids = [id.format("a b", it, form) for it in times]
        assert ids == sorted(ids)
    assert sorted(map(id.parse, [FORMS["text"], FORMS["bytes"]]))


def test_odd_names():
    for device in ["Zoë/1", "..", "~", "日本 7", "\x01", "-", " ", "a" * 256]:
        token = id.token(device)
        assert id.device_of_token(token) == device
        text = id.format(device, 0)
        assert text == f"{token}~19700101T000000.000Z" and id.parse(text).device == device
    assert id.token("a b") == "a~20b"


def test_prefixes_and_ranges():
    assert id.prefix("truck-17", "2026-11-20") == "truck-17~20261120"
    device, first, last = id.prefix_range("truck-17~202611")
    assert device == "truck-17"
    assert first == datetime(2026, 11, 1, tzinfo=timezone.utc)
    assert last == datetime(2026, 12, 1, tzinfo=timezone.utc) - timedelta(milliseconds=1)
    assert id.date_range("2026-11") == (first, last)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: id.parse("truck-17"), "is not a trip id"),
        (lambda: id.parse(FORMS["text"].lower()), "is not a trip id"),
        (lambda: id.parse(FORMS["uuid"].upper()), "not written in lower case"),
        (lambda: id.parse(UUID(int=5)), "its version is not 8"),
        (lambda: id.parse(b"a"), "is not a trip id"),
        (lambda: id.parse(5), "text, bytes or a UUID, not int"),
        (lambda: id.format("", 0), "is not a valid device id: empty"),
        (lambda: id.format("a", 2**60), "no text form"),
        (lambda: id.format("a", -1, "uuid"), "no UUID form"),
        (lambda: id.format("a", 0, "hex"), '"hex" is not a form of an id'),
        (lambda: id.format("a", datetime(2026, 1, 1)), "has no zone"),
        (lambda: id.format("a", 1.5), "1.5 is not a time"),
        (lambda: id.format("a", "soon"), "`soon` is not a time"),
        (lambda: id.prefix("a", "2026-13"), "does not exist in the calendar"),
        (lambda: id.prefix_range("truck-17~2026-11"), "not a year, month, day or hour"),
        (lambda: id.date_range("today"), "is not a date"),
        (lambda: id.device_of_token("a b"), "is not a device token"),
        (lambda: id.token("a\0"), "contains NUL"),
    ],
)
def test_what_is_no_id_is_an_error(call, message):
    with pytest.raises(tstar.InputError) as error:
        call()
    assert message in str(error.value)
