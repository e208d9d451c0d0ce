"""How a team discusses: rounds, wording, topology, intervention, who is told what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from abilene.errors import UsageError
from abilene.tasks.evidence import is_full
from abilene.tasks.task import Task
from abilene.team.interventions import Intervention, intervention
from abilene.team.roles import instructed
from abilene.team.topology import Topology
from abilene.team.wording import PromptPack, check_alone, load_pack


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
        Root of everything random in the protocol (redrawn neighbours, who is instructed) and in simulated agents.
    intervention : str
        A name of `abilene.team.interventions.INTERVENTIONS`.
    instruction_share : float
        Share of the agents that get the instruction, in (0, 1]; the others get none.
    agent_instructions : mapping
        Instructions of single agents (from 0), in the place of `instruction`; not together with a share.
    personas : mapping
        Who single agents are, by agent: added to their system prompt in every round, round 0 included, because a
        persona is part of who answers. (See `abilene.team.roles.load_personas`.)

    Raises
    ------
    UsageError
        A value out of range, an unknown instruction or intervention, or one that the pack has no wording for.
    """

    rounds: int = 3
    instruction: str = "B"
    topology: Topology = field(default_factory=lambda: Topology("complete"))
    pack: PromptPack = field(default_factory=load_pack)
    seed: int = 0
    intervention: str = "none"
    instruction_share: float = 1.0
    agent_instructions: Mapping[int, str] = field(default_factory=dict)
    personas: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise UsageError(f"rounds must be at least 1, found {self.rounds}.")
        for name in (self.instruction, *self.agent_instructions.values()):
            self.pack.framing(name)
        if not 0.0 < self.instruction_share <= 1.0:
            raise UsageError(
                f"The share of instructed agents must lie in (0, 1], found {self.instruction_share}. "
                "With no instruction at all, use B."
            )
        if self.instruction_share < 1.0 and self.agent_instructions:
            raise UsageError("Give instructions by agent or to a share of the agents, not both.")
        change = self.change
        if self.rounds < change.least_rounds:
            raise UsageError(
                f"Intervention {change.name} needs at least {change.least_rounds} rounds, found {self.rounds}."
            )
        for text in (change.text, "doubt" if change.doubt else None):
            if text is not None:
                self.pack.directive(text, 1, self.rounds)

    @property
    def change(self) -> Intervention:
        """The intervention."""
        return intervention(self.intervention)

    def check(self, task: Task) -> None:
        """Refuse a task that does not fit, before anything is asked.

        Raises
        ------
        UsageError
            The topology, an instruction or a persona names an agent that the team does not have, or the pack has no
            wording for this kind of task.
        """
        n = task.team_size
        self.topology.check(n)
        for what, given in (("an instruction", self.agent_instructions), ("a persona", self.personas)):
            if wrong := [i for i in given if not 0 <= i < n]:
                raise UsageError(
                    f"{what.capitalize()} for agent {wrong[0]}, and the team of task {task.id} has {n} agents, "
                    f"numbered 0 to {n - 1}."
                )
        if self.instruction_share < 1.0:
            instructed(self.instruction_share, n, self.seed, task.id)
        section = self.pack.section(task.benchmark)
        if not task.options and section.lists_options:
            raise UsageError(
                f"The prompt pack '{self.pack.name}' lists options, and {task.benchmark} has none. Add a section "
                f"[{task.benchmark}], as the built-in pack has it."
            )
        if is_full(task):
            check_alone(self.pack, task.benchmark)
        if self.change.silent and section.share is None:
            raise UsageError(
                f"The prompt pack '{self.pack.name}' has no wording for a round that only shares. Add share to the "
                f"section that {task.benchmark} uses, as the built-in pack has it."
            )

    def instruction_of(self, agent: int, task: Task) -> str:
        """Instruction of one agent; empty where it has none."""
        if agent in self.agent_instructions:
            return self.agent_instructions[agent]
        if self.instruction_share < 1.0 and agent not in instructed(
            self.instruction_share, task.team_size, self.seed, task.id
        ):
            return ""
        return self.instruction


__all__ = ["Protocol"]
