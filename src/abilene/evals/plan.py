"""The design of one setting, in plain values: what a run and an Inspect task are both made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from abilene.errors import UsageError
from abilene.records.schema import SCHEMA_VERSION, SETTING_PARTS
from abilene.tasks import Task, benchmark, file_digest
from abilene.team.open_discussion import check_open
from abilene.team.protocol import Protocol
from abilene.team.roles import load_personas
from abilene.team.topology import Topology
from abilene.team.wording import load_pack

#: How discussions are held.
PROTOCOLS = ("structured", "open")
#: T of the structured protocol where nobody says otherwise; any other depth names its setting.
ROUNDS = 3
#: Sampling temperature where nobody says otherwise.
TEMPERATURE = 0.7
#: Largest T and number of tasks: more is a slip of the pen, and would only fill the memory.
MAX_ROUNDS, MAX_TASKS = 1_000, 100_000
REASONING = ("on", "off", "low", "medium", "high")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One setting before a model is chosen. Every value is plain, as a command line or a task file gives it.

    Parameters
    ----------
    benchmark : str
        A name of `abilene.tasks.BENCHMARKS`.
    instruction : str
        A name of the prompt pack (A, B, C, ...) or any text.
    team_size : int, optional
        N; left out: the benchmark's own.
    protocol_name : str
        ``structured`` (statements, notes on the table, private probes) or ``open`` (HiddenBench's own free-text
        discussion between two votes, see `abilene.team.open_discussion`).
    informed : list of int, optional
        Levels of n_inf, where the benchmark has them; left out: the benchmark's own.
    benchmark_options : mapping, optional
        Further options of the benchmark's source by name, such as ``findings`` and ``options`` of medeinst; see
        `abilene.tasks.Benchmark.variant`. They name the setting.
    early_stop : bool
        Only in open discussions: end when all agents vote alike.
    rounds : int
        T >= 1.
    tasks : int, optional
        Number of tasks; left out: the benchmark's own.
    seed : int
        Root of the tasks, of redrawn neighbours and of simulated agents.
    topology : str
        complete, ring, star, chain, random:Q, or the path of an adjacency file.
    intervention : str
        A name of `abilene.team.interventions.INTERVENTIONS`.
    prompts : str, optional
        Path of a prompt pack; left out: the built-in one.
    data : str, optional
        Data file of benchmarks that need one.
    reasoning : str, optional
        on, off, low, medium or high; left out: whatever the model does by itself.
    condition : str
        ``hidden`` (notes are dealt out) or ``full`` (every agent holds every note).
    instruction_share : float
        Share of the agents that get the instruction, in (0, 1].
    agent_instructions : mapping, optional
        Instructions of single agents, by their number from 0.
    personas : str, optional
        Path of a file of personas, see `abilene.team.roles.load_personas`.
    agent_models : mapping, optional
        Models of single agents, by their number from 0; the others use the run's model.

    Examples
    --------
    >>> plan = Plan(benchmark="hidden_profile", instruction="C", tasks=4)
    >>> plan.setting["instruction"], plan.setting["team"], len(plan.items)
    ('C', 'N=5', 4)
    """

    benchmark: str
    instruction: str = "B"
    team_size: int | None = None
    rounds: int = ROUNDS
    tasks: int | None = None
    seed: int = 0
    topology: str = "complete"
    intervention: str = "none"
    prompts: str | None = None
    data: str | None = None
    reasoning: str | None = None
    condition: str = "hidden"
    instruction_share: float = 1.0
    agent_instructions: Mapping[str, str] | None = None
    personas: str | None = None
    agent_models: Mapping[str, str] | None = None
    protocol_name: str = "structured"
    early_stop: bool = False
    informed: list[int] | None = None
    benchmark_options: Mapping[str, Any] | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The values by name, JSON-ready."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def protocol(self) -> Protocol:
        """How the team discusses (checked)."""
        if self.reasoning is not None and self.reasoning not in REASONING:
            raise UsageError(f"Reasoning {self.reasoning!r}: choose one of {', '.join(REASONING)}.")
        return Protocol(
            rounds=max(1, self.last_round) if self.open else self.rounds,
            instruction=self.instruction,
            topology=Topology.parse(self.topology),
            pack=load_pack(self.prompts),
            seed=self.seed,
            intervention=self.intervention,
            instruction_share=self.instruction_share,
            agent_instructions=by_agent(self.agent_instructions, "agent_instructions"),
            personas={} if self.personas is None else load_personas(self.personas),
        )

    @property
    def open(self) -> bool:
        """Whether discussions are held in free text.

        Raises
        ------
        UsageError
            An unknown protocol, or an early stop of a structured discussion.
        """
        if self.protocol_name not in PROTOCOLS:
            raise UsageError(f"Unknown protocol {self.protocol_name!r}. Known: {', '.join(PROTOCOLS)}.")
        if self.early_stop and self.protocol_name != "open":
            raise UsageError("Only open discussions can stop early.")
        return self.protocol_name == "open"

    @property
    def last_round(self) -> int:
        """Round of the final answers: T, and one more in open discussions, where the votes have their own."""
        return self.rounds + 1 if self.open and self.rounds > 0 else self.rounds

    @property
    def calls_by_agent(self) -> int:
        """Calls of one agent in one discussion (with an early stop: at most)."""
        if self.open:
            return 1 if self.rounds == 0 else self.rounds + 2 + (self.rounds - 1 if self.early_stop else 0)
        return 1 + 2 * self.rounds

    @cached_property
    def items(self) -> tuple[Task, ...]:
        """The tasks; each has passed its benchmark's own check and fits the topology."""
        for name, value, most in (("rounds", self.rounds, MAX_ROUNDS), ("tasks", self.tasks or 0, MAX_TASKS)):
            if value > most:
                raise UsageError(f"{name} must be at most {most}, found {value}.")
        source = benchmark(self.benchmark)
        further = dict(self.benchmark_options or {})
        source.check_variant(further)
        made = source.make(
            data=self.data,
            informed=self.informed,
            condition=self.condition,
            seed=self.seed,
            tasks=self.tasks,
            team_size=self.team_size,
            **further,
        )
        for task in made:
            if faults := source.check(task):
                raise UsageError(f"{self.benchmark} made a faulty task: {faults[0]}")
            if self.open:
                check_open(task, self.protocol, self.rounds)
            else:
                self.protocol.check(task)
            for agent in by_agent(self.agent_models, "agent_models"):
                if agent >= task.team_size:
                    raise UsageError(
                        f"There is no agent {agent} in a team of {task.team_size} (agents are numbered from 0)."
                    )
        return made

    @cached_property
    def team_sizes(self) -> tuple[int, ...]:
        """N of the tasks, each once, ascending."""
        return tuple(sorted({task.team_size for task in self.items}))

    @cached_property
    def setting(self) -> dict[str, str | None]:
        """The setting's parts that do not depend on the model."""
        parts: dict[str, str | None] = dict.fromkeys(SETTING_PARTS)
        parts |= {
            "benchmark": self.benchmark,
            "instruction": self._instructions,
            "reasoning": self.reasoning,
            "intervention": self.intervention,
            "topology": self.topology,
            "team": "N="
            + ",".join(map(str, self.team_sizes))
            + (f", personas {self._persona_hash}" if self.personas else ""),
            "setting": self._label,
        }
        return parts

    @property
    def _label(self) -> str | None:
        """What else tells this setting apart."""
        label = [f"{self.condition} profile"] if self.condition != "hidden" else []
        label += [f"{name}={value}" for name, value in sorted((self.benchmark_options or {}).items())]
        if not self.open and self.rounds != ROUNDS:
            label.append(f"{self.rounds} rounds")
        if self.open:
            stop = ", stopping early" if self.early_stop else ""
            label.append(f"open discussion of {self.rounds} rounds{stop}")
        if self.informed is not None:
            label.append(f"informed={','.join(map(str, self.informed))}")
        if self.prompts is not None and self.protocol.pack.digest != load_pack().digest:
            label.append(f"prompts {self.protocol.pack.name} {self.protocol.pack.digest[:8]}")
        if self.protocol.topology.adjacency is not None:
            label.append(f"topology {file_digest(self.topology)[:8]}")
        label += [
            f"agent {i}: {m}{_rates_of(m)}"
            for i, m in sorted(by_agent(self.agent_models, "agent_models").items())
        ]
        return "; ".join(label) or None

    @property
    def _instructions(self) -> str:
        """Who is told what, as the setting's part."""
        out = self.instruction.strip()
        if self.instruction_share < 1.0:
            out += f" (for {self.instruction_share:g} of the agents)"
        for agent, text in sorted(by_agent(self.agent_instructions, "agent_instructions").items()):
            out += f"; agent {agent}: {text.strip()}"
        return out

    @cached_property
    def _persona_hash(self) -> str:
        return digest({str(k): v for k, v in self.protocol.personas.items()})[:8]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What a log says about itself: setting, hashes, seed. JSON-ready."""
        adjacency = Path(self.topology)
        return {
            "schema": SCHEMA_VERSION,
            "setting": self.setting,
            "rounds": self.rounds,
            "last_round": self.last_round,
            "seed": self.seed,
            "tasks": len(self.items),
            "team_sizes": list(self.team_sizes),
            "prompt_pack": self.protocol.pack.name,
            "prompt_hash": self.protocol.pack.digest,
            "task_hash": digest([task.digest for task in self.items]),
            "persona_hash": self._persona_hash if self.personas else None,
            "topology_hash": file_digest(adjacency) if self.protocol.topology.adjacency is not None else None,
        }

    @property
    def version(self) -> str:
        """Changes with everything that changes what is asked: schema, prompts, tasks, topology file."""
        keys = ("prompt_hash", "task_hash", "topology_hash", "persona_hash")
        return f"{SCHEMA_VERSION}-{digest([self.facts[k] for k in keys])}"


def agent_role(agent: int) -> str:
    """Inspect's name for the model of one agent (``--model-role agent_2=...``)."""
    return f"agent_{agent}"


def by_agent(values: Mapping[str, str] | None, name: str) -> dict[int, str]:
    """Values by agent number.

    Raises
    ------
    UsageError
        A key is no whole number from 0.
    """
    out = {}
    for key, value in (values or {}).items():
        if not str(key).isdecimal():
            raise UsageError(f"{name}: agents are numbered from 0, found {key!r}.")
        if int(key) in out:
            raise UsageError(f"{name}: agent {int(key)} is given twice.")
        out[int(key)] = value
    return out


def _rates_of(model: str) -> str:
    """Of a simulated agent that is named for itself: it acts by the default rates, not by those of the others."""
    if not model.startswith("behavioural/"):
        return ""
    from abilene.evals.behavioural import describe, parse_agent

    return f" ({describe(parse_agent({}))})"


def digest(value: object) -> str:
    """Hash of a JSON-ready value, 16 hex digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


__all__ = ["REASONING", "Plan", "agent_role", "by_agent", "digest"]
