"""Per discussion: is the independent vote correct, is the discussion's, and what did discussing gain."""

from __future__ import annotations

import math

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from abilene.evals.solver import STORE, unpack_rows
from abilene.records.schema import Row
from abilene.theory.kernel import plurality


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
    votes = [_correct([r for r in rows if r.round == t]) for t in (0, rounds)]
    if None in votes:
        return math.nan, math.nan, math.nan
    vote, final = float(bool(votes[0])), float(bool(votes[1]))
    return vote, final, final - vote


def _correct(rows: list[Row]) -> bool | None:
    """Whether the unique plurality of one round is correct; None where nobody answered, or nobody was there.

    The same rule as in `abilene.records.derive` (a test holds them together), which is made for whole records.
    """
    answers = [r.public for r in rows if r.public is not None]
    return plurality(answers) == rows[0].truth if answers else None


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
