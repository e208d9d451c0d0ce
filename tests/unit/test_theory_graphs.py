"""Graphs in every accepted form, and the enumeration of small ones."""

import networkx as nx
import numpy as np
import pytest
from _oracle_theory import enumerate_team, random_rates, summarise

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.theory.chain import solve, trajectory
from abilene.theory.graphs import read_graph, small_graph

FULL = {i: [j for j in range(5) if j != i] for i in range(5)}


def test_the_same_graph_in_every_form() -> None:
    expected = ((1,), (0, 2), (1,))
    assert read_graph(nx.path_graph(3)).observed == expected
    assert read_graph(nx.path_graph(3).to_directed()).observed == expected
    assert read_graph([(0, 1), (1, 0), (1, 2), (2, 1)]).observed == expected
    assert read_graph(np.array([[0, 1], [1, 0], [1, 2], [2, 1]])).observed == expected
    assert read_graph({0: [1], 1: (0, 2), 2: {1}}).observed == expected
    assert read_graph(read_graph(nx.path_graph(3)), 3).observed == expected


def test_an_edge_says_who_observes_whom() -> None:
    directed = nx.DiGraph([("ann", "bob"), ("ann", "cy")])
    graph = read_graph(directed)
    assert graph.names == ("ann", "bob", "cy") and graph.observed == ((1, 2), (), ())
    assert read_graph([(2, 0)]).observed == ((), (), (0,))


def test_isolated_agents_and_parts_are_allowed() -> None:
    lonely = nx.Graph([(0, 1), (2, 3)])
    lonely.add_node(4)
    assert read_graph(lonely).observed == ((1,), (0,), (3,), (2,), ())
    out = small_graph(lonely, Rates(0.2, 0.5, 1, 0.8), 4, beliefs=[0, 1, 0, 0, 1])
    assert out.beliefs[:, 4].tolist() == [1.0] * 5  # sees nobody, keeps its belief
    assert out.beliefs[-1, 2] == 0.0  # its part agrees: nothing ever moves there


@pytest.mark.parametrize(
    ("graph", "size", "words"),
    [
        ([(0, 1), (0, 1)], None, "twice"),
        ({0: [1, 1], 1: []}, None, "twice"),
        ([(0, 0), (0, 1)], None, "itself"),
        (nx.Graph([(0, 0)]), None, "itself"),
        (nx.MultiGraph([(0, 1), (0, 1)]), None, "twice"),
        ({0: [7], 1: []}, None, "agent 7 does not exist in a team of 2"),
        ({0: ["bob"], 1: []}, None, "'bob' does not exist"),
        ({5: [0]}, 3, "Agent 5 does not exist"),
        ({-1: [0]}, 3, "does not exist"),
        ([(0, 9)], 4, "agent 9 does not exist in a team of 4"),
        ([(0, -1)], 4, "agent -1"),
        ([(0, 1, 2)], None, "not an edge"),
        (["ab"], None, "not an edge"),
        ([], None, "no agents"),
        ({}, None, "no agents"),
        (nx.Graph(), None, "no nodes"),
        (nx.path_graph(3), 4, "3 nodes"),
        (3.5, None, "not a graph"),
        ({0: "12"}, 3, "not a list"),
        ([(0, 1)], 0, "team_size"),
    ],
)
def test_graphs_that_cannot_be_used(graph: object, size: int | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_graph(graph, size)


def test_complete_graph_equals_the_chain() -> None:
    rates = Rates(0.3, 0.5, 1, 0.8)
    found = small_graph(FULL, rates, 3, beliefs=[1, 1, 0, 0, 0])
    assert found.correct == pytest.approx(solve(5, 3, rates).start(2).correct, abs=1e-12)
    found, dist = small_graph(FULL, rates, 3, accuracy=0.4), trajectory(5, 3, rates, accuracy=0.4)
    np.testing.assert_allclose(found.distribution, dist.sum(axis=1), atol=1e-13)


@pytest.mark.parametrize("seed", range(8))
def test_equals_a_second_enumeration_with_rates_of_their_own(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    observed = [[j for j in range(n) if j != i and rng.random() < 0.6] for i in range(n)]
    rates = [random_rates(rng) for _ in range(n)]
    beliefs = [int(x) for x in rng.integers(0, 2, n)]
    found = small_graph(dict(enumerate(observed)), rates, 3, beliefs=beliefs)
    states = enumerate_team([[v] for v in observed], rates, 3, beliefs)
    expected = summarise(states)
    assert (found.correct, found.tie, found.beliefs[-1].mean()) == pytest.approx(expected, abs=1e-12)
    for i in range(n):
        assert found.statements[-1, i] == pytest.approx(
            sum(p for s, p in states.items() if s[i][0]), abs=1e-12
        )
        assert found.beliefs[-1, i] == pytest.approx(sum(p for s, p in states.items() if s[i][1]), abs=1e-12)


def test_bernoulli_start_mixes_the_fixed_ones() -> None:
    rates, graph, p = Rates(0.4, 0.5, 0.9, 0.8), [(0, 1), (1, 2), (2, 0)], [0.2, 0.7, 0.5]
    mixed = 0.0
    for state in range(8):
        beliefs = [(state >> i) & 1 for i in range(3)]
        weight = np.prod([x if b else 1 - x for x, b in zip(p, beliefs, strict=True)])
        mixed += weight * small_graph(graph, rates, 2, beliefs=beliefs).correct
    assert small_graph(graph, rates, 2, accuracy=p).correct == pytest.approx(mixed, abs=1e-14)


def test_bad_calls() -> None:
    rates = Rates(0.4, 0.5, 0.9, 0.8)
    with pytest.raises(UsageError, match="at most"):
        small_graph(nx.complete_graph(9), rates, 1, accuracy=0.5)
    with pytest.raises(UsageError, match="one for each of the 3"):
        small_graph(nx.path_graph(3), [rates] * 2, 1, accuracy=0.5)
    with pytest.raises(UsageError, match="either"):
        small_graph(nx.path_graph(3), rates, 1)
    for bad in (
        {"beliefs": [0, 1]},
        {"beliefs": [0, 1, 2]},
        {"accuracy": [0.5, 0.5]},
        {"accuracy": float("nan")},
    ):
        with pytest.raises(UsageError):
            small_graph(nx.path_graph(3), rates, 1, **bad)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="rounds"):
        small_graph(nx.path_graph(3), rates, -1, accuracy=0.5)
