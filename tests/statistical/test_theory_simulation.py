"""Simulated teams against exact probabilities.

For every comparison z = (share - p) / sqrt(p (1 - p) / R) is standard normal to good approximation (R p (1 - p) is
at least 200). A set of m comparisons must have all |z| < 4.5 and a standard deviation of z within .8 to 1.2.
False alarm of a correct simulator, were the seeds not fixed: m x 6.8e-6 for the first, and for the second
1e-3 at m = 140 (chi-square), so about 2e-3 per set.
"""

import functools
import itertools

import networkx as nx
import numpy as np
import pytest
from _oracle_theory import random_rates

from abilene.rates import Rates
from abilene.theory import _sim
from abilene.theory.agents import simulate, with_noise
from abilene.theory.chain import solve
from abilene.theory.graphs import small_graph
from abilene.theory.kernel import OUTCOMES, binary_outcomes, outcomes, plurality
from abilene.theory.phase import phase_diagram

R = 20_000


class Scores:
    """z scores of shares against probabilities."""

    def __init__(self) -> None:
        self.z: list[float] = []

    def add(self, share: float, p: float, size: int = R) -> None:
        if size * p * (1 - p) >= 200:
            self.z.append((share - p) / np.sqrt(p * (1 - p) / size))

    def check(self, least: int) -> None:
        assert len(self.z) >= least
        assert max(map(abs, self.z)) < 4.5
        assert 0.8 < np.std(self.z) < 1.2

    def fails(self) -> bool:
        return max(map(abs, self.z)) >= 4.5


def exchangeable(seed: int, change: dict[str, float] | None = None, **more: object) -> Scores:
    """Random teams on complete and redrawn graphs; `change` alters a rate of the simulated ones (a mutant)."""
    rng = np.random.default_rng(seed)
    scores = Scores()
    for i in range(90):
        n, rounds = int(rng.integers(2, 11)), int(rng.integers(1, 7))
        observed = "complete" if i % 2 or n < 3 else int(rng.integers(1, n - 1))
        rates = random_rates(rng)
        shown = Rates(**({k: getattr(rates, k) for k in ("c", "a", "rho", "r")} | (change or {})))
        k0, p = int(rng.integers(1, n)), float(rng.uniform(0.2, 0.8))
        start = {"start": k0} if i % 3 else {"accuracy": p}
        out = simulate(n, rounds, shown, observed, replicates=R, seed=1000 * seed + i, **start, **more)  # type: ignore[arg-type]
        team = solve(n, rounds, rates, observed)  # type: ignore[arg-type]
        exact = team.start(k0) if i % 3 else team.bernoulli(p)
        scores.add(out.correct, exact.correct)
        scores.add(out.tie, exact.tie)
        if exact.vote is not None:
            scores.add(out.vote, exact.vote)
    return scores


def test_exchangeable_teams() -> None:
    exchangeable(1).check(least=100)


def test_exchangeable_teams_agent_by_agent() -> None:
    """The other compiled path, which draws who is seen: forced by asking for records."""
    exchangeable(2, records=True).check(least=100)


@pytest.mark.parametrize("mutant", [{"c": 0.5}, {"a": 0.5}, {"rho": 0.5}, {"r": 0.5}])
def test_a_wrong_rate_is_noticed(mutant: dict[str, float]) -> None:
    assert exchangeable(1, change=mutant).fails()


def test_a_tie_scored_correct_is_noticed() -> None:
    out = simulate(4, 3, Rates(0.3, 0.5, 1, 0.8), start=2, replicates=R)
    scores = Scores()
    scores.add(out.correct + out.tie, solve(4, 3, Rates(0.3, 0.5, 1, 0.8)).start(2).correct)
    assert scores.fails()


def graph_scores(seed: int, reverse: bool = False, alike: bool = False) -> Scores:
    rng = np.random.default_rng(seed)
    scores = Scores()
    for i in range(60):
        n = int(rng.integers(3, 7))
        graph = nx.gnp_random_graph(n, 0.5, seed=int(rng.integers(1 << 30)), directed=True)
        rates = [random_rates(rng) for _ in range(n)]
        shown = rates[:1] * n if alike else rates
        rounds = int(rng.integers(1, 5))
        beliefs = [int(x) for x in rng.integers(0, 2, n)]
        start = {"beliefs": beliefs} if i % 2 else {"accuracy": 0.4}
        exact = small_graph(graph, rates, rounds, **start)  # type: ignore[arg-type]
        out = simulate(
            None, rounds, shown, graph.reverse() if reverse else graph, replicates=R, seed=seed * 1000 + i,
            records=True, **start,
        )  # type: ignore[arg-type]  # fmt: skip
        scores.add(out.correct, exact.correct)
        scores.add(out.tie, exact.tie)
        assert out.private is not None and out.public is not None
        agent = int(rng.integers(n))  # one agent of each team: different agents are correlated
        scores.add((out.private[:, -1, agent] == 0).mean(), exact.beliefs[-1, agent])
    return scores


