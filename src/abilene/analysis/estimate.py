"""From the record to the result: rates, threshold, margin, gain and verdict of every setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from abilene.analysis.gain import Accuracy, Gain, paired_gain
from abilene.inference.margin import SettingPosterior, setting_posterior
from abilene.records.derive import Derived, SettingData, derive
from abilene.records.schema import SETTING_PARTS, is_simulated
from abilene.seeds import child_seed
from abilene.team.interventions import INTERVENTIONS

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingEstimate:
    """Everything that is known about one setting.

    Attributes
    ----------
    data : SettingData
        Counts and arrays, as derived from the record.
    posterior : SettingPosterior
        Rates, threshold, margin, verdict; `.posterior.posterior` is the xarray Dataset of joint draws.
    gain : Gain
        Accuracy of vote and discussion, and the difference, paired by task.
    simulated : bool
        Whether simulated agents took part.
    starts : tuple of (int, int)
        Agents correct at round 0 and agents in all, of each discussion in which every agent answered.
    answers : int
        K: the most different answers, the correct one among them, that occur in one task; at least 2.
    reasons : tuple of str
        What the verdict rests on, and what the reader must know about the rows.
    """

    data: SettingData
    posterior: SettingPosterior
    gain: Gain
    simulated: bool
    starts: tuple[tuple[int, int], ...]
    answers: int
    reasons: tuple[str, ...]

    @property
    def setting(self) -> dict[str, str | None]:
        """The setting's parts by name."""
        return self.data.setting

    @property
    def label(self) -> str:
        """The known parts, for display."""
        return " · ".join(v for v in self.setting.values() if v) or "(no setting given)"

    @property
    def withholding_set(self) -> float | None:
        """The withholding rate that the arm's intervention sets; None where agents state what they want."""
        return withholding_set(self.data)

    def to_json(self) -> dict[str, Any]:
        """One entry of ``settings`` in the contract of ``abilene estimate --json``."""
        post, rows = self.posterior, self.data.rows
        return {
            "setting": self.setting,
            "simulated": self.simulated,
            "withholding_set": self.withholding_set,
            "tasks": len(self.data.tasks),
            "rows": {
                "expected": rows.expected,
                "used": rows.used,
                "dropped": rows.dropped,
                "off_rule": rows.off_rule,
                "off_rule_own": rows.off_rule_own,
                "ties": rows.ties,
            },
            "counts": self.data.counts.to_dict(),
            "withholding": post.withholding.as_dict(),
            "internalization": post.internalization.as_dict(),
            "net_correction": post.net_correction.as_dict(),
            "u": post.u.as_dict(),
            "v": post.v.as_dict(),
            "critical_withholding": post.critical_withholding.as_dict(),
            "margin": post.margin.as_dict(),
            "temper": post.temper,
            "probability_above": post.probability_above,
            "accuracy": {
                "discussions": self.gain.n,
                "undefined": self.data.undefined,
                "vote": _accuracy(self.gain.vote),
                "discussion": _accuracy(self.gain.discussion),
                "gain": {
                    "mean": self.gain.mean,
                    "lower": self.gain.lower,
                    "upper": self.gain.upper,
                    "p_value": self.gain.p_value,
                    "reason": self.gain.reason,
                },
            },
            "verdict": post.verdict,
            "reasons": list(self.reasons),
        }


