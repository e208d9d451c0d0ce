"""The configuration of a run: checked once, and written down before the first call."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from inspect_ai.model import get_model_info

from abilene.errors import InputError, UsageError
from abilene.evals.plan import TEMPERATURE, Plan, digest
from abilene.evals.session import Price, environment
from abilene.records.loaded import replacing
from abilene.records.schema import is_simulated

FACTS = "run.json"
#: Arguments of a plan in which the settings of one run can differ, beside the instruction.
VARIED = ("intervention", "topology", "team_size", "rounds")
_SECRET = re.compile(r"key|token|secret|password|credential|auth", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What to run.

    Parameters
    ----------
    benchmark, tasks, team_size, rounds, seed, topology, intervention, prompts, data, reasoning, condition,
    instruction_share, agent_instructions, personas, agent_models, protocol_name, early_stop,
    informed, benchmark_options
        See `abilene.evals.plan.Plan`.
    instructions : tuple of str
        One setting each; all start from the same independent answers.
    vary : mapping
        Values of further arguments of a plan, such as ``{"rounds": (5, 10, 15, 20)}``, each instead of the
        argument of that name: every combination of them and the instructions is a setting (`VARIED`).
    model : str
        Any Inspect model; ``behavioural/agent`` simulates.
    model_args : mapping
        Arguments of the provider (``-M``).
    base_url : str, optional
        Of an OpenAI-compatible server, with a model ``openai-api/<name>/<model>``.
    max_cost : float, optional
        USD for the whole run, restarts included.
    price : (float, float), optional
        USD per million input and output tokens; needed for `max_cost` where the model's prices are not known.
    max_total_tokens : int, optional
        Tokens for the whole run.
    out : path, optional
        The run's folder. Left out: runs/<benchmark>-<model>-<hash of the configuration>, so that the same
        command goes on with the same run.
    connections : int, optional
        Calls at a time; left out: 40, and 8 for a model in this process.
    epochs : int
        Discussions of each task, each with its own draws; HiddenBench's published runs hold 10. The estimates take
        the discussions of a task as one unit.
    temperature, max_tokens, max_retries, attempt_timeout
        Of every call; the timeout in seconds, for one attempt.
    live : bool
        Let the viewer follow the run while it lasts (costs about 1 ms CPU a call).
    """

    benchmark: str = "hidden_profile"
    model: str = "behavioural/agent"
    model_args: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None
    instructions: tuple[str, ...] = ("B",)
    vary: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    tasks: int | None = None
    team_size: int | None = None
    rounds: int = 3
    topology: str = "complete"
    intervention: str = "none"
    reasoning: str | None = None
    data: str | Path | None = None
    prompts: str | Path | None = None
    condition: str = "hidden"
    instruction_share: float = 1.0
    agent_instructions: Mapping[str, str] | None = None
    personas: str | Path | None = None
    agent_models: Mapping[str, str] | None = None
    protocol_name: str = "structured"
    early_stop: bool = False
    informed: tuple[int, ...] | None = None
    benchmark_options: Mapping[str, Any] | None = None
    seed: int = 0
    max_cost: float | None = None
    price: tuple[float, float] | None = None
    max_total_tokens: int | None = None
    out: str | Path | None = None
    connections: int | None = None
    epochs: int = 1
    temperature: float = TEMPERATURE
    max_tokens: int | None = None
    max_retries: int = 8
    attempt_timeout: int = 120
    live: bool = False

    def __post_init__(self) -> None:
        if not self.instructions:
            raise UsageError("Give at least one instruction.")
        if len({i.strip() for i in self.instructions}) < len(self.instructions):
            raise UsageError("An instruction is given twice; each one is a setting of its own.")
        for name, values in self.vary.items():
            if name not in VARIED:
                raise UsageError(f"Settings cannot differ in {name!r}. Choose from {', '.join(VARIED)}.")
            if not values or len(set(values)) < len(values):
                raise UsageError(
                    f"{name}: give at least one value, and each only once; found {list(values)}."
                )
        if self.attempt_timeout < 1 or self.calls_at_a_time < 1:
            raise UsageError("connections and attempt_timeout must be at least 1.")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UsageError(f"The temperature must be a number from 0, found {self.temperature}.")
        if self.epochs < 1:
            raise UsageError(f"epochs must be at least 1, found {self.epochs}.")
        if self.max_retries < 0:
            raise UsageError(f"max_retries must be at least 0, found {self.max_retries}.")
        if self.max_cost is not None and not (math.isfinite(self.max_cost) and self.max_cost > 0):
            raise UsageError(f"The cost limit must be a positive number of USD, found {self.max_cost}.")
        if self.max_total_tokens is not None and self.max_total_tokens < 1:
            raise UsageError(f"The token limit must be at least 1, found {self.max_total_tokens}.")
        if self.price is not None and not all(math.isfinite(p) and p >= 0 for p in self.price):
            raise UsageError(f"Prices are USD per million tokens, found {self.price}.")
        if "/" not in self.model:
            raise UsageError(
                f"Unknown model {self.model!r}: a model is named provider/model, such as behavioural/agent, "
                "openai/gpt-4o-mini or openai-api/<name>/<model>."
            )
        if self.max_cost is not None:
            for model in self._models:
                self.known_price(model)
            if self.price is None and len({self.known_price(m) for m in self._models}) > 1:
                raise UsageError(
                    "The models of this team have different prices. Give the highest with --price IN,OUT, or limit "
                    "tokens instead."
                )

    @property
    def calls_at_a_time(self) -> int:
        """Connections, given or by default."""
        if self.connections is not None:
            return self.connections
        return 8 if self.model.startswith("local/") else 40

    @property
    def _models(self) -> set[str]:
        return {self.model, *(self.agent_models or {}).values()}

    @property
    def team_price(self) -> Price | None:
        """Prices of all agents' models, where they are known and the same."""
        try:
            prices = {self.known_price(model) for model in self._models}
        except UsageError:
            return None
        return prices.pop() if len(prices) == 1 else None

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """One plan per setting, one instruction after the other within each combination of `vary`."""
        base = Plan(
            benchmark=self.benchmark,
            team_size=self.team_size,
            rounds=self.rounds,
            tasks=self.tasks,
            seed=self.seed,
            topology=self.topology,
            intervention=self.intervention,
            prompts=None if self.prompts is None else str(self.prompts),
            data=None if self.data is None else str(self.data),
            reasoning=self.reasoning,
            condition=self.condition,
            instruction_share=self.instruction_share,
            agent_instructions=None if self.agent_instructions is None else dict(self.agent_instructions),
            personas=None if self.personas is None else str(self.personas),
            agent_models=None if self.agent_models is None else dict(self.agent_models),
            protocol_name=self.protocol_name,
            early_stop=self.early_stop,
            informed=None if self.informed is None else list(self.informed),
            benchmark_options=None if self.benchmark_options is None else dict(self.benchmark_options),
        )
        return tuple(
            replace(base, **dict(zip(self.vary, values, strict=True)), instruction=instruction)
            for *values, instruction in product(*self.vary.values(), self.instructions)
        )

    @cached_property
    def names(self) -> dict[str, str]:
        """Short name of every setting by its digest: the instruction, and whatever else differs."""
        return {
            digest(plan.setting): " · ".join(
                [str(plan.setting["instruction"]), *(f"{name} {getattr(plan, name)}" for name in self.vary)]
            )
            for plan in self.plans
        }

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything that decides what is asked, without secrets; limits and paths of files left out."""
        arguments = self.plans[0].arguments
        for name in ("instruction", "prompts", "data", "personas"):
            del arguments[name]
        return {
            **arguments,
            **({"vary": {k: list(v) for k, v in self.vary.items()}} if self.vary else {}),
            **({"epochs": self.epochs} if self.epochs > 1 else {}),
            "instructions": list(self.instructions),
            "model": self.model,
            "model_args": {k: "***" if _SECRET.search(k) else v for k, v in sorted(self.model_args.items())},
            "base_url": self.base_url,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "versions": [plan.version for plan in self.plans],
        }

    @cached_property
    def folder(self) -> Path:
        """Where the run lives."""
        if self.out is not None:
            return Path(self.out)
        name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{self.benchmark}-{self.model}").strip("-")[:60]
        return Path("runs") / f"{name}-{digest(json.loads(json.dumps(self.identity, default=str)))[:8]}"

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the record and the folder say about the run."""
        return {
            "identity": json.loads(json.dumps(self.identity, default=str)),
            "data": None if self.data is None else str(self.data),
            "prompts": None if self.prompts is None else str(self.prompts),
            "settings": [plan.facts for plan in self.plans],
            "packages": {name: version(name) for name in ("abilene", "inspect-ai")},
        }

    def known_price(self, model: str) -> Price:
        """Prices of the model.

        Raises
        ------
        UsageError
            Nobody knows them.
        """
        if self.price is not None:
            return Price(*self.price)
        if is_simulated(model) or model.startswith("local/"):
            return Price(0.0, 0.0)
        # Inspect's first greeting ("hooks enabled") is meant for its own command; stdout is for results.
        with redirect_stdout(sys.stderr):
            info = get_model_info(model)
        if info is None or info.cost is None:
            raise UsageError(
                f"A cost limit needs prices, and those of {model} are not known. Give them with "
                "--price IN,OUT (USD per million input and output tokens), or limit tokens instead."
            )
        return Price(info.cost.input, info.cost.output)

    @contextmanager
    def environment(self) -> Iterator[None]:
        """What a server without a key needs: Inspect insists on one."""
        parts = self.model.split("/")
        values = {}
        if parts[0] == "openai-api" and len(parts) > 2 and self.base_url is not None:
            name = f"{parts[1].upper().replace('-', '_')}_API_KEY"
            if not os.environ.get(name):
                values[name] = "none"
        with environment(**values):
            yield


