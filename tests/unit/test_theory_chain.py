"""Exact chain: settled numbers, full enumeration, cost."""

import functools
import math
import time
from collections import Counter

import numpy as np
import pytest
from _oracle_theory import complete, enumerate_team, literal, random_rates, redrawn, summarise

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.theory.chain import cost, solve, trajectory


@pytest.mark.parametrize(
    ("n", "rounds", "q", "rates", "k0", "correct"),
    [
        (4, 1, "complete", Rates(0.3, 0.5, 1, 0.8), 2, 0.2877000000),
        (5, 3, "complete", Rates(0.3, 0.5, 1, 0.8), 2, 0.4680171830),
        (5, 3, "complete", Rates(0.6, 0.3, 0.7, 0.9), 2, 0.1511790192),
        (10, 10, 3, Rates(0.5, 0.5, 1, 0.8), 4, 0.6426485076),
    ],
)
def test_table(n: int, rounds: int, q: object, rates: Rates, k0: int, correct: float) -> None:
    assert solve(n, rounds, rates, q).start(k0).correct == pytest.approx(correct, abs=5.1e-11)  # type: ignore[arg-type]


def test_ten_agents_by_adding_one_at_a_time() -> None:
    """The same number by walking over states with the second writing of the rules: no multinomials, no blocks."""
    n, q, rates = 10, 3, Rates(0.5, 0.5, 1, 0.8)
    classes = ((0, 0), (0, 1), (1, 0), (1, 1))

    @functools.cache
    def one(y: int, z: int, s: int) -> list[tuple[int, float]]:
        others = [1] * (s - y) + [0] * (n - 1 - s + y)
        mixed: Counter[tuple[int, int]] = Counter()
        for k in range(q + 1):
            ways = math.comb(s - y, k) * math.comb(len(others) - s + y, q - k) / math.comb(n - 1, q)
            for outcome, p in literal(z, [1] * k + [0] * (q - k), rates).items():
                mixed[outcome] += ways * p
        return [(classes.index(o), p) for o, p in mixed.items() if p > 0.0]

    @functools.cache
    def ahead(state: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        out: dict[tuple[int, ...], float] = {(0, 0, 0, 0): 1.0}
        for count, (y, z) in zip(state, classes, strict=True):
            for _ in range(count):
                grown: Counter[tuple[int, ...]] = Counter()
                for so_far, p in out.items():
                    for j, more in one(y, z, state[2] + state[3]):
                        grown[(*so_far[:j], so_far[j] + 1, *so_far[j + 1 :])] += p * more
                out = grown
        return out

    mass: dict[tuple[int, ...], float] = {(6, 0, 0, 4): 1.0}
    for _ in range(10):
        after: Counter[tuple[int, ...]] = Counter()
        for state, p in mass.items():
            for state_after, more in ahead(state).items():
                after[state_after] += p * more
        mass = after
    expected = sum(p for state, p in mass.items() if state[2] + state[3] > 5)
    assert solve(n, 10, rates, q).start(4).correct == pytest.approx(expected, abs=1e-13)


def test_gain_of_five_has_no_kink_at_the_threshold() -> None:
    gains = [solve(5, 3, Rates(c, 0.5, 1, 0.8)).bernoulli(0.4).gain for c in (0, 0.2, 0.5, 0.6, 0.8)]
    assert gains == pytest.approx([0.340, 0.241, 0.089, 0.051, 0.008], abs=5.1e-4)


ENUMERATED = [
    *((2, "complete", 4), (3, "complete", 3), (4, "complete", 3), (5, "complete", 2)),
    *((3, 1, 3), (4, 1, 2), (4, 2, 3), (5, 2, 2), (5, 3, 2), (5, 4, 2)),
]


@pytest.mark.parametrize(("n", "q", "rounds"), ENUMERATED)
def test_equals_enumeration_of_all_states(n: int, q: object, rounds: int) -> None:
    rng = np.random.default_rng(n * 100 + rounds)
    views = complete(n) if q == "complete" else redrawn(n, q)  # type: ignore[arg-type]
    rates = random_rates(rng)
    found = solve(n, rounds, rates, q)  # type: ignore[arg-type]
    for k0 in range(n + 1):
        expected = summarise(enumerate_team(views, [rates] * n, rounds, [1] * k0 + [0] * (n - k0)))
        one = found.start(k0)
        assert (one.correct, one.tie, one.beliefs_correct) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "q"), [(7, "complete"), (8, 3), (6, 1)])
