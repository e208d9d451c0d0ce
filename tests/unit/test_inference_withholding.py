"""Rate posterior against closed forms, an independent quadrature and the plain grid."""

from __future__ import annotations

import numpy as np
import pytest
from _oracle_inference import rate_by_grid, rate_by_logit
from scipy import stats

from abilene.errors import UsageError
from abilene.inference import rate_posterior

Counts = tuple[list[int], list[int]]


def drawn(seed: int, rate: float, phi: float, low: int, high: int, tasks: int = 120) -> Counts:
    rng = np.random.default_rng(seed)
    n = rng.integers(low, high, tasks)
    k = rng.binomial(n, rng.beta(rate * phi, (1 - rate) * phi, tasks))
    return k.tolist(), n.tolist()


INTERIOR: dict[str, Counts] = {
    "few tasks": ([3, 0, 5, 2], [6, 4, 7, 5]),
    "tasks differ": drawn(1, 0.3, 5.0, 1, 13),
    "tasks differ strongly": drawn(2, 0.85, 1.0, 1, 13),
    "tasks alike": drawn(3, 0.5, 1e4, 1, 13),
    "7,000 opportunities": drawn(4, 0.4, 1e4, 30, 60, 150),
    "counts beyond the table": drawn(5, 0.3, 20.0, 60, 200, 40),
}
EDGES: dict[str, Counts] = {
    "none of 6,000": ([0] * 1000, [6] * 1000),
    "all of 6,000": ([6] * 1000, [6] * 1000),
    "one of 6,000": ([1] + [0] * 999, [6] * 1000),
    "all but one of 6,000": ([5] + [6] * 999, [6] * 1000),
    "one task": ([1], [3]),
    "one task, none": ([0], [1]),
    "rare": drawn(6, 0.01, 50.0, 1, 13),
    "250,000 opportunities, rare": drawn(7, 0.003, 1e4, 300, 2000, 220),
}


@pytest.mark.parametrize("name", [*INTERIOR, *EDGES])
def test_moments_agree_with_an_independent_quadrature(name: str) -> None:
    k, n = (INTERIOR | EDGES)[name]
    expected, found = rate_by_logit(k, n), rate_posterior(k, n)
    assert found.mean == pytest.approx(expected.mean, rel=1e-7, abs=1e-12)
    assert found.sd == pytest.approx(expected.sd, rel=1e-7)
    # The limits are interpolated by the reference, to a few thousandths of its sd.
    near = 0.01 * expected.sd
    assert found.median == pytest.approx(expected.median, abs=near)
    if any(k):
        assert found.lower == pytest.approx(expected.lower, abs=near)
    if k != n:
        assert found.upper == pytest.approx(expected.upper, abs=near)


@pytest.mark.parametrize("name", INTERIOR)
def test_moments_agree_with_the_plain_grid_where_it_is_good(name: str) -> None:
    k, n = INTERIOR[name]
    expected, found = rate_by_grid(k, n), rate_posterior(k, n)
    assert found.mean == pytest.approx(expected.mean, abs=1e-6)
    assert found.sd == pytest.approx(expected.sd, abs=1e-6)


def test_the_plain_grid_collapses_where_this_rule_does_not() -> None:
    k, n = EDGES["none of 6,000"]
    assert rate_by_grid(k, n).upper == 0.0  # the fault that the finer rule is there to avoid
    found = rate_posterior(k, n)
    assert found.lower == 0.0
    assert found.upper is not None and 5e-4 < found.upper < 2e-3


@pytest.mark.parametrize(("events", "tasks"), [(0, 1), (1, 1), (3, 9), (0, 400), (50, 6000), (7000, 30000)])
def test_single_opportunities_give_a_beta_distribution(events: int, tasks: int) -> None:
    """With one opportunity a task phi cancels: the posterior is Beta(k + 1, n - k + 1) in closed form."""
    found = rate_posterior([1] * events + [0] * (tasks - events), [1] * tasks)
    law = stats.beta(events + 1, tasks - events + 1)
    assert found.mean == pytest.approx(law.mean(), rel=1e-9)
    assert found.sd == pytest.approx(law.std(), rel=1e-7)
    x = law.ppf(np.linspace(0.001, 0.999, 401))
    np.testing.assert_allclose(found.cdf(x), law.cdf(x), atol=2e-6)
    p = np.linspace(0.001, 0.999, 401)
    np.testing.assert_allclose(found.quantile(p), law.ppf(p), atol=1e-4 * law.std())


