"""What Inspect finds through the entry point: benchmarks as tasks, and the model providers.

``inspect eval abilene/hidden_profile -T instruction=C --model behavioural/agent -M c=0.3``
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from inspect_ai import Task as InspectTask
from inspect_ai import task
from inspect_ai.model import ModelAPI, modelapi

from abilene.evals.plan import Plan
from abilene.evals.scorer import team_verdict
from abilene.evals.solver import discussion
from abilene.evals.tasks import make_task


def _made(benchmark: str, arguments: dict[str, Any]) -> InspectTask:
    reasoning = arguments["reasoning"]
    # A YAML-reading command line turns on and off into booleans, and a short instruction into something else.
    arguments["reasoning"] = {True: "on", False: "off"}.get(reasoning, reasoning)
    arguments["instruction"] = str(arguments["instruction"])
    return make_task(Plan(benchmark=benchmark, **arguments))


@task
def hidden_profile(
    instruction: str = "B",
    team_size: int = 5,
    rounds: int = 3,
    tasks: int | None = None,
    seed: int = 0,
    topology: str = "complete",
    intervention: str = "none",
    prompts: str | None = None,
    reasoning: str | bool | None = None,
    condition: str = "hidden",
    instruction_share: float = 1.0,
    agent_instructions: dict[str, str] | None = None,
    personas: str | None = None,
    agent_models: dict[str, str] | None = None,
    protocol_name: str = "structured",
    early_stop: bool = False,
    informed: list[int] | None = None,
    benchmark_options: dict[str, Any] | None = None,
) -> InspectTask:
    """Two candidates; only the pooled notes favor the stronger.

    Arguments: see `abilene.evals.plan.Plan`.
    """
    return _made("hidden_profile", locals())


@task
def hiddenbench(
    instruction: str = "B",
    data: str | None = None,
    team_size: int | None = None,
    rounds: int = 3,
    tasks: int | None = None,
    seed: int = 0,
    topology: str = "complete",
    intervention: str = "none",
    prompts: str | None = None,
    reasoning: str | bool | None = None,
    condition: str = "hidden",
    instruction_share: float = 1.0,
    agent_instructions: dict[str, str] | None = None,
    personas: str | None = None,
    agent_models: dict[str, str] | None = None,
    protocol_name: str = "structured",
    early_stop: bool = False,
    informed: list[int] | None = None,
    benchmark_options: dict[str, Any] | None = None,
) -> InspectTask:
    """The published HiddenBench tasks, from a file or the hub.

    Arguments: see `abilene.evals.plan.Plan`.
    """
    return _made("hiddenbench", locals())


@task
def musique(
    instruction: str = "B",
    data: str | None = None,
    team_size: int = 5,
    rounds: int = 3,
    tasks: int | None = None,
    seed: int = 0,
    topology: str = "complete",
    intervention: str = "none",
    prompts: str | None = None,
    reasoning: str | bool | None = None,
    condition: str = "hidden",
    instruction_share: float = 1.0,
    agent_instructions: dict[str, str] | None = None,
    personas: str | None = None,
    agent_models: dict[str, str] | None = None,
    protocol_name: str = "structured",
    early_stop: bool = False,
    informed: list[int] | None = None,
    benchmark_options: dict[str, Any] | None = None,
) -> InspectTask:
    """MuSiQue questions of several steps, each step known to another agent; free-text answers.

    Arguments: see `abilene.evals.plan.Plan`.
    """
    return _made("musique", locals())


@task
def medeinst(
    instruction: str = "B",
    data: str | None = None,
    team_size: int = 5,
    rounds: int = 3,
    tasks: int | None = None,
    seed: int = 0,
    topology: str = "complete",
    intervention: str = "none",
    prompts: str | None = None,
    reasoning: str | bool | None = None,
    condition: str = "hidden",
    instruction_share: float = 1.0,
    agent_instructions: dict[str, str] | None = None,
    personas: str | None = None,
    agent_models: dict[str, str] | None = None,
    protocol_name: str = "structured",
    early_stop: bool = False,
    informed: list[int] | None = None,
    benchmark_options: dict[str, Any] | None = None,
) -> InspectTask:
    """MedEinst case pairs: one finding, held by some, turns the diagnosis.

    Arguments: see `abilene.evals.plan.Plan`.
    """
    return _made("medeinst", locals())


#: Inspect task by benchmark.
TASKS: dict[str, Callable[..., InspectTask]] = {
    "hidden_profile": hidden_profile,
    "hiddenbench": hiddenbench,
    "musique": musique,
    "medeinst": medeinst,
}


def arguments(benchmark: str, plan: Plan) -> dict[str, Any]:
    """A plan as arguments of its Inspect task; what is left to a default is left out."""
    known = inspect.signature(TASKS[benchmark]).parameters
    return {k: v for k, v in plan.arguments.items() if k in known and v is not None}


@modelapi(name="behavioural")
def behavioural() -> type[ModelAPI]:
    """Simulated agents: `behavioural/agent`."""
    from abilene.evals.behavioural import BehaviouralAPI

    return BehaviouralAPI


@modelapi(name="local")
def local() -> type[ModelAPI]:
    """A GGUF model in this process: `local/PATH.gguf`, `local/smollm2`."""
    from abilene.evals.local import LocalAPI

    return LocalAPI


__all__ = [
    "TASKS",
    "arguments",
    "behavioural",
    "discussion",
    "hidden_profile",
    "hiddenbench",
    "local",
    "medeinst",
    "musique",
    "team_verdict",
]
