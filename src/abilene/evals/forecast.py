"""What a run will take, before it starts: calls, tokens, price."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from abilene.errors import UsageError
from abilene.evals.behavioural import TOKEN
from abilene.evals.config import RunConfig
from abilene.evals.plan import Plan, digest
from abilene.tasks import Task
from abilene.team.behavioural import BehaviouralAgent
from abilene.team.call import Call, Completion
from abilene.team.open_discussion import discuss_openly
from abilene.team.protocol import discuss

#: Tasks of a plan that are rehearsed.
SAMPLE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a run will take.

    Attributes
    ----------
    calls : int
        Exact, if every call is answered at the first attempt; with an early stop the most it can take.
    input_tokens, output_tokens : int
        From rehearsed discussions at 4 characters a token. Replies are those of the exact format: a model that
        explains itself, or reasons, writes more.
    usd : float or None
        Price; None where prices are not known, with the reason.
    reason : str or None
        Why there is no price.
    """

    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    reason: str | None


@dataclass(slots=True)
class _Tally:
    calls: float = 0.0
    read: float = 0.0
    written: float = 0.0

    def add(self, other: _Tally, weight: float = 1.0) -> None:
        self.calls += weight * other.calls
        self.read += weight * other.read
        self.written += weight * other.written


def forecast(config: RunConfig) -> Forecast:
    """Rehearse some discussions of every setting with simulated agents, in process, and count.

    What two settings ask alike is asked once (`abilene.evals.drive.run`), so it is counted once: round 0, and whatever
    else a deeper discussion or another arm shares with one before it.

    Raises
    ------
    UsageError, InputError
        Whatever is wrong with the configuration.
    """
    total, asked = _Tally(), set[str]()
    for plan in config.plans:
        total.add(_rehearse(plan, asked), config.epochs)  # repetitions share nothing
    read, written = round(total.read / TOKEN), round(total.written / TOKEN)
    price, reason = config.team_price, None
    if price is None:
        try:
            config.known_price(config.model)
            reason = (
                "The models of this team have different prices, or some are not known. Give --price IN,OUT."
            )
        except UsageError as e:
            reason = str(e)
    return Forecast(
        calls=round(total.calls),
        input_tokens=read,
        output_tokens=written,
        usd=None if price is None else price.cost(read, written),
        reason=reason,
    )


def _rehearse(plan: Plan, asked: set[str]) -> _Tally:
    """What all tasks of a plan add to the calls in `asked`, which grows by those of the rehearsed tasks."""
    total = _Tally()
    by_size: dict[int, list[Task]] = {}
    for task in plan.items:
        by_size.setdefault(task.team_size, []).append(task)
    for tasks in by_size.values():
        step = max(1, len(tasks) // SAMPLE)
        chosen = tasks[::step]
        for task in chosen:
            total.add(asyncio.run(_hold(plan, task, asked)), len(tasks) / len(chosen))
    return total


async def _hold(plan: Plan, task: Task, asked: set[str]) -> _Tally:
    agent, tally = BehaviouralAgent(), _Tally()

    async def ask(call: Call) -> Completion:
        reply = agent.reply(call.system, call.user, call.metadata)
        key = digest([call.system, call.user, dict(call.metadata)])
        if key not in asked:
            asked.add(key)
            tally.add(_Tally(1, len(call.system) + len(call.user), len(reply)))
        # Who agrees when is for the real agents to find out. A vote that is missing is no agreement, so that the
        # rehearsal goes to the end: the most it can take.
        interim = plan.early_stop and call.kind == "vote" and 0 < call.round <= plan.rounds
        return Completion("" if interim else reply)

    if plan.open:
        await discuss_openly(task, ask, plan.protocol, depth=plan.rounds, early_stop=plan.early_stop)
    else:
        await discuss(task, ask, plan.protocol)
    return tally