def test_forward_and_backward_agree(n: int, q: object) -> None:
    rates = Rates(0.4, 0.3, 0.9, 0.7)
    team = solve(n, 6, rates, q)  # type: ignore[arg-type]
    for start, accuracy, outcome in ((3, None, team.start(3)), (None, 0.37, team.bernoulli(0.37))):
        dist = trajectory(n, 6, rates, q, start=start, accuracy=accuracy)  # type: ignore[arg-type]
        np.testing.assert_allclose(dist.sum(axis=(1, 2)), 1.0, atol=1e-13)
        stated = dist[-1].sum(axis=0)
        s = np.arange(n + 1)
        assert stated[2 * s > n].sum() == pytest.approx(outcome.correct, abs=1e-13)
        assert stated[2 * s == n].sum() == pytest.approx(outcome.tie, abs=1e-13)
        assert dist[-1].sum(axis=1) @ s / n == pytest.approx(outcome.beliefs_correct, abs=1e-13)
    # the start is statement = belief
    assert trajectory(n, 0, rates, q, start=2)[0, 2, 2] == 1.0  # type: ignore[arg-type]


def test_vote_is_the_strict_majority_of_the_start() -> None:
    from scipy.stats import binom

    for n in (4, 5):
        out = solve(n, 2, Rates(0.3, 0.5, 1, 0.8)).bernoulli(0.6)
        assert out.vote == pytest.approx(binom.sf(n // 2, n, 0.6), abs=1e-14)
        assert out.gain == pytest.approx(out.correct - out.vote)
    assert solve(4, 0, Rates(0, 0, 0, 0)).start(2).tie == 1.0
    assert solve(5, 2, Rates(0, 0, 0, 0)).start(2).vote is None


def test_redrawn_all_others_is_complete() -> None:
    one, other = (solve(6, 4, Rates(0.3, 0.5, 0.7, 0.8), q) for q in ("complete", 5))
    np.testing.assert_allclose(one.correct, other.correct, atol=1e-14)


def test_a_team_of_one_keeps_its_answer() -> None:
    team = solve(1, 5, Rates(0.9, 0.9, 1, 0.9))
    assert team.correct.tolist() == [0.0, 1.0]
    assert team.bernoulli(0.3).gain == pytest.approx(0.0)


def test_a_large_team_follows_the_mean_field() -> None:
    """N = 25 with q = 3 stays within finite-size fluctuations of the map over a few rounds."""
    from abilene.theory.meanfield import MeanField

    rates = Rates(0.3, 0.5, 1.0, 0.8)
    dist = trajectory(25, 4, rates, 3, start=10)
    mean = dist.sum(axis=2) @ np.arange(26) / 25
    np.testing.assert_allclose(mean, MeanField(rates, 3).trajectory(0.4, 4)[:, 0], atol=0.02)


@pytest.mark.parametrize(("n", "limit"), [(15, 0.2), (25, 3.0)])
def test_speed(n: int, limit: float) -> None:
    solve(3, 1, Rates(0.5, 0.5, 1, 0.8))
    best = np.inf
    for _ in range(3):
        begin = time.process_time()
        solve(n, 30, Rates(0.5, 0.5, 1, 0.8))
        best = min(best, time.process_time() - begin)
        if best < limit:
            break
    assert best < limit


def test_cost_is_said_before_it_is_paid() -> None:
    assert cost(25, 30).states == 3276
    assert 0.2 < cost(25, 30).seconds < 6
    begin = time.process_time()
    with pytest.raises(UsageError, match=r"about \d+ s and .* GB.*max_seconds"):
        solve(80, 100, Rates(0.5, 0.5, 1, 0.8))
    assert time.process_time() - begin < 0.5
    with pytest.raises(UsageError, match="max_seconds"):
        trajectory(20, 30, Rates(0.5, 0.5, 1, 0.8), start=3, max_seconds=0.001)


@pytest.mark.parametrize(
    "arguments",
    [(0, 3), (-2, 3), (2.5, 3), (5, -1), (5, 1.5), (5, 3, 5), (5, 3, 0), (5, 3, "ring"), (1, 3, 1)],
)
def test_bad_input(arguments: tuple[object, ...]) -> None:
    n, rounds, *q = arguments
    with pytest.raises(UsageError):
        solve(n, rounds, Rates(0.5, 0.5, 1, 0.8), *q)  # type: ignore[arg-type]


def test_bad_starts() -> None:
    team = solve(4, 1, Rates(0.5, 0.5, 1, 0.8))
    for k in (-1, 5, 1.5, None):
        with pytest.raises(UsageError):
            team.start(k)  # type: ignore[arg-type]
    for p in (-0.1, 1.1, float("nan"), None):
        with pytest.raises(UsageError):
            team.bernoulli(p)  # type: ignore[arg-type]
    for both in ({}, {"start": 1, "accuracy": 0.5}):
        with pytest.raises(UsageError, match="either"):
            trajectory(4, 1, Rates(0.5, 0.5, 1, 0.8), **both)  # type: ignore[arg-type]
