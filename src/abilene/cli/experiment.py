"""`abilene experiment`: experiments of several runs, with a prediction registered in between."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from abilene.cli.options import Json, Seed
from abilene.cli.output import interval, number, out, print_json, talk
from abilene.cli.run import _price, model_args
from abilene.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from abilene.analysis.arms import ArmComparison
    from abilene.evals.causal import CausalResult, Comparison
    from abilene.evals.forecast import Forecast

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Experiments of several runs."""


@app.command()
def causal(
    folder: Annotated[
        Path, typer.Option("--out", help="The experiment's folder; the same command goes on with it.")
    ],
    benchmark: Annotated[
        list[str] | None, typer.Option(help="hidden_profile, hiddenbench, ...; several times for several.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Any Inspect model; several times for several.")
    ] = None,
    model_arg: Annotated[
        list[str] | None, typer.Option("-M", metavar="KEY=VALUE", help="Argument of every model's provider.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="URL of an OpenAI-compatible server.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH", help="Data file; with several benchmarks that need one, NAME=PATH each."
        ),
    ] = None,
    instruction: Annotated[
        list[str] | None, typer.Option(help="A, B (the default), C or any sentence; one for all arms.")
    ] = None,
    tasks: Annotated[int | None, typer.Option(help="Number of tasks of each benchmark.")] = None,
    rounds: Annotated[int, typer.Option(help="T, number of discussion rounds.")] = 3,
    reasoning: Annotated[str | None, typer.Option(help="on, off, low, medium or high.")] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="USD", help="Stop before spending more, over all runs.")
    ] = None,
    price: Annotated[
        str | None, typer.Option(metavar="IN,OUT", help="USD per million tokens, where they are not known.")
    ] = None,
    max_total_tokens: Annotated[
        int | None, typer.Option(help="Stop before using more tokens, all runs.")
    ] = None,
    temperature: Annotated[float, typer.Option(help="Sampling temperature.")] = 0.7,
    connections: Annotated[int | None, typer.Option(help="Calls at a time.")] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check tasks, models and options, and forecast what all arms take; ask nothing.",
        ),
    ] = False,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Set withholding to 0 and to 1, predict what the gain will be, and compare (E1)."""
    import importlib.util

    if importlib.util.find_spec("inspect_ai") is None:
        raise MissingExtraError("run", "Running discussions")
    from abilene.evals.causal import causal as experiment
    from abilene.evals.causal import forecast_causal
    from abilene.evals.config import RunConfig
    from abilene.evals.drive import check_models

    if len(instruction or []) > 1:
        raise UsageError(
            "An experiment has one instruction for all arms; found several. Make an experiment of its own (--out) for "
            "each."
        )
    benchmarks = benchmark or ["hidden_profile"]
    files = data_files(data or [], benchmarks)
    cells = [
        RunConfig(
            benchmark=b,
            model=m,
            model_args=model_args(model_arg or []),
            base_url=base_url,
            instructions=tuple(instruction or ["B"]),
            tasks=tasks,
            rounds=rounds,
            reasoning=reasoning,
            data=files.get(b),
            seed=seed,
            max_cost=max_cost,
            price=None if price is None else _price(price),
            max_total_tokens=max_total_tokens,
            connections=connections,
            temperature=temperature,
        )
        for b in benchmarks
        for m in model or ["behavioural/agent"]
    ]
    if dry_run:
        # Stdout is for the result: Inspect greets when it is first asked about a model.
        with contextlib.redirect_stdout(sys.stderr):
            for cell in cells:
                check_models(cell)
            told = forecast_causal(cells)
        if json:
            print_json(asdict(told))
        else:
            show_forecast(told, max_cost, max_total_tokens)
        return
    result = experiment(cells, folder, seed=seed)
    if json:
        print_json(result.to_json())
    else:
        show(result)
    for c in result.comparisons:
        for fault in c.faults:
            talk.print(f"FAULT in {c.benchmark}, {c.model}: {fault}", style="bold red", markup=False)
    if result.stopped:
        talk.print(f"Stopped: {result.stopped} The same command goes on from here.", markup=False)
    if result.stopped or any(c.faults for c in result.comparisons):
        raise typer.Exit(1)


def data_files(given: Sequence[str], benchmarks: Sequence[str]) -> dict[str, str]:
    """Data file of each benchmark, from PATH or NAME=PATH.

    Raises
    ------
    UsageError
        A file for a benchmark that is not run or needs none, two for one, or a plain path where it could be
        several benchmarks'.

    Examples
    --------
    >>> data_files(["x.json"], ["hidden_profile", "hiddenbench"])
    {'hiddenbench': 'x.json'}
    """
    from abilene.tasks import benchmark

    need = [b for b in benchmarks if benchmark(b).needs_data]
    out: dict[str, str] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or name not in need:
            if len(need) != 1:
                raise UsageError(
                    f"--data {text}: {len(need)} of the benchmarks read a file ({', '.join(need) or 'none'}). "
                    "Write NAME=PATH."
                )
            name, path = need[0], text
        if name in out or not path:
            raise UsageError(f"--data takes one file for each benchmark; found {text!r} for {name}.")
        out[name] = path
    return out


def show_forecast(told: Forecast, max_cost: float | None, max_tokens: int | None) -> None:
    """What the experiment will take, for people."""
    price = told.reason if told.usd is None else f"about {told.usd:.2f} USD"
    read, written = told.input_tokens / 1e6, told.output_tokens / 1e6
    out.print("the whole experiment: the control arms, and two further arms each")
    out.print(f"calls          {told.calls}")
    out.print(f"input tokens   about {read:.2f} million")
    out.print(f"output tokens  about {written:.3f} million, in the exact format, unreasoned")
    out.print(f"price          {price}", markup=False, soft_wrap=True)
    over = "the experiment would stop before its end."
    if max_tokens is not None and told.input_tokens + told.output_tokens > max_tokens:
        talk.print(f"This is over the limit of {max_tokens} tokens: {over}")
    if max_cost is not None and told.usd is not None and told.usd > max_cost:
        talk.print(f"This is over the limit of {max_cost:g} USD: {over}")


def show(result: CausalResult) -> None:
    """The comparison for people; made to be read at 60 columns too."""
    for c in result.comparisons:
        _show_cell(c)
    if result.registered is not None:
        told = f"prediction  {result.out / 'prediction.json'}, written {result.registered['written']}"
        out.print(told, markup=False, soft_wrap=True)
    if result.comparisons:
        out.print(f"comparison  {result.out / 'comparison.json'}", markup=False, soft_wrap=True)


def _show_cell(c: Comparison) -> None:
    title = Text(f"{c.benchmark} · {c.model} · {c.control.setting['instruction']}", style="bold")
    if c.simulated:
        title.append("  [simulated agents]", style="magenta")
    out.print(title)
    gain, by_model = c.control.gain, c.predictions.control
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("control: nothing set")
    table.add_column("", justify="right")
    table.add_column("95 % interval")
    _row(table, "gain observed", gain)
    _row(table, "gain by the model", by_model)
    _row(table, "c read", c.control.posterior.withholding, sign=False)
    out.print(table)
    for a in c.arms:
        _show_arm(a)
    if c.manipulation == "fail":
        out.print("manipulation checks fail: the rates may not mean what the design says", style="red")
    for line in dict.fromkeys(x for a in c.arms for x in a.predicted.assumptions):
        out.print(f"  assumes: {line}", style="dim", markup=False)
    out.print()


def _show_arm(a: ArmComparison) -> None:
    p, o = a.predicted, a.observed
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(f"{p.arm}: c set to {p.withholding:g}")
    table.add_column("", justify="right")
    table.add_column("95 % interval")
    _row(table, "gain predicted", p.gain)
    if p.predictive is not None:
        table.add_row("  outcomes expected", "", interval(*p.predictive, sign=True))
    if p.gain_as_run != p.gain:
        _row(table, "  as the arm is run", p.gain_as_run)
        if p.predictive_as_run is not None:
            table.add_row("  outcomes expected", "", interval(*p.predictive_as_run, sign=True))
    _row(table, "gain observed", o.gain)
    _row(table, "change predicted", p.change)
    _row(table, "change observed", a.change)
    _row(table, "c read", o.posterior.withholding, sign=False)
    out.print(table)
    predicted, observed = p.direction or "not known", a.direction or "not known"
    color = {"as predicted": "green", "against": "red"}.get(a.outcome, "yellow")
    told = Text(f"direction  predicted {predicted}, observed {observed}: ")
    out.print(told.append(a.outcome, style=f"bold {color}"))
    lies = {True: "inside", False: "outside"}
    sizes = [(a.inside, "the outcomes expected")]
    if p.gain_as_run != p.gain:
        sizes.append((a.inside_as_run, "those of the arm as it is run"))
    if told_sizes := [f"{lies[inside]} {name}" for inside, name in sizes if inside is not None]:
        out.print(f"size       gain observed: {', '.join(told_sizes)}")
    out.print()


def _row(table: Table, name: str, value: Any, *, sign: bool = True) -> None:
    """One quantity that has a middle and an interval, or a reason why not."""
    middle = value.median if hasattr(value, "median") else value.mean
    if middle is None:
        table.add_row(name, "not known", value.reason or "")
    else:
        table.add_row(name, number(middle, sign=sign), interval(value.lower, value.upper, sign=sign))
