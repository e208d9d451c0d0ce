"""What one process watches while discussions run: money spent, calls that fail, progress."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from inspect_ai.hooks import Hooks, ModelUsageData, hooks

from abilene.errors import AbileneError, InputError

T = TypeVar("T")

#: Steps of the event loop that a call gets before the next one starts.
_HEAD_START = 5


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
    """Money and tokens of one run, over all its instructions and restarts.

    Parameters
    ----------
    ledger : Path
        One line per paid call (tokens in and out), appended as it is spent, also without a limit, so that a restarted
        run knows.
    usd, tokens : optional
        Limits. A call is not sent where what was spent and what the calls under way may use exceed one.
    price : Price, optional
        What tokens cost; needed for a limit in USD.
    """

    def __init__(
        self, ledger: Path, *, usd: float | None = None, tokens: int | None = None, price: Price | None = None
    ) -> None:
        self.ledger, self.usd, self.tokens = ledger, usd, tokens
        self.price = price
        self._used = [0, 0]
        self._under_way = [0.0, 0.0]
        self._replies, self._reply_tokens = 0, 0
        if ledger.exists():
            try:
                text = ledger.read_text()
                whole = text[: text.rfind("\n") + 1]
                calls = [[int(x) for x in line.split()] for line in whole.splitlines()]
                if any(len(call) != 2 or min(call) < 0 for call in calls):
                    raise ValueError
            except ValueError as e:
                raise InputError(
                    ledger, "holds something else than two numbers of tokens a line", "Choose a new --out."
                ) from e
            if whole != text:  # half a line, from a process that was killed
                ledger.write_text(whole)
            self._used = [sum(call[k] for call in calls) for k in (0, 1)]

    @property
    def spent(self) -> tuple[float | None, int]:
        """USD (None where no price is known) and tokens of all starts."""
        return None if self.price is None else self.price.cost(*self._used), sum(self._used)

    def reserve(self, prompt: str) -> tuple[float, float] | None:
        """Set aside what a call may use (USD, tokens); None where that no longer fits.

        A token is taken as 3 characters of the prompt, and a reply as long as those so far (200 tokens before
        the first).
        """
        reply = self._reply_tokens / self._replies if self._replies else 200.0
        tokens = len(prompt) / 3 + reply
        cost = 0.0 if self.price is None else self.price.cost(len(prompt) / 3, reply)
        usd, used = self.spent
        over_usd = self.usd is not None and (usd or 0.0) + self._under_way[0] + cost > self.usd
        over_tokens = self.tokens is not None and used + self._under_way[1] + tokens > self.tokens
        if over_usd or over_tokens:
            return None
        self._under_way[0] += cost
        self._under_way[1] += tokens
        return cost, tokens

    def release(self, reserved: tuple[float, float]) -> None:
        """The call has ended."""
        self._under_way[0] -= reserved[0]
        self._under_way[1] -= reserved[1]

    def spend(self, input_tokens: int, output_tokens: int) -> None:
        """Book a reply that was paid for."""
        self._replies += 1
        self._reply_tokens += output_tokens
        self._used = [self._used[0] + input_tokens, self._used[1] + output_tokens]
        with self.ledger.open("a") as f:
            f.write(f"{input_tokens} {output_tokens}\n")

    def __str__(self) -> str:
        money = f"{self.spent[0] or 0.0:.4f} of {self.usd:g} USD" if self.usd is not None else ""
        tokens = f"{self.spent[1]} of {self.tokens} tokens" if self.tokens is not None else ""
        return ", ".join(x for x in (money, tokens) if x)


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
    _gate: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
    _under_way: int = 0
    _ended: asyncio.Event | None = None

    async def may_send(self, prompt: str) -> tuple[float, float]:
        """Reserve what a call may use; raises `RunStopped` where it may not be sent.

        Reservations are guesses from above. Where one does not fit beside those of calls under way, it waits for one
        of them to end, and the run stops only where a single call does not fit.
        """
        while self.stopped is None and self.budget is not None:
            reserved = self.budget.reserve(prompt)
            if reserved is not None:
                self._under_way += 1
                return reserved
            if self._under_way:
                if self._ended is None:
                    self._ended = asyncio.Event()
                await self._ended.wait()
                continue
            self.stopped = (
                f"the limit of the run is reached ({self.budget} spent, and one more call may go over). "
                "The same command with a higher limit goes on from there"
            )
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        return (0.0, 0.0)

    async def launch(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call, starting one at a time.

        Hundreds of calls that become ready together would otherwise go through each step of their preparation
        side by side, and the first request would leave when the last one is ready.
        """
        loop = asyncio.get_running_loop()
        if self._gate is None or self._gate[0] is not loop:
            self._gate = (loop, asyncio.Lock())
        task: asyncio.Task[T] | None = None
        try:
            async with self._gate[1]:
                task = loop.create_task(call)
                for _ in range(_HEAD_START):
                    await asyncio.sleep(0)
                    if task.done():
                        break
            return await task
        finally:
            if task is None:
                call.close()
            elif not task.done():
                task.cancel()

    def done(self, reserved: tuple[float, float], error: str | None) -> None:
        """Book the end of a call."""
        if self.budget is not None:
            self.budget.release(reserved)
            self._under_way -= 1
            if self._ended is not None:
                self._ended.set()  # wakes all that wait; the next to wait makes a new one
                self._ended = None
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
