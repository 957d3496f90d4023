"""The package itself: version, types, documentation, size."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import subprocess
import sys

import tstar


def test_the_version_is_that_of_the_program(root):
    version = re.search(r'^version = "(.*)"', (root / "Cargo.toml").read_text(), re.M)[1]
    assert tstar.__version__ == version == importlib.metadata.version("tstar")


def test_it_needs_no_other_package():
    assert importlib.metadata.requires("tstar") is None
    libraries = ("pandas", "polars", "pyarrow", "numpy")
    code = f"import sys, tstar; print([it for it in {libraries} if it in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_everything_public_has_documentation():
    for module in (tstar, tstar.id):
        for name in module.__all__:
            value = getattr(module, name)
            assert inspect.getdoc(value), name
            if inspect.isclass(value) and value.__module__.startswith("tstar"):
                for member, own in vars(value).items():
                    if not member.startswith("_") and (callable(own) or hasattr(own, "__get__")):
                        assert inspect.getdoc(own), f"{name}.{member}"


def test_the_types_are_those_of_the_code(tmp_path):
    # What stubtest does not understand of Python files.
    (tmp_path / "allow").write_text("tstar.id.Form\ntstar.id.TripId._DT\n")
    command = [
        sys.executable,
        "-m",
        "mypy.stubtest",
        "tstar",
        "--concise",
        "--ignore-disjoint-bases",
        "--allowlist",
        str(tmp_path / "allow"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_types_are_strict(root, tmp_path):
    sample = root / "crates/tstar-python/tests/typed.py"
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-version",
        "3.10",
        "-p",
        "tstar",
        "--no-error-summary",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    command = [sys.executable, "-m", "mypy", "--strict", str(sample)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
