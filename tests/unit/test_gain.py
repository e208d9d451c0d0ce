"""Accuracy, gain and their intervals against SciPy and enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq, minimize_scalar

from abilene.analysis.gain import exact_p_value, paired_gain, paired_score, wilson
from abilene.errors import UsageError


def pairs(wins: int, losses: int, right: int, wrong: int) -> tuple[np.ndarray, np.ndarray]:
    before = np.repeat([False, True, True, False], [wins, losses, right, wrong])
    after = np.repeat([True, False, True, False], [wins, losses, right, wrong])
    return before, after


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 30), (30, 30), (7, 30), (119, 120), (5000, 10_000)])
def test_wilson_agrees_with_scipy(k: int, n: int) -> None:
    expected = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert wilson(k, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_is_exact_at_the_ends() -> None:
    for n in range(1, 200):
        at_0, at_1 = wilson(0, n), wilson(n, n)
        assert at_0 is not None and at_1 is not None
        assert at_0[0] == 0.0 and at_1[1] == 1.0
        assert 0.0 < at_0[1] == pytest.approx(1.0 - at_1[0])
    assert wilson(0, 0) is None
    with pytest.raises(UsageError):
        wilson(3, 2)


@pytest.mark.parametrize(
    ("wins", "losses"), [(0, 0), (1, 0), (0, 1), (5, 5), (12, 3), (3, 12), (200, 100), (1000, 1020)]
)
def test_exact_test_agrees_with_scipy(wins: int, losses: int) -> None:
    net = np.repeat([1, -1, 0], [wins, losses, 10])
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert exact_p_value(net) == pytest.approx(expected, rel=1e-10)


def test_exact_test_of_tasks_with_several_discussions_enumerates_the_signs() -> None:
    net = np.array([3, -1, 2, 0, 2, 1])
    sums = [abs(sum(s * d for s, d in zip(signs, net, strict=True))) for signs in product((1, -1), repeat=6)]
    assert exact_p_value(net) == pytest.approx(np.mean(np.array(sums) >= 7))


def score_limits(wins: int, losses: int, n: int) -> list[float]:
    """Tango's limits with the restricted likelihood maximised by search."""

    def squared_score(delta: float) -> float:
        def minus_log_l(q: float) -> float:
            cells = ((wins, q + delta), (losses, q), (n - wins - losses, 1 - 2 * q - delta))
            return -sum(count * np.log(max(p, 1e-300)) for count, p in cells if count)

        low, high = max(0.0, -delta), (1 - delta) / 2
        q = minimize_scalar(minus_log_l, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
        variance = n * (2 * q + delta * (1 - delta))
        return (wins - losses - n * delta) ** 2 / variance - stats.norm.ppf(0.975) ** 2

    middle = (wins - losses) / n
    return [
        brentq(squared_score, -1 + 1e-7, middle - 1e-9) if losses < n else -1.0,
        brentq(squared_score, middle + 1e-9, 1 - 1e-7) if wins < n else 1.0,
    ]


@pytest.mark.parametrize(("wins", "losses", "n"), [(9, 3, 40), (5, 5, 30), (1, 0, 20), (12, 0, 20)])
def test_score_interval_agrees_with_a_search(wins: int, losses: int, n: int) -> None:
    assert paired_score(wins, losses, n) == pytest.approx(score_limits(wins, losses, n), abs=2e-4)


@pytest.mark.parametrize("n", [2, 5, 30, 120, 5000])
def test_score_interval_of_pairs_that_are_all_alike(n: int) -> None:
    z2 = stats.norm.ppf(0.975) ** 2
    assert paired_score(0, 0, n) == pytest.approx((-z2 / (n + z2), z2 / (n + z2)), abs=1e-9)
    assert paired_score(n, 0, n) == pytest.approx(((n - z2) / (n + z2), 1.0), abs=1e-9)
    assert paired_score(0, n, n) == pytest.approx((-1.0, (z2 - n) / (n + z2)), abs=1e-9)


def test_gain_of_a_usual_setting() -> None:
    before, after = pairs(30, 6, 40, 44)
    found = paired_gain(before, after, seed=1)
    assert (found.n, found.tasks) == (120, 120)
    assert found.vote.mean == pytest.approx(46 / 120) and found.discussion.mean == pytest.approx(70 / 120)
    assert found.mean == pytest.approx(0.2)
    assert found.p_value == pytest.approx(stats.binomtest(6, 36).pvalue)
    assert (found.vote.lower, found.vote.upper) == pytest.approx(wilson(46, 120))
    assert found.interval == "bootstrap" and found.reason is None


def test_interval_agrees_with_scipy_bootstrap() -> None:
    """Percentile limits from 20,000 resamplings each, noise about 2 % of the sd (.046): .005 is five of them
    (false alarm below 1e-5), seeds fixed. Unpaired resampling (the mutant) must differ."""
    before, after = pairs(30, 6, 40, 44)
    found = paired_gain(before, after, seed=1, bootstraps=20_000)
    difference = after.astype(float) - before.astype(float)
    rng = np.random.default_rng(0)
    expected = stats.bootstrap(
        (difference,), np.mean, n_resamples=20_000, method="percentile", rng=rng
    ).confidence_interval
    assert (found.lower, found.upper) == pytest.approx((expected.low, expected.high), abs=0.005)
    unpaired = np.sqrt((before.var() + after.var()) / 120) * 1.96 * 2
    assert found.upper - found.lower != pytest.approx(unpaired, abs=0.01)


def test_discussions_of_one_task_are_resampled_together() -> None:
    before, after = pairs(15, 3, 20, 22)
    once = paired_gain(before, after)
    four = paired_gain(np.repeat(before, 4), np.repeat(after, 4), np.repeat(np.arange(60), 4))
    assert (four.n, four.tasks) == (240, 60)
    assert four.mean == once.mean
    assert (four.lower, four.upper) == pytest.approx((once.lower, once.upper), abs=0.01)
    assert four.p_value == pytest.approx(once.p_value)
    naive = paired_gain(np.repeat(before, 4), np.repeat(after, 4))  # the mutant: copies taken for tasks
    assert naive.upper - naive.lower < 0.6 * (four.upper - four.lower)
    assert naive.p_value < 0.01 * four.p_value


def test_order_does_not_matter_and_seed_does() -> None:
    before, after = pairs(15, 3, 20, 22)
    order = np.random.default_rng(0).permutation(60)
    assert paired_gain(before[order], after[order], seed=4) == paired_gain(before, after, seed=4)
    assert paired_gain(before, after, seed=4) != paired_gain(before, after, seed=5)


@pytest.mark.parametrize(("wins", "losses", "right", "wrong"), [(0, 0, 30, 0), (0, 0, 10, 20), (30, 0, 0, 0)])
def test_no_interval_of_zero_width(wins: int, losses: int, right: int, wrong: int) -> None:
    found = paired_gain(*pairs(wins, losses, right, wrong))
    assert found.interval == "score"
    assert found.lower is not None and found.upper is not None
    assert found.upper - found.lower > 0.1
    assert found.lower <= found.mean <= found.upper


def test_no_discussions_and_one_task() -> None:
    none = paired_gain([], [])
    assert (none.mean, none.lower, none.p_value, none.vote.mean, none.reason) == (
        None, None, None, None, "no discussions",
    )  # fmt: skip
    one = paired_gain([False, False], [True, True], ["a", "a"])
    assert (one.n, one.tasks, one.mean) == (2, 1, 1.0)
    assert one.lower is None and one.upper is None and one.interval is None
    assert "one task" in str(one.reason)
    assert one.p_value == 1.0


def test_missing_outcomes_are_refused() -> None:
    with pytest.raises(UsageError):
        paired_gain([True, None], [True, True])  # type: ignore[list-item]
    with pytest.raises(UsageError):
        paired_gain([1.0, float("nan")], [1.0, 0.0])
    with pytest.raises(UsageError):
        paired_gain([True], [True, False])


@pytest.mark.slow
def test_interval_covers_the_gain() -> None:
    """2,000 settings of 60 tasks, true gain .15. At a true coverage of 94 % fewer than 92 % or more than
    96.5 % covered has probability 1e-4; seeds fixed."""
    rng = np.random.default_rng(3)
    covered = 0
    for seed in range(2000):
        kind = rng.choice(4, 60, p=[0.25, 0.10, 0.30, 0.35])
        found = paired_gain(np.isin(kind, [1, 2]), np.isin(kind, [0, 2]), seed=seed, bootstraps=500)
        assert found.lower is not None and found.upper is not None
        covered += found.lower <= 0.15 <= found.upper
    assert 0.92 < covered / 2000 < 0.965
