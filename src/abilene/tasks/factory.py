"""The task factory's decisions: what to ask for, how to read it, and which candidates to keep.

Generate, execute, filter: a model writes candidates in HiddenBench's format (`prompt`, `read_reply`), another answers
each of them several times knowing everything and knowing one agent's part (`full_view`, `hidden_view`), and a candidate
is kept if the first is right often enough and the second rarely enough (`Filter`). Nothing here calls a model.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Literal

from abilene.errors import InputError, UsageError
from abilene.seeds import child_rng
from abilene.tasks.hiddenbench import BENCHMARK
from abilene.tasks.structure import (
    MIN_CLUES,
    MIN_OPTIONS,
    Candidate,
    check_structure,
    fact_key,
    read_entry,
)
from abilene.tasks.task import Note, Task

Condition = Literal["full", "hidden"]
CONDITIONS: tuple[Condition, ...] = ("full", "hidden")
ReasonCode = Literal[
    "unreadable_reply", "structure", "duplicate", "unreadable_answers", "full", "hidden", "decisive_view"
]

SAME_FACTS, SAME_FACTS_AND_OPTIONS = 0.6, 0.3

_PLACEHOLDER = re.compile(r"\{(clues|options|topic)\}")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*\n(.*?)^[ \t]*(?:```|~~~)[ \t]*$", re.MULTILINE | re.DOTALL)


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


# Asking for a candidate ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Template:
    """How to ask for a candidate.

    Parameters
    ----------
    name : str
        As the file calls itself.
    prompt : str
        With {clues}, {options} and {topic}.
    topics : tuple of str
        At least one.
    digest : str
        Hash of the file's bytes, 16 hex digits.
    """

    name: str
    prompt: str
    topics: tuple[str, ...]
    digest: str


def load_template(path: str | Path | None = None) -> Template:
    """Read and check a template.

    Parameters
    ----------
    path : str or Path, optional
        A TOML file with name, prompt and topics; the built-in one when left out.

    Raises
    ------
    InputError
        The file cannot be read or is no template; the message names the field.

    Examples
    --------
    >>> load_template().name
    'abilene'
    """
    where: str | Path = path or "built-in template"
    try:
        data = (
            Path(path).read_bytes()
            if path
            else (resources.files("abilene.tasks") / "factory.toml").read_bytes()
        )
        raw = tomllib.loads(data.decode("utf-8"))
    except OSError as e:
        raise InputError(where, f"cannot be read ({e.strerror})", "Give the path of a template.") from e
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise InputError(where, f"is not TOML ({e})", "Start from the built-in template.") from e
    known = ("name", "prompt", "topics")
    if unknown := sorted(set(raw) - set(known)):
        raise InputError(where, f"unknown entry {unknown[0]!r}", f"Known: {', '.join(known)}.")
    for key in ("name", "prompt"):
        if not isinstance(raw.get(key), str) or not raw[key].strip():
            raise InputError(where, "is missing or empty", "Write the text.", field=key)
    topics = raw.get("topics")
    if (
        not isinstance(topics, list)
        or not topics
        or not all(isinstance(t, str) and t.strip() for t in topics)
    ):
        raise InputError(where, "is no list of texts", "Give at least one topic.", field="topics")
    if lacking := {"clues", "options", "topic"} - set(_PLACEHOLDER.findall(raw["prompt"])):
        raise InputError(where, f"lacks {{{min(lacking)}}}", "Place it at least once.", field="prompt")
    return Template(raw["name"], raw["prompt"], tuple(topics), hashlib.sha256(data).hexdigest()[:16])


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What candidates should look like.

    Parameters
    ----------
    clues : int
        Clues, which is the team's size; 3 or more.
    options : int
        Options asked for; 3 or more.
    seed : int
        Root of the topics and of the order of options and facts.
    template : Template
        The wording.

    Raises
    ------
    UsageError
        A number out of range.
    """

    clues: int = 4
    options: int = 3
    seed: int = 0
    template: Template = field(default_factory=load_template)

    def __post_init__(self) -> None:
        if self.clues < MIN_CLUES or self.options < MIN_OPTIONS:
            raise UsageError(
                f"A task needs at least {MIN_CLUES} clues and {MIN_OPTIONS} options, found {self.clues} and "
                f"{self.options}."
            )

    def prompt(self, number: int) -> str:
        """What to send for candidate `number`, from 1. Every topic is used once before one comes again."""
        topics = self.template.topics
        block, place = divmod(number - 1, len(topics))
        order = child_rng(self.seed, "factory", "topics", block).permutation(len(topics))
        values = {"clues": str(self.clues), "options": str(self.options), "topic": topics[order[place]]}
        return _PLACEHOLDER.sub(lambda m: values[m.group(1)], self.template.prompt).strip()

    def read(self, number: int, reply: str) -> Candidate | Reason:
        """Candidate `number` out of a reply (thought blocks removed), or why there is none.

        The options are put in a random order: models tend to list the correct one at the same place.
        """
        found = read_reply(reply)
        if isinstance(found, Reason):
            return found
        if faults := check_structure(found, self.clues):
            return Reason("structure", "; ".join(map(str, faults)))
        order = child_rng(self.seed, "factory", "options", number).permutation(len(found.options))
        return Candidate(
            name=found.name,
            description=found.description,
            shared=found.shared,
            clues=found.clues,
            options=tuple(found.options[k] for k in order),
            answer=found.answer,
            rationale=found.rationale,
        )


