"""Who observes whom, for simulation and enumeration; and the exact solution of small graphs.

A graph may be given as an undirected or directed networkx graph, as a list of pairs (i, j) or as a mapping
{i: [j, ...]}. **An edge from i to j says that i observes j**; an undirected edge says that both observe each
other. An agent that observes nobody sees no dissent and keeps its belief. A graph in several parts is
allowed: the parts do not influence each other, and the verdict counts them all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.theory.crowd import check_whole
from abilene.theory.kernel import binary_outcomes

Floats = NDArray[np.float64]

#: Largest team that `small_graph` enumerates (4^N states).
SMALL = 8


@dataclass(frozen=True, slots=True)
class Graph:
    """Observed agents of every agent.

    Attributes
    ----------
    names : tuple
        Name of each agent: 0, 1, ... or the nodes of a networkx graph, in their order.
    observed : tuple of tuple of int
        Positions of the agents that each agent observes, ascending; empty: it observes nobody.
    """

    names: tuple[Hashable, ...]
    observed: tuple[tuple[int, ...], ...]

    @property
    def team_size(self) -> int:
        """Number of agents N."""
        return len(self.names)


def read_graph(graph: Any, team_size: int | None = None) -> Graph:
    """Read a graph in any of the accepted forms.

    Parameters
    ----------
    graph : networkx.Graph or networkx.DiGraph, iterable of (i, j), mapping {i: [j, ...]}, or Graph
        Edge i -> j: i observes j. Agents of pairs and mappings are the numbers 0 to N - 1.
    team_size : int, optional
        N. Without it: the number of nodes of a networkx graph, of keys of a mapping, or the largest number in
        the pairs plus one. With it, agents that are not named observe nobody.

    Returns
    -------
    Graph

    Raises
    ------
    UsageError
        An agent that observes itself, an edge given twice, an agent that the team does not have, no agents at
        all, or something that is no graph.

    Examples
    --------
    >>> read_graph({0: [1, 2], 1: [0], 2: []}).observed
    ((1, 2), (0,), ())
    >>> read_graph([(0, 1), (1, 0)], team_size=3).observed
    ((1,), (0,), ())
    """
    if isinstance(graph, Graph):
        if team_size not in (None, graph.team_size):
            raise UsageError(f"The graph has {graph.team_size} agents, team_size says {team_size}.")
        return graph
    names, edges = _edges(graph, team_size)
    place = {name: i for i, name in enumerate(names)}
    seen: list[set[int]] = [set() for _ in names]
    for i, j in edges:
        for end in (i, j):
            if end not in place:
                raise UsageError(
                    f"Edge {i!r} -> {j!r}: agent {end!r} does not exist in a team of {len(names)} "
                    f"(agents are {names[0]!r} to {names[-1]!r})."
                )
        if i == j:
            raise UsageError(f"Edge {i!r} -> {j!r}: nobody observes itself. Remove the self-loop.")
        if place[j] in seen[place[i]]:
            raise UsageError(f"Edge {i!r} -> {j!r} is given twice. Remove one of them.")
        seen[place[i]].add(place[j])
    return Graph(tuple(names), tuple(tuple(sorted(s)) for s in seen))


def _edges(graph: Any, team_size: int | None) -> tuple[list[Hashable], list[tuple[Hashable, Hashable]]]:
    if team_size is not None:
        check_whole("team_size (N)", team_size, 1)
    if hasattr(graph, "is_directed") and hasattr(graph, "nodes") and hasattr(graph, "edges"):
        names = list(graph.nodes)
        if not names:
            raise UsageError("The graph has no nodes.")
        if team_size not in (None, len(names)):
            raise UsageError(f"The graph has {len(names)} nodes, team_size says {team_size}.")
        edges = [(e[0], e[1]) for e in graph.edges]
        if not graph.is_directed():
            edges += [(j, i) for i, j in edges if i != j]
        return names, edges
    if isinstance(graph, Mapping):
        edges = [(i, j) for i, seen in graph.items() for j in _listed(i, seen)]
        size = len(graph) if team_size is None else team_size
        given: Iterable[object] = graph
    elif isinstance(graph, Iterable) and not isinstance(graph, str | bytes):
        edges = []
        for edge in graph:
            if not isinstance(edge, Sequence | np.ndarray) or isinstance(edge, str) or len(edge) != 2:
                raise UsageError(f"{edge!r} is not an edge. Give pairs (i, j): agent i observes agent j.")
            edges.append((edge[0], edge[1]))
        ends = [end for edge in edges for end in edge if isinstance(end, int | np.integer)]
        size = (max(ends, default=-1) + 1) if team_size is None else team_size
        given = ()
    else:
        raise UsageError(
            f"{type(graph).__name__} is not a graph. "
            "Give a networkx graph, pairs (i, j) or a mapping {i: [j, ...]}."
        )
    if size < 1:
        raise UsageError("The graph has no agents. Give team_size if nobody observes anybody.")
    for i in given:
        if not isinstance(i, int | np.integer) or isinstance(i, bool) or not 0 <= i < size:
            raise UsageError(f"Agent {i!r} does not exist in a team of {size} (numbered 0 to {size - 1}).")
    return list(range(size)), edges


def _listed(i: object, seen: object) -> list[Any]:
    if isinstance(seen, str) or not isinstance(seen, Iterable):
        raise UsageError(f"Agent {i!r}: {seen!r} is not a list of observed agents.")
    return list(seen)


def agents_rates(rates: Rates | Sequence[Rates], team_size: int) -> tuple[Rates, ...]:
    """Rates of every agent, from one for all or one each.

    Raises
    ------
    UsageError
        The number of rates is not the team size.
    """
    if isinstance(rates, Rates):
        return (rates,) * team_size
    each = tuple(rates)
    if len(each) != team_size or not all(isinstance(x, Rates) for x in each):
        raise UsageError(
            f"Give one Rates for all, or one for each of the {team_size} agents; found {len(each)}."
        )
    return each


def check_beliefs(beliefs: Sequence[int], team_size: int) -> NDArray[np.int64]:
    """Initial beliefs, 1 = correct, one per agent; or UsageError."""
    found = np.asarray(beliefs)
    if found.shape != (team_size,) or not np.isin(found, (0, 1)).all():
        raise UsageError(f"beliefs must be {team_size} numbers, 1 for correct and 0 for incorrect.")
    return found.astype(np.int64)


@dataclass(frozen=True, slots=True)
class GraphSolution:
    """Exact outcome of one small team.

    Attributes
    ----------
    correct, tie : float
        Probabilities that the plurality of the final statements is correct, and that there is none.
    beliefs, statements : ndarray, shape (T + 1, N)
        Probability that each agent's belief and statement is correct after each round.
    distribution : ndarray, shape (T + 1, N + 1)
        Probability of each number of correct statements after each round.
    """

    correct: float
    tie: float
    beliefs: Floats
    statements: Floats
    distribution: Floats


def small_graph(
    graph: Any,
    rates: Rates | Sequence[Rates],
    rounds: int,
    *,
    beliefs: Sequence[int] | None = None,
    accuracy: float | Sequence[float] | None = None,
    team_size: int | None = None,
) -> GraphSolution:
    """Solve a small team on any graph, with rates of its own for every agent, by enumerating all 4^N states.

    Parameters
    ----------
    graph
        See `read_graph`; at most 8 agents.
    rates : Rates or sequence of Rates
        For all, or one per agent.
    rounds : int
        T >= 0.
    beliefs : sequence of 0 and 1, optional
        Initial beliefs, 1 = correct.
    accuracy : float or sequence of float, optional
        Probability, for all or per agent, of starting correct, independently. Exactly one of `beliefs` and
        `accuracy` is needed.
    team_size : int, optional
        See `read_graph`.

    Returns
    -------
    GraphSolution

    Raises
    ------
    UsageError
        A graph that cannot be used, too many agents, or parameters out of range.

    Examples
    --------
    >>> line = [(0, 1), (1, 0), (1, 2), (2, 1)]
    >>> round(small_graph(line, Rates(c=0.3, a=0.5, rho=1, r=0.8), 3, beliefs=[0, 1, 0]).correct, 4)
    0.7585
    """
    net = read_graph(graph, team_size)
    n, rounds = net.team_size, check_whole("rounds (T)", rounds, 0)
    if n > SMALL:
        raise UsageError(f"Enumeration has 4^N states: at most {SMALL} agents, found {n}. Simulate instead.")
    each = agents_rates(rates, n)
    if (beliefs is None) == (accuracy is None):
        raise UsageError("Give either beliefs or accuracy (p), not both.")
    p = np.asarray(check_beliefs(beliefs, n) if beliefs is not None else accuracy, dtype=float)
    if p.shape not in ((), (n,)) or not ((p >= 0.0) & (p <= 1.0)).all():
        raise UsageError(f"accuracy must be one number or {n} numbers from 0 to 1, found {accuracy!r}.")
    p = np.broadcast_to(p, n)

    # Digit i of a state, in base 4, is agent i's class 2y + z.
    classes = np.stack([(np.arange(4**n) >> (2 * i)) & 3 for i in range(n)], axis=-1)
    z, y = classes & 1, classes >> 1
    moves = np.empty((4**n, n, 4))
    for i, (mine, seen) in enumerate(zip(each, net.observed, strict=True)):
        moves[:, i] = binary_outcomes(mine, len(seen))[z[:, i], y[:, list(seen)].sum(axis=1)]

    mass = np.where((z == y).all(axis=1), np.where(z == 1, p, 1.0 - p).prod(axis=1), 0.0)
    stated = y.sum(axis=1)
    out_z, out_y = np.empty((rounds + 1, n)), np.empty((rounds + 1, n))
    distribution = np.empty((rounds + 1, n + 1))
    for t in range(rounds + 1):
        if t:
            mass = _advance(mass, moves)
        out_z[t], out_y[t] = mass @ z, mass @ y
        distribution[t] = np.bincount(stated, mass, minlength=n + 1)
    last = np.minimum(distribution[-1], 1.0)  # rounding may carry a sure event past 1
    s = np.arange(n + 1)
    return GraphSolution(
        min(1.0, float(last[2 * s > n].sum())),
        min(1.0, float(last[2 * s == n].sum())),
        np.minimum(out_z, 1.0),
        np.minimum(out_y, 1.0),
        np.minimum(distribution, 1.0),
    )


def _advance(mass: Floats, moves: Floats) -> Floats:
    """One round: agents move independently given the state, so each state's successors are an outer product,
    summed over states as one matrix product of the first and the second half of the agents."""
    n = moves.shape[1]
    total = np.zeros((4 ** (n - n // 2), 4 ** (n // 2)))
    live = np.flatnonzero(mass)
    for at in range(0, len(live), 8192):
        rows = live[at : at + 8192]
        # Agent 0 is the lowest digit: the second half is the row index.
        second, first = _outer(moves[rows, n // 2 :]), _outer(moves[rows, : n // 2])
        total += (second * mass[rows, None]).T @ first
    return total.reshape(-1)


def _outer(p: Floats) -> Floats:
    out = np.ones((len(p), 1))
    for i in range(p.shape[1]):
        out = (p[:, i, :, None] * out[:, None, :]).reshape(len(p), -1)
    return out
