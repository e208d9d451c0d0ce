"""Which commands there are."""

from __future__ import annotations

import typer

from abilene.cli import experiment, lists, logs, run, scores, tasks, theory


def register(app: typer.Typer) -> None:
    """Add every command to the root."""
    app.command()(run.run)
    app.command()(logs.estimate)
    app.command()(logs.audit)
    app.command()(logs.convert)
    app.command()(scores.conditions)
    app.command()(scores.scores)
    app.command()(lists.interventions)
    app.command()(lists.prompts)
    app.add_typer(theory.app, name="theory")
    app.add_typer(tasks.app, name="tasks")
    app.add_typer(experiment.app, name="experiment")
