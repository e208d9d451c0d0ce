"""What every agent saw: the majority and the dissent among the answers visible to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from abilene.records._cells import Bools, Cells, Ints
from abilene.records.loaded import Notes

_PAIRS = 4_000_000  # seen answers handled at once


@dataclass(slots=True)
class Seen:
    """By discussion row (cell of a round >= 1)."""

    visible: Ints  # answers seen that are not missing
    differing: Ints  # of these, how many differ from the private answer on entering
    majority: Ints  # code of their unique plurality, -1: none
    observes: Bools  # whether the agent observes anybody


@dataclass(slots=True)
class Tally:
    """Public answers by discussion and round (a block), counted."""

    block_of_group: Ints  # first block
    keys: Ints  # block * K + answer, sorted
    counts: Ints
    total: Ints  # answers of a block
    top: tuple[Ints, Ints, Ints]  # the three leading answers of a block, -1: none
    top_counts: tuple[Ints, Ints, Ints]
    k: int

    def count(self, block: Ints, answer: Ints) -> Ints:
        """How often an answer was given in a block; 0 for a missing one."""
        if not self.keys.size:
            return np.zeros(block.size, dtype=np.int64)
        key = np.where(answer < 0, -1, block * self.k + answer)
        at = np.minimum(np.searchsorted(self.keys, key), self.keys.size - 1)
        return np.where(self.keys[at] == key, self.counts[at], 0)

    def plurality(self, block: Ints) -> tuple[Ints, Bools]:
        """Unique plurality of a block (-1: none), and whether there are any answers."""
        best, some = self.top[0][block], self.total[block] > 0
        return np.where(self.top_counts[0][block] > self.top_counts[1][block], best, -1), some


def tally(cells: Cells) -> Tally:
    """Count the public answers of every round of every discussion."""
    k = max(len(cells.answers), 1)
    blocks = cells.group_rounds + 1
    first = np.concatenate([[0], blocks.cumsum()[:-1]])
    n_blocks = int(blocks.sum())
    block = first[cells.group] + cells.round
    given = cells.public >= 0
    keys, counts = np.unique(block[given] * k + cells.public[given], return_counts=True)
    owner = keys // k
    order = np.lexsort((-counts, owner))
    sorted_owner = owner[order]
    begins = np.searchsorted(sorted_owner, np.arange(n_blocks))
    ends = np.searchsorted(sorted_owner, np.arange(n_blocks), side="right")
    top, top_counts = [], []
    for rank in range(3):
        at = begins + rank
        there = at < ends
        pick = order[np.where(there, at, 0)] if order.size else np.zeros(n_blocks, dtype=np.int64)
        top.append(np.where(there, keys[pick] % k, -1) if order.size else np.full(n_blocks, -1))
        top_counts.append(np.where(there, counts[pick], 0) if order.size else np.zeros(n_blocks, np.int64))
    return Tally(
        first,
        keys,
        counts,
        np.bincount(owner, weights=counts, minlength=n_blocks).astype(np.int64),
        (top[0], top[1], top[2]),
        (top_counts[0], top_counts[1], top_counts[2]),
        k,
    )


def look(record: pl.DataFrame, cells: Cells, counted: Tally, target: Ints, notes: Notes) -> Seen:
    """What the agents of the target cells saw.

    Parameters
    ----------
    record : polars.DataFrame
        For the columns `observed` and `observed_public`.
    cells, counted
        As built from the same record.
    target : ndarray
        Cells of rounds >= 1 whose rows are present.
    notes : Notes
        Where oddities are counted.
    """
    n = target.size
    group, row = cells.group[target], cells.row[target]
    previous = target - cells.group_size[group]
    own = cells.private[previous]
    seen = Seen(
        np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, -1, np.int64), np.ones(n, dtype=np.bool_)
    )
    answers = record["observed_public"].gather(row)
    agents = record["observed"].gather(row)
    by_answer = answers.is_not_null().to_numpy()
    by_agent = agents.is_not_null().to_numpy() & ~by_answer
    everybody = ~by_answer & ~by_agent
    for at in _chunks(np.flatnonzero(by_agent), agents):
        everybody[at] = _from_agents(agents, at, cells, group, target, own, counted.k, seen, notes)
    kind = pl.Enum(cells.answers)
    for at in _chunks(np.flatnonzero(by_answer), answers):
        owner, items = _explode(answers, at)
        code = items.cast(kind).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        _settle(seen, at, owner, code, own, counted.k)
    if everybody.any():
        _everybody(seen, np.flatnonzero(everybody), cells, counted, group, previous, own)
    return seen


def _chunks(at: Ints, lists: pl.Series) -> list[Ints]:
    if not at.size:
        return []
    size = lists.gather(at).list.len().fill_null(0).to_numpy().astype(np.int64).cumsum()
    cuts = np.searchsorted(size, np.arange(_PAIRS, int(size[-1]) + 1, _PAIRS))
    return [c for c in np.split(at, np.unique(cuts)) if c.size]


def _explode(lists: pl.Series, at: Ints) -> tuple[Ints, pl.Series]:
    """Elements of the lists, and for each the position in `at` of its list."""
    chosen = lists.gather(at)
    size = chosen.list.len().to_numpy().astype(np.int64)
    return np.repeat(np.arange(at.size), size), chosen.filter(chosen.list.len() > 0).explode()


def _from_agents(
    agents: pl.Series,
    at: Ints,
    cells: Cells,
    group: Ints,
    target: Ints,
    own: Ints,
    k: int,
    seen: Seen,
    notes: Notes,
) -> Bools:
    """Answers of listed agents. True where the list is everybody else, which is counted elsewhere, faster."""
    owner, items = _explode(agents, at)
    names = pl.Enum(cells.agent_names)
    code = items.cast(names, strict=False).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    cell = target[at[owner]]
    itself = code == cells.agent[cell]
    notes.add(
        "observes_itself",
        "an agent listed among those it observes",
        "It was taken off the list.",
        field="observed",
        count=int(itself.sum()),
    )
    owner, code = owner[~itself], code[~itself]
    who = group[at[owner]]
    place = cells.place(who, code)
    known = place >= 0
    notes.add(
        "unknown_agent_observed",
        "an observed agent that never occurs in the discussion",
        "Its answer counts as missing.",
        field="observed",
        count=int((~known).sum()),
        fault=True,
    )
    widest = int(cells.group_size.max())
    key = owner * widest + place
    if known.all() and key.size > 1 and not (np.diff(key) > 0).all():
        kept = np.unique(key)
        notes.add(
            "agent_observed_twice",
            "an agent listed twice among those observed",
            "It counts once.",
            field="observed",
            count=int(key.size - kept.size),
        )
        owner, place = kept // widest, kept % widest
        known = np.ones(kept.size, dtype=np.bool_)
    elif not known.all():
        kept, first = np.unique(np.where(known, key, -1 - np.arange(key.size)), return_index=True)
        owner, place, known = owner[first], place[first], known[first]
    listed = np.bincount(owner, minlength=at.size)
    full: Bools = (listed == cells.group_size[group[at]] - 1) & (
        np.bincount(owner, weights=known, minlength=at.size) == listed
    )
    seen.observes[at] = listed > 0
    rest = ~full[owner]
    owner, place, known = owner[rest], place[rest], known[rest]
    cell = target[at[owner]]
    who = cells.group[cell]
    source = cells.start[who] + (cells.round[cell] - 1) * cells.group_size[who] + np.where(known, place, 0)
    answer = np.where(known, cells.public[source], -1)
    partial = np.flatnonzero(~full)
    renumber = np.cumsum(~full) - 1
    _settle(seen, at[partial], renumber[owner], answer, own, k, observes=False)
    return full


def _settle(
    seen: Seen, at: Ints, owner: Ints, answer: Ints, own: Ints, k: int, *, observes: bool = True
) -> None:
    """Majority and dissent of rows `at` from the answers each saw; `owner` is a position in `at`."""
    if observes:
        seen.observes[at] = np.bincount(owner, minlength=at.size) > 0
    there = answer >= 0
    owner, answer = owner[there], answer[there]
    seen.visible[at] = np.bincount(owner, minlength=at.size)
    seen.differing[at] = np.bincount(owner, weights=answer != own[at[owner]], minlength=at.size)
    if not owner.size:
        return
    keys, counts = np.unique(owner * k + answer, return_counts=True)
    who = keys // k
    begins = np.flatnonzero(np.concatenate([[True], np.diff(who) > 0]))
    runs = np.diff(np.append(begins, who.size))
    most = np.repeat(np.maximum.reduceat(counts, begins), runs)
    leaders = np.repeat(np.add.reduceat((counts == most).astype(np.int64), begins), runs)
    unique = (counts == most) & (leaders == 1)
    seen.majority[at[who[unique]]] = keys[unique] % k


def _everybody(
    seen: Seen, at: Ints, cells: Cells, counted: Tally, group: Ints, previous: Ints, own: Ints
) -> None:
    """Everybody but the agent itself: the counts of the round before, less one."""
    group, previous, z = group[at], previous[at], own[at]
    block = counted.block_of_group[group] + cells.round[previous]
    said = cells.public[previous]
    k1, k2, _ = (x[block] for x in counted.top)
    c1, c2, c3 = (x[block] for x in counted.top_counts)
    mine = np.where(said >= 0, counted.count(block, said) - 1, 0)
    leads = k1 == said
    best, best_count = np.where(leads, k2, k1), np.where(leads, c2, c1)
    next_count = np.where(leads | (k2 == said), c3, c2)
    majority = np.where((best_count > next_count) & (best_count > mine), best, -1)
    majority = np.where((mine > best_count) & (said >= 0), said, majority)
    seen.majority[at] = majority
    seen.visible[at] = counted.total[block] - (said >= 0)
    same = counted.count(block, z) - ((said == z) & (z >= 0))
    seen.differing[at] = seen.visible[at] - same
    seen.observes[at] = cells.group_size[group] > 1
