"""HiddenBench's own protocol: first votes, rounds of free-text messages, final votes. No answers are exchanged.

1. First votes: every agent votes alone, with a rationale (round 0).
2. Round 1 is sequential: each agent reads the messages of those that spoke before it.
3. Rounds 2 to `depth` are concurrent: each agent reads every other agent's last message.
4. Final votes: each agent reads the messages of the last round and votes alone (round `depth` + 1).

Every prompt after the first begins with the agent's own first vote and rationale. An agent has no other memory: what
was said before the last round is gone unless somebody repeats it. Agents are not told that their facts differ.

Nobody is probed between the votes, so such a record says nothing about withholding, internalization and correction
(every discussion row is dropped, with its reason); the gain is measured as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from abilene.errors import UsageError
from abilene.records.schema import Row, Source, Status
from abilene.tasks.evidence import favored
from abilene.tasks.task import Task
from abilene.team.call import Ask, Call, Completion, Kind, Line
from abilene.team.design import Protocol
from abilene.team.open_text import (
    NO_REASON,
    SILENCE,
    deal,
    message,
    quoted,
    read_rationale,
    shuffled,
    unanimous,
)
from abilene.team.prompts import NO_ANSWER, NOTHING
from abilene.team.protocol import OnRound, ask_all
from abilene.team.replies import Reading, read_line
from abilene.team.wording import OpenSection, fill

#: Rounds of messages in the published benchmark.
DEPTH = 15


@dataclass(frozen=True, slots=True)
class _Said:
    """One agent's message, and what it saw when it wrote it."""

    seen: tuple[int, ...]
    done: Completion


async def discuss_openly(
    task: Task,
    ask: Ask,
    protocol: Protocol,
    *,
    depth: int = DEPTH,
    early_stop: bool = False,
    epoch: int = 1,
    on_round: OnRound | None = None,
) -> list[Row]:
    """Run one discussion in free text.

    Parameters
    ----------
    task : Task
        A question with options; its hands are dealt out anew (`deal`).
    ask : Ask
        Sends a call. An exception it raises is stored as a failed call.
    protocol : Protocol
        Instruction (for all agents, a share of them, or single ones), personas, topology, intervention, wording and
        seed. Its `rounds` do not enter: `depth` takes their place.
    depth : int
        Rounds of messages. 0 holds first votes only, which is all that the full profile needs.
    early_stop : bool
        Ask for votes after every round of messages, and end when all agents vote alike. Nobody learns of these
        votes; the last ones are the final votes. Costs N calls more per round.
    epoch : int
        Number of the repetition, from 1. Every repetition deals and shuffles anew.
    on_round : callable, optional
        Called with the round's number and all rows so far as each round ends.

    Returns
    -------
    list of Row
        N (depth + 2) rows by round and agent, N where depth is 0. Round 0 holds the first votes (private and public
        are one answer), round `depth` + 1 the final votes (public only). Rows between hold the message in
        `public_raw` and no answer: their status is `not_asked`, and an error of the call is in `public_error`. With
        `early_stop` they also hold the interim vote as private answer, asked on the same input as the message.
        Rounds that an early stop left out have rows without text.

    Raises
    ------
    UsageError
        The protocol does not fit the task or this kind of discussion (`check_open`).

    Notes
    -----
    First votes carry no instruction and no intervention, so all arms of an experiment share them. A vote that is
    missing never counts as agreement. The wording of the final vote is that of the interim votes, so that a vote
    means the same wherever the discussion ends.
    """
    check_open(task, protocol, depth)
    team = _Team(deal(task, protocol.seed, epoch), protocol, depth, epoch)
    n = task.team_size
    calls = [team.call(i, 0, "vote", ()) for i in range(n)]
    rows: list[Row] = []
    for i, done in enumerate(await ask_all(ask, calls)):
        vote = team.read(done)
        team.first.append((vote.value, read_rationale(done)))
        rows.append(team.first_row(i, vote, done))

    def ended(t: int, new: Sequence[Row]) -> None:
        rows.extend(new)
        if on_round:
            on_round(t, rows)

    ended(0, ())
    if depth == 0:
        return rows
    said: list[_Said] = []
    for t in range(1, depth + 1):
        votes = await team.votes(ask, t, said) if early_stop and t > 1 else None
        if votes and unanimous([team.read(v) for v in votes]):
            for skipped in range(t, depth + 1):
                ended(skipped, [team.message_row(i, skipped, None, None) for i in range(n)])
            ended(depth + 1, team.final_rows(votes, t))
            return rows
        said = await team.first_messages(ask) if t == 1 else await team.messages(ask, t, said)
        ended(t, [team.message_row(i, t, said[i], votes[i] if votes else None) for i in range(n)])
    ended(depth + 1, team.final_rows(await team.votes(ask, depth + 1, said), depth + 1))
    return rows


