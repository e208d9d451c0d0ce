"""An Inspect task from a plan."""

from __future__ import annotations

from inspect_ai import Task as InspectTask
from inspect_ai.dataset import MemoryDataset, Sample

from abilene.evals.plan import Plan
from abilene.evals.scorer import team_verdict
from abilene.evals.solver import default_config, discussion


def make_task(plan: Plan) -> InspectTask:
    """The Inspect task of one setting.

    Parameters
    ----------
    plan : Plan
        Checked here, before anything is asked.

    Returns
    -------
    inspect_ai.Task
        One sample per task: its id, the question, the answer, and the whole item as metadata. The version
        changes with prompts and tasks, so that an edited prompt never reuses finished samples.
    """
    samples = [
        Sample(id=task.id, input=task.question, target=task.answer, metadata=task.to_item())
        for task in plan.items
    ]
    return InspectTask(
        dataset=MemoryDataset(samples, name=plan.benchmark),
        solver=discussion(plan.arguments),
        scorer=team_verdict(rounds=plan.last_round),
        config=default_config(),
        fail_on_error=False,
        version=plan.version,
        metadata={"abilene": plan.facts},
        display_name=f"{plan.benchmark}, instruction {plan.instruction[:40]}",
    )
