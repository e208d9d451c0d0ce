"""The update rule of one agent: the one place where the four rules are written down.

One round of one agent with belief z, which sees the statements of others from the round before:

* m is their majority: the unique plurality, None on a tie. d is the share of them that differs from z.
* m is None or m = z: it states z, then reconsiders with probability rho d.
* m != z: with probability c it states m, and then believes m with probability a, without reconsidering;
  otherwise it states z and reconsiders with probability rho d.
* Reconsidering lands on the correct answer with probability r, else on an incorrect one: a uniformly drawn
  distinct incorrect answer that is visible among the others; if none is visible the belief stays.

Mean field, exact chain, agent simulation and the simulated LLM agent are all built on this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from abilene.rates import Rates

A = TypeVar("A", bound=Hashable)

#: Columns of `binary_outcomes`: (statement, next belief), 1 = correct.
OUTCOMES: tuple[tuple[int, int], ...] = ((0, 0), (0, 1), (1, 0), (1, 1))


def plurality(seen: Sequence[A]) -> A | None:
    """Majority among the answers seen: the unique plurality; None on a tie at the top or with nothing seen.

    Examples
    --------
    >>> plurality(["x", "y", "x"]), plurality(["x", "y"]), plurality([])
    ('x', None, None)
    """
    top = Counter(seen).most_common(2)
    if not top or (len(top) == 2 and top[0][1] == top[1][1]):
        return None
    return top[0][0]


def dissent(belief: A, seen: Sequence[A]) -> float:
    """Share of the answers seen that differ from the belief, in [0, 1]; 0 when nothing is seen."""
    return sum(s != belief for s in seen) / len(seen) if seen else 0.0


def outcomes(belief: A, seen: Sequence[A], truth: A, rates: Rates) -> list[tuple[A, A, float]]:
    """Distribution of (statement, next belief) of one agent in one round, for any number of answers.

    Parameters
    ----------
    belief : hashable
        The agent's belief on entering the round.
    seen : sequence of hashable
        Statements of the observed agents in the round before (any length; none seen: belief is kept).
    truth : hashable
        The correct answer.
    rates : Rates
        The agent's four rates.

    Returns
    -------
    list of (statement, next belief, probability)
        Probabilities are >= 0 and sum to 1; the order is fixed (withheld outcomes first), so one uniform
        number picks an outcome reproducibly. Outcomes of probability 0 are left out.

    Examples
    --------
    >>> for statement, belief, p in outcomes(1, [0, 0, 1], truth=1, rates=Rates(c=0.5, a=0.5, rho=1, r=1)):
    ...     print(statement, belief, round(p, 3))
    0 0 0.25
    0 1 0.25
    1 1 0.5
    """
    majority = plurality(seen)
    withholds = rates.c if majority is not None and majority != belief else 0.0
    out: dict[tuple[A, A], float] = {}

    def add(statement: A, then: A, p: float) -> None:
        if p > 0.0:
            out[statement, then] = out.get((statement, then), 0.0) + p

    if majority is not None and withholds > 0.0:
        add(majority, majority, withholds * rates.a)
        add(majority, belief, withholds * (1.0 - rates.a))
    speaks = 1.0 - withholds
    reconsiders = rates.rho * dissent(belief, seen)
    add(belief, belief, speaks * (1.0 - reconsiders))
    add(belief, truth, speaks * reconsiders * rates.r)
    wrong = sorted({s for s in seen if s != truth}, key=repr)
    fails = speaks * reconsiders * (1.0 - rates.r)
    for answer in wrong:
        add(belief, answer, fails / len(wrong))
    if not wrong:
        add(belief, belief, fails)
    return [(s, b, p) for (s, b), p in out.items()]


def binary_outcomes(rates: Rates, observed: int) -> NDArray[np.float64]:
    """Outcome probabilities of one agent for two answers.

    Parameters
    ----------
    rates : Rates
        The agent's four rates.
    observed : int
        q >= 0, number of statements seen.

    Returns
    -------
    ndarray, shape (2, q + 1, 4)
        Entry [z, k, j]: probability of outcome ``OUTCOMES[j]`` = (statement, next belief) of an agent with
        belief z that sees k correct statements among q. Sums to 1 over j.

    Notes
    -----
    With two answers the only incorrect answer is where a failed reconsideration lands: an incorrect agent
    whose reconsideration fails keeps its belief, a correct one becomes incorrect.
    """
    q = observed
    k = np.arange(q + 1)
    table = np.zeros((2, q + 1, 4))
    for z in (0, 1):
        d = (np.where(z == 1, q - k, k) / q) if q else np.zeros(1)
        majority = np.sign(2 * k - q)  # 1 correct, -1 incorrect, 0 tie
        withholds = np.where(majority == (1 - 2 * z), rates.c, 0.0)
        speaks, p = 1.0 - withholds, rates.rho * d
        to_correct = np.where(z == 1, 1.0 - p * (1.0 - rates.r), p * rates.r)
        y = z  # index of (statement, belief) is 2 * statement + belief
        table[z, :, 2 * y + 1] += speaks * to_correct
        table[z, :, 2 * y] += speaks * (1.0 - to_correct)
        m = 1 - z  # withholding happens only against an opposed majority
        table[z, :, 2 * m + m] += withholds * rates.a
        table[z, :, 2 * m + z] += withholds * (1.0 - rates.a)
    return table
