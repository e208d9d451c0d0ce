"""Write docs/commands.md from the command line itself; the tests check that the page is up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer.main

from abilene.cli.main import app

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEAD = """# Commands

Generated from the program by `python tools/command_docs.py`.

Every command takes `--json` (one JSON document on stdout and nothing else there) and `--seed`. Progress and
diagnostics go to stderr. Exit codes: 0 done (what was noticed on the way is on stderr), 1 the input or the run has a
fault that stopped it, or a log fails its audit, 2 usage.
"""


def _text(value: str | None) -> str:
    return " ".join((value or "").split()).replace("|", "\\|")


def _rows(command: Any) -> list[str]:
    rows = []
    for p in command.params:
        if p.name in ("help", "json", "seed"):
            continue
        is_argument = p.param_type_name == "argument"
        name = f"`{p.metavar or p.name.upper()}`" if is_argument else ", ".join(f"`{o}`" for o in p.opts)
        default = "" if p.default is None or p.default is False or callable(p.default) else f"`{p.default}`"
        rows.append(f"| {name} | {_text(p.help)} | {'required' if p.required else default} |")
    return rows


def _command(path: str, command: Any) -> list[str]:
    out = ["", f"## {path}", "", *(" ".join(part.split()) for part in (command.help or "").split("\n\n"))]
    rows = _rows(command)
    return [*out, "", "| option | meaning | default |", "|---|---|---|", *rows] if rows else out


def page() -> str:
    """The page as it should be."""
    lines: list[str] = [HEAD.rstrip()]

    def visit(path: str, command: Any) -> None:
        children = getattr(command, "commands", None)
        if children is None:
            lines.extend(_command(path, command))
            return
        for name, child in children.items():
            visit(f"{path} {name}", child)

    visit("abilene", typer.main.get_command(app))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
