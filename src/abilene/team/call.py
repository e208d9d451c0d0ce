"""What the protocol asks of an agent, and what comes back. The transport behind `Ask` is injected."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["round0", "public", "probe", "message", "vote"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the reply format: ``TAG: value``.

    Parameters
    ----------
    tag : str
        ``ANSWER``, ``PRIVATE``, ``PUBLIC``, ``SHARE``, ``COUNT``, ``DOUBT``, ``RATIONALE``.
    values : tuple of str
        The admissible values; empty where the value is free text.
    counts : tuple of str
        Names that are counted on this line (``COUNT: A=<int> B=<int>``).
    """

    tag: str
    values: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One call to one agent.

    Parameters
    ----------
    kind : str
        ``round0`` (independent answer), ``public`` (statement and disclosure), ``probe`` (private answer); in open
        discussions ``vote`` (first, interim or final) and ``message`` (free text, an empty format).
    task, epoch, agent, round
        Who is asked, and when. Agents are numbered from 0.
    system, user : str
        The prompts. They never contain the answer key.
    format : tuple of Line
        The exact lines the reply should have, for constrained decoding; empty where the reply is free text.
    metadata : mapping
        JSON-ready facts that travel beside the messages and never reach a provider's wire: task, epoch,
        agent, round, kind, and what a simulated agent needs (truth, options, previous private answer ...).
        Round-0 metadata does not depend on the instruction, so that all instructions share one independent
        answer.
    """

    kind: Kind
    task: str
    epoch: int
    agent: int
    round: int
    system: str
    user: str
    format: tuple[Line, ...]
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completion:
    """What a call returned: text, or an error; never an exception.

    Parameters
    ----------
    text : str
        The reply without the provider's separate reasoning field. Empty where nothing came.
    stop : str
        ``stop``, ``length``, ``refusal`` or ``other``.
    error : str, optional
        One line about a call that failed; then `text` is empty.
    input_tokens, output_tokens, reasoning_tokens : int, optional
        Usage, where the provider tells.
    """

    text: str
    stop: Literal["stop", "length", "refusal", "other"] = "stop"
    error: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


Ask = Callable[[Call], Awaitable[Completion]]
"""Sends one call and returns its completion. It may raise; the protocol turns that into a failed call."""
