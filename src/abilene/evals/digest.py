"""What a person reads in the viewer: a table per round, and the discussion as a few messages."""

from __future__ import annotations

from collections.abc import Sequence

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser

from abilene.records.schema import ANSWERED, Row
from abilene.tasks.task import Task


def round_table(rows: Sequence[Row]) -> str:
    """Markdown table of one round: agent, private and public answer, what was shared, statuses that are not ok."""
    t = rows[0].round
    if t == 0:
        lines = ["| agent | independent answer | remarks |", "|---|---|---|"]
        lines += [f"| {r.agent} | {_answer(r.public, r.truth)} | {_remarks(r)} |" for r in rows]
    else:
        lines = ["| agent | private | public | shared | remarks |", "|---|---|---|---|---|"]
        lines += [
            f"| {r.agent} | {_answer(r.private, r.truth)} | {_answer(r.public, r.truth)} | {_shared(r)} "
            f"| {_remarks(r)} |"
            for r in rows
        ]
    title = "Round 0: independent answers" if t == 0 else f"Round {t}"
    return f"**{title}** (✓ correct)\n\n" + "\n".join(lines)


def messages(task: Task, rows: Sequence[Row]) -> list[ChatMessage]:
    """The discussion as one question and one message per round."""
    question = (
        f"{task.question}\n\nOptions: {' | '.join(task.options) or 'free text'}\n\n"
        f"{task.team_size} agents, numbered from 0 as in the record (prompts number them from 1). "
        "The prompts themselves are under Transcript."
    )
    rounds = [[r for r in rows if r.round == t] for t in sorted({r.round for r in rows})]
    return [
        ChatMessageUser(content=question),
        *(ChatMessageAssistant(content=round_table(part)) for part in rounds),
    ]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _answer(value: str | None, truth: str | None) -> str:
    if value is None:
        return "—"
    return _cell(value) + (" ✓" if value == truth else "")


def _shared(row: Row) -> str:
    if row.share is None:
        return "" if row.share_status in (None, "none") else f"({row.share_status})"
    return _cell(f"{row.share}: {row.share_text or ''}")


def _remarks(row: Row) -> str:
    notes = []
    pairs = [("public", row.public_status, row.public_error)]
    if row.round:
        pairs.append(("private", row.private_status, row.private_error))
    for name, status, error in pairs:
        if error is not None:
            notes.append(f"{name} call failed: {error}")
        elif status is not None and status != "ok":
            notes.append(f"{name} {status}" + ("" if status in ANSWERED else " (no answer)"))
    if row.private_source == "joint":
        notes.append("private taken from the public reply")
    if row.count_correct is False:
        notes.append("counted wrongly")
    return _cell("; ".join(notes))
