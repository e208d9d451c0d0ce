"""The docs cannot lie: their Python blocks run, and what they print is what the page says they print."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(p for p in DOCS.glob("*.md") if "```python" in p.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": page.stem}
    printed, checked = "", 0
    for kind, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(body, str(page), "exec"), namespace)  # noqa: S102
            printed = stream.getvalue()
        else:
            assert printed == body
            checked += 1
    assert checked


def test_links_between_pages_lead_somewhere():
    for page in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_page_of_commands_is_up_to_date():
    tools = str(DOCS.parent / "tools")
    sys.path.insert(0, tools)
    try:
        import command_docs
    finally:
        sys.path.remove(tools)
    assert command_docs.PAGE.read_text(encoding="utf-8") == command_docs.page(), (
        "run: python tools/command_docs.py"
    )