def _accuracy(a: Accuracy) -> dict[str, float | None]:
    return {"mean": a.mean, "lower": a.lower, "upper": a.upper}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimates of all settings of a record, in the sorted order of their parts."""

    settings: tuple[SettingEstimate, ...]
    derived: Derived

    def to_json(self) -> dict[str, Any]:
        """The document of ``abilene estimate --json``."""
        return {"schema": SCHEMA, "settings": [s.to_json() for s in self.settings]}


def estimate(
    record: pl.DataFrame, *, temper: bool = True, include_joint: bool = False, seed: int = 0
) -> Estimate:
    """Estimate every setting of a record.

    Parameters
    ----------
    record : polars.DataFrame
        Schema v1; see `abilene.records.files.load`.
    temper : bool
        Whether the likelihood of the flows is tempered to the width of a bootstrap over tasks.
    include_joint : bool
        Whether to use private answers that come from the public reply's own PRIVATE line.
    seed : int
        Root of draws and resampling. A setting's result does not depend on the other settings.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> from abilene.records.schema import Row, frame
    >>> rows = [Row(task="t", round=0, agent=i, truth="x", private=i, public=i) for i in ("x", "y")]
    >>> rows += [Row(task="t", round=1, agent=i, truth="x", private="x", public=i) for i in ("x", "y")]
    >>> result = estimate(frame(rows, {"model": "m"})).settings[0]
    >>> result.posterior.withholding.median < 0.8, result.posterior.verdict
    (True, 'unidentified')
    """
    derived = derive(record, include_joint=include_joint)
    simulated = _simulated_models(record)
    starts, answers = _starts(record), _answers(record)
    return Estimate(
        settings=tuple(_setting(data, temper, seed, simulated, starts, answers) for data in derived.settings),
        derived=derived,
    )


def _simulated_models(record: pl.DataFrame) -> set[str]:
    """Models of settings in which at least one agent is simulated."""
    pairs = record.select("model", "agent_model").unique()
    return {str(m) for m, agent in pairs.iter_rows() if is_simulated(m) or is_simulated(agent)}


def _starts(record: pl.DataFrame) -> dict[tuple[str | None, ...], list[tuple[int, int]]]:
    """By setting: how each discussion with a complete round 0 starts."""
    first = pl.col("round") == 0
    answered = first & pl.col("public").is_not_null() & pl.col("truth").is_not_null()
    counts = (
        record.group_by(*SETTING_PARTS, "task", "epoch")
        .agg(
            (answered & (pl.col("public") == pl.col("truth"))).sum().alias("k"),
            pl.col("agent").filter(answered).n_unique().alias("answered"),
            pl.col("agent").n_unique().alias("n"),
        )
        .filter(pl.col("answered") == pl.col("n"))
        .sort("task", "epoch")
    )
    out: dict[tuple[str | None, ...], list[tuple[int, int]]] = {}
    for *setting, k, n in counts.select(*SETTING_PARTS, "k", "n").iter_rows():
        out.setdefault(tuple(setting), []).append((k, n))
    return out


def _answers(record: pl.DataFrame) -> dict[tuple[str | None, ...], int]:
    """By setting: the most different answers in one task, its key among them."""
    given = pl.concat(
        record.select(*SETTING_PARTS, "task", pl.col(c).alias("answer"))
        for c in ("private", "public", "truth")
    ).drop_nulls("answer")
    counts = (
        given.group_by(*SETTING_PARTS, "task")
        .agg(pl.col("answer").n_unique().alias("k"))
        .group_by(SETTING_PARTS)
        .agg(pl.col("k").max())
    )
    return {tuple(setting): int(k) for *setting, k in counts.select(*SETTING_PARTS, "k").iter_rows()}


def _setting(
    data: SettingData,
    temper: bool,
    seed: int,
    simulated: set[str],
    starts: dict[tuple[str | None, ...], list[tuple[int, int]]],
    answers: dict[tuple[str | None, ...], int],
) -> SettingEstimate:
    key = tuple(data.setting[p] for p in SETTING_PARTS)
    own_seed = child_seed(seed, "setting", *(str(data.setting[part]) for part in SETTING_PARTS))
    posterior = setting_posterior(
        k_c=data.k_c,
        n_c=data.n_c,
        k_a=data.k_a,
        task=data.task,
        enters_correct=data.enters_correct,
        dissent=data.dissent,
        changed=data.changed,
        n_tasks=len(data.tasks),
        seed=own_seed,
        temper=temper,
    )
    gain = paired_gain(
        data.vote_correct, data.discussion_correct, cluster=data.discussion_task, seed=own_seed
    )
    return SettingEstimate(
        data=data,
        posterior=posterior,
        gain=gain,
        simulated=str(data.setting["model"]) in simulated,
        starts=tuple(starts.get(key, ())),
        answers=max(2, answers.get(key, 2)),
        reasons=(*posterior.reasons, *_contradiction(posterior, gain), *_row_reasons(data)),
    )


def _contradiction(posterior: SettingPosterior, gain: Gain) -> list[str]:
    """Where the observed gain is not what the verdict leads one to expect."""
    if posterior.verdict == "above" and gain.lower is not None and gain.lower > 0.0:
        return [
            "Yet this discussion gained on the vote. The rates do not explain that: notes that reach the table are a "
            "way out of a wrong majority which the model does not have, and small teams have no sharp threshold."
        ]
    if posterior.verdict == "below" and gain.upper is not None and gain.upper < 0.0:
        return ["Yet this discussion lost against the vote, which the rates do not explain."]
    return []


def withholding_set(data: SettingData) -> float | None:
    """The withholding rate that a setting's intervention sets, if it sets one."""
    name = data.setting["intervention"]
    return INTERVENTIONS[name].withholding if name in INTERVENTIONS else None


def _row_reasons(data: SettingData) -> list[str]:
    """What a reader must know about the rows behind the numbers."""
    out = []
    dropped = sum(data.rows.dropped.values())
    if dropped:
        worst = max(data.rows.dropped, key=lambda k: data.rows.dropped[k])
        out.append(
            f"{dropped} of {data.rows.expected} rows could not be used, most often: {worst.replace('_', ' ')} "
            f"({data.rows.dropped[worst]})."
        )
    if len(data.tasks) == 1:
        out.append("One task only: nothing is known about how tasks differ.")
    if (set_to := withholding_set(data)) is not None:
        out.append(
            f"The intervention {data.setting['intervention']} set withholding to {set_to:g}; the rates that are read "
            "describe the rows of this arm, not what the agents would do."
        )
    if data.undefined:
        out.append(f"{sum(data.undefined.values())} of {data.discussions} discussions have no final verdict.")
    return out
