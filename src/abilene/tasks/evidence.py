"""What a set of notes says, and who holds it: findings per option, the option they favor, the full profile."""

from __future__ import annotations

from collections import Counter
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
        The same id and question. The notes of all agents are shared, each once, after those that were shared before;
        nobody holds one alone. `design` says ``condition = "full"`` and no longer says who was informed or which
        accuracy that would give.

    Examples
    --------
    >>> task = Task("t", "b", "Q?", ("x", "y"), "x", (), ((Note("one"),), (Note("two"),), (Note("one"),)))
    >>> full = full_profile(task)
    >>> [note.text for note in full.shared], full.private
    (['one', 'two'], ((), (), ()))
    """
    everything = {note.text: note for own in (task.shared, *task.private) for note in own}
    kept = {
        k: v for k, v in task.design.items() if k not in ("n_informed", "p_design", "informed", "holders")
    }
    return replace(
        task,
        shared=tuple(everything.values()),
        private=((),) * task.team_size,
        design={**kept, "condition": "full"},
    )


def is_full(task: Task) -> bool:
    """Whether a task is of the full profile, in which everybody reads everything."""
    return task.design.get("condition") == "full"


def check_full(task: Task) -> list[str]:
    """What is wrong with a full profile, in words; empty if everybody reads every fact, each once."""
    faults = [f"{task.id}: agent {i} holds a note alone" for i, own in enumerate(task.private) if own]
    texts = [note.text for note in task.shared]
    faults += [f"{task.id}: the fact {text!r} is listed twice" for text, n in Counter(texts).items() if n > 1]
    if task.options and task.answer not in task.options:
        faults.append(f"{task.id}: the answer {task.answer!r} is none of the options {task.options!r}")
    return faults
