"""`abilene theory`: thresholds, separatrix, exact teams, simulations, phase diagrams."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from abilene.cli.options import A, C, Json, N, R, Rho, Seed, T, crowd_observed, limit_observed
from abilene.cli.output import interval, number, out, print_json, talk
from abilene.errors import UsageError

app = typer.Typer(
    help="The model, solved: thresholds, exact teams, simulations, phase diagrams.", no_args_is_help=True
)

Start = Annotated[int | None, typer.Option("--start", help="Exactly this many agents start correct.")]
Accuracy = Annotated[float | None, typer.Option("-p", "--accuracy", help="Each agent starts correct with p.")]
Crowd = Annotated[
    str, typer.Option("-q", "--observed", help="Others seen, redrawn every round, or complete.")
]
Limit = Annotated[str, typer.Option("-q", "--observed", help="Others seen by each agent, or inf.")]


def _lines(rows: dict[str, str]) -> None:
    width = max(map(len, rows))
    for name, value in rows.items():
        out.print(f"{name:<{width}}  {value}")


@app.command()
def thresholds(a: A, rho: Rho, r: R, q: Limit = "3", json: Json = False, seed: Seed = 0) -> None:
    """Critical withholding c*, and c_jump, where a stable state of low accuracy first appears."""
    from abilene.theory.thresholds import thresholds as solve

    found = solve(a, rho, r, limit_observed(q))
    reason = None
    if found.kind == "degenerate":
        reason = "gamma = 0 and a = 0: there is no threshold"
    elif found.critical_withholding is None:
        reason = "q = 1: a single statement is a majority of its own, so there is no threshold"
    if json:
        print_json({**asdict(found), **({} if reason is None else {"reason": reason})})
        return
    _lines(
        {
            "net correction γ": number(found.net_correction, 6),
            "critical withholding c*": number(found.critical_withholding, 6),
            "jump withholding": f"{number(found.jump_withholding, 6)} ({found.kind})",
            "all-correct stable above": number(found.all_correct_stable_above, 6),
        }
    )
    if found.kind == "degenerate":
        talk.print(
            "γ = 0 and a = 0: neither correction nor internalization moves the team; there is no threshold."
        )
    elif found.critical_withholding is None:
        talk.print("q = 1: a single statement is a majority of its own, so there is no threshold.")


@app.command()
def separatrix(c: C, a: A, rho: Rho, r: R, q: Limit = "3", json: Json = False, seed: Seed = 0) -> None:
    """Initial accuracy p* that divides recovery from collapse (0: every start recovers, 1: none does)."""
    from abilene.theory.thresholds import separatrix as solve

    found = solve(c, a, rho, r, limit_observed(q))
    if json:
        reason = {} if found is not None else {"reason": "every state is a fixed point"}
        print_json({"separatrix": found, **reason})
    else:
        out.print(number(found, 6))
    if found is None:
        talk.print("Every state is a fixed point at these rates: no start leads anywhere else.")


@app.command()
def team(
    n: Annotated[
        int | None, typer.Option("-n", "--team-size", help="N (default 5; with --from: as measured).")
    ] = None,
    t: Annotated[
        int | None, typer.Option("-t", "--rounds", help="T (default 3; with --from: as measured).")
    ] = None,
    c: Annotated[
        float | None, typer.Option("-c", "--withholding", help="c (--from: what it would be).")
    ] = None,
    a: Annotated[
        float | None, typer.Option("-a", "--internalization", help="a (--from: what it would be).")
    ] = None,
    rho: Annotated[float | None, typer.Option("--rho", help="Reconsideration.")] = None,
    r: Annotated[float | None, typer.Option("-r", "--correction", help="r.")] = None,
    q: Annotated[
        str | None,
        typer.Option(
            "-q",
            "--observed",
            help="Others seen, redrawn, or complete (with --from: as measured).",
        ),
    ] = None,
    start: Start = None,
    p: Accuracy = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Predict for a measured team: file of abilene estimate --posterior."),
    ] = None,
    rates_of: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --from: also with the rates of the setting in this file."),
    ] = None,
    max_seconds: Annotated[float, typer.Option(help="Refuse what would take longer than this.")] = 60.0,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """What a team of N agents does after T rounds, exactly.

    With --from, the rates come from an estimate, with their uncertainty; -c, -a, -n, -t then say what would be
    different.
    """
    from abilene.rates import Rates
    from abilene.theory.chain import solve

    if source is not None:
        from abilene.cli.whatif import predict_from

        if not (rho is r is start is p is None):
            raise UsageError("--from takes rates and starts from the estimate; change -c, -a, -n or -t only.")
        predict_from(
            source, like=rates_of, withholding=c, internalization=a, team_size=n, rounds=t,
            topology=None if q is None else "complete" if crowd_observed(q) == "complete" else f"random:{q}",
            json=json, seed=seed,
        )  # fmt: skip
        return
    if rates_of is not None:
        raise UsageError("--rates-of goes with --from.")
    if None in (c, a, rho, r):
        raise UsageError("Give the four rates: -c, -a, --rho, -r.")
    if (start is None) == (p is None):
        raise UsageError("Give either --start K (agents that start correct) or -p P (accuracy of each).")
    rates = Rates(c, a, rho, r)  # type: ignore[arg-type]
    solution = solve(
        5 if n is None else n,
        3 if t is None else t,
        rates,
        crowd_observed(q or "complete"),
        max_seconds=max_seconds,
    )
    outcome = solution.start(start) if start is not None else solution.bernoulli(p)  # type: ignore[arg-type]
    found = {k: v for k, v in asdict(outcome).items() if v is not None}
    if json:
        print_json(found)
        return
    names = {
        "correct": "discussion correct",
        "tie": "tie (scores incorrect)",
        "beliefs_correct": "correct beliefs",
        "vote": "vote correct",
        "gain": "gain",
    }
    _lines({names[k]: number(v, 6, sign=k == "gain") for k, v in found.items()})


@app.command()
def simulate(
    c: C,
    a: A,
    rho: Rho,
    r: R,
    n: Annotated[
        int | None, typer.Option("-n", "--team-size", help="N (a graph file says it itself).")
    ] = None,
    t: T = 3,
    q: Crowd = "complete",
    graph: Annotated[
        Path | None, typer.Option(help='Who observes whom, as JSON: {"0": [1, 2], "1": [0]}.')
    ] = None,
    start: Start = None,
    p: Accuracy = None,
    answers: Annotated[int, typer.Option("-k", "--answers", help="K, number of answers.")] = 2,
    noise: Annotated[float, typer.Option(help="Chance of a random belief, per agent and round.")] = 0.0,
    replicates: Annotated[int, typer.Option(help="Number of teams.")] = 10_000,
    threads: Annotated[int, typer.Option(help="Threads; results do not depend on it.")] = 1,
    save: Annotated[
        Path | None, typer.Option("--out", help="Keep every row as a record (.parquet or .csv).")
    ] = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Simulate teams, on any graph and with any number of answers; --out gives a log like a real team's."""
    from abilene.analysis.gain import wilson
    from abilene.rates import Rates
    from abilene.team.topology import Topology
    from abilene.theory.agents import simulate as run

    rates = Rates(c, a, rho, r)
    adjacency = None if graph is None else Topology.parse(str(graph)).adjacency
    observed: Any = crowd_observed(q) if adjacency is None else adjacency
    if n is None:
        # An agent that only others name is a member too; one that observes nobody keeps its answer.
        n = 5 if adjacency is None else max((max((i, *seen)) for i, seen in adjacency.items()), default=0) + 1
    if adjacency is not None:
        observed = {i: adjacency.get(i, ()) for i in range(max(n, *adjacency, 0))}
    team = run(
        n,
        t,
        rates,
        observed,
        accuracy=p,
        start=start,
        answers=answers,
        noise=noise,
        replicates=replicates,
        seed=seed,
        threads=threads,
        records=save is not None,
    )
    if save is not None:
        from abilene.cli.files import save_table
        from abilene.records.adapters.simulation import record_of

        save_table(
            record_of(team.rows(), topology=str(graph or (q if q == "complete" else f"random:{q}"))), save
        )
        talk.print(f"Wrote {save}.")
    limits = wilson(round(team.correct * team.replicates), team.replicates) or (None, None)
    found = {
        "simulated": True,
        "replicates": team.replicates,
        "correct": team.correct,
        "correct_lower": limits[0],
        "correct_upper": limits[1],
        "standard_error": team.standard_error,
        "tie": team.tie,
        "vote": team.vote,
        "gain": team.gain,
        "beliefs_correct": team.beliefs.tolist(),
        "statements_correct": team.statements.tolist(),
    }
    if json:
        print_json(found)
        return
    _lines(
        {
            "discussion correct": f"{number(team.correct, 4)}, 95 % {interval(*limits)} (simulated)",
            "tie (scores incorrect)": number(team.tie, 4),
            "vote correct": number(team.vote, 4),
            "gain": number(team.gain, 4, sign=True),
            "correct beliefs by round": " ".join(number(float(x), 3) for x in team.beliefs),
            "correct statements by round": " ".join(number(float(x), 3) for x in team.statements),
        }
    )


