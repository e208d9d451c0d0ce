"""The simulated agent as an Inspect model provider: `behavioural/agent -M c=.3 -M a=.5 -M rho=1 -M r=.8`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageSystem,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.tool import ToolChoice, ToolInfo

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.team.behavioural import DEFAULT, BehaviouralAgent

RATES = ("c", "a", "rho", "r")
_KNOWN = (*RATES, "accuracy", "oracle", "seed")
#: Characters of a token, about: English text in today's tokenizers.
TOKEN = 4.0


def parse_agent(arguments: dict[str, Any]) -> BehaviouralAgent:
    """Simulated agents from model arguments, as the command line gives them.

    Parameters
    ----------
    arguments : dict
        c, a, rho, r: a number for all agents, or one per agent (a list, or text with commas); accuracy; seed;
        oracle (true or false), see `BehaviouralAgent`.

    Raises
    ------
    UsageError
        An unknown argument, a value that is no number or out of range, lists of different lengths.

    Examples
    --------
    >>> agent = parse_agent({"c": "0.1,0.9", "rho": 1})
    >>> [rates.c for rates in agent.rates], agent.rates[0].a
    ([0.1, 0.9], 0.5)
    """
    if unknown := sorted(set(arguments) - set(_KNOWN)):
        raise UsageError(f"behavioural/agent has no argument {unknown[0]!r}. It has: {', '.join(_KNOWN)}.")
    column = {name: _numbers(name, arguments.get(name, getattr(DEFAULT, name))) for name in RATES}
    sizes = {len(v) for v in column.values()} - {1}
    if len(sizes) > 1:
        found = ", ".join(f"{name}: {len(v)}" for name, v in column.items() if len(v) > 1)
        raise UsageError(f"behavioural/agent: rates per agent must be equally many, found {found}.")
    n = sizes.pop() if sizes else 1
    rates = tuple(Rates(**{name: v[i if len(v) > 1 else 0] for name, v in column.items()}) for i in range(n))
    accuracy, seed = arguments.get("accuracy"), arguments.get("seed", 0)
    if isinstance(seed, bool) or not str(seed).removeprefix("-").isdecimal():
        raise UsageError(f"behavioural/agent: seed must be a whole number, found {seed!r}.")
    if accuracy is not None:
        values = _numbers("accuracy", accuracy)
        if len(values) > 1:
            raise UsageError(
                f"behavioural/agent: accuracy is one number for all agents, found {len(values)}."
            )
        accuracy = values[0]
    oracle = arguments.get("oracle", False)
    if str(oracle).lower() not in ("true", "false"):
        raise UsageError(f"behavioural/agent: oracle must be true or false, found {oracle!r}.")
    return BehaviouralAgent(rates, accuracy=accuracy, seed=int(seed), oracle=str(oracle).lower() == "true")


def _numbers(name: str, value: object) -> list[float]:
    if isinstance(value, str):
        value = value.split(",")
    parts: Sequence[object] = value if isinstance(value, list | tuple) else [value]
    try:
        if any(isinstance(v, bool) for v in parts):
            raise TypeError
        numbers = [float(v) for v in parts]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        numbers = []
    if not numbers:
        raise UsageError(
            f"behavioural/agent: {name} must be a number from 0 to 1 (rates also one per agent, as in "
            f"{name}=0.1,0.9), found {value!r}."
        )
    return numbers


def describe(agent: BehaviouralAgent) -> str:
    """The agent's arguments as one short text, for telling settings apart.

    Examples
    --------
    >>> describe(parse_agent({"c": [0.1, 0.9]}))
    'c=0.1,0.9 a=0.5 rho=1 r=0.8'
    """
    out = []
    for name in RATES:
        values = [getattr(rates, name) for rates in agent.rates]
        shown = values[:1] if len(set(values)) == 1 else values
        out.append(f"{name}=" + ",".join(f"{v:g}" for v in shown))
    if agent.accuracy is not None:
        out.append(f"accuracy={agent.accuracy:g}")
    if agent.oracle:
        out.append("oracle")
    if agent.seed:
        out.append(f"seed={agent.seed}")
    return " ".join(out)


class BehaviouralAPI(ModelAPI):
    """Answers every call by the four rules; a pure function of the prompt and of the message's metadata."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008  Inspect's own signature
        **model_args: Any,
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config)
        if model_name != "agent":
            raise UsageError(f"Unknown model 'behavioural/{model_name}'. There is: behavioural/agent.")
        self.agent = parse_agent(model_args)

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Answer the last message."""
        metadata = input[-1].metadata
        if not metadata or "format" not in metadata:
            raise UsageError(
                "behavioural/agent answers Abilene's own calls only: what a model would remember comes with them."
            )
        system = "\n".join(m.text for m in input if isinstance(m, ChatMessageSystem))
        reply = self.agent.reply(system, input[-1].text, metadata)
        output = ModelOutput.from_content(model="behavioural/agent", content=reply)
        # What a model would have been billed for, at 4 characters a token: forecasts are checked against it.
        read, written = (round(len(text) / TOKEN) for text in (system + input[-1].text, reply))
        output.usage = ModelUsage(input_tokens=read, output_tokens=written, total_tokens=read + written)
        return output

    def max_connections(self) -> int:
        """Nothing to wait for."""
        return 1000
