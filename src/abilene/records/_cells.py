"""The record as arrays: one cell for every agent and round that a discussion should have.

Cells of a discussion (setting, task, epoch) with N agents lie together, round by round: cell = start + t N + i.
Answers are codes from one list; -1 is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from abilene.errors import InputError
from abilene.records.loaded import Notes, fold
from abilene.records.schema import ANSWERED, SETTING_PARTS, Source, Status

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Codes of `Cells.status`: the position in this list.
STATUSES: tuple[str, ...] = tuple(Status)
_MISSING = STATUSES.index(Status.MISSING)
_MOST_GAPS = 20

#: Verdicts on a task's answer key.
KEY_FINE, KEY_MISSING, KEY_CONFLICT, KEY_SEVERAL = 0, 1, 2, 3


def codes(series: pl.Series, *, by_length: bool = False) -> tuple[Ints, list[str]]:
    """Codes from 0 in sorted order (null: -1), and the texts they stand for; `by_length`: 2 before 10."""
    names = series.unique().drop_nulls().sort()
    if by_length:
        names = names.gather(np.argsort(names.str.len_bytes().to_numpy(), kind="stable"))
    coded = series.cast(pl.Enum(names)).to_physical().cast(pl.Int64).fill_null(-1)
    return coded.to_numpy(), names.to_list()


def combine(*parts: Ints) -> tuple[Ints, list[Ints]]:
    """Codes of distinct combinations, in their sorted order, and the parts of each combination."""
    key = np.zeros(parts[0].size, dtype=np.int64)
    for part in parts:
        size = int(part.max(initial=-1)) + 2
        _, key = np.unique(key, return_inverse=True)  # keeps the products small
        key = key * size + (part + 1)
    _, first, key = np.unique(key, return_index=True, return_inverse=True)
    return key.astype(np.int64), [part[first] for part in parts]


@dataclass(frozen=True, slots=True)
class Cells:
    """Arrays over cells, discussions (groups) and tasks of settings; see `build`."""

    settings: list[dict[str, str | None]]
    task_names: list[str]
    agent_names: list[str]
    answers: list[str]
    # by group (discussion)
    group_setting: Ints
    group_unit: Ints
    group_epoch: Ints
    group_size: Ints
    group_rounds: Ints  # T of its setting
    start: Ints  # first cell
    # by unit (task of a setting)
    unit_setting: Ints
    unit_task: Ints
    unit_truth: Ints
    unit_key: Ints
    # by cell
    group: Ints
    round: Ints
    agent: Ints
    row: Ints  # row of the record, -1: absent
    private: Ints
    public: Ints
    private_status: Ints
    public_status: Ints
    joint: Bools
    # where to look things up
    member_key: Ints  # group * agents + agent, sorted
    member_place: Ints

    def place(self, group: Ints, agent: Ints) -> Ints:
        """Index of an agent within its discussion, -1 where it never occurs."""
        key = np.where(agent < 0, -1, group * len(self.agent_names) + agent)
        at = np.minimum(np.searchsorted(self.member_key, key), self.member_key.size - 1)
        return np.where(self.member_key[at] == key, self.member_place[at], -1)


def build(record: pl.DataFrame, notes: Notes) -> Cells:
    """Arrays of a record that is not empty.

    Raises
    ------
    InputError
        Round numbers leave gaps so large that the expected rows cannot be laid out.
    """
    parts = [codes(record[p]) for p in SETTING_PARTS]
    setting, setting_parts = combine(*(c for c, _ in parts))
    settings = [
        {
            p: None if c[s] < 0 else names[c[s]]
            for p, c, (_, names) in zip(SETTING_PARTS, setting_parts, parts, strict=True)
        }
        for s in range(setting_parts[0].size)
    ]
    task, task_names = codes(record["task"])
    agent, agent_names = codes(record["agent"], by_length=True)
    epoch = record["epoch"].fill_null(1).cast(pl.Int64).to_numpy()
    t = record["round"].cast(pl.Int64).to_numpy()
    unit, (unit_setting, unit_task) = combine(setting, task)
    epoch_code, epochs = np.unique(epoch, return_inverse=True)[1].astype(np.int64), np.unique(epoch)
    group, (group_unit, group_epoch) = combine(unit, epoch_code)

    rounds = np.zeros(len(settings), dtype=np.int64)
    np.maximum.at(rounds, setting, t)
    member = np.unique(group * len(agent_names) + agent)
    member_group = member // len(agent_names)
    size = np.bincount(member_group, minlength=group_unit.size)
    first = np.concatenate([[0], size.cumsum()[:-1]])
    place = np.arange(member.size) - first[member_group]
    group_rounds = rounds[unit_setting[group_unit]]
    n_cells = size * (group_rounds + 1)
    total = int(n_cells.sum())
    if total > 1_000_000 + _MOST_GAPS * record.height:
        raise InputError(
            "record",
            f"{record.height} rows for {total} agents and rounds (the last round is {int(t.max())})",
            "Check the round numbers: they count 0, 1, 2, ... within each discussion.",
        )
    start = np.concatenate([[0], n_cells.cumsum()[:-1]])
    cell_group = np.repeat(np.arange(size.size), n_cells)
    within = np.arange(total) - start[cell_group]
    cell_round, cell_place = np.divmod(within, size[cell_group])
    cell_agent = member[first[cell_group] + cell_place] % len(agent_names)

    row = np.full(total, -1, dtype=np.int64)
    at = np.searchsorted(member, group * len(agent_names) + agent)
    cell = start[group] + t * size[group] + place[at]
    row[cell] = np.arange(record.height)  # numpy keeps the last of repeated indices
    notes.add(
        "repeated_row",
        "rows with the same setting, task, epoch, round and agent",
        "The last one counts.",
        count=record.height - int((row >= 0).sum()),
        fault=True,
    )

    said, known, truth, answers = _answers(record, unit, t, notes)
    unit_truth, unit_key = _answer_keys(
        truth, unit, unit_setting.size, (said[0], known[0]), answers, unit_task, task_names, notes
    )
    present = row >= 0
    pick = np.where(present, row, 0)
    joint = (record["private_source"] == Source.JOINT).fill_null(False).to_numpy()
    return Cells(
        settings=settings,
        task_names=task_names,
        agent_names=agent_names,
        answers=answers,
        group_setting=unit_setting[group_unit],
        group_unit=group_unit,
        group_epoch=epochs[group_epoch],
        group_size=size,
        group_rounds=group_rounds,
        start=start,
        unit_setting=unit_setting,
        unit_task=unit_task,
        unit_truth=unit_truth,
        unit_key=unit_key,
        group=cell_group,
        round=cell_round,
        agent=cell_agent,
        row=row,
        private=np.where(present, known[0][pick], -1),
        public=np.where(present, said[0][pick], -1),
        private_status=np.where(present, known[1][pick], _MISSING),
        public_status=np.where(present, said[1][pick], _MISSING),
        joint=present & joint[pick] & (known[0][pick] >= 0),
        member_key=member,
        member_place=place,
    )


Reply = tuple[Ints, Ints]


def _answers(record: pl.DataFrame, unit: Ints, t: Ints, notes: Notes) -> tuple[Reply, Reply, Ints, list[str]]:
    """Public and private answers as codes with statuses, and the answer keys."""
    names = ("public", "private", "truth")
    seen = record["observed_public"].drop_nulls()
    texts = pl.concat([*(record[n].unique() for n in names), seen.explode().unique()])
    answers = texts.unique().drop_nulls().sort()
    kind = pl.Enum(answers)

    def code(name: str) -> Ints:
        return record[name].cast(kind).to_physical().cast(pl.Int64).fill_null(-1).to_numpy().copy()

    status_codes = {s: i for i, s in enumerate(STATUSES)}
    joint = (record["private_source"] == Source.JOINT).fill_null(False).to_numpy()
    replies = []
    for name in names[:2]:
        value = code(name)
        raw = record[f"{name}_status"].replace_strict(status_codes, default=None, return_dtype=pl.Int64)
        status = raw.fill_null(_MISSING).to_numpy().copy()
        answered = np.isin(status, [STATUSES.index(s) for s in ANSWERED])
        # An answer whose own status says there is none; the joint line stands beside the probe's status.
        contradiction = (value >= 0) & ~answered & raw.is_not_null().to_numpy()
        if name == "private":
            contradiction &= ~joint
        notes.add(
            "answer_against_status",
            f"a {name} answer beside a status that says there is none",
            "It counts as missing.",
            field=name,
            count=int(contradiction.sum()),
            fault=True,
        )
        value[contradiction] = -1
        status[answered & (value < 0)] = _MISSING
        replies.append((value, status))
    said, known = replies
    # Round 0 is one answer: where only one of its two columns is filled, it stands for both.
    for one, other in ((said, known), (known, said)):
        lacks = (t == 0) & (one[0] < 0) & (other[0] >= 0)
        one[0][lacks] = other[0][lacks]
    return said, known, code("truth"), answers.to_list()


def _answer_keys(
    truth: Ints,
    unit: Ints,
    units: int,
    given: tuple[Ints, Ints],
    answers: list[str],
    unit_task: Ints,
    task_names: list[str],
    notes: Notes,
) -> tuple[Ints, Ints]:
    """One answer key for each task of a setting, or why there is none."""
    k = max(len(answers), 1)
    pairs = np.unique(unit[truth >= 0] * k + truth[truth >= 0])
    per_unit = np.bincount(pairs // k, minlength=units)
    key = np.full(units, -1, dtype=np.int64)
    key[pairs // k] = pairs % k
    verdict = np.where(per_unit == 0, KEY_MISSING, np.where(per_unit > 1, KEY_CONFLICT, KEY_FINE))
    seen = np.unique(np.concatenate([(unit * k + g)[g >= 0] for g in given]))
    unseen = ~np.isin(pairs, seen)
    suspects = np.unique(np.concatenate([pairs[unseen] // k, np.flatnonzero(per_unit > 1)]))
    if not suspects.size:
        return key, verdict
    folded = [fold(a) for a in answers]
    low, high = np.searchsorted(seen, suspects * k), np.searchsorted(seen, (suspects + 1) * k)
    p_low, p_high = np.searchsorted(pairs, suspects * k), np.searchsorted(pairs, (suspects + 1) * k)
    for u, a, b, pa, pb in zip(suspects, low, high, p_low, p_high, strict=True):
        keys = {int(c) for c in pairs[pa:pb] % k}
        options = {int(c) for c in seen[a:b] % k}
        where = f"task {task_names[unit_task[u]]}"
        if len({folded[c] for c in keys}) > 1:
            named = " and ".join(repr(answers[c]) for c in sorted(keys)[:2])
            notes.add(
                "conflicting_answer_key",
                f"{where} has several answer keys ({named})",
                "Its rows were left out.",
                field="truth",
                fault=True,
            )
            continue
        if len(keys) == 1 and keys <= options:
            continue
        text = answers[min(keys)]
        alike = {c for c in options if folded[c] == fold(text)}
        if len(alike) > 1 and len(keys & alike) == 1:
            alike &= keys
        if len(alike) > 1:
            verdict[u] = KEY_SEVERAL
            notes.add(
                "ambiguous_answer_key",
                f"{where}: the answer key {text!r} matches several answers that differ in case or space only",
                "Its rows were left out. Write answers and answer key in one way.",
                field="truth",
                fault=True,
            )
            continue
        verdict[u] = KEY_FINE
        key[u] = alike.pop() if alike else min(keys)
        if key[u] in options:
            notes.add(
                "answer_key_spelling",
                f"{where}: the answer key {text!r} is given as {answers[key[u]]!r} by the agents",
                "They were taken as the same answer.",
                field="truth",
            )
    return key, verdict
