"""`abilene tasks`: make hidden-profile tasks with a model, check hand-written ones, and pair up cases."""

from __future__ import annotations

import asyncio
import json as jsonlib
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from abilene.cli.options import Json, Seed
from abilene.cli.output import number, out, print_json, talk
from abilene.errors import InputError, UsageError

if TYPE_CHECKING:
    from abilene.evals.factory import Made, Outcome
    from abilene.tasks.factory import Entry
    from abilene.tasks.sieve import Trial

app = typer.Typer(
    help="Make tasks with a model or from records, and check hand-written ones.", no_args_is_help=True
)

Arguments = Annotated[list[str] | None, typer.Option("-M", help="Argument of the provider, key=value.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Of an OpenAI-compatible server.")]
Temperature = Annotated[float, typer.Option("--temperature", min=0.0)]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=1, help="Of every reply.")]
Connections = Annotated[int, typer.Option("--connections", min=1, help="Calls at a time.")]
Prompts = Annotated[Path | None, typer.Option("--prompts", help="A prompt pack of your own (TOML).")]
Trials = Annotated[int, typer.Option("--trials", help="Answers to each task in each of the two conditions.")]
Full = Annotated[float, typer.Option("--full", help="Least accuracy with all facts.")]
Hidden = Annotated[float, typer.Option("--hidden", help="Greatest accuracy with one agent's part.")]
Strict = Annotated[bool, typer.Option("--strict", help="More than --full and less than --hidden.")]
MinReadable = Annotated[
    int | None,
    typer.Option("--min-readable", help="Readable answers needed per condition (80 % of the trials)."),
]

_SECRET = re.compile(r"key|token|secret|password|credential|auth", re.IGNORECASE)


