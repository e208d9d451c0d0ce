"""`abilene conditions` and `abilene scores`: what single benchmarks ask for beside the estimate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from abilene.cli.files import read_logs
from abilene.cli.options import Json, Seed
from abilene.cli.output import interval, number, out, print_json
from abilene.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from abilene.tasks import Task


def conditions(
    hidden: Annotated[Path, typer.Argument(metavar="HIDDEN", help="Run with notes dealt out.")],
    full: Annotated[
        Path | None,
        typer.Option(help="Run of the same tasks with --condition full; its round 0 is the ceiling."),
    ] = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Full profile, hidden before, hidden after: collective gain and gap to the ceiling (HiddenBench)."""
    from abilene.analysis.conditions import SCHEMA, conditions_by_setting
    from abilene.cli.show import natural, show_conditions

    ceiling = None if full is None else read_logs([full]).record
    if full is not None:
        _check_content(full, hidden)
    found = sorted(
        conditions_by_setting(ceiling, read_logs([hidden]).record, seed=seed, names=(str(full), str(hidden))),
        key=lambda c: natural(" · ".join(v or "" for v in c.setting.values())),
    )
    if json:
        documents = [c.to_json() for c in found]
        several = [{k: v for k, v in d.items() if k != "schema"} for d in documents]
        print_json(documents[0] if len(documents) == 1 else {"schema": SCHEMA, "settings": several})
        return
    for c in found:
        show_conditions(c)
        if len(found) > 1:
            out.print()


def _check_content(full: Path, hidden: Path) -> None:
    """Refuse runs on other versions of a task, as far as their logs hold the tasks."""
    if not (_logs(full) and _logs(hidden)):
        return
    there = {t.id: t.content for t in discussed(full)}
    if differ := sorted(t.id for t in discussed(hidden) if there.get(t.id, t.content) != t.content):
        raise InputError(
            full,
            f"task {differ[0]!r} and {len(differ) - 1} others have another question, answer or facts than in {hidden}",
            "Run both with the same --data, -B and --seed.",
        )


def scores(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder or .eval of musique or medeinst.")],
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """MuSiQue: strict and lenient accuracy side by side. MedEinst: Bias Trap Rate beside accuracy."""
    from abilene.analysis.scores import bias_trap, control_diagnoses, free_text_scores
    from abilene.records.schema import is_simulated

    record = read_logs([run], text=True).record
    tasks = {t.id: t for t in discussed(run)}.values()
    free = [t for t in tasks if not t.options]
    traps = control_diagnoses(tasks)
    found: dict[str, list[dict[str, object]]] = {}
    if free:
        ids = [t.id for t in free]
        found["free_text"] = [
            s.to_json() for s in free_text_scores(record.filter(record["task"].is_in(ids)), free)
        ]
    if traps:
        trapped = record.filter(record["task"].is_in(list(traps)))
        found["bias_trap"] = [s.to_json() for s in bias_trap(trapped, traps)]
    if not found:
        raise InputError(run, "holds no free-text tasks and no trap cases", "Use abilene estimate.")
    if json:
        print_json({"schema": 1, **found})
        return
    columns = {"free_text": ("strict", "lenient"), "bias_trap": ("bias_trap_rate", "accuracy")}
    shares = {"free_text": {}, "bias_trap": {"other": "third", "ties": "ties"}}
    for kind, rows in found.items():
        by_setting: dict[str, list[dict[str, object]]] = {}
        for row in rows:
            setting: dict[str, str | None] = row["setting"]  # type: ignore[assignment]
            label = " · ".join(v for v in setting.values() if v)
            label += "  [simulated agents]" if is_simulated(setting["model"]) else ""
            by_setting.setdefault(label, []).append(row)
        for label, mine in by_setting.items():
            out.print(label, style="bold", markup=False)
            table = Table(box=None, pad_edge=False, header_style="dim")
            for head in ("", *(f"{c.replace('_', ' ')}  95 % interval" for c in columns[kind])):
                table.add_column(head)
            for head in shares[kind].values():
                table.add_column(head, justify="right", no_wrap=True)
            for row in mine:
                cells = []
                for column in columns[kind]:
                    p: dict[str, Any] = row[column]  # type: ignore[assignment]
                    cells.append(f"{number(p['share'])}  {interval(p['lower'], p['upper'])}")
                # Of the same discussions as the columns before.
                cells += [
                    number(int(str(row[column])) / p["n"] if p["n"] else None) for column in shares[kind]
                ]
                table.add_row(str(row["stage"]), *cells)
            out.print(table)
            if kind == "bias_trap":
                out.print(
                    "  third: the answer is neither the case's diagnosis nor its control's", style="dim"
                )
                out.print(
                    "  the control cases were not run: the rate counts teams that miss those too", style="dim"
                )
            gone = ", ".join(f"{row['stage']} {row['unanswered']}" for row in mine)
            out.print(f"  discussions left out as unanswered: {gone}", style="dim")


def discussed(run: Path) -> Iterable[Task]:
    """Tasks of a run, from its Inspect logs."""
    import importlib.util

    if importlib.util.find_spec("inspect_ai") is None:
        raise MissingExtraError("run", "Reading the tasks of a run")
    from abilene.evals.logs import read_tasks

    files = _logs(run)
    if not files:
        raise InputError(run, "holds no Inspect log (.eval)", "Give a run folder; its logs hold the tasks.")
    for file in files:
        yield from read_tasks(file)


def _logs(run: Path) -> list[Path]:
    return [run] if run.suffix == ".eval" else sorted(run.glob("*.eval")) if run.is_dir() else []
