"""Hidden profile: a panel chooses between two people, and only the pooled notes favor the stronger one.

The file that everybody reads has 3 findings for the weaker candidate and 1 for the stronger. Every agent holds
1 more for the weaker, and 4 (informed) or 2 (other agents) for the stronger. An informed agent therefore sees
the stronger candidate ahead by 5 to 4, every other agent sees the weaker ahead by 4 to 3, and independent
accuracy is p = n_inf / N by design. Pooled, the stronger has 1 + 2 N + 2 n_inf findings and the weaker 3 + N.
"""

from __future__ import annotations

import operator
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from abilene.errors import UsageError
from abilene.seeds import child_rng
from abilene.tasks.evidence import favored, view_counts
from abilene.tasks.task import Note, Task

BENCHMARK = "hidden_profile"

#: Findings (for the stronger, for the weaker) in the common file, with an informed agent, with another agent.
SHARED, INFORMED, OTHER = (1, 3), (4, 1), (2, 1)

_QUESTIONS = (
    "The post of {role} is to be filled, and two people are left. Which of them should get the offer?",
    "Two finalists remain for the post of {role}. Whom should the committee recommend?",
    "The search for a {role} has come down to two people. Which one is the better choice?",
    "The committee must name one of two finalists for the post of {role}. Who should it be?",
)


@dataclass(frozen=True, slots=True)
class _Parts:
    names: tuple[str, ...]
    roles: tuple[str, ...]
    places: tuple[str, ...]
    actions: tuple[tuple[str, tuple[str, ...]], ...]  # each with the effects of its family


@cache
def _parts() -> _Parts:
    raw = tomllib.loads((resources.files("abilene.tasks") / "findings.toml").read_text(encoding="utf-8"))
    names, roles, places = (tuple(raw.pop(key)) for key in ("names", "roles", "places"))
    actions = tuple((a, tuple(family["effects"])) for family in raw.values() for a in family["actions"])
    return _Parts(names, roles, places, actions)


def _findings(rng: np.random.Generator) -> Iterator[str]:
    """All findings in random order, without replacement; an action recurs only after every other was used."""
    parts = _parts()
    order = rng.permutation(len(parts.actions))
    variants: dict[int, np.ndarray] = {}
    for turn in range(max(len(effects) for _, effects in parts.actions) * len(parts.places)):
        for i in order:
            action, effects = parts.actions[i]
            n = len(effects) * len(parts.places)
            if i not in variants:
                variants[i] = rng.permutation(n)
            if turn < n:
                place, effect = divmod(int(variants[i][turn]), len(effects))
                yield f"{parts.places[place]}, {action}, {effects[effect]}."


def max_findings() -> int:
    """Number of distinct findings that can be composed."""
    return sum(len(effects) for _, effects in _parts().actions) * len(_parts().places)


