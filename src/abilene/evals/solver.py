"""The Inspect solver: one sample is one discussion."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from inspect_ai.log import transcript
from inspect_ai.model import GenerateConfig, ModelOutput, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from abilene.evals.ask import Asker
from abilene.evals.behavioural import BehaviouralAPI
from abilene.evals.digest import messages, round_table
from abilene.evals.guard import guard
from abilene.evals.plan import TEMPERATURE, Plan, agent_role, by_agent
from abilene.records.schema import Row
from abilene.tasks.task import Task
from abilene.team.open_discussion import discuss_openly
from abilene.team.protocol import discuss
from abilene.theory.kernel import plurality

#: Where a sample keeps its rows.
STORE = "abilene"


def pack_rows(rows: list[Row]) -> list[dict[str, Any]]:
    """Rows as JSON-ready objects without their nulls."""
    names = [f.name for f in fields(Row)]
    return [{n: v for n in names if (v := getattr(row, n)) is not None} for row in rows]


def unpack_rows(data: list[dict[str, Any]]) -> list[Row]:
    """Inverse of `pack_rows`.

    Raises
    ------
    TypeError
        A row has an unknown field, or lacks its key.
    """
    rows = []
    for item in data:
        seen = {n: tuple(item[n]) for n in ("observed", "observed_public") if item.get(n) is not None}
        rows.append(Row(**{"truth": None, **item, **seen}))
    return rows


@solver
def discussion(plan: dict[str, Any]) -> Solver:
    """Let the team of a sample discuss; the sample's metadata are the task.

    Parameters
    ----------
    plan : dict
        `Plan.arguments`.
    """
    design = Plan(**plan)
    protocol, own_models = design.protocol, by_agent(design.agent_models, "agent_models")

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        task = Task.from_item(state.metadata)
        model = get_model()
        others = {agent: get_model(role=agent_role(agent)) for agent in own_models}
        for each in (model, *others.values()):
            guard(each)
            if isinstance(each.api, BehaviouralAPI):
                each.api.agent.check(task.team_size)
        ask = Asker(model, design.reasoning, others)

        kept: list[Row] = []

        def keep(t: int, rows: list[Row]) -> None:
            if ask.stop is not None:
                # Calls of this round were not sent; its rows would say nothing about the agents.
                raise ask.stop
            kept[:] = (
                [replace(r, agent_model=str(others.get(int(r.agent), model))) for r in rows]
                if others
                else rows
            )
            transcript().info(round_table([r for r in rows if r.round == t]), source="abilene")

        try:
            if design.open:
                await discuss_openly(
                    task, ask, protocol, depth=design.rounds, early_stop=design.early_stop,
                    epoch=state.epoch, on_round=keep,
                )  # fmt: skip
            else:
                await discuss(task, ask, protocol, epoch=state.epoch, on_round=keep)
        finally:
            # Also where a limit ended the discussion early. (Not after each round: Inspect compares the whole
            # store around every span.)
            state.store.set(STORE, {"rows": pack_rows(kept), "unconstrained": list(ask.free)})
            state.messages = messages(task, kept)
        last = [r.public for r in kept if r.round == design.last_round and r.public is not None]
        final = plurality(last) or "(no unique majority)"
        state.output = ModelOutput.from_content(model=str(model), content=final)
        state.completed = True
        return state

    return solve


def default_config() -> GenerateConfig:
    """How models are called where nobody says otherwise."""
    return GenerateConfig(temperature=TEMPERATURE, max_retries=8, attempt_timeout=120)
