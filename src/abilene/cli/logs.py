"""`abilene estimate`, `audit` and `convert`: commands that read logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from abilene.cli.files import read_logs, save_table
from abilene.cli.options import Json, Seed
from abilene.cli.output import out, print_json, talk
from abilene.errors import UsageError

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...",
        help="Run folder, .eval, events.jsonl (file or folder), CSV or Parquet table.",
        show_default=False,
    ),
]


def estimate(
    paths: Paths,
    no_temper: Annotated[
        bool,
        typer.Option("--no-temper", help="Keep the flows' likelihood as narrow as independent rows make it."),
    ] = False,
    include_joint: Annotated[
        bool, typer.Option(help="Use private answers read from the public reply where the probe failed.")
    ] = False,
    posterior: Annotated[
        Path | None, typer.Option(help="Write the joint draws of every setting to a netCDF file.")
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="Leave out settings that fail: audit, manipulation (any check), accuracy, picks, counts, off_rule.",
        ),
    ] = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Rates, threshold, margin, gain and verdict of every setting in one or more logs."""
    from abilene.analysis.estimate import estimate as run
    from abilene.analysis.exclusion import check_rules
    from abilene.analysis.exclusion import exclude as leave_out
    from abilene.analysis.manipulation import checks_by_setting
    from abilene.cli.run import failed
    from abilene.cli.show import show_faults, show_settings, show_summary
    from abilene.records.audit import audit as audit_log

    rules = exclude or []
    check_rules(rules)
    loaded = read_logs(paths)
    result = run(loaded.record, temper=not no_temper, include_joint=include_joint, seed=seed)
    show_faults((*loaded.faults, *result.derived.faults), "fault")
    show_faults((*loaded.warnings, *result.derived.warnings), "warning")
    report = audit_log(loaded, derived=result.derived)
    checks = checks_by_setting(loaded.record, result.derived)
    result, excluded = leave_out(result, report, checks, rules)
    for failure in failed(report):
        talk.print(f"AUDIT FAILS: {failure}", style="bold red")
    if posterior is not None:
        from abilene.analysis.saved import save_posteriors

        if result.settings:
            save_posteriors(result, posterior)
            talk.print(f"Wrote {posterior}.")
        else:
            talk.print(f"No setting is left, so that {posterior} was not written.")
    if json:
        print_json(result.to_json() | ({"excluded": [e.to_json() for e in excluded]} if rules else {}))
        return
    for _ in show_settings(result, loaded.record, seed=seed):
        pass
    show_summary(result.settings)
    for e in excluded:
        out.print(f"left out  {e.label}", style="yellow", markup=False)
        for reason in e.reasons:
            out.print(f"  {reason}", style="dim", markup=False)
    if not result.settings and not excluded:
        talk.print("The log holds no rows.")


def audit(paths: Paths, json: Json = False, seed: Seed = 0) -> None:
    """What is in a log, what can be known from it, and what is broken. Exit code 1 when a setting fails."""
    from abilene.analysis.manipulation import checks_by_setting, gate
    from abilene.cli.show import show_checks
    from abilene.records.audit import audit as run
    from abilene.records.derive import derive

    loaded = read_logs(paths)
    derived = derive(loaded.record)
    report = run(loaded, derived=derived)
    checks = checks_by_setting(loaded.record, derived)
    if json:
        document = report.to_dict()
        for entry, found in zip(document["settings"], checks, strict=True):  # type: ignore[call-overload]
            entry["manipulation"] = {"outcome": gate(found), "checks": [_check(c) for c in found]}
        # `passes` is the log's; whether the model does what the design assumes is another question.
        outcomes = {gate(found) for found in checks}
        document["manipulation"] = next(
            (o for o in ("fail", "undecided", "pass") if o in outcomes), "not applicable"
        )
        print_json(document)
    else:
        out.print(report.plain(), end="", soft_wrap=True, markup=False)
        for data, found in zip(derived.settings, checks, strict=True):
            if found:
                out.print(
                    "\n" + " · ".join(v for v in data.setting.values() if v), style="bold", markup=False
                )
                show_checks(found)
    if not report.passes or any(gate(found) == "fail" for found in checks):
        raise typer.Exit(1)


def _check(check: object) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(check)  # type: ignore[call-overload,no-any-return]


def convert(
    paths: Paths,
    to: Annotated[str, typer.Option("--to", help="events (events.jsonl) or table (.csv or .parquet).")],
    save: Annotated[Path, typer.Option("--out", help="Folder or file to write.")],
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Turn logs of any kind into an events log or a table."""
    from abilene.cli.show import show_faults
    from abilene.records.adapters.events import write_events

    if to not in ("events", "table"):
        raise UsageError(f"--to must be events or table, found {to!r}.")
    if to == "table" and save.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError(f"A table ends in .csv or .parquet; found {str(save)!r}.")
    loaded = read_logs(paths, text=True)
    show_faults(loaded.faults, "fault")
    show_faults(loaded.warnings, "warning")
    if to == "events":
        path = write_events(loaded.record, save)
    else:
        save_table(loaded.record, save)
        path = save
    if json:
        print_json({"path": str(path), "rows": loaded.record.height})
    else:
        out.print(f"{path}: {loaded.record.height} rows", soft_wrap=True)