def test_graphs_with_rates_of_their_own() -> None:
    graph_scores(3).check(least=100)


def test_a_reversed_graph_and_equal_rates_are_noticed() -> None:
    assert graph_scores(3, reverse=True).fails()
    assert graph_scores(3, alike=True).fails()


def test_mixed_teams_on_exchangeable_graphs() -> None:
    """Rates of their own, complete and redrawn without records, against enumeration over who is seen."""
    rng = np.random.default_rng(4)
    scores = Scores()
    for i in range(50):
        n = int(rng.integers(3, 7))
        rates = [random_rates(rng) for _ in range(n)]
        full = nx.complete_graph(n)
        exact = small_graph(full, rates, 3, accuracy=0.45)
        for observed in ("complete", n - 1):
            out = simulate(
                n, 3, rates, observed, accuracy=0.45, replicates=R, seed=i + (observed == "complete")
            )
            scores.add(out.correct, exact.correct)
        # One round of q = 2 redrawn: average the enumeration over the neighbourhoods of a homogeneous team.
        if i < 20:
            team = solve(n, 4, rates[0], 2)
            out = simulate(n, 4, [rates[0]] * n, 2, start=1, replicates=R, seed=i, records=True)
            scores.add(out.correct, team.start(1).correct)
    scores.check(least=100)


def test_redrawn_with_two_kinds_of_agents() -> None:
    """Two kinds, q = 1 redrawn: enumerated over the neighbour that each agent draws, in every round."""
    kinds = [Rates(0.7, 0.5, 0.9, 0.8), Rates(0.0, 0.0, 0.4, 0.6), Rates(0.7, 0.5, 0.9, 0.8)]
    from _oracle_theory import enumerate_team, redrawn, summarise

    scores = Scores()
    for beliefs in itertools.product((0, 1), repeat=3):
        for rounds in (1, 2, 3, 4):
            correct, _, _ = summarise(enumerate_team(redrawn(3, 1), kinds, rounds, beliefs))
            for records in (False, True):
                out = simulate(
                    3, rounds, kinds, 1, beliefs=list(beliefs), replicates=R, seed=rounds, records=records
                )
                scores.add(out.correct, correct)
    assert len(scores.z) >= 40 and max(map(abs, scores.z)) < 4.5


def plural_correct(n: int, rounds: int, rates: Rates, observed: object, k0: int, seed: int) -> float:
    """Share correct by the K-answer code with K = 2."""
    sums = np.zeros((rounds + 2, 2), dtype=np.int64)
    numbers = np.array([[rates.c, rates.a, rates.rho, rates.r]] * n)
    none = np.empty(0, dtype=np.int64)
    record = np.empty((0, rounds + 1, n), np.uint8)
    redrawn = -1 if observed == "complete" else observed
    seen = np.empty((0, rounds + 1, n, 1), np.int32)
    _sim.plural(
        2, numbers, 0.0, np.zeros(n + 1, dtype=np.int64), none, redrawn, np.zeros(n, dtype=np.int64), k0, 0.0,
        rounds, np.uint64(seed), 0, R, sums, record, record, seen,
    )  # fmt: skip
    return float(sums[-1, 0]) / R


def test_two_answers_equal_the_binary_model_in_distribution() -> None:
    rng = np.random.default_rng(5)
    scores = Scores()
    for i in range(180):
        n, rounds = int(rng.integers(2, 9)), int(rng.integers(1, 6))
        observed: object = "complete" if i % 2 or n < 3 else int(rng.integers(1, n - 1))
        rates, k0 = random_rates(rng), int(rng.integers(1, n))
        exact = solve(n, rounds, rates, observed).start(k0)  # type: ignore[arg-type]
        scores.add(plural_correct(n, rounds, rates, observed, k0, i), exact.correct)
    scores.check(least=100)


