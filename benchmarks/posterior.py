"""CPU time of one setting's full posterior, beside a plain grid implementation in the same run.

    python benchmarks/posterior.py [--json]

The plain peer does what the formulas say with NumPy and SciPy: betaln on 401 x 60 points, task by task, and a
401 x 401 array of (u, v) for the posterior, for each resampling of the tasks and for each trial power. Both
summarise the same log: 120 tasks, 5 agents, 3 rounds, 500 resamplings, 4,000 draws.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from _oracle_inference import Log, simulate

from abilene.inference import setting_posterior

TASKS, BOOTSTRAPS, DRAWS, TARGET_MS = 120, 500, 4000, 16.0


def plain_rate(
    k: np.ndarray, n: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    theta, phi = np.linspace(0, 1, 401)[1:-1], np.geomspace(0.5, 1e4, 60)
    alpha, beta = theta[:, None] * phi, (1 - theta[:, None]) * phi
    log_l = np.zeros_like(alpha)
    for ki, ni in zip(k[n > 0], n[n > 0], strict=True):
        log_l += betaln(alpha + ki, beta + ni - ki) - betaln(alpha, beta)
    p = np.exp(log_l - log_l.max()).sum(axis=1)
    p /= p.sum()
    return rng.choice(theta, DRAWS, p=p), theta, p.cumsum()


def plain_setting(log: Log) -> tuple[float, float, float, float]:
    """Median and limits of the margin, and P(c > c*)."""
    rng = np.random.default_rng(0)
    c, theta, cdf = plain_rate(log.k_c, log.n_c, rng)
    a, _, _ = plain_rate(log.k_a, log.k_c, rng)

    axis = np.linspace(0, 1, 401)
    inside = axis[:, None] + axis[None, :] <= 1 + 1e-9
    gamma = axis[:, None] - axis[None, :]
    # Log likelihood of each task, a function of u and one of v.
    per_task = np.zeros((TASKS, 2, 401))
    for t, correct, d, x in zip(log.task, log.enters_correct, log.dissent, log.changed, strict=True):
        per_task[t, int(correct)] += np.log(np.maximum(axis * d if x else 1 - axis * d, 1e-300))

    def square(log_u: np.ndarray, log_v: np.ndarray) -> np.ndarray:
        log_p = np.where(inside, log_u[:, None] + log_v[None, :], -np.inf)
        p = np.exp(log_p - log_p.max())
        return p / p.sum()

    def sd(p: np.ndarray) -> float:
        mean = (p * gamma).sum()
        return float(np.sqrt((p * (gamma - mean) ** 2).sum()))

    means = []
    for _ in range(BOOTSTRAPS):
        picked = per_task[rng.integers(0, TASKS, TASKS)].sum(axis=0)
        means.append((square(*picked) * gamma).sum())
    log_u, log_v = per_task.sum(axis=0)
    target = float(np.std(means, ddof=1))
    power = 1.0
    if sd(square(log_u, log_v)) < target:
        power = brentq(lambda w: sd(square(w * log_u, w * log_v)) - target, 0.01, 1.0, xtol=1e-6)
    p = square(power * log_u, power * log_v)
    place = rng.choice(p.size, DRAWS, p=p.ravel())
    g = gamma.ravel()[place]
    critical = np.where(g > 0, g / np.where(g > 0, g + a, 1.0), 0.0)
    lower, median, upper = np.quantile(c - critical, [0.025, 0.5, 0.975])
    above = 1.0 - np.interp(critical, theta, cdf).mean()
    return float(lower), float(median), float(upper), float(above)


def cpu_ms(work: Callable[[], object], repeats: int) -> float:
    """Median CPU time of one call, after one call to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


def main() -> None:
    log = simulate(np.random.default_rng(1), tasks=TASKS, c=0.3, a=0.5, rho=0.8, r=0.8)

    def ours() -> object:
        found = setting_posterior(**log.arrays(), n_tasks=TASKS, bootstraps=BOOTSTRAPS, draws=DRAWS)  # type: ignore[arg-type]
        return found.posterior  # the draws as a dataset are part of the work

    found = setting_posterior(**log.arrays(), n_tasks=TASKS, bootstraps=BOOTSTRAPS, draws=DRAWS)  # type: ignore[arg-type]
    margin = [found.margin.lower, found.margin.median, found.margin.upper, found.probability_above]
    result = {
        "tasks": TASKS,
        "bootstraps": BOOTSTRAPS,
        "draws": DRAWS,
        "rows": int(log.task.size),
        "posterior_ms": round(cpu_ms(ours, 40), 2),
        "target_ms": TARGET_MS,
        "plain_ms": round(cpu_ms(lambda: plain_setting(log), 3), 1),
        "margin": [round(float(x or 0.0), 4) for x in margin],
        "plain_margin": [round(x, 4) for x in plain_setting(log)],
    }
    result["ratio"] = round(result["plain_ms"] / result["posterior_ms"], 1)  # type: ignore[operator]
    if "--json" in sys.argv[1:]:
        print(json.dumps(result))
        return
    print(f"one setting: {TASKS} tasks, {log.task.size} rows, {BOOTSTRAPS} resamplings, {DRAWS} draws")
    print(f"  abilene     {result['posterior_ms']:8.2f} ms CPU   (to reach: {TARGET_MS:.0f})")
    print(f"  plain grids {result['plain_ms']:8.1f} ms CPU   {result['ratio']} times as long")
    print(f"  margin: lower, median, upper, P(c > c*): {result['margin']}, plain {result['plain_margin']}")


if __name__ == "__main__":
    main()
