"""The kernel against a second writing of the rules, and the K-ary rule on cases worked out by hand."""

import itertools
import math

import numpy as np
import pytest
from _oracle_theory import literal, random_rates

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.theory import agents, chain, crowd, graphs, meanfield
from abilene.theory.crowd import crowd_outcomes
from abilene.theory.kernel import OUTCOMES, binary_outcomes, outcomes, plurality


@pytest.mark.parametrize("q", range(8))
def test_binary_table_is_the_rule(q: int) -> None:
    rng = np.random.default_rng(q)
    corners = [Rates(*map(float, x)) for x in itertools.product((0, 1), repeat=4)]
    for rates in [*corners, *(random_rates(rng) for _ in range(20))]:
        table = binary_outcomes(rates, q)
        assert table.shape == (2, q + 1, 4)
        for z, k in itertools.product((0, 1), range(q + 1)):
            expected = literal(z, [1] * k + [0] * (q - k), rates)
            found = [expected.get(o, 0.0) for o in OUTCOMES]
            np.testing.assert_allclose(table[z, k], found, atol=1e-15)


@pytest.mark.parametrize("q", range(6))
def test_two_answers_equal_the_binary_table(q: int) -> None:
    rng = np.random.default_rng(q)
    for _ in range(20):
        rates = random_rates(rng)
        table = binary_outcomes(rates, q)
        for z in (0, 1):
            for seen in itertools.product((0, 1), repeat=q):
                found = {(s, b): p for s, b, p in outcomes(z, seen, 1, rates)}
                for j, o in enumerate(OUTCOMES):
                    assert found.get(o, 0.0) == pytest.approx(table[z, sum(seen), j], abs=1e-15)


def test_a_tie_at_the_top_is_no_majority() -> None:
    assert plurality(["x", "x", "y", "y", "z"]) is None
    assert plurality(["x", "x", "y", "z"]) == "x"
    # Three different wrong answers bind nobody: the agent speaks and reconsiders at full dissent.
    found = {(s, b): p for s, b, p in outcomes("t", ["u", "v", "w"], "t", Rates(1, 1, 0.6, 0.5))}
    assert found == pytest.approx({("t", "t"): 0.4 + 0.3, ("t", "u"): 0.1, ("t", "v"): 0.1, ("t", "w"): 0.1})


def test_failed_reconsideration_draws_a_distinct_visible_wrong_answer() -> None:
    # Majority u, belief v: c=0 so it speaks; d = 3/4 (all but one v differ); wrong and visible: u (twice) and v.
    found = {(s, b): p for s, b, p in outcomes("v", ["u", "u", "v", "t"], "t", Rates(0, 0, 1, 0.2))}
    assert found == pytest.approx({("v", "v"): 0.25 + 0.3, ("v", "t"): 0.15, ("v", "u"): 0.3})


def test_failed_reconsideration_without_a_visible_wrong_answer_keeps_the_belief() -> None:
    found = {(s, b): p for s, b, p in outcomes("v", ["t", "t"], "t", Rates(0, 0, 1, 0.3))}
    assert found == pytest.approx({("v", "v"): 0.7, ("v", "t"): 0.3})


def test_withheld_answers_are_internalized_without_reconsideration() -> None:
    found = {(s, b): p for s, b, p in outcomes("t", ["u", "u", "v"], "t", Rates(1, 0.25, 1, 1))}
    assert found == pytest.approx({("u", "u"): 0.25, ("u", "t"): 0.75})


@pytest.mark.parametrize(("n", "q"), [(5, "complete"), (6, 1), (6, 3), (7, 4), (9, 8)])
def test_crowd_table_averages_the_rule_over_who_is_seen(n: int, q: object) -> None:
    rates = Rates(0.3, 0.6, 0.8, 0.7)
    table = crowd_outcomes(rates, n, q)  # type: ignore[arg-type]
    size = n - 1 if q == "complete" else q
    for z, m in itertools.product((0, 1), range(n)):
        others = [1] * m + [0] * (n - 1 - m)
        views = list(itertools.combinations(others, size))  # type: ignore[arg-type]
        expected = np.zeros(4)
        for view in views:
            one = literal(z, view, rates)
            expected += [one.get(o, 0.0) / len(views) for o in OUTCOMES]
        np.testing.assert_allclose(table[z, m], expected, atol=1e-14)


@pytest.mark.parametrize(
    ("n", "q"), [(5, 5), (5, 0), (5, -1), (5, 2.5), (1, 1), (0, "complete"), (5, "all"), (True, 1)]
)
def test_a_crowd_that_cannot_be(n: object, q: object) -> None:
    with pytest.raises(UsageError):
        crowd_outcomes(Rates(0, 0, 0, 0), n, q)  # type: ignore[arg-type]


def test_large_crowds_are_quick_and_agree_with_exact_arithmetic() -> None:
    from fractions import Fraction

    size, q = 600, 100
    found = crowd._hypergeometric(size, q)
    for m in (0, 1, 37, 300, 599, 600):
        for k in (0, 1, 6, 50, 99, 100):
            exact = Fraction(math.comb(m, k) * math.comb(size - m, q - k), math.comb(size, q))
            assert found[m, k] == pytest.approx(float(exact), rel=1e-10, abs=1e-300)
    assert crowd_outcomes(Rates(0.3, 0.5, 1, 0.8), 5000).shape == (2, 5000, 4)


def test_everything_derives_from_the_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another rule put into the kernel's place, mean field, chain, enumeration and simulation all follow it."""

    def results(rates: Rates) -> list[float]:
        field = meanfield.MeanField(rates, 3)
        kinds = [rates, Rates(0.0, 0.0, 0.0, 0.0)] * 2
        graph = {0: [1, 2], 1: [0, 3], 2: [3], 3: [0]}
        return [
            *(float(x) for x in field.step(0.4, 0.3)),
            *(float(x) for x in meanfield.MeanField(rates, math.inf).step(0.4, 0.3)),
            float(field.pull(0.3)),
            chain.solve(5, 3, rates, 3).start(2).correct,
            graphs.small_graph(graph, rates, 2, beliefs=[1, 0, 0, 1]).beliefs[-1, 0],
            agents.simulate(6, 3, rates, 2, start=2, replicates=200).beliefs[-1],
            agents.simulate(4, 3, kinds, start=2, replicates=200).beliefs[-1],
            agents.simulate(None, 3, rates, graph, start=2, replicates=200).beliefs[-1],
        ]

    def other(rates: Rates) -> Rates:
        return Rates(rates.a, rates.c, rates.r, rates.rho)

    rates = Rates(0.7, 0.2, 0.9, 0.6)
    plain, expected = results(rates), results(other(rates))
    assert all(abs(x - y) > 1e-4 for x, y in zip(plain, expected, strict=True))

    def swapped(rates: Rates, observed: int) -> np.ndarray:
        # the zealots of the mixed team are their own image
        return binary_outcomes(other(rates), observed)

    for module in (meanfield, crowd, graphs, agents):
        monkeypatch.setattr(module, "binary_outcomes", swapped)
    assert results(rates) == expected
