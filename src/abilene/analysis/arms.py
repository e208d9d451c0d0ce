"""Arms of the causal test held against their predictions: paired changes, direction, and whether the rule was kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from abilene.analysis.causal import TINY, ArmPrediction, Direction, direction
from abilene.analysis.estimate import SettingEstimate
from abilene.analysis.gain import exact_p_value, paired_score
from abilene.records.derive import SettingData, derive
from abilene.seeds import child_rng

Outcome = Literal["as predicted", "against", "undecided", "not predicted"]


def outcome(predicted: Direction | None, observed: Direction | None) -> Outcome:
    """Whether the observed change goes where it was predicted to go.

    Only a change whose interval lies on one side of 0 speaks for or against. A prediction that is itself unclear
    cannot be wrong and is none.

    Examples
    --------
    >>> outcome("up", "up"), outcome("up", "down"), outcome("up", "unclear"), outcome("unclear", "up")
    ('as predicted', 'against', 'undecided', 'not predicted')
    """
    if predicted in (None, "unclear"):
        return "not predicted"
    if predicted == observed:
        return "as predicted"
    return "against" if observed in ("up", "down") else "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Gain of an arm minus gain of the control arm, paired by task.

    Attributes
    ----------
    tasks, unmatched : int
        Tasks with a gain in both arms, and in one arm alone (left out).
    mean, lower, upper : float or None
        The change and its 95 % interval over resampled tasks; where all tasks change alike, Tango's score interval.
    p_value : float or None
        Exact two-sided test of no change (signs of the tasks' changes); None with several epochs.
    reason : str or None
        Why numbers are missing.
    """

    tasks: int
    unmatched: int
    mean: float | None = None
    lower: float | None = None
    upper: float | None = None
    p_value: float | None = None
    reason: str | None = None


def change_of_gain(
    control: SettingData, arm: SettingData, *, seed: int = 0, bootstraps: int = 2000
) -> Change:
    """Paired difference between the gains of two arms; see `Change`."""
    one, two = _gains(control), _gains(arm)
    both = sorted(one.keys() & two.keys())
    unmatched = len(one.keys() ^ two.keys())
    if len(both) < 2:
        return Change(
            tasks=len(both), unmatched=unmatched, reason="fewer than two tasks have a gain in both arms"
        )
    d = np.array([two[t] - one[t] for t in both])
    n = len(both)
    kinds, repeats = np.unique(d, return_counts=True)
    if kinds.size == 1:
        # Resampling would claim certainty.
        size = float(np.clip(kinds[0], -1.0, 1.0))
        limits = paired_score(n * max(size, 0.0), n * max(-size, 0.0), n)
    else:
        rng = child_rng(seed, "causal", "change")
        means = rng.multinomial(n, repeats / n, size=bootstraps) @ kinds / n
        lower, upper = np.quantile(means, [0.025, 0.975])
        limits = (float(lower), float(upper))
    whole = bool(np.all(d == np.round(d)))
    return Change(
        tasks=n,
        unmatched=unmatched,
        mean=float(d.mean()),
        lower=limits[0],
        upper=limits[1],
        p_value=exact_p_value(np.round(d).astype(np.int64)) if whole else None,
    )


