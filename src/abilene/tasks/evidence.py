"""What a set of notes says, and who holds it: findings per option, the option they favor, the full profile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from abilene.tasks.task import Note, Task

#: Who holds the private notes: each agent its own, or every agent all of them.
CONDITIONS = ("hidden", "full")


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


def full_profile(task: Task) -> Task:
    """The same question with every fact in every agent's hands: the ceiling for one agent without discussion.

    Parameters
    ----------
    task : Task
        As the benchmark deals it.

    Returns
    -------
    Task
        The same id, question and shared notes. Each agent holds its own notes first, then those of the next agents
        in turn; a note that several agents hold is listed once. `design` says ``condition = "full"`` and no longer
        says who was informed or which accuracy that would give.

    Examples
    --------
    >>> task = Task("t", "b", "Q?", ("x", "y"), "x", (), ((Note("one"),), (Note("two"),), (Note("one"),)))
    >>> [[note.text for note in own] for own in full_profile(task).private]
    [['one', 'two'], ['two', 'one'], ['one', 'two']]
    """
    n = task.team_size
    everything = []
    for i in range(n):
        notes = [note for k in range(n) for note in task.private[(i + k) % n]]
        everything.append(tuple({note.text: note for note in notes}.values()))
    kept = {
        k: v for k, v in task.design.items() if k not in ("n_informed", "p_design", "informed", "holders")
    }
    return replace(task, private=tuple(everything), design={**kept, "condition": "full"})


def check_full(task: Task) -> list[str]:
    """What is wrong with a full profile, in words; empty if every agent holds the same facts, each once."""
    faults = []
    texts = [[note.text for note in own] for own in task.private]
    for i, own in enumerate(texts):
        if len(set(own)) != len(own):
            faults.append(f"{task.id}: agent {i} holds a fact twice")
        if set(own) != set(texts[0]):
            faults.append(f"{task.id}: agents 0 and {i} hold different facts in the full profile")
    if task.options and task.answer not in task.options:
        faults.append(f"{task.id}: the answer {task.answer!r} is none of the options {task.options!r}")
    return faults