class _Team:
    """One discussion: prompts, calls and rows."""

    def __init__(self, task: Task, protocol: Protocol, depth: int, epoch: int) -> None:
        assert protocol.pack.open is not None  # see check_open
        self.task, self.protocol, self.depth, self.epoch = task, protocol, depth, epoch
        self.section: OpenSection = protocol.pack.open
        self.first: list[tuple[str | None, str | None]] = []  # vote and rationale
        n, seed = task.team_size, protocol.seed
        self.facts = [
            shuffled((*task.shared, *task.private[i]), seed, task.id, epoch, str(i)) for i in range(n)
        ]

    async def first_messages(self, ask: Ask) -> list[_Said]:
        """Round 1: one after the other."""
        said: list[_Said] = []
        for i in range(self.task.team_size):
            seen = tuple(j for j in self.near(i, 1) if j < i)
            call = self.call(i, 1, "message", [(j, said[j].done) for j in seen])
            said.append(_Said(seen, (await ask_all(ask, [call]))[0]))
        return said

    async def messages(self, ask: Ask, t: int, before: Sequence[_Said]) -> list[_Said]:
        """A later round: all at once."""
        near, done = await self._all(ask, t, "message", before)
        return [_Said(seen, reply) for seen, reply in zip(near, done, strict=True)]

    async def votes(self, ask: Ask, t: int, before: Sequence[_Said]) -> list[Completion]:
        """Votes on the messages of round t - 1."""
        return (await self._all(ask, t, "vote", before))[1]

    async def _all(
        self, ask: Ask, t: int, kind: Kind, before: Sequence[_Said]
    ) -> tuple[list[tuple[int, ...]], list[Completion]]:
        near = [self.near(i, t) for i in range(self.task.team_size)]
        calls = [self.call(i, t, kind, [(j, before[j].done) for j in near[i]]) for i in range(len(near))]
        return near, await ask_all(ask, calls)

    def near(self, agent: int, t: int) -> tuple[int, ...]:
        """Agents whose messages an agent reads."""
        key = (self.task.id, self.epoch, t)
        near = self.protocol.topology.observed(agent, self.task.team_size, seed=self.protocol.seed, key=key)
        return tuple(sorted(near))

    def call(self, agent: int, t: int, kind: Kind, heard: Sequence[tuple[int, Completion]]) -> Call:
        """One call. The vote of round 0 is the first vote, any later vote a final one (or an interim one)."""
        task, protocol, section = self.task, self.protocol, self.section
        change, told = protocol.change, protocol.instruction_of(agent, task)
        words = [protocol.personas.get(agent, "")]
        facts = [note.text for note in self.facts[agent]]
        said = [(j, message(done)) for j, done in heard]
        if t:
            words.append(protocol.pack.framing(told) if told else "")
            if change.text is not None and change.instructs(agent):
                # The vote is the last phase wherever it is taken.
                phase = self.depth + 1 if kind == "vote" else t
                words.append(protocol.pack.directive(change.text, phase, self.depth + 1, open=True))
            if change.table == "everything":
                laid_open = {
                    n.text: f"{section.member} {j + 1}" for j, hand in enumerate(task.private) for n in hand
                }
                facts += [
                    f"{text} (laid open by {by})" for text, by in laid_open.items() if text not in facts
                ]
        values = {
            "member": section.member,
            "agent": str(agent + 1),
            "n": str(task.team_size),
            "framing": " ".join(filter(None, words)),
            "question": task.question,
            "options": " | ".join(task.options),
            "facts": "\n".join(f"{k}. {text}" for k, text in enumerate(facts, start=1)) or NOTHING,
            "others": "\n".join(quoted(section.member, j, text) for j, text in said) or SILENCE,
        }
        if t:
            vote, rationale = self.first[agent]
            values |= {"vote": vote or NO_ANSWER, "rationale": rationale or NO_REASON}
        template = section.message if kind == "message" else section.final if t else section.first
        reply_format = () if kind == "message" else (Line("ANSWER", task.options), Line("RATIONALE"))
        metadata: dict[str, object] = {
            "task": task.id,
            "epoch": self.epoch,
            "agent": agent,
            "round": t,
            "kind": kind,
            "seed": protocol.seed,
            "team_size": task.team_size,
            "options": list(task.options),
            "truth": task.answer,
            "complete": self._complete(agent, t, [text for _, text in said if text]),
            "format": [{"tag": f.tag, "values": list(f.values), "counts": []} for f in reply_format],
        }
        if t:
            metadata |= {"instruction": told, "own": self.first[agent][0], "shared": []}
            metadata |= {} if change.name == "none" else {"intervention": change.name}
        system, user = fill(section.system, values), fill(template, values)
        return Call(
            kind, task.id, self.epoch, agent, t, system, user, reply_format, MappingProxyType(metadata)
        )

    def _complete(self, agent: int, t: int, messages: Sequence[str]) -> bool:
        """Whether every private note is in an agent's hand, laid open, or quoted letter for letter."""
        if t and self.protocol.change.table == "everything":
            return True
        own = {note.text for note in self.facts[agent]}
        notes = [note.text for hand in self.task.private for note in hand]
        return all(text in own or any(text in m for m in messages) for text in notes)

    def read(self, done: Completion) -> Reading:
        """A vote."""
        return read_line(done, "ANSWER", self.task.options)

    def _row(self, agent: int, t: int) -> Row:
        p = self.task.design.get("p_design")
        return Row(
            task=self.task.id,
            epoch=self.epoch,
            round=t,
            agent=str(agent),
            truth=self.task.answer,
            private_status=Status.NOT_ASKED,
            public_status=Status.NOT_ASKED,
            designed_accuracy=float(p) if isinstance(p, int | float) else None,
        )

    def first_row(self, agent: int, vote: Reading, done: Completion) -> Row:
        """A row of round 0."""
        row = replace(
            self._row(agent, 0),
            private=vote.value,
            private_status=vote.status,
            private_source=Source.ROUND0,
            public=vote.value,
            public_status=vote.status,
            view_favors=favored(self.task.options, self.facts[agent]),
            public_raw=done.text,
            public_error=done.error,
        )
        return _with_usage(row, done)

    def message_row(self, agent: int, t: int, said: _Said | None, vote: Completion | None) -> Row:
        """A row of a round of messages; without a message where the round was left out."""
        row = self._row(agent, t)
        if said is not None:
            row = replace(
                row,
                observed=tuple(str(j) for j in said.seen),
                public_raw=said.done.text,
                public_error=said.done.error,
            )
            row = _with_usage(row, said.done, *filter(None, [vote]))
        if vote is not None:
            reading = self.read(vote)
            row = replace(
                row,
                private=reading.value,
                private_status=reading.status,
                private_source=Source.PROBE,
                private_raw=vote.text,
                private_error=vote.error,
            )
        return row

    def final_rows(self, votes: Sequence[Completion], t: int) -> list[Row]:
        """Rows of the final votes, which were taken in round t."""
        rows = []
        for i, done in enumerate(votes):
            reading = self.read(done)
            row = replace(
                self._row(i, self.depth + 1),
                public=reading.value,
                public_status=reading.status,
                observed=tuple(str(j) for j in self.near(i, t)),
                public_raw=done.text,
                public_error=done.error,
            )
            rows.append(_with_usage(row, done))
        return rows


