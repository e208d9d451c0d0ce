import json

import pytest

from abilene.errors import InputError, UsageError
from abilene.team.topology import Topology


def neighbours(spec, n, **key):
    return [Topology.parse(spec).observed(i, n, **key) for i in range(n)]


def test_named_topologies_of_five():
    assert neighbours("complete", 5)[2] == (0, 1, 3, 4)
    assert neighbours("ring", 5)[0] == (1, 4)
    assert neighbours("chain", 5) == [(1,), (0, 2), (1, 3), (2, 4), (3,)]
    assert neighbours("star", 5) == [(1, 2, 3, 4), (0,), (0,), (0,), (0,)]


def test_two_agents_see_each_other_once():
    for spec in ("complete", "ring", "chain", "star"):
        assert neighbours(spec, 2) == [(1,), (0,)]


def test_nobody_observes_itself_and_random_draws_are_uniform():
    """Each of 4 others is drawn with probability 1/2 for q=2; 4,000 draws: |z| < 5 fails by chance 6e-7."""
    topology = Topology.parse("random:2")
    hits = dict.fromkeys(range(5), 0)
    for t in range(4000):
        seen = topology.observed(2, 5, seed=1, key=("x", 1, t))
        assert len(set(seen)) == 2
        for j in seen:
            hits[j] += 1
    assert hits.pop(2) == 0
    for count in hits.values():
        assert abs(count - 2000) / (4000 * 0.25) ** 0.5 < 5


def test_random_draws_depend_on_their_key_alone():
    topology = Topology.parse("random:3")
    draws = [topology.observed(0, 9, seed=1, key=("x", 1, t)) for t in range(20)]
    assert draws == [topology.observed(0, 9, seed=1, key=("x", 1, t)) for t in range(20)]
    assert len(set(draws)) > 1
    assert draws != [topology.observed(0, 9, seed=2, key=("x", 1, t)) for t in range(20)]


def test_adjacency_file_is_directed_and_may_isolate(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"0": [2, 1], "1": [0]}))
    assert neighbours(str(path), 3) == [(1, 2), (0,), ()]


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"0": [0]}', '{"0": [1, 1]}', '{"a": [1]}', '{"0": ["1"]}', '{"0": 1}']
)
def test_bad_adjacency_names_the_file(tmp_path, text):
    path = tmp_path / "graph.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"graph\.json"):
        Topology.parse(str(path))


@pytest.mark.parametrize("spec", ["hexagon", "random:0", "random:x", "random:"])
def test_unknown_topology(spec):
    with pytest.raises(UsageError):
        Topology.parse(spec)


def test_topology_must_fit_the_team(tmp_path):
    with pytest.raises(UsageError, match="at most 2"):
        Topology.parse("random:3").check(3)
    path = tmp_path / "graph.json"
    path.write_text('{"0": [7]}')
    with pytest.raises(UsageError, match="agent 7"):
        Topology.parse(str(path)).check(5)
