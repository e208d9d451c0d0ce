"""Texts of open discussions: how hands are dealt and facts ordered, what is quoted, what is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from abilene.seeds import child_rng
from abilene.tasks.task import Note, Task
from abilene.team.call import Completion
from abilene.team.lines import strip_thought, tagged
from abilene.team.replies import Reading

NO_MESSAGE = "(no message)"
NO_REASON = "(no reason given)"
SILENCE = "(nobody has spoken yet)"

# At the start of a line, or in capitals further on in it (after the vote).
_REASON = re.compile(
    r"(?:^[\W_]{0,40}(?i:RATIONALE)|(?<=\s)[*_]{0,3}RATIONALE)[\s*_~`]{0,10}[:：][ \t*_~`]*", re.MULTILINE
)


def deal(task: Task, seed: int, epoch: int) -> Task:
    """The task with its hands shuffled over the agents.

    Parameters
    ----------
    task : Task
        As the benchmark deals it. An agent's notes stay together.
    seed, epoch : int
        Decide, with the task's id, who gets which hand.

    Returns
    -------
    Task
        `design` no longer says which agents were informed.

    Examples
    --------
    >>> task = Task("t", "b", "Q?", ("x", "y"), "x", (), tuple((Note(f"clue {i}"),) for i in range(4)))
    >>> [own[0].text for own in deal(task, seed=0, epoch=1).private]
    ['clue 3', 'clue 2', 'clue 1', 'clue 0']
    """
    order = child_rng(seed, "open", "hands", task.id, epoch).permutation(task.team_size)
    kept = {k: v for k, v in task.design.items() if k not in ("informed", "holders")}
    return replace(task, private=tuple(task.private[k] for k in order), design=kept)


def shuffled(notes: Sequence[Note], seed: int, *key: str | int) -> tuple[Note, ...]:
    """Notes in a random order that depends on seed and key alone."""
    order = child_rng(seed, "open", "facts", *key).permutation(len(notes))
    return tuple(notes[k] for k in order)


def unanimous(votes: Sequence[Reading]) -> bool:
    """Whether everybody voted, and voted alike."""
    return None not in (values := {v.value for v in votes}) and len(values) == 1


def message(done: Completion) -> str | None:
    """What the others read of a message: the reply without thought blocks; None where nothing is left."""
    return None if done.error is not None else strip_thought(done.text)[0].strip() or None


def read_rationale(done: Completion) -> str | None:
    """Reasons that come with a vote, on one line; None where the reply has no RATIONALE.

    Examples
    --------
    >>> read_rationale(Completion("ANSWER: East\\n**RATIONALE:** The bridge\\nis open."))
    'The bridge is open.'
    """
    text = "" if done.error is not None else strip_thought(done.text)[0]
    if found := list(_REASON.finditer(text)):
        lines = text[found[-1].end() :].splitlines()
        # Reasons may go on below their tag, up to the vote.
        end = next((k for k, line in enumerate(lines) if tagged(line, "ANSWER")), len(lines))
        reason = " ".join(" ".join(lines[:end]).split())
    else:  # in a reply that is one JSON object
        reason = next((" ".join(t.value.split()) for t in tagged(text, "RATIONALE")), "")
    return reason or None


def quoted(member: str, agent: int, text: str | None) -> str:
    """One message as the others read it."""
    # Further lines are indented, so that no message can pass for another member's.
    return f"- {member} {agent + 1} wrote: " + "\n  ".join((text or NO_MESSAGE).splitlines())


__all__ = [
    "NO_MESSAGE",
    "NO_REASON",
    "SILENCE",
    "deal",
    "message",
    "quoted",
    "read_rationale",
    "shuffled",
    "unanimous",
]
