"""The task factory's decisions: what to ask for, how to read it, and which candidates to keep.

A model writes candidates in HiddenBench's format (`Recipe.prompt`, `read_reply`); another answers each of them several
times, with all facts (`full_view`) and with one agent's part of them (`hidden_view`); a candidate is kept if the first
is right often enough and the second rarely enough (`abilene.tasks.sieve`). Nothing here calls a model.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from abilene.errors import InputError, UsageError
from abilene.seeds import child_rng
from abilene.tasks.files import read_json
from abilene.tasks.hiddenbench import BENCHMARK, id_fault, id_text, id_value
from abilene.tasks.sieve import Reason
from abilene.tasks.structure import (
    MIN_CLUES,
    MIN_OPTIONS,
    Candidate,
    Problem,
    check_structure,
    read_entry,
)
from abilene.tasks.task import Note, Task

_PLACEHOLDER = re.compile(r"\{(clues|options|topic)\}")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*\n(.*?)^[ \t]*(?:```|~~~)[ \t]*$", re.MULTILINE | re.DOTALL)


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


# Hand-written files --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a file.

    Parameters
    ----------
    key : str
        Its id; ``entry <place>`` where it has none that can be used.
    candidate : Candidate or None
        None where it cannot be read.
    problems : tuple of Problem
        What is wrong with it, without a model.
    """

    key: str
    candidate: Candidate | None
    problems: tuple[Problem, ...]

    @property
    def digest(self) -> str:
        """Hash of what is asked, 16 hex digits."""
        content = None if self.candidate is None else self.candidate.to_entry(self.key)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def check_file(path: str | Path, clues: int | None = None) -> tuple[Entry, ...]:
    """Entries of a file in HiddenBench's format with everything that is wrong with each, without a model.

    Parameters
    ----------
    path : str or Path
        A JSON list of tasks. Where no entry has a problem, `abilene.tasks.hiddenbench.load` reads the file.
    clues : int, optional
        Exact number of clues; left out: at least 3.

    Raises
    ------
    InputError
        The file cannot be read, or is not a JSON list with at least one entry.
    """
    what = "a file in HiddenBench's format, a JSON list of tasks"
    raw = read_json(path, what)
    if not isinstance(raw, list) or not raw:
        raise InputError(path, "is no list with at least one task", f"Give {what}.")
    entries: list[Entry] = []
    seen: set[int | str] = set()
    for place, value in enumerate(raw, start=1):
        key, problems = f"entry {place}", []
        if isinstance(value, dict):
            name = value.get("id")
            if fault := id_fault(name):
                found = f"is {name!r}" if "id" in value else "is missing"
                problems.append(Problem("field", "id", f"{found}; {fault}"))
            elif id_value(name) in seen:
                problems.append(Problem("field", "id", f"{name!r} is taken by an earlier task"))
            else:
                key = id_text(name)
                seen.add(id_value(name))
        task = read_entry(value)
        if isinstance(task, Candidate):
            entries.append(Entry(key, task, (*problems, *check_structure(task, clues))))
        else:
            entries.append(Entry(key, None, (*problems, *task)))
    return tuple(entries)
