"""Scores of single benchmarks: strict and lenient accuracy of free answers, and the Bias Trap Rate of MedEinst.

Every score is a share of discussions (a task held once), at three stages:

- ``vote``: the plurality of the independent answers (round 0);
- ``discussion``: the plurality of the statements of the last round;
- ``beliefs``: the plurality of the private answers of the last round.

A tie is incorrect, and no trap either. A discussion in which nobody answered at a stage is left out there, and
counted. Answers that are missing are left out of the plurality.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from abilene.analysis.gain import wilson
from abilene.errors import UsageError
from abilene.records.schema import SETTING_PARTS, Source
from abilene.tasks.freetext import canonical, lenient_match
from abilene.tasks.task import Task
from abilene.team.replies import read_line
from abilene.theory.kernel import plurality

Stage = Literal["vote", "discussion", "beliefs"]
STAGES: tuple[Stage, ...] = ("vote", "discussion", "beliefs")
Row = Mapping[str, Any]

SET = (
    "an intervention set the statements: the raw reply is what the agent would have said, not what was stated, so "
    "that the stated words are not in the record"
)
_COLUMNS = (
    *SETTING_PARTS, "task", "epoch", "round", "agent", "truth", "private", "private_source", "public",
    "public_set", "public_raw", "private_raw",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Proportion:
    """A share with its Wilson 95 % interval; all None where n = 0.

    Parameters
    ----------
    k, n : int
        Cases that count, and all.
    """

    k: int
    n: int

    @property
    def share(self) -> float | None:
        """k / n."""
        return self.k / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval."""
        return wilson(self.k, self.n)

    def to_json(self) -> dict[str, float | int | None]:
        """JSON-ready."""
        lower, upper = self.interval or (None, None)
        return {"k": self.k, "n": self.n, "share": self.share, "lower": lower, "upper": upper}


# Free text ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeTextScore:
    """Strict and lenient accuracy of one setting at one stage, side by side.

    Attributes
    ----------
    setting : dict
        Its parts.
    stage : str
        vote, discussion or beliefs.
    strict : Proportion
        Exact match of the plurality, best over the aliases: the benchmark's own score, from the record alone.
    lenient : Proportion
        The same with `abilene.tasks.freetext.lenient_match`, for the plurality too: two answers that say the same in
        another form are one opinion. Only of discussions in which every answer's own words are known.
    strict_there : Proportion
        Strict accuracy of the discussions that `lenient` rests on; compare `lenient` with this one.
    unanswered : int
        Discussions without any answer at this stage.
    without_words : int
        Discussions with answers whose words are not in the record; `strict` only.
    reason : str or None
        Why words are not in the record, where an intervention is the cause.
    """

    setting: dict[str, str | None]
    stage: Stage
    strict: Proportion
    lenient: Proportion
    strict_there: Proportion
    unanswered: int
    without_words: int
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "setting": self.setting,
            "stage": self.stage,
            "strict": self.strict.to_json(),
            "lenient": self.lenient.to_json(),
            "strict_there": self.strict_there.to_json(),
            "unanswered": self.unanswered,
            "without_words": self.without_words,
            "reason": self.reason,
        }


def free_text_scores(record: pl.DataFrame, tasks: Iterable[Task]) -> tuple[FreeTextScore, ...]:
    """Strict and lenient accuracy of every setting at every stage.

    Parameters
    ----------
    record : polars.DataFrame
        Schema v1, with raw replies (without them only the strict score is known).
    tasks : iterable of Task
        The tasks that were discussed, for the aliases; others do no harm.

    Returns
    -------
    tuple of FreeTextScore
        By setting and stage.

    Raises
    ------
    UsageError
        A task of the record is not among `tasks`, has options, or another answer than the record has.

    Notes
    -----
    The record holds opinions, not words (`abilene.tasks.freetext.canonical`). Words are read again from the raw reply,
    and count only where they are the opinion that the record has. Where an intervention set the statement, the raw
    reply is not what was stated, and the lenient score of the discussion is not known; that of beliefs is.

    The two scores answer different questions and are never mixed: agents saw statements grouped by the strict rule.
    """
    known = {task.id: task for task in tasks}
    rows = record.select(_COLUMNS)
    for name, truth in rows.select("task", "truth").unique().sort("task", "truth").iter_rows():
        task = known.get(name)
        if task is None:
            raise UsageError(
                f"Task {name!r} of the record is not among the tasks. Give the tasks of this run."
            )
        if task.options:
            raise UsageError(f"Task {name!r} has options; strict and lenient are for free answers.")
        if truth is not None and truth != task.answer:
            raise UsageError(
                f"Task {name!r} has the answer {task.answer!r}, and the record {truth!r}. Give the tasks of this run."
            )
    return tuple(
        _free_text(setting, stage, groups, known)
        for setting, discussions in _settings(rows)
        for stage, groups in _stages(discussions)
    )


