"""`abilene run`: hold discussions, keep the log, print what follows from it."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from abilene.cli.options import Json, Seed
from abilene.cli.output import out, print_json, talk
from abilene.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from abilene.records.audit import Audit


def run(
    benchmark: Annotated[
        str, typer.Argument(metavar="BENCHMARK", help="hidden_profile, hiddenbench, musique, medeinst.")
    ],
    model: Annotated[
        str, typer.Option(help="Any Inspect model; behavioural/agent simulates, local/... runs in process.")
    ] = "behavioural/agent",
    model_arg: Annotated[
        list[str] | None, typer.Option("-M", metavar="KEY=VALUE", help="Argument of the model's provider.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="URL of an OpenAI-compatible server.")] = None,
    instruction: Annotated[
        list[str] | None, typer.Option(help="A, B, C or any sentence; several are several settings.")
    ] = None,
    tasks: Annotated[int | None, typer.Option(help="Number of tasks.")] = None,
    team_size: Annotated[
        list[int] | None, typer.Option(help="N, number of agents; several are several settings.")
    ] = None,
    rounds: Annotated[
        list[int] | None,
        typer.Option(
            help="T, number of discussion rounds (3; 15 in open discussions); several: a depth sweep."
        ),
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="structured, or open: free text between two votes, without probes.")
    ] = "structured",
    early_stop: Annotated[
        bool, typer.Option("--early-stop", help="End an open discussion when all agree.")
    ] = False,
    topology: Annotated[
        list[str] | None,
        typer.Option(
            help="complete (the default), ring, star, chain, random:Q, or an adjacency file; several."
        ),
    ] = None,
    intervention: Annotated[
        list[str] | None,
        typer.Option(help="Name of an intervention (abilene interventions), or none (the default); several."),
    ] = None,
    reasoning: Annotated[str | None, typer.Option(help="on, off, low, medium or high.")] = None,
    data: Annotated[Path | None, typer.Option(help="Data file of benchmarks that need one.")] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="Prompt pack that replaces the built-in wording.")
    ] = None,
    condition: Annotated[
        str, typer.Option(help="hidden, or full (every agent holds every note).")
    ] = "hidden",
    instruction_share: Annotated[
        float, typer.Option(help="Share of the agents that get the instruction.")
    ] = 1.0,
    agent_instruction: Annotated[
        list[str] | None, typer.Option(metavar="AGENT=TEXT", help="Instruction of one agent (from 0).")
    ] = None,
    agent_model: Annotated[
        list[str] | None, typer.Option(metavar="AGENT=MODEL", help="Model of one agent (from 0).")
    ] = None,
    personas: Annotated[
        Path | None, typer.Option(help="Who agents are: TOML or JSON, text by agent.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Discussions of each task.")] = 1,
    max_cost: Annotated[float | None, typer.Option(metavar="USD", help="Stop before spending more.")] = None,
    price: Annotated[
        str | None, typer.Option(metavar="IN,OUT", help="USD per million tokens, where they are not known.")
    ] = None,
    max_total_tokens: Annotated[int | None, typer.Option(help="Stop before using more tokens.")] = None,
    temperature: Annotated[float, typer.Option(help="Sampling temperature.")] = 0.7,
    connections: Annotated[int | None, typer.Option(help="Calls at a time (40; 8 for local models).")] = None,
    informed: Annotated[
        list[int] | None,
        typer.Option(help="Informed agents of a task, once per level (0, 1, 2, 3; hidden_profile)."),
    ] = None,
    benchmark_option: Annotated[
        list[str] | None,
        typer.Option(
            "-B",
            metavar="KEY=VALUE",
            help="Variant of the benchmark: findings, options (medeinst), per_hop (musique), "
            "per_level (hidden_profile, medeinst).",
        ),
    ] = None,
    attempt_timeout: Annotated[int, typer.Option(help="Seconds for one attempt of a call.")] = 120,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="The run's folder; the same command goes on with the same run."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check tasks, prompts and options, and forecast what it takes; ask nothing.",
        ),
    ] = False,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Run discussions with private probes, and print rates, margin, gain and verdict."""
    import importlib.util

    if importlib.util.find_spec("inspect_ai") is None:
        raise MissingExtraError("run", "Running discussions")
    from abilene.evals.drive import RunConfig
    from abilene.evals.drive import run as drive

    first, vary = sweep(
        team_size=team_size or [None],
        rounds=rounds or [15 if protocol == "open" else 3],
        topology=topology or ["complete"],
        intervention=intervention or ["none"],
    )
    config = RunConfig(
        benchmark=benchmark,
        model=model,
        model_args=model_args(model_arg or []),
        base_url=base_url,
        instructions=tuple(instruction or ["B"]),
        tasks=tasks,
        **first,
        vary=vary,
        protocol_name=protocol,
        early_stop=early_stop,
        informed=None if informed is None else tuple(informed),
        benchmark_options=_options(benchmark_option),
        reasoning=reasoning,
        data=data,
        prompts=prompts,
        condition=condition,
        instruction_share=instruction_share,
        agent_instructions=_by_agent(agent_instruction, "--agent-instruction"),
        agent_models=_by_agent(agent_model, "--agent-model"),
        personas=personas,
        seed=seed,
        max_cost=max_cost,
        price=None if price is None else _price(price),
        max_total_tokens=max_total_tokens,
        out=folder,
        connections=connections,
        epochs=epochs,
        temperature=temperature,
        attempt_timeout=attempt_timeout,
    )
    if dry_run:
        _forecast(config, json)
        return
    result = drive(config)
    _report(result, json=json, seed=seed)