def check_open(task: Task, protocol: Protocol, depth: int = DEPTH) -> None:
    """Refuse what an open discussion cannot do, before anything is asked.

    Parameters
    ----------
    task, protocol, depth
        As in `discuss_openly`.

    Raises
    ------
    UsageError
        The pack has no section [open]; the depth is negative or too small for the intervention; the task has no
        options; the intervention changes statements or a table that an open discussion does not have; or the
        protocol names agents that the team does not have.
    """
    if depth < 0:
        raise UsageError(f"The depth must be at least 0 (first votes only), found {depth}.")
    pack, change = protocol.pack, protocol.change
    if pack.open is None:
        raise UsageError(
            f"The prompt pack '{pack.name}' has no wording for open discussions. Add a section [open], as the "
            "built-in pack has it."
        )
    if not task.options:
        raise UsageError(
            f"Task {task.id} has no options, and open discussions end in a vote on options. Use the structured "
            f"protocol for {task.benchmark}."
        )
    if change.statement or change.silent or change.answers != "named" or change.table == "nothing":
        raise UsageError(
            f"Intervention {change.name} changes answers or notes that are passed on, and in an open discussion only "
            "messages are. Use the structured protocol."
        )
    if 0 < depth < change.least_rounds - 1:
        raise UsageError(
            f"Intervention {change.name} needs a depth of at least {change.least_rounds - 1}, found {depth}."
        )
    if change.text is not None:
        pack.directive(change.text, 1, depth + 1, open=True)
    protocol.check(task)


def _with_usage(row: Row, *calls: Completion) -> Row:
    def total(counts: list[int | None]) -> int | None:
        known = [c for c in counts if c is not None]
        return sum(known) if known else None

    return replace(
        row,
        input_tokens=total([done.input_tokens for done in calls]),
        output_tokens=total([done.output_tokens for done in calls]),
        reasoning_tokens=total([done.reasoning_tokens for done in calls]),
    )


__all__ = ["DEPTH", "check_open", "discuss_openly"]
