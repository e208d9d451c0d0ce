"""Exact teams: CPU seconds of one solution for every starting number, beside Monte Carlo of the same precision.

    python benchmarks/chain.py [--json]

The Monte Carlo peer is plain NumPy over many teams; its time is scaled from a small run to a standard error of
1e-4 at probability 1/2 (25 million teams).
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from abilene.rates import Rates
from abilene.theory.chain import cost, solve

RATES = Rates(c=0.5, a=0.5, rho=1.0, r=0.8)
TARGETS = {15: 0.2, 25: 3.0}
ROUNDS, ERROR, TEAMS = 30, 1e-4, 20_000


def monte_carlo(n: int, teams: int) -> float:
    rng = np.random.default_rng(0)
    z = np.zeros((teams, n), dtype=np.int8)
    z[:, : n // 2] = 1
    y = z.copy()
    for _ in range(ROUNDS):
        k, size = y.sum(axis=1, dtype=np.int16)[:, None] - y, n - 1
        opposed = np.sign(2 * k - size) == 1 - 2 * z
        withholds = opposed & (rng.random((teams, n)) < RATES.c)
        internalizes = withholds & (rng.random((teams, n)) < RATES.a)
        dissent = np.where(z == 1, size - k, k) / size
        again = ~withholds & (rng.random((teams, n)) < RATES.rho * dissent)
        lands = rng.random((teams, n)) < RATES.r
        y = np.where(withholds, 1 - z, z).astype(np.int8)
        z = np.where(internalizes, 1 - z, np.where(again, lands, z)).astype(np.int8)
    return float((2 * y.sum(axis=1, dtype=np.int32) > n).mean())


def main() -> None:
    solve(3, 1, RATES)
    results = []
    for n, target in TARGETS.items():
        begin = time.process_time()
        exact = solve(n, ROUNDS, RATES).start(n // 2).correct
        seconds = time.process_time() - begin
        begin = time.process_time()
        share = monte_carlo(n, TEAMS)
        sampling = (time.process_time() - begin) * (0.25 / ERROR**2) / TEAMS
        results.append(
            {
                "team_size": n, "rounds": ROUNDS, "states": cost(n, ROUNDS).states, "cpu_seconds": seconds,
                "target": target, "estimate": cost(n, ROUNDS).seconds, "monte_carlo_cpu_seconds": sampling,
                "ratio": sampling / seconds, "exact": exact, "sampled": share,
            }
        )  # fmt: skip
    if "--json" in sys.argv[1:]:
        print(json.dumps(results))
        return
    for x in results:
        print(
            f"N={x['team_size']:<3} T={x['rounds']}  {x['states']:>5} states  {x['cpu_seconds']:.3f} CPU-s "
            f"(reach {x['target']}; said {x['estimate']})  NumPy to se {ERROR:g}: "
            f"{x['monte_carlo_cpu_seconds']:.0f} CPU-s, ratio {x['ratio']:.0f}  "
            f"(exact {x['exact']:.4f}, sampled {x['sampled']:.4f})"
        )


if __name__ == "__main__":
    main()
