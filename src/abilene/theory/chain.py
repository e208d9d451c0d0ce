"""Exact solution of exchangeable teams: the Markov chain on the numbers of agents of the four (z, y) classes.

Given the numbers, agents move independently, so the next numbers are a sum of four multinomials. It has
two parts: what becomes of the S agents that stated the correct answer, and what becomes of the N - S others.
With both parts' distributions tabulated for every S, one round is, for each S, a product of three matrices;
the transition matrix itself is never formed. Propagating the final verdict backwards gives every starting
number of correct agents at once; propagating a start forwards gives the distribution in every round.

A class is numbered 2y + z, like the outcomes of the kernel: outcome j of this round is class j of the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.theory.crowd import Observed, check_crowd, check_share, check_start, check_whole, crowd_outcomes
from abilene.theory.meanfield import binomial_weights

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cost:
    """What an exact solution takes.

    Attributes
    ----------
    states : int
        Number of states, C(N + 3, 3).
    bytes : int
        Largest working memory, about.
    seconds : float
        CPU time on one core of 2020s hardware, within a factor of three or so.
    """

    states: int
    bytes: int
    seconds: float


def cost(team_size: int, rounds: int) -> Cost:
    """Estimate the cost of `solve` before paying it.

    Parameters
    ----------
    team_size : int
        N >= 1.
    rounds : int
        T >= 0.

    Examples
    --------
    >>> cost(15, 30).states
    816
    """
    n, t = check_whole("team_size (N)", team_size, 1), check_whole("rounds (T)", rounds, 0)
    s = np.arange(n + 1, dtype=float)
    parts = (s + 1) * (s + 2) * (s + 3) / 6.0
    pairs = parts * parts[::-1]
    work = float((pairs * (6.0 + 3.0 * np.minimum(s + 1, n + 1 - s))).sum())
    build = float(((s + 1.0) ** 5).sum())
    memory = 8 * (float((parts * (s + 1)).sum()) * 2 + 5 * float(pairs.max()) + 2 * float(n + 1) ** 4)
    return Cost(
        math.comb(n + 3, 3), int(memory), round(1e-3 + n * n * 4e-5 + 2e-9 * build + 3e-10 * work * t, 3)
    )


@dataclass(frozen=True, slots=True)
class TeamOutcome:
    """What a team does in the end, from one kind of start.

    Attributes
    ----------
    correct, tie : float
        Probabilities that the plurality of the final statements is correct, and that there is none (a tie
        scores incorrect).
    beliefs_correct : float
        Expected share of correct beliefs after the last round.
    vote, gain : float or None
        Probability that the independent answers' plurality is correct, and ``correct - vote``; None from a
        fixed number of correct agents, where the vote is no random event.
    """

    correct: float
    tie: float
    beliefs_correct: float
    vote: float | None = None
    gain: float | None = None


@dataclass(frozen=True)
class TeamSolution:
    """Exact outcome of a team for every number k0 of agents that start correct.

    Attributes
    ----------
    team_size, rounds : int
        N and T.
    correct, tie, beliefs_correct : ndarray, shape (N + 1,)
        By k0 = 0..N; see `TeamOutcome`.
    """

    team_size: int
    rounds: int
    correct: Floats
    tie: Floats
    beliefs_correct: Floats

    def start(self, correct_agents: int) -> TeamOutcome:
        """Outcome from exactly k0 correct agents.

        Raises
        ------
        UsageError
            k0 is not a whole number from 0 to N.
        """
        k = check_start(correct_agents, self.team_size)
        return TeamOutcome(float(self.correct[k]), float(self.tie[k]), float(self.beliefs_correct[k]))

    def bernoulli(self, accuracy: float) -> TeamOutcome:
        """Outcome if each agent starts correct independently with probability p in [0, 1]."""
        w = start_weights(accuracy, self.team_size)
        vote = float(w @ (2 * np.arange(self.team_size + 1) > self.team_size))
        correct = float(w @ self.correct)
        return TeamOutcome(
            correct, float(w @ self.tie), float(w @ self.beliefs_correct), vote=vote, gain=correct - vote
        )


def start_weights(accuracy: float, team_size: int) -> Floats:
    """Binomial(N, p) probabilities of the number of correct agents, or UsageError."""
    return binomial_weights(team_size, check_share("The initial accuracy p", accuracy))


def solve(
    team_size: int,
    rounds: int,
    rates: Rates,
    observed: Observed = "complete",
    *,
    max_seconds: float = 60.0,
) -> TeamSolution:
    """Solve a team exactly, for every number of agents that start correct.

    Parameters
    ----------
    team_size : int
        N >= 1. A team of one sees nobody and keeps its answer.
    rounds : int
        T >= 0.
    rates : Rates
        The same for every agent; for mixed teams see `small_graph` and `agents.simulate`.
    observed : int or "complete"
        Number of distinct others each agent sees, redrawn every round.
    max_seconds : float
        Refuse, before starting, what `cost` estimates to take longer. Memory over 8 GB is refused too.

    Returns
    -------
    TeamSolution

    Raises
    ------
    UsageError
        Parameters out of range, or too costly.

    Examples
    --------
    >>> team = solve(5, 3, Rates(c=0.3, a=0.5, rho=1, r=0.8))
    >>> round(team.start(2).correct, 10)
    0.468017183
    >>> round(team.bernoulli(0.4).gain, 4)
    0.1876
    """
    chain = _Chain.build(team_size, rounds, rates, observed, max_seconds)
    n = chain.team_size
    stated = chain.counts[:, 2] + chain.counts[:, 3]
    believed = chain.counts[:, 1] + chain.counts[:, 3]
    value = np.stack([2 * stated > n, 2 * stated == n, believed / n], axis=-1).astype(float)
    for _ in range(rounds):
        value = chain.back(value)
    by_start = np.minimum(value[chain.starts], 1.0)  # rounding may carry a sure event past 1
    return TeamSolution(n, rounds, by_start[:, 0], by_start[:, 1], by_start[:, 2])


def trajectory(
    team_size: int,
    rounds: int,
    rates: Rates,
    observed: Observed = "complete",
    *,
    start: int | None = None,
    accuracy: float | None = None,
    max_seconds: float = 60.0,
) -> Floats:
    """Exact joint distribution of correct beliefs and correct statements in every round.

    Parameters
    ----------
    team_size, rounds, rates, observed, max_seconds
        As in `solve`.
    start : int, optional
        k0, number of agents that start correct.
    accuracy : float, optional
        p: each agent starts correct independently. Exactly one of `start` and `accuracy` is needed.

    Returns
    -------
    ndarray, shape (T + 1, N + 1, N + 1)
        Entry [t, b, s]: probability of b correct beliefs and s correct statements after round t.

    Examples
    --------
    >>> dist = trajectory(5, 3, Rates(c=0.3, a=0.5, rho=1, r=0.8), start=2)
    >>> round(float(dist[3, :, 3:].sum()), 10)
    0.468017183
    """
    chain = _Chain.build(team_size, rounds, rates, observed, max_seconds)
    n = chain.team_size
    mass = np.zeros(len(chain.counts))
    if (start is None) == (accuracy is None):
        raise UsageError("Give either start (number of correct agents) or accuracy (p), not both.")
    if start is not None:
        mass[chain.starts[check_start(start, n)]] = 1.0
    elif accuracy is not None:
        mass[chain.starts] = start_weights(accuracy, n)
    believed = chain.counts[:, 1] + chain.counts[:, 3]
    stated = chain.counts[:, 2] + chain.counts[:, 3]
    out = np.zeros((rounds + 1, n + 1, n + 1))
    for t in range(rounds + 1):
        if t:
            mass = chain.forward(mass)
        np.add.at(out[t], (believed, stated), mass)
    return out


@dataclass(frozen=True)
class _Block:
    """All states with S correct statements: rows i = how many of the S, columns j = how many of the rest, are
    right in their belief; `states[i, j]` is the state's number."""

    states: Ints
    spoke_right: Floats  # (S + 1, compositions of S): distribution of what becomes of the S
    spoke_wrong: Floats  # (N - S + 1, compositions of N - S)
    right_at: Ints  # linear index of each composition; indices of two parts add up to that of the sum
    wrong_at: Ints


