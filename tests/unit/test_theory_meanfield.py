"""Mean field and thresholds: published numbers, closed forms, and a second writing of the map."""

import itertools
import math
import subprocess
import sys
from math import comb

import numpy as np
import pytest

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.theory.meanfield import MeanField, binomial_weights
from abilene.theory.thresholds import jump_withholding, separatrix, thresholds

INF = math.inf


def paper_map(z: float, y: float, rates: Rates, q: int) -> tuple[float, float]:
    """Equations (1)-(3), with ties stating the belief; independent of the kernel's tables."""
    c, a, rho, r = rates.c, rates.a, rates.rho, rates.r
    w = [comb(q, k) * y**k * (1 - y) ** (q - k) for k in range(q + 1)]
    major = sum(w[k] for k in range(q + 1) if 2 * k > q)
    tie = sum(w[k] for k in range(q + 1) if 2 * k == q)

    def stays(b: int) -> float:
        total = 0.0
        for k in range(q + 1):
            d = abs(b - k / q)
            u = (1 - rho * d) * b + rho * d * r
            opposed = (2 * k > q and b == 0) or (2 * k < q and b == 1)
            total += w[k] * ((c * ((1 - a) * b + a * (1 - b)) + (1 - c) * u) if opposed else u)
        return total

    return (1 - z) * stays(0) + z * stays(1), (1 - c) * z + c * (major + tie * z)


@pytest.mark.parametrize("q", [1, 2, 3, 4, 5, 8, 11])
def test_map_is_the_papers(q: int) -> None:
    rng = np.random.default_rng(q)
    for _ in range(50):
        rates = Rates(*map(float, rng.random(4)))
        z, y = rng.random(2)
        found = MeanField(rates, q).step(z, y)
        assert [float(x) for x in found] == pytest.approx(paper_map(z, y, rates, q), abs=1e-14)


def test_complete_graph_is_the_limit_of_large_q() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        rates = Rates(*map(float, rng.random(4)))
        for y in (0.1, 0.35, 0.62, 0.9):
            limit, large = (MeanField(rates, q).step(0.4, y) for q in (INF, 20_001))
            assert [float(x) for x in limit] == pytest.approx([float(x) for x in large], abs=1e-9)
    # On the tie itself everybody states its belief.
    z, y = MeanField(Rates(1, 1, 1, 0.8), INF).step(0.3, 0.5)
    assert float(y) == pytest.approx(0.3)
    assert float(z) == pytest.approx(0.7 * 0.4 + 0.3 * 0.9)


@pytest.mark.parametrize("q", [1, 2, 3, 6, 200, INF])
def test_jacobian_is_the_derivative(q: float) -> None:
    field = MeanField(Rates(0.4, 0.3, 0.9, 0.7), q)
    h = 1e-6
    for z, y in ((0.3, 0.2), (0.6, 0.7)):
        numeric = np.array(
            [(np.array(field.step(z + h, y)) - field.step(z - h, y)) / (2 * h),
             (np.array(field.step(z, y + h)) - field.step(z, y - h)) / (2 * h)]
        ).T  # fmt: skip
        np.testing.assert_allclose(field.jacobian(z, y), numeric, atol=1e-7)


def test_weights_of_large_q_keep_their_mass() -> None:
    from scipy.stats import binom

    for q in (10, 64, 65, 1000):
        for y in (0.0, 1e-9, 0.2, 0.5, 0.999, 1.0):
            np.testing.assert_allclose(binomial_weights(q, y), binom.pmf(np.arange(q + 1), q, y), atol=1e-12)


TABLE = {
    2: ("transcritical", 0.5454545455, 0.113511, 0.243314, 0.375423),
    3: ("fold", 0.5419648432, 0.328856, 0.424356, 0.489404),
    4: ("fold", 0.5161110278, 0.345606, 0.407226, 0.461581),
    5: ("fold", 0.4896584431, 0.427155, 0.465255, 0.494763),
    INF: ("fold", 0.25, 0.5, 0.5, 0.5),
}


@pytest.mark.parametrize("q", TABLE)
def test_table_of_thresholds(q: float) -> None:
    kind, jump, *boundary = TABLE[q]
    found = thresholds(0.5, 1.0, 0.8, q)
    assert found.kind == kind
    assert found.net_correction == pytest.approx(0.6)
    assert found.critical_withholding == pytest.approx(0.5454545455, abs=5e-11)
    assert found.jump_withholding == pytest.approx(jump, abs=6e-11)
    assert found.all_correct_stable_above == 0.0
    for c, p in zip((0.6, 0.7, 0.9), boundary, strict=True):
        assert separatrix(c, 0.5, 1.0, 0.8, q) == pytest.approx(p, abs=6e-7)


@pytest.mark.parametrize(
    ("a", "jump", "kind"),
    [(0.1, 0.77335334, "fold"), (0.3, 0.64268377, "fold"), (0.8, 0.42857143, "transcritical")],
)
def test_jump_at_q3(a: float, jump: float, kind: str) -> None:
    found, name = jump_withholding(a, 1.0, 0.8, 3)
    assert found == pytest.approx(jump, abs=6e-9) and name == kind


