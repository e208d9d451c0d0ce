"""Posterior of the two belief flows u = rho r (wrong to correct) and v = rho (1 - r), and of gamma = u - v.

A row that enters a round with a wrong answer and sees dissent d becomes correct with probability u d; one
that enters correct becomes wrong with probability v d. The prior is uniform on u + v <= 1, that is rho <= 1.
Source: the paper's Appendix B.2, Eqs. 10 and 11.

The likelihood factorises and dissent takes few values, so it is a function of u times a function of v, each
known from a handful of counts. On the triangle i + j <= G of the grid, all sums over j are cumulative sums:
nothing of size G x G is ever formed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abilene.errors import UsageError
from abilene.inference.summary import LEVELS, Summary, unidentified
from abilene.seeds import child_rng

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_WRONG = "no rows enter a round with a wrong answer and see dissent"
NO_CORRECT = "no rows enter a round with the correct answer and see dissent"
NO_ROWS = "no correction rows: nobody saw dissent without withholding"

_GRID = 400  # intervals of the paper's grid of 401 x 401 points
_FINEST = 64  # how many times finer the grid may become
_IMPOSSIBLE = -1e30  # log of 0; finite, so that no rows times it is 0
_LOWEST_TEMPER = 0.01


@dataclass(frozen=True)
class _Direction:
    """Rows of one direction: the distinct dissents, and counts [changed, kept at each dissent] by task."""

    dissent: Floats
    by_task: Floats  # (tasks with rows, 1 + dissents)

    @property
    def total(self) -> Floats:
        return np.asarray(self.by_task.sum(axis=0))

    @property
    def any_rows(self) -> bool:
        return bool(self.dissent.size)

    def log_terms(self, grid: Floats) -> Floats:
        """Logarithms that the counts multiply: of x, then of 1 - x d for each d, along the grid."""
        inside = np.concatenate([grid[None, :], 1.0 - self.dissent[:, None] * grid])
        logs = np.full_like(inside, _IMPOSSIBLE)
        return np.asarray(np.log(inside, out=logs, where=inside > 0.0))

    def refinement(self) -> int:
        """How much finer than 401 points the grid must be for this direction (a power of 2).

        The plain grid sum is exact to 1e-8 while its step is below the posterior sd; with no change at all
        the posterior falls off from the edge like an exponential, and the sum needs a finer step to follow
        it. Without this the interval would collapse to a point.
        """
        if not self.any_rows:
            return 1
        changed, kept = self.total[0], self.total[1:]
        exposure = float(kept @ self.dissent) + changed * float(self.dissent.mean())
        x = min((changed + 1.0) / (exposure + 2.0), 1.0 - 1.0 / (exposure + 2.0))
        information = (changed + 1.0) / x**2 + float(
            (kept * self.dissent**2 / np.maximum(1.0 - x * self.dissent, 1.0 / (kept.sum() + 2.0)) ** 2).sum()
        )
        steps = 8.0 if changed == 0 or kept.sum() == 0 else 2.0
        needed = steps * np.sqrt(information) / _GRID
        return int(min(_FINEST, 2 ** max(0, np.ceil(np.log2(needed)))))


def _group(task: Ints, tasks: int, dissent: Floats, changed: NDArray[np.bool_]) -> _Direction:
    values, cell = np.unique(dissent, return_inverse=True)
    column = np.where(changed, 0, cell + 1)
    width = values.size + 1
    flat = np.bincount(task * width + column, minlength=tasks * width)
    return _Direction(values, flat.reshape(tasks, width).astype(np.float64))


@dataclass(frozen=True)
class _Triangle:
    """Posterior on the grid i + j <= G, from the two factors of the likelihood."""

    grid: Floats
    lu: Floats
    lv: Floats

    @classmethod
    def of(cls, grid: Floats, log_u: Floats, log_v: Floats, power: float = 1.0) -> _Triangle:
        """Scale the factors so that the largest product on the triangle is 1.

        Scaling each by its own maximum would let every product underflow when the data call for u + v well
        above 1. Beyond e^600 a factor is cut: only points hundreds of nats below the largest product have it.
        """
        log_u, log_v = power * log_u, power * log_v
        i = int(np.argmax(log_u + np.maximum.accumulate(log_v)[::-1]))
        j = int(np.argmax(log_v[: grid.size - i]))
        lu, lv = (np.exp(np.minimum(x - x[k], 600.0)) for x, k in ((log_u, i), (log_v, j)))
        return cls(grid, lu, lv)

    def marginals(self) -> tuple[Floats, Floats]:
        pu = self.lu * self.lv.cumsum()[::-1]
        pv = self.lv * self.lu.cumsum()[::-1]
        return pu / pu.sum(), pv / pv.sum()

    def gamma_moments(self) -> tuple[float, float]:
        """Mean and standard deviation of u - v."""
        x = self.grid
        pu, pv = self.marginals()
        mean_u, mean_v = float(pu @ x), float(pv @ x)
        du, dv = x - mean_u, x - mean_v
        # Covariance through one cumulative sum, all moments centred.
        joint = self.lu @ (self.lv.cumsum()[::-1])
        covariance = float((self.lu * du) @ (self.lv * dv).cumsum()[::-1] / joint)
        variance = float(pu @ du**2 + pv @ dv**2) - 2.0 * covariance
        return mean_u - mean_v, float(np.sqrt(max(variance, 0.0)))

    def gamma_cdf(self, k: Ints) -> Floats:
        """P(i - j <= k) for each k, through cumulative sums of lv."""
        g = self.grid.size - 1
        below = np.concatenate([[0.0], self.lv.cumsum()])
        i = np.arange(g + 1)
        # j runs from max(0, i - k) to g - i
        start = np.clip(i - k[:, None], 0, g - i + 1)
        return np.asarray((below[g - i + 1] - below[start]) @ self.lu / (below[g - i + 1] @ self.lu))


def _within_cell(step: float, p: Floats, cdf: Callable[[Ints], Floats], low: int, high: int) -> Floats:
    """Quantiles of a distribution on whole multiples of `step`, each spread evenly over its own cell."""
    lo, hi = np.full(p.shape, low - 1), np.full(p.shape, high)
    while (hi - lo > 1).any():
        mid = (lo + hi) // 2
        enough = cdf(mid) >= p
        lo, hi = np.where(enough, lo, mid), np.where(enough, mid, hi)
    f0, f1 = cdf(hi - 1), cdf(hi)
    share = np.divide(p - f0, f1 - f0, out=np.full(p.shape, 0.5), where=f1 > f0)
    return np.asarray(np.clip((hi - 0.5 + np.clip(share, 0.0, 1.0)) * step, low * step, high * step))


def _flow_summary(grid: Floats, pmf: Floats, *, never: bool) -> Summary:
    mean = float(pmf @ grid)
    padded = np.concatenate([[0.0], pmf.cumsum()])
    lower, median, upper = _within_cell(
        grid[1], LEVELS, lambda k: padded[np.clip(k + 1, 0, grid.size)] / padded[-1], 0, grid.size - 1
    ).tolist()
    sd = float(np.sqrt(pmf @ (grid - mean) ** 2))
    return Summary(
        identified=True,
        reason=None,
        mean=mean,
        median=median,
        lower=0.0 if never else lower,
        upper=upper,
        sd=sd,
    )


@dataclass(frozen=True, kw_only=True)
class FlowPosterior:
    """Joint posterior of the two flows; see `flow_posterior`.

    Attributes
    ----------
    u, v, net_correction : Summary
        Flow to correct, flow to wrong, and gamma = u - v, from the tempered posterior.
    temper : float
        Power w in [0.01, 1] to which the likelihood is raised.
    bootstrap_sd : float or None
        Spread of the untempered posterior mean of gamma over resampled tasks; None when not computed.
    """

    u: Summary
    v: Summary
    net_correction: Summary
    temper: float
    bootstrap_sd: float | None
    _posterior: _Triangle = field(repr=False, compare=False)

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        """Joint draws of (u, v) from the grid; u + v <= 1 holds for each.

        Draws are grid points, not spread over their cells: spreading would add step^2 / 12 to both variances
        and break u + v <= 1 along the edge rho = 1.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        size : int
            Number of draws.

        Raises
        ------
        UsageError
            Gamma is not identified: one of the two flows would be drawn from its prior.
        """
        if not self.net_correction.identified:
            raise UsageError(
                f"The net correction is not identified ({self.net_correction.reason}); "
                "check `net_correction.identified` before drawing."
            )
        t = self._posterior
        below = t.lv.cumsum()
        cdf = (t.lu * below[::-1]).cumsum()
        first, second = rng.random(size), rng.random(size)
        i = np.searchsorted(cdf, first * cdf[-1], side="right")
        i = np.minimum(i, cdf.size - 1)
        j = np.searchsorted(below, second * below[cdf.size - 1 - i], side="right")
        return t.grid[i], t.grid[np.minimum(j, cdf.size - 1 - i)]


_SAMPLED = 50  # intervals of the rough look at the likelihood
_NATS = 60.0  # likelihood below e^-60 of its maximum is not felt
_UNDERFLOW = 1e-20  # e^-46: 14 nats, a factor of 10^6, above what the cut may remove


def _felt(log_l: Floats, stride: int, size: int) -> slice:
    """Part of the grid that some resample can feel, from the log likelihoods at every `stride`-th point.

    They are concave: what lies above a level is within one sampled point of the sampled points above it.
    """
    above = np.flatnonzero((log_l > log_l.max(axis=1, keepdims=True) - _NATS).any(axis=0))
    return slice(max(0, int(above[0]) - 1) * stride, min(size, (int(above[-1]) + 1) * stride + 1))


def _resampled(table: Floats, tasks: int, times: int, rng: np.random.Generator) -> Floats:
    """Column sums of the table of tasks for tasks drawn with replacement, shape (times, columns).

    Tasks beyond the rows of the table have no correction rows: they are drawn too and add nothing.
    """
    sums = []
    block = max(1, 2_000_000 // tasks)  # bounds the memory for very many tasks
    for start in range(0, times, block):
        size = min(block, times - start)
        flat = rng.integers(0, tasks, (size, tasks)) + np.arange(size)[:, None] * tasks
        weights = np.bincount(flat.ravel(), minlength=size * tasks).reshape(size, tasks)
        sums.append(weights[:, : table.shape[0]].astype(np.float64) @ table)
    return np.concatenate(sums)


def _bootstrap_means(
    grid: Floats,
    wrong: _Direction,
    correct: _Direction,
    tasks: int,
    bootstraps: int,
    rng: np.random.Generator,
) -> Floats:
    """Untempered posterior mean of gamma for resampled tasks, on the part of the grid that matters."""
    sides = (wrong, correct)
    drawn = _resampled(np.hstack([side.by_task for side in sides]), tasks, bootstraps, rng)
    counts = np.hsplit(drawn, [wrong.by_task.shape[1]])
    stride = (grid.size - 1) // _SAMPLED
    factors: list[Floats] = []
    parts: list[slice] = []
    for side, n in zip(sides, counts, strict=True):
        terms = side.log_terms(grid)
        part = _felt(n @ terms[:, ::stride], stride, grid.size)
        log_l = n @ terms[:, part]
        log_l -= log_l.max(axis=1, keepdims=True)
        factors.append(np.exp(log_l, out=log_l))
        parts.append(part)
    lu, lv = factors
    u, v = grid[parts[0]], grid[parts[1]]
    # For each u the number of points v of the triangle; at least one is looked up and then struck out.
    room = grid.size - parts[0].start - np.arange(u.size) - parts[1].start
    last = np.clip(room, 1, v.size) - 1
    lu *= room > 0
    mass = lv.cumsum(axis=1)[:, last]
    lv *= v
    moment = lv.cumsum(axis=1)[:, last]
    mass *= lu
    total = mass.sum(axis=1)
    means = mass @ u - np.einsum("bi,bi->b", lu, moment)
    np.divide(means, total, out=means, where=total > 0.0)
    # Flows whose sum is far above 1 leave the triangle only the tails of both: too little for this scaling.
    for b in np.flatnonzero(total < _UNDERFLOW):
        log_u, log_v = (n[b] @ side.log_terms(grid) for side, n in zip(sides, counts, strict=True))
        means[b] = _Triangle.of(grid, log_u, log_v).gamma_moments()[0]
    return np.asarray(means)


def _temper(log_u: Floats, log_v: Floats, grid: Floats, target: float) -> float:
    """Power in [0.01, 1] that brings the posterior sd of gamma, which falls with it, to the target."""

    def excess(log_w: float) -> float:
        w = float(np.exp(log_w))
        return _Triangle.of(grid, log_u, log_v, w).gamma_moments()[1] - target

    if excess(0.0) >= 0.0:
        return 1.0
    lowest = float(np.log(_LOWEST_TEMPER))
    if excess(lowest) <= 0.0:
        return _LOWEST_TEMPER
    from scipy.optimize import brentq  # imported here: it would double the import time of the package

    return float(np.exp(brentq(excess, lowest, 0.0, xtol=1e-10, rtol=1e-12)))


def flow_posterior(
    task: ArrayLike,
    enters_correct: ArrayLike,
    dissent: ArrayLike,
    changed: ArrayLike,
    *,
    temper: bool = True,
    bootstraps: int = 500,
    seed: int = 0,
    n_tasks: int | None = None,
) -> FlowPosterior:
    """Joint posterior of the flows u and v and of the net correction gamma, from correction rows.

    Rows of one task depend on each other, which makes the plain posterior too narrow. The likelihood is
    therefore raised to the power w at which the posterior sd of gamma equals the spread of its posterior
    mean over resamplings of all tasks of the setting. w stays 1 when that spread is not wider, when there
    are fewer than two tasks, and when gamma is not identified. 500 resamplings leave about 3 % noise in w.

    Parameters
    ----------
    task : array_like, shape (rows,)
        Label of the task of each row.
    enters_correct : array_like of bool
        Whether the row's agent entered the round with the correct answer.
    dissent : array_like of float
        Share of the answers seen that differ from the agent's own, in (0, 1]. Rows without dissent, and rows
        in which the agent withheld, do not belong here.
    changed : array_like of bool
        Entering wrong: it became correct (another wrong answer is no change). Entering correct: it became
        wrong.
    temper : bool
        False leaves the likelihood as it is (w = 1).
    bootstraps : int
        Number of resamplings.
    seed : int
        Root seed of the resampling.
    n_tasks : int, optional
        Number of tasks of the setting, those without a row included; by default the tasks that have rows.

    Returns
    -------
    FlowPosterior
        Flows without rows, and gamma unless both directions have rows, are not identified.

    Raises
    ------
    UsageError
        Lengths differ, a dissent lies outside (0, 1], or `n_tasks` is below the number of labels.

    Examples
    --------
    >>> rows = 40
    >>> flows = flow_posterior(
    ...     task=[i // 4 for i in range(rows)],
    ...     enters_correct=[i % 2 == 0 for i in range(rows)],
    ...     dissent=[0.5] * rows,
    ...     changed=[i % 8 == 1 for i in range(rows)],
    ... )
    >>> flows.net_correction.identified, bool(flows.net_correction.mean > 0)
    (True, True)
    >>> flow_posterior([0, 0], [False, False], [0.5, 1.0], [True, False]).net_correction.mean is None
    True
    """
    labels, place = np.unique(np.asarray(task), return_inverse=True)
    was_correct, has_changed = np.asarray(enters_correct, dtype=bool), np.asarray(changed, dtype=bool)
    d = np.asarray(dissent, dtype=np.float64)
    if not (place.shape == was_correct.shape == has_changed.shape == d.shape and d.ndim == 1):
        raise UsageError("task, enters_correct, dissent and changed must be flat and of one length.")
    if not bool(((d > 0.0) & (d <= 1.0)).all()):
        raise UsageError("dissent must lie above 0 and not above 1: leave out rows that saw no dissent.")
    tasks = labels.size if n_tasks is None else n_tasks
    if tasks < labels.size:
        raise UsageError(f"n_tasks is {n_tasks}, but the rows belong to {labels.size} tasks.")

    pick = was_correct
    wrong = _group(place[~pick], labels.size, d[~pick], has_changed[~pick])
    correct = _group(place[pick], labels.size, d[pick], has_changed[pick])
    coarse, fine = sorted((wrong.refinement(), correct.refinement()))
    grid = np.linspace(0.0, 1.0, _GRID * fine + 1)
    log_u = wrong.total @ wrong.log_terms(grid)
    log_v = correct.total @ correct.log_terms(grid)
    identified = wrong.any_rows and correct.any_rows

    w, spread = 1.0, None
    if temper and identified and tasks >= 2 and bootstraps >= 2:
        # The wider flow decides the spread of gamma, so the grid need not follow the narrower one as closely.
        rough = np.linspace(0.0, 1.0, _GRID * max(coarse, fine // 4) + 1)
        means = _bootstrap_means(rough, wrong, correct, tasks, bootstraps, child_rng(seed, "temper"))
        spread = float(means.std(ddof=1))
        w = _temper(log_u, log_v, grid, spread)
    posterior = _Triangle.of(grid, log_u, log_v, w)

    pu, pv = posterior.marginals()
    missing = NO_ROWS if not (wrong.any_rows or correct.any_rows) else None
    if identified:
        mean, sd = posterior.gamma_moments()
        lower, median, upper = _within_cell(
            float(grid[1]), LEVELS, posterior.gamma_cdf, 1 - grid.size, grid.size - 1
        ).tolist()
        gamma = Summary(
            identified=True, reason=None, mean=mean, median=median, lower=lower, upper=upper, sd=sd
        )
    else:
        gamma = unidentified(missing or (NO_CORRECT if wrong.any_rows else NO_WRONG))
    return FlowPosterior(
        u=_flow_summary(grid, pu, never=wrong.total[0] == 0)
        if wrong.any_rows
        else unidentified(missing or NO_WRONG),
        v=_flow_summary(grid, pv, never=correct.total[0] == 0)
        if correct.any_rows
        else unidentified(missing or NO_CORRECT),
        net_correction=gamma,
        temper=w,
        bootstrap_sd=spread,
        _posterior=posterior,
    )
