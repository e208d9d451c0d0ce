"""Full profile, hidden before, hidden after: what a discussion gains, and what is missing to the ceiling.

Three conditions of the same tasks: *full*, the independent votes where every agent holds every fact; *before*, the
independent votes where facts are dealt out; *after*, the final public answers of the same discussions. The collective
gain is after - before, the gap to the ceiling after - full. Each is scored in two ways, side by side:

- ``average``: share of the agents that are correct;
- ``majority``: is the strict plurality of the agents correct; a tie is incorrect.

An answer that is missing is left out of both and counted apart.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from abilene.analysis._ceiling import Setting, ceiling_of, check_held, parts_of, rows_of, settings_of
from abilene.analysis._shares import Scores, Value, accuracy, gain, gap, verdict_gain
from abilene.errors import UsageError
from abilene.records._cells import KEY_FINE, Cells, build
from abilene.records._seen import Tally, tally
from abilene.records.loaded import Notes
from abilene.records.schema import SETTING_PARTS, is_simulated
from abilene.seeds import child_rng, child_seed

SCHEMA = 1
SCORINGS = ("average", "majority")
CONDITIONS = ("full", "before", "after")
_NO_CEILING = "No record of the full profile: there is no ceiling, and no gap to it."

#: How errors name the two records.
NAMES = ("The record of the full profile", "The record of the hidden profile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The three conditions under one scoring, with gain (after - before) and gap (after - full)."""

    full: Value
    before: Value
    after: Value
    gain: Value
    gap: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What one condition lacks.

    Attributes
    ----------
    answers, asked : int
        Answers missing, of how many agents in all discussions with an answer key.
    unscored : int
        Discussions without any answer; they have no score.
    no_key : int
        Discussions of tasks without one answer key; they are left out altogether.
    ties : int
        Discussions whose plurality is tied, incorrect under ``majority``.
    """

    answers: int = 0
    asked: int = 0
    unscored: int = 0
    no_key: int = 0
    ties: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The result of `conditions`.

    Attributes
    ----------
    setting : dict
        Of the hidden condition, its parts by name.
    simulated : bool
        Whether simulated agents took part.
    average, majority : Scored
        The two scorings.
    missing : dict
        By condition.
    reasons : tuple of str
        What a reader must know about what was left out.
    """

    setting: dict[str, str | None]
    simulated: bool
    average: Scored
    majority: Scored
    missing: dict[str, Missing]
    reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; what is not known is null, with a reason."""
        return {
            "schema": SCHEMA,
            "setting": dict(self.setting),
            "simulated": self.simulated,
            "scoring": {name: asdict(getattr(self, name)) for name in SCORINGS},
            "missing": {name: asdict(m) for name, m in self.missing.items()},
            "reasons": list(self.reasons),
        }


@dataclass(slots=True)
class _Votes:
    """Scores of one condition, by discussion."""

    average: Scores = field(default_factory=dict)  # correct, answered
    majority: Scores = field(default_factory=dict)  # 0 or 1, of 1
    truth: dict[str, str] = field(default_factory=dict)
    missing: Missing = field(default_factory=Missing)


def conditions(
    full: pl.DataFrame | None,
    hidden: pl.DataFrame,
    *,
    seed: int = 0,
    bootstraps: int = 2000,
    names: tuple[str, str] = NAMES,
) -> Conditions:
    """Accuracy in the three conditions, the gain and the gap, by both scorings.

    Parameters
    ----------
    full : polars.DataFrame, optional
        Record of the full profile (schema v1). Only its round 0 enters. Without it there is no ceiling and no gap.
    hidden : polars.DataFrame
        Record of the hidden profile: round 0, and the last round of its discussions. Structured and open discussions
        alike.
    seed : int
        Root of the resampling.
    bootstraps : int
        Resamplings of the tasks.
    names : (str, str)
        How errors name the two, such as their paths.

    Returns
    -------
    Conditions

    Raises
    ------
    UsageError
        The hidden record holds no setting or several (see `conditions_by_setting`), a record is of the other
        condition, or the two belong to different benchmarks, models, reasoning, simulated agents or teams.

    Notes
    -----
    A record is of the full profile where the column `setting` says "full profile" (parts of it are joined by "; "),
    as in the logs of ``abilene run --condition full``.

    A condition's accuracy is the mean over its discussions. The gain pairs the two ends of each discussion, and tasks
    are resampled whole. The gap pairs tasks: for each task that both records hold, the mean over its hidden
    discussions minus the mean over its full ones. Where a task occurs more than once its discussions are one unit.

    Examples
    --------
    >>> from abilene.records.schema import Row, frame
    >>> def rows(t, answers):
    ...     return [Row(task="t", round=t, agent=str(i), truth="x", private=a, public=a) for i, a in enumerate(answers)]
    >>> full = frame(rows(0, "xxx"), {"setting": "full profile"})
    >>> found = conditions(full, frame(rows(0, "yyx") + rows(1, "xxy"), {}))
    >>> round(found.average.gain.mean, 3), found.majority.gain.mean, found.majority.gap.mean
    (0.333, 1.0, 0.0)
    """
    held = settings_of(hidden)
    if len(held) != 1:
        raise UsageError(
            f"{names[1]} must hold one setting, and holds {len(held) or 'none'}. "
            "Filter it by its setting first, or use conditions_by_setting."
        )
    return conditions_by_setting(full, hidden, seed=seed, bootstraps=bootstraps, names=names)[0]


def conditions_by_setting(
    full: pl.DataFrame | None,
    hidden: pl.DataFrame,
    *,
    seed: int = 0,
    bootstraps: int = 2000,
    names: tuple[str, str] = NAMES,
) -> tuple[Conditions, ...]:
    """`conditions` of every setting of a hidden record, such as a sweep over depths.

    Parameters
    ----------
    full, hidden, seed, bootstraps, names
        See `conditions`. The full record may hold one setting, which then serves every hidden one, or several: each
        hidden setting is set against the one of the same agents and teams.

    Returns
    -------
    tuple of Conditions
        In the sorted order of the settings.

    Raises
    ------
    UsageError
        See `conditions`.

    Examples
    --------
    >>> from abilene.records.schema import Row, frame
    >>> def rows(t, answers):
    ...     return [Row(task="t", round=t, agent=str(i), truth="x", private=a, public=a) for i, a in enumerate(answers)]
    >>> once = frame(rows(0, "yyx") + rows(1, "xyy"), {"setting": "1 rounds"})
    >>> twice = frame(rows(0, "yyx") + rows(1, "xyy") + rows(2, "xxx"), {"setting": "2 rounds"})
    >>> for found in conditions_by_setting(None, pl.concat([twice, once])):
    ...     print(found.setting["setting"], found.majority.gain.mean)
    1 rounds 0.0
    2 rounds 1.0
    """
    settings = settings_of(hidden)
    ceilings = None if full is None else [(s, rows_of(full, s)) for s in settings_of(full)]
    check_held(None if ceilings is None else [s for s, _ in ceilings], settings, names)
    out = []
    for setting in settings:
        mine = rows_of(hidden, setting)
        ceiling = None if ceilings is None else ceiling_of(ceilings, setting, mine, names)
        found = _compare(ceiling, setting, mine, seed, bootstraps)
        if full is None:
            found = replace(found, reasons=(_NO_CEILING, *found.reasons))
        out.append(found)
    return tuple(out)


def ends(record: pl.DataFrame, setting: Setting, *, seed: int = 0, bootstraps: int = 2000) -> Conditions:
    """The two ends of one setting's discussions, without a ceiling; also of a full profile, and of votes alone.

    Parameters
    ----------
    record : polars.DataFrame
        Schema v1; rows of other settings do no harm.
    setting : dict
        Its parts.
    seed, bootstraps : int
        See `conditions`.
    """
    found = _compare(None, setting, rows_of(record, setting), seed, bootstraps)
    if rows_of(record, setting)["round"].max() == 0:
        before = {"before": found.missing["before"]}
        found = replace(found, missing=before, reasons=tuple(_told(before)))
    return found


def held_in_text(setting: Setting) -> bool:
    """Whether a setting's discussions were open ones, which have votes at their two ends only."""
    return any(part.startswith("open discussion of ") for part in parts_of(setting))


