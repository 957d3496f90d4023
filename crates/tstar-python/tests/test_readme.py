"""The page of the package: every block of Python runs, and prints what is shown."""

from __future__ import annotations

import contextlib
import io
import re

BLOCKS = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)


def test_the_page_prints_what_it_shows(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (root / "crates/tstar-python/README.md").read_text()
    names: dict[str, object] = {}
    blocks = BLOCKS.findall(page)
    assert len(blocks) >= 5
    for code, shown in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "README.md", "exec"), names)
        lines = [line.rstrip() for line in out.getvalue().splitlines()]
        assert lines == shown.rstrip().splitlines(), code
