"""Means over discussions with intervals over tasks: accuracies, gains and gaps.

A discussion's score is a fraction (correct, answered). Tasks are what is resampled and tested: where a task occurs
more than once, its discussions are one unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, lcm

import numpy as np
from numpy.typing import NDArray

from abilene.analysis.gain import exact_p_value, paired_gain, paired_score, wilson

_FINEST = 5040

Floats = NDArray[np.float64]
Key = tuple[str, int]  # task and epoch
Scores = dict[Key, tuple[int, int]]  # correct, answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An accuracy in [0, 1], or a difference of two in [-1, 1].

    Attributes
    ----------
    mean, lower, upper : float or None
        Mean and 95 % interval; None where not known, with the `reason`.
    interval : str or None
        ``bootstrap`` (tasks resampled), or ``score`` where all tasks are alike and resampling would claim certainty:
        Wilson's interval of an accuracy, Tango's of a difference, for as many trials as there are tasks.
    p_value : float or None
        Of a difference: exact two-sided test of none, under independent signs of the tasks' net differences.
    n, tasks : int
        Discussions (of a gap: tasks) and tasks behind the mean.
    reason : str or None
        Why a number is missing.
    """

    mean: float | None = None
    lower: float | None = None
    upper: float | None = None
    interval: str | None = None
    p_value: float | None = None
    n: int = 0
    tasks: int = 0
    reason: str | None = None


def accuracy(scores: Scores, rng: np.random.Generator, bootstraps: int, *, given: bool = True) -> Value:
    if not given:
        return Value(reason="no record of the full profile")
    keys = sorted(scores)
    values = np.array([scores[k][0] / scores[k][1] for k in keys])
    value, sums, counts = mean(values, [k[0] for k in keys], "no discussion has an answer")
    if value.tasks < 2:
        return value
    limits, how = bootstrap(sums, counts, rng, bootstraps), "bootstrap"
    if limits is None:
        # Between whole numbers of tasks: the wider of the two neighbors' intervals.
        k, n = float(values.mean()) * value.tasks, value.tasks
        low, high = wilson(floor(k + 1e-9), n), wilson(ceil(k - 1e-9), n)
        assert low is not None and high is not None
        limits, how = (low[0], high[1]), "score"
    return replace(value, lower=limits[0], upper=limits[1], interval=how)


def gain(
    before: Scores,
    after: Scores,
    rng: np.random.Generator,
    bootstraps: int,
) -> Value:
    keys = sorted(before.keys() & after.keys())
    pairs = [(before[k], after[k]) for k in keys]
    return difference(pairs, [k[0] for k in keys], rng, bootstraps, "no discussion has both votes")


def verdict_gain(before: Scores, after: Scores, seed: int, bootstraps: int) -> Value:
    """Gain of the majority, the same numbers as in `abilene.analysis.estimate`."""
    keys = sorted(before.keys() & after.keys())
    won, task = [[bool(scores[k][0]) for k in keys] for scores in (before, after)], [k[0] for k in keys]
    gain = paired_gain(won[0], won[1], cluster=task, seed=seed, bootstraps=bootstraps)
    return Value(
        mean=gain.mean,
        lower=gain.lower,
        upper=gain.upper,
        interval=gain.interval,
        p_value=gain.p_value,
        n=gain.n,
        tasks=gain.tasks,
        reason=gain.reason if gain.n else "no discussion has both votes",
    )


def gap(
    full: Scores,
    after: Scores,
    rng: np.random.Generator,
    bootstraps: int,
    *,
    given: bool,
) -> Value:
    if not given:
        return Value(reason="no record of the full profile")
    above, reached = by_task(full), by_task(after)
    tasks = sorted(above.keys() & reached.keys())
    pairs = [(above[t], reached[t]) for t in tasks]
    return difference(pairs, tasks, rng, bootstraps, "no task has votes in both records")


def by_task(scores: Scores) -> dict[str, tuple[int, int]]:
    """Mean over the discussions of each task, as an exact fraction."""
    out: dict[str, list[tuple[int, int]]] = {}
    for (task, _), score in scores.items():
        out.setdefault(task, []).append(score)
    means = {}
    for task, several in out.items():
        whole = lcm(*(n for _, n in several))
        means[task] = (sum(k * (whole // n) for k, n in several), whole * len(several))
    return means


def difference(
    pairs: Sequence[tuple[tuple[int, int], tuple[int, int]]],
    tasks: Sequence[str],
    rng: np.random.Generator,
    bootstraps: int,
    nothing: str,
) -> Value:
    values = np.array([k1 / n1 - k0 / n0 for (k0, n0), (k1, n1) in pairs])
    value, sums, counts = mean(values, tasks, nothing)
    if not value.n:
        return value
    # The test counts in parts of a common denominator (a bounded one: large teams can lack any number of answers).
    whole = min(lcm(*(n for pair in pairs for _, n in pair)), _FINEST)
    net = np.rint(sums * whole).astype(np.int64)
    value = replace(value, p_value=exact_p_value(net // max(int(np.gcd.reduce(net)), 1)))
    if value.tasks < 2:
        return value
    limits, how = bootstrap(sums, counts, rng, bootstraps), "bootstrap"
    if limits is None:
        won, lost = (value.tasks * float(np.maximum(s * values, 0.0).mean()) for s in (1, -1))
        limits, how = paired_score(won, lost, value.tasks), "score"
    return replace(value, lower=limits[0], upper=limits[1], interval=how)


def mean(values: Floats, tasks: Sequence[str], nothing: str) -> tuple[Value, Floats, Floats]:
    """Mean over discussions, and sums and numbers of discussions by task."""
    if not values.size:
        return Value(reason=nothing), np.zeros(0), np.zeros(0)
    place = np.unique(np.asarray(tasks), return_inverse=True)[1]
    sums, counts = (np.bincount(place, w).astype(np.float64) for w in (values, np.ones(values.size)))
    reason = "one task: nothing is known about how tasks differ" if sums.size == 1 else None
    return Value(mean=float(values.mean()), n=values.size, tasks=sums.size, reason=reason), sums, counts


def bootstrap(
    sums: Floats, counts: Floats, rng: np.random.Generator, bootstraps: int
) -> tuple[float, float] | None:
    """Percentile interval of the mean over resampled tasks; None where all tasks are alike."""
    if float(np.ptp(sums / counts)) < 1e-12:
        return None
    drawn = rng.multinomial(sums.size, np.full(sums.size, 1.0 / sums.size), size=bootstraps)
    lower, upper = np.quantile((drawn @ sums) / (drawn @ counts), [0.025, 0.975])
    return (float(lower), float(upper)) if upper - lower > 1e-12 else None
