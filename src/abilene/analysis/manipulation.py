"""Manipulation checks: does a model do what the hidden-profile design assumes of it?

Four questions, each answered per setting from the record: does the independent accuracy reproduce the
designed p = n_inf / N; does an agent pick the candidate with more findings in its view; does it count them
right; does it state answers that are neither its own nor the majority's (off-rule). A model that fails is not
wrong: its rates simply do not mean what the design says they mean.

A statement that is the agent's own private answer of the same round is its own here, also where `derive` counts it
as off-rule because the agent held another answer on entering: a model that follows evidence and says so at once does
what is asked of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from abilene.analysis.gain import wilson
from abilene.records.derive import Derived, SettingData
from abilene.records.schema import SETTING_PARTS

Outcome = Literal["pass", "fail", "undecided", "not applicable"]

#: How far independent accuracy may lie from the designed one.
ACCURACY_TOLERANCE = 0.10
#: Least share of answers for the candidate with more findings in view, and of right counts.
LEAST_SHARE = 0.90
#: Greatest share of statements that are neither the agent's own, before or now, nor the majority's.
MOST_OFF_RULE = 0.10

# Here a single clue is weak by design, so that a model which does not follow it does nothing wrong.
_FOR_INFORMATION = frozenset({"medeinst"})


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one setting.

    Parameters
    ----------
    name : str
        ``independent accuracy at p = ...``, ``picks the favored candidate``, ``counts right``, ``off-rule``.
    outcome : str
        ``fail`` when even the favorable end of the 95 % Wilson interval misses the bound, ``pass`` when the
        share itself keeps it, ``undecided`` in between, ``not applicable`` without rows.
    share : float or None
        Observed share; None without rows.
    lower, upper : float or None
        Its 95 % Wilson interval over agents.
    n : int
        Rows behind it.
    expected : str
        The bound, in words.
    binding : bool
        Whether the outcome counts in `gate`; else it is for information.
    """

    name: str
    outcome: Outcome
    share: float | None
    lower: float | None
    upper: float | None
    n: int
    expected: str
    binding: bool = True


def _check(name: str, k: int, n: int, low: float, high: float, expected: str) -> Check:
    limits = wilson(k, n)
    if limits is None:
        return Check(name, "not applicable", None, None, None, 0, expected)
    lower, upper = limits
    share = k / n
    outcome: Outcome = "undecided"
    if upper < low or lower > high:
        outcome = "fail"
    elif low <= share <= high:
        outcome = "pass"
    return Check(name, outcome, share, lower, upper, n, expected)


def manipulation_checks(record: pl.DataFrame, *, off_rule: int, used: int) -> tuple[Check, ...]:
    """Checks of one setting.

    Parameters
    ----------
    record : polars.DataFrame
        Rows of one setting (schema v1).
    off_rule, used : int
        Off-rule rows but those of the agent's own new answer, and used rows, as `abilene.records.derive` counts
        them.

    Returns
    -------
    tuple of Check
        Empty when the record carries no design (no designed accuracy and no favored option).
    """
    first = record.filter((pl.col("round") == 0) & pl.col("private").is_not_null())
    designed = first.filter(pl.col("designed_accuracy").is_not_null())
    favored = first.filter(pl.col("view_favors").is_not_null())
    if designed.is_empty() and favored.is_empty():
        return ()
    checks = []
    levels = (
        designed.group_by("designed_accuracy")
        .agg((pl.col("private") == pl.col("truth")).sum().alias("k"), pl.len().alias("n"))
        .sort("designed_accuracy")
    )
    for p, k, n in levels.iter_rows():
        # Rounded: .4 - .1 is a little more than .3, and a share of exactly .3 keeps the bound.
        low, high = round(p - ACCURACY_TOLERANCE, 9), round(p + ACCURACY_TOLERANCE, 9)
        checks.append(
            _check(f"independent accuracy at p = {p:g}", k, n, low, high, f"{p:g} ± {ACCURACY_TOLERANCE:g}")
        )
    picked = int((favored["private"] == favored["view_favors"]).sum())
    at_least = f"at least {LEAST_SHARE:g}"
    checks.append(
        _check("picks the candidate favored in view", picked, favored.height, LEAST_SHARE, 1.0, at_least)
    )
    counted = first["count_correct"].drop_nulls()
    checks.append(_check("counts right", int(counted.sum()), len(counted), LEAST_SHARE, 1.0, at_least))
    checks.append(_off_rule(off_rule, used))
    return tuple(checks)


def _off_rule(off_rule: int, used: int) -> Check:
    return _check("off-rule", off_rule, used, 0.0, MOST_OFF_RULE, f"at most {MOST_OFF_RULE:g}")


def off_rule_check_of(data: SettingData) -> Check:
    """The check that needs no design: statements that are neither the agent's own answer nor the majority's."""
    return _off_rule(data.rows.off_rule - data.rows.off_rule_own, data.rows.used)


def checks_by_setting(record: pl.DataFrame, derived: Derived) -> list[tuple[Check, ...]]:
    """Checks of every setting of a record, in the order of `Derived.settings`.

    On MedEinst, where the one crucial clue is weak against the shared description, those of the design are for
    information: they say whether the clue decides for this model, and a model for which it does not is no failure.
    """
    out = []
    for data in derived.settings:
        mine = record.filter(
            pl.all_horizontal(pl.col(part).eq_missing(pl.lit(data.setting[part])) for part in SETTING_PARTS)
        )
        off_rule = off_rule_check_of(data)
        own = manipulation_checks(
            mine, off_rule=data.rows.off_rule - data.rows.off_rule_own, used=data.rows.used
        )
        if data.setting["benchmark"] in _FOR_INFORMATION:
            own = tuple(c if c == off_rule else replace(c, binding=False) for c in own)
        out.append(own)
    return out


def gate(checks: tuple[Check, ...]) -> Outcome:
    """Verdict over all binding checks: fail if one fails, pass if every applicable one passes, else undecided."""
    outcomes = {c.outcome for c in checks if c.binding} - {"not applicable"}
    if not outcomes:
        return "not applicable"
    if "fail" in outcomes:
        return "fail"
    return "pass" if outcomes == {"pass"} else "undecided"


__all__ = ["Check", "Outcome", "checks_by_setting", "gate", "manipulation_checks", "off_rule_check_of"]