def _gains(data: SettingData) -> dict[str, float]:
    """Mean gain of each task that has one."""
    gains: dict[str, list[int]] = {}
    for task, before, after in zip(
        data.discussion_task, data.vote_correct, data.discussion_correct, strict=True
    ):
        gains.setdefault(data.tasks[task], []).append(int(after) - int(before))
    return {task: sum(g) / len(g) for task, g in gains.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmComparison:
    """One arm against its prediction.

    Attributes
    ----------
    predicted : ArmPrediction
        As registered.
    observed : SettingEstimate
        Of the arm.
    change : Change
        Gain minus that of the control arm.
    direction : str or None
        Of the observed change.
    outcome : str
        See `outcome`.
    inside, inside_as_run : bool or None
        Whether the observed gain lies in the predictive interval of the model, and of the arm as it is run; None
        where one of the two is missing.
    same_start : (int, int)
        Independent answers that are those of the control arm, of all.
    rule_kept : (int, int)
        Statements that are what the arm sets, of those that its rule decides (forced: rows with a majority).
    """

    predicted: ArmPrediction
    observed: SettingEstimate
    change: Change
    direction: Direction | None
    outcome: Outcome
    inside: bool | None
    inside_as_run: bool | None
    same_start: tuple[int, int]
    rule_kept: tuple[int, int]

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; the rate that was set stands beside the one that is read."""
        p, o = self.predicted, self.observed
        return {
            "arm": p.arm,
            "withholding": {"set": p.withholding, "read": o.posterior.withholding.as_dict()},
            "predicted": {
                "gain": p.gain.as_dict(),
                "predictive": p.predictive,
                "gain_as_run": p.gain_as_run.as_dict(),
                "predictive_as_run": p.predictive_as_run,
                "change": p.change.as_dict(),
                "direction": p.direction,
                "exact": p.exact,
            },
            "observed": {
                "gain": gain_json(o),
                "change": {name: getattr(self.change, name) for name in Change.__slots__},
                "direction": self.direction,
            },
            "outcome": self.outcome,
            "inside_predictive": self.inside,
            "inside_predictive_as_run": self.inside_as_run,
            "same_start": {"same": self.same_start[0], "of": self.same_start[1]},
            "rule_kept": {"kept": self.rule_kept[0], "of": self.rule_kept[1]},
        }


def gain_json(e: SettingEstimate) -> dict[str, Any]:
    """Gain of a setting as ``abilene estimate --json`` has it, with its number of discussions."""
    g = e.gain
    names = ("n", "mean", "lower", "upper", "p_value", "reason")
    return {name: getattr(g, name) for name in names}


def compare_arm(
    predicted: ArmPrediction,
    control: SettingEstimate,
    arm: SettingEstimate,
    control_record: pl.DataFrame,
    arm_record: pl.DataFrame,
    *,
    seed: int = 0,
) -> ArmComparison:
    """Hold one arm against its registered prediction.

    Parameters
    ----------
    predicted : ArmPrediction
        As registered before the arm ran.
    control, arm : SettingEstimate
        Estimates of both arms.
    control_record, arm_record : polars.DataFrame
        Their records (schema v1).
    seed : int
        Root of the resampling.
    """
    change = change_of_gain(control.data, arm.data, seed=seed)
    moved = direction(change.lower, change.upper)
    return ArmComparison(
        predicted=predicted,
        observed=arm,
        change=change,
        direction=moved,
        outcome=outcome(predicted.direction, moved),
        inside=_inside(arm.gain.mean, predicted.predictive),
        inside_as_run=_inside(arm.gain.mean, predicted.predictive_as_run),
        same_start=same_start(control_record, arm_record),
        rule_kept=rule_kept(arm_record, predicted.arm),
    )


def _inside(value: float | None, limits: tuple[float, float] | None) -> bool | None:
    if value is None or limits is None:
        return None
    return limits[0] - TINY <= value <= limits[1] + TINY


def same_start(control: pl.DataFrame, arm: pl.DataFrame) -> tuple[int, int]:
    """Independent answers of an arm that equal the control arm's, and all that either of them has."""
    key = ["task", "epoch", "agent"]
    sides = [df.filter(pl.col("round") == 0).select(*key, "public") for df in (control, arm)]
    joined = sides[0].join(sides[1], on=key, how="inner", nulls_equal=True)
    same = int(joined.select((pl.col("public").eq_missing(pl.col("public_right"))).sum()).item())
    return same, sides[0].height + sides[1].height - joined.height


def rule_kept(record: pl.DataFrame, arm: str) -> tuple[int, int]:
    """Statements of an arm that are what its rule sets, and statements that the rule decides.

    Transparent: the private answer of the same round, missing where that is missing (all rows of rounds 1 to T).
    Forced majority: the visible majority, in rows that have one.
    """
    later = record.filter(pl.col("round") > 0)
    if arm == "transparent":
        kept = later.select(pl.col("public").eq_missing(pl.col("private")).sum()).item()
        return int(kept), later.height
    derived = derive(record).rows().filter(pl.col("majority").is_not_null())
    key = ["task", "epoch", "round", "agent"]
    seen = derived.select("task", *(pl.col(c).cast(later.schema[c]) for c in key[1:]), "majority").join(
        later.select(*key, "public"), on=key, how="inner"
    )
    return int((seen["public"] == seen["majority"]).sum()), seen.height


__all__ = [
    "ArmComparison",
    "Change",
    "Outcome",
    "change_of_gain",
    "compare_arm",
    "gain_json",
    "outcome",
    "rule_kept",
    "same_start",
]
