"""Which candidates to keep: the bounds on their answers, and whether one repeats another."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from abilene.errors import UsageError
from abilene.tasks.structure import Candidate, fact_key

Condition = Literal["full", "hidden"]
CONDITIONS: tuple[Condition, ...] = ("full", "hidden")
ReasonCode = Literal[
    "unreadable_reply", "structure", "duplicate", "unreadable_answers", "full", "hidden", "decisive_view"
]

SAME_FACTS, SAME_FACTS_AND_OPTIONS = 0.6, 0.3


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a candidate was not kept.

    Parameters
    ----------
    code : str
        ``unreadable_reply``, ``structure``, ``duplicate``, ``unreadable_answers``, ``full``, ``hidden`` or
        ``decisive_view``.
    detail : str
        What was found, in words.
    """

    code: ReasonCode
    detail: str


@dataclass(frozen=True, slots=True)
class Trial:
    """One answer to a candidate.

    Parameters
    ----------
    condition : str
        ``full`` or ``hidden``.
    agent : int
        Whose part was shown.
    right : bool or None
        None where the reply could not be read: neither right nor wrong.
    """

    condition: Condition
    agent: int
    right: bool | None


@dataclass(frozen=True, slots=True)
class Counts:
    """Answers of one condition: right, wrong, and those that could not be read (neither)."""

    right: int = 0
    wrong: int = 0
    unreadable: int = 0

    @property
    def readable(self) -> int:
        """Right or wrong."""
        return self.right + self.wrong

    @property
    def asked(self) -> int:
        """All of them."""
        return self.readable + self.unreadable

    @property
    def accuracy(self) -> float | None:
        """Share of the readable answers that are right; None without any."""
        return self.right / self.readable if self.readable else None

    def as_dict(self) -> dict[str, float | int | None]:
        """JSON-ready."""
        return {
            "right": self.right,
            "wrong": self.wrong,
            "unreadable": self.unreadable,
            "accuracy": self.accuracy,
        }


