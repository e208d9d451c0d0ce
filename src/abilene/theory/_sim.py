"""Compiled simulation. Every replicate has a key of its own, from which a counter-based generator
(SplitMix64) draws: results depend neither on the number of threads nor on how replicates are grouped, and
integer sums make the totals exact. Binary decisions compare 31 random bits with probabilities rounded to
2^-31, of which 0 and 1 are exact.

A binary agent is a number 2 y + z (the kernel's outcomes), a K-ary answer 0 (correct) or 1..K-1 (wrong).
`sums`, int64 (rounds + 2, 2): correct beliefs and correct statements per round; last row: correct and tied
verdicts. `private`, `public`, uint8 (replicates, rounds + 1, N), and `seen`, int32 (one more axis, q),
take the record; with no replicates they are left alone. Every function returns the number of correct votes.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

_STEP = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_KEY = np.uint64(0xD1342543DE82EF95)
_S30, _S27, _S31, _S11, _S33 = (np.uint64(k) for k in (30, 27, 31, 11, 33))
_TO_UNIT = 2.0**-53


@njit(cache=True, nogil=True)
def _mix(x):  # type: ignore[no-untyped-def]
    x = (x ^ (x >> _S30)) * _M1
    x = (x ^ (x >> _S27)) * _M2
    return x ^ (x >> _S31)


@njit(cache=True, nogil=True)
def _key(seed, replicate):  # type: ignore[no-untyped-def]
    return _mix(_mix(seed + _STEP) ^ _mix(uint64(replicate) * _KEY + _STEP))


@njit(cache=True, nogil=True)
def _uniform(rng):  # type: ignore[no-untyped-def]
    rng[0] += _STEP
    return (_mix(rng[0]) >> _S11) * _TO_UNIT


@njit(cache=True, nogil=True)
def _fill(x, bits):  # type: ignore[no-untyped-def]
    # A loop of its own, without carried dependence, so that the compiler can vectorise it.
    for j in range(bits.shape[0]):
        bits[j] = _mix(x + uint64(j + 1) * _STEP)


@njit(cache=True, nogil=True)
def _advance(u, state, row):  # type: ignore[no-untyped-def]
    """One round of agents whose thresholds depend on their class alone; written for vector instructions."""
    a0, a1, a2 = row[0, 0], row[0, 1], row[0, 2]
    b0, b1, b2 = row[1, 0], row[1, 1], row[1, 2]
    c0, c1, c2 = row[2, 0], row[2, 1], row[2, 2]
    d0, d1, d2 = row[3, 0], row[3, 1], row[3, 2]
    for i in range(state.shape[0]):
        s = state[i]
        v = u[i] >> np.uint32(1)
        t0 = (d0 if s == 3 else c0) if s >= 2 else (b0 if s == 1 else a0)
        t1 = (d1 if s == 3 else c1) if s >= 2 else (b1 if s == 1 else a1)
        t2 = (d2 if s == 3 else c2) if s >= 2 else (b2 if s == 1 else a2)
        if v >= t2:
            new = np.uint8(3)
        elif v >= t1:
            new = np.uint8(2)
        elif v >= t0:
            new = np.uint8(1)
        else:
            new = np.uint8(0)
        state[i] = new
    stated = believed = 0
    for i in range(state.shape[0]):
        stated += state[i] >> 1
        believed += state[i] & 1
    return stated, believed


@njit(cache=True, nogil=True)
def crowd(table, n, start, p, rounds, absorbing, seed, first, last, sums):  # type: ignore[no-untyped-def]
    """Exchangeable agents with the same rates; replicates `first` to `last` - 1.

    table : uint32 (N + 1, 4, 3), cumulative outcome probabilities times 2^31 by S and class. start: k0, or -1
    for each agent correct with probability p. absorbing : an agreeing team moves no more and is skipped.
    """
    state = np.empty(n, np.uint8)
    bits = np.empty((n + 1) // 2, np.uint64)
    u = bits.view(np.uint32)[:n]
    rng = np.empty(1, np.uint64)
    votes = 0
    for replicate in range(first, last):
        rng[0] = _key(seed, replicate)
        stated = 0
        for i in range(n):
            right = i < start if start >= 0 else _uniform(rng) < p
            state[i] = 3 if right else 0
            stated += right
        believed = stated
        votes += 2 * stated > n
        sums[0, 0] += believed
        sums[0, 1] += stated
        for t in range(1, rounds + 1):
            if not (absorbing and stated == believed and (stated == 0 or stated == n)):
                _fill(rng[0], bits)
                rng[0] += uint64(bits.shape[0]) * _STEP
                stated, believed = _advance(u, state, table[stated])
            sums[t, 0] += believed
            sums[t, 1] += stated
        sums[rounds + 1, 0] += 2 * stated > n
        sums[rounds + 1, 1] += 2 * stated == n
    return votes


@njit(cache=True, nogil=True)
def _place(rng, beliefs, k0, p):  # type: ignore[no-untyped-def]
    """Initial beliefs: given (k0 = -2), each correct with probability p (-1), or k0 of them anywhere."""
    n = beliefs.shape[0]
    right = k0
    for i in range(n):
        if k0 == -1:
            beliefs[i] = _uniform(rng) < p
        elif k0 >= 0:
            beliefs[i] = _uniform(rng) * (n - i) < right
            right -= beliefs[i]


@njit(cache=True, nogil=True)
def _draw_others(rng, i, n, q, marked, out):  # type: ignore[no-untyped-def]
    """q distinct agents other than i, into out; `marked` is all False before and after."""
    found = 0
    while found < q:
        j = int(_uniform(rng) * (n - 1))
        if j >= i:
            j += 1
        if not marked[j]:
            marked[j] = True
            out[found] = j
            found += 1
    for k in range(q):
        marked[out[k]] = False


@njit(cache=True, nogil=True)
def _keep_sorted(agents, out):  # type: ignore[no-untyped-def]
    """Copy a few numbers in ascending order (insertion: a library sort costs more than the round)."""
    for j in range(agents.shape[0]):
        x = agents[j]
        k = j
        while k > 0 and out[k - 1] > x:
            out[k] = out[k - 1]
            k -= 1
        out[k] = x


@njit(cache=True, nogil=True)
def binary(  # type: ignore[no-untyped-def]
    table,
    offset,
    indptr,
    indices,
    redrawn,
    given,
    k0,
    p,
    rounds,
    seed,
    first,
    last,
    sums,
    private,
    public,
    seen,
):
    """Any agents on any graph.

    table : int64 (rows, 3), cumulative probabilities times 2^31. offset : (N,), first row of agent i; its row
    is offset + z (q + 1) + k. indptr, indices: observed agents, agent by agent. redrawn : q drawn anew each
    round, or 0: the graph; -1: everybody else.
    """
    n = offset.shape[0]
    z, y, before = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    marked = np.zeros(n, np.bool_)
    others = np.empty(max(redrawn, 1), np.int64)
    rng = np.empty(1, np.uint64)
    keep = private.shape[0] > 0
    votes = 0
    for replicate in range(first, last):
        rng[0] = _key(seed, replicate)
        z[:] = given
        _place(rng, z, k0, p)
        y[:] = z
        stated = y.sum()
        votes += 2 * stated > n
        for t in range(rounds + 1):
            if t > 0:
                before[:] = y
                total = stated
                stated = 0
                for i in range(n):
                    k = 0
                    if redrawn > 0:
                        _draw_others(rng, i, n, redrawn, marked, others)
                        for j in range(redrawn):
                            k += before[others[j]]
                        if keep:
                            _keep_sorted(others, seen[replicate, t, i])
                        q = redrawn
                    elif redrawn < 0:
                        k = total - before[i]
                        q = n - 1
                    else:
                        q = indptr[i + 1] - indptr[i]
                        for j in range(indptr[i], indptr[i + 1]):
                            k += before[indices[j]]
                    rng[0] += _STEP
                    u = np.int64(_mix(rng[0]) >> _S33)
                    row = offset[i] + z[i] * (q + 1) + k
                    new = (u >= table[row, 0]) + (u >= table[row, 1]) + (u >= table[row, 2])
                    z[i] = new & 1
                    y[i] = new >> 1
                    stated += new >> 1
            sums[t, 0] += z.sum()
            sums[t, 1] += stated
            if keep:
                for i in range(n):
                    private[replicate, t, i] = 1 - z[i]
                    public[replicate, t, i] = 1 - y[i]
        sums[rounds + 1, 0] += 2 * stated > n
        sums[rounds + 1, 1] += 2 * stated == n
    return votes


@njit(cache=True, nogil=True)
def answer_step(belief, counts, q, c, a, rho, r, u):  # type: ignore[no-untyped-def]
    """Statement and next belief of one agent that sees `counts` of each answer: `kernel.outcomes`, one draw.

    The uniform u is cut and stretched as outcomes are excluded.
    """
    majority, most, tied, wrong = -1, 0, False, 0
    for x in range(counts.shape[0]):
        if counts[x] > most:
            majority, most, tied = x, counts[x], False
        elif counts[x] == most and most > 0:
            tied = True
        if x > 0 and counts[x] > 0:
            wrong += 1
    withholds = c if (not tied and majority >= 0 and majority != belief) else 0.0
    if u < withholds:
        return majority, majority if u < withholds * a else belief
    dissent = (q - counts[belief]) / q if q > 0 else 0.0
    u = (u - withholds) / (1.0 - withholds)
    reconsiders = rho * dissent
    if u >= reconsiders:
        return belief, belief
    u /= reconsiders
    if u < r:
        return belief, 0
    if wrong == 0:
        return belief, belief
    pick = min(int((u - r) / (1.0 - r) * wrong), wrong - 1)
    for x in range(1, counts.shape[0]):
        if counts[x] > 0:
            if pick == 0:
                return belief, x
            pick -= 1
    return belief, belief


@njit(cache=True, nogil=True)
def _verdict(answers, total):  # type: ignore[no-untyped-def]
    """1: the correct answer is the unique plurality, 0: another one is, -1: a tie."""
    total[:] = 0
    for x in answers:
        total[x] += 1
    most = total.max()
    if (total == most).sum() > 1:
        return -1
    return 1 if total[0] == most else 0


@njit(cache=True, nogil=True)
def plural(  # type: ignore[no-untyped-def]
    answers, rates, noise, indptr, indices, redrawn, given, k0, p, rounds, seed, first, last, sums, private,
    public, seen,
):  # fmt: skip
    """K answers. rates : (N, 4), rows c, a, rho, r; wrong agents start on a wrong answer drawn uniformly."""
    n = rates.shape[0]
    right = np.empty(n, np.int64)
    z, y, before = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    counts, total = np.empty(answers, np.int64), np.empty(answers, np.int64)
    marked = np.zeros(n, np.bool_)
    others = np.empty(max(redrawn, 1), np.int64)
    rng = np.empty(1, np.uint64)
    keep = private.shape[0] > 0
    votes = 0
    for replicate in range(first, last):
        rng[0] = _key(seed, replicate)
        right[:] = given
        _place(rng, right, k0, p)
        for i in range(n):
            z[i] = 0 if right[i] else 1 + int(_uniform(rng) * (answers - 1))
        y[:] = z
        votes += _verdict(y, total) == 1
        for t in range(rounds + 1):
            if t > 0:
                before[:] = y
                total[:] = 0
                for i in range(n):
                    total[before[i]] += 1
                for i in range(n):
                    if redrawn < 0:
                        counts[:] = total
                        counts[before[i]] -= 1
                        q = n - 1
                    else:
                        counts[:] = 0
                        if redrawn > 0:
                            q = redrawn
                            _draw_others(rng, i, n, q, marked, others)
                            for j in range(q):
                                counts[before[others[j]]] += 1
                            if keep:
                                _keep_sorted(others, seen[replicate, t, i])
                        else:
                            q = indptr[i + 1] - indptr[i]
                            for j in range(indptr[i], indptr[i + 1]):
                                counts[before[indices[j]]] += 1
                    y[i], z[i] = answer_step(
                        z[i], counts, q, rates[i, 0], rates[i, 1], rates[i, 2], rates[i, 3], _uniform(rng)
                    )
                    if noise > 0.0 and _uniform(rng) < noise:
                        z[i] = int(_uniform(rng) * answers)
            for i in range(n):
                sums[t, 0] += z[i] == 0
                sums[t, 1] += y[i] == 0
                if keep:
                    private[replicate, t, i] = z[i]
                    public[replicate, t, i] = y[i]
        verdict = _verdict(y, total)
        sums[rounds + 1, 0] += verdict == 1
        sums[rounds + 1, 1] += verdict == -1
    return votes
