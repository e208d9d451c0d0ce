"""The one place where counts come from rows: majority, dissent, opportunities, correction rows, verdicts.

For the agent of a row of round t >= 1, with z its private answer after t - 1:

- visible answers: `observed_public` where it is given, else the public answers of round t - 1 of the agents
  in `observed`, else of everybody else in the discussion (setting, task, epoch);
- majority m: their unique plurality, missing ones never counting; a tie is no majority;
- dissent d: the share of the visible answers that differ from z;
- opportunity: there is a majority and m != z; withheld: opportunity and public(t) = m; internalized: withheld
  and private(t) = public(t);
- correction row: not withheld, d > 0 (ties included). Entering correct (z is the answer key) it changed when
  private(t) is not correct; entering wrong, when private(t) is correct;
- off-rule: public(t) is neither z nor m. Such rows stay in the counts. Those that state the private answer of the same
  round (`off_rule_own`) are counted beside: the agent changed its mind and said so.

Expected are all agents of a discussion in rounds 1 to T, T the largest round of the setting. Every expected row
is used, or dropped for the first of `REASONS` that applies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from abilene.records._cells import (
    KEY_CONFLICT,
    KEY_FINE,
    KEY_MISSING,
    KEY_SEVERAL,
    STATUSES,
    Bools,
    Cells,
    Ints,
    build,
)
from abilene.records._seen import Tally, look, tally
from abilene.records.checks import answers_alike, suspicious, without_self
from abilene.records.loaded import Fault, Notes
from abilene.records.schema import SETTING_PARTS, Status

_UNANSWERED = tuple(s for s in STATUSES if s not in (Status.OK, Status.MULTIPLE))

#: Why a row is dropped, in order of precedence.
REASONS: tuple[str, ...] = (
    "row_absent",
    "conflicting_answer_key",
    "ambiguous_answer_key",
    "truth_missing",
    "previous_round_absent",
    "previous_private_missing",
    *(f"public_{s}" for s in _UNANSWERED),
    *(f"private_{s}" for s in _UNANSWERED),
    "private_from_joint",  # this round's or the last one's private answer; see include_joint
    "nothing_seen",  # somebody is observed, but every visible answer is missing
    "changed_without_dissent",  # no visible answer differs, yet the private answer changed: likelihood 0
)

#: Why the verdict of a discussion is undefined, in order of precedence.
UNDEFINED: tuple[str, ...] = (
    "conflicting_answer_key",
    "ambiguous_answer_key",
    "truth_missing",
    "no_discussion_rounds",
    "round0_absent",
    "round0_unanswered",
    "final_round_absent",
    "final_round_unanswered",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of one setting, over used rows."""

    opportunities: int
    withheld: int
    internalized: int
    wrong_rows: int
    wrong_to_correct: int
    correct_rows: int
    correct_to_wrong: int

    def to_dict(self) -> dict[str, int]:
        """JSON-ready."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """What became of the expected rows: expected = used + sum(dropped); off_rule_own is a part of off_rule."""

    expected: int
    used: int
    dropped: dict[str, int]
    off_rule: int
    off_rule_own: int
    ties: int

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "expected": self.expected,
            "used": self.used,
            "dropped": dict(self.dropped),
            "off_rule": self.off_rule,
            "off_rule_own": self.off_rule_own,
            "ties": self.ties,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingData:
    """One setting, ready for inference.

    Attributes
    ----------
    setting : dict
        Its parts by name; None where unknown.
    tasks : tuple of str
        Task ids; arrays by task follow this order.
    rounds : int
        T.
    rows, counts
        See `RowCounts`, `Counts`.
    k_c, n_c, k_a : ndarray of int, shape (tasks,)
        Withheld, opportunities, internalized.
    task, enters_correct, dissent, changed : ndarray, shape (correction rows,)
        Index of the task; whether the answer on entering is correct; d in (0, 1]; whether correctness changed.
    discussions : int
        Discussions (task and epoch) of the setting.
    discussion_task : ndarray of int, shape (discussions with both verdicts,)
        Index of their task.
    vote_correct, discussion_correct : ndarray of bool, same shape
        Whether the plurality of round 0, and of round T, is correct; a tie is not.
    undefined : dict
        Discussions without both verdicts, by reason.
    """

    setting: dict[str, str | None]
    tasks: tuple[str, ...]
    rounds: int
    rows: RowCounts
    counts: Counts
    k_c: Ints
    n_c: Ints
    k_a: Ints
    task: Ints
    enters_correct: Bools
    dissent: NDArray[np.float64]
    changed: Bools
    discussions: int
    discussion_task: Ints
    vote_correct: Bools
    discussion_correct: Bools
    undefined: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """All settings of a record, and what was noticed on the way."""

    settings: tuple[SettingData, ...]
    warnings: tuple[Fault, ...] = ()
    faults: tuple[Fault, ...] = ()
    _cells: Cells | None = None
    _rows: _Rows | None = None

    def rows(self) -> pl.DataFrame:
        """One line for each expected discussion row.

        Columns: setting parts, task, epoch, round, agent; majority, dissent, opportunity, withheld,
        internalized, enters_correct, enters_wrong, changed, off_rule, off_rule_own, tie (null where the row is
        dropped);
        correction (does it enter the correction counts); drop_reason (null where it is used).
        """
        if self._cells is None or self._rows is None:
            return pl.DataFrame(schema=_ROW_SCHEMA)
        return _row_frame(self._cells, self._rows)


@dataclass(frozen=True, slots=True)
class _Rows:
    """By expected row."""

    cell: Ints
    reason: Ints  # position in REASONS, -1: used
    majority: Ints
    dissent: NDArray[np.float64]  # 0 where nothing is visible
    opportunity: Bools
    withheld: Bools
    internalized: Bools
    enters_correct: Bools
    changed: Bools
    correction: Bools
    off_rule: Bools
    off_rule_own: Bools
    tie: Bools


_FLAGS = ("opportunity", "withheld", "internalized", "enters_correct")
_LATER = ("changed", "off_rule", "off_rule_own", "tie", "correction")
_ROW_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys((*SETTING_PARTS, "task"), pl.String),
    "epoch": pl.Int64,
    "round": pl.Int64,
    "agent": pl.String,
    "majority": pl.String,
    "dissent": pl.Float64,
    **dict.fromkeys((*_FLAGS, "enters_wrong", *_LATER), pl.Boolean),
    "drop_reason": pl.String,
}


def derive(record: pl.DataFrame, *, include_joint: bool = False) -> Derived:
    """Counts and arrays of every setting of a record.

    Parameters
    ----------
    record : polars.DataFrame
        Schema v1. Agents and tasks are compared as text, answers exactly. An answer key that no agent gave but
        that equals one given answer up to case, surrounding space and Unicode composition is taken as that
        answer, with a counted warning.
    include_joint : bool
        Whether to use private answers that come from the joint reply.

    Returns
    -------
    Derived
        Settings in the sorted order of their parts. No row is lost: expected = used + dropped.

    Raises
    ------
    InputError
        Round numbers leave absurd gaps.

    Examples
    --------
    >>> from abilene.records.schema import Row, frame
    >>> first = {"0": "x", "1": "y", "2": "y"}
    >>> rows = [Row(task="t", round=0, agent=i, truth="x", private=z, public=z) for i, z in first.items()]
    >>> rows += [Row(task="t", round=1, agent=i, truth="x", private="x", public="y") for i in first]
    >>> data = derive(frame(rows, {})).settings[0]
    >>> data.counts.opportunities, data.counts.withheld, data.counts.internalized
    (1, 1, 0)
    >>> data.rows.used, data.counts.wrong_to_correct, data.vote_correct.tolist()
    (3, 2, [False])
    """
    if record.is_empty():
        return Derived(settings=())
    notes = Notes("record")
    record = without_self(record, notes)
    answers_alike(record, notes)
    suspicious(record, notes)
    cells = build(record, notes)
    counted = tally(cells)
    rows = _rows(record, cells, counted, include_joint, notes)
    return Derived(
        settings=_settings(cells, counted, rows),
        warnings=tuple(notes.warnings),
        faults=tuple(notes.faults),
        _cells=cells,
        _rows=rows,
    )


def _rows(record: pl.DataFrame, cells: Cells, counted: Tally, include_joint: bool, notes: Notes) -> _Rows:
    cell = np.flatnonzero(cells.round > 0)
    group = cells.group[cell]
    before = cell - cells.group_size[group]
    z, z_now, said = cells.private[before], cells.private[cell], cells.public[cell]
    unit = cells.group_unit[group]
    truth, key = cells.unit_truth[unit], cells.unit_key[unit]

    present = cells.row[cell] >= 0
    seen = look(record, cells, counted, cell[present], notes)
    visible, differing = np.zeros(cell.size, np.int64), np.zeros(cell.size, np.int64)
    majority, observes = np.full(cell.size, -1, np.int64), np.zeros(cell.size, dtype=np.bool_)
    visible[present], differing[present] = seen.visible, seen.differing
    majority[present], observes[present] = seen.majority, seen.observes
    dissent = differing / np.maximum(visible, 1)

    drops: dict[str, Bools] = {
        "row_absent": ~present,
        "conflicting_answer_key": key == KEY_CONFLICT,
        "ambiguous_answer_key": key == KEY_SEVERAL,
        "truth_missing": key == KEY_MISSING,
        "previous_round_absent": cells.row[before] < 0,
        "previous_private_missing": z < 0,
        "private_from_joint": (cells.joint[cell] | cells.joint[before]) & (not include_joint),
        "nothing_seen": observes & (visible == 0),
        "changed_without_dissent": (differing == 0) & (z_now != z),
    }
    for s in _UNANSWERED:
        code = STATUSES.index(s)
        drops[f"public_{s}"] = (said < 0) & (cells.public_status[cell] == code)
        drops[f"private_{s}"] = (z_now < 0) & (cells.private_status[cell] == code)
    reason = np.full(cell.size, -1, dtype=np.int64)
    for i in reversed(range(len(REASONS))):
        reason[drops[REASONS[i]]] = i

    used = reason < 0
    opportunity = used & (majority >= 0) & (majority != z)
    withheld = opportunity & (said == majority)
    enters_correct = used & (z == truth)
    return _Rows(
        cell=cell,
        reason=reason,
        majority=majority,
        dissent=dissent,
        opportunity=opportunity,
        withheld=withheld,
        internalized=withheld & (z_now == said),
        enters_correct=enters_correct,
        changed=used & (np.where(enters_correct, z_now != truth, z_now == truth)),
        correction=used & ~withheld & (differing > 0),
        off_rule=used & (said != z) & (said != majority),
        off_rule_own=used & (said != z) & (said != majority) & (said == z_now),
        tie=used & (majority < 0) & (visible > 0),
    )


def _settings(cells: Cells, counted: Tally, rows: _Rows) -> tuple[SettingData, ...]:
    # Cells are in order of setting, so each setting is a slice of everything.
    n = len(cells.settings)
    edges = np.arange(n + 1)
    row_unit = cells.group_unit[cells.group[rows.cell]]
    row_cut = np.searchsorted(cells.unit_setting[row_unit], edges)
    unit_cut = np.searchsorted(cells.unit_setting, edges)
    group_cut = np.searchsorted(cells.group_setting, edges)
    vote, final, undefined = _verdicts(cells, counted)
    out = []
    for s in range(n):
        r, u, g = (slice(cut[s], cut[s + 1]) for cut in (row_cut, unit_cut, group_cut))
        first, tasks = int(unit_cut[s]), int(unit_cut[s + 1] - unit_cut[s])
        task = row_unit[r] - first

        def by_task(flag: Bools, task: Ints = task, tasks: int = tasks) -> Ints:
            return np.bincount(task[flag], minlength=tasks).astype(np.int64)

        withheld, opportunity, correction = rows.withheld[r], rows.opportunity[r], rows.correction[r]
        right, changed, reason = rows.enters_correct[r], rows.changed[r], rows.reason[r]
        dropped = np.bincount(reason[reason >= 0], minlength=len(REASONS))
        known = undefined[g] < 0
        missing = np.bincount(undefined[g][~known], minlength=len(UNDEFINED))
        out.append(
            SettingData(
                setting=cells.settings[s],
                tasks=tuple(cells.task_names[t] for t in cells.unit_task[u]),
                rounds=int(cells.group_rounds[g][0]),
                rows=RowCounts(
                    expected=reason.size,
                    used=int((reason < 0).sum()),
                    dropped={REASONS[i]: int(c) for i, c in enumerate(dropped) if c},
                    off_rule=int(rows.off_rule[r].sum()),
                    off_rule_own=int(rows.off_rule_own[r].sum()),
                    ties=int(rows.tie[r].sum()),
                ),
                counts=Counts(
                    opportunities=int(opportunity.sum()),
                    withheld=int(withheld.sum()),
                    internalized=int(rows.internalized[r].sum()),
                    wrong_rows=int((correction & ~right).sum()),
                    wrong_to_correct=int((correction & ~right & changed).sum()),
                    correct_rows=int((correction & right).sum()),
                    correct_to_wrong=int((correction & right & changed).sum()),
                ),
                k_c=by_task(withheld),
                n_c=by_task(opportunity),
                k_a=by_task(rows.internalized[r]),
                task=task[correction],
                enters_correct=right[correction],
                dissent=rows.dissent[r][correction],
                changed=changed[correction],
                discussions=int(known.size),
                discussion_task=(cells.group_unit[g] - first)[known],
                vote_correct=vote[g][known],
                discussion_correct=final[g][known],
                undefined={UNDEFINED[i]: int(c) for i, c in enumerate(missing) if c},
            )
        )
    return tuple(out)


def _verdicts(cells: Cells, counted: Tally) -> tuple[Bools, Bools, Ints]:
    """By discussion: correctness of the plurality of round 0 and of round T, and why one is undefined (-1)."""
    truth, key = cells.unit_truth[cells.group_unit], cells.unit_key[cells.group_unit]
    first = counted.block_of_group
    last = first + cells.group_rounds
    before, spoke = counted.plurality(first)
    after, spoke_last = counted.plurality(last)
    block = first[cells.group] + cells.round
    there = np.bincount(block[cells.row >= 0], minlength=counted.total.size) > 0
    why = {
        "conflicting_answer_key": key == KEY_CONFLICT,
        "ambiguous_answer_key": key == KEY_SEVERAL,
        "truth_missing": key == KEY_MISSING,
        "no_discussion_rounds": cells.group_rounds == 0,
        "round0_absent": ~there[first],
        "round0_unanswered": ~spoke,
        "final_round_absent": ~there[last],
        "final_round_unanswered": ~spoke_last,
    }
    reason = np.full(truth.size, -1, dtype=np.int64)
    for i in reversed(range(len(UNDEFINED))):
        reason[why[UNDEFINED[i]]] = i
    fine = key == KEY_FINE
    return fine & (before == truth), fine & (after == truth), reason


def _row_frame(cells: Cells, rows: _Rows) -> pl.DataFrame:
    group = cells.group[rows.cell]
    used = pl.Series(rows.reason < 0)

    def names(texts: list[str], code: Ints) -> pl.Series:
        at = pl.Series(code).set(pl.Series(code < 0), None)
        return pl.Series(texts, dtype=pl.String).gather(at)

    setting = cells.group_setting[group]
    data: dict[str, pl.Series] = {
        p: pl.Series([s[p] for s in cells.settings], dtype=pl.String).gather(setting) for p in SETTING_PARTS
    }
    data["task"] = names(cells.task_names, cells.unit_task[cells.group_unit[group]])
    data["epoch"] = pl.Series(cells.group_epoch[group])
    data["round"] = pl.Series(cells.round[rows.cell])
    data["agent"] = names(cells.agent_names, cells.agent[rows.cell])
    data["majority"] = names(cells.answers, rows.majority)
    data["dissent"] = pl.Series(rows.dissent)
    for flag in (*_FLAGS, *_LATER):
        data[flag] = pl.Series(getattr(rows, flag))
    data["enters_wrong"] = ~data["enters_correct"]
    df = pl.DataFrame(data)
    measured = ("majority", "dissent", *_FLAGS, "enters_wrong", *_LATER)
    reason = names(list(REASONS), rows.reason)
    return (
        df.with_columns(pl.when(used).then(pl.col(c)).alias(c) for c in measured)
        .with_columns(reason.alias("drop_reason"))
        .select(*_ROW_SCHEMA)
    )