def _free_text(
    setting: dict[str, str | None],
    stage: Stage,
    groups: list[tuple[str, list[Row]]],
    known: Mapping[str, Task],
) -> FreeTextScore:
    strict, lenient, there = [0, 0], [0, 0], [0, 0]
    unanswered = without = 0
    reason = None
    column = _COLUMN[stage]
    for name, rows in groups:
        answered = [row for row in rows if row[column] is not None]
        if not answered:
            unanswered += 1
            continue
        task = known[name]
        right = plurality([row[column] for row in answered]) == task.answer
        _count(strict, right)
        words = [_words(row, stage, task) for row in answered]
        if None in words:
            without += 1
            if stage == "discussion" and any(row["public_set"] for row in answered):
                reason = SET
            continue
        _count(there, right)
        _count(lenient, plurality(lenient_opinions([w for w in words if w is not None], task)) == task.answer)
    return FreeTextScore(
        setting=setting, stage=stage, strict=Proportion(*strict), lenient=Proportion(*lenient),
        strict_there=Proportion(*there), unanswered=unanswered, without_words=without, reason=reason,
    )  # fmt: skip


def _count(tally: list[int], success: bool) -> None:
    tally[0] += success
    tally[1] += 1


def _words(row: Row, stage: Stage, task: Task) -> str | None:
    """What was literally answered, where the record tells."""
    if stage == "vote":
        raw, tag = row["public_raw"], "ANSWER"
    elif stage == "discussion":
        raw, tag = (None if row["public_set"] else row["public_raw"]), "PUBLIC"
    elif row["private_source"] == Source.JOINT:
        raw, tag = row["public_raw"], "PRIVATE"
    else:
        raw, tag = row["private_raw"], "ANSWER"
    if raw is None:
        return None
    value = read_line(raw, tag).value
    # A foreign log may have been read by other rules; words that are not the recorded opinion are not its words.
    if value is None or canonical(value, task.answer, task.aliases) != row[_COLUMN[stage]]:
        return None
    return value


def lenient_opinions(words: Sequence[str], task: Task) -> list[str]:
    """One string for each answer, equal where two say the same by the lenient rule.

    Examples
    --------
    >>> task = Task("t", "musique", "When?", (), "1929-02-11", (), ((),))
    >>> lenient_opinions(["11 February 1929", "twelve", "12"], task)
    ['1929-02-11', 'twelve', 'twelve']
    """
    out: list[str] = []
    first: list[str] = []  # of each opinion that is not the answer
    for text in words:
        if lenient_match(text, task.answer, task.aliases):
            out.append(task.answer)
            continue
        same = next((f for f in first if lenient_match(text, f)), None)
        if same is None:
            first.append(text)
        out.append(text if same is None else same)
    return out


# The bias trap --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasTrap:
    """Bias Trap Rate of one setting at one stage, beside accuracy.

    Attributes
    ----------
    setting : dict
        Its parts.
    stage : str
        vote, discussion or beliefs.
    trapped : Proportion
        Cases answered with the diagnosis of their control case: the Bias Trap Rate.
    correct : Proportion
        Cases answered with the trap's diagnosis, of the same cases.
    other, ties : int
        Cases answered with a third diagnosis, and cases without a unique plurality. Together with the two above they
        make all cases.
    unanswered : int
        Cases without any answer at this stage, left out.
    not_counted : int
        Cases left out because their control case is not known to be answered right.
    """

    setting: dict[str, str | None]
    stage: Stage
    trapped: Proportion
    correct: Proportion
    other: int
    ties: int
    unanswered: int
    not_counted: int

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "setting": self.setting,
            "stage": self.stage,
            "bias_trap_rate": self.trapped.to_json(),
            "accuracy": self.correct.to_json(),
            "other": self.other,
            "ties": self.ties,
            "unanswered": self.unanswered,
            "not_counted": self.not_counted,
        }