def failed(report: Audit) -> list[str]:
    """Why settings fail their audit, each named."""
    out = []
    for s in report.settings:
        name = " · ".join(v for v in s.data.setting.values() if v) or "(no setting given)"
        out += [f"{name}: {failure}" for failure in s.failures]
    return out


def _forecast(config: Any, json: bool) -> None:
    from dataclasses import asdict

    from abilene.evals.drive import rehearse
    from abilene.evals.forecast import forecast

    rehearse(config)

    found = forecast(config)
    if json:
        print_json(asdict(found))
        return
    price = "not known; give it with --price IN,OUT" if found.usd is None else f"about {found.usd:.2f} USD"
    most = "at most " if config.early_stop else ""
    out.print(f"calls          {most}{found.calls}")
    out.print(f"input tokens   about {found.input_tokens / 1e6:.2f} million")
    out.print(
        f"output tokens  about {found.output_tokens / 1e6:.3f} million, in the exact format, unreasoned"
    )
    out.print(f"price          {price}")
    tokens = found.input_tokens + found.output_tokens
    if config.max_total_tokens is not None and tokens > config.max_total_tokens:
        talk.print(
            f"This is over the limit of {config.max_total_tokens} tokens: the run would stop before its end."
        )
    if config.max_cost is not None and found.usd is not None and found.usd > config.max_cost:
        talk.print(f"This is over the limit of {config.max_cost:g} USD: the run would stop before its end.")


def _report(result: Any, *, json: bool, seed: int) -> None:
    from abilene.analysis.estimate import estimate
    from abilene.analysis.manipulation import checks_by_setting, gate
    from abilene.cli.show import show_checks, show_faults, show_settings, show_summary
    from abilene.records.audit import audit

    found = estimate(result.loaded.record, seed=seed)
    report = audit(result.loaded, derived=found.derived)
    checks = checks_by_setting(result.loaded.record, found.derived)
    failures = failed(report)
    show_faults(report.faults, "fault")
    if json:
        print_json(
            {
                **found.to_json(),
                "out": str(result.out),
                "record": str(result.record),
                "logs": [str(p) for p in result.logs],
                "finished": {k: {"done": d, "expected": e} for k, (d, e) in result.finished.items()},
                "stopped": result.stopped,
                "notes": list(result.notes),
                "audit": {"passes": report.passes, "failures": failures},
                "manipulation": [gate(c) for c in checks],
            }
        )
    else:
        for _, check in zip(show_settings(found, result.loaded.record, seed=seed), checks, strict=True):
            show_checks(check, brief=True)
        show_summary(found.settings)
        for note in result.notes:
            out.print(note, markup=False)
        out.print(f"log     {result.out}", markup=False, soft_wrap=True)
        out.print(f"viewer  inspect view --log-dir {result.out}", markup=False, soft_wrap=True)
    for failure in failures:
        talk.print(f"AUDIT FAILS: {failure}", style="bold red", markup=False)
    for s in report.settings:
        for text, n in s.errors.items():
            talk.print(f"{n} failed calls said: {text}", style="red", markup=False)
    if result.stopped:
        talk.print(f"Stopped: {result.stopped}.")
    if not report.passes or not result.complete:
        raise typer.Exit(1)


def model_args(pairs: list[str]) -> dict[str, Any]:
    """Provider arguments from KEY=VALUE texts; values are read as JSON where they are JSON, as text otherwise.

    Raises
    ------
    UsageError
        No "=", or a key given twice.

    Examples
    --------
    >>> model_args(["c=0.3", "a=0.1,0.9", "flag=true"])
    {'c': 0.3, 'a': '0.1,0.9', 'flag': True}
    """
    out: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key or key in out:
            raise UsageError(f"-M takes KEY=VALUE, each key once; found {pair!r}.")
        try:
            out[key] = jsonlib.loads(text)
        except ValueError:
            out[key] = text
    return out


def sweep(**given: Sequence[Any]) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """What holds for the whole run, and what its settings differ in.

    Examples
    --------
    >>> sweep(rounds=[5, 10], topology=["ring"])
    ({'rounds': 5, 'topology': 'ring'}, {'rounds': (5, 10)})
    """
    return {k: v[0] for k, v in given.items()}, {k: tuple(v) for k, v in given.items() if len(v) > 1}


def _options(pairs: list[str] | None) -> dict[str, Any] | None:
    """Options of the benchmark; whether it has them is for the benchmark to say."""
    try:
        return model_args(pairs or []) or None
    except UsageError as e:
        raise UsageError(str(e).replace("-M", "-B", 1)) from None


def _by_agent(pairs: list[str] | None, option: str) -> dict[str, str] | None:
    out: dict[str, str] = {}
    for pair in pairs or []:
        agent, equals, text = pair.partition("=")
        number = str(int(agent)) if agent.strip().isdecimal() else None
        if not equals or number is None or not text.strip() or number in out:
            raise UsageError(f"{option} takes AGENT=..., agents numbered from 0, each once; found {pair!r}.")
        out[number] = text.strip()
    return out or None


def _price(text: str) -> tuple[float, float]:
    try:
        into, outof = (float(x) for x in text.split(","))
    except ValueError:
        raise UsageError(
            f"--price takes IN,OUT in USD per million tokens, as in 0.15,0.6; found {text!r}."
        ) from None
    return into, outof
