"""Counts against an independent implementation, on random records with everything that can be missing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import _oracle_derive as oracle
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abilene.records.derive import REASONS, SettingData, derive
from abilene.records.schema import COLUMNS, SETTING_PARTS

ANSWERS = ("w", "x", "y", "z")
UNANSWERED = ("missing", "truncated", "refused", "ambiguous", "off_list", "failed", None)


@st.composite
def records(draw: st.DrawFn) -> list[dict[str, Any]]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    options = draw(st.integers(2, 4))
    missing, absent = draw(st.sampled_from([0.0, 0.05, 0.3])), draw(st.sampled_from([0.0, 0.05, 0.3]))
    listing = draw(st.sampled_from(["none", "lists", "answers", "mixed"]))
    odd_lists = draw(st.booleans())
    stubborn = draw(st.sampled_from([0.0, 0.7]))
    rows: list[dict[str, Any]] = []
    for s in range(draw(st.integers(1, 2))):
        last = draw(st.integers(0, 3))
        for task in range(draw(st.integers(1, 3))):
            truth = str(rng.choice(ANSWERS[:options]))
            second_key = rng.random() < 0.1
            keyless = rng.random() < 0.1
            for epoch in range(1, 1 + draw(st.integers(1, 2))):
                n = draw(st.integers(1, 6))
                held = [str(x) for x in rng.choice(ANSWERS[:options], n)]
                for t in range(last + 1):
                    for i in range(n):
                        if rng.random() >= stubborn:
                            held[i] = str(rng.choice(ANSWERS[:options]))
                        if rng.random() < absent:
                            continue
                        row: dict[str, Any] = dict.fromkeys(COLUMNS)
                        row |= {"model": f"m{s}", "task": f"t{task}", "epoch": epoch, "round": t}
                        row |= {"agent": str(i), "private": held[i], "private_status": "ok"}
                        said = held[i] if rng.random() < 0.5 else str(rng.choice(ANSWERS[:options]))
                        row |= {"public": said, "public_status": "ok", "private_source": "probe"}
                        for kind in ("private", "public"):
                            if rng.random() < missing:
                                row[kind] = None
                                row[f"{kind}_status"] = UNANSWERED[rng.integers(len(UNANSWERED))]
                        if row["private"] is not None and rng.random() < missing:
                            row["private_source"] = "joint"
                            row["private_status"] = "failed"
                        elif rng.random() < 0.3:
                            row["private_source"] = None
                        row["truth"] = None if keyless or rng.random() < missing else truth
                        if second_key and i == 0:
                            row["truth"] = str(rng.choice(ANSWERS[:options]))
                        others = [str(j) for j in range(n) if j != i]
                        rng.shuffle(others)
                        if t and listing in ("lists", "mixed") and rng.random() < 0.8:
                            seen_agents = others[: rng.integers(0, len(others) + 1)]
                            if odd_lists:  # itself, somebody twice, somebody who does not exist
                                seen_agents += [str(j) for j in rng.choice([i, n + 7, *range(n)], 2)]
                            row["observed"] = seen_agents
                        if t and listing in ("answers", "mixed") and rng.random() < 0.5:
                            size = rng.integers(0, 5)
                            seen = [str(x) for x in rng.choice(ANSWERS[:options], size)]
                            row["observed_public"] = [None if rng.random() < 0.2 else x for x in seen]
                        rows.append(row)
    order = rng.permutation(len(rows))
    return [rows[i] for i in order]


def as_frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=COLUMNS)


def compare(data: SettingData, expected: dict[str, Any]) -> None:
    by_task = expected["by_task"]
    for array, name in ((data.n_c, "opportunity"), (data.k_c, "withheld"), (data.k_a, "internalized")):
        assert array.tolist() == [by_task[task][name] for task in data.tasks]
    assert data.counts.opportunities == sum(c["opportunity"] for c in by_task.values())
    assert data.counts.withheld == sum(c["withheld"] for c in by_task.values())
    assert data.counts.internalized == sum(c["internalized"] for c in by_task.values())
    found = zip(
        (data.tasks[i] for i in data.task),
        data.enters_correct.tolist(),
        data.dissent.tolist(),
        data.changed.tolist(),
        strict=True,
    )
    assert Counter(found) == Counter(expected["correction"])
    for right, rows, changed in (
        (False, data.counts.wrong_rows, data.counts.wrong_to_correct),
        (True, data.counts.correct_rows, data.counts.correct_to_wrong),
    ):
        chosen = [c for c in expected["correction"] if c[1] == right]
        assert (rows, changed) == (len(chosen), sum(c[3] for c in chosen))
    assert data.rows.dropped == dict(expected["dropped"])
    assert data.undefined == dict(expected["undefined"])
    for name in ("expected", "used", "off_rule", "ties"):
        assert getattr(data.rows, name) == expected[name], name
    verdicts = zip(
        (data.tasks[i] for i in data.discussion_task),
        data.vote_correct.tolist(),
        data.discussion_correct.tolist(),
        strict=True,
    )
    assert Counter(verdicts) == Counter((task, *v) for task, _, *v in expected["verdicts"])


@settings(max_examples=300, deadline=None)
@given(records(), st.booleans())
def test_counts_equal_the_oracle(rows: list[dict[str, Any]], include_joint: bool) -> None:
    expected = oracle.derive(rows, include_joint=include_joint)
    derived = derive(as_frame(rows), include_joint=include_joint)
    assert len(derived.settings) == len(expected)
    for data in derived.settings:
        key = tuple(data.setting[p] for p in SETTING_PARTS)
        compare(data, expected[key])
        assert data.rows.expected == data.rows.used + sum(data.rows.dropped.values())
        assert set(data.rows.dropped) <= set(REASONS)
    for line in derived.rows().iter_rows(named=True):
        key = tuple(line[p] for p in SETTING_PARTS)
        want = expected[key]["rows"][line["task"], line["epoch"], line["round"], line["agent"]]
        if isinstance(want, str):
            assert line["drop_reason"] == want
            assert line["majority"] is None
            assert line["withheld"] is None
        else:
            assert line["drop_reason"] is None
            assert {name: line[name] for name in want} == want


@settings(max_examples=60, deadline=None)
@given(records(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(rows: list[dict[str, Any]], random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    for one, other in zip(derive(as_frame(rows)).settings, derive(as_frame(shuffled)).settings, strict=True):
        assert one.rows == other.rows
        assert one.counts == other.counts
        assert one.task.tolist() == other.task.tolist()
        assert one.dissent.tolist() == other.dissent.tolist()


def big_record(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for task in range(30):
        for t in range(3):
            for i in range(5):
                row: dict[str, Any] = dict.fromkeys(COLUMNS)
                private, public = (str(x) for x in rng.choice(ANSWERS, 2))
                row |= {"task": str(task), "epoch": 1, "round": t, "agent": str(i), "truth": "w"}
                rows.append(row | {"private": private, "public": public})
    return rows


@pytest.mark.parametrize("mutant", ["withheld rows counted", "binary dissent", "project first"])
def test_known_mistakes_are_caught(mutant: str) -> None:
    rows = big_record(1)
    (data,) = derive(as_frame(rows)).settings
    (right,) = oracle.derive(rows).values()
    compare(data, right)
    (wrong,) = oracle.derive(rows, mutant=mutant).values()
    with pytest.raises(AssertionError):
        compare(data, wrong)


def test_large_teams_and_lists_of_everybody_else_agree() -> None:
    """A list of all others is the same as no list; a permuted one too."""
    rows = big_record(2)
    plain = derive(as_frame(rows)).settings[0]
    listed = [r | {"observed": [str(j) for j in range(4, -1, -1) if str(j) != r["agent"]]} for r in rows]
    other = derive(as_frame(listed)).settings[0]
    assert plain.counts == other.counts
    assert plain.rows == other.rows
