"""Accuracy before and after the discussion, and the gain, with paired inference by task.

The vote is the plurality of round 0, the discussion the plurality of the final statements; a tie is
incorrect. Both belong to the same discussion, so the gain is a paired difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from abilene.errors import UsageError
from abilene.seeds import child_rng

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_Z = 1.959963984540054  # 97.5 % quantile of the standard normal


def wilson(k: int, n: int) -> tuple[float, float] | None:
    """Wilson's 95 % interval of a proportion.

    Parameters
    ----------
    k, n : int
        Successes and trials, 0 <= k <= n.

    Returns
    -------
    (float, float) or None
        Lower and upper limit; the lower is exactly 0 when k = 0, the upper exactly 1 when k = n. None when
        n = 0.

    Raises
    ------
    UsageError
        k is not between 0 and n.

    Examples
    --------
    >>> lower, upper = wilson(0, 10)
    >>> lower, round(upper, 4)
    (0.0, 0.2775)
    >>> wilson(0, 0) is None
    True
    """
    if not 0 <= k <= n:
        raise UsageError(f"A proportion needs 0 <= k <= n, found k = {k}, n = {n}.")
    if n == 0:
        return None
    p, z2 = k / n, _Z * _Z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * float(np.sqrt(p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return (0.0 if k == 0 else centre - half, 1.0 if k == n else centre + half)


def paired_score(wins: float, losses: float, n: float) -> tuple[float, float]:
    """Tango's 95 % score interval of a paired difference of proportions.

    It does not shrink to a point when no pair, or every pair, is discordant: with no discordant pair among n
    the limits are -z^2/(n + z^2) and z^2/(n + z^2).

    Parameters
    ----------
    wins, losses : float
        Pairs that turned from incorrect to correct, and from correct to incorrect; fractions are allowed.
    n : float
        Pairs, above 0.

    Notes
    -----
    Tango, Statistics in Medicine 17 (1998) 891: the limits are the differences delta at which
    (b - c - n delta)^2 = z^2 n (2 q + delta (1 - delta)), q the restricted estimate of the share of losses.

    Examples
    --------
    >>> lower, upper = paired_score(0, 0, 30)
    >>> round(lower, 4), round(upper, 4)
    (-0.1135, 0.1135)
    """

    def excess(delta: float) -> float:
        """Squared score minus z^2, multiplied by its denominator."""
        b = -wins - losses + (2 * n - wins + losses) * delta
        root = np.sqrt(max(b * b + 8 * n * losses * delta * (1 - delta), 0.0))
        q = (root - b) / (4 * n)
        return float((wins - losses - n * delta) ** 2 - _Z**2 * n * (2 * q + delta * (1 - delta)))

    def limit(inside: float, outside: float) -> float:
        # The excess is negative at the estimate and positive beyond the limit.
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if excess(middle) <= 0.0 else (inside, middle)
        return inside

    estimate = (wins - losses) / n
    lower = -1.0 if losses == n else limit(estimate, -1.0)
    upper = 1.0 if wins == n else limit(estimate, 1.0)
    return lower, upper


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Share of discussions whose plurality is correct.

    Attributes
    ----------
    mean, lower, upper : float or None
        The share and its Wilson 95 % interval; None when there are no discussions.
    task_lower, task_upper : float or None
        The 95 % interval over resampled tasks; None when it says nothing (one task, or all tasks alike).
    """

    mean: float | None = None
    lower: float | None = None
    upper: float | None = None
    task_lower: float | None = None
    task_upper: float | None = None


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Accuracy of the discussion minus that of the vote; see `paired_gain`.

    Attributes
    ----------
    n, tasks : int
        Discussions, and the tasks they belong to.
    vote, discussion : Accuracy
        Before and after.
    mean : float or None
        The gain, in [-1, 1].
    lower, upper : float or None
        Its 95 % interval.
    interval : str or None
        How the interval was made: "bootstrap" (tasks resampled) or "score" (Tango's, where every task has the
        same gain and resampling would claim certainty).
    p_value : float or None
        Exact two-sided McNemar test of no gain.
    reason : str or None
        Why numbers are missing.
    """

    n: int
    tasks: int
    vote: Accuracy
    discussion: Accuracy
    mean: float | None = None
    lower: float | None = None
    upper: float | None = None
    interval: str | None = None
    p_value: float | None = None
    reason: str | None = None


def exact_p_value(net: Ints) -> float:
    """Two-sided p-value of no gain: the exact law under independent signs of the tasks' net gains.

    With one discussion a task this is the exact McNemar test. Several discussions of one task are one unit:
    they share its difficulty and cannot count as independent pairs.

    Parameters
    ----------
    net : ndarray of int
        Discussions won minus lost, of each task.

    Examples
    --------
    >>> exact_p_value(np.array([1, 1, 1, 0, -1]))
    0.625
    """
    sizes = np.abs(net[net != 0])
    if sizes.size == 0:
        return 1.0
    if sizes.max() == 1:
        fewer = min(int((net > 0).sum()), int((net < 0).sum()))
        return float(min(1.0, 2.0 * bdtr(fewer, sizes.size, 0.5)))
    total = int(sizes.sum())
    law = np.zeros(2 * total + 1)
    law[total] = 1.0
    for size in sizes:
        law = (np.roll(law, size) + np.roll(law, -size)) / 2.0
    reached = np.abs(np.arange(-total, total + 1)) >= abs(int(net.sum()))
    return float(min(1.0, law[reached].sum()))


def _resample(totals: Ints, bootstraps: int, rng: np.random.Generator) -> Ints:
    """Sums of rows resampled with replacement; equal rows are drawn together, by their number."""
    kinds, repeats = np.unique(totals, axis=0, return_counts=True)
    drawn = rng.multinomial(totals.shape[0], repeats / totals.shape[0], size=bootstraps)
    return np.asarray(drawn @ kinds)


def _percentiles(values: Floats) -> tuple[float, float] | None:
    if float(np.ptp(values)) < 1e-12:
        return None
    lower, upper = np.quantile(values, [0.025, 0.975])
    return float(lower), float(upper)


def paired_gain(
    vote_correct: ArrayLike,
    discussion_correct: ArrayLike,
    cluster: ArrayLike | None = None,
    *,
    seed: int = 0,
    bootstraps: int = 2000,
) -> Gain:
    """Accuracy of vote and discussion, and the gain with its interval and its exact test.

    Parameters
    ----------
    vote_correct, discussion_correct : array_like of bool, shape (discussions,)
        Whether the plurality of round 0, and of the final statements, is correct. Discussions in which
        either is unknown must be left out: unknown is not incorrect.
    cluster : array_like, shape (discussions,), optional
        Label of the task of each discussion; by default each discussion is a task of its own.
    seed : int
        Root seed of the resampling.
    bootstraps : int
        Number of resamplings of the tasks.

    Returns
    -------
    Gain
        Without discussions all numbers are None. With one task the gain is given without an interval. Where
        every task has the same gain the interval is the score interval for as many pairs as there are tasks,
        since resampling would return a single point.

    Raises
    ------
    UsageError
        Lengths differ, or values are not true or false.

    Examples
    --------
    >>> gain = paired_gain([False] * 20 + [True] * 10, [True] * 12 + [False] * 8 + [True] * 10)
    >>> gain.mean, round(gain.p_value, 6)
    (0.4, 0.000488)
    >>> same = paired_gain([True] * 30, [True] * 30)
    >>> same.mean, round(same.upper, 3), same.interval
    (0.0, 0.114, 'score')
    """
    before, after = np.asarray(vote_correct), np.asarray(discussion_correct)
    for name, array in (("vote_correct", before), ("discussion_correct", after)):
        if array.ndim != 1 or (array.size and not np.isin(array, (False, True)).all()):
            raise UsageError(f"{name} must be a flat array of true and false.")
    n = before.size
    place = np.arange(n) if cluster is None else np.unique(np.asarray(cluster), return_inverse=True)[1]
    if not before.shape == after.shape == place.shape:
        raise UsageError("vote_correct, discussion_correct and cluster must have one length.")
    if n == 0:
        return Gain(n=0, tasks=0, vote=Accuracy(), discussion=Accuracy(), reason="no discussions")

    tasks = int(place.max()) + 1
    before, after = before.astype(np.int64), after.astype(np.int64)
    totals = np.stack(
        [np.bincount(place, w, tasks).astype(np.int64) for w in (before, after, np.ones(n))], axis=1
    )
    mean = float((after - before).mean())
    vote_limits = discussion_limits = limits = None
    interval = reason = None
    if tasks == 1:
        reason = "one task: nothing is known about how tasks differ"
    else:
        sums = _resample(totals, bootstraps, child_rng(seed, "gain"))
        vote_limits = _percentiles(sums[:, 0] / sums[:, 2])
        discussion_limits = _percentiles(sums[:, 1] / sums[:, 2])
        limits, interval = _percentiles((sums[:, 1] - sums[:, 0]) / sums[:, 2]), "bootstrap"
        shares = (totals[:, 1] - totals[:, 0]) / totals[:, 2]
        if np.ptp(shares) < 1e-12 or limits is None:
            won = tasks * float(((after == 1) & (before == 0)).mean())
            lost = tasks * float(((after == 0) & (before == 1)).mean())
            limits, interval = paired_score(won, lost, tasks), "score"
    vote, discussion = (
        _accuracy(int(x.sum()), n, task_limits)
        for x, task_limits in ((before, vote_limits), (after, discussion_limits))
    )
    return Gain(
        n=n,
        tasks=tasks,
        vote=vote,
        discussion=discussion,
        mean=mean,
        lower=limits[0] if limits else None,
        upper=limits[1] if limits else None,
        interval=interval,
        p_value=exact_p_value(totals[:, 1] - totals[:, 0]),
        reason=reason,
    )


def _accuracy(k: int, n: int, task_limits: tuple[float, float] | None) -> Accuracy:
    limits = wilson(k, n)
    assert limits is not None
    task_lower, task_upper = task_limits or (None, None)
    return Accuracy(
        mean=k / n, lower=limits[0], upper=limits[1], task_lower=task_lower, task_upper=task_upper
    )
