"""Simulated teams: any graph, rates of their own for every agent, any number of answers.

The probabilities of two-answer agents are tables of `kernel.binary_outcomes`; where agents are exchangeable
they depend only on the agent's class and on the number of correct statements, so one random number decides.
With more answers the rule of `kernel.outcomes` is applied agent by agent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.seeds import child_seed
from abilene.theory.crowd import Observed, check_crowd, check_share, check_start, check_whole, crowd_outcomes
from abilene.theory.graphs import Graph, agents_rates, check_beliefs, read_graph
from abilene.theory.kernel import binary_outcomes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Run = Callable[[int, int, Ints], int]

_SCALE = 2.0**31


@dataclass(frozen=True, slots=True)
class Rows:
    """A record of simulated teams: equally long columns, ordered by task, round and agent.

    Attributes
    ----------
    task, agent, private, public, truth : ndarray of str
        Task is ``sim-<replicate>``; answers are ``correct``, ``wrong 1``, ``wrong 2``, ...
    round : ndarray of int
        0 is the independent answer.
    observed : ndarray of object
        Tuple of the agents whose statements of the round before were read; None: everybody else, or round 0.
    """

    task: NDArray[np.str_]
    round: Ints
    agent: NDArray[np.str_]
    private: NDArray[np.str_]
    public: NDArray[np.str_]
    truth: NDArray[np.str_]
    observed: NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class Simulation:
    """Outcome of simulated teams.

    Attributes
    ----------
    team_size, rounds, replicates : int
        N, T, and the number of teams.
    correct, tie : float
        Share of teams whose final statements' plurality is correct, and of those with a tie at the top (which
        scores incorrect).
    vote : float
        Share of teams whose initial plurality is correct.
    beliefs, statements : ndarray, shape (T + 1,)
        Mean share of correct beliefs and of correct statements after each round.
    private, public : ndarray of uint8, shape (replicates, T + 1, N), or None
        Answers of every agent, 0 = correct; only with ``records=True``.
    """

    team_size: int
    rounds: int
    replicates: int
    correct: float
    tie: float
    vote: float
    beliefs: Floats
    statements: Floats
    private: NDArray[np.uint8] | None = None
    public: NDArray[np.uint8] | None = None
    _seen: NDArray[np.int32] | None = field(default=None, repr=False)
    _graph: Graph | None = field(default=None, repr=False)

    @property
    def gain(self) -> float:
        """Share correct after the discussion minus share correct by vote."""
        return self.correct - self.vote

    @property
    def standard_error(self) -> float:
        """Standard error of `correct`."""
        return math.sqrt(self.correct * (1.0 - self.correct) / self.replicates)

    def rows(self) -> Rows:
        """The teams as a record, one row per replicate, round and agent.

        Raises
        ------
        UsageError
            Simulated without ``records=True``.
        """
        if self.private is None or self.public is None:
            raise UsageError("No rows were kept. Call simulate with records=True.")
        shape = self.private.shape
        replicate, t, agent = (x.reshape(-1) for x in np.indices(shape))
        labels = np.array(["correct", *(f"wrong {k}" for k in range(1, 256))])
        names = (
            [str(x) for x in self._graph.names] if self._graph else [str(i) for i in range(self.team_size)]
        )
        observed = np.full(shape, None, dtype=object)
        if self._seen is not None:
            for at in np.ndindex(shape):
                if at[1]:
                    observed[at] = tuple(names[j] for j in self._seen[at])
        elif self._graph is not None:
            for i, seen in enumerate(self._graph.observed):
                mine = np.empty((), dtype=object)
                mine[()] = tuple(names[j] for j in seen)
                observed[:, 1:, i] = mine
        task = np.char.add("sim-", np.arange(shape[0]).astype(str))
        private, public = labels[self.private.reshape(-1)], labels[self.public.reshape(-1)]
        return Rows(
            task[replicate], t, np.array(names)[agent], private, public, np.full(t.shape, "correct"),
            observed.reshape(-1),
        )  # fmt: skip


def simulate(
    team_size: int | None,
    rounds: int,
    rates: Rates | Sequence[Rates],
    observed: Observed | Any = "complete",
    *,
    accuracy: float | None = None,
    start: int | None = None,
    beliefs: Sequence[int] | None = None,
    answers: int = 2,
    noise: float = 0.0,
    replicates: int = 1000,
    seed: int = 0,
    threads: int = 1,
    records: bool = False,
) -> Simulation:
    """Simulate teams.

    Parameters
    ----------
    team_size : int or None
        N; may be None where the graph says it.
    rounds : int
        T >= 0.
    rates : Rates or sequence of Rates
        For all, or one per agent. An agent with c = 0 and rho = 0 is a zealot: it never changes.
    observed : "complete", int, or graph
        Everybody else; q distinct others redrawn every round; or who observes whom, see `graphs.read_graph`.
    accuracy : float
        p: each agent starts correct independently. Exactly one of `accuracy`, `start`, `beliefs` is needed.
    start : int
        Exactly this number of agents start correct, anywhere.
    beliefs : sequence of 0 and 1
        1: this agent starts correct.
    answers : int
        K, from 2 to 256. Agents that start incorrect hold a wrong answer drawn uniformly.
    noise : float
        Probability, per agent and round, that the belief after the round is replaced by an answer drawn
        uniformly from all K. Agreement is then never final.
    replicates : int
        Number of teams. Memory does not grow with it unless `records` is asked for.
    seed : int
        Results depend on it and on the arguments, not on `threads`. Replicate i is the same whatever the
        number of replicates.
    threads : int
        Number of threads.
    records : bool
        Keep every answer of every agent for `Simulation.rows`.

    Returns
    -------
    Simulation

    Raises
    ------
    UsageError
        Arguments out of range or in conflict, or a graph that cannot be used.

    Examples
    --------
    >>> team = simulate(5, 3, Rates(c=0.3, a=0.5, rho=1, r=0.8), start=2, replicates=20_000)
    >>> abs(team.correct - 0.468) < 0.015
    True
    >>> graph = {0: [1], 1: [0, 2], 2: []}
    >>> rows = simulate(None, 2, Rates(0, 0, 0, 0), graph, start=1, replicates=1, records=True).rows()
    >>> rows.observed[4]
    ('0', '2')
    """
    graph: Graph | None = None
    if isinstance(observed, str | int | np.integer):
        if team_size is None:
            raise UsageError("team_size (N) is needed unless a graph is given.")
        n, q = check_crowd(team_size, observed)  # type: ignore[arg-type]
        redrawn = -1 if observed == "complete" else q
    else:
        graph = read_graph(observed, team_size)
        n, redrawn = graph.team_size, 0
    rounds = check_whole("rounds (T)", rounds, 0)
    replicates = check_whole("replicates", replicates, 1)
    threads = check_whole("threads", threads, 1)
    answers = check_whole("answers (K)", answers, 2)
    if answers > 256:
        raise UsageError(f"answers (K) must be at most 256, found {answers}.")
    noise = check_share("noise", noise)
    if sum(x is not None for x in (accuracy, start, beliefs)) != 1:
        raise UsageError("Give exactly one of accuracy (p), start (number of correct agents) and beliefs.")
    p = 0.0 if accuracy is None else check_share("The initial accuracy p", accuracy)
    k0 = -1 if start is None else check_start(start, n)
    given = np.zeros(n, dtype=np.int64)
    if beliefs is not None:
        k0, given = -2, check_beliefs(beliefs, n)
    each = agents_rates(rates, n)
    alike = graph is None and len(set(each)) == 1 and not records
    if alike and beliefs is not None:
        k0 = int(given.sum())

    kept = replicates if records else 0
    private = np.empty((kept, rounds + 1, n), np.uint8)
    public = np.empty((kept, rounds + 1, n), np.uint8)
    seen = np.empty((kept if redrawn > 0 else 0, rounds + 1, n, max(redrawn, 0)), np.int32)
    key = np.uint64(child_seed(seed, "theory", "simulate") & (2**64 - 1))
    indptr, indices = _rows_of(graph, n)

    from abilene.theory import _sim  # compiled: only where something is simulated

    run: Run
    if answers > 2:
        numbers = np.array([[x.c, x.a, x.rho, x.r] for x in each], dtype=float)

        def run(first: int, last: int, sums: Ints) -> int:
            return int(
                _sim.plural(
                    answers, numbers, float(noise), indptr, indices, redrawn, given, k0, p, rounds, key,
                    first, last, sums, private, public, seen,
                )
            )  # fmt: skip

    elif alike:
        table = crowd_table(each[0], n, observed, noise)

        def run(first: int, last: int, sums: Ints) -> int:
            return int(_sim.crowd(table, n, k0, p, rounds, noise == 0.0, key, first, last, sums))

    else:
        degrees = (
            [n - 1 if redrawn < 0 else redrawn] * n if graph is None else [len(x) for x in graph.observed]
        )
        tables = {kind: with_noise(binary_outcomes(*kind), noise) for kind in zip(each, degrees, strict=True)}
        if redrawn > 0 and not records:  # who exactly was seen is of no account: average over it
            tables = {(x, q): with_noise(crowd_outcomes(x, n, q), noise) for x, q in tables}
            redrawn = -1
        rows, offset = _agent_tables(tables, list(zip(each, degrees, strict=True)))

        def run(first: int, last: int, sums: Ints) -> int:
            return int(
                _sim.binary(
                    rows, offset, indptr, indices, redrawn, given, k0, p, rounds, key, first, last, sums,
                    private, public, seen,
                )
            )  # fmt: skip

    votes, sums = _in_blocks(run, replicates, rounds, threads)
    share = sums / (replicates * float(n))
    return Simulation(
        n, rounds, replicates,
        correct=int(sums[-1, 0]) / replicates, tie=int(sums[-1, 1]) / replicates, vote=votes / replicates,
        beliefs=share[:-1, 0], statements=share[:-1, 1],
        private=private if records else None, public=public if records else None,
        _seen=seen if records and redrawn > 0 else None, _graph=graph,
    )  # fmt: skip


def _in_blocks(run: Run, replicates: int, rounds: int, threads: int) -> tuple[int, Ints]:
    """Sum over blocks of replicates. All sums are integers, so the order of the blocks cannot matter."""
    size = max(1, min(4096, -(-replicates // (4 * threads))))
    firsts = range(0, replicates, size)

    def block(first: int) -> tuple[int, Ints]:
        sums = np.zeros((rounds + 2, 2), dtype=np.int64)
        return run(first, min(first + size, replicates), sums), sums

    votes, sums = 0, np.zeros((rounds + 2, 2), dtype=np.int64)
    if threads == 1:
        for first in firsts:
            more, part = block(first)
            votes, sums = votes + more, sums + part
        return votes, sums
    with ThreadPoolExecutor(threads) as pool:
        for more, part in pool.map(block, firsts):
            votes, sums = votes + more, sums + part
    return votes, sums


def with_noise(outcomes: Floats, noise: float) -> Floats:
    """Outcome probabilities (last axis: `kernel.OUTCOMES`) with the belief replaced at random."""
    if noise == 0.0:
        return outcomes
    statement = outcomes.reshape(*outcomes.shape[:-1], 2, 2)
    anew = np.broadcast_to(statement.mean(axis=-1, keepdims=True), statement.shape)
    return np.asarray(((1.0 - noise) * statement + noise * anew).reshape(outcomes.shape))


def _cut(outcomes: Floats) -> Floats:
    """Cumulative probabilities of the first three outcomes, times 2^31."""
    return np.asarray(np.round(np.minimum(np.cumsum(outcomes, axis=-1)[..., :3], 1.0) * _SCALE))


def crowd_table(rates: Rates, team_size: int, observed: Observed, noise: float = 0.0) -> NDArray[np.uint32]:
    """Thresholds of `_sim.crowd` by number of correct statements S and class; shape (N + 1, 4, 3)."""
    n = team_size
    cut = _cut(with_noise(crowd_outcomes(rates, n, observed), noise))
    s = np.arange(n + 1)[:, None]
    y, z = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    others = np.clip(s - y, 0, n - 1)  # states that cannot occur get some valid row
    return np.asarray(cut[z, others].astype(np.uint32))


def _agent_tables(
    tables: dict[tuple[Rates, int], Floats], kinds: Sequence[tuple[Rates, int]]
) -> tuple[Ints, Ints]:
    """Thresholds of `_sim.binary`, a block of rows for each kind of agent, and where each agent's begins."""
    begins: dict[tuple[Rates, int], int] = {}
    size = 0
    for kind, table in tables.items():
        begins[kind] = size
        size += table.shape[0] * table.shape[1]
    rows = np.concatenate([_cut(table).reshape(-1, 3) for table in tables.values()])
    return rows.astype(np.int64), np.array([begins[kind] for kind in kinds], dtype=np.int64)


def _rows_of(graph: Graph | None, team_size: int) -> tuple[Ints, Ints]:
    """Observed agents, agent by agent, and where each agent's begin."""
    seen = graph.observed if graph is not None else ((),) * team_size
    indptr = np.concatenate([[0], np.cumsum([len(x) for x in seen])]).astype(np.int64)
    return indptr, np.array([j for x in seen for j in x], dtype=np.int64)
