"""What one process watches while discussions run: money spent, calls that fail, progress."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from inspect_ai.hooks import Hooks, ModelUsageData, hooks

from abilene.errors import AbileneError, InputError


class RunStopped(AbileneError):
    """The run was stopped on purpose: its limit is reached, or no call gets through."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens."""

    input: float
    output: float

    def cost(self, input_tokens: float, output_tokens: float) -> float:
        """USD."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


class Budget:
    """Money of one run, over all its instructions and restarts.

    Parameters
    ----------
    limit : float
        USD. A call is not sent when what was spent and what calls under way may cost reach the limit.
    price : Price
        What tokens cost.
    ledger : Path
        One amount a line, appended as it is spent, so that a restarted run knows.
    """

    def __init__(self, limit: float, price: Price, ledger: Path) -> None:
        self.limit, self.price, self.ledger = limit, price, ledger
        self.under_way = 0.0
        self.spent = 0.0
        self._replies, self._tokens = 0, 0
        if ledger.exists():
            try:
                self.spent = sum(float(line) for line in ledger.read_text().split())
            except ValueError as e:
                raise InputError(ledger, "holds something else than amounts", "Choose a new --out.") from e

    def expect(self, prompt: str) -> float:
        """What a call may cost: its prompt, and a reply like those so far (200 tokens before the first)."""
        reply = self._tokens / self._replies if self._replies else 200.0
        return self.price.cost(len(prompt) / 3, reply)

    def spend(self, input_tokens: int, output_tokens: int) -> None:
        """Book a finished call."""
        self._replies += 1
        self._tokens += output_tokens
        cost = self.price.cost(input_tokens, output_tokens)
        self.spent += cost
        with self.ledger.open("a") as f:
            f.write(f"{cost:.9f}\n")

    def allows(self, cost: float) -> bool:
        """Whether a call of this cost still fits."""
        return self.spent + self.under_way + cost <= self.limit


@dataclass(slots=True)
class Session:
    """One run of this process.

    Parameters
    ----------
    budget : Budget, optional
        Where there is a cost limit.
    on_call : callable, optional
        Called after every call with the number of calls so far in this process.
    give_up_after : int
        Stop when so many calls have failed and not one was answered.
    """

    budget: Budget | None = None
    on_call: Callable[[int], None] | None = None
    give_up_after: int = 40
    stopped: str | None = None
    calls: int = 0
    answered: int = 0
    free_calls: int = field(default=0)

    def may_send(self, prompt: str) -> float:
        """Reserve what a call may cost; raises `RunStopped` where it may not be sent."""
        if self.stopped is None and self.budget is not None:
            cost = self.budget.expect(prompt)
            if self.budget.allows(cost):
                self.budget.under_way += cost
                return cost
            self.stopped = (
                f"the cost limit of {self.budget.limit:g} USD is reached ({self.budget.spent:.4f} USD spent). "
                "The same command with a higher limit goes on from there."
            )
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        return 0.0

    def done(self, reserved: float, error: str | None) -> None:
        """Book the end of a call."""
        if self.budget is not None:
            self.budget.under_way -= reserved
        self.calls += 1
        self.answered += error is None
        if error is not None and not self.answered and self.calls >= self.give_up_after:
            self.stopped = f"all of the first {self.calls} calls failed, the last one with: {error}"
        if self.on_call:
            self.on_call(self.calls)


_idle = Session()
_current = _idle


def current() -> Session:
    """The session of this process; an idle one outside of `run`, as under `inspect eval`."""
    return _current


@contextmanager
def watching(session: Session) -> Iterator[Session]:
    """Make a session the current one."""
    global _current  # noqa: PLW0603  Inspect runs one evaluation per process and offers no other channel
    _current = session
    try:
        yield session
    finally:
        _current = _idle


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@hooks(name="abilene_budget", description="Books what calls cost against Abilene's cost limit.")
class _BudgetHooks(Hooks):
    def enabled(self) -> bool:
        return _current.budget is not None

    async def on_model_usage(self, data: ModelUsageData) -> None:
        # Replies from the cache arrive by another hook: they cost nothing.
        if _current.budget is not None:
            usage = data.usage
            read = usage.input_tokens + (usage.input_tokens_cache_read or 0)
            read += usage.input_tokens_cache_write or 0
            _current.budget.spend(read, usage.output_tokens)
