"""What must hold for all rates."""

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from abilene.rates import Rates
from abilene.theory.chain import solve, trajectory
from abilene.theory.crowd import crowd_outcomes
from abilene.theory.kernel import binary_outcomes, outcomes
from abilene.theory.meanfield import MeanField
from abilene.theory.thresholds import jump_withholding, thresholds

share = st.floats(0.0, 1.0)
rates = st.builds(Rates, share, share, share, share)
inner = st.floats(0.05, 0.95)
observed = st.sampled_from([1, 2, 3, 4, 5, 6, 9, math.inf])


def mirror(x: Rates) -> Rates:
    """Correct and incorrect exchanged."""
    return Rates(x.c, x.a, x.rho, 1.0 - x.r)


@given(rates, st.integers(0, 12))
def test_outcomes_are_distributions(x: Rates, q: int) -> None:
    table = binary_outcomes(x, q)
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=-1), 1.0, atol=1e-14)
    if q:
        np.testing.assert_allclose(crowd_outcomes(x, q + 3, q).sum(axis=-1), 1.0, atol=1e-13)


@given(rates, st.integers(0, 8))
def test_exchanging_the_answers_mirrors_the_table(x: Rates, q: int) -> None:
    np.testing.assert_allclose(
        binary_outcomes(mirror(x), q)[::-1, ::-1, ::-1], binary_outcomes(x, q), atol=1e-14
    )


@given(rates, st.lists(st.sampled_from("tuvw"), max_size=7), st.sampled_from("tuvw"))
def test_any_number_of_answers_is_a_distribution_over_what_was_said(
    x: Rates, seen: list[str], belief: str
) -> None:
    found = outcomes(belief, seen, "t", x)
    assert abs(sum(p for _, _, p in found) - 1.0) < 1e-12
    for statement, then, p in found:
        assert p > 0.0 and statement in {belief, *seen} and then in {belief, "t", *seen}


@given(rates, observed, share, share)
def test_the_map_stays_in_the_square_and_mirrors(x: Rates, q: float, z: float, y: float) -> None:
    a, b = MeanField(x, q).step(z, y)
    assert -1e-14 <= float(a) <= 1 + 1e-14 and -1e-14 <= float(b) <= 1 + 1e-14
    other = MeanField(mirror(x), q).step(1.0 - z, 1.0 - y)
    assert abs(float(a) + float(other[0]) - 1.0) < 1e-12
    if q != math.inf or abs(y - 0.5) > 1e-9:  # 1 - y may round across the jump
        assert abs(float(b) + float(other[1]) - 1.0) < 1e-12


@settings(max_examples=60, deadline=None)
@given(inner, inner, inner, st.floats(0.52, 1.0), observed)
def test_separatrix_mirrors_and_orders(c: float, a: float, rho: float, r: float, q: float) -> None:
    high, low = (
        MeanField(Rates(c, a, rho, r), q).separatrix,
        MeanField(Rates(c, a, rho, 1.0 - r), q).separatrix,
    )
    assert high is not None and low is not None
    assert abs(high + low - 1.0) < 1e-10
    assert high <= 0.5 + 1e-12  # correction never makes recovery harder than a majority


@settings(max_examples=40, deadline=None)
@given(inner, inner, st.floats(0.55, 1.0), st.sampled_from([2, 3, 4, 5, 7, math.inf]))
def test_a_low_state_exists_exactly_above_the_jump(a: float, rho: float, r: float, q: float) -> None:
    found = thresholds(a, rho, r, q)
    jump, star = found.jump_withholding, found.critical_withholding
    assert jump is not None and star is not None and 0.0 < jump <= star < 1.0
    for c, exists in ((jump - 1e-5, False), (min(jump + 1e-5, 1.0), True)):
        if c <= 0.0:
            continue
        points = MeanField(Rates(c, a, rho, r), q).fixed_points()
        low = [x for x in points if x.statement < 0.5 and x.stable]
        assert bool(low) is exists
        separatrix = MeanField(Rates(c, a, rho, r), q).separatrix
        assert separatrix is not None and (separatrix > 0.0) is exists
    assert points[-1].statement == 1.0 and points[-1].stable  # gamma > 0: all-correct always attracts


@settings(max_examples=15, deadline=None)
@given(inner, inner, st.floats(0.55, 1.0))
def test_more_observed_statements_never_raise_the_jump_of_odd_q(a: float, rho: float, r: float) -> None:
    jumps = [jump_withholding(a, rho, r, q)[0] for q in (3, 5, 7, 11, math.inf)]
    assert all(x is not None and y is not None and x >= y - 1e-9 for x, y in itertools.pairwise(jumps))


@settings(max_examples=40, deadline=None)
@given(rates, st.integers(1, 7), st.integers(0, 5), st.data())
def test_exact_teams(x: Rates, n: int, rounds: int, data: st.DataObject) -> None:
    q = data.draw(st.one_of(st.just("complete"), st.integers(1, n - 1)) if n > 1 else st.just("complete"))
    team, other = solve(n, rounds, x, q), solve(n, rounds, mirror(x), q)  # type: ignore[arg-type]
    assert (team.correct >= 0).all() and (team.correct + team.tie <= 1 + 1e-12).all()
    # Exchanging the answers exchanges verdicts: correct(k0) + tie(k0) + correct'(N - k0) = 1.
    np.testing.assert_allclose(team.correct + team.tie + other.correct[::-1], 1.0, atol=1e-12)
    assert team.correct[0] == 0.0 and team.correct[n] == 1.0  # agreement is final
    p = data.draw(share)
    dist = trajectory(n, rounds, x, q, accuracy=p)  # type: ignore[arg-type]
    assert abs(dist[-1].sum() - 1.0) < 1e-12
    out = team.bernoulli(p)
    assert abs(dist[-1].sum(axis=1) @ np.arange(n + 1) / n - out.beliefs_correct) < 1e-12