def test_distribution_function_runs_from_0_to_1_and_inverts() -> None:
    found = rate_posterior(*INTERIOR["tasks differ"])
    assert found.cdf([-1.0, 0.0, 1.0, 2.0]).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert bool((np.diff(found.cdf(np.linspace(0, 1, 5001))) > -1e-15).all())
    p = np.linspace(1e-6, 1 - 1e-6, 2001)
    np.testing.assert_allclose(found.cdf(found.quantile(p)), p, atol=1e-9)
    assert found.cdf(np.full((2, 3), 0.3)).shape == (2, 3)


def test_draws_follow_the_posterior() -> None:
    """False alarm 1e-3 (Kolmogorov-Smirnov), seed fixed; draws from a shifted posterior must be caught."""
    found, other = rate_posterior(*drawn(1, 0.3, 5.0, 1, 13)), rate_posterior(*drawn(8, 0.33, 5.0, 1, 13))
    draws = found.draw(np.random.default_rng(3), 4000)
    assert stats.kstest(draws, found.cdf).pvalue > 1e-3
    assert stats.kstest(other.draw(np.random.default_rng(3), 4000), found.cdf).pvalue < 1e-6


def test_edges_are_exact_only_where_nothing_speaks_against_them() -> None:
    assert rate_posterior([0, 0], [3, 4]).lower == 0.0
    assert rate_posterior([3, 4], [3, 4]).upper == 1.0
    some = rate_posterior([1, 0], [3, 4])
    assert some.lower is not None and some.upper is not None
    assert 0.0 < some.lower < some.upper < 1.0


def test_mirror() -> None:
    k, n = (np.array(x) for x in INTERIOR["tasks differ"])
    found, mirrored = rate_posterior(k, n), rate_posterior(n - k, n)
    assert found.mean == pytest.approx(1.0 - (mirrored.mean or 0.0), abs=1e-13)
    assert found.lower == pytest.approx(1.0 - (mirrored.upper or 0.0), abs=1e-9)


def test_order_and_tasks_without_opportunities_do_not_matter() -> None:
    k, n = INTERIOR["tasks differ"]
    assert rate_posterior(k[::-1], n[::-1]) == rate_posterior(k, n)
    assert rate_posterior([0, *k, 0], [0, *n, 0]) == rate_posterior(k, n)


def test_tasks_that_differ_widen_the_interval() -> None:
    """A pooled rate would be too sure: half the tasks always, half never, is not 300 coin flips."""
    found = rate_posterior([6] * 25 + [0] * 25, [6] * 50)
    assert found.sd is not None
    assert found.sd > 1.8 * stats.beta(151, 151).std()


@pytest.mark.parametrize("counts", [([], []), ([0], [0]), ([0, 0], [0, 0])])
def test_no_opportunities_is_not_identified(counts: Counts) -> None:
    found = rate_posterior(*counts)
    assert (found.identified, found.reason) == (False, "no opportunities")
    assert (found.mean, found.median, found.lower, found.upper, found.sd) == (None,) * 5
    with pytest.raises(UsageError, match="not identified"):
        found.draw(np.random.default_rng(0), 3)
    with pytest.raises(UsageError, match="not identified"):
        found.cdf(0.5)


@pytest.mark.parametrize(
    ("k", "n"), [([2], [1]), ([1], [1, 2]), ([-1], [2]), ([0.5], [1.0]), ([[1]], [[2]]), ([True], [True])]
)
def test_bad_counts_are_refused(k: object, n: object) -> None:
    with pytest.raises(UsageError):
        rate_posterior(k, n)  # type: ignore[arg-type]
