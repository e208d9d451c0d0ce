"""Posterior of a rate whose value differs from task to task: withholding c, internalization a.

Task l has its own rate theta_l ~ Beta(theta phi, (1 - theta) phi) and k_l ~ Binomial(n_l, theta_l). The
theta_l are integrated out. With A_i, B_i, C_i the numbers of tasks with k > i, n - k > i, n > i,

    log L(theta, phi) = sum_i A_i log(theta phi + i) + B_i log((1 - theta) phi + i) - C_i log(phi + i),

a polynomial in theta for every phi. Prior: theta uniform, log phi uniform on 60 points from 0.5 to 10^4.
Source: the paper's Section 3, Eq. 8, and Appendix B.2.

Theta is integrated on Gauss-Legendre panels that are uniform in psi = arcsin(sqrt(theta)). A binomial
posterior has nearly the same width everywhere on that axis, 1 / (2 sqrt(sum n)), so one fixed rule resolves
the middle and the edges alike (none withheld of 6,000, say), and its logarithms can be tabulated once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from abilene.errors import UsageError
from abilene.inference.summary import LEVELS, Summary

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The concentrations phi summed over.
PHI: Floats = np.geomspace(0.5, 1e4, 60)

_PANELS = 30
_ORDER = 16  # Gauss-Legendre nodes in a panel
_KNOTS = 64  # points in a panel at which the distribution function is tabulated
# Up to this many opportunities there are at least 2.8 nodes to a posterior standard deviation: interpolation
# between the nodes is then good to 1e-7. (Integrals over all of theta need half as many.)
_FINE_UP_TO = 3_000
_TABLE_UP_TO = 64  # the largest count of one task for which logarithms are kept


@dataclass(frozen=True)
class _Panel:
    """Matrices that take values at the Gauss-Legendre nodes of [-1, 1] to what is wanted elsewhere."""

    nodes: Floats
    weights: Floats
    points: Floats  # the knots, uniform, the left end excluded
    values: Floats  # (knots, order): interpolation to the knots
    integrals: Floats  # (knots, order): integral from -1 to the knots


@lru_cache(maxsize=1)
def _panel() -> _Panel:
    nodes, weights = legendre.leggauss(_ORDER)
    points = np.linspace(-1.0, 1.0, _KNOTS + 1)[1:]
    degree = np.arange(_ORDER)
    to_series = (degree + 0.5)[:, None] * legendre.legvander(nodes, _ORDER - 1).T * weights
    p = legendre.legvander(points, _ORDER)
    # The integral of P_k from -1 is (P_{k+1} - P_{k-1}) / (2k + 1), and x + 1 for k = 0.
    below = np.concatenate([-np.ones((_KNOTS, 1)), p[:, : _ORDER - 1]], axis=1)
    antiderivative = (p[:, 1:] - below) / (2 * degree + 1)
    return _Panel(nodes, weights, points, p[:, :_ORDER] @ to_series, antiderivative @ to_series)


@dataclass(frozen=True)
class _Rule:
    """Quadrature over theta on panels in psi."""

    edges: Floats
    theta: Floats  # (panels * order,)
    slope: Floats  # d theta / d psi at the nodes
    weights: Floats  # for integrals over theta
    knots: Floats  # psi at the knots, 0 first and pi/2 last


def _rule(edges: Floats) -> _Rule:
    panel = _panel()
    half = np.diff(edges) / 2.0
    middle = (edges[1:] + edges[:-1]) / 2.0
    psi = (middle[:, None] + half[:, None] * panel.nodes).ravel()
    slope = np.sin(2.0 * psi)
    knots = (middle[:, None] + half[:, None] * panel.points).ravel()
    return _Rule(
        edges=edges,
        theta=np.sin(psi) ** 2,
        slope=slope,
        weights=(half[:, None] * panel.weights).ravel() * slope,
        knots=np.concatenate([edges[:1], knots]),
    )


@lru_cache(maxsize=1)
def _fixed_rule() -> _Rule:
    return _rule(np.linspace(0.0, np.pi / 2.0, _PANELS + 1))


@lru_cache(maxsize=4)
def _log_table(size: int) -> Floats:
    """Table of log(theta phi + i), shape (size, nodes * phis), on the fixed rule."""
    base = (_fixed_rule().theta[:, None] * PHI).ravel()
    return np.log(base + np.arange(size)[:, None])


def _exceedances(counts: Ints) -> Floats:
    """Numbers of tasks with a count above 0, above 1, and so on."""
    hist = np.bincount(counts)
    return hist[::-1].cumsum()[::-1][1:].astype(np.float64)


def _rising(x: Floats, counts: Ints) -> Floats:
    """Sum over tasks of log[x (x + 1) ... (x + count - 1)], where no table is at hand."""
    total = np.zeros_like(x)
    if int(counts.max()) <= _TABLE_UP_TO:
        for i, exceed in enumerate(_exceedances(counts)):
            total += exceed * np.log(x + i)
        return total
    values, repeats = np.unique(counts[counts > 0], return_counts=True)
    for value, repeat in zip(values, repeats, strict=True):
        total += repeat * (gammaln(x + value) - gammaln(x))
    return total


def _log_likelihood(rule: _Rule, k: Ints, n: Ints) -> Floats:
    """Log likelihood, shape (nodes, phis); its maximum is not removed."""
    largest = int(n.max())
    if largest <= _TABLE_UP_TO and rule is _fixed_rule():
        table = _log_table(-(-largest // 16) * 16)
        above = np.zeros((2, table.shape[0]))
        for row, counts in enumerate((k, n - k)):
            exceed = _exceedances(counts)
            above[row, : exceed.size] = exceed
        of_k, of_rest = (above @ table).reshape(2, rule.theta.size, PHI.size)
        body = of_k + of_rest[::-1]  # the nodes are symmetric: theta[::-1] = 1 - theta
    else:
        body = _rising(rule.theta[:, None] * PHI, k) + _rising((1.0 - rule.theta)[:, None] * PHI, n - k)
    return np.asarray(body - _rising(PHI, n))


def _refine(rule: _Rule, log_density: Floats, opportunities: int) -> _Rule:
    """The rule with the panels that may hold the posterior split finely enough for so many opportunities."""
    top = log_density.reshape(-1, _ORDER).max(axis=1)
    near = top > top.max() - 60.0
    # The peak may lie between the nodes of two panels: the neighbours are split too.
    near = near | np.append(near[1:], False) | np.append(False, near[:-1])
    parts = int(np.ceil(np.sqrt(opportunities / _FINE_UP_TO)))
    starts = [
        np.linspace(a, b, parts if split else 1, endpoint=False)
        for a, b, split in zip(rule.edges[:-1], rule.edges[1:], near, strict=True)
    ]
    return _rule(np.concatenate([*starts, rule.edges[-1:]]))


@dataclass(frozen=True, kw_only=True)
class RatePosterior(Summary):
    """Posterior of a setting-level rate; see `rate_posterior`.

    The distribution function is kept as a table in psi = arcsin(sqrt(rate)) with its slope.
    """

    _psi: Floats = field(repr=False, compare=False, default_factory=lambda: np.empty(0))
    _cdf: Floats = field(repr=False, compare=False, default_factory=lambda: np.empty(0))
    _slope: Floats = field(repr=False, compare=False, default_factory=lambda: np.empty(0))

    def _require(self) -> None:
        if not self.identified:
            raise UsageError(
                f"The rate is not identified ({self.reason}), so it has no posterior to evaluate. "
                "Check `identified` first."
            )

    def _cubic(self, i: NDArray[np.intp], t: Floats) -> tuple[Floats, Floats]:
        """Hermite interpolant of the distribution function on interval i, and its derivative in t."""
        f0, width = self._cdf[i], self._psi[i + 1] - self._psi[i]
        rise = self._cdf[i + 1] - f0
        m0, m1 = self._slope[i] * width, self._slope[i + 1] * width
        b, c = 3.0 * rise - 2.0 * m0 - m1, m0 + m1 - 2.0 * rise
        return f0 + t * (m0 + t * (b + t * c)), m0 + t * (2.0 * b + 3.0 * t * c)

    def cdf(self, x: ArrayLike) -> Floats:
        """Posterior probability that the rate is at most x.

        Parameters
        ----------
        x : array_like
            Any real numbers, any shape.

        Returns
        -------
        ndarray
            Probabilities, shape of `x`.

        Raises
        ------
        UsageError
            The rate is not identified.
        """
        self._require()
        psi = np.arcsin(np.sqrt(np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0)))
        i = np.clip(np.searchsorted(self._psi, psi, side="right") - 1, 0, self._psi.size - 2)
        t = (psi - self._psi[i]) / (self._psi[i + 1] - self._psi[i])
        return np.clip(self._cubic(i, t)[0], self._cdf[i], self._cdf[i + 1])

    def quantile(self, p: ArrayLike) -> Floats:
        """Rate below which the posterior probability is p.

        Parameters
        ----------
        p : array_like
            Probabilities in [0, 1], any shape.

        Returns
        -------
        ndarray
            Rates, shape of `p`.

        Raises
        ------
        UsageError
            The rate is not identified.
        """
        self._require()
        p = np.asarray(p, dtype=np.float64)
        i = np.clip(np.searchsorted(self._cdf, p, side="right") - 1, 0, self._psi.size - 2)
        rise = self._cdf[i + 1] - self._cdf[i]
        t = np.divide(p - self._cdf[i], rise, out=np.zeros_like(p), where=rise > 0.0)
        for _ in range(4):
            value, slope = self._cubic(i, t)
            step = np.divide(value - p, slope, out=np.zeros_like(t), where=slope > 0.0)
            t = np.clip(t - step, 0.0, 1.0)
        return np.asarray(np.sin(self._psi[i] + t * (self._psi[i + 1] - self._psi[i])) ** 2)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Independent draws from the posterior, by inversion of the distribution function.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        size : int
            Number of draws.

        Raises
        ------
        UsageError
            The rate is not identified.
        """
        return self.quantile(rng.random(size))


