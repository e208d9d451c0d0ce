"""Brute-force posteriors and a small team simulator, written without the package's estimators.

They are slow and plain on purpose: each follows the printed formula and shares no code with what it checks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_simpson
from scipy.special import betaln, expit

Floats = NDArray[np.float64]

PHI = np.logspace(np.log10(0.5), 4.0, 60)


@dataclass(frozen=True)
class Moments:
    mean: float
    sd: float
    lower: float
    median: float
    upper: float


def _beta_binomial_log(theta: Floats, rest: Floats, k: NDArray[np.int64], n: NDArray[np.int64]) -> Floats:
    """Log likelihood at (theta, phi) by betaln; `rest` is 1 - theta, given apart to be exact near 1."""
    alpha, beta = theta[:, None] * PHI, rest[:, None] * PHI
    total = np.zeros_like(alpha)
    pairs, repeats = np.unique(np.stack([k, n]), axis=1, return_counts=True)
    for (ki, ni), repeat in zip(pairs.T, repeats, strict=True):
        total += repeat * (betaln(alpha + ki, beta + (ni - ki)) - betaln(alpha, beta))
    return total


def rate_by_logit(k: list[int], n: list[int], *, points: int = 3000) -> Moments:
    """Beta-Binomial posterior by the trapezoid rule on logit(theta), which converges exponentially.

    A first, rough pass finds the stretch of the axis on which the posterior is above e^-45 of its maximum.
    """
    kk, nn = np.asarray(k), np.asarray(n)

    def log_posterior(t: Floats) -> Floats:
        theta, rest = expit(t), expit(-t)
        return _beta_binomial_log(theta, rest, kk, nn) + np.log(theta * rest)[:, None]

    rough = np.linspace(-50.0, 50.0, 1001)
    height = log_posterior(rough).max(axis=1)
    felt = rough[height > height.max() - 45.0]
    t = np.linspace(felt[0] - 0.1, felt[-1] + 0.1, points)
    log_p = log_posterior(t)
    p = np.exp(log_p - log_p.max()).sum(axis=1)
    p /= p.sum()
    theta = expit(t)
    mean = float(p @ theta)
    sd = float(np.sqrt(p @ (theta - mean) ** 2))
    cdf = cumulative_simpson(p, initial=0.0)
    inner = (cdf > 1e-6) & (cdf < 1.0 - 1e-6)
    limits = expit(np.interp([0.025, 0.5, 0.975], cdf[inner], t[inner])).tolist()
    return Moments(mean, sd, *limits)


def rate_by_grid(k: list[int], n: list[int], points: int = 401) -> Moments:
    """The paper's plain grid, edges as limits: 1 if only the implied outcome occurred, else 0."""
    theta = np.linspace(0.0, 1.0, points)
    kk, nn = np.asarray(k), np.asarray(n)
    log_l = np.full((points, PHI.size), -np.inf)
    log_l[1:-1] = _beta_binomial_log(theta[1:-1], 1.0 - theta[1:-1], kk, nn)
    if not kk.any():
        log_l[0] = 0.0
    if (kk == nn).all():
        log_l[-1] = 0.0
    p = np.exp(log_l - log_l.max()).sum(axis=1)
    p /= p.sum()
    mean = float(p @ theta)
    cdf = p.cumsum()
    limits = [float(theta[np.searchsorted(cdf, q)]) for q in (0.025, 0.5, 0.975)]
    return Moments(mean, float(np.sqrt(p @ (theta - mean) ** 2)), *limits)


@dataclass(frozen=True)
class FlowMoments:
    u: Moments
    v: Moments
    gamma: Moments


def _weighted(x: Floats, p: Floats) -> Moments:
    order = np.argsort(x, kind="stable")
    x, p = x[order], p[order]
    mean = float(p @ x)
    cdf = p.cumsum()
    limits = [float(x[np.searchsorted(cdf, q)]) for q in (0.025, 0.5, 0.975)]
    return Moments(mean, float(np.sqrt(p @ (x - mean) ** 2)), *limits)


