"""HiddenBench as published: a briefing that misleads, and clues that each rule something out.

One JSON file holds the tasks. Texts and options, their order included, are left as they are (most descriptions
list the options too); the clues are dealt out, one to an agent, so that by default a task's team has as many agents
as the task has clues. For group-size curves any other size can be asked for: the clues are then dealt in turn, so
that all of them are still held, by several agents each in a larger team, several by one agent in a smaller one.

In the published file the answer is the last of three options in 37 of 59 tasks: a model that prefers the last
option looks better here than it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from abilene.errors import InputError, UsageError
from abilene.seeds import child_rng, uniform
from abilene.tasks.files import read_json
from abilene.tasks.hub import HIDDENBENCH, HubFile, local_or_hub
from abilene.tasks.structure import fits_one_line, is_whole
from abilene.tasks.task import Note, Task

BENCHMARK = "hiddenbench"

_WHAT = "the published HiddenBench file, a JSON list of tasks"
_TEXTS = ("name", "description", "correct_answer")
_LISTS = {"shared_information": 1, "hidden_information": 2, "possible_answers": 2}  # with their least lengths


def load(
    path: str | Path | None = None,
    *,
    seed: int = 0,
    tasks: int | None = None,
    team_size: int | None = None,
    source: HubFile = HIDDENBENCH,
) -> tuple[Task, ...]:
    """Tasks of a HiddenBench file.

    Parameters
    ----------
    path : str or Path, optional
        JSON list of objects with id, name, description, shared_information, hidden_information,
        possible_answers, correct_answer. Without it the published file is taken from the hub.
    seed : int
        Decides which agent gets which clue (and which tasks are taken, see `tasks`).
    tasks : int, optional
        Take a random subset of so many tasks. A smaller subset is part of every larger one.
    team_size : int, optional
        N >= 2; left out: the number of clues of each task (3 or 4 in the published file). In a team of another
        size agent i holds clue i mod (number of clues) of the shuffled clues if the team is larger, and a smaller
        team gets the clues in turn until none is left.
    source : HubFile
        Where on the hub the data is.

    Returns
    -------
    tuple of Task
        In the order of the file. Ids are ``hb-<id>``. `design` holds n_agents, n_clues and the published name;
        there is no designed accuracy.

    Raises
    ------
    InputError
        The file or an entry cannot be used: the message names the entry, the field, what was found and what
        to do.
    UsageError
        `tasks` asks for what the file does not hold, or a team of fewer than 2 agents.
    """
    if team_size is not None and team_size < 2:
        raise UsageError(f"team size {team_size}: a discussion needs at least 2 agents.")
    path = local_or_hub(path, source)
    raw = read_json(path, _WHAT)
    if not isinstance(raw, list):
        raise InputError(path, f"holds {_kind(raw)} instead of a list", f"Give {_WHAT}.")
    if not raw:
        raise InputError(path, "the list is empty", f"Give {_WHAT}.")
    kept: list[Task] = []
    seen: set[object] = set()
    for i, entry in enumerate(raw):
        kept.append(_task(path, i, entry, seed, team_size))
        if (name := id_value(entry["id"])) in seen:
            raise InputError(
                path,
                f"entry {i + 1} repeats the id {entry['id']!r}",
                "Ids must be unique; 1 and '1' are the same.",
                field="id",
            )
        seen.add(name)
    if tasks is not None:
        if not 1 <= tasks <= len(kept):
            raise UsageError(
                f"{tasks} tasks asked for, and {path} has {len(kept)}. Ask for 1 to {len(kept)}."
            )
        drawn = sorted(kept, key=lambda task: uniform(seed, BENCHMARK, "subset", task.id))[:tasks]
        ids = {task.id for task in drawn}
        kept = [task for task in kept if task.id in ids]
    return tuple(kept)


def _task(path: str | Path, i: int, entry: object, seed: int, team_size: int | None) -> Task:
    place = f"entry {i + 1}"
    if not isinstance(entry, dict):
        raise InputError(
            path, f"{place} is {_kind(entry)}", "Every entry must be an object with the task's fields."
        )
    key = _id(path, place, entry)
    place = f"task {key}"
    for name in _TEXTS:
        _text(path, place, name, _get(path, place, entry, name))
    lists = {name: _list(path, place, name, _get(path, place, entry, name), n) for name, n in _LISTS.items()}
    options, answer = lists["possible_answers"], entry["correct_answer"]
    if answer not in options:
        raise InputError(
            path,
            f"{place}: {answer!r} is none of the possible answers {options!r}",
            "Write one of them, letter for letter.",
            field="correct_answer",
        )
    if len({" ".join(o.split()).casefold() for o in options}) != len(options):
        raise InputError(
            path,
            f"{place}: two answers are the same: {options!r}",
            "Make them different in more than letter case and spaces.",
            field="possible_answers",
        )
    for k, option in enumerate(options):
        if not fits_one_line(option):
            raise InputError(
                path,
                f"{place}: found {option!r}",
                "An option is one line without '|': prompts list options that way.",
                field=f"possible_answers[{k}]",
            )
    _distinct(path, place, lists)
    clues = lists["hidden_information"]
    order = child_rng(seed, BENCHMARK, "clues", key).permutation(len(clues))
    n = team_size or len(clues)
    return Task(
        id=f"hb-{key}",
        benchmark=BENCHMARK,
        question=entry["description"],
        options=tuple(options),
        answer=answer,
        shared=tuple(Note(text) for text in lists["shared_information"]),
        private=tuple(tuple(Note(clues[k]) for k in hand) for hand in _hands(list(order), n)),
        design={"n_agents": n, "n_clues": len(clues), "name": entry["name"]},
    )


def _hands(clues: list[int], n: int) -> list[list[int]]:
    """Which clues each of n agents holds: each clue at least once, hands as even as can be."""
    if n >= len(clues):
        return [[clues[i % len(clues)]] for i in range(n)]
    return [clues[i::n] for i in range(n)]


def _distinct(path: str | Path, place: str, lists: Mapping[str, Sequence[str]]) -> None:
    """Refuse a fact that is there twice: it would be no clue, and who holds it could not be told."""
    first: dict[str, str] = {}
    for name in ("shared_information", "hidden_information"):
        for k, text in enumerate(lists[name]):
            key, field = " ".join(text.split()).casefold(), f"{name}[{k}]"
            if key in first:
                raise InputError(
                    path,
                    f"{place}: {text!r} is {first[key]} again",
                    "Keep it once, or make the two different in more than letter case and spaces.",
                    field=field,
                )
            first[key] = field


def id_fault(value: object) -> str | None:
    """What keeps a value from being a task's id, in words; None if nothing does.

    Examples
    --------
    >>> id_fault("a/b")
    "an id is one line without '/' and '\\\\'"
    >>> id_fault(7) is None
    True
    """
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
        return "an id is a number or a word"
    if isinstance(value, str) and not is_whole(value):
        return "an id holds no half character (a lone surrogate)"
    # Ids name lines of logs and may name files.
    if isinstance(value, str) and (not value.strip().isprintable() or set(value) & set("/\\")):
        return "an id is one line without '/' and '\\'"
    return None


def id_value(value: object) -> int | str:
    """What two ids have in common if they are one id: the number, however it is written.

    Examples
    --------
    >>> id_value("01") == id_value(1), id_value(" x ")
    (True, 'x')
    """
    text = str(value).strip()
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text


def _id(path: str | Path, place: str, entry: Mapping[str, object]) -> str:
    value = _get(path, place, entry, "id")
    if fault := id_fault(value):
        raise InputError(path, f"{place}: found {value!r}", f"{fault.capitalize()}.", field="id")
    return id_text(value)


def id_text(value: object) -> str:
    """An id as it appears in names of tasks: numbers with two digits at least.

    Examples
    --------
    >>> id_text(7), id_text(" x ")
    ('07', 'x')
    """
    return f"{value:02d}" if isinstance(value, int) else str(value).strip()


def _get(path: str | Path, place: str, entry: Mapping[str, object], field: str) -> object:
    if field not in entry:
        has = ", ".join(k if k.isprintable() else repr(k) for k in entry) or "none"
        raise InputError(path, f"{place} lacks it (fields found: {has})", f"Give {_WHAT}.", field=field)
    return entry[field]


def _text(path: str | Path, place: str, field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(path, f"{place}: found {_kind(value)}", "It must be text.", field=field)
    if not value.strip():
        raise InputError(path, f"{place}: the text is empty", "Write the text.", field=field)
    if not is_whole(value):
        raise InputError(
            path,
            f"{place}: the text holds half a character (a lone surrogate)",
            "Write it whole.",
            field=field,
        )
    return value


def _list(path: str | Path, place: str, field: str, value: object, least: int) -> list[str]:
    if not isinstance(value, list):
        raise InputError(path, f"{place}: found {_kind(value)}", "It must be a list of texts.", field=field)
    texts = [_text(path, place, f"{field}[{k}]", v) for k, v in enumerate(value)]
    if len(texts) < least:
        raise InputError(
            path, f"{place}: the list has {len(texts)} texts", f"At least {least} are needed.", field=field
        )
    return texts


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def check(task: Task) -> list[str]:
    """What is wrong with a HiddenBench task, in words; empty if it is as it should be."""
    faults = []
    if task.answer not in task.options or len(set(task.options)) != len(task.options):
        faults.append(
            f"{task.id}: the answer {task.answer!r} must be one of distinct options {task.options!r}"
        )
    if task.design.get("n_agents") != task.team_size or task.team_size < 2:
        faults.append(
            f"{task.id}: {task.team_size} agents, and the design says {task.design.get('n_agents')!r}"
        )
    n, held = task.team_size, Counter(note.text for own in task.private for note in own)
    clues = task.design.get("n_clues")
    if clues != len(held):
        faults.append(f"{task.id}: {len(held)} different clues are held, and the design says {clues!r}")
    least, most = (1, 1) if n >= len(held) else (len(held) // n, -(-len(held) // n))
    wanted = str(least) if least == most else f"{least} or {most}"
    faults += [
        f"{task.id}: agent {i} holds {len(own)} clues instead of {wanted}"
        for i, own in enumerate(task.private)
        if not least <= len(own) <= most
    ]
    holders = max(1, -(-n // max(1, len(held))))
    faults += [f"{task.id}: {text!r} is held {k} times" for text, k in held.items() if k > holders]
    shared = Counter(note.text for note in task.shared)
    faults += [
        f"{task.id}: {text!r} occurs {shared[text] + held[text]} times"
        for text in shared
        if shared[text] + held[text] > 1
    ]
    faults += [f"{task.id}: an empty note" for text in (*shared, *held) if not text.strip()]
    return faults