def counts(name: str, values: ArrayLike) -> Ints:
    """Per-task counts as a checked integer array.

    Raises
    ------
    UsageError
        The values are not a flat array of whole numbers of at least 0.
    """
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and array.min() < 0):
        raise UsageError(
            f"{name} must be a flat array of whole numbers of at least 0, one a task; "
            f"found {array.dtype} of shape {array.shape}."
        )
    return array.astype(np.int64)


def rate_posterior(k: ArrayLike, n: ArrayLike) -> RatePosterior:
    """Posterior of a setting-level rate from counts per task, with a rate of its own for every task.

    Parameters
    ----------
    k : array_like of int, shape (tasks,)
        Events of each task (for example statements withheld), 0 <= k <= n.
    n : array_like of int, shape (tasks,)
        Opportunities of each task. Tasks without any carry no information and are ignored.

    Returns
    -------
    RatePosterior
        Not identified when there are no opportunities at all. The lower limit is exactly 0 when no event
        occurred, the upper limit exactly 1 when every opportunity became one; the other limit is the usual
        2.5 or 97.5 % quantile, so such an interval holds 97.5 %.

    Raises
    ------
    UsageError
        Lengths differ, or a count is negative, not whole, or larger than its n.

    Examples
    --------
    >>> rate = rate_posterior([3, 0, 5, 2], [6, 4, 7, 5])
    >>> bool(rate.lower < rate.median < rate.upper), rate.identified
    (True, True)
    >>> nobody = rate_posterior([0] * 1000, [6] * 1000)
    >>> nobody.lower, bool(0.0 < nobody.upper < 0.002)
    (0.0, True)
    >>> rate_posterior([], []).reason
    'no opportunities'
    """
    k, n = counts("k", k), counts("n", n)
    if k.shape != n.shape or bool((k > n).any()):
        raise UsageError(
            f"k and n must pair up with k <= n in every task; found {k.size} and {n.size} tasks."
        )
    k, n = k[n > 0], n[n > 0]
    if n.size == 0:
        return RatePosterior(identified=False, reason="no opportunities")

    rule, opportunities = _fixed_rule(), int(n.sum())
    log_l = _log_likelihood(rule, k, n)
    if opportunities > _FINE_UP_TO:
        rule = _refine(rule, log_l.max(axis=1), opportunities)
        log_l = _log_likelihood(rule, k, n)
    density = np.exp(log_l - log_l.max()).sum(axis=1)
    density /= rule.weights @ density
    mean = float(rule.weights @ (density * rule.theta))
    # Centred second moment: near an edge E[x^2] - E[x]^2 would lose every digit.
    sd = float(np.sqrt(rule.weights @ (density * (rule.theta - mean) ** 2)))

    panel = _panel()
    in_psi = (density * rule.slope).reshape(-1, _ORDER)
    half = np.diff(rule.edges)[:, None] / 2.0
    area = half * (in_psi @ panel.integrals.T)
    area[1:] += area[:-1, -1].cumsum()[:, None]
    cdf = np.maximum.accumulate(np.concatenate([[0.0], area.ravel()]))
    slope = np.concatenate([[0.0], np.maximum(in_psi @ panel.values.T, 0.0).ravel()])
    arrays = {"_psi": rule.knots, "_cdf": cdf / cdf[-1], "_slope": slope / cdf[-1]}
    lower, median, upper = RatePosterior(identified=True, reason=None, **arrays).quantile(LEVELS).tolist()
    return RatePosterior(
        identified=True,
        reason=None,
        mean=mean,
        median=median,
        lower=0.0 if not k.any() else lower,
        upper=1.0 if bool((k == n).all()) else upper,
        sd=sd,
        **arrays,
    )
