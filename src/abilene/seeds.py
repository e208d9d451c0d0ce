"""Child seeds keyed by stable ids, never by loop order.

Results therefore do not depend on the number of workers, on the order of tasks, or on which calls were
answered before a run was interrupted.
"""

from __future__ import annotations

import hashlib

import numpy as np

Key = str | int
"""What a child seed may be keyed by."""


def _digest(seed: int, keys: tuple[Key, ...]) -> bytes:
    h = hashlib.blake2b(digest_size=16)
    for part in (seed, *keys):
        # The type and the length are hashed too, so ("ab", "c") and ("a", "bc"), 1 and "1" stay apart.
        body = str(part).encode()
        h.update(f"{type(part).__name__}:{len(body)}:".encode())
        h.update(body)
    return h.digest()


def child_seed(seed: int, *keys: Key) -> int:
    """Integer seed in [0, 2**128) that depends on the root seed and on the keys alone.

    Examples
    --------
    >>> child_seed(0, "task", 3) == child_seed(0, "task", 3)
    True
    >>> child_seed(0, "task", 3) == child_seed(0, "task", "3")
    False
    """
    return int.from_bytes(_digest(seed, keys), "little")


def child_rng(seed: int, *keys: Key) -> np.random.Generator:
    """NumPy generator seeded by `child_seed`."""
    return np.random.default_rng(child_seed(seed, *keys))


def uniform(seed: int, *keys: Key) -> float:
    """One number, uniform on [0, 1), that is a pure function of its arguments (53 bits)."""
    return (int.from_bytes(_digest(seed, keys)[:8], "little") >> 11) * 2.0**-53