def _compare(
    full: pl.DataFrame | None, setting: Setting, hidden: pl.DataFrame, seed: int, bootstraps: int
) -> Conditions:
    """The three conditions of one setting; whether they can be compared is settled."""
    reasons: list[str] = []
    before, after = _votes(hidden)
    ceiling = _Votes()
    if full is not None:
        ceiling = _votes(full)[0]
        differ = {
            t for t in ceiling.truth.keys() & before.truth.keys() if ceiling.truth[t] != before.truth[t]
        }
        if differ:
            reasons.append(
                f"{len(differ)} tasks have different answer keys in the two records, such as {min(differ)}; they are "
                "left out of the gap."
            )
        only = len(ceiling.truth.keys() ^ before.truth.keys())
        if only:
            reasons.append(f"{only} tasks are in one of the two records only; they are left out of the gap.")
    else:
        differ = set()
    own_seed = child_seed(seed, "setting", *(str(setting[part]) for part in SETTING_PARTS))
    scored = {}
    for name in SCORINGS:
        scores: list[Scores] = [getattr(v, name) for v in (ceiling, before, after)]
        keep = {k: v for k, v in scores[0].items() if k[0] not in differ}
        rng = (child_rng(seed, "conditions", name, what) for what in (*CONDITIONS, "gain", "gap"))
        scored[name] = Scored(
            full=accuracy(scores[0], next(rng), bootstraps, given=full is not None),
            before=accuracy(scores[1], next(rng), bootstraps),
            after=accuracy(scores[2], next(rng), bootstraps),
            gain=gain(scores[1], scores[2], next(rng), bootstraps)
            if name == "average"
            else verdict_gain(scores[1], scores[2], own_seed, bootstraps),
            gap=gap(keep, scores[2], next(rng), bootstraps, given=full is not None),
        )
    missing = {name: v.missing for name, v in zip(CONDITIONS, (ceiling, before, after), strict=True)}
    if full is None:
        del missing["full"]
    reasons += _told(missing)
    frames = [hidden] if full is None else [full, hidden]
    models = {m for f in frames for column in ("model", "agent_model") for m in f[column].unique().to_list()}
    return Conditions(
        setting=setting,
        simulated=any(map(is_simulated, models)),
        average=scored["average"],
        majority=scored["majority"],
        missing=missing,
        reasons=tuple(reasons),
    )


