"""Flows u and v against a full square grid worked out row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from _oracle_inference import Log, flow_by_grid, simulate
from scipy import stats

from abilene.errors import UsageError
from abilene.inference import FlowPosterior, correction, flow_posterior

STEP = 1 / 400


def flows(log: Log, **options: Any) -> FlowPosterior:
    return flow_posterior(log.task, log.enters_correct, log.dissent, log.changed, **options)


def example(seed: int = 1, tasks: int = 60, **rates: float) -> Log:
    point = {"c": 0.3, "a": 0.5, "rho": 0.8, "r": 0.8} | rates
    return simulate(np.random.default_rng(seed), tasks=tasks, **point)  # type: ignore[arg-type]


CASES = {
    "usual": example(),
    "rho = 1, against the edge of the triangle": example(2, rho=1.0),
    "seldom": example(3, rho=0.25, r=0.5),
    "mostly wrong": example(4, r=0.2),
    "one task": example(5, tasks=1, c=0.0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("temper", [True, False])
def test_moments_agree_with_the_square_grid(name: str, temper: bool) -> None:
    log = CASES[name]
    found = flows(log, temper=temper)
    expected = flow_by_grid(log.enters_correct, log.dissent, log.changed, power=found.temper)
    for quantity, reference in (
        (found.u, expected.u),
        (found.v, expected.v),
        (found.net_correction, expected.gamma),
    ):
        assert quantity.identified
        assert quantity.mean == pytest.approx(reference.mean, abs=1e-9)
        assert quantity.sd == pytest.approx(reference.sd, abs=1e-9)
        # Limits are placed inside the cell that holds them: at most one step from the grid's own.
        for limit in ("lower", "median", "upper"):
            assert getattr(quantity, limit) == pytest.approx(getattr(reference, limit), abs=STEP)


def test_the_tempered_sd_equals_the_spread_over_resampled_tasks() -> None:
    log = example(1, tasks=120)
    found = flows(log, n_tasks=120)
    assert 0.01 < found.temper < 1.0
    assert found.net_correction.sd == pytest.approx(found.bootstrap_sd, rel=1e-8)
    untempered = flows(log, temper=False)
    assert untempered.net_correction.sd < (found.bootstrap_sd or 0.0)  # the equation is not trivially met


def test_the_spread_agrees_with_plain_resampling() -> None:
    """1,500 resamplings each, so the ratio has sd 2.6 %; 10 % is 3.9 of them: false alarm 1e-4, seeds fixed.

    Half the tasks left out of the resampling (the mutant) must fall outside.
    """
    log = example(6, tasks=30)
    rng = np.random.default_rng(0)
    axis = np.linspace(0.0, 1.0, 401)
    inside = np.add.outer(np.arange(401), np.arange(401)) <= 400
    gamma = np.subtract.outer(axis, axis)

    def spread(tasks: int) -> float:
        terms = np.zeros((tasks, 2, 401))
        with np.errstate(divide="ignore"):
            for t, correct, d, x in zip(log.task, log.enters_correct, log.dissent, log.changed, strict=True):
                if t < tasks:
                    terms[t, int(correct)] += np.log(np.maximum(axis * d if x else 1 - axis * d, 1e-300))
        means = []
        for _ in range(1500):
            u, v = terms[rng.integers(0, tasks, tasks)].sum(axis=0)
            p = np.outer(np.exp(u - u.max()), np.exp(v - v.max())) * inside
            means.append(float((p * gamma).sum() / p.sum()))
        return float(np.std(means))

    found = flows(log, bootstraps=1500, n_tasks=30)
    assert found.bootstrap_sd == pytest.approx(spread(30), rel=0.10)
    assert found.bootstrap_sd != pytest.approx(spread(15), rel=0.10)


def contrary(rows: int, tasks: int) -> Log:
    """Agents that mostly turn against themselves, whichever answer they hold: u + v far above 1."""
    rng = np.random.default_rng(9)
    return Log(
        *(np.zeros(tasks, dtype=np.int64),) * 3,
        task=rng.integers(0, tasks, rows),
        enters_correct=rng.random(rows) < 0.5,
        dissent=np.ones(rows),
        changed=rng.random(rows) < 0.9,
    )


def split(rows: int) -> Log:
    """Ten tasks, five in which every agent turns to the truth and five in which every agent leaves it."""
    place = np.arange(rows)
    correct = place // 10 % 2 == 0
    return Log(
        *(np.zeros(10, dtype=np.int64),) * 3,
        task=place % 10,
        enters_correct=correct,
        dissent=np.full(rows, 0.5),
        changed=(place % 2 == 0) != correct,
    )


@pytest.mark.parametrize(
    "log", [CASES["usual"], contrary(400, 20), contrary(6000, 20), split(400), split(40_000)]
)
def test_mean_of_each_resample_agrees_with_the_square_grid(log: Log) -> None:
    """Resample by resample, also where the likelihoods of resamples lie far apart or leave the triangle."""
    tasks, times = log.k_c.size, 40
    sides = [
        correction._group(log.task[pick], tasks, log.dissent[pick], log.changed[pick])
        for pick in (~log.enters_correct, log.enters_correct)
    ]
    grid = np.linspace(0.0, 1.0, 401)
    found = correction._bootstrap_means(grid, *sides, tasks, times, np.random.default_rng(5))

    terms = np.zeros((tasks, 2, 401))
    with np.errstate(divide="ignore"):
        for t, correct, d, x in zip(log.task, log.enters_correct, log.dissent, log.changed, strict=True):
            terms[t, int(correct)] += np.log(grid * d if x else 1 - grid * d)
    inside = np.add.outer(np.arange(401), np.arange(401)) <= 400
    gamma = np.subtract.outer(grid, grid)
    expected = []
    for picked in np.random.default_rng(5).integers(0, tasks, (times, tasks)):
        u, v = terms[picked].sum(axis=0)
        log_p = np.where(inside, u[:, None] + v[None, :], -np.inf)
        p = np.exp(log_p - log_p.max())
        expected.append(float((p * gamma).sum() / p.sum()))
    assert np.std(expected) > 1e-4
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_copies_of_rows_within_a_task_carry_no_information() -> None:
    """Every row four times over: resampling sees through it, so the power falls to a quarter."""
    log = example(1, tasks=120)
    once = flows(log, bootstraps=2000)
    copied = replace(
        log,
        task=np.repeat(log.task, 4),
        enters_correct=np.repeat(log.enters_correct, 4),
        dissent=np.repeat(log.dissent, 4),
        changed=np.repeat(log.changed, 4),
    )
    four = flows(copied, bootstraps=2000)
    assert once.temper < 1.0
    assert four.temper == pytest.approx(once.temper / 4, rel=0.05)
    assert four.net_correction.sd == pytest.approx(once.net_correction.sd, rel=0.03)


def test_power_stays_within_its_range() -> None:
    log = example(7, tasks=40)
    assert flows(log, temper=False).temper == 1.0
    assert flows(log, temper=False).bootstrap_sd is None
    assert flows(CASES["one task"], n_tasks=1).temper == 1.0
    # 2 tasks, 20,000 copies: nearly all information is copies.
    two = Log(
        *(np.zeros(2, dtype=np.int64),) * 3,
        task=np.repeat([0, 0, 1, 1], 20_000),
        enters_correct=np.repeat([True, False, True, False], 20_000),
        dissent=np.full(80_000, 0.5),
        changed=np.repeat([False, True, True, False], 20_000),
    )
    assert flows(two).temper == 0.01
    # Rows spread over as many tasks, changes in strict alternation: the spread of a plain coin or less.
    n = 200
    even = flow_posterior(
        np.arange(n) // 4, np.arange(n) % 2 == 0, np.full(n, 0.5), np.arange(n) % 4 < 2, bootstraps=500
    )
    assert even.temper == 1.0


def test_nothing_changes_leaves_an_interval_that_starts_at_0_and_has_width() -> None:
    """With 3,000 rows at full dissent and no change, v is Beta(1, 3001), the far edge aside."""
    n = 3000
    rows = np.arange(2 * n)
    found = flow_posterior(rows, rows < n, np.ones(2 * n), rows >= 1.3 * n, temper=False)
    law = stats.beta(1, n + 1)
    assert found.v.lower == 0.0
    assert found.v.upper == pytest.approx(law.ppf(0.975), abs=0.15 * law.std())
    assert found.v.mean == pytest.approx(law.mean(), abs=0.15 * law.std())
    assert found.u.mean == pytest.approx(0.7, abs=1e-3)
    assert found.net_correction.lower < found.net_correction.upper


@pytest.mark.parametrize("rows", [20, 200, 5000, 100_000])
def test_agents_that_always_turn_against_themselves(rows: int) -> None:
    """The data call for u + v = 2; the triangle holds them to u + v = 1, by symmetry at u = v = 1/2.

    On that edge the likelihood is (u v)^rows, so gamma has variance 1 / (2 rows + 3) (a Beta law), up to the
    little room below the edge. Scaled carelessly, every product underflows from about 500 rows on.
    """
    place = np.arange(2 * rows)
    found = flow_posterior(place % 50, place < rows, np.ones(2 * rows), np.ones(2 * rows, dtype=bool))
    assert found.net_correction.mean == pytest.approx(0.0, abs=1e-9)
    assert found.u.mean == pytest.approx(0.5, abs=0.02)
    assert found.net_correction.sd == pytest.approx((2 * rows + 3) ** -0.5, rel=0.05)
    u, v = found.draw(np.random.default_rng(0), 1000)
    assert bool((u + v <= 1.0 + 1e-12).all()) and float((u + v).min()) > 0.6


def test_draws_match_the_grid_and_stay_in_the_triangle() -> None:
    """20,000 draws; each moment within 4.5 standard errors: false alarm about 3e-5, seed fixed."""
    log = CASES["rho = 1, against the edge of the triangle"]
    found = flows(log)
    u, v = found.draw(np.random.default_rng(1), 20_000)
    assert bool((u + v <= 1.0 + 1e-12).all())
    for draws, quantity in ((u, found.u), (v, found.v), (u - v, found.net_correction)):
        assert quantity.sd is not None
        assert draws.mean() == pytest.approx(quantity.mean, abs=4.5 * quantity.sd / np.sqrt(20_000))
        assert draws.std() == pytest.approx(quantity.sd, rel=4.5 / np.sqrt(40_000) * 1.2)
    # The edge rho = 1 ties u and v together: independent draws (the mutant) would miss the sd of gamma.
    independent = np.hypot(found.u.sd or 0.0, found.v.sd or 0.0)
    assert independent != pytest.approx(found.net_correction.sd, rel=4.5 / np.sqrt(40_000) * 1.2)


def test_withheld_rows_would_drag_gamma_down() -> None:
    """True gamma .48; rows in which the agent withheld are the mutant. 3,000 tasks: sd of gamma about .01."""
    for c, ceiling in ((0.2, 0.45), (0.5, 0.36), (0.8, 0.26)):
        right = flows(example(8, tasks=3000, c=c), temper=False).net_correction.mean
        point = {"c": c, "a": 0.5, "rho": 0.8, "r": 0.8}
        log = simulate(np.random.default_rng(8), tasks=3000, count_withheld=True, **point)
        mutant = flows(log, temper=False).net_correction.mean
        assert right == pytest.approx(0.48, abs=0.035)
        assert mutant is not None and mutant < ceiling


def test_order_and_kind_of_labels_do_not_matter() -> None:
    log = CASES["usual"]
    order = np.random.default_rng(0).permutation(log.task.size)
    names = np.array([f"task {t:03d}" for t in log.task])
    shuffled = flow_posterior(
        names[order], log.enters_correct[order], log.dissent[order], log.changed[order], n_tasks=60
    )
    assert shuffled == flows(log, n_tasks=60)


def test_tasks_without_rows_are_resampled_too() -> None:
    log = CASES["usual"]
    assert flows(log, n_tasks=60) != flows(log, n_tasks=90)
    with pytest.raises(UsageError, match="n_tasks"):
        flows(log, n_tasks=3)


def test_missing_direction_is_not_identified() -> None:
    log = CASES["usual"]
    for direction, missing, known in ((True, "u", "v"), (False, "v", "u")):
        keep = log.enters_correct == direction
        found = flow_posterior(log.task[keep], log.enters_correct[keep], log.dissent[keep], log.changed[keep])
        lost = getattr(found, missing)
        assert not lost.identified and lost.mean is None and "no rows" in lost.reason
        assert not found.net_correction.identified and found.net_correction.lower is None
        assert getattr(found, known).identified
        assert found.temper == 1.0
        with pytest.raises(UsageError, match="not identified"):
            found.draw(np.random.default_rng(0), 1)


def test_no_rows_at_all() -> None:
    found = flow_posterior([], [], [], [])
    assert not (found.u.identified or found.v.identified or found.net_correction.identified)
    assert "no correction rows" in str(found.net_correction.reason)


@pytest.mark.parametrize(
    ("dissent", "changed"),
    [([0.0], [True]), ([1.2], [True]), ([float("nan")], [True]), ([0.5], [True, False])],
)
def test_bad_rows_are_refused(dissent: list[float], changed: list[bool]) -> None:
    with pytest.raises(UsageError):
        flow_posterior([0], [True], dissent, changed)
