"""Lists that Python needs twice are alike: arguments, keywords, types and documentation."""

from __future__ import annotations

import ast
import inspect
import re
import typing
from pathlib import Path

import pytest

import tstar
from tstar import _settings, _tstar


def fields(function) -> dict[str, inspect.Parameter]:
    """The arguments of a function that are fields of a sample."""
    parameters = inspect.signature(function).parameters
    return {name: it for name, it in parameters.items() if name in _tstar.FIELDS}


def test_every_function_has_the_fields():
    of_frame = fields(tstar.trips)
    assert of_frame == fields(tstar.Timeline.absorb)
    for function in (tstar.trips, tstar.Timeline.add):
        assert tuple(fields(function)) == _tstar.FIELDS
    unset = [name for name, it in of_frame.items() if it.default is None]
    assert unset == [*_tstar.OPTIONAL_FIELDS, "received"]


def test_a_single_sample_has_the_fields_of_a_frame():
    given = {
        "speed": 1.0,
        "heading": 90.0,
        "altitude": 3.0,
        "accuracy": 4.0,
        "ignition": True,
        "driver": "ann",
    }
    assert tuple(given) == _tstar.OPTIONAL_FIELDS
    timeline = tstar.Timeline()
    timeline.add("van", "2026-11-20T20:00:00Z", 52.5, 13.4, **given)
    (record,) = re.findall(
        r'"records":\[\n(.*)\n', timeline.snapshot().evidence("van~20261120T200000.000Z")
    )
    expected = [100, 900, 30, 40, True, "ann"]
    found = typing.cast(dict, ast.literal_eval(record.replace("true", "True")))
    names = ["speed_cmps", "heading_ddeg", "altitude_dm", "accuracy_dm", "ignition", "driver"]
    assert [found[name] for name in names] == expected


def test_the_rules_are_the_keywords():
    keywords = typing.get_type_hints(_settings.Settings)
    getters = {name for name, it in vars(tstar.Rules).items() if inspect.isgetsetdescriptor(it)}
    assert set(keywords) == getters - {"json", "hash"}
    listed = dict(re.findall(r"^- `(\w+)` \((.*?)\): ", inspect.getdoc(tstar.Rules), re.M))
    assert list(listed) == list(keywords)
    defaults = {name: ast.literal_eval(it.replace(",", "")) for name, it in listed.items()}
    assert tstar.Rules(**defaults) == tstar.Rules()
    with pytest.raises(TypeError, match="there is no rule `max_gaps`"):
        tstar.Rules(max_gaps="5m")


@pytest.mark.parametrize("name", ["time_unit", "speed_unit"])
def test_units_are_those_of_the_core(name):
    units = typing.get_args(typing.get_type_hints(_settings.Settings)[name])
    for unit in units:
        assert getattr(tstar.Rules(**{name: unit}), name) == unit
    with pytest.raises(tstar.InputError) as error:
        tstar.Rules(**{name: "?"})
    _, listed = str(error.value).split("it needs ")
    assert tuple(re.findall(r'"(\w+)"', listed)) == units
    doc = inspect.getdoc(getattr(tstar.Rules, name))
    assert tuple(re.findall(r"\w+", doc.split(": ")[1].replace(" or ", " "))) == units


def test_forms_of_ids_are_those_of_the_core():
    forms = typing.get_args(tstar.id.Form)
    for form in forms:
        assert tstar.id.format("van", 0, form)
    with pytest.raises(tstar.InputError) as error:
        tstar.id.format("van", 0, "?")
    _, listed = str(error.value).split("it is ")
    assert set(re.findall(r"\w+", listed.replace(" or ", " "))) == set(forms)


def test_the_stub_has_the_documentation_of_the_code():
    """Editors show the stub, `help` the code."""
    stub = ast.parse(Path(_tstar.__file__).with_name("_tstar.pyi").read_text())
    compared = 0

    def compare(node, value, name):
        nonlocal compared
        for it in node.body:
            if isinstance(it, ast.FunctionDef | ast.ClassDef):
                own, path = getattr(value, it.name), f"{name}.{it.name}"
                if doc := ast.get_docstring(it):
                    assert doc.split() == (inspect.getdoc(own) or "").split(), path
                    compared += 1
                if isinstance(it, ast.ClassDef):
                    compare(it, own, path)

    compare(stub, _tstar, "_tstar")
    assert compared > 30
