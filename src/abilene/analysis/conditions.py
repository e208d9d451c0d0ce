"""Full profile, hidden before, hidden after: what a discussion gains, and what is missing to the ceiling.

Three conditions of the same tasks: *full*, the independent votes where every agent holds every fact; *before*, the
independent votes where facts are dealt out; *after*, the final public answers of the same discussions. The collective
gain is after - before, the gap to the ceiling after - full. Each is scored in two ways, side by side:

- ``average``: share of the agents that are correct;
- ``majority``: is the strict plurality of the agents correct; a tie is incorrect.

An answer that is missing is left out of both and counted apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil, floor, lcm
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from abilene.analysis.gain import exact_p_value, paired_gain, paired_score, wilson
from abilene.errors import UsageError
from abilene.records._cells import KEY_FINE, Cells, build
from abilene.records._seen import Tally, tally
from abilene.records.loaded import Notes
from abilene.records.schema import SETTING_PARTS, is_simulated
from abilene.seeds import child_rng, child_seed

SCHEMA = 1
_FINEST = 5040
SCORINGS = ("average", "majority")
CONDITIONS = ("full", "before", "after")

#: How errors name the two records.
NAMES = ("The record of the full profile", "The record of the hidden profile")
#: Part of a setting's label where every agent holds every note, as `abilene.evals.plan` writes it.
FULL_PROFILE = "full profile"
# Parts of the label that say how discussions go on after round 0, the only one of the full profile that is used.
_HELD = re.compile(r"\d+ rounds|open discussion of \d+ rounds(, stopping early)?")

Floats = NDArray[np.float64]
Setting = dict[str, str | None]
Key = tuple[str, int]  # task and epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An accuracy in [0, 1], or a difference of two in [-1, 1].

    Attributes
    ----------
    mean, lower, upper : float or None
        Mean and 95 % interval; None where not known, with the `reason`.
    interval : str or None
        ``bootstrap`` (tasks resampled), or ``score`` where all tasks are alike and resampling would claim certainty:
        Wilson's interval of an accuracy, Tango's of a difference, for as many trials as there are tasks.
    p_value : float or None
        Of a difference: exact two-sided test of none, under independent signs of the tasks' net differences.
    n, tasks : int
        Discussions (of a gap: tasks) and tasks behind the mean.
    reason : str or None
        Why a number is missing.
    """

    mean: float | None = None
    lower: float | None = None
    upper: float | None = None
    interval: str | None = None
    p_value: float | None = None
    n: int = 0
    tasks: int = 0
    reason: str | None = None


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

    average: dict[Key, tuple[int, int]] = field(default_factory=dict)  # correct, answered
    majority: dict[Key, tuple[int, int]] = field(default_factory=dict)  # 0 or 1, of 1
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
    held = _settings(hidden)
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
    settings = _settings(hidden)
    ceilings = None if full is None else [(s, _of(full, s)) for s in _settings(full)]
    _check_held(None if ceilings is None else [s for s, _ in ceilings], settings, names)
    out = []
    for setting in settings:
        mine = _of(hidden, setting)
        ceiling = None if ceilings is None else _ceiling(ceilings, setting, mine, names)
        out.append(_compare(ceiling, setting, mine, seed, bootstraps))
    return tuple(out)


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
        reasons.append("No record of the full profile: there is no ceiling, and no gap to it.")
    own_seed = child_seed(seed, "setting", *(str(setting[part]) for part in SETTING_PARTS))
    scored = {}
    for name in SCORINGS:
        scores = [getattr(v, name) for v in (ceiling, before, after)]
        keep = {k: v for k, v in scores[0].items() if k[0] not in differ}
        rng = (child_rng(seed, "conditions", name, what) for what in (*CONDITIONS, "gain", "gap"))
        scored[name] = Scored(
            full=_accuracy(scores[0], next(rng), bootstraps, given=full is not None),
            before=_accuracy(scores[1], next(rng), bootstraps),
            after=_accuracy(scores[2], next(rng), bootstraps),
            gain=_gain(scores[1], scores[2], next(rng), bootstraps)
            if name == "average"
            else _verdict_gain(scores[1], scores[2], own_seed, bootstraps),
            gap=_gap(keep, scores[2], next(rng), bootstraps, given=full is not None),
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


# Which records belong together ----------------------------------------------------------------------------


def _settings(record: pl.DataFrame) -> list[Setting]:
    return list(record.select(SETTING_PARTS).unique().sort(SETTING_PARTS).iter_rows(named=True))


def _of(record: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    return record.filter(pl.col(part).eq_missing(pl.lit(setting[part], pl.String)) for part in SETTING_PARTS)


def _parts(setting: Setting) -> list[str]:
    return [part for part in (setting["setting"] or "").split("; ") if part]


def _agents(setting: Setting) -> str:
    """What the label says about who discusses what, such as the rates of simulated agents."""
    return "; ".join(p for p in _parts(setting) if p != FULL_PROFILE and not _HELD.fullmatch(p))


def _check_held(full: Sequence[Setting] | None, hidden: Sequence[Setting], names: tuple[str, str]) -> None:
    """Refuse records of the other condition: every number would be about something else than its name says."""
    for name, settings in zip(names, (full, hidden), strict=True):
        if settings is not None and not settings:
            raise UsageError(f"{name} holds no rows. Give the log of a run.")
    wrong = full is not None and any(FULL_PROFILE not in _parts(s) for s in full)
    if any(FULL_PROFILE in _parts(s) for s in hidden):
        if wrong and full is not None and not any(FULL_PROFILE in _parts(s) for s in full):
            raise UsageError(
                f"The two are swapped: {names[1]} was run with --condition full, and {names[0]} with --condition "
                "hidden. Give the run with --condition full as --full."
            )
        raise UsageError(
            f"{names[1]} was run with --condition full; HIDDEN needs a run with --condition hidden (the default)."
        )
    if wrong:
        raise UsageError(
            f"{names[0]} was run with --condition hidden; --full needs a run with --condition full. "
            f"(A table of your own says so with {FULL_PROFILE!r} in its column setting.)"
        )


def _ceiling(
    full: Sequence[tuple[Setting, pl.DataFrame]],
    setting: Setting,
    hidden: pl.DataFrame,
    names: tuple[str, str],
) -> pl.DataFrame:
    """The full record of the same agents."""
    why = [_differ(s, record, setting, hidden, names) for s, record in full]
    same = [f for f, found in zip(full, why, strict=True) if found is None]
    if not same:
        raise UsageError(max(found for found in why if found is not None)[1])
    if len({_first_votes(record) for _, record in same}) > 1:
        raise UsageError(
            f"{names[0]} holds {len(same)} settings of these agents, with different independent answers. "
            "Filter it by its setting first, or give one run."
        )
    return same[0][1]  # round 0 carries no instruction and no intervention: these are the same answers


def _differ(
    full: Setting, ceiling: pl.DataFrame, setting: Setting, hidden: pl.DataFrame, names: tuple[str, str]
) -> tuple[int, str] | None:
    """Why a full record is no ceiling of a hidden one: how far the two agree, and an error's text."""
    pairs = [(part, full[part], setting[part]) for part in ("benchmark", "model", "reasoning")]
    pairs.append(("agents", _agents(full), _agents(setting)))
    for i, (part, there, here) in enumerate(pairs):
        if there != here:
            return i, _not_same(part, there, here)
    if _without_sizes(full) != _without_sizes(setting):
        return len(pairs), _not_same("team", full["team"], setting["team"])
    if full["team"] == setting["team"]:
        return None
    # The label names the sizes of all teams, which can differ because other tasks were drawn.
    sizes, own = _sizes(ceiling), _sizes(hidden)
    if other := sorted(t for t in sizes.keys() & own.keys() if sizes[t] != own[t]):
        t = other[0]
        return len(pairs) + 1, (
            f"Task {t!r} has a team of {own[t]} in {names[1]} and of {sizes[t]} in {names[0]}. "
            "Run both with the same --team-size."
        )
    if absent := sorted(own.keys() - sizes.keys()):
        return len(pairs) + 2, (
            f"The full profile has team {full['team'] or 'not named'!r}, the hidden one "
            f"{setting['team'] or 'not named'!r}, and {len(absent)} of {len(own)} tasks of {names[1]} are not in "
            f"{names[0]}, such as {absent[0]!r}. Run both with the same --tasks, --seed and --team-size."
        )
    return None


def _not_same(part: str, there: str | None, here: str | None) -> str:
    todo = " Run both with the same -M and -B." if part == "agents" else ""
    return (
        f"The full profile has {part} {there or 'not named'!r}, the hidden one {here or 'not named'!r}. "
        f"Only the same agents on the same benchmark can be compared.{todo}"
    )


def _without_sizes(setting: Setting) -> str:
    """What else the team's label says, such as personas."""
    return re.sub(r"^N=\d+(,\d+)*", "", setting["team"] or "")


def _sizes(record: pl.DataFrame) -> dict[str, int]:
    """Agents of each task."""
    found = record.filter(pl.col("round") == 0).group_by("task").agg(pl.col("agent").n_unique())
    return dict(found.iter_rows())


def _first_votes(record: pl.DataFrame) -> tuple[tuple[object, ...], ...]:
    columns = ("task", "epoch", "agent", "truth", "public")
    return tuple(record.filter(pl.col("round") == 0).select(columns).sort(columns).iter_rows())


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


# Means and intervals --------------------------------------------------------------------------------------


def _accuracy(
    scores: dict[Key, tuple[int, int]], rng: np.random.Generator, bootstraps: int, *, given: bool = True
) -> Value:
    if not given:
        return Value(reason="no record of the full profile")
    keys = sorted(scores)
    values = np.array([scores[k][0] / scores[k][1] for k in keys])
    value, sums, counts = _mean(values, [k[0] for k in keys], "no discussion has an answer")
    if value.tasks < 2:
        return value
    limits, how = _bootstrap(sums, counts, rng, bootstraps), "bootstrap"
    if limits is None:
        # Between whole numbers of tasks: the wider of the two neighbors' intervals.
        k, n = float(values.mean()) * value.tasks, value.tasks
        low, high = wilson(floor(k + 1e-9), n), wilson(ceil(k - 1e-9), n)
        assert low is not None and high is not None
        limits, how = (low[0], high[1]), "score"
    return replace(value, lower=limits[0], upper=limits[1], interval=how)


def _gain(
    before: dict[Key, tuple[int, int]],
    after: dict[Key, tuple[int, int]],
    rng: np.random.Generator,
    bootstraps: int,
) -> Value:
    keys = sorted(before.keys() & after.keys())
    pairs = [(before[k], after[k]) for k in keys]
    return _difference(pairs, [k[0] for k in keys], rng, bootstraps, "no discussion has both votes")


def _verdict_gain(
    before: dict[Key, tuple[int, int]], after: dict[Key, tuple[int, int]], seed: int, bootstraps: int
) -> Value:
    """Gain of the majority, the same numbers as in `abilene.analysis.estimate`."""
    keys = sorted(before.keys() & after.keys())
    won, task = [[bool(scores[k][0]) for k in keys] for scores in (before, after)], [k[0] for k in keys]
    gain = paired_gain(won[0], won[1], cluster=task, seed=seed, bootstraps=bootstraps)
    return Value(
        mean=gain.mean,
        lower=gain.lower,
        upper=gain.upper,
        interval=gain.interval,
        p_value=gain.p_value,
        n=gain.n,
        tasks=gain.tasks,
        reason=gain.reason if gain.n else "no discussion has both votes",
    )


def _gap(
    full: dict[Key, tuple[int, int]],
    after: dict[Key, tuple[int, int]],
    rng: np.random.Generator,
    bootstraps: int,
    *,
    given: bool,
) -> Value:
    if not given:
        return Value(reason="no record of the full profile")
    above, reached = _by_task(full), _by_task(after)
    tasks = sorted(above.keys() & reached.keys())
    pairs = [(above[t], reached[t]) for t in tasks]
    return _difference(pairs, tasks, rng, bootstraps, "no task has votes in both records")


def _by_task(scores: dict[Key, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Mean over the discussions of each task, as an exact fraction."""
    out: dict[str, list[tuple[int, int]]] = {}
    for (task, _), score in scores.items():
        out.setdefault(task, []).append(score)
    means = {}
    for task, several in out.items():
        whole = lcm(*(n for _, n in several))
        means[task] = (sum(k * (whole // n) for k, n in several), whole * len(several))
    return means


def _difference(
    pairs: Sequence[tuple[tuple[int, int], tuple[int, int]]],
    tasks: Sequence[str],
    rng: np.random.Generator,
    bootstraps: int,
    nothing: str,
) -> Value:
    values = np.array([k1 / n1 - k0 / n0 for (k0, n0), (k1, n1) in pairs])
    value, sums, counts = _mean(values, tasks, nothing)
    if not value.n:
        return value
    # The test counts in parts of a common denominator (a bounded one: large teams can lack any number of answers).
    whole = min(lcm(*(n for pair in pairs for _, n in pair)), _FINEST)
    net = np.rint(sums * whole).astype(np.int64)
    value = replace(value, p_value=exact_p_value(net // max(int(np.gcd.reduce(net)), 1)))
    if value.tasks < 2:
        return value
    limits, how = _bootstrap(sums, counts, rng, bootstraps), "bootstrap"
    if limits is None:
        won, lost = (value.tasks * float(np.maximum(s * values, 0.0).mean()) for s in (1, -1))
        limits, how = paired_score(won, lost, value.tasks), "score"
    return replace(value, lower=limits[0], upper=limits[1], interval=how)


def _mean(values: Floats, tasks: Sequence[str], nothing: str) -> tuple[Value, Floats, Floats]:
    """Mean over discussions, and sums and numbers of discussions by task."""
    if not values.size:
        return Value(reason=nothing), np.zeros(0), np.zeros(0)
    place = np.unique(np.asarray(tasks), return_inverse=True)[1]
    sums, counts = (np.bincount(place, w).astype(np.float64) for w in (values, np.ones(values.size)))
    reason = "one task: nothing is known about how tasks differ" if sums.size == 1 else None
    return Value(mean=float(values.mean()), n=values.size, tasks=sums.size, reason=reason), sums, counts


def _bootstrap(
    sums: Floats, counts: Floats, rng: np.random.Generator, bootstraps: int
) -> tuple[float, float] | None:
    """Percentile interval of the mean over resampled tasks; None where all tasks are alike."""
    if float(np.ptp(sums / counts)) < 1e-12:
        return None
    drawn = rng.multinomial(sums.size, np.full(sums.size, 1.0 / sums.size), size=bootstraps)
    lower, upper = np.quantile((drawn @ sums) / (drawn @ counts), [0.025, 0.975])
    return (float(lower), float(upper)) if upper - lower > 1e-12 else None


__all__ = ["Conditions", "Missing", "Scored", "Value", "conditions", "conditions_by_setting"]
