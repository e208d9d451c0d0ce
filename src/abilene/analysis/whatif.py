"""From an estimate to predictions: what would the gain be if the team were different in one respect?

Each joint draw of the posterior is solved exactly (`abilene.theory.chain`) or, for more than two answers and for fixed
graphs, simulated (`abilene.theory.agents`), so the interval carries the
uncertainty of the rates. It does not carry the model's own error: a team can recover by evidence that reaches the
table, a way the model does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from abilene.errors import UsageError
from abilene.inference.summary import Summary, from_draws, unidentified
from abilene.rates import Rates
from abilene.seeds import child_rng, child_seed
from abilene.team.topology import Topology
from abilene.theory.agents import simulate
from abilene.theory.chain import solve, start_weights
from abilene.theory.crowd import Observed, check_share

if TYPE_CHECKING:
    import xarray as xr


#: Simulated teams per posterior draw and start, where a team cannot be solved exactly.
SIMULATED = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is different from the team that was measured. None: as measured.

    Parameters
    ----------
    name : str
        For display.
    withholding, internalization : float, optional
        c and a set to a value in [0, 1].
    team_size, rounds : int, optional
        N and T.
    rates_from : xarray.Dataset, optional
        Posterior of another setting (the same model without reasoning, say) whose rates replace all four.
    """

    name: str
    withholding: float | None = None
    internalization: float | None = None
    team_size: int | None = None
    rounds: int | None = None
    rates_from: xr.Dataset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Predicted accuracies of one scenario; see `predict`.

    Attributes
    ----------
    name : str
        The scenario's.
    vote, discussion, gain : Summary
        Share of correct teams before and after the discussion, and the difference, with the posterior's 95 %
        interval.
    assumptions : tuple of str
        What the prediction rests on beyond the estimate; to be shown with it.
    """

    name: str
    vote: Summary
    discussion: Summary
    gain: Summary
    assumptions: tuple[str, ...]


def predict(
    posterior: xr.Dataset,
    starts: Sequence[tuple[int, int]],
    *,
    rounds: int,
    scenario: Scenario | None = None,
    topology: str = "complete",
    answers: int = 2,
    draws: int = 200,
    seed: int = 0,
) -> Prediction:
    """Predict vote, discussion and gain for tasks like those observed.

    Parameters
    ----------
    posterior : xarray.Dataset
        `SettingPosterior.posterior` of the measured setting.
    starts : sequence of (int, int)
        Number of agents correct at round 0 and team size, of each observed discussion.
    rounds : int
        T of the measured team.
    scenario : Scenario, optional
        What is different; left out: nothing.
    topology : str
        As `abilene.team.topology.Topology.parse` reads it: who observes whom.
    answers : int
        K >= 2, number of answers.
    draws : int
        Posterior draws to solve.
    seed : int
        Which draws are taken.

    Returns
    -------
    Prediction
        Not identified, with a reason, where the posterior lacks withholding or the flows. Where only
        internalization is not identified its prior stands in, and `assumptions` says so.

    Raises
    ------
    UsageError
        No starts, values out of range, or a team too large to solve exactly.

    Notes
    -----
    Two answers on a complete or redrawn topology are solved exactly. Other teams are simulated, `SIMULATED` teams for
    each draw and start: agents that start wrong then hold a wrong answer drawn uniformly, in any place of the graph.

    With another team size, each task's accuracy k0/N is kept and the new team starts from Binomial(N', k0/N).
    Benchmarks that fix who knows what do not scale so: the design of the larger team decides.
    """
    change = scenario or Scenario(name="predicted, as measured")
    source = posterior if change.rates_from is None else change.rates_from
    if not starts or any(not 0 <= k <= n for k, n in starts):
        raise UsageError("starts must hold at least one pair (k, N) with 0 <= k <= N.")
    assumptions = ["agents follow the four rules; evidence that reaches the table has no path of its own"]
    new_rounds = rounds if change.rounds is None else change.rounds
    if change.team_size is not None:
        assumptions.append(
            f"each task keeps its share of correct agents when the team grows or shrinks to {change.team_size}"
        )

    lacking = [
        name
        for name, given in (("withholding", change.withholding), ("flow_to_correct", None))
        if given is None and name not in source
    ]
    if lacking:
        why = unidentified(f"the estimate does not identify {' and '.join(lacking)}")
        return Prediction(
            name=change.name, vote=why, discussion=why, gain=why, assumptions=tuple(assumptions)
        )

    if change.internalization is None and "internalization" not in source:
        assumptions.append(
            "internalization is not identified: any value from 0 to 1 is taken as equally likely"
        )
    drawn = drawn_rates(
        source, draws=draws, seed=seed, withholding=change.withholding, internalization=change.internalization
    )
    graph = Topology.parse(topology)
    exact = answers == 2 and (graph.name == "complete" or graph.q is not None)
    if not exact:
        assumptions.append(
            f"{SIMULATED} simulated teams for each draw and start; agents that start wrong hold a wrong answer drawn "
            f"evenly from {answers - 1}, in any place"
        )
    votes, discussion = np.zeros(len(drawn)), np.zeros(len(drawn))
    for size, weights in _start_weights(starts, change.team_size).items():
        graph.check(size)
        if exact:
            observed: Observed = "complete" if graph.q is None else graph.q
            votes += float(weights @ (2 * np.arange(size + 1) > size))
            discussion += [weights @ solve(size, new_rounds, rates, observed).correct for rates in drawn]
            continue
        for k in np.flatnonzero(weights):
            for i, rates in enumerate(drawn):
                team = simulate(
                    size, new_rounds, rates, _seen(graph, size), start=int(k), answers=answers, replicates=SIMULATED,
                    seed=child_seed(seed, "whatif", size, int(k), i),
                )  # fmt: skip
                votes[i] += weights[k] * team.vote
                discussion[i] += weights[k] * team.correct
    return Prediction(
        name=change.name,
        vote=from_draws(votes),
        discussion=from_draws(discussion),
        gain=from_draws(discussion - votes),
        assumptions=tuple(assumptions),
    )


def _seen(graph: Topology, size: int) -> Any:
    """Who observes whom, as the simulation takes it."""
    if graph.name == "complete":
        return "complete"
    if graph.q is not None:
        return graph.q
    return {i: graph.observed(i, size) for i in range(size)}


def drawn_rates(
    posterior: xr.Dataset,
    *,
    draws: int,
    seed: int,
    withholding: float | None = None,
    internalization: float | None = None,
) -> list[Rates]:
    """Joint draws of the four rates from a posterior, without replacement.

    Parameters
    ----------
    posterior : xarray.Dataset
        `SettingPosterior.posterior`; it must hold the flows, and withholding where that is not given.
    draws : int
        How many; all, where there are fewer.
    seed : int
        Which ones. The same draws are taken whatever is set.
    withholding, internalization : float, optional
        c and a set to a value in [0, 1]. Internalization that is neither set nor identified is drawn from its prior,
        uniform on [0, 1].

    Notes
    -----
    rho = u + v and r = u/(u + v); r = 1/2 where both flows are 0 and it has no effect.
    """
    rng = child_rng(seed, "whatif")
    total = int(posterior.sizes["chain"] * posterior.sizes["draw"])
    pick = rng.choice(total, size=min(draws, total), replace=False)

    def column(name: str) -> NDArray[np.float64]:
        return np.asarray(posterior[name].values, dtype=float).reshape(-1)[pick]

    def fixed(name: str, value: float) -> NDArray[np.float64]:
        return np.full(len(pick), check_share(name, value))

    prior = rng.random(len(pick))
    c = column("withholding") if withholding is None else fixed("withholding", withholding)
    if internalization is not None:
        a = fixed("internalization", internalization)
    else:
        a = column("internalization") if "internalization" in posterior else prior
    u, v = column("flow_to_correct"), column("flow_to_wrong")
    rho = np.minimum(u + v, 1.0)
    r = np.divide(u, u + v, out=np.full_like(u, 0.5), where=u + v > 0.0)
    return [Rates(*map(float, x)) for x in zip(c, a, rho, np.clip(r, 0.0, 1.0), strict=True)]


def _start_weights(
    starts: Sequence[tuple[int, int]], team_size: int | None
) -> dict[int, NDArray[np.float64]]:
    """Weight of each number of correct agents, by team size; all weights together sum to 1."""
    out: dict[int, NDArray[np.float64]] = {}
    for k, n in starts:
        size = n if team_size is None else team_size
        start = np.eye(n + 1)[k] if size == n else start_weights(k / n, size)
        out[size] = out.get(size, np.zeros(size + 1)) + start / len(starts)
    return out


def whatif_scenarios(
    *,
    withholding: float | None,
    internalization: float | None,
    team_size: int | None,
    rounds: int | None,
    rates_from: xr.Dataset | None = None,
) -> list[Scenario]:
    """The measured team, then one scenario for each value given, then all of them together where several are."""
    single: list[Scenario] = []
    if withholding is not None:
        single.append(Scenario(name=f"withholding {withholding:g}", withholding=withholding))
    if internalization is not None:
        single.append(Scenario(name=f"internalization {internalization:g}", internalization=internalization))
    if rates_from is not None:
        single.append(Scenario(name="the other setting's rates", rates_from=rates_from))
    if team_size is not None:
        single.append(Scenario(name=f"{team_size} agents", team_size=team_size))
    if rounds is not None:
        single.append(Scenario(name=f"{rounds} rounds", rounds=rounds))
    out = [Scenario(name="predicted, as measured"), *single]
    if len(single) > 1:
        out.append(
            Scenario(
                name="all of these",
                withholding=withholding,
                internalization=internalization,
                team_size=team_size,
                rounds=rounds,
                rates_from=rates_from,
            )
        )
    return out