def read_reply(text: str) -> Candidate | Reason:
    """The one candidate in a reply, or why it cannot be read. Nothing is repaired or guessed.

    Parameters
    ----------
    text : str
        A reply: JSON by itself, in a code fence, or between other words. Where there are code fences, only they are
        searched. Objects without ``possible_answers`` are passed over, and the same object twice counts once.

    Examples
    --------
    >>> read_reply("I cannot do that.")
    Reason(code='unreadable_reply', detail='no JSON object with possible_answers in the reply')
    """
    fences = [m.group(1) for m in _FENCE.finditer(text)]
    try:
        objects = [o for part in (fences or [text]) for o in _objects(part)]
    except RecursionError:
        return Reason("unreadable_reply", "the JSON is nested too deeply")
    found = [o for o in objects if "possible_answers" in o]
    if not found:
        return Reason("unreadable_reply", "no JSON object with possible_answers in the reply")
    if any(o != found[0] for o in found):
        return Reason("unreadable_reply", f"{len(found)} different tasks in one reply; one was asked for")
    if twice := found[0].get(_TWICE):
        return Reason("unreadable_reply", f"the field {twice!r} occurs twice")
    task = read_entry(found[0])
    if isinstance(task, Candidate):
        return task
    return Reason("unreadable_reply", "; ".join(map(str, task)))


_TWICE = "\0twice"


def _objects(text: str) -> list[dict[str, object]]:
    """Outermost JSON objects in a text, in order."""
    decoder = json.JSONDecoder(object_pairs_hook=_pairs)
    found, at = [], text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
            found.append(value)
        except ValueError:
            end = at + 1
        at = text.find("{", end)
    return found


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    twice = [key for key, n in Counter(k for k, _ in pairs).items() if n > 1]
    return {**dict(pairs), **({_TWICE: twice[0]} if twice else {})}


# What a model is shown -----------------------------------------------------------------------------------


def hidden_view(candidate: Candidate, key: str) -> Task:
    """The task with one clue for each agent: agent i holds clue i."""
    return _task(candidate, key, tuple((Note(clue),) for clue in candidate.clues))


def full_view(candidate: Candidate, key: str, trial: int, seed: int) -> Task:
    """The task with every clue in every agent's hands, in an order of this trial."""
    order = child_rng(seed, "factory", "full", key, trial).permutation(len(candidate.clues))
    every = tuple(Note(candidate.clues[k]) for k in order)
    return _task(candidate, key, (every,) * len(candidate.clues))


def _task(candidate: Candidate, key: str, private: tuple[tuple[Note, ...], ...]) -> Task:
    return Task(
        id=f"hb-{key}",
        benchmark=BENCHMARK,
        question=candidate.description,
        options=candidate.options,
        answer=candidate.answer,
        shared=tuple(Note(text) for text in candidate.shared),
        private=private,
        design={"n_agents": len(private), "name": candidate.name},
    )


def trial_agent(trial: int, clues: int) -> int:
    """Whose part trial number `trial` (from 0) shows: agents take turns.

    Examples
    --------
    >>> [trial_agent(k, 4) for k in range(6)]
    [0, 1, 2, 3, 0, 1]
    """
    return trial % clues


# Keeping or rejecting ------------------------------------------------------------------------------------


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
        low, high = Fraction(str(self.full)), Fraction(str(self.hidden))
        if full < low or (self.strict and full == low):
            want = f"{'more than' if self.strict else 'at least'} {self.full:g}"
            reasons.append(Reason("full", f"right in {_of(counts['full'])} with all facts; {want} is needed"))
        if hidden > high or (self.strict and hidden == high):
            want = f"{'less than' if self.strict else 'at most'} {self.hidden:g}"
            reasons.append(
                Reason("hidden", f"right in {_of(counts['hidden'])} with one agent's part; {want} is needed")
            )
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