def make_tasks(
    *,
    team_size: int = 5,
    informed: Sequence[int] | None = None,
    per_level: int = 30,
    seed: int = 0,
    tasks: int | None = None,
) -> tuple[Task, ...]:
    """Hidden-profile tasks.

    Parameters
    ----------
    team_size : int
        N >= 2.
    informed : sequence of int
        Levels of n_inf, the number of informed agents, each in 0..N and each once; left out: those of 0 to 3 that
        make a hidden profile for this team size.
    per_level : int
        Tasks of each level, at least 1.
    seed : int
        Root seed. A task depends on the seed, on N and on its own id alone, so that it stays the same when
        levels or tasks are added.
    tasks : int, optional
        Total number of tasks, spread evenly over the levels (the first levels get one more); replaces
        `per_level`.

    Returns
    -------
    tuple of Task
        By level. Ids are ``hp-<n_inf>-<number>``. `design` holds n_agents, n_informed, p_design = n_inf / N,
        informed (indices of the informed agents, comma-separated) and stronger (the candidate).

    Raises
    ------
    UsageError
        A number out of range, or a design that does not do what a hidden profile must: pooled evidence for
        the stronger candidate, and only informed agents seeing it ahead.

    Examples
    --------
    >>> task = make_tasks(informed=[2], per_level=1)[0]
    >>> task.id, task.team_size, task.design["p_design"]
    ('hp-2-000', 5, 0.4)
    >>> sorted(view_counts(task.options, task.shared).values())
    [1, 3]
    """
    if informed is None:
        informed = [k for k in range(min(3, team_size) + 1) if operator.gt(*_pooled(team_size, k))]
    levels = tuple(informed)
    _check_design(team_size, levels, per_level, tasks)
    if tasks is None:
        sizes = [per_level] * len(levels)
    else:
        sizes = [tasks // len(levels) + (k < tasks % len(levels)) for k in range(len(levels))]
    return tuple(
        _make(team_size, level, i, seed)
        for level, size in zip(levels, sizes, strict=True)
        for i in range(size)
    )


def _check_design(team_size: int, levels: tuple[int, ...], per_level: int, tasks: int | None) -> None:
    if team_size < 2:
        raise UsageError(f"team size {team_size}: a discussion needs at least 2 agents.")
    if not levels or len(set(levels)) != len(levels):
        raise UsageError(f"informed levels {list(levels)}: give at least one level, and each only once.")
    if wrong := [level for level in levels if not 0 <= level <= team_size]:
        raise UsageError(
            f"informed level {wrong[0]}: the number of informed agents must lie between 0 and the team size "
            f"{team_size}."
        )
    if per_level < 1 or (tasks is not None and tasks < 1):
        raise UsageError("the number of tasks must be at least 1.")
    for level in levels:
        strong, weak = _pooled(team_size, level)
        if strong <= weak:
            raise UsageError(
                f"no hidden profile with {level} informed of {team_size} agents: all notes together count "
                f"{strong} for the stronger and {weak} for the weaker candidate. Take a larger team or more "
                "informed agents."
            )
        if strong + weak > max_findings():
            raise UsageError(
                f"team size {team_size}: a task needs {strong + weak} distinct findings, and there are "
                f"{max_findings()}. Take a smaller team."
            )


def _pooled(team_size: int, level: int) -> tuple[int, int]:
    """Findings for the stronger and the weaker candidate in everything together."""
    strong, weak = (SHARED[k] + level * INFORMED[k] + (team_size - level) * OTHER[k] for k in range(2))
    return strong, weak


def _make(team_size: int, level: int, number: int, seed: int) -> Task:
    name = f"hp-{level}-{number:03d}"
    rng = child_rng(seed, BENCHMARK, team_size, name)
    stronger, weaker = _two_names(rng)
    options = (stronger, weaker) if rng.random() < 0.5 else (weaker, stronger)
    agents = sorted(int(i) for i in rng.choice(team_size, size=level, replace=False))
    question = str(rng.choice(_QUESTIONS)).format(role=rng.choice(_parts().roles))
    findings = _findings(rng)

    def notes(counts: tuple[int, int]) -> tuple[Note, ...]:
        made = [
            Note(f"{who}: {next(findings)}", about=who)
            for who, n in zip((stronger, weaker), counts, strict=True)
            for _ in range(n)
        ]
        return tuple(made[i] for i in rng.permutation(len(made)))

    return Task(
        id=name,
        benchmark=BENCHMARK,
        question=question,
        options=options,
        answer=stronger,
        shared=notes(SHARED),
        private=tuple(notes(INFORMED if i in agents else OTHER) for i in range(team_size)),
        design={
            "n_agents": team_size,
            "n_informed": level,
            "p_design": level / team_size,
            "informed": ",".join(map(str, agents)),
            "stronger": stronger,
        },
    )


def _two_names(rng: np.random.Generator) -> tuple[str, str]:
    """Two names with different initials, so that they are easily told apart."""
    names = _parts().names
    first = names[int(rng.integers(len(names)))]
    others = [n for n in names if n[0] != first[0]]
    return first, others[int(rng.integers(len(others)))]


def check(task: Task) -> list[str]:
    """What is wrong with a hidden-profile task, in words; empty if it is as designed.

    Examples
    --------
    >>> [check(task) for task in make_tasks(per_level=1)]
    [[], [], [], []]
    """
    faults: list[str] = []

    def expect(what: str, found: object, wanted: object) -> None:
        if found != wanted:
            faults.append(f"{task.id}: {what}: found {found!r}, expected {wanted!r}")

    if len(set(task.options)) != 2 or task.answer not in task.options:
        return [f"{task.id}: the answer {task.answer!r} must be one of two options, found {task.options!r}"]
    weaker = next(o for o in task.options if o != task.answer)
    names = [o.casefold() for o in task.options]
    if names[0] in names[1] or names[1] in names[0]:
        faults.append(f"{task.id}: one name is part of the other: {task.options!r}")
    informed = {int(i) for i in str(task.design.get("informed", "")).split(",") if i}
    level, size = len(informed), task.team_size
    expect("n_agents", task.design.get("n_agents"), size)
    expect("n_informed", task.design.get("n_informed"), level)
    expect("p_design", task.design.get("p_design"), level / size)
    expect("stronger", task.design.get("stronger"), task.answer)

    def counts(notes: tuple[Note, ...]) -> tuple[int, int]:
        found = view_counts(task.options, notes)
        return found[task.answer], found[weaker]

    expect("common file", counts(task.shared), SHARED)
    for i, own in enumerate(task.private):
        expect(f"notes of agent {i}", counts(own), INFORMED if i in informed else OTHER)
        wanted = task.answer if i in informed else weaker
        expect(f"candidate ahead for agent {i}", favored(task.options, (*task.shared, *own)), wanted)
    everything = (*task.shared, *(note for own in task.private for note in own))
    expect("pooled findings", counts(everything), _pooled(size, level))
    expect("candidate ahead in everything", favored(task.options, everything), task.answer)
    for note in everything:
        named = [o for o in task.options if o.casefold() in note.text.casefold()]
        expect(f"names in the finding {note.text!r}", named, [note.about])
    bodies = Counter(note.text.removeprefix(f"{note.about}: ") for note in everything)
    faults += [f"{task.id}: finding {text!r} occurs {n} times" for text, n in bodies.items() if n > 1]
    return faults