def test_without_internalization_statements_still_lock() -> None:
    found = thresholds(0.0, 1.0, 0.8, 3)
    assert found.critical_withholding == 1.0
    assert found.jump_withholding == pytest.approx(0.856256, abs=5e-7)
    low = next(x for x in MeanField(Rates(0.95, 0.0, 1.0, 0.8), 3).fixed_points() if x.stable)
    assert (low.belief, low.statement) == (pytest.approx(0.763, abs=5e-4), pytest.approx(0.043, abs=5e-4))


@pytest.mark.parametrize("a", [0.05, 0.3, 0.5, 0.8])
@pytest.mark.parametrize(("rho", "r"), [(1.0, 0.8), (0.5, 0.95), (0.3, 0.6)])
def test_closed_forms_of_the_jump(a: float, rho: float, r: float) -> None:
    gamma = rho * (2 * r - 1)
    star = gamma / (gamma + a)
    assert jump_withholding(a, rho, r, 2)[0] == pytest.approx(star, abs=1e-10)
    complete = jump_withholding(a, rho, r, INF)[0]
    assert complete == pytest.approx(gamma / (2 * a + rho * (3 * r - 1)), abs=1e-12)
    # and it is where the low state of the map, Y = (1-c) Z, reaches 1/2
    for c, exists in ((complete - 1e-6, False), (complete + 1e-6, True)):
        points = MeanField(Rates(c, a, rho, r), INF).fixed_points()
        assert any(x.stable and x.statement < 0.5 for x in points) is exists
    value, kind = jump_withholding(a, rho, r, 3)
    assert (kind == "fold") is (gamma * (a + rho * r) > 2 * a * a)
    assert value is not None and (value < star - 1e-10) is (kind == "fold")
    for q in (4, 5, 9):
        value, kind = jump_withholding(a, rho, r, q)
        assert kind == "fold" and value is not None and value < star


@pytest.mark.parametrize("q", [2, 3, 4, 7, INF])
def test_growth_rate_is_the_leading_eigenvalue(q: float) -> None:
    assert MeanField(Rates(0.0, 0.5, 1.0, 0.8), q).growth_rate == pytest.approx(1.3798, abs=5e-5)
    for c in (0.1, 0.5, 0.9):
        a, rho, r = 0.4, 0.7, 0.85
        t10 = c * (1 - a) + (1 - c) * (1 - rho * (1 - r))
        closed = (t10 + math.sqrt(t10**2 + 4 * (1 - c) * rho * r)) / 2
        assert MeanField(Rates(c, a, rho, r), q).growth_rate == pytest.approx(closed, abs=1e-12)
    star = Rates(0, 0.4, 0.7, 0.85).critical_withholding
    assert star is not None
    assert MeanField(Rates(star, 0.4, 0.7, 0.85), q).growth_rate == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("q", [1, 2, 3, 4, 5, 8, INF])
@pytest.mark.parametrize("c", [0.05, 0.3, 0.58, 0.7, 0.97])
def test_mirror_symmetry(q: float, c: float) -> None:
    for r in (0.8, 0.55, 1.0):
        high, low = separatrix(c, 0.5, 1.0, r, q), separatrix(c, 0.5, 1.0, 1 - r, q)
        assert high is not None and low is not None
        assert abs(high + low - 1.0) < 1e-10


def test_full_withholding_divides_in_the_middle_for_odd_q_only() -> None:
    for q in (3, 5, 9):
        assert separatrix(1.0, 0.5, 1.0, 0.8, q) == pytest.approx(0.5, abs=1e-12)
    assert separatrix(1.0, 0.5, 1.0, 0.8, 4) == pytest.approx(0.475253, abs=5e-7)


@pytest.mark.parametrize("q", [2, 3, 4, 5, INF])
def test_the_separatrix_divides(q: float) -> None:
    """Plain iteration from either side of p*, 1e-7 away, ends on different sides."""
    for c in (0.58, 0.7, 0.95):
        field = MeanField(Rates(c, 0.5, 1.0, 0.8), q)
        assert field.separatrix is not None
        for shift, high in ((-1e-7, False), (1e-7, True)):
            end = field.trajectory(field.separatrix + shift, 1000)[-1]
            assert bool(end[1] > 0.5) is high


def test_fixed_points_reproduce_themselves_and_are_classified() -> None:
    rng = np.random.default_rng(1)
    for q in (1, 2, 3, 4, 7, INF):
        for _ in range(10):
            field = MeanField(Rates(*map(float, rng.uniform(0.02, 0.98, 4))), q)
            for x in field.fixed_points():
                z, y = field.step(x.belief, x.statement)
                assert abs(float(z) - x.belief) < 1e-10 and abs(float(y) - x.statement) < 1e-10
                if x.stable:  # returns after a small push inwards
                    z, y = abs(x.belief - 1e-6), abs(x.statement - 1e-6)
                    for _ in range(500):
                        z, y = field.step(z, y)
                    assert abs(float(z) - x.belief) < 9.99e-7
                assert x.stable is (abs(x.eigenvalues[0]) < 1) or x.stable is None


