"""What a set of notes says: findings per option, and the option they favor."""

from __future__ import annotations

from collections.abc import Iterable

from abilene.tasks.task import Note


def view_counts(options: Iterable[str], notes: Iterable[Note]) -> dict[str, int]:
    """Number of notes that speak for each option.

    Parameters
    ----------
    options : iterable of str
        The options, in the order of the result.
    notes : iterable of Note
        Everything one agent can see. Notes that speak for no option, or for none of these, are not counted.

    Examples
    --------
    >>> view_counts(("Ada", "Bo"), [Note("x", about="Bo"), Note("y", about="Bo"), Note("z")])
    {'Ada': 0, 'Bo': 2}
    """
    counts = dict.fromkeys(options, 0)
    for note in notes:
        if note.about in counts:
            counts[note.about] += 1
    return counts


def favored(options: Iterable[str], notes: Iterable[Note]) -> str | None:
    """Option that strictly more notes speak for than for any other; None on a tie or where no note tells.

    Examples
    --------
    >>> favored(("Ada", "Bo"), [Note("x", about="Bo"), Note("y", about="Bo"), Note("z", about="Ada")])
    'Bo'
    >>> favored(("Ada", "Bo"), [Note("x")]) is None
    True
    """
    counts = view_counts(options, notes)
    best = max(counts.values(), default=0)
    top = [option for option, n in counts.items() if n == best]
    return top[0] if best > 0 and len(top) == 1 else None
