"""Prompts: the wording of a pack, filled with what an agent can see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from abilene.errors import UsageError
from abilene.tasks.evidence import is_full
from abilene.tasks.task import Task
from abilene.team.call import Kind, Line
from abilene.team.wording import PromptPack, check_alone, fill

NO_ANSWER = "(no answer)"
NOTHING = "(nothing yet)"
NOBODY = "(you see nobody's answer)"
SOMEBODY = "Somebody"
_DOUBT = "doubt"  # the pack's wording for the extra line of a reply


def note_id(index: int) -> str:
    """Id under which an agent's own note number `index` (from 0) is shared: P1, P2, ..."""
    return f"P{index + 1}"


@dataclass(frozen=True, slots=True)
class View:
    """What one agent can see when it is asked in a discussion round.

    Parameters
    ----------
    others : sequence of (agent, answer or None)
        Observed agents with their public answers of the round before.
    board : sequence of (agent, text)
        Notes on the table that this agent may read, in order of appearance.
    own : str or None
        Its previous private answer.
    doubts : mapping
        Reasons against the leading answer by observed agent, given in the round before.
    named : bool
        Whether the others' answers are shown with their names. Without them they are sorted, so that the order
        tells nothing either.
    """

    others: Sequence[tuple[int, str | None]] = ()
    board: Sequence[tuple[int, str]] = ()
    own: str | None = None
    doubts: Mapping[int, str] = field(default_factory=dict)
    named: bool = True


def render(
    pack: PromptPack,
    task: Task,
    agent: int,
    kind: Kind,
    framing: str,
    view: View,
    *,
    silent: bool = False,
    doubt: bool = False,
    alone: bool = False,
) -> tuple[str, str, tuple[Line, ...]]:
    """System prompt, user prompt and reply format of one call.

    Parameters
    ----------
    pack : PromptPack
        The wording.
    task : Task
        What is asked.
    agent : int
        Whom, from 0.
    kind : str
        ``round0``, ``public`` or ``probe``.
    framing : str
        What is added to the system prompt. In round 0 never an instruction.
    view : View
        What the agent can see of the others.
    silent : bool
        The public call of a round in which notes are shared and nothing is stated.
    doubt : bool
        The public call also asks for a reason against the leading answer.
    alone : bool
        Round 0 as a question to somebody who is told of no team: all that the agent knows is one list. Tasks of the
        full profile are always asked so, and nothing in their prompts speaks of knowledge that others lack.
    """
    section = pack.section(task.benchmark)
    alone = alone or is_full(task)
    if alone:
        check_alone(pack, task.benchmark)
    member = section.member
    own_notes = task.private[agent]
    others = _others(member, view)
    board = [
        f"- {text} (put there by {'you' if j == agent else f'{member} {j + 1}'})" for j, text in view.board
    ]
    a, b = (*task.options, "", "")[:2]
    values = {
        "member": member,
        "agent": str(agent + 1),
        "n": str(task.team_size),
        "framing": framing,
        "question": task.question,
        "options": " | ".join(task.options),
        "shared": "\n".join(f"- {n.text}" for n in task.shared) or NOTHING,
        "notes": "\n".join(f"[{note_id(i)}] {n.text}" for i, n in enumerate(own_notes)) or NOTHING,
        "board": "\n".join(board) or NOTHING,
        "facts": "\n".join(f"- {n.text}" for n in (*task.shared, *own_notes)) or NOTHING,
        "others": "\n".join(others) or NOBODY,
        "own": view.own or NO_ANSWER,
        "a": a,
        "b": b,
    }
    system = (section.alone_system if alone else None) or section.system
    first = (section.alone if alone else None) or section.round0
    template = {"round0": first, "public": section.public, "probe": section.probe}[kind]
    lines = reply_format(task, agent, kind)
    if kind == "public" and silent:
        if section.share is None:
            raise UsageError(
                f"The prompt pack '{pack.name}' has no wording for a round that only shares. Add share to its "
                "sections, as the built-in pack has it."
            )
        template, lines = section.share, lines[-1:]
    user = fill(template, values)
    if kind == "public" and doubt:
        user += f"\n\n{pack.directive(_DOUBT, 1, 1)}"
        lines = (*lines, Line("DOUBT"))
    return fill(system, values), user, lines


def _others(member: str, view: View) -> list[str]:
    if not view.named:
        return [f"- {SOMEBODY} says: {a}" for a in sorted(answer or NO_ANSWER for _, answer in view.others)]
    lines = []
    for j, answer in view.others:
        lines.append(f"- {member} {j + 1} says: {answer or NO_ANSWER}")
        if j in view.doubts:
            # Not a list item of its own: nobody, simulated agents included, may take it for an answer.
            lines.append(f"  {member} {j + 1} on why the leading answer may be wrong: {view.doubts[j]}")
    return lines


def reply_format(task: Task, agent: int, kind: Kind) -> tuple[Line, ...]:
    """The exact lines a reply should have."""
    if kind == "public":
        ids = tuple(note_id(i) for i in range(len(task.private[agent])))
        return (
            Line("PRIVATE", task.options),
            Line("PUBLIC", task.options),
            Line("SHARE", (*ids, "NONE")),
        )
    answer = Line("ANSWER", task.options)
    if kind == "round0" and task.benchmark == "hidden_profile":
        return Line("COUNT", counts=task.options), answer
    return (answer,)
