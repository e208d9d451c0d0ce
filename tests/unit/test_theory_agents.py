"""Simulation: contracts that hold exactly, draw by draw."""

import itertools
import subprocess
import sys
from collections import Counter

import networkx as nx
import numpy as np
import pytest

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.theory import _sim
from abilene.theory.agents import simulate, with_noise
from abilene.theory.kernel import binary_outcomes, outcomes, plurality

RATES = Rates(0.4, 0.5, 0.8, 0.7)
CASES = {
    "complete": {"team_size": 7, "observed": "complete"},
    "redrawn": {"team_size": 7, "observed": 3},
    "graph": {"team_size": None, "observed": nx.path_graph(6)},
    "answers": {"team_size": 6, "observed": "complete", "answers": 4},
    "answers, graph": {"team_size": None, "observed": nx.cycle_graph(5), "answers": 3, "noise": 0.1},
    "mixed": {"team_size": 5, "observed": 2, "rates": [RATES] * 4 + [Rates(0, 0, 0, 0)]},
    "records": {"team_size": 6, "observed": 2, "records": True},
}


@pytest.mark.parametrize("case", CASES)
def test_threads_do_not_matter_and_replicates_extend(case: str) -> None:
    def run(**more: object) -> dict[str, object]:
        out = simulate(**({"rounds": 5, "rates": RATES, "accuracy": 0.45, "seed": 3} | CASES[case] | more))  # type: ignore[arg-type]
        return {
            "sums": (out.correct, out.tie, out.vote, out.beliefs.tolist(), out.statements.tolist()),
            "public": None if out.public is None else out.public.tolist(),
        }

    one = run(replicates=999)
    assert run(replicates=999, threads=2) == one == run(replicates=999, threads=3)
    assert run(replicates=999, seed=4) != one
    # Two halves of the replicates by hand: the first 400 are those of a run of 400.
    if case == "records":
        assert run(replicates=400)["public"] == one["public"][:400]  # type: ignore[index]


def test_memory_is_flat_in_the_number_of_replicates() -> None:
    code = """
import resource, sys
from abilene.rates import Rates
from abilene.theory.agents import simulate
for k in (2_000, 200_000):
    simulate(50, 20, Rates(.4, .5, .8, .7), 3, accuracy=.45, replicates=k)
    simulate(50, 2, Rates(.4, .5, .8, .7), 3, accuracy=.45, replicates=k // 20, answers=3)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    few, many = (int(x) for x in done.stdout.split())
    assert many - few < 2_000  # kB; the states alone of 200,000 teams would take 10,000


def test_compiled_answers_follow_the_kernel() -> None:
    """Scanning the uniform finely measures each outcome's probability to 1/steps per outcome."""
    rng = np.random.default_rng(0)
    steps = 20_000
    grid = (np.arange(steps) + 0.5) / steps
    for answers in (2, 3, 4):
        for q in range(6):
            for _ in range(4):
                rates = Rates(*map(float, rng.choice([0.0, 0.3, 0.8, 1.0], 4)))
                seen = [int(x) for x in rng.integers(0, answers, q)]
                counts = np.bincount(seen, minlength=answers).astype(np.int64)
                for belief in range(answers):
                    got = Counter(
                        _sim.answer_step(belief, counts, q, rates.c, rates.a, rates.rho, rates.r, u)
                        for u in grid
                    )
                    expected = {(s, b): p for s, b, p in outcomes(belief, seen, 0, rates)}
                    for key in {*got, *expected}:
                        assert abs(got[key] / steps - expected.get(key, 0.0)) < 3 / steps


@pytest.mark.parametrize("answers", [2, 3, 5])
@pytest.mark.parametrize("observed", ["complete", 2, "graph"])
def test_rows_obey_the_rules(answers: int, observed: object) -> None:
    """Every row is an outcome that the kernel allows for what the row says was seen; none observes itself."""
    graph = nx.DiGraph([(0, 1), (0, 2), (1, 0), (2, 1), (2, 0), (3, 0)])
    graph.add_node(4)
    n = 5
    out = simulate(
        n, 4, RATES, graph if observed == "graph" else observed, accuracy=0.5, answers=answers, replicates=60,
        records=True, seed=1,
    )  # fmt: skip
    rows = out.rows()
    assert len(rows.task) == 60 * 5 * n and set(rows.truth) == {"correct"}
    table = {
        (t, int(k), i): (p, s, o)
        for t, k, i, p, s, o in zip(
            rows.task, rows.round, rows.agent, rows.private, rows.public, rows.observed, strict=True
        )
    }
    names = [str(i) for i in range(n)]
    moved = 0
    for (task, k, agent), (private, public, seen) in table.items():
        if k == 0:
            assert private == public and seen is None
            continue
        others = tuple(x for x in names if x != agent) if seen is None else seen
        assert agent not in others and len(set(others)) == len(others)
        if observed == 2:
            assert len(others) == 2
        if observed == "graph":
            assert others == tuple(str(j) for j in sorted(graph.successors(int(agent))))
        before = table[task, k - 1, agent][0]
        statements = [table[task, k - 1, j][1] for j in others]
        allowed = {(s, b) for s, b, _ in outcomes(before, statements, "correct", RATES)}
        assert (public, private) in allowed
        assert public in (before, plurality(statements))
        moved += private != before
    assert moved > 50
    correct = [plurality([table[f"sim-{j}", 4, i][1] for i in names]) == "correct" for j in range(60)]
    assert np.mean(correct) == pytest.approx(out.correct)
    assert out.private is not None and out.beliefs[2] == pytest.approx((out.private[:, 2] == 0).mean())