@app.command()
def make(
    model: Annotated[str, typer.Option("--model", help="Answers the candidates (any Inspect model).")],
    folder: Annotated[Path, typer.Option("--out", help="New or empty folder; a started one is continued.")],
    generator: Annotated[
        str | None, typer.Option("--generator", help="Writes the candidates; the same model if left out.")
    ] = None,
    candidates: Annotated[int, typer.Option("--candidates", help="Candidates to ask for.")] = 20,
    keep: Annotated[int | None, typer.Option("--keep", help="No more calls once so many are kept.")] = None,
    clues: Annotated[int, typer.Option("--clues", help="Clues of a task, which is its team's size.")] = 4,
    options: Annotated[int, typer.Option("--options", help="Options of a task.")] = 3,
    template: Annotated[
        Path | None, typer.Option("--template", help="How to ask for a candidate (TOML).")
    ] = None,
    trials: Trials = 10,
    full: Full = 0.8,
    hidden: Hidden = 0.2,
    strict: Strict = False,
    min_readable: MinReadable = None,
    prompts: Prompts = None,
    arguments: Arguments = None,
    base_url: BaseUrl = None,
    temperature: Temperature = 0.7,
    max_tokens: MaxTokens = None,
    connections: Connections = 20,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Let a model write tasks, try each with all facts and with one agent's part, keep those that need a team."""
    from abilene.evals.factory import connect, make_tasks
    from abilene.evals.progress import bar
    from abilene.tasks.factory import Recipe, load_template
    from abilene.tasks.sieve import Filter
    from abilene.team.wording import load_pack

    recipe = Recipe(clues=clues, options=options, seed=seed, template=load_template(template))
    _check_bounds(full, hidden)
    sieve = Filter(trials=trials, full=full, hidden=hidden, strict=strict, min_readable=min_readable)
    pack = load_pack(prompts)
    given = _arguments(arguments)
    sending: dict[str, Any] = {
        "base_url": base_url, "model_args": given, "temperature": temperature, "max_tokens": max_tokens,
        "connections": connections,
    }  # fmt: skip
    generate, answer = connect(model, **sending)
    if generator is not None:
        generate, _ = connect(generator, **sending)
    facts = {**_facts(model, base_url, given, temperature, max_tokens), "generator": generator or model}
    total = candidates * (1 + 2 * trials)
    talk.print(
        f"At most {total} calls: {candidates} candidates, each tried {trials} times in two conditions."
    )
    with bar(total, "task factory") as on_call:
        made = asyncio.run(
            make_tasks(
                recipe, sieve, generate, answer, folder, candidates=candidates, keep=keep, facts=facts, pack=pack,
                connections=connections, on_call=on_call,
            )
        )  # fmt: skip
    _show_made(made, json)
    if made.stopped or made.of("open"):
        raise typer.Exit(1)


def _show_made(made: Made, json: bool) -> None:
    from abilene.evals.factory import REJECTED, TASKS, counts

    kept, rejected, undecided = (made.of(s) for s in ("kept", "rejected", "open"))
    if json:
        print_json(
            {
                "schema": 1,
                "tasks": str(made.out / TASKS),
                "rejected": str(made.out / REJECTED),
                "calls": made.calls,
                "kept": [
                    {"candidate": o.number, "name": o.candidate.name, "trials": counts(o.trials)}
                    for o in kept
                    if o.candidate
                ],
                "rejections": [
                    {"candidate": o.number, "reasons": [{"code": r.code, "detail": r.detail} for r in o.reasons],
                     "trials": counts(o.trials)}
                    for o in rejected
                ],
                "open": [{"candidate": o.number, "error": o.error} for o in undecided],
                "stopped": made.stopped,
                "untried": list(made.untried),
            }
        )  # fmt: skip
    else:
        for o in rejected:
            told = "; ".join(f"{r.code}: {r.detail}" for r in o.reasons)
            out.print(f"{o.number:>4}  rejected  {told}", markup=False)
        for o in kept:
            told = _accuracies(o.trials)
            out.print(
                f"{o.number:>4}  kept      {o.candidate.name if o.candidate else ''}  ({told})", markup=False
            )
        out.print(f"{len(kept)} kept in {made.out / TASKS}, {len(rejected)} rejected.", markup=False)
    for o in undecided:
        talk.print(f"candidate {o.number} is open, calls failed: {o.error}", markup=False)
    if made.untried:
        which = ", ".join(map(str, made.untried))
        talk.print(
            f"In neither file, since they need calls beyond this start's numbers: candidates {which}. Greater "
            "--candidates and --keep, or the trials of before, decide them.",
            markup=False,
        )
    if made.stopped:
        talk.print(f"Gave up: {made.stopped}", markup=False)
    if made.stopped or undecided:
        talk.print("The same command goes on from here; finished calls are not made again.")


def _accuracies(trials: tuple[Trial, ...]) -> str:
    from abilene.tasks.sieve import count

    full, hidden = count(trials, "full"), count(trials, "hidden")
    return f"all facts {number(full.accuracy, 2)}, one agent's part {number(hidden.accuracy, 2)}"


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A file in HiddenBench's format.")],
    model: Annotated[
        str | None, typer.Option("--model", help="Also try every task with this model, as `make` does.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Keep the answers there, to go on after a stop.")
    ] = None,
    clues: Annotated[
        int | None, typer.Option("--clues", help="Exact number of clues; 3 or more if left out.")
    ] = None,
    trials: Trials = 10,
    full: Full = 0.8,
    hidden: Hidden = 0.2,
    strict: Strict = False,
    min_readable: MinReadable = None,
    prompts: Prompts = None,
    arguments: Arguments = None,
    base_url: BaseUrl = None,
    temperature: Temperature = 0.7,
    max_tokens: MaxTokens = None,
    connections: Connections = 20,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Check hand-written tasks: their structure always, what they ask of a team only with a model."""
    from abilene.tasks.factory import check_file
    from abilene.tasks.sieve import Filter

    _check_bounds(full, hidden)
    sieve = Filter(trials=trials, full=full, hidden=hidden, strict=strict, min_readable=min_readable)
    entries = check_file(file, clues)
    outcomes: dict[str, Outcome] = {}
    if model is not None:
        from abilene.evals.factory import connect, try_tasks
        from abilene.evals.progress import bar
        from abilene.team.wording import load_pack

        pack, given = load_pack(prompts), _arguments(arguments)
        _, answer = connect(
            model, base_url=base_url, model_args=given, temperature=temperature, max_tokens=max_tokens,
            connections=connections,
        )  # fmt: skip
        facts = _facts(model, base_url, given, temperature, max_tokens)
        total = sum(not e.problems for e in entries) * 2 * trials
        with bar(total, "checking tasks") as on_call:
            outcomes = asyncio.run(
                try_tasks(
                    entries, sieve, answer, out=folder, facts=facts, seed=seed, pack=pack,
                    connections=connections, on_call=on_call,
                )
            )  # fmt: skip
    elif folder is not None:
        raise UsageError("--out keeps a model's answers: give --model too, or leave it out.")
    _show_checked(file, entries, outcomes, model, json)
    if any(_fails(e, outcomes.get(e.key)) for e in entries):
        raise typer.Exit(1)


def _fails(entry: Entry, outcome: Outcome | None) -> bool:
    return bool(entry.problems) or (outcome is not None and outcome.status != "kept")


def _show_checked(
    file: Path, entries: tuple[Entry, ...], outcomes: dict[str, Outcome], model: str | None, json: bool
) -> None:
    from abilene.evals.factory import counts

    if json:
        document = []
        for e in entries:
            o = outcomes.get(e.key)
            document.append(
                {
                    "id": e.key,
                    "name": None if e.candidate is None else e.candidate.name,
                    "problems": [{"code": p.code, "field": p.field, "detail": p.detail} for p in e.problems],
                    "executed": None if o is None else o.status,
                    "reasons": [] if o is None else [{"code": r.code, "detail": r.detail} for r in o.reasons],
                    "trials": None if o is None else counts(o.trials),
                    "error": None if o is None else o.error,
                }
            )
        print_json({"schema": 1, "file": str(file), "model": model, "tasks": document})
        return
    tally = Counter[str]()
    for e in entries:
        o = outcomes.get(e.key)
        tally["open" if o is not None and o.status == "open" else "fault" if _fails(e, o) else "sound"] += 1
        faults = [f"{p.code}: {p}" for p in e.problems]
        if o is not None:
            faults += [f"{r.code}: {r.detail}" for r in o.reasons]
            faults += [f"open, calls failed: {o.error}"] if o.status == "open" else []
        told = "" if o is None else f"  ({_accuracies(o.trials)})"
        out.print(f"{e.key}: {'; '.join(faults) or 'sound'}{told}", markup=False)
    told = f"{len(entries)} task{'' if len(entries) == 1 else 's'}: {tally['sound']} sound, "
    told += f"{tally['fault']} with faults"
    out.print(told + (f", {tally['open']} open" if tally["open"] else ""), markup=False)
    if model is None:
        talk.print("Structure only. Whether the tasks need a team is found out with --model.")


@app.command()
def pairs(
    patients: Annotated[Path, typer.Argument(help="Patients of DDXPlus (CSV), at most 5000.")],
    evidences: Annotated[Path, typer.Argument(help="release_evidences.json of DDXPlus.")],
    conditions: Annotated[Path, typer.Argument(help="release_conditions.json of DDXPlus.")],
    save: Annotated[Path, typer.Option("--out", help="File to write (JSON lines); it must not exist yet.")],
    max_difference: Annotated[
        int, typer.Option("--max-difference", help="Evidences in which the two patients may differ.")
    ] = 5,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Make case pairs for `abilene run medeinst` from patients of DDXPlus. No model is asked."""
    from abilene.records.loaded import replacing
    from abilene.tasks.casepairs import read_pairs
    from abilene.tasks.ddxplus import from_ddxplus, write_rows

    if save.exists():
        raise InputError(save, "there is such a file or folder already", "Choose a new --out.")
    rows = from_ddxplus(patients, evidences, conditions, max_difference=max_difference)
    if not rows:
        raise InputError(
            patients,
            f"no two patients with different diagnoses differ in at most {max_difference} evidences",
            "Give more patients, or a greater --max-difference.",
        )
    with replacing(save) as temporary:
        write_rows(rows, temporary)
    usable = len(read_pairs(save)[0])
    if json:
        print_json({"schema": 1, "path": str(save), "pairs": len(rows) // 2, "one_finding": usable})
        return
    out.print(
        f"{save}: {len(rows) // 2} pairs, {usable} of them with a trap that adds exactly one finding",
        soft_wrap=True,
    )
    if usable:
        out.print(f"Next: abilene run medeinst --data {shlex.quote(str(save))}", soft_wrap=True)
    else:
        talk.print("Only such pairs make tasks. Give more patients, or a greater --max-difference.")


def _check_bounds(full: float, hidden: float) -> None:
    if hidden >= full:
        raise UsageError(
            f"--hidden {hidden:g} is not below --full {full:g}: that would keep tasks which one agent "
            "solves as well as a team."
        )


def _facts(
    model: str, base_url: str | None, given: dict[str, Any], temperature: float, max_tokens: int | None
) -> dict[str, Any]:
    """What decides the answers, without secrets."""
    return {
        "model": model,
        "base_url": base_url,
        "model_args": {k: "***" if _SECRET.search(k) else v for k, v in sorted(given.items())},
        "temperature": temperature,
        "max_tokens": max_tokens,
    }


def _arguments(given: list[str] | None) -> dict[str, Any]:
    """Provider arguments: values are JSON where they can be read as such, text otherwise."""
    made: dict[str, Any] = {}
    for part in given or ():
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"-M takes key=value, found {part!r}.")
        try:
            made[key.strip()] = jsonlib.loads(value)
        except ValueError:
            made[key.strip()] = value
    return made
