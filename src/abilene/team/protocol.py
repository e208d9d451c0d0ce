"""The discussion protocol: round 0, then rounds of one public call and one private probe per agent.

It knows nothing about models: calls go through an injected `Ask`. Every call of a round runs concurrently; a
call that fails becomes a missing answer with a status and never ends the discussion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType

from abilene.errors import UsageError
from abilene.records.schema import ANSWERED, Row, Source
from abilene.tasks.evidence import favored, view_counts
from abilene.tasks.task import Note, Task
from abilene.team.call import Ask, Call, Completion, Kind
from abilene.team.prompts import PromptPack, View, load_pack, note_id, render
from abilene.team.replies import Reply, read_counts, read_reply, read_share
from abilene.team.topology import Topology

OnRound = Callable[[int, list[Row]], None]


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a team discusses; validated once, before anything is asked.

    Parameters
    ----------
    rounds : int
        T >= 1, discussion rounds after the independent round 0.
    instruction : str
        A name of the prompt pack (A, B, C, ...) or any text.
    topology : Topology
        Who observes whom.
    pack : PromptPack
        The wording.
    seed : int
        Root of everything random in the protocol (redrawn neighbours) and in simulated agents.

    Raises
    ------
    UsageError
        A value out of range or an unknown instruction.
    """

    rounds: int = 3
    instruction: str = "B"
    topology: Topology = field(default_factory=lambda: Topology("complete"))
    pack: PromptPack = field(default_factory=load_pack)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise UsageError(f"rounds must be at least 1, found {self.rounds}.")
        self.pack.framing(self.instruction)


@dataclass(slots=True)
class _Team:
    """State of one discussion between rounds."""

    private: list[str | None]
    public: list[str | None]
    shared: list[list[str]]  # own note ids on the table, by agent
    table: list[tuple[int, int]]  # (agent, note index) in order of appearance
    may_read: list[
        set[int]
    ]  # agents whose notes this agent may read (cumulative where neighbours are redrawn)


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
        Rounds, instruction, topology, wording, seed.
    epoch : int
        Number of the repetition, from 1.
    on_round : callable, optional
        Called with the round's number and all rows so far as each round ends, so that nothing is lost when a
        discussion is stopped from outside.

    Returns
    -------
    list of Row
        N (1 + T) rows, by round and agent. Agents are "0" to "N-1"; prompts number them from 1.

    Notes
    -----
    Round 0 carries no instruction, and neither do its metadata: a cache in the transport then makes all
    instructions of a setting start from the same independent answers. ``{own}`` in a prompt is the agent's
    previous private answer. The probe is a call of its own on the public call's input; the PRIVATE line of
    the public reply stands in for a probe without an answer, and the row says so (`private_source` = joint,
    with the probe's own status).
    """
    n = task.team_size
    protocol.topology.check(n)
    rows: list[Row] = []
    calls = [_call(task, protocol, i, 0, "round0", epoch, View(), ()) for i in range(n)]
    for i, done in enumerate(await _ask_all(ask, calls)):
        rows.append(_first_row(task, i, epoch, done, read_reply(done, calls[i].format)))
    team = _Team(
        private=[row.private for row in rows],
        public=[row.public for row in rows],
        shared=[[] for _ in range(n)],
        table=[],
        may_read=[{i} for i in range(n)],
    )
    if on_round:
        on_round(0, rows)
    for t in range(1, protocol.rounds + 1):
        new = await _round(task, ask, protocol, team, t, epoch)
        rows.extend(new)
        team.private = [row.private for row in new]
        team.public = [row.public for row in new]
        if on_round:
            on_round(t, rows)
    return rows


async def _round(task: Task, ask: Ask, protocol: Protocol, team: _Team, t: int, epoch: int) -> list[Row]:
    n = task.team_size
    seen = [protocol.topology.observed(i, n, seed=protocol.seed, key=(task.id, epoch, t)) for i in range(n)]
    views, favors, calls = [], [], []
    for i in range(n):
        team.may_read[i] |= set(seen[i])
        table = [(j, task.private[j][k]) for j, k in team.table if j in team.may_read[i]]
        views.append(
            View(
                others=[(j, team.public[j]) for j in seen[i]],
                board=[(j, note.text) for j, note in table],
                own=team.private[i],
            )
        )
        favors.append(favored(task.options, _evidence(task, i, table)))
        shared = tuple(team.shared[i])
        calls.append(_call(task, protocol, i, t, "public", epoch, views[i], shared))
        calls.append(_call(task, protocol, i, t, "probe", epoch, views[i], shared))
    done = await _ask_all(ask, calls)
    rows = []
    for i in range(n):
        said, thought = done[2 * i], done[2 * i + 1]
        reply = read_reply(said, calls[2 * i].format)
        probe = read_reply(thought, calls[2 * i + 1].format)["ANSWER"]
        public, joint = reply["PUBLIC"], reply["PRIVATE"]
        private, source = probe.value, Source.PROBE
        if probe.status not in ANSWERED and joint.status in ANSWERED:
            private, source = joint.value, Source.JOINT
        share = read_share(said.text, [note_id(k) for k in range(len(task.private[i]))], team.shared[i])
        note = _note(task, i, share.id)
        rows.append(
            Row(
                task=task.id,
                epoch=epoch,
                round=t,
                agent=str(i),
                truth=task.answer,
                private=private,
                private_status=probe.status,
                private_source=source,
                joint_private=joint.value,
                public=public.value,
                public_status=public.status,
                observed=tuple(str(j) for j in seen[i]),
                share=share.id,
                share_status=share.status,
                share_about=note.about if note else None,
                share_text=note.text if note else None,
                designed_accuracy=_designed(task),
                view_favors=favors[i],
                public_raw=said.text,
                private_raw=thought.text,
                public_error=said.error,
                private_error=thought.error,
                input_tokens=_total(said.input_tokens, thought.input_tokens),
                output_tokens=_total(said.output_tokens, thought.output_tokens),
                reasoning_tokens=_total(said.reasoning_tokens, thought.reasoning_tokens),
            )
        )
    # Notes reach the table together, once the round is over: nobody reads them within it.
    for i, row in enumerate(rows):
        if row.share is not None:
            team.shared[i].append(row.share)
            team.table.append((i, int(row.share[1:]) - 1))
    return rows


def _first_row(task: Task, i: int, epoch: int, done: Completion, reply: Reply) -> Row:
    answer = reply["ANSWER"]
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
        private=answer.value,
        private_status=answer.status,
        private_source=Source.ROUND0,
        public=answer.value,
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
    shared: tuple[str, ...],
) -> Call:
    framing = protocol.pack.framing(protocol.instruction) if t else ""
    system, user, reply_format = render(protocol.pack, task, agent, kind, framing, view)
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
        "format": [
            {"tag": line.tag, "values": list(line.values), "counts": list(line.counts)}
            for line in reply_format
        ],
    }
    if t:
        metadata |= {"instruction": protocol.instruction, "own": view.own, "shared": list(shared)}
    return Call(kind, task.id, epoch, agent, t, system, user, reply_format, MappingProxyType(metadata))


async def _ask_all(ask: Ask, calls: list[Call]) -> list[Completion]:
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


def _note(task: Task, agent: int, share: str | None) -> Note | None:
    return None if share is None else task.private[agent][int(share[1:]) - 1]


def _designed(task: Task) -> float | None:
    p = task.design.get("p_design")
    return float(p) if isinstance(p, int | float) else None


def _total(a: int | None, b: int | None) -> int | None:
    return None if a is None and b is None else (a or 0) + (b or 0)


__all__ = ["OnRound", "Protocol", "discuss"]