def count(trials: Iterable[Trial], condition: Condition, agent: int | None = None) -> Counts:
    """Counts of one condition, of one agent's part only if `agent` is given."""
    kept = [t.right for t in trials if t.condition == condition and agent in (None, t.agent)]
    return Counts(kept.count(True), kept.count(False), kept.count(None))


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which candidates to keep.

    Parameters
    ----------
    trials : int
        Answers per condition, at least 1.
    full, hidden : float
        Bounds in [0, 1]: accuracy with all facts at least `full`, accuracy with one agent's part at most `hidden`.
    strict : bool
        More than `full` and less than `hidden`, as in the published benchmark's own run.
    min_readable : int, optional
        Readable answers needed in each condition, 1 to `trials`; left out: 80 % of the trials.

    Raises
    ------
    UsageError
        A value out of range.

    Notes
    -----
    The bounds are compared exactly: 8 of 10 is not less than .80. Ten trials are a coarse sieve: a task that is
    answered rightly with probability .60 passes ``full`` = .80 in 17 % of all cases.

    Accuracy is over the readable answers, and a candidate whose bounds would not hold if its unreadable answers had
    been wrong (full) or right (hidden) is rejected as well (``unreadable_answers``).

    A candidate is also rejected (``decisive_view``) if some agent's part was right in each of its readable answers,
    two at least. The average can hide that: of ten trials in turn an agent of a team of four has two or three, so a
    clue that always decides by itself may stay at .20.
    """

    trials: int = 10
    full: float = 0.80
    hidden: float = 0.20
    strict: bool = False
    min_readable: int | None = None

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise UsageError(f"trials must be at least 1, found {self.trials}.")
        for name in ("full", "hidden"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0.0 <= value <= 1.0):
                raise UsageError(f"The bound for {name} must be a number from 0 to 1, found {value}.")
        if self.min_readable is not None and not 1 <= self.min_readable <= self.trials:
            raise UsageError(f"min_readable must be 1 to {self.trials} (trials), found {self.min_readable}.")

    @property
    def needed(self) -> int:
        """Readable answers needed in each condition."""
        return -(-4 * self.trials // 5) if self.min_readable is None else self.min_readable

    def judge(self, trials: Sequence[Trial]) -> list[Reason]:
        """Why a candidate with these answers is rejected; empty if it is kept."""
        counts = {c: count(trials, c) for c in CONDITIONS}
        if few := [c for c in CONDITIONS if counts[c].readable < self.needed]:
            told = " and ".join(f"{counts[c].readable} of {self.trials} answers ({c})" for c in few)
            return [
                Reason("unreadable_answers", f"only {told} could be read; {self.needed} are needed to decide")
            ]
        reasons = []
        full, hidden = (Fraction(counts[c].right, counts[c].readable) for c in CONDITIONS)
        if self._low(full):
            want = f"{'more than' if self.strict else 'at least'} {self.full:g}"
            reasons.append(Reason("full", f"right in {_of(counts['full'])} with all facts; {want} is needed"))
        if self._high(hidden):
            want = f"{'less than' if self.strict else 'at most'} {self.hidden:g}"
            reasons.append(
                Reason("hidden", f"right in {_of(counts['hidden'])} with one agent's part; {want} is needed")
            )
        # Kept only if it would be kept whatever the unreadable answers were.
        sure = counts["full"].right, counts["hidden"].right + counts["hidden"].unreadable
        least, most = (Fraction(k, counts[c].asked) for k, c in zip(sure, CONDITIONS, strict=True))
        unsure = []
        if not self._low(full) and self._low(least):
            unsure.append(f"{counts['full'].unreadable} (full)")
        if not self._high(hidden) and self._high(most):
            unsure.append(f"{counts['hidden'].unreadable} (hidden)")
        if unsure:
            told = f"{' and '.join(unsure)} of {self.trials} answers could not be read"
            reasons.append(Reason("unreadable_answers", f"{told}, and the bound depends on them"))
        for agent in sorted({t.agent for t in trials if t.condition == "hidden"}):
            own = count(trials, "hidden", agent)
            if own.right >= 2 and not own.wrong:
                reasons.append(
                    Reason(
                        "decisive_view",
                        f"clue {agent + 1} alone was right in {_of(own)}; it decides by itself",
                    )
                )
        return reasons

    def _low(self, full: Fraction) -> bool:
        bound = Fraction(str(self.full))
        return full < bound or (self.strict and full == bound)

    def _high(self, hidden: Fraction) -> bool:
        bound = Fraction(str(self.hidden))
        return hidden > bound or (self.strict and hidden == bound)


def _of(counts: Counts) -> str:
    return f"{counts.right} of {counts.readable} readable answers"


# Duplicates ----------------------------------------------------------------------------------------------


def likeness(a: Candidate, b: Candidate) -> float:
    """How alike the facts of two candidates are, in [0, 1].

    `difflib.SequenceMatcher.ratio` over the words of all facts and clues, sorted, with the options' names blanked, so
    that neither the order of the facts nor new names for the options hide a copy. Between different published tasks
    it is at most .18; between the three versions of one published task at least .75.
    """
    matcher = difflib.SequenceMatcher(None, _masked(a), _masked(b), autojunk=False)
    return matcher.ratio()


def _masked(task: Candidate) -> list[str]:
    names = sorted((fact_key(o) for o in task.options), key=len, reverse=True)
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, names)) + r")\b")
    return [
        w for text in sorted(pattern.sub("option", fact_key(f)) for f in task.facts) for w in text.split()
    ]


def duplicate_of(candidate: Candidate, kept: Mapping[int, Candidate]) -> Reason | None:
    """Which kept candidate this one repeats, if any.

    It does if the names are the same up to letter case, spaces and punctuation; if `likeness` is at least .6; or if
    it is at least .3 and the options are the same ("Site A, B and C" alone is no copy).
    """
    options = {fact_key(o) for o in candidate.options}
    for number, other in kept.items():
        if fact_key(candidate.name) == fact_key(other.name):
            return Reason("duplicate", f"has the name of candidate {number}, {other.name!r}")
        same = options == {fact_key(o) for o in other.options}
        alike = likeness(candidate, other)
        if alike >= (SAME_FACTS_AND_OPTIONS if same else SAME_FACTS):
            told = " and the same options" if same else ""
            return Reason("duplicate", f"shares {alike:.0%} of its facts{told} with candidate {number}")
    return None
