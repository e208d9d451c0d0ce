"""Per discussion: is the independent vote correct, is the discussion's, and what did discussing gain."""

from __future__ import annotations

import math

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from abilene.evals.solver import STORE, unpack_rows
from abilene.records.derive import derive
from abilene.records.schema import Row, frame


def verdict(rows: list[Row], rounds: int) -> tuple[float, float, float]:
    """Vote, discussion and gain of one discussion.

    Parameters
    ----------
    rows : list of Row
        Of one task and epoch.
    rounds : int
        T that was planned.

    Returns
    -------
    (vote, discussion, gain)
        1 where the unique plurality of the public answers of round 0 (of round T) is correct, 0 where it is
        not or there is a tie; gain is their difference. All three are NaN where either is undefined: nobody
        answered, or the last round is absent.
    """
    if max((r.round for r in rows), default=-1) == rounds:
        data = derive(frame(rows, {})).settings[0]
        if data.vote_correct.size:
            vote, final = float(data.vote_correct[0]), float(data.discussion_correct[0])
            return vote, final, final - vote
    return math.nan, math.nan, math.nan


@scorer(
    metrics={
        "vote": [mean(), stderr()],
        "discussion": [mean(), stderr()],
        "gain": [mean(), stderr()],
    }
)
def team_verdict(rounds: int) -> Scorer:
    """Score a discussion by `verdict`; NaN is Inspect's mark of a sample without a score."""

    async def score(state: TaskState, target: Target) -> Score:
        rows = unpack_rows((state.store.get(STORE) or {}).get("rows", []))
        vote, final, gain = verdict(rows, rounds)
        missing = sum(r.public is None for r in rows)
        explanation = f"{len(rows)} rows; {missing} public answers missing"
        if math.isnan(gain):
            explanation += "; no verdict: an answer of the first or of the last round is needed"
        return Score(
            value={"vote": vote, "discussion": final, "gain": gain},
            answer=state.output.completion or None,
            explanation=explanation,
        )

    return score
