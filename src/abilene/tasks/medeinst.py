"""MedEinst: the case that everybody knows points to one diagnosis, and one finding turns it into another.

The data has pairs of a typical case (control) and a counterfactual one (trap). Everybody reads what the two have
in common, which speaks for the diagnosis of the control. The finding that the trap adds is decisive for the trap's
diagnosis, the correct answer; n_inf agents hold it, and every other private note is a neutral finding taken out of
the common ones. An answer equal to the control's diagnosis (`design["control_diagnosis"]`) is the bias trap.

How cases become findings is in `abilene.tasks.casepairs`.

Source: MedEinst (arXiv 2601.06636), CC BY 4.0. Any file with such rows will do; `abilene.tasks.ddxplus` makes one.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from abilene.errors import InputError, UsageError
from abilene.seeds import child_rng, uniform
from abilene.tasks.casepairs import Pair, read_pairs, resembles
from abilene.tasks.hub import MEDEINST, HubFile, local_or_hub
from abilene.tasks.rows import spread
from abilene.tasks.task import Note, Task

BENCHMARK = "medeinst"

#: Findings that everybody must still read.
MIN_SHARED = 6

_QUESTION = "One patient, one main diagnosis: which of the listed diagnoses explains the findings best?"


def load(
    path: str | Path | None = None,
    *,
    seed: int = 0,
    tasks: int | None = None,
    team_size: int = 5,
    informed: Sequence[int] = (0, 1, 2, 3),
    per_level: int = 30,
    findings: int = 1,
    options: int = 5,
    source: HubFile = MEDEINST,
) -> tuple[Task, ...]:
    """Tasks from the pairs of a MedEinst file.

    Parameters
    ----------
    path : str or Path, optional
        JSON lines as published; without it the file is taken from the hub.
    seed : int
        Decides which pairs are taken, for which level, and who holds what. No pair is used twice.
    tasks : int, optional
        Total number of tasks, spread evenly over the levels; replaces `per_level`. A smaller selection is part
        of every larger one.
    team_size : int
        N >= 2.
    informed : sequence of int
        Levels of n_inf, the number of agents that hold the decisive finding, each in 0..N and each once.
    per_level : int
        Tasks of each level.
    findings : int
        Private findings of each agent; the benchmark's variant has 3.
    options : int
        Diagnoses to choose from: the trap's, the control's and others of the file, as far as it has them; the
        benchmark's variant has 2.
    source : HubFile
        Where on the hub the data is.

    Returns
    -------
    tuple of Task
        By level. Ids are ``me-<n_inf>-<case id>``. `design` holds n_agents, n_informed, p_design = n_inf / N,
        informed (indices of the informed agents, comma-separated), control_diagnosis, case_id, removed (findings of
        the control that nobody reads) and altered (common findings whose details differ). The decisive note is about
        the answer, neutral ones about nothing. Every pair could serve at every level, so that levels do not differ
        in their cases.

    Warns
    -----
    UserWarning
        Fewer tasks than asked for, tasks with `cautions`; always with counts, and then with those of the pairs
        left out and why.

    Raises
    ------
    InputError
        The file or a row cannot be used, or no pair would do even for two agents with one finding each.
    UsageError
        A number out of range, or no usable pair for so many agents and findings.
    """
    levels = tuple(informed)
    _check_design(team_size, levels, findings, options)
    file = local_or_hub(path, source)
    pairs, left_out, diagnoses = read_pairs(file)
    needed = team_size * findings - min(levels)
    wanted = per_level * len(levels) if tasks is None else tasks
    usable: list[Pair] = []
    spare = False  # whether a pair that is left out would do for the smallest team with one finding each
    for pair in sorted(pairs, key=lambda pair: uniform(seed, BENCHMARK, "pick", pair.case_id)):
        if len(usable) == wanted:
            break
        if _serves(pair, needed):
            usable.append(pair)
            continue
        if len(pair.common) - needed < MIN_SHARED:
            left_out[f"have fewer than {needed + MIN_SHARED} common findings"] += 1
        else:
            left_out[f"have fewer than {needed} common findings unlike the decisive one"] += 1
        spare = spare or _serves(pair, max(0, 2 - min(levels)))
    # One pass over the pairs, a level each in turn: no pair serves twice, and more tasks keep the earlier ones.
    places = [len(usable[k :: len(levels)]) for k in range(len(levels))]
    counts = spread(places, per_level, tasks)
    if not usable and spare:
        raise UsageError(f"{file} has no usable pair{_list(left_out)}. Ask for fewer agents or findings.")
    if not usable:
        raise InputError(
            file,
            f"has no usable pair{_list(left_out)}",
            "Give a file with pairs of two different diagnoses, whose trap adds exactly one finding to at least "
            f"{MIN_SHARED} common ones.",
        )
    made = [
        _make(pair, level, team_size, findings, _options(pair, diagnoses, options, seed), seed)
        for k, (level, n) in enumerate(zip(levels, counts, strict=True))
        for pair in usable[k :: len(levels)][:n]
    ]
    _warn(made, wanted, left_out)
    return tuple(made)


def _serves(pair: Pair, needed: int) -> bool:
    return len(pair.common) - needed >= MIN_SHARED and len(pair.neutral()) >= needed


def _check_design(team_size: int, levels: tuple[int, ...], findings: int, options: int) -> None:
    if team_size < 2:
        raise UsageError(f"team size {team_size}: a discussion needs at least 2 agents.")
    if not levels or len(set(levels)) != len(levels):
        raise UsageError(f"informed levels {list(levels)}: give at least one level, and each only once.")
    if wrong := [level for level in levels if not 0 <= level <= team_size]:
        raise UsageError(
            f"informed level {wrong[0]}: the number of informed agents must lie between 0 and the team size "
            f"{team_size}."
        )
    if findings < 1:
        raise UsageError(f"{findings} findings per agent: it must be at least 1.")
    if options < 2:
        raise UsageError(
            f"{options} options: there must be at least 2, the trap's and the control's diagnosis."
        )


def _options(pair: Pair, diagnoses: Sequence[str], n: int, seed: int) -> tuple[str, ...]:
    rng = child_rng(seed, BENCHMARK, "options", pair.case_id)
    taken = {pair.trap.casefold(), pair.control.casefold()}
    others = [d for d in diagnoses if d.casefold() not in taken]
    listed = [pair.trap, pair.control, *(others[k] for k in rng.permutation(len(others))[: n - 2])]
    return tuple(listed[k] for k in rng.permutation(len(listed)))


def _make(pair: Pair, level: int, team_size: int, findings: int, options: tuple[str, ...], seed: int) -> Task:
    rng = child_rng(seed, BENCHMARK, team_size, level, findings, pair.case_id)
    agents = sorted(int(i) for i in rng.choice(team_size, size=level, replace=False))
    neutral = pair.neutral()
    fillers = [neutral[k] for k in rng.permutation(len(neutral))[: team_size * findings - level]]
    given = set(fillers)
    private = []
    for i in range(team_size):
        own = [Note(pair.decisive.note_text(), about=pair.trap, decisive=True)] if i in agents else []
        own += [Note(fillers.pop().note_text()) for _ in range(findings - len(own))]
        private.append(tuple(own[k] for k in rng.permutation(len(own))))
    shared = [Note(f"[Patient] {', '.join(pair.person)}")] if pair.person else []
    shared += [Note(f.note_text()) for f in pair.common if f not in given]
    return Task(
        id=f"me-{level}-{pair.case_id}",
        benchmark=BENCHMARK,
        question=_QUESTION,
        options=options,
        answer=pair.trap,
        shared=tuple(shared),
        private=tuple(private),
        design={
            "n_agents": team_size,
            "n_informed": level,
            "p_design": level / team_size,
            "informed": ",".join(map(str, agents)),
            "control_diagnosis": pair.control,
            "case_id": pair.case_id,
            "removed": pair.removed,
            "altered": pair.altered,
        },
    )


def _warn(made: list[Task], wanted: int, left_out: Counter[str]) -> None:
    said = []
    if len(made) < wanted:
        said.append(f"{len(made)} tasks instead of {wanted}{_list(left_out)}")
    for kind, n in Counter(kind for task in made for kind in cautions(task)).items():
        said.append(f"in {n} of {len(made)} tasks {kind}")
    if said:
        warnings.warn(f"MedEinst: {'; '.join(said)}.", UserWarning, stacklevel=3)


def _list(left_out: Counter[str]) -> str:
    if not left_out:
        return ""
    return f" (pairs left out: {', '.join(f'{n} {why}' for why, n in left_out.items())})"


def cautions(task: Task) -> list[str]:
    """What may make a sound task easier than meant, in words: a diagnosis written out in a finding."""
    notes = [*task.shared, *(note for own in task.private for note in own)]
    found = []
    for kind, name in (
        ("answer", task.answer),
        ("control's diagnosis", task.design.get("control_diagnosis")),
    ):
        pattern = re.compile(rf"(?<!\w){re.escape(str(name))}(?!\w)", re.IGNORECASE)
        if any(pattern.search(note.text) for note in notes):
            found.append(f"a finding names the {kind}")
    return found


def check(task: Task) -> list[str]:
    """What is wrong with a MedEinst task, in words; empty if it is as designed."""
    faults = []

    def expect(what: str, found: object, wanted: object) -> None:
        if found != wanted:
            faults.append(f"{task.id}: {what}: found {found!r}, expected {wanted!r}")

    control = task.design.get("control_diagnosis")
    if task.answer not in task.options or control not in task.options or control == task.answer:
        faults.append(
            f"{task.id}: the answer {task.answer!r} and the control's diagnosis {control!r} must be two of the "
            f"options {task.options!r}"
        )
    expect("distinct options", len({o.casefold() for o in task.options}), len(task.options))
    informed = {int(i) for i in str(task.design.get("informed", "")).split(",") if i}
    expect("n_agents", task.design.get("n_agents"), task.team_size)
    expect("n_informed", task.design.get("n_informed"), len(informed))
    expect("p_design", task.design.get("p_design"), len(informed) / task.team_size)
    expect("holders of a decisive finding", {i for i, o in enumerate(task.private) if _decisive(o)}, informed)
    expect("decisive findings that everybody reads", _decisive(task.shared), [])
    expect(
        "decisive findings", len({n.text for o in task.private for n in _decisive(o)}), min(1, len(informed))
    )
    expect("findings per agent", len({len(own) for own in task.private}), 1)
    decisive = [n for own in task.private for n in _decisive(own)]
    neutral = [n for own in task.private for n in own if not n.decisive]
    faults += [f"{task.id}: {n.text!r} is not about the answer" for n in decisive if n.about != task.answer]
    faults += [f"{task.id}: the neutral {n.text!r} is about {n.about!r}" for n in neutral if n.about]
    for note in neutral if decisive else ():
        if resembles(_bare(note.text), _bare(decisive[0].text)):
            faults.append(f"{task.id}: {note.text!r} resembles the decisive finding {decisive[0].text!r}")
    open_findings = [n for n in task.shared if not n.text.startswith("[Patient] ")]
    if len(open_findings) < MIN_SHARED:
        faults.append(f"{task.id}: {len(open_findings)} shared findings, fewer than {MIN_SHARED}")
    texts = Counter([n.text for n in (*task.shared, *neutral)] + sorted({n.text for n in decisive}))
    faults += [f"{task.id}: the finding {text!r} occurs {n} times" for text, n in texts.items() if n > 1]
    return faults


def _decisive(notes: Sequence[Note]) -> list[Note]:
    return [note for note in notes if note.decisive]


def _bare(text: str) -> str:
    return text.partition("] ")[2] if text.startswith("[") else text
