"""MuSiQue, retrieval variant: each step of a question is known to another agent.

A question needs 2, 3 or 4 paragraphs, one a step. Every one of them is held by an agent of its own; every agent
also holds one distractor, and all read three more. No agent can answer alone, the answer is free text (see
`abilene.tasks.freetext`), and no note is decisive by itself. Paragraphs are shown as ``[title] text``, cut after
90 words; where the cut removes the answer, `cautions` says so.

Source: Trivedi et al. (2022), MuSiQue-Answerable, CC BY 4.0.
"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import msgspec

from abilene.errors import InputError, UsageError
from abilene.seeds import child_rng, uniform
from abilene.tasks.freetext import normalise
from abilene.tasks.hub import MUSIQUE, HubFile, local_or_hub
from abilene.tasks.rows import read_rows, spread
from abilene.tasks.task import Note, Task

BENCHMARK = "musique"

#: Numbers of steps.
HOPS = (2, 3, 4)
#: Distractors that everybody reads, and words of a note.
SHARED, WORDS = 3, 90

_WHAT = "a MuSiQue-Answerable file with answers (musique_ans_v1.0_dev.jsonl)"
_STEP = "step "


class _Paragraph(msgspec.Struct, frozen=True):
    idx: int
    title: str
    paragraph_text: str
    is_supporting: bool

    def note_text(self) -> str:
        return " ".join(f"[{self.title}] {self.paragraph_text}".split()[:WORDS])


class _Step(msgspec.Struct, frozen=True):
    paragraph_support_idx: int | None


class _Row(msgspec.Struct, frozen=True):
    id: str
    paragraphs: list[_Paragraph]
    question: str
    question_decomposition: list[_Step]
    answer: str
    answer_aliases: list[str]
    answerable: bool


def load(
    path: str | Path | None = None,
    *,
    seed: int = 0,
    tasks: int | None = None,
    team_size: int = 5,
    per_hop: int = 40,
    source: HubFile = MUSIQUE,
) -> tuple[Task, ...]:
    """Tasks of a MuSiQue file.

    Parameters
    ----------
    path : str or Path, optional
        JSON lines as published; without it the file is taken from the hub.
    seed : int
        Decides which questions are taken, which distractors are shown and who holds what. A task depends on the
        seed, the team size and its own row alone, and a smaller selection is part of every larger one.
    tasks : int, optional
        Total number of tasks, spread evenly over 2, 3 and 4 steps; replaces `per_hop`.
    team_size : int
        N, at least the number of steps.
    per_hop : int
        Questions of each number of steps.
    source : HubFile
        Where on the hub the data is.

    Returns
    -------
    tuple of Task
        By number of steps. Ids are ``mq-<id>``. `design` holds n_agents, hops and holders (agent that holds the
        paragraph of step 1, 2, ..., comma-separated). A supporting note's `about` is ``"step k"``, every other
        note's is None: it names no option and must not be shown to agents.

    Warns
    -----
    UserWarning
        Fewer questions than asked for, rows left out and why, tasks with `cautions`; always with counts.

    Raises
    ------
    InputError
        The file or a row cannot be used.
    UsageError
        A number out of range, or a team too small for the steps or too large for the distractors.
    """
    if team_size < max(HOPS):
        raise UsageError(
            f"team size {team_size}: MuSiQue has questions of up to {max(HOPS)} steps, and each step goes to "
            f"another agent. Take at least {max(HOPS)} agents."
        )
    file = local_or_hub(path, source)
    rows: dict[int, list[_Row]] = {hops: [] for hops in HOPS}
    left_out: Counter[str] = Counter()
    seen: set[str] = set()
    for line, row in read_rows(file, _Row, _WHAT):
        if not row.answerable:  # the other half of the "full" files; it repeats the id of its answerable twin
            left_out["are marked as unanswerable"] += 1
            continue
        steps = _steps(file, line, row)
        if row.id in seen:
            raise InputError(
                file, f"the id {row.id!r} occurs twice", "Ids must be unique.", line=line, field="id"
            )
        seen.add(row.id)
        if len(steps) not in rows:
            left_out[f"have other than {', '.join(map(str, HOPS))} steps"] += 1
        elif len({row.paragraphs[k].note_text() for k in steps}) < len(steps):
            left_out["have two steps in one paragraph"] += 1
        elif len(_distractors(row, steps)) < SHARED + team_size:
            left_out[
                f"have fewer than the {SHARED + team_size} distractors that a team of {team_size} needs"
            ] += 1
        else:
            rows[len(steps)].append(row)
    counts = spread([len(found) for found in rows.values()], per_hop, tasks)
    if not any(counts):
        raise UsageError(f"{file} has no question for a team of {team_size}{_list(left_out)}.")
    made = []
    for (hops, found), n in zip(rows.items(), counts, strict=True):
        order = sorted(found, key=lambda row: uniform(seed, BENCHMARK, "pick", row.id))
        made += [_make(row, hops, team_size, seed) for row in order[:n]]
    _warn(made, rows, per_hop, tasks, left_out)
    return tuple(made)


def _steps(file: Path, line: int, row: _Row) -> list[int]:
    """Positions of the supporting paragraphs in the order of the steps."""

    def fault(field: str, found: str, hint: str) -> InputError:
        return InputError(file, f"question {row.id!r}: {found}", hint, line=line, field=field)

    for name, text in (("id", row.id), ("question", row.question), ("answer", row.answer)):
        if not text.strip():
            raise fault(name, "the text is empty", f"Give {_WHAT}.")
    position = {p.idx: k for k, p in enumerate(row.paragraphs)}
    if len(position) < len(row.paragraphs):
        raise fault("paragraphs", "two paragraphs have the same idx", "Number them 0, 1, ...")
    for k, p in enumerate(row.paragraphs):
        if not p.paragraph_text.strip():
            raise fault(f"paragraphs[{k}].paragraph_text", "the text is empty", "Write it or leave it out.")
    steps = []
    for k, step in enumerate(row.question_decomposition):
        at = position.get(-1 if step.paragraph_support_idx is None else step.paragraph_support_idx)
        if at is None:
            raise fault(
                f"question_decomposition[{k}].paragraph_support_idx",
                f"{step.paragraph_support_idx!r} is the idx of no paragraph",
                "Every step names the paragraph that answers it.",
            )
        steps.append(at)
    marked = {k for k, p in enumerate(row.paragraphs) if p.is_supporting}
    if marked != set(steps):
        raise fault(
            "paragraphs",
            f"{len(marked)} paragraphs are marked as supporting, the steps name {len(set(steps))}, and they are "
            "not the same",
            "Mark exactly the paragraphs that the steps name.",
        )
    return steps


def _distractors(row: _Row, steps: list[int]) -> list[str]:
    """Texts of the other paragraphs, each once and none that an agent could take for a supporting one."""
    supporting = {row.paragraphs[k].note_text() for k in steps}
    texts = dict.fromkeys(p.note_text() for p in row.paragraphs if not p.is_supporting)
    return [text for text in texts if text not in supporting]


def _make(row: _Row, hops: int, team_size: int, seed: int) -> Task:
    position = {p.idx: k for k, p in enumerate(row.paragraphs)}
    steps = [position[s.paragraph_support_idx or 0] for s in row.question_decomposition]
    distractors = _distractors(row, steps)
    rng = child_rng(seed, BENCHMARK, team_size, row.id)
    holders = [int(i) for i in rng.permutation(team_size)[:hops]]
    chosen = [Note(distractors[k]) for k in rng.permutation(len(distractors))[: SHARED + team_size]]
    private = []
    for i in range(team_size):
        own = [chosen[SHARED + i]]
        if i in holders:
            k = holders.index(i)
            own.append(Note(row.paragraphs[steps[k]].note_text(), about=f"{_STEP}{k + 1}"))
        private.append(tuple(own[j] for j in rng.permutation(len(own))))
    return Task(
        id=f"mq-{row.id}",
        benchmark=BENCHMARK,
        question=" ".join(row.question.split()),
        options=(),
        answer=row.answer.strip(),
        shared=tuple(chosen[:SHARED]),
        private=tuple(private),
        aliases=tuple(dict.fromkeys(a.strip() for a in row.answer_aliases if a.strip())),
        design={"n_agents": team_size, "hops": hops, "holders": ",".join(map(str, holders))},
    )


def _warn(
    made: list[Task], rows: dict[int, list[_Row]], per_hop: int, tasks: int | None, left_out: Counter[str]
) -> None:
    said = []
    if tasks is None:
        said += [
            f"{len(found)} questions of {hops} steps instead of {per_hop}"
            for hops, found in rows.items()
            if len(found) < per_hop
        ]
    elif len(made) < tasks:
        said.append(f"{len(made)} questions instead of {tasks}")
    if left_out:
        said.append("rows left out" + _list(left_out))
    for kind, n in Counter(kind for task in made for kind in cautions(task)).items():
        said.append(f"in {n} of {len(made)} tasks {kind}")
    if said:
        warnings.warn(f"MuSiQue: {'; '.join(said)}.", UserWarning, stacklevel=3)


def _list(left_out: Counter[str]) -> str:
    return ": " + ", ".join(f"{n} {why}" for why, n in left_out.items()) if left_out else ""


def cautions(task: Task) -> list[str]:
    """What may make a sound task easier or harder than meant, in words.

    The answer (or an alias) occurs in a paragraph that everybody reads, or in a distractor, or in no supporting
    paragraph as shown, because the paragraph was cut. Occurrence is of whole words after normalising.
    """
    wanted = [f" {normalise(a)} " for a in (task.answer, *task.aliases)]

    def occurs(notes: list[Note]) -> bool:
        return any(w in f" {normalise(n.text)} " for n in notes for w in wanted)

    own = [note for notes in task.private for note in notes]
    found = []
    if occurs(list(task.shared)):
        found.append("the answer occurs in a shared paragraph")
    if occurs([n for n in own if n.about is None]):
        found.append("the answer occurs in a distractor that one agent holds")
    if not occurs([n for n in own if n.about is not None]):
        found.append("the answer occurs in no supporting paragraph as shown")
    return found


def check(task: Task) -> list[str]:
    """What is wrong with a MuSiQue task, in words; empty if it is as designed."""
    faults = []

    def expect(what: str, found: object, wanted: object) -> None:
        if found != wanted:
            faults.append(f"{task.id}: {what}: found {found!r}, expected {wanted!r}")

    if not normalise(task.answer):
        faults.append(f"{task.id}: the answer {task.answer!r} has neither letter nor digit")
    expect("options", task.options, ())
    expect("n_agents", task.design.get("n_agents"), task.team_size)
    expect("shared paragraphs", len(task.shared), SHARED)
    expect("supporting paragraphs that everybody reads", [n.about for n in task.shared if n.about], [])
    hops = task.design.get("hops")
    holders: dict[str, int] = {}
    for i, notes in enumerate(task.private):
        steps = [n.about for n in notes if n.about is not None]
        if len(steps) > 1:
            faults.append(f"{task.id}: agent {i} holds {len(steps)} supporting paragraphs")
        expect(f"distractors of agent {i}", len(notes) - len(steps), 1)
        for step in steps:
            if step in holders:
                faults.append(f"{task.id}: {step} is held by the agents {holders[step]} and {i}")
            holders[step] = i
    wanted = [f"{_STEP}{k + 1}" for k in range(hops)] if isinstance(hops, int) else []
    expect("steps held", sorted(holders), wanted)
    expect("holders", task.design.get("holders"), ",".join(str(holders.get(s, "?")) for s in wanted))
    everything = (*task.shared, *(n for notes in task.private for n in notes))
    texts = Counter(note.text for note in everything)
    faults += [
        f"{task.id}: the paragraph {text[:40]!r} occurs {n} times" for text, n in texts.items() if n > 1
    ]
    faults += [
        f"{task.id}: a note of {len(t.split())} words" for t in texts if not 0 < len(t.split()) <= WORDS
    ]
    if any(note.decisive for note in everything):
        faults.append(f"{task.id}: a note is marked decisive, and no paragraph is by itself")
    return faults
