"""Whole discussions by simulated agents: tasks, prompts, replies, rows, as a run makes them, without a transport."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import polars as pl

from abilene.rates import Rates
from abilene.records.schema import Row, frame
from abilene.tasks.hidden_profile import make_tasks
from abilene.tasks.task import Note, Task
from abilene.team.behavioural import BehaviouralAgent
from abilene.team.call import Completion
from abilene.team.protocol import Protocol, discuss
from abilene.team.topology import Topology

PACK = Protocol().pack


def talk(
    tasks: Sequence[Task], agent: BehaviouralAgent, *, seed: int = 0, rounds: int = 3, **options
) -> pl.DataFrame:
    """Discuss every task; the record of one setting."""

    async def ask(call):
        return Completion(agent.reply(call.system, call.user, call.metadata))

    protocol = Protocol(rounds=rounds, seed=seed, pack=PACK, **options)

    async def all_tasks() -> list[Row]:
        rows: list[Row] = []
        for task in tasks:
            rows.extend(await discuss(task, ask, protocol))
        return rows

    return frame(asyncio.run(all_tasks()), {"benchmark": "test", "model": "behavioural/agent"})


def hidden_profile(
    rates: Rates, *, seed: int = 0, per_level: int = 30, agent=BehaviouralAgent, **options
) -> pl.DataFrame:
    """The default benchmark (120 tasks) discussed by agents of known rates."""
    return talk(make_tasks(per_level=per_level, seed=seed), agent((rates,)), seed=seed, **options)


def several_answers(
    rates: Rates,
    *,
    answers: int = 4,
    tasks: int = 120,
    team_size: int = 5,
    seed: int = 0,
    agent=BehaviouralAgent,
) -> pl.DataFrame:
    """Tasks with K answers, independent accuracy .35, errors spread over all wrong answers."""
    options = tuple("abcdefghij"[:answers])
    made = [
        Task(
            f"k{i}", "hiddenbench", "Which?", tuple(f"option {o}" for o in options), "option a", (),
            tuple((Note("nothing"),) for _ in range(team_size)),
        )
        for i in range(tasks)
    ]  # fmt: skip
    return talk(made, agent((rates,), accuracy=0.35), seed=seed, topology=Topology("complete"))
