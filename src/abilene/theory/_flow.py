"""Compiled iteration of the mean-field map. Imported only where many rounds are needed."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def _step(coefs, w, z, y):  # type: ignore[no-untyped-def]
    """One round; `coefs` as in `MeanField._coefs`, `w` a work array of q + 1 numbers."""
    branch = 0
    if coefs.shape[0] == 3:
        branch = 0 if y < 0.5 else (1 if y == 0.5 else 2)
    q = w.shape[0] - 1
    # Binomial weights outwards from the mode, normalised: no overflow and no logarithms for any q.
    if y <= 0.0 or y >= 1.0:
        w[:] = 0.0
        w[0 if y <= 0.0 else q] = 1.0
    else:
        mode = min(q, int((q + 1) * y))
        odds = y / (1.0 - y)
        w[mode] = 1.0
        total = 1.0
        for k in range(mode + 1, q + 1):
            w[k] = w[k - 1] * odds * (q - k + 1) / k
            total += w[k]
        for k in range(mode - 1, -1, -1):
            w[k] = w[k + 1] * (k + 1) / ((q - k) * odds)
            total += w[k]
        for k in range(q + 1):
            w[k] /= total
    s0 = s1 = t0 = t1 = 0.0
    for k in range(q + 1):
        s0 += w[k] * coefs[branch, 0, k]
        s1 += w[k] * coefs[branch, 1, k]
        t0 += w[k] * coefs[branch, 2, k]
        t1 += w[k] * coefs[branch, 3, k]
    return (1.0 - z) * t0 + z * t1, (1.0 - z) * s0 + z * s1


@njit(cache=True)
def ends_high(coefs, p, attractors, max_rounds):  # type: ignore[no-untyped-def]
    """True if the start Z = Y = p ends with most statements correct.

    `attractors`: rows (Z, Y, radius) around stable fixed points inside which the destination is decided.
    """
    w = np.empty(coefs.shape[2])
    z = y = p
    rise = 0.0
    for _ in range(max_rounds):
        z1, y1 = _step(coefs, w, z, y)
        moved = max(abs(z1 - z), abs(y1 - y))
        rise = y1 - y
        z, y = z1, y1
        if moved < 1e-15:
            break
        for i in range(attractors.shape[0]):
            if max(abs(z - attractors[i, 0]), abs(y - attractors[i, 1])) < attractors[i, 2]:
                return attractors[i, 1] > 0.5
    else:
        # Still creeping, which happens only close to a threshold: Z has long settled, the direction decides.
        if rise != 0.0:
            return rise > 0.0
    return y > 0.5


@njit(cache=True)
def bisect_start(coefs, attractors, max_rounds):  # type: ignore[no-untyped-def]
    """Boundary between the starts that end low and those that end high."""
    low, high = 0.0, 1.0
    while True:
        mid = 0.5 * (low + high)
        if mid <= low or mid >= high:
            break
        if ends_high(coefs, mid, attractors, max_rounds):
            high = mid
        else:
            low = mid
    return 0.5 * (low + high)


@njit(cache=True)
def rounds_until(coefs, p, level, max_rounds):  # type: ignore[no-untyped-def]
    """First round whose statement accuracy exceeds `level`; -1 if none up to `max_rounds` does."""
    w = np.empty(coefs.shape[2])
    z = y = p
    for t in range(max_rounds + 1):
        if y > level:
            return t
        z, y = _step(coefs, w, z, y)
    return -1