def test_one_observed_statement_has_no_threshold() -> None:
    found = thresholds(0.5, 1.0, 0.8, 1)
    assert (found.critical_withholding, found.jump_withholding, found.kind) == (None, None, "none")
    times = []
    for c in (0.0, 0.5, 0.9, 0.99, 0.999):
        field = MeanField(Rates(c, 0.5, 1.0, 0.8), 1)
        assert field.separatrix == 0.0
        times.append(field.recovery_time(0.01))
    assert all(a < b for a, b in itertools.pairwise(times))  # diverges as c -> 1
    assert times[-1] > 100 * times[0]
    assert separatrix(1.0, 0.5, 1.0, 0.8, 1) is None  # c = 1: a line of fixed points
    assert separatrix(0.3, 0.5, 1.0, 0.2, 1) == 1.0


def test_negative_correction() -> None:
    found = thresholds(0.5, 1.0, 0.3, 3)  # gamma = -0.4
    assert found.critical_withholding == 0.0 and found.jump_withholding == 0.0 and found.kind == "none"
    above = found.all_correct_stable_above
    assert above == pytest.approx(0.4 / 0.9)
    for c, stable in ((above - 1e-4, False), (above + 1e-4, True)):
        assert MeanField(Rates(c, 0.5, 1.0, 0.3), 3).fixed_points()[-1].stable is stable
    assert separatrix(0.0, 0.5, 1.0, 0.3, 3) == 1.0


def test_guessing_and_degenerate_cases() -> None:
    half = thresholds(0.5, 1.0, 0.5, 3)  # r = 1/2: gamma = 0
    assert (half.critical_withholding, half.jump_withholding, half.kind) == (0.0, 0.0, "none")
    assert separatrix(0.4, 0.5, 1.0, 0.5, 3) == pytest.approx(0.5, abs=1e-12)
    for a, rho, r in ((0.0, 1.0, 0.5), (0.0, 0.0, 0.9)):
        found = thresholds(a, rho, r, 3)
        assert found.kind == "degenerate"
        assert found.critical_withholding is found.jump_withholding is found.all_correct_stable_above is None
    # c = 0 and gamma = 0: Z and Y only mix, no destination
    assert separatrix(0.0, 0.5, 1.0, 0.5, 3) is None
    assert all(x.stable is None for x in MeanField(Rates(0.0, 0.5, 1.0, 0.5), 3).fixed_points())


def test_start_has_statements_equal_to_beliefs() -> None:
    field = MeanField(Rates(0.7, 0.5, 1.0, 0.8), 3)
    assert field.trajectory(0.43, 2)[0].tolist() == [0.43, 0.43]
    # Started on Y = 0 instead, the very same accuracy would not recover.
    z, y = 0.43, 0.0
    for _ in range(500):
        z, y = (float(x) for x in field.step(z, y))
    assert y < 0.01 and field.trajectory(0.43, 500)[-1, 1] > 0.99


def test_recovery_time_is_the_first_correct_majority() -> None:
    field = MeanField(Rates(0.2, 0.5, 1.0, 0.8), 3)
    path = field.trajectory(0.05, 200)[:, 1]
    assert field.recovery_time(0.05) == int(np.argmax(path > 0.5))
    assert field.recovery_time(0.7) == 0 and field.recovery_time(0.0) is None
    # ln(1/p) / ln(lambda1), up to a constant
    gap = field.recovery_time(1e-12) - field.recovery_time(1e-6)  # type: ignore[operator]
    assert gap == pytest.approx(math.log(1e6) / math.log(field.growth_rate), abs=1.01)


@pytest.mark.parametrize("q", [0, -1, 2.5, math.nan, "3", None, True, -INF])
def test_q_out_of_range(q: object) -> None:
    with pytest.raises(UsageError, match=r"q|observed"):
        thresholds(0.5, 1.0, 0.8, q)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, INF, "0.5"])
def test_rates_and_starts_out_of_range(bad: object) -> None:
    for place in range(4):
        values: list[object] = [0.5] * 4
        values[place] = bad
        with pytest.raises(UsageError, match="from 0 to 1"):
            separatrix(*values, observed=3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="from 0 to 1"):
        MeanField(Rates(0, 0, 0, 0), 3).trajectory(bad, 3)  # type: ignore[arg-type]


def test_import_is_light() -> None:
    code = (
        "import sys, abilene.theory.meanfield, abilene.theory.thresholds, abilene.theory.chain, "
        "abilene.theory.agents, abilene.theory.graphs; "
        "print([m for m in ('numba', 'scipy', 'networkx', 'xarray', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