# Scores ---------------------------------------------------------------------------------------------------


def _votes(record: pl.DataFrame) -> tuple[_Votes, _Votes]:
    """Scores of round 0 and of the last round. The answer key is settled as in `abilene.records.derive`."""
    cells = build(record, Notes("record"))
    counted = tally(cells)
    return _round(cells, counted, last=False), _round(cells, counted, last=True)


def _round(cells: Cells, counted: Tally, *, last: bool) -> _Votes:
    t = cells.group_rounds if last else np.zeros_like(cells.group_rounds)
    plurality, some = counted.plurality(counted.block_of_group + t)
    truth, fine = cells.unit_truth[cells.group_unit], cells.unit_key[cells.group_unit] == KEY_FINE
    here = cells.round == t[cells.group]
    groups, right = cells.group[here], cells.public[here] == truth[cells.group[here]]
    answered = np.bincount(groups, weights=cells.public[here] >= 0, minlength=fine.size).astype(int)
    correct = np.bincount(groups, weights=right, minlength=fine.size).astype(int)
    held = (t > 0) if last else np.ones_like(fine)  # without a discussion there is no after
    out = _Votes()
    for g in np.flatnonzero(fine):
        name = cells.task_names[cells.unit_task[cells.group_unit[g]]]
        out.truth[name] = cells.answers[truth[g]]
        if held[g] and some[g]:
            key = (name, int(cells.group_epoch[g]))
            out.average[key] = (int(correct[g]), int(answered[g]))
            out.majority[key] = (int(plurality[g] == truth[g]), 1)
    asked, scored = fine & held, fine & held & some
    out.missing = Missing(
        answers=int((cells.group_size - answered)[asked].sum()),
        asked=int(cells.group_size[asked].sum()),
        unscored=int((fine & ~scored).sum()),
        no_key=int((~fine).sum()),
        ties=int((scored & (plurality < 0)).sum()),
    )
    return out


def _told(missing: dict[str, Missing]) -> list[str]:
    out = []
    for name, m in missing.items():
        if m.answers:
            out.append(f"{name}: {m.answers} of {m.asked} answers are missing and count neither way.")
        if m.unscored:
            out.append(f"{name}: {m.unscored} discussions have no answer at all and no score.")
        if m.no_key:
            out.append(f"{name}: {m.no_key} discussions have no single answer key and are left out.")
    return out


__all__ = [
    "Conditions",
    "Missing",
    "Scored",
    "Value",
    "conditions",
    "conditions_by_setting",
    "ends",
    "held_in_text",
]
