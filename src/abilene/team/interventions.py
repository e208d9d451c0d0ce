"""Interventions: what is changed about a discussion, beside the instruction. Each is a small frozen object.

None of them touches round 0, which stays the same independent answer in every arm of an experiment. Some change the
wording only (`text`), some what agents see (`answers`, `table`), some what they may say and when (`statement`,
`silent`, `doubt`). Wording lives in the prompt pack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from abilene.errors import UsageError
from abilene.records.schema import Status
from abilene.theory.kernel import plurality


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of one agent.

    Parameters
    ----------
    opinion : str or None
        What it counts as: an option, or the canonical opinion where answers are free text. For the record only.
    text : str or None
        What was literally said. Only this may be shown to agents: the canonical form of a correct free answer is
        the answer key itself.
    status : Status
        Why it is missing, if it is.
    """

    opinion: str | None
    text: str | None
    status: Status

    @property
    def missing(self) -> bool:
        """Whether there is no answer."""
        return self.opinion is None


@dataclass(frozen=True, slots=True)
class Turn:
    """What one agent brings to one statement.

    Parameters
    ----------
    own : Answer
        Its private answer on entering the round.
    thought : Answer
        Its private answer of this round.
    said : Answer
        The statement that it gave.
    seen : tuple of Answer
        The observed agents' statements of the round before, by agent.
    """

    own: Answer
    thought: Answer
    said: Answer
    seen: tuple[Answer, ...]


def transparent(turn: Turn) -> Answer:
    """c = 0: the statement is this round's private answer, missing with its status where that is missing."""
    return turn.thought


def forced_majority(turn: Turn) -> Answer:
    """c = 1: the statement is the visible majority; without one, the private answer held on entering.

    Examples
    --------
    >>> yes, no = Answer("yes", "yes", Status.OK), Answer("no", "no", Status.OK)
    >>> forced_majority(Turn(own=yes, thought=yes, said=yes, seen=(no, no, yes))).text
    'no'
    >>> forced_majority(Turn(own=yes, thought=no, said=no, seen=(no, yes))).text
    'yes'
    """
    majority = plurality([a.opinion for a in turn.seen if a.opinion is not None])
    # In the words of the first agent that said so: for free text the opinion itself must not be shown.
    return turn.own if majority is None else next(a for a in turn.seen if a.opinion == majority)


@dataclass(frozen=True, slots=True)
class Intervention:
    """One change of a discussion, from round 1 on.

    Parameters
    ----------
    name : str
        As on the command line and in the record.
    description : str
        One line.
    text : str, optional
        Wording added to the system prompt: an entry of the pack's [interventions], or ``instructions.NAME``.
    agents : tuple of int, optional
        Who reads the wording; left out: everybody.
    statement : callable, optional
        Sets every statement in the agent's place. The agent is asked all the same, and its reply is kept.
    withholding : float, optional
        The withholding rate that `statement` sets, to be reported beside the one that is read from the record.
    answers : str
        How the others' statements are shown: ``named``, ``anonymous`` or ``hidden``.
    table : str
        Which notes can be read: ``shared``, ``everything`` (all notes of all agents) or ``nothing``.
    silent : int
        Number of rounds, from 1, in which notes are shared and no statement is asked for.
    doubt : bool
        Whether each agent, in all rounds but the last, also gives one reason against the leading answer, which
        those that observe it read in the next round.
    least_rounds : int
        T at least.
    """

    name: str
    description: str
    text: str | None = None
    agents: tuple[int, ...] | None = None
    statement: Callable[[Turn], Answer] | None = None
    withholding: float | None = None
    answers: Literal["named", "anonymous", "hidden"] = "named"
    table: Literal["shared", "everything", "nothing"] = "shared"
    silent: int = 0
    doubt: bool = False
    least_rounds: int = 1

    def sees_answers(self, t: int) -> bool:
        """Whether there are statements to see in round t: not where hidden, nor until one was asked for."""
        return self.answers != "hidden" and (self.silent == 0 or t > self.silent + 1)

    def instructs(self, agent: int) -> bool:
        """Whether an agent reads the wording."""
        return self.text is not None and (self.agents is None or agent in self.agents)


NONE = Intervention("none", "The protocol as it is.")

#: All interventions, by name.
INTERVENTIONS: dict[str, Intervention] = {
    i.name: i
    for i in (
        NONE,
        Intervention(
            "transparent",
            "Sets c to 0: what an agent states is replaced by its private answer of the same round.",
            statement=transparent,
            withholding=0.0,
        ),
        Intervention(
            "forced_majority",
            "Sets c to 1: what an agent states is replaced by the majority it sees; its own answer on a tie.",
            statement=forced_majority,
            withholding=1.0,
        ),
        Intervention(
            "evidence_only",
            "Nobody sees anybody's answers; only notes on the table pass between agents.",
            answers="hidden",
        ),
        Intervention(
            "disclose_first",
            "Round 1 only shares notes: no answers are shown or asked for until they are on the table.",
            silent=1,
            least_rounds=2,
        ),
        Intervention(
            "reveal_all",
            "Every note of every agent is on the table from round 1 on, and everybody can read it.",
            table="everything",
        ),
        Intervention(
            "no_board",
            "Notes that agents share are never shown to anybody; only answers pass between agents.",
            table="nothing",
        ),
        Intervention(
            "hidden_votes",
            "Answers are shown without the names of those who gave them.",
            answers="anonymous",
        ),
        Intervention("share_all", "Asks agents to share everything they know.", text="share_all"),
        Intervention(
            "informed_asymmetry",
            "Tells agents that others hold information which they lack.",
            text="informed_asymmetry",
        ),
        Intervention(
            "structured_exchange",
            "First list what only you know, then compare, then decide (by wording, round by round).",
            text="structured_exchange",
            least_rounds=2,
        ),
        Intervention(
            "exchange_then_decide",
            "Until the last round: facts, and one reason against the leading answer; then weigh up and vote.",
            text="exchange_then_decide",
            doubt=True,
            least_rounds=2,
        ),
        Intervention(
            "devils_advocate",
            "Agent 0 argues against the answer that is gaining ground.",
            text="devils_advocate",
            agents=(0,),
        ),
        Intervention(
            "psychological_safety",
            "Tells agents that doubt and dissent are welcome and without cost.",
            text="instructions.PS",
        ),
    )
}


def intervention(name: str) -> Intervention:
    """The intervention of a name.

    Raises
    ------
    UsageError
        There is none.
    """
    if name not in INTERVENTIONS:
        raise UsageError(f"Unknown intervention {name!r}. Known: {', '.join(INTERVENTIONS)}.")
    return INTERVENTIONS[name]


__all__ = ["INTERVENTIONS", "Answer", "Intervention", "Turn", "intervention"]
