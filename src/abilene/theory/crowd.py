"""Exchangeable teams: one agent's outcomes as a function of how many of the others stated the correct answer.

On a complete graph, and with q others redrawn every round, it does not matter who is who. An agent sees k
correct statements of q, where k is the number M of correct statements among the other N - 1 (complete graph)
or Hypergeometric(N - 1, M, q). Exact chain, phase diagram and fast simulation all start from this table.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.theory.kernel import binary_outcomes

Observed = int | Literal["complete"]


def check_whole(name: str, value: object, least: int) -> int:
    """A whole number from `least`, as int.

    Raises
    ------
    UsageError
        Anything else; `name` says what was asked for.
    """
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise UsageError(f"{name} must be a whole number from {least}, found {value!r}.")


def check_share(name: str, value: object) -> float:
    """A number from 0 to 1, as float.

    Raises
    ------
    UsageError
        Anything else, NaN included; `name` says what was asked for.
    """
    if isinstance(value, int | float | np.floating) and not isinstance(value, bool) and 0.0 <= value <= 1.0:
        return float(value)
    raise UsageError(f"{name} must be a number from 0 to 1, found {value!r}.")


def check_crowd(team_size: int, observed: Observed) -> tuple[int, int]:
    """Team size N and number q of others that each agent observes.

    Parameters
    ----------
    team_size : int
        N >= 1. A team of one sees nobody: it keeps its answer (q = 0, complete graph only).
    observed : int or "complete"
        q from 1 to N - 1; "complete" is q = N - 1.

    Raises
    ------
    UsageError
        N below 1, q below 1, or q not below N.
    """
    n = check_whole("team_size (N)", team_size, 1)
    if observed == "complete":
        return n, n - 1
    q = check_whole("observed (q; or 'complete')", observed, 1)
    if q >= n:
        raise UsageError(
            f"observed (q) is {q}, but an agent of a team of {n} has only {n - 1} others to see."
        )
    return n, q


def check_start(correct_agents: int, team_size: int) -> int:
    """k0 as an int from 0 to N, or UsageError."""
    k = check_whole("start (number of correct agents)", correct_agents, 0)
    if k > team_size:
        raise UsageError(f"start is {k}, but the team has {team_size} agents.")
    return k


def crowd_outcomes(rates: Rates, team_size: int, observed: Observed = "complete") -> NDArray[np.float64]:
    """Outcome probabilities of one agent, given the correct statements among all others.

    Parameters
    ----------
    rates : Rates
        The agent's four rates.
    team_size : int
        N >= 1.
    observed : int or "complete"
        Number of distinct others seen, redrawn every round.

    Returns
    -------
    ndarray, shape (2, N, 4)
        Entry [z, M, j]: probability of outcome ``kernel.OUTCOMES[j]`` of an agent with belief z when M of the
        N - 1 others stated the correct answer.

    Examples
    --------
    >>> table = crowd_outcomes(Rates(c=0.5, a=0.5, rho=1, r=1), team_size=4)
    >>> table[1, 1].round(3).tolist()  # correct, but only one of the three others is
    [0.25, 0.25, 0.0, 0.5]
    """
    n, q = check_crowd(team_size, observed)
    table = binary_outcomes(rates, q)
    if q == n - 1:
        return table
    return np.asarray(np.einsum("mk,zkj->zmj", _hypergeometric(n - 1, q), table))


def _hypergeometric(size: int, q: int) -> NDArray[np.float64]:
    """Entry [m, k]: probability of k correct statements among q of `size` others, m of which are correct."""
    if size * q <= 20_000:
        rows = [
            [math.comb(m, k) * math.comb(size - m, q - k) / math.comb(size, q) for k in range(q + 1)]
            for m in range(size + 1)
        ]
        return np.array(rows)
    # Whole numbers grow too long: logarithms, normalised, precise to about 1e-12.
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, size + 1)))])
    m, k = np.arange(size + 1)[:, None], np.arange(q + 1)[None, :]
    possible = (k <= m) & (q - k <= size - m)
    rest, left = np.where(possible, m - k, 0), np.where(possible, size - m - q + k, 0)
    log = logs[m] + logs[size - m] - logs[k] - logs[rest] - logs[q - k] - logs[left]
    log = np.where(possible, log, -np.inf)
    weight = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))