def bias_trap(
    record: pl.DataFrame,
    control_diagnosis: Mapping[str, str],
    *,
    control_right: Collection[str] | None = None,
) -> tuple[BiasTrap, ...]:
    """Bias Trap Rate of every setting at every stage, beside accuracy.

    Parameters
    ----------
    record : polars.DataFrame
        Schema v1.
    control_diagnosis : mapping
        Diagnosis of the control case, by task; see `control_diagnoses`. Tasks that are not in it have no trap and
        are left out.
    control_right : collection of str, optional
        Tasks whose control case is known to be answered right. Given, only these count: a team that misses the
        control has no bias to be trapped by. Left out, all count.

    Returns
    -------
    tuple of BiasTrap
        By setting and stage.

    Raises
    ------
    UsageError
        No task of the record has a control diagnosis, one is the correct answer itself, or a correct answer is
        missing.

    Notes
    -----
    With n cases that have an answer at the stage, BTR = (cases whose plurality is the control's diagnosis) / n.
    Accuracy is over the same n.
    """
    rows = record.select(_COLUMNS)
    pairs = [
        (name, truth)
        for name, truth in rows.select("task", "truth").unique().iter_rows()
        if name in control_diagnosis
    ]
    if any(truth is None for _, truth in pairs):
        raise UsageError("The record has no correct answer for some tasks.")
    if rows.height and not pairs:
        raise UsageError("No task of the record has a control diagnosis. Give those of this run's tasks.")
    if wrong := sorted(name for name, truth in pairs if control_diagnosis[name] == truth):
        raise UsageError(f"The control diagnosis of task {wrong[0]!r} is its correct answer.")
    return tuple(
        _trap(setting, stage, groups, control_diagnosis, control_right)
        for setting, discussions in _settings(rows.filter(pl.col("task").is_in(list(control_diagnosis))))
        for stage, groups in _stages(discussions)
    )


def _trap(
    setting: dict[str, str | None],
    stage: Stage,
    groups: list[tuple[str, list[Row]]],
    control: Mapping[str, str],
    control_right: Collection[str] | None,
) -> BiasTrap:
    tally: Counter[str] = Counter()
    for task, rows in groups:
        given = [row[_COLUMN[stage]] for row in rows if row[_COLUMN[stage]] is not None]
        if control_right is not None and task not in control_right:
            tally["not counted"] += 1
        elif not given:
            tally["unanswered"] += 1
        else:
            answer, truth = plurality(given), rows[0]["truth"]
            kind = {None: "tie", truth: "correct", control[task]: "trapped"}.get(answer, "other")
            tally[kind] += 1
    n = sum(tally[kind] for kind in ("trapped", "correct", "other", "tie"))
    return BiasTrap(
        setting=setting, stage=stage, trapped=Proportion(tally["trapped"], n),
        correct=Proportion(tally["correct"], n), other=tally["other"], ties=tally["tie"],
        unanswered=tally["unanswered"], not_counted=tally["not counted"],
    )  # fmt: skip


def control_diagnoses(tasks: Iterable[Task]) -> dict[str, str]:
    """Diagnosis of the control case of each task that has one.

    Examples
    --------
    >>> design = {"control_diagnosis": "Asthma"}
    >>> control_diagnoses([Task("t", "medeinst", "?", ("Asthma", "COPD"), "COPD", (), ((),), design=design)])
    {'t': 'Asthma'}
    """
    return {t.id: str(t.design["control_diagnosis"]) for t in tasks if t.design.get("control_diagnosis")}


# Both -----------------------------------------------------------------------------------------------------

_COLUMN: dict[Stage, str] = {"vote": "public", "discussion": "public", "beliefs": "private"}


#: A discussion: its task, and its rows of round 0 and of round T.
_Ends = tuple[str, list[Row], list[Row]]


def _settings(rows: pl.DataFrame) -> list[tuple[dict[str, str | None], list[_Ends]]]:
    """Settings in sorted order; of each the discussions, by task and epoch."""
    key = list(SETTING_PARTS)
    last = pl.col("round").max().over(key)
    marked = rows.with_columns((pl.col("round") == last).alias("_last")).sort(
        *key, "task", "epoch", "round", "agent"
    )
    out: dict[tuple[str | None, ...], dict[tuple[str, int], _Ends]] = {}
    for row in marked.iter_rows(named=True):
        discussions = out.setdefault(tuple(row[p] for p in key), {})
        _, first, final = discussions.setdefault((row["task"], row["epoch"]), (row["task"], [], []))
        if row["round"] == 0:
            first.append(row)
        elif row["_last"]:
            final.append(row)
    return [(dict(zip(key, parts, strict=True)), list(ds.values())) for parts, ds in out.items()]


def _stages(discussions: list[_Ends]) -> list[tuple[Stage, list[tuple[str, list[Row]]]]]:
    return [
        (stage, [(task, first if stage == "vote" else final) for task, first, final in discussions])
        for stage in STAGES
    ]


__all__ = [
    "SET",
    "STAGES",
    "BiasTrap",
    "FreeTextScore",
    "Proportion",
    "bias_trap",
    "control_diagnoses",
    "free_text_scores",
    "lenient_opinions",
]
