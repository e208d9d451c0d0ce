"""Thresholds of withholding of a very large team: c*, c_jump and p*, from the mean field."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from abilene.rates import Rates, critical_withholding
from abilene.theory.meanfield import GRID, MeanField, check_observed, sharpen

Kind = Literal["fold", "transcritical", "none", "degenerate"]


def _lowest_pull(field: MeanField) -> float:
    """Smallest value of R on [0, 1]."""
    value = field.pull(GRID)
    at = int(value.argmin())
    left, right = GRID[max(at - 1, 0)], GRID[min(at + 1, len(GRID) - 1)]
    return float(sharpen(field, np.array([left]), np.array([right]), 1.0)[1][0])


def separatrix(c: float, a: float, rho: float, r: float, observed: float) -> float | None:
    """Initial accuracy p* that divides the two destinations of a very large team.

    Parameters
    ----------
    c, a, rho, r : float
        Rates in [0, 1].
    observed : int or math.inf
        q.

    Returns
    -------
    float or None
        p* in [0, 1], precise to 1e-10 or better; 0: every start recovers, 1: none; None where every
        state is a fixed point (degenerate).

    Raises
    ------
    UsageError
        A rate outside [0, 1], or q below 1.

    Examples
    --------
    >>> round(separatrix(0.7, 0.5, 1.0, 0.8, observed=3), 6)
    0.424356
    """
    return MeanField(Rates(c, a, rho, r), observed).separatrix


def jump_withholding(a: float, rho: float, r: float, observed: float) -> tuple[float | None, Kind]:
    """Withholding rate c_jump from which on a team can stay in a stable state of low accuracy.

    A vanishing minority recovers if and only if c < c_jump; between c_jump and c* it grows, but only up to
    that low state.

    Parameters
    ----------
    a, rho, r : float
        Rates in [0, 1].
    observed : int or math.inf
        q.

    Returns
    -------
    value : float or None
        c_jump, precise to 1e-10; None where no such state appears (q = 1) or the question is degenerate.
    kind : str
        ``"fold"``: the low state appears at a finite accuracy, c_jump < c*. ``"transcritical"``: it leaves
        the all-incorrect state, c_jump = c*. ``"none"``: no transition; gamma <= 0, where the
        all-incorrect state attracts at every c > 0 and c_jump = 0, or q = 1. ``"degenerate"``: gamma = 0
        and a = 0.

    Notes
    -----
    The first c at which R(Y), see the module, touches zero on [0, 1). For q = infinity the low state is
    Y = (1-c) Z and exists once Y <= 1/2: c_jump = gamma / (2a + rho(3r - 1)).

    Examples
    --------
    >>> value, kind = jump_withholding(0.5, 1.0, 0.8, observed=3)
    >>> round(value, 8), kind
    (0.54196484, 'fold')
    """
    q = check_observed(observed)
    rates = Rates(0.0, a, rho, r)
    gamma = rates.net_correction
    star = rates.critical_withholding
    if star is None:
        return None, "degenerate"
    if gamma <= 0.0:
        return 0.0, "none"
    if q == 1:
        return None, "none"
    if q == math.inf:
        return gamma / (2.0 * a + rho * (3.0 * r - 1.0)), "fold"

    def lowest(c: float) -> float:
        return _lowest_pull(MeanField(Rates(c, a, rho, r), q))

    # At c* itself R(0) = 0; a fold came earlier exactly if R dips below zero somewhere.
    if lowest(star) > -1e-12:
        return star, "transcritical"
    coarse = [star * i / 32 for i in range(1, 33)]
    high = next((c for c in coarse if lowest(c) <= 0.0), star)
    low = high - coarse[0]
    for _ in range(60):
        mid = 0.5 * (low + high)
        if lowest(mid) <= 0.0:
            high = mid
        else:
            low = mid
    return 0.5 * (low + high), "fold"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What the rates a, rho, r imply for withholding; None: not defined (see `thresholds`)."""

    net_correction: float
    critical_withholding: float | None
    jump_withholding: float | None
    kind: Kind
    all_correct_stable_above: float | None


def thresholds(a: float, rho: float, r: float, observed: float) -> Thresholds:
    """Thresholds of withholding of a very large team.

    Parameters
    ----------
    a, rho, r : float
        Rates in [0, 1].
    observed : int or math.inf
        q.

    Returns
    -------
    Thresholds
        gamma; c* = gamma/(gamma + a), the same for every q >= 2 (None for q = 1 with gamma > 0, where no
        threshold exists); c_jump and its kind, see `jump_withholding`; and the withholding above which the
        all-correct state is stable: 0 for gamma >= 0, |gamma|/(|gamma| + a) for gamma < 0. All None in the
        degenerate case gamma = 0 and a = 0.

    Raises
    ------
    UsageError
        A rate outside [0, 1], or q below 1.

    Examples
    --------
    >>> found = thresholds(0.5, 1.0, 0.8, observed=3)
    >>> round(found.critical_withholding, 10), found.kind, found.all_correct_stable_above
    (0.5454545455, 'fold', 0.0)
    """
    q = check_observed(observed)
    gamma = Rates(0.0, a, rho, r).net_correction
    jump, kind = jump_withholding(a, rho, r, q)
    star = critical_withholding(gamma, a)
    above = critical_withholding(-gamma, a)
    if q == 1:
        # One statement seen is a majority of its own: only the sign of gamma decides, at every c < 1.
        star = None if gamma >= 0.0 else 0.0
        above = None if gamma == 0.0 else (0.0 if gamma > 0.0 else 1.0)
        if gamma == 0.0:
            jump, kind = None, "degenerate"
    return Thresholds(gamma, star, jump, kind, above)