def flow_by_grid(
    enters_correct: NDArray[np.bool_],
    dissent: Floats,
    changed: NDArray[np.bool_],
    *,
    points: int = 401,
    power: float = 1.0,
) -> FlowMoments:
    """The (u, v) posterior on a full square grid, row by row, points with u + v > 1 struck out."""
    axis = np.linspace(0.0, 1.0, points)
    log_p = np.zeros((points, points))
    with np.errstate(divide="ignore"):
        for correct, d, x in zip(enters_correct, dissent, changed, strict=True):
            rate = (axis[None, :] if correct else axis[:, None]) * d
            log_p = log_p + power * (np.log(rate) if x else np.log(1.0 - rate))
    i, j = np.indices((points, points))
    log_p[i + j > points - 1] = -np.inf
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    # Differences in whole steps, so that equal values of gamma are equal numbers.
    gamma = ((i - j) / (points - 1)).ravel()
    return FlowMoments(
        _weighted(axis[i].ravel(), p.ravel()),
        _weighted(axis[j].ravel(), p.ravel()),
        _weighted(gamma, p.ravel()),
    )


@dataclass(frozen=True)
class Log:
    """What a log of teams yields for the estimators; arrays of `setting_posterior`."""

    k_c: NDArray[np.int64]
    n_c: NDArray[np.int64]
    k_a: NDArray[np.int64]
    task: NDArray[np.int64]
    enters_correct: NDArray[np.bool_]
    dissent: Floats
    changed: NDArray[np.bool_]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return dict(self.__dict__)


def simulate(
    rng: np.random.Generator,
    *,
    tasks: int,
    c: float,
    a: float,
    rho: float,
    r: float,
    p: float | Floats = 0.4,
    size: int = 5,
    rounds: int = 3,
    concentration: float | None = None,
    count_withheld: bool = False,
) -> Log:
    """Binary teams on a complete graph, and what an observer of private and public answers counts.

    `concentration`: each task has its own c and a, Beta-distributed around the given ones. `count_withheld`:
    the mistake of letting withheld rows into the correction rows.
    """

    def per_task(rate: float) -> Floats:
        if concentration is None or rate in (0.0, 1.0):
            return np.full(tasks, rate)
        return rng.beta(rate * concentration, (1 - rate) * concentration, tasks)

    c_task, a_task = per_task(c)[:, None], per_task(a)[:, None]
    belief = rng.random((tasks, size)) < np.broadcast_to(np.asarray(p), (tasks,))[:, None]
    statement = belief.copy()
    k_c, n_c, k_a = (np.zeros(tasks, dtype=np.int64) for _ in range(3))
    rows: list[tuple[NDArray[np.generic], ...]] = []
    who = np.broadcast_to(np.arange(tasks)[:, None], (tasks, size))
    for _ in range(rounds):
        seen = statement.sum(axis=1, keepdims=True) - statement
        others = size - 1
        majority, tie = seen * 2 > others, seen * 2 == others
        d = np.where(belief, others - seen, seen) / others
        opportunity = ~tie & (majority != belief)
        withheld = opportunity & (rng.random(belief.shape) < c_task)
        internalized = withheld & (rng.random(belief.shape) < a_task)
        reconsiders = ~withheld & (rng.random(belief.shape) < rho * d)
        lands = rng.random(belief.shape) < r
        new = np.where(internalized, majority, np.where(reconsiders, lands, belief))
        statement = np.where(withheld, majority, belief)
        n_c += opportunity.sum(axis=1)
        k_c += withheld.sum(axis=1)
        k_a += internalized.sum(axis=1)
        used = (d > 0) & (count_withheld | ~withheld)
        rows.append((who[used], belief[used], d[used], (new != belief)[used]))
        belief = new
    task, enters, d, changed = (np.concatenate(part) for part in zip(*rows, strict=True))
    return Log(k_c, n_c, k_a, task, enters, d, changed)
