"""Which commands there are."""

from __future__ import annotations

import typer

from abilene.cli import logs, run, theory


def register(app: typer.Typer) -> None:
    """Add every command to the root."""
    app.command()(run.run)
    app.command()(logs.estimate)
    app.command()(logs.audit)
    app.command()(logs.convert)
    app.add_typer(theory.app, name="theory")