def check_folder(config: RunConfig) -> None:
    """Make the run's folder, or see that it holds the same run.

    Raises
    ------
    InputError
        The folder holds something else; nothing in it is touched.
    """
    out = config.folder
    if out.exists() and not out.is_dir():
        raise InputError(out, "is a file", "Give a folder as --out.")
    file = out / FACTS
    if not file.exists():
        if out.is_dir() and any(p.name != ".lock" for p in out.iterdir()):
            raise InputError(out, "the folder is not empty and holds no run", "Choose a new --out.")
        out.mkdir(parents=True, exist_ok=True)
        return
    try:
        there = json.loads(file.read_text(encoding="utf-8"))["identity"]
    except (ValueError, KeyError, TypeError) as e:
        raise InputError(file, "cannot be read as a run's facts", "Choose a new --out.") from e
    here = config.facts["identity"]
    if differ := [k for k in {**there, **here} if there.get(k) != here.get(k)]:
        names = {"versions": "prompts or tasks"}
        told = "; ".join(
            f"{names.get(k, k)}: {there.get(k)!r} there, {here.get(k)!r} now" for k in sorted(differ)
        )
        raise InputError(
            out,
            f"holds a run with other arguments ({told})",
            "Choose a new --out; this one is left as it is.",
        )


def write_facts(config: RunConfig, result: Mapping[str, Any] | None = None) -> None:
    """Write down the run's facts; what is there from an earlier start is kept."""
    file = config.folder / FACTS
    now = datetime.now(UTC).isoformat(timespec="seconds")
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    document = {"schema": 1, **config.facts, "started": before.get("started", now), "result": result}
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Keep a second process out of the run's folder; a killed process leaves no lock behind.

    Raises
    ------
    InputError
        Another process runs there.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    with (folder / ".lock").open("w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            raise InputError(folder, "another process is running this run", "Wait for it, or stop it.") from e
        yield