def exact_plural(
    n: int, answers: int, rates: Rates, rounds: int, beliefs: tuple[int, ...], project: bool
) -> float:
    """P(correct) of K answers by enumeration of `kernel.outcomes`; project: merge the wrong answers first."""

    @functools.cache
    def one(belief: int, seen: tuple[int, ...]) -> list[tuple[int, int, float]]:
        return outcomes(belief, seen, 0, rates)

    states = {tuple((b, b) for b in beliefs): 1.0}
    for _ in range(rounds):
        ahead: dict[tuple[tuple[int, int], ...], float] = {}
        for state, mass in states.items():
            said = [min(s, 1) if project else s for s, _ in state]
            held = [min(b, 1) if project else b for _, b in state]
            each = [one(held[i], tuple(said[:i] + said[i + 1 :])) for i in range(n)]
            for combination in itertools.product(*each):
                p = mass
                for _, _, q in combination:
                    p *= q
                key = tuple((s, b) for s, b, _ in combination)
                ahead[key] = ahead.get(key, 0.0) + p
        states = ahead
    return sum(p for state, p in states.items() if plurality([s for s, _ in state]) == 0)


def test_more_answers_against_enumeration() -> None:
    """K = 3, N = 4 from every start with two wrong answers; taking correct/incorrect first must be noticed."""
    right, projected = Scores(), Scores()
    rng = np.random.default_rng(6)
    for i in range(10):
        rates = random_rates(rng)
        for k0 in (1, 2):
            starts = list(itertools.product((1, 2), repeat=4 - k0))
            exact, wrong = (
                np.mean([exact_plural(4, 3, rates, 2, (0,) * k0 + s, project) for s in starts])
                for project in (False, True)
            )
            out = simulate(4, 2, rates, start=k0, answers=3, replicates=R, seed=i)
            right.add(out.correct, float(exact))
            projected.add(out.correct, float(wrong))
    assert len(right.z) >= 14 and max(map(abs, right.z)) < 4.5
    assert projected.fails()


def test_noise_against_enumeration() -> None:
    """Every binary path and the K-answer path with noise, N = 3, against enumeration of the noisy table."""
    scores = Scores()
    noise, rates = 0.2, Rates(0.4, 0.5, 0.9, 0.8)
    table = with_noise(binary_outcomes(rates, 2), noise)
    for k0, rounds in itertools.product(range(4), (1, 2, 4)):
        states = {tuple((int(i < k0), int(i < k0)) for i in range(3)): 1.0}
        for _ in range(rounds):
            ahead: dict[tuple[tuple[int, int], ...], float] = {}
            for state, mass in states.items():
                total = sum(y for y, _ in state)
                for choice in itertools.product(range(4), repeat=3):
                    p = mass
                    for (y, z), j in zip(state, choice, strict=True):
                        p *= table[z, total - y, j]
                    key = tuple(OUTCOMES[j] for j in choice)
                    ahead[key] = ahead.get(key, 0.0) + p
            states = ahead
        exact = sum(p for state, p in states.items() if sum(y for y, _ in state) >= 2)
        graph = nx.complete_graph(3)
        for observed, records in (("complete", False), ("complete", True), (graph, False), (2, True)):
            out = simulate(
                3, rounds, rates, observed, start=k0, noise=noise, replicates=R, seed=k0, records=records
            )
            scores.add(out.correct, exact)
    assert len(scores.z) >= 30 and max(map(abs, scores.z)) < 4.5
    # Noise 1 with K answers: beliefs are uniform, and statements follow them where nobody withholds.
    out = simulate(9, 3, Rates(0, 0, 0, 0), start=9, noise=1.0, answers=4, replicates=R)
    assert abs(out.beliefs[-1] - 0.25) < 4.5 * np.sqrt(0.1875 / (9 * R))


def test_phase_diagram_against_the_exact_chain() -> None:
    """Points of one row share teams, so only every 4th row and spread-out accuracies enter; |z| < 4.5 by the
    diagram's own standard error (false alarm under 1e-3)."""
    n, rounds = 12, 8
    cs, ps = np.linspace(0.05, 0.95, 31), [0.2, 0.35, 0.5, 0.65]
    for observed in (3, "complete"):
        ds = phase_diagram(n, rounds, 0.5, 1.0, 0.8, observed, withholding=cs, accuracy=ps, teams=4000)  # type: ignore[arg-type]
        z = []
        for c in cs:
            team = solve(n, rounds, Rates(float(c), 0.5, 1.0, 0.8), observed)  # type: ignore[arg-type]
            for p in ps:
                point = ds.sel(withholding=c, accuracy=p)
                z.append(float((point.correct - team.bernoulli(p).correct) / point.standard_error))
                assert float(point.vote) == pytest.approx(team.bernoulli(p).vote)
        assert len(z) >= 100 and max(map(abs, z)) < 4.5 and 0.8 < np.std(z) < 1.2
