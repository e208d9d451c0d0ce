"""The discussion protocol: round 0, then rounds of one public call and one private probe per agent.

It knows nothing about models: calls go through an injected `Ask`. Every call of a round runs concurrently; a
call that fails becomes a missing answer with a status and never ends the discussion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from abilene.records.schema import Row, Source, Status
from abilene.tasks.evidence import favored, view_counts
from abilene.tasks.freetext import canonical
from abilene.tasks.task import Note, Task
from abilene.team.call import Ask, Call, Completion, Kind
from abilene.team.design import Protocol
from abilene.team.interventions import Answer, Turn
from abilene.team.prompts import View, note_id, render
from abilene.team.replies import Reading, Reply, ShareReading, read_counts, read_reply, read_share

OnRound = Callable[[int, list[Row]], None]


@dataclass(slots=True)
class _Team:
    """State of one discussion between rounds."""

    private: list[Answer]
    public: list[Answer]
    shared: list[list[str]]  # own note ids that were offered, by agent
    table: list[tuple[int, int]]  # (agent, note index) in order of appearance
    may_read: list[
        set[int]
    ]  # agents whose notes this agent may read (cumulative where neighbours are redrawn)
    doubts: dict[int, str]  # reasons against the leading answer, given in the round before


async def discuss(
    task: Task, ask: Ask, protocol: Protocol, *, epoch: int = 1, on_round: OnRound | None = None
) -> list[Row]:
    """Run one discussion.

    Parameters
    ----------
    task : Task
        The question; its `team_size` is N.
    ask : Ask
        Sends a call. An exception it raises is stored as a failed call.
    protocol : Protocol
        Rounds, instruction, topology, wording, seed, intervention.
    epoch : int
        Number of the repetition, from 1.
    on_round : callable, optional
        Called with the round's number and all rows so far as each round ends, so that nothing is lost when a
        discussion is stopped from outside.

    Returns
    -------
    list of Row
        N (1 + T) rows, by round and agent. Agents are "0" to "N-1"; prompts number them from 1.

    Raises
    ------
    UsageError
        The protocol does not fit the task (`Protocol.check`).

    Notes
    -----
    Round 0 carries no instruction and no intervention, and neither do its metadata: a cache in the transport then
    makes all arms of an experiment start from the same independent answers. ``{own}`` in a prompt is the agent's
    previous private answer. The probe is a call of its own on the public call's input; the PRIVATE line of
    the public reply stands in for a probe without an answer, and the row says so (`private_source` = joint,
    with the probe's own status).

    Where answers are free text, rows hold canonical opinions (`abilene.tasks.freetext.canonical`) and prompts show
    what was literally said.
    """
    protocol.check(task)
    n = task.team_size
    rows: list[Row] = []
    calls = [_call(task, protocol, i, 0, "round0", epoch, View(), []) for i in range(n)]
    first: list[Answer] = []
    for i, done in enumerate(await ask_all(ask, calls)):
        reply = read_reply(done, calls[i].format)
        first.append(_answer(task, reply["ANSWER"]))
        rows.append(_first_row(task, i, epoch, done, first[i], reply))
    team = _Team(
        private=first,
        public=list(first),
        shared=[[] for _ in range(n)],
        table=[],
        may_read=[{i} for i in range(n)],
        doubts={},
    )
    if protocol.change.table == "everything":
        team.table = [(i, k) for i in range(n) for k in range(len(task.private[i]))]
        team.may_read = [set(range(n)) for _ in range(n)]
        team.shared = [[note_id(k) for k in range(len(own))] for own in task.private]
    if on_round:
        on_round(0, rows)
    for t in range(1, protocol.rounds + 1):
        rows.extend(await _round(task, ask, protocol, team, t, epoch))
        if on_round:
            on_round(t, rows)
    return rows


async def _round(task: Task, ask: Ask, protocol: Protocol, team: _Team, t: int, epoch: int) -> list[Row]:
    n, change = task.team_size, protocol.change
    near = [protocol.topology.observed(i, n, seed=protocol.seed, key=(task.id, epoch, t)) for i in range(n)]
    seen = near if change.sees_answers(t) else [()] * n
    tables, calls = [], []
    for i in range(n):
        team.may_read[i] |= set(near[i])
        readable = [] if change.table == "nothing" else team.table
        tables.append([(j, task.private[j][k]) for j, k in readable if j in team.may_read[i]])
        view = View(
            others=[(j, team.public[j].text) for j in seen[i]],
            board=[(j, note.text) for j, note in tables[i]],
            own=team.private[i].text,
            doubts={j: team.doubts[j] for j in seen[i] if j in team.doubts},
            named=change.answers == "named",
        )
        shown = [note for _, note in tables[i]]
        calls.append(_call(task, protocol, i, t, "public", epoch, view, shown, team.shared[i]))
        calls.append(_call(task, protocol, i, t, "probe", epoch, view, shown, team.shared[i]))
    done = await ask_all(ask, calls)
    rows: list[Row] = []
    new: list[tuple[Answer, Answer]] = []
    team.doubts, offered = {}, []
    for i in range(n):
        said, thought = done[2 * i], done[2 * i + 1]
        reply = read_reply(said, calls[2 * i].format)
        probe = _answer(task, read_reply(thought, calls[2 * i + 1].format)["ANSWER"])
        not_asked = Reading(None, Status.NOT_ASKED)
        joint = _answer(task, reply.get("PRIVATE", not_asked))
        public = _answer(task, reply.get("PUBLIC", not_asked))
        private, source = probe, Source.PROBE
        if probe.missing and not joint.missing:
            private, source = joint, Source.JOINT
        said_status = public.status
        if change.statement is not None:
            others = tuple(team.public[j] for j in seen[i])
            public = change.statement(Turn(team.private[i], private, public, others))
        new.append((private, public))
        if "DOUBT" in reply and (doubt := reply["DOUBT"].value):
            team.doubts[i] = doubt
        share = read_share(said.text, [note_id(k) for k in range(len(task.private[i]))], team.shared[i])
        offered.append(share.id)
        if change.table == "nothing":
            share = ShareReading(None, share.status)  # nobody will read it: nothing is put on the table
        note = _note(task, i, share.id)
        rows.append(
            Row(
                task=task.id,
                epoch=epoch,
                round=t,
                agent=str(i),
                truth=task.answer,
                private=private.opinion,
                private_status=probe.status,
                private_source=source,
                joint_private=joint.opinion,
                public=public.opinion,
                public_status=public.status,
                public_set=True if change.statement is not None else None,
                public_reply_status=said_status if change.statement is not None else None,
                observed=tuple(str(j) for j in seen[i]),
                share=share.id,
                share_status=share.status,
                share_about=note.about if note else None,
                share_text=note.text if note else None,
                designed_accuracy=_designed(task),
                view_favors=favored(task.options, _evidence(task, i, tables[i])),
                public_raw=said.text,
                private_raw=thought.text,
                public_error=said.error,
                private_error=thought.error,
                input_tokens=_total(said.input_tokens, thought.input_tokens),
                output_tokens=_total(said.output_tokens, thought.output_tokens),
                reasoning_tokens=_total(said.reasoning_tokens, thought.reasoning_tokens),
            )
        )
    # Notes and statements reach the others together, once the round is over: nobody reads them within it.
    for i, share_id in enumerate(offered):
        if share_id is not None:
            team.shared[i].append(share_id)
            team.table.append((i, int(share_id[1:]) - 1))
    team.private = [private for private, _ in new]
    team.public = [public for _, public in new]
    return rows


def _answer(task: Task, reading: Reading) -> Answer:
    """A reading with the opinion that it counts as."""
    text, status = reading.value, reading.status
    if text is None or task.options:
        return Answer(text, text, status)
    opinion = canonical(text, task.answer, task.aliases)
    return Answer(opinion, text, status) if opinion else Answer(None, None, Status.MISSING)


def _first_row(task: Task, i: int, epoch: int, done: Completion, answer: Answer, reply: Reply) -> Row:
    count_correct = None
    if "COUNT" in reply:
        counted = read_counts(done.text, list(task.options))
        count_correct = (
            None if counted is None else counted == view_counts(task.options, _evidence(task, i, []))
        )
    return Row(
        task=task.id,
        epoch=epoch,
        round=0,
        agent=str(i),
        truth=task.answer,
        private=answer.opinion,
        private_status=answer.status,
        private_source=Source.ROUND0,
        public=answer.opinion,
        public_status=answer.status,
        designed_accuracy=_designed(task),
        view_favors=favored(task.options, _evidence(task, i, [])),
        count_correct=count_correct,
        public_raw=done.text,
        public_error=done.error,
        input_tokens=done.input_tokens,
        output_tokens=done.output_tokens,
        reasoning_tokens=done.reasoning_tokens,
    )


def _call(
    task: Task,
    protocol: Protocol,
    agent: int,
    t: int,
    kind: Kind,
    epoch: int,
    view: View,
    table: list[Note],
    shared: Sequence[str] = (),
) -> Call:
    change, told = protocol.change, protocol.instruction_of(agent, task)
    words = [protocol.personas.get(agent, "")]
    if t:
        words.append(protocol.pack.framing(told) if told else "")
        if change.text is not None and change.instructs(agent):
            words.append(protocol.pack.directive(change.text, t, protocol.rounds))
    system, user, reply_format = render(
        protocol.pack,
        task,
        agent,
        kind,
        " ".join(filter(None, words)),
        view,
        silent=0 < t <= change.silent,
        doubt=change.doubt and 0 < t < protocol.rounds,
    )
    metadata: dict[str, object] = {
        "task": task.id,
        "epoch": epoch,
        "agent": agent,
        "round": t,
        "kind": kind,
        "seed": protocol.seed,
        "team_size": task.team_size,
        "options": list(task.options),
        "truth": task.answer,
        "complete": _complete(task, agent, table),
        "format": [
            {"tag": line.tag, "values": list(line.values), "counts": list(line.counts)}
            for line in reply_format
        ],
    }
    if not task.options:
        metadata["aliases"] = list(task.aliases)
    if t:
        metadata |= {"instruction": told, "own": view.own, "shared": list(shared)}
        metadata |= {} if change.name == "none" else {"intervention": change.name}
    return Call(kind, task.id, epoch, agent, t, system, user, reply_format, MappingProxyType(metadata))


async def ask_all(ask: Ask, calls: list[Call]) -> list[Completion]:
    """Send calls at once; a call that raises comes back as a failed completion."""

    async def one(call: Call) -> Completion:
        try:
            return await ask(call)
        except Exception as e:  # one failed call in hundreds must not end a discussion
            first_line = (str(e).splitlines() or [""])[0][:300]
            return Completion("", stop="other", error=f"{type(e).__name__}: {first_line}")

    async with asyncio.TaskGroup() as group:  # cancels its calls when the discussion itself is cancelled
        tasks = [group.create_task(one(call)) for call in calls]
    return [task.result() for task in tasks]


def _evidence(task: Task, agent: int, table: list[tuple[int, Note]]) -> list[Note]:
    """Distinct notes an agent can see: shared ones, its own, and others' on the table."""
    return [*task.shared, *task.private[agent], *(note for j, note in table if j != agent)]


def _complete(task: Task, agent: int, table: list[Note]) -> bool:
    """Whether an agent can read every private note of the task."""
    readable = {note.text for note in (*task.private[agent], *table)}
    return all(note.text in readable for own in task.private for note in own)


def _note(task: Task, agent: int, share: str | None) -> Note | None:
    return None if share is None else task.private[agent][int(share[1:]) - 1]


def _designed(task: Task) -> float | None:
    p = task.design.get("p_design")
    return float(p) if isinstance(p, int | float) else None


def _total(a: int | None, b: int | None) -> int | None:
    return None if a is None and b is None else (a or 0) + (b or 0)


__all__ = ["OnRound", "Protocol", "ask_all", "discuss"]