@app.command()
def phase(
    a: A,
    rho: Rho,
    r: R,
    save: Annotated[Path, typer.Option("--out", help="netCDF file to write.")],
    n: N = 100,
    t: T = 100,
    q: Crowd = "3",
    points: Annotated[int, typer.Option(help="Points along each axis.")] = 101,
    teams: Annotated[int, typer.Option(help="Teams a point, at least.")] = 1000,
    part: Annotated[
        str, typer.Option(help="Only block I of N of the rows, as I/N from 0; see merge.")
    ] = "0/1",
    threads: Annotated[int, typer.Option(help="Threads; results do not depend on it.")] = 1,
    figure: Annotated[Path | None, typer.Option(help="Draw it (.png, .svg, .pdf or .html).")] = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Share of teams that end correct, by withholding and accuracy, with the mean-field boundary."""
    import numpy as np

    from abilene.theory import phase as diagrams

    _netcdf(save)
    index, _, count = part.partition("/")
    if not (index.isdecimal() and count.isdecimal()):
        raise UsageError(f"--part must look like 0/4, found {part!r}.")
    if points < 2:
        raise UsageError(f"--points must be at least 2, found {points}.")
    axis = np.linspace(0.0, 1.0, points)
    diagram = diagrams.phase_diagram(
        n,
        t,
        a,
        rho,
        r,
        crowd_observed(q),
        withholding=axis,
        accuracy=axis,
        teams=teams,
        seed=seed,
        threads=threads,
        part=(int(index), int(count)),
    )
    _finish(diagram, save, figure, json)


@app.command()
def merge(
    parts: Annotated[list[Path], typer.Argument(help="All parts of one phase diagram.")],
    save: Annotated[Path, typer.Option("--out", help="netCDF file to write.")],
    figure: Annotated[Path | None, typer.Option(help="Draw it (.png, .svg, .pdf or .html).")] = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Put the parts of a phase diagram together."""
    from abilene.theory import phase as diagrams

    _netcdf(save)
    _finish(diagrams.merge(diagrams.load(path) for path in parts), save, figure, json)


def _netcdf(path: Path) -> None:
    if path.suffix.lower() != ".nc":
        raise UsageError(f"A phase diagram ends in .nc; found {str(path)!r}.")


def _finish(diagram, save: Path, figure: Path | None, json: bool) -> None:  # type: ignore[no-untyped-def]
    from abilene.records.loaded import replacing
    from abilene.theory import phase as diagrams

    with replacing(save) as temporary:
        diagrams.save(diagram, temporary)
    if figure is not None:
        from abilene.report.figures import phase_figure, save_figure

        save_figure(phase_figure(diagram), figure)
    if json:
        print_json(
            {
                "path": str(save),
                "figure": None if figure is None else str(figure),
                "critical_withholding": diagram.attrs.get("critical_withholding"),
                "jump_withholding": diagram.attrs.get("jump_withholding"),
                "kind": diagram.attrs["jump_kind"],
            }
        )
    else:
        out.print(f"{save}" + (f"\n{figure}" if figure else ""), soft_wrap=True)
