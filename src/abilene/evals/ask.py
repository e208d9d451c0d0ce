"""An `Ask` over an Inspect model: messages out, completions in, failures as completions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from inspect_ai.model import (
    CachePolicy,
    ChatMessageSystem,
    ChatMessageUser,
    ContentReasoning,
    GenerateConfig,
    Model,
    ModelOutput,
)
from inspect_ai.util import LimitExceededError, span

from abilene.evals.plan import digest
from abilene.evals.reasoning import reasoning_config
from abilene.evals.session import RunStopped, current
from abilene.team.call import Call, Completion

_SECRET_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)$", re.IGNORECASE)
_SECRETS = re.compile(r"(?i)\b(?:sk|pk|rk|gsk|xai)-[\w-]{8,}|\bbearer\s+[\w.~+/=-]{8,}|\bAIza[\w-]{20,}")
_STOPS = {"stop": "stop", "max_tokens": "length", "model_length": "length", "content_filter": "refusal"}
_NAMES = {
    "round0": "answer", "public": "public", "probe": "private", "message": "message", "vote": "vote"
}  # fmt: skip


@dataclass(slots=True)
class Asker:
    """Sends the calls of one discussion.

    Attributes
    ----------
    model, others
        The model of all agents, and those of single agents.
    reasoning : str, optional
        See `abilene.evals.reasoning`.
    stop : Exception, optional
        Why the discussion must end after the calls under way: a limit of the sample or of the run.
    free : list of bool
        For replies that were also asked for without a grammar: whether that reply could be read.
    """

    model: Model
    reasoning: str | None
    others: Mapping[int, Model] = field(default_factory=dict)
    stop: Exception | None = None
    free: list[bool] = field(default_factory=list)
    _ways: dict[int, tuple[GenerateConfig, CachePolicy]] = field(default_factory=dict)

    async def __call__(self, call: Call) -> Completion:
        """Send one call; whatever goes wrong comes back as the completion's error."""
        if self.stop is not None:
            return Completion("", stop="other", error="not sent: the discussion was stopped")
        session = current()
        try:
            reserved = await session.may_send(call.system + call.user)
        except RunStopped as e:
            self.stop = e
            return Completion("", stop="other", error=f"not sent: {e}")
        error: str | None = "cancelled"
        try:
            async with span(f"r{call.round} agent {call.agent} {_NAMES[call.kind]}", type="agent"):
                output = await session.launch(self._generate(call))
            done = read_output(output)
            error = done.error
            if output.metadata and isinstance(free := output.metadata.get("unconstrained"), Mapping):
                self.free.append(bool(free["read"]))
        except LimitExceededError as e:
            self.stop = e
            done = Completion("", stop="other", error=f"{e.type} limit reached")
            error = done.error
        except Exception as e:  # the protocol stores it as a missing answer
            done = Completion("", stop="other", error=describe_error(e))
            error = done.error
        finally:
            session.done(reserved, error)
        return done

    async def _generate(self, call: Call) -> ModelOutput:
        model = self.others.get(call.agent, self.model)
        config, policy = self._way(model)
        return await model.generate(
            [
                ChatMessageSystem(content=call.system),
                ChatMessageUser(content=call.user, metadata=dict(call.metadata)),
            ],
            config=config,
            cache=policy,
        )

    def _way(self, model: Model) -> tuple[GenerateConfig, CachePolicy]:
        # By identity: two simulated agents of different rates have one name.
        if id(model) not in self._ways:
            # Inspect's cache key leaves out the model's arguments (rates, routing), which change the reply.
            arguments = {k: repr(v) for k, v in model.model_args.items()}
            scopes = {"model_args": digest(arguments), "reasoning": self.reasoning or ""}
            policy = CachePolicy(expiry=None, scopes=scopes)
            self._ways[id(model)] = reasoning_config(str(model), self.reasoning), policy
        return self._ways[id(model)]


def read_output(output: ModelOutput) -> Completion:
    """A model's output as a completion: text without the reasoning, why it ended, and usage.

    Reasoning whose tokens the provider does not count is counted by its length (4 characters a token, at
    least one), so that reasoning that should have been off shows.
    """
    usage = output.usage
    if not output.choices:
        return Completion("", stop="other", error=output.error or "the provider returned no choice")
    content = output.choices[0].message.content
    reasoning = None if usage is None else usage.reasoning_tokens
    if not isinstance(content, str):
        thought = sum(len(c.reasoning or "") or 1 for c in content if isinstance(c, ContentReasoning))
        if thought and not reasoning:
            reasoning = max(1, thought // 4)
    return Completion(
        text=output.completion if output.error is None else "",
        stop=_STOPS.get(output.stop_reason, "other"),  # type: ignore[arg-type]
        error=None if output.error is None else clean(output.error),
        input_tokens=None if usage is None else usage.input_tokens,
        output_tokens=None if usage is None else usage.output_tokens,
        reasoning_tokens=reasoning,
    )


def describe_error(error: BaseException) -> str:
    """One line about a failed call, without the request and without secrets."""
    text = getattr(error, "provider_message", None) or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return clean(f"{type(error).__name__}: {lines[0] if lines else 'no message'}")


def clean(text: str) -> str:
    """Text without credentials: values of the environment's keys, and what looks like one; at most 300 characters.

    Examples
    --------
    >>> clean("Incorrect API key provided: sk-abcdefgh12345678.")
    'Incorrect API key provided: ***.'
    """
    return " ".join(without_secrets(text).split())[:300]


def without_secrets(text: str) -> str:
    """Text without values of the environment's keys, and without what looks like a credential."""
    for name, value in os.environ.items():
        if _SECRET_NAMES.search(name) and len(value) >= 6:
            text = text.replace(value, "***")
    return _SECRETS.sub("***", text)