def test_zealots_never_move_and_isolated_agents_neither() -> None:
    rates = [Rates(0, 0, 0, 0)] + [RATES] * 4
    out = simulate(5, 6, rates, beliefs=[1, 0, 0, 0, 0], replicates=50, records=True)
    assert out.private is not None and out.public is not None
    assert not out.private[:, :, 0].any() and not out.public[:, :, 0].any()  # 0 is the correct answer
    assert out.private[:, -1, 1:].min() == 0  # it convinces somebody
    out = simulate(3, 6, RATES, [(0, 1), (1, 0)], beliefs=[1, 0, 0], replicates=50, records=True)
    assert out.private is not None and (out.private[:, :, 2] == 1).all()


def test_agreement_is_final_without_noise_and_not_with_it() -> None:
    for answers in (2, 4):
        assert simulate(20, 50, Rates(0.5, 0.5, 1, 0.8), start=20, answers=answers).beliefs[-1] == 1.0
        noisy = simulate(20, 50, Rates(0.5, 0.5, 1, 0.8), start=20, answers=answers, noise=0.3)
        assert noisy.beliefs[-1] < 0.999
    assert simulate(20, 5, RATES, start=0).beliefs.tolist() == [0.0] * 6


def test_noise_replaces_the_belief_only() -> None:
    table = binary_outcomes(RATES, 3)
    noisy = with_noise(table, 0.25)
    np.testing.assert_allclose(noisy[..., :2].sum(-1), table[..., :2].sum(-1), atol=1e-15)  # statements
    belief = table[..., 1] + table[..., 3]
    np.testing.assert_allclose(noisy[..., 1] + noisy[..., 3], 0.75 * belief + 0.125, atol=1e-15)
    np.testing.assert_allclose(with_noise(table, 0.0), table, atol=0)


def test_starts() -> None:
    out = simulate(9, 0, RATES, nx.cycle_graph(9), start=4, replicates=4000, records=True)
    assert out.private is not None
    assert ((out.private[:, 0] == 0).sum(axis=1) == 4).all()
    placed = (out.private[:, 0] == 0).mean(axis=0)  # anywhere: 4/9 each, standard error .008
    assert np.abs(placed - 4 / 9).max() < 0.04
    out = simulate(4, 0, RATES, beliefs=[1, 0, 1, 1], records=True, replicates=3)
    assert out.private is not None and (out.private[:, 0] == [0, 1, 0, 0]).all()
    assert out.vote == 1.0 and simulate(4, 0, RATES, start=2).tie == 1.0


def test_a_team_of_one_keeps_its_answer() -> None:
    for answers in (2, 3):
        out = simulate(1, 5, RATES, accuracy=0.5, answers=answers, replicates=500)
        assert out.correct == out.vote and out.gain == 0.0
        assert len(set(out.beliefs.tolist())) == 1


def test_rows_need_records() -> None:
    with pytest.raises(UsageError, match="records=True"):
        simulate(3, 1, RATES, accuracy=0.5, replicates=2).rows()


@pytest.mark.parametrize(
    "change",
    [
        {"team_size": 0}, {"team_size": None}, {"rounds": -1}, {"observed": 5}, {"observed": 0}, {"answers": 1},
        {"answers": 300}, {"noise": 1.5}, {"noise": float("nan")}, {"replicates": 0}, {"threads": 0},
        {"accuracy": None}, {"start": 2}, {"accuracy": None, "start": 6}, {"accuracy": float("nan")},
        {"accuracy": None, "beliefs": [1, 0]}, {"rates": [RATES] * 3}, {"observed": [(0, 9)]},
        {"observed": 2.5}, {"rates": [0.5] * 5}, {"observed": "ring"},
    ],
)  # fmt: skip
def test_bad_input(change: dict[str, object]) -> None:
    call = {"team_size": 5, "rounds": 2, "rates": RATES, "observed": "complete", "accuracy": 0.5} | change
    with pytest.raises(UsageError):
        simulate(**call)  # type: ignore[arg-type]


def test_all_binary_paths_use_the_same_rule() -> None:
    """Deterministic rates: the fast, the mixed and the graph path must agree exactly, not only on average."""
    for c, a, rho, r in itertools.product((0.0, 1.0), repeat=4):
        rates = Rates(c, a, rho, r)
        # q = 1 on a directed cycle or everybody: dissent is 0 or 1 only with N = 2
        calls = [
            simulate(2, 5, rates, start=1, replicates=8),
            simulate(2, 5, [rates, Rates(c, a, rho, r)], [(0, 1), (1, 0)], start=1, replicates=8),
            simulate(2, 5, rates, 1, start=1, replicates=8, records=True),
        ]
        assert len({(x.correct, x.tie, *x.beliefs, *x.statements) for x in calls}) == 1
