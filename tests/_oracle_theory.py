"""The four rules written down a second time, agent by agent and without tables, as an oracle for the theory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from abilene.rates import Rates


def literal(z: int, seen: Sequence[int], rates: Rates) -> dict[tuple[int, int], float]:
    """P(statement, next belief) of one agent with two answers, by walking through its decisions."""
    c, a, rho, r = rates.c, rates.a, rates.rho, rates.r
    ones, zeros = sum(seen), len(seen) - sum(seen)
    m = None if ones == zeros else int(ones > zeros)
    d = sum(abs(z - s) for s in seen) / len(seen) if seen else 0.0
    out: Counter[tuple[int, int]] = Counter()

    def speak(weight: float) -> None:
        out[z, z] += weight * (1 - rho * d)
        out[z, 1] += weight * rho * d * r
        out[z, 0] += weight * rho * d * (1 - r)

    if m is None or m == z:
        speak(1.0)
    else:
        out[m, m] += c * a
        out[m, z] += c * (1 - a)
        speak(1.0 - c)
    return dict(out)


def enumerate_team(
    views: Sequence[Sequence[Sequence[int]]],
    rates: Sequence[Rates],
    rounds: int,
    beliefs: Sequence[int],
) -> dict[tuple[tuple[int, int], ...], float]:
    """Distribution over ((y, z) of every agent) after `rounds`; views[i] lists the equally likely sets of agents
    that i may observe, drawn anew each round."""
    states = {tuple((b, b) for b in beliefs): 1.0}
    for _ in range(rounds):
        ahead: Counter[tuple[tuple[int, int], ...]] = Counter()
        for state, mass in states.items():
            each = []
            for i, (_, z) in enumerate(state):
                mixed: Counter[tuple[int, int]] = Counter()
                for view in views[i]:
                    for outcome, p in literal(z, [state[j][0] for j in view], rates[i]).items():
                        mixed[outcome] += p / len(views[i])
                each.append([(o, p) for o, p in mixed.items() if p > 0.0])
            for combination in itertools.product(*each):
                p = mass
                for _, q in combination:
                    p *= q
                ahead[tuple(o for o, _ in combination)] += p
        states = dict(ahead)
    return states


def summarise(states: dict[tuple[tuple[int, int], ...], float]) -> tuple[float, float, float]:
    """P(correct verdict), P(tie), expected share of correct beliefs."""
    correct = tie = beliefs = 0.0
    for state, p in states.items():
        ones, n = sum(y for y, _ in state), len(state)
        correct += p * (2 * ones > n)
        tie += p * (2 * ones == n)
        beliefs += p * sum(z for _, z in state) / n
    return correct, tie, beliefs


def complete(n: int) -> list[list[list[int]]]:
    return [[[j for j in range(n) if j != i]] for i in range(n)]


def redrawn(n: int, q: int) -> list[list[list[int]]]:
    return [[list(v) for v in itertools.combinations([j for j in range(n) if j != i], q)] for i in range(n)]


def random_rates(rng: np.random.Generator) -> Rates:
    return Rates(*(float(x) for x in rng.uniform(0.05, 0.95, 4)))