@dataclass(frozen=True)
class _Chain:
    team_size: int
    table: Floats

    @classmethod
    def build(
        cls, team_size: int, rounds: int, rates: Rates, observed: Observed, max_seconds: float
    ) -> _Chain:
        n, _ = check_crowd(team_size, observed)
        price = cost(n, check_whole("rounds (T)", rounds, 0))
        if price.seconds > max_seconds or price.bytes > 8e9:
            raise UsageError(
                f"An exact team of {n} over {rounds} rounds has {price.states} states and would take about "
                f"{price.seconds:.0f} s and {price.bytes / 1e9:.1f} GB. Raise max_seconds "
                f"(now {max_seconds:g}) to pay that, or simulate instead."
            )
        return cls(n, crowd_outcomes(rates, n, observed))

    @cached_property
    def counts(self) -> Ints:
        """Numbers of agents of class 0..3, one row per state."""
        n = self.team_size
        parts = _compositions(n)
        return np.column_stack([n - parts.sum(axis=1), parts])

    @cached_property
    def starts(self) -> Ints:
        """State of each k0: statement = belief, so k0 agents are of class 3 and the rest of class 0."""
        where = np.flatnonzero((self.counts[:, 1] == 0) & (self.counts[:, 2] == 0))
        return np.asarray(where[np.argsort(self.counts[where, 3])])

    @cached_property
    def _linear(self) -> Ints:
        return _index(self.counts[:, 1:], self.team_size)

    @cached_property
    def _blocks(self) -> list[_Block]:
        n = self.team_size
        number = np.full((n + 1) ** 3, -1, dtype=np.int64)
        number[self._linear] = np.arange(len(self.counts))
        blocks = []
        for s in range(n + 1):
            # Those who stated the correct answer see S - 1 of it among the others, the rest see S.
            right = self.table[:, max(s - 1, 0)]
            wrong = self.table[:, min(s, n - 1)]
            i, j = np.arange(s + 1)[:, None], np.arange(n - s + 1)[None, :]
            classes = np.stack(np.broadcast_arrays(j, s - i, i), axis=-1)  # classes 1 = (y0,z1), 2, 3
            blocks.append(
                _Block(
                    number[_index(classes, n)],
                    _mixture(right[0], right[1], s),
                    _mixture(wrong[0], wrong[1], n - s),
                    _index(_compositions(s), n),
                    _index(_compositions(n - s), n),
                )
            )
        return blocks

    @staticmethod
    def _slices(block: _Block, inner: int) -> Iterator[slice]:
        """Slices of the first part's compositions, so that work arrays stay in the cache and the products stay
        below the size at which BLAS libraries start threads, which only costs CPU time here."""
        size = max(1, 250_000 // (len(block.wrong_at) * inner))
        for at in range(0, len(block.right_at), size):
            yield slice(at, at + size)

    def back(self, value: Floats) -> Floats:
        """Expectation of `value` (states, functions) one round earlier."""
        out = np.zeros_like(value)
        dense = np.zeros((value.shape[1], (self.team_size + 1) ** 3))
        dense[:, self._linear] = value.T
        for block in self._blocks:
            inner = min(len(block.spoke_right), len(block.spoke_wrong))
            for piece in self._slices(block, inner):
                right = block.spoke_right[:, piece]
                index = block.right_at[piece, None] + block.wrong_at[None, :]
                for f in range(value.shape[1]):
                    ahead = dense[f].take(index)
                    # Multiply the smaller side first.
                    if right.shape[0] <= len(block.spoke_wrong):
                        part = (right @ ahead) @ block.spoke_wrong.T
                    else:
                        part = right @ (ahead @ block.spoke_wrong.T)
                    out[block.states, f] += part
        return out

    def forward(self, mass: Floats) -> Floats:
        """Distribution over states one round later."""
        dense = np.zeros((self.team_size + 1) ** 3)
        for block in self._blocks:
            here = mass[block.states]
            if not here.any():
                continue
            moved = block.spoke_right.T @ here
            rows = max(1, 2_000_000 // len(block.wrong_at))
            for at in range(0, len(moved), rows):
                index = block.right_at[at : at + rows, None] + block.wrong_at[None, :]
                joint = np.empty(index.shape)
                for piece in self._slices(block, len(block.spoke_wrong)):
                    np.matmul(moved[at : at + rows][piece], block.spoke_wrong, out=joint[piece])
                dense += np.bincount(index.ravel(), joint.ravel(), minlength=len(dense))
        return np.asarray(dense[self._linear])


def _index(parts: Ints, team_size: int) -> Ints:
    base = team_size + 1
    return np.asarray((parts[..., 0] * base + parts[..., 1]) * base + parts[..., 2])


def _compositions(m: int) -> Ints:
    """Numbers of classes 1, 2, 3 among m agents (class 0 is the rest), in lexical order."""
    grid = np.indices((m + 1,) * 3).reshape(3, -1).T
    return np.asarray(grid[grid.sum(axis=1) <= m])


def _add_agent(dist: Floats, p: Floats) -> Floats:
    """Add one agent with outcome probabilities p to distributions over class numbers (last three axes)."""
    out: Floats = dist * p[0]
    out[..., 1:, :, :] += dist[..., :-1, :, :] * p[1]
    out[..., :, 1:, :] += dist[..., :, :-1, :] * p[2]
    out[..., :, :, 1:] += dist[..., :, :, :-1] * p[3]
    return out


def _mixture(wrong: Floats, right: Floats, m: int) -> Floats:
    """Distribution of the next class numbers of m agents, i of which have outcome probabilities `right` and
    m - i `wrong`; row i = 0..m, columns as in `_compositions`. All terms are positive: no cancellation."""
    parts = _compositions(m)
    flat = _index(parts, m)
    out = np.empty((m + 1, len(parts)))
    dist = np.zeros((m + 1,) * 4)  # first axis: number of `wrong` agents so far
    dist[0, 0, 0, 0] = 1.0
    for k in range(m):
        dist[k + 1] = _add_agent(dist[k], wrong)
    for i in range(m + 1):
        out[i] = dist[m - i].reshape(-1)[flat]
        if i < m:
            dist = _add_agent(dist[: m - i], right)
    return out
