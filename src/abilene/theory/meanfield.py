"""Mean field: the share of correct beliefs Z and of correct statements Y of a very large team.

Each agent sees q statements, each independently correct with probability Y, or, for q = infinity, sees the
share Y itself (complete graph). With the outcome probabilities of one agent, `kernel.binary_outcomes`,
averaged over the Binomial(q, Y) number of correct statements seen,

    Z' = (1 - Z) T0(Y) + Z T1(Y),        Tz: probability that belief z is followed by a correct belief
    Y' = (1 - Z) S0(Y) + Z S1(Y),        Sz: probability that belief z leads to a correct statement

Nothing of the rule is written here: T and S are Bernstein polynomials whose coefficients are kernel entries.
A start is Z = Y = p: statement and belief agree before the discussion.

Eliminating Z, every fixed point other than all-incorrect (0, 0) and all-correct (1, 1) is a root of

    R(Y) = t0 (1 - s1) - t1 (1 - s0),
    t0 = T0/Y, s0 = S0/Y, t1 = (1 - T1)/(1 - Y), s1 = (1 - S1)/(1 - Y).

R > 0 pulls Y up and R < 0 down; R(0) = (1 - c) gamma - c a for q >= 2, whose zero is c*. All four factors are
again Bernstein polynomials, so R is evaluated without cancellation up to both ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.theory.crowd import check_share
from abilene.theory.kernel import binary_outcomes

Floats = NDArray[np.float64]

#: How far from 1 the largest eigenvalue must be to call a fixed point stable or unstable.
_NEUTRAL = 1e-9
_MAX_ROUNDS = 1_000_000
#: Where R is first looked at: dense towards both ends, where roots enter.
GRID: Floats = 0.5 * (1.0 - np.cos(np.linspace(0.0, math.pi, 2001)))


def check_observed(observed: object) -> float:
    """Number of statements seen: a whole number from 1, or infinity.

    Raises
    ------
    UsageError
        Anything else.
    """
    if isinstance(observed, int | float | np.integer) and not isinstance(observed, bool):
        if observed == math.inf:
            return math.inf
        if math.isfinite(observed) and observed >= 1 and observed == int(observed):
            return int(observed)
    raise UsageError(f"observed (q) must be a whole number from 1 or infinity, found {observed!r}.")


def _log_choose(q: int) -> Floats:
    steps = np.log(np.arange(1, q + 1, dtype=float))
    factorial = np.concatenate([[0.0], np.cumsum(steps)])
    return np.asarray(factorial[q] - factorial - factorial[::-1])


def binomial_weights(q: int, y: ArrayLike) -> Floats:
    """Binomial(q, y) probabilities of 0..q, for an array of y in [0, 1]; shape ``y.shape + (q + 1,)``.

    Computed as logarithms and normalised, so that large q neither overflows nor loses mass.

    Examples
    --------
    >>> binomial_weights(3, 0.5)
    array([0.125, 0.375, 0.375, 0.125])
    """
    y = np.asarray(y, dtype=float)[..., None]
    k = np.arange(q + 1)
    if q <= 64:  # powers are exact at the ends and more precise than logarithms
        return np.asarray(np.array([math.comb(q, i) for i in k], dtype=float) * y**k * (1.0 - y) ** (q - k))
    inside = np.clip(y, 1e-300, 1.0 - 2.0**-53)
    log = _log_choose(q) + k * np.log(inside) + (q - k) * np.log1p(-inside)
    w = np.exp(log - log.max(axis=-1, keepdims=True))
    w /= w.sum(axis=-1, keepdims=True)
    w = np.where(y <= 0.0, k == 0, w)
    return np.asarray(np.where(y >= 1.0, k == q, w), dtype=float)


@lru_cache(maxsize=2)
def _grid_weights(q: int) -> Floats:
    return binomial_weights(q, GRID)


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """A state that reproduces itself.

    Attributes
    ----------
    belief, statement : float
        Z and Y.
    eigenvalues : tuple of complex
        Of the Jacobian there, larger modulus first.
    stable : bool or None
        All eigenvalues inside the unit circle; None if the largest lies on it within 1e-9.
    """

    belief: float
    statement: float
    eigenvalues: tuple[complex, complex]
    stable: bool | None


@dataclass(frozen=True)
class MeanField:
    """The mean-field map for given rates.

    Parameters
    ----------
    rates : Rates
        The four rates.
    observed : int or math.inf
        q, number of statements each agent sees; infinity is the complete graph of an infinite team.

    Raises
    ------
    UsageError
        q is neither a whole number from 1 nor infinity.

    Examples
    --------
    >>> field = MeanField(Rates(c=0.3, a=0.5, rho=1.0, r=0.8), observed=3)
    >>> [(round(x.belief, 6), x.stable) for x in field.fixed_points()]
    [(0.0, False), (1.0, True)]
    >>> round(field.growth_rate, 6)
    1.183266
    """

    rates: Rates
    observed: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "observed", check_observed(self.observed))

    @cached_property
    def _coefs(self) -> Floats:
        """Bernstein coefficients of (S0, S1, T0, T1), shape (branches, 4, q + 1).

        For q = infinity the kernel's entries are linear in the share seen on either side of 1/2, so two of
        them give each branch: (majority incorrect, tie, majority correct).
        """

        def rows(table: Floats) -> Floats:
            statement, belief = table[..., 2] + table[..., 3], table[..., 1] + table[..., 3]
            return np.concatenate([statement, belief])

        if self.observed != math.inf:
            return rows(binary_outcomes(self.rates, int(self.observed)))[None]
        three, two = rows(binary_outcomes(self.rates, 3)), rows(binary_outcomes(self.rates, 2))
        low = np.stack([three[:, 0], three[:, 0] + 3.0 * (three[:, 1] - three[:, 0])], axis=-1)
        high = np.stack([three[:, 3] - 3.0 * (three[:, 3] - three[:, 2]), three[:, 3]], axis=-1)
        tie = np.repeat(two[:, 1:2], 2, axis=1)
        return np.stack([low, tie, high])

    def _respond(self, y: Floats, derivative: bool = False) -> Floats:
        """(S0, S1, T0, T1) at each y, or their derivatives; shape ``(4,) + y.shape``."""
        coefs = self._coefs
        degree = coefs.shape[-1] - 1
        if derivative:
            coefs = degree * np.diff(coefs, axis=-1)
            degree -= 1
        values = np.einsum("...k,bjk->bj...", binomial_weights(degree, y), coefs)
        if len(values) == 1:
            return np.asarray(values[0])
        return np.asarray(np.where(y < 0.5, values[0], np.where(y == 0.5, values[1], values[2])))

    def step(self, belief: ArrayLike, statement: ArrayLike) -> tuple[Floats, Floats]:
        """One round: (Z', Y') from (Z, Y), elementwise.

        Parameters
        ----------
        belief, statement : array_like
            Z and Y in [0, 1].

        Returns
        -------
        tuple of ndarray
            Z' and Y'.

        Examples
        --------
        >>> field = MeanField(Rates(c=0.5, a=0.5, rho=1.0, r=0.8), observed=3)
        >>> z, y = field.step(0.4, 0.4)
        >>> round(float(z), 5), round(float(y), 5)
        (0.49072, 0.376)
        """
        z, y = np.asarray(belief, dtype=float), np.asarray(statement, dtype=float)
        s0, s1, t0, t1 = self._respond(y)
        return (1.0 - z) * t0 + z * t1, (1.0 - z) * s0 + z * s1

    def trajectory(self, accuracy: float, rounds: int) -> Floats:
        """Z and Y from the start Z = Y = p.

        Parameters
        ----------
        accuracy : float
            p in [0, 1].
        rounds : int
            T >= 0.

        Returns
        -------
        ndarray, shape (rounds + 1, 2)
            Columns Z, Y; row 0 is the start.
        """
        p = check_share("The initial accuracy p", accuracy)
        if rounds < 0:
            raise UsageError(f"rounds (T) must be a whole number from 0, found {rounds!r}.")
        out = np.full((rounds + 1, 2), p)
        for t in range(rounds):
            out[t + 1] = self.step(out[t, 0], out[t, 1])
        return out

    def jacobian(self, belief: float, statement: float) -> Floats:
        """Derivative of the map: rows (Z', Y'), columns (Z, Y)."""
        s0, s1, t0, t1 = self._respond(np.asarray(statement, dtype=float))
        ds0, ds1, dt0, dt1 = self._respond(np.asarray(statement, dtype=float), derivative=True)
        z = belief
        return np.array([[t1 - t0, (1 - z) * dt0 + z * dt1], [s1 - s0, (1 - z) * ds0 + z * ds1]])

    @cached_property
    def growth_rate(self) -> float:
        """Leading eigenvalue lambda1 at the all-incorrect state: a minority's growth per round.

        For q >= 2, [T10 + sqrt(T10^2 + 4 (1-c) rho r)] / 2 with T10 = c(1-a) + (1-c)(1 - rho(1-r)). It
        crosses 1 at c*; it is not Lambda(c) = 1 - ca + (1-c) gamma, which crosses 1 at the same place.
        """
        return float(np.abs(np.linalg.eigvals(self.jacobian(0.0, 0.0))).max())

    def pull(self, statement: ArrayLike) -> Floats:
        """R(Y) of the module's docstring: positive where Y is driven up, once Z has settled."""
        y = np.asarray(statement, dtype=float)
        if self.observed == math.inf:
            return self._pull_complete(y)
        n = int(self.observed)
        s0, s1, t0, t1 = self._coefs[0]
        k = np.arange(1, n + 1)
        w = _grid_weights(n - 1) if y is GRID else binomial_weights(n - 1, y)
        s0, t0 = w @ (s0[1:] * n / k), w @ (t0[1:] * n / k)
        k = np.arange(n)
        s1, t1 = w @ ((1.0 - s1[:-1]) * n / (n - k)), w @ ((1.0 - t1[:-1]) * n / (n - k))
        return np.asarray(t0 * (1.0 - s1) - t1 * (1.0 - s0))

    def _pull_complete(self, y: Floats) -> Floats:
        low, _, high = self._coefs
        v = 1.0 - y
        with np.errstate(divide="ignore", invalid="ignore"):
            values = low @ np.stack([v, y]).reshape(2, -1)
            s0, s1, t0, t1 = values.reshape(4, *y.shape)
            below = low[2, 1] * (1.0 - (1.0 - s1) / v) - (1.0 - t1) / v * (1.0 - low[0, 1])
            values = high @ np.stack([v, y]).reshape(2, -1)
            s0, s1, t0, t1 = values.reshape(4, *y.shape)
            above = t0 / y * (1.0 - (1.0 - high[1, 0])) - (1.0 - high[3, 0]) * (1.0 - s0 / y)
        return np.asarray(np.where(y < 0.5, below, above))

    @cached_property
    def _roots(self) -> tuple[Floats, float, float]:
        """Roots of R inside (0, 1), and R's smallest and largest value."""
        parts = [(0.0, 1.0)]
        if self.observed == math.inf:  # R jumps at 1/2
            parts = [(0.0, math.nextafter(0.5, 0.0)), (math.nextafter(0.5, 1.0), 1.0)]
        roots: list[float] = []
        smallest, largest = math.inf, -math.inf
        for left, right in parts:
            grid = GRID if len(parts) == 1 else left + (right - left) * GRID
            value = self.pull(grid)
            for sign in (1.0, -1.0):  # sharpen the extrema, so that a close pair of roots is not stepped over
                inner = sign * value
                dips = np.flatnonzero((inner[1:-1] <= inner[:-2]) & (inner[1:-1] < inner[2:])) + 1
                dips = dips[inner[dips] > 0.0][:64]
                if len(dips):
                    y, v = sharpen(self, grid[dips - 1], grid[dips + 1], sign)
                    grid, value = np.append(grid, y), np.append(value, v)
                    order = np.argsort(grid, kind="stable")
                    grid, value = grid[order], value[order]
            smallest, largest = min(smallest, value.min()), max(largest, value.max())
            positive = value > 0.0
            at = np.flatnonzero(positive[1:] != positive[:-1])
            a, b, up = grid[at], grid[at + 1], positive[at + 1]
            for _ in range(64):
                mid = 0.5 * (a + b)
                right_side = (self.pull(mid) > 0.0) == up
                a, b = np.where(right_side, a, mid), np.where(right_side, mid, b)
            roots.extend(float(x) for x in 0.5 * (a + b) if 1e-14 < x < 1.0 - 1e-14)
        return np.array(roots), float(smallest), float(largest)

    @property
    def degenerate(self) -> bool:
        """True if R vanishes everywhere: a whole line of fixed points and no preferred direction."""
        _, smallest, largest = self._roots
        return max(abs(smallest), abs(largest)) < 1e-13

    def fixed_points(self) -> list[FixedPoint]:
        """All isolated fixed points in ascending order of Y, the all-incorrect and all-correct ones included.

        Where the map is degenerate (for example rho = 0 and a = 0, or q = 1 and c = 1) only the two ends of
        the line of fixed points are returned, with ``stable=None``. For q = infinity the jump at Y = 1/2
        separates two destinations without being a fixed point.

        Examples
        --------
        >>> for x in MeanField(Rates(c=0.6, a=0.5, rho=1.0, r=0.8), observed=3).fixed_points():
        ...     print(round(x.belief, 6), round(x.statement, 6), x.stable)
        0.0 0.0 True
        0.412004 0.278472 False
        1.0 1.0 True
        """
        inner = [] if self.degenerate else list(self._roots[0])
        return [self._fixed_point(y) for y in (0.0, *inner, 1.0)]

    def _fixed_point(self, y: float) -> FixedPoint:
        _, _, t0, t1 = (float(v) for v in self._respond(np.asarray(y)))
        z = y if y in (0.0, 1.0) else t0 / (1.0 - t1 + t0)
        values = np.linalg.eigvals(self.jacobian(z, y))
        first, second = sorted((complex(v) for v in values), key=abs, reverse=True)
        stable = None if abs(abs(first) - 1.0) < _NEUTRAL else abs(first) < 1.0
        return FixedPoint(float(z), float(y), (first, second), stable)

    @cached_property
    def separatrix(self) -> float | None:
        """p*: the initial accuracy (Z = Y = p) above which the team ends with most statements correct.

        0: every start above 0 recovers; 1: none below 1 does; None: degenerate, no destination exists.
        Precise to about 1e-12.
        """
        _, smallest, largest = self._roots
        if self.degenerate:
            return None
        if smallest >= -1e-14 or largest <= 1e-14:
            return 0.0 if smallest >= -1e-14 else 1.0
        from abilene.theory._flow import bisect_start

        points = self.fixed_points()
        attractors = []
        for i, x in enumerate(points):
            if x.stable:
                gaps = [abs(x.statement - other.statement) for j, other in enumerate(points) if j != i]
                if self.observed == math.inf:
                    gaps.append(abs(x.statement - 0.5))
                attractors.append((x.belief, x.statement, 0.02 * min(gaps)))
        where = np.array(attractors, dtype=float).reshape(-1, 3)
        return float(bisect_start(self._coefs, where, _MAX_ROUNDS // 10))

    def recovery_time(self, accuracy: float) -> int | None:
        """Rounds until most statements are correct (Y > 1/2), from the start Z = Y = p; None if p <= p*.

        Grows like ln(1/p) / ln(lambda1) for small p, and diverges as c approaches c_jump from below, and as
        c approaches 1 for q = 1.

        Raises
        ------
        UsageError
            Not decided within 10^8 rounds (the rates lie on a threshold).

        Examples
        --------
        >>> rates = Rates(c=0.0, a=0.5, rho=1.0, r=0.8)
        >>> MeanField(rates, 3).recovery_time(0.1)
        7
        >>> MeanField(Rates(c=0.6, a=0.5, rho=1.0, r=0.8), 3).recovery_time(0.1) is None
        True
        """
        p = check_share("The initial accuracy p", accuracy)
        if p > 0.5:
            return 0
        if self.separatrix is None or p <= self.separatrix:
            return None
        from abilene.theory._flow import rounds_until

        found = int(rounds_until(self._coefs, p, 0.5, 100 * _MAX_ROUNDS))
        if found < 0:
            raise UsageError(
                f"From p = {accuracy} the team has not settled after {100 * _MAX_ROUNDS} rounds: "
                "the rates lie on a threshold. Move one of them a little."
            )
        return found


def sharpen(field: MeanField, left: Floats, right: Floats, sign: float) -> tuple[Floats, Floats]:
    """Local minimum of sign * R in each interval, by repeated zooming."""
    share = np.linspace(0.0, 1.0, 17)
    for _ in range(8):
        y = left[:, None] + (right - left)[:, None] * share
        value = sign * field.pull(y)
        best = value.argmin(axis=1)
        rows = np.arange(len(left))
        left, right = y[rows, np.maximum(best - 1, 0)], y[rows, np.minimum(best + 1, 16)]
    return y[rows, best], sign * value[rows, best]
