"""`abilene theory team --from`: predictions for a measured team, as it is and as it could be."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from abilene.cli.output import interval, number, out, print_json, talk
from abilene.errors import UsageError


def predict_from(
    path: Path,
    *,
    like: Path | None,
    withholding: float | None,
    internalization: float | None,
    team_size: int | None,
    rounds: int | None,
    topology: str | None,
    json: bool,
    seed: int,
) -> None:
    """Print predictions for every setting of a saved estimate."""
    from abilene.analysis.saved import load_posteriors
    from abilene.analysis.whatif import predict, whatif_scenarios

    other = None
    if like is not None:
        others = load_posteriors(like)
        if len(others) != 1:
            raise UsageError(
                f"{like} holds {len(others)} settings; --rates-of needs a file with exactly one."
            )
        other = others[0].posterior
    document = []
    for s in load_posteriors(path):
        if not s.starts:
            talk.print(
                f"{s.label}: no discussion has a complete round 0, so there is no start to predict from."
            )
            document.append({"setting": s.setting, "simulated": s.simulated, "predictions": None,
                             "reason": "no discussion has a complete round 0"})  # fmt: skip
            continue
        scenarios = whatif_scenarios(
            withholding=withholding, internalization=internalization, team_size=team_size, rounds=rounds,
            rates_from=other,
        )  # fmt: skip
        found = [
            predict(
                s.posterior,
                s.starts,
                rounds=s.rounds,
                scenario=x,
                topology=topology or s.setting["topology"] or "complete",
                answers=s.answers,
                seed=seed,
            )
            for x in scenarios
        ]
        names = ("vote", "discussion", "gain", "gain_lower", "gain_upper")
        document.append(
            {
                "setting": s.setting,
                "simulated": s.simulated,
                "observed": dict(zip(names, s.measured, strict=True)),
                "predictions": [
                    {
                        "scenario": p.name,
                        "vote": p.vote.as_dict(),
                        "discussion": p.discussion.as_dict(),
                        "gain": p.gain.as_dict(),
                        "assumptions": list(p.assumptions),
                    }
                    for p in found
                ],
            }
        )
        if json:
            continue
        out.print(s.label + ("  [simulated agents]" if s.simulated else ""), style="bold", markup=False)
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("scenario", "vote", "discussion", "gain", "95 % interval"):
            table.add_column(name, justify="left" if name == "scenario" else "right")
        vote, discussion, gain, lower, upper = s.measured
        table.add_row(
            "observed",
            number(vote),
            number(discussion),
            number(gain, sign=True),
            interval(lower, upper, sign=True),
        )
        for p in found:
            if not p.gain.identified:
                table.add_row(p.name, "—", "—", "—", p.gain.reason)
                continue
            table.add_row(
                p.name, number(p.vote.median), number(p.discussion.median), number(p.gain.median, sign=True),
                interval(p.gain.lower, p.gain.upper, sign=True),
            )  # fmt: skip
        out.print(table)
        for line in dict.fromkeys(a for p in found for a in p.assumptions):
            out.print(f"  assumes: {line}", style="dim")
        out.print()
    if json:
        print_json({"schema": 1, "settings": document})
