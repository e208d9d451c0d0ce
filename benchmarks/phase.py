"""Phase diagram of 101 x 101 points, N = 100, T = 100, at least 1,000 teams a point: CPU seconds of one thread.

    python benchmarks/phase.py [--json]

The plain NumPy peer simulates 1,000 teams at single points, spread over the plane, and is scaled to all points.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from abilene.theory.phase import phase_diagram

A, RHO, R = 0.5, 1.0, 0.8
N, ROUNDS, TEAMS, REACH = 100, 100, 1000, 10.0


def point(c: float, p: float, q: int | None, rng: np.random.Generator) -> float:
    """Share of correct verdicts among TEAMS teams; teams that agree are dropped from the work."""
    z = (rng.random((TEAMS, N)) < p).astype(np.int8)
    y = z.copy()
    done = 0
    for _ in range(ROUNDS):
        total = y.sum(axis=1, dtype=np.int32) + z.sum(axis=1, dtype=np.int32)
        done += int((total == 2 * N).sum())
        live = (total > 0) & (total < 2 * N)
        z, y = z[live], y[live]
        if not len(z):
            break
        if q is None:
            k, size = y.sum(axis=1, dtype=np.int16)[:, None] - y, N - 1
        else:
            others = y.sum(axis=1, dtype=np.int16)[:, None] - y
            k, size = rng.hypergeometric(others, N - 1 - others, q), q
        withholds = (np.sign(2 * k - size) == 1 - 2 * z) & (rng.random(z.shape) < c)
        internalizes = withholds & (rng.random(z.shape) < A)
        dissent = np.where(z == 1, size - k, k) / size
        again = ~withholds & (rng.random(z.shape) < RHO * dissent)
        lands = rng.random(z.shape) < R
        y = np.where(withholds, 1 - z, z).astype(np.int8)
        z = np.where(internalizes, 1 - z, np.where(again, lands, z)).astype(np.int8)
    return (done + int((2 * y.sum(axis=1, dtype=np.int32) > N).sum())) / TEAMS


def main() -> None:
    results = []
    rng = np.random.default_rng(0)
    for observed in (3, "complete"):
        phase_diagram(10, 2, A, RHO, R, observed, withholding=[0.5], accuracy=[0.5])  # compile
        begin = time.process_time()
        diagram = phase_diagram(N, ROUNDS, A, RHO, R, observed, teams=TEAMS)
        seconds = time.process_time() - begin
        cs, ps = (0.1, 0.3, 0.5, 0.7, 0.9), (0.1, 0.3, 0.45, 0.6, 0.9)
        begin = time.process_time()
        worst = 0.0
        for c in cs:
            for p in ps:
                share = point(c, p, None if observed == "complete" else observed, rng)
                worst = max(worst, abs(share - float(diagram.correct.sel(withholding=c, accuracy=p))))
        plain = (time.process_time() - begin) / 25 * diagram.correct.size
        results.append(
            {
                "observed": observed, "points": diagram.correct.size, "cpu_seconds": seconds, "reach": REACH,
                "numpy_cpu_seconds": plain, "ratio": plain / seconds, "largest_difference": worst,
                "largest_standard_error": float(diagram.standard_error.max()),
            }
        )  # fmt: skip
    if "--json" in sys.argv[1:]:
        print(json.dumps(results))
        return
    for x in results:
        print(
            f"observed={x['observed']!s:<9} {x['points']} points  {x['cpu_seconds']:.2f} CPU-s (reach {REACH:g})  "
            f"NumPy {x['numpy_cpu_seconds']:.0f} CPU-s, ratio {x['ratio']:.0f}  "
            f"largest difference {x['largest_difference']:.3f}, standard error <= {x['largest_standard_error']:.4f}"
        )


if __name__ == "__main__":
    main()
