"""The events log: columns, shared round 0, repeats, and writing it back without loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import _logs
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from abilene.errors import InputError
from abilene.records.adapters.events import read_events, write_events
from abilene.records.derive import derive
from abilene.records.loaded import Loaded
from abilene.records.schema import COLUMNS, Row, frame


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["task_id"], row.get("agent", row.get("seat")), row["round"], row["branch"])


def round_trip(tmp_path: Path, rows: list[dict[str, Any]]) -> Loaded:
    """Read, write, and demand that every last row comes back with every field and value."""
    loaded = read_events(_logs.write_lines(tmp_path / "in" / "events.jsonl", rows))
    written = _logs.read_lines(write_events(loaded.record, tmp_path / "out"))
    last = {json.dumps(key(r)): r for r in rows}
    again = {json.dumps(key(r)): r for r in written}
    assert len(again) == len(written)
    assert again.keys() == last.keys()
    for k, row in last.items():
        assert again[k] == row
        for name, value in row.items():
            assert type(again[k][name]) is type(value), (k, name)
    return loaded


def test_columns(tmp_path: Path) -> None:
    rows = _logs.events(tasks=1, branches=("C0",), rounds=1)
    loaded = read_events(_logs.write_lines(tmp_path / "events.jsonl", rows))
    assert loaded.record.schema == COLUMNS
    assert loaded.record["instruction"].unique().to_list() == ["B"]
    assert loaded.record["agent"].unique().sort().to_list() == list("01234")
    row = loaded.record.filter(pl.col("round") == 1).row(0, named=True)
    assert row["observed"] == ["1", "2", "3", "4"]
    assert row["observed_public"] == [r["public"] for r in rows if r["round"] == 0][1:]
    assert (row["truth"], row["task"]) == (rows[0]["answer"], "hp-000")
    assert row["private_source"] in ("probe", "joint")
    first = loaded.record.filter(pl.col("round") == 0)
    assert first["private_source"].unique().to_list() == ["round0"]
    assert first["count_correct"].to_list() == [r["count_correct"] for r in rows[:5]]
    assert loaded.warnings == [w for w in loaded.warnings if w.kind == "unknown_field"]
    assert not loaded.faults


def test_round_trip_is_lossless(tmp_path: Path) -> None:
    loaded = round_trip(tmp_path, _logs.events(tasks=6, seed=3))
    assert loaded.record.filter(pl.col("round") == 0).height == 6 * 5 * 3


def test_round_trip_of_everything_odd(tmp_path: Path) -> None:
    rows = _logs.events(tasks=2, seed=4)
    for i, row in enumerate(rows):
        match i % 12:
            case 0:
                row["note"] = {"deep": [1, 2.0, None, "\u2028"], "big": 12345678901234567890123}
            case 1:
                del row["share_text"], row["raw"]
            case 2:
                row["private"] = None
            case 3:
                row["public"] = "  "
            case 4:
                row["agent"] = str(row["agent"])
            case 5:
                row["private"] = 7
            case 6:
                row["nb_public"] = [None, "", *row["nb_public"]] if row["round"] else []
            case 7:
                row["neighbours"] = None
            case 8:
                row["nb_public"] = None
            case 9:
                row["share"] = "P2"
            case 10 if row["round"]:
                row["probe_ok"] = None
            case 11:
                row["model"], row["count_correct"] = None, None
    round_trip(tmp_path, rows)


def test_round_trip_of_older_logs(tmp_path: Path) -> None:
    rows = _logs.events(tasks=2, seed=5, branches=("PS", "C1"))
    for row in rows:
        row["seat"] = row.pop("agent")
    loaded = round_trip(tmp_path, rows)
    assert set(loaded.record["instruction"]) == {"PS", "C1"}


def test_round_trip_of_branches_named_like_instructions(tmp_path: Path) -> None:
    round_trip(tmp_path, _logs.events(tasks=2, seed=6, branches=("A", "B")))


def test_own_round_0_of_a_branch(tmp_path: Path) -> None:
    rows = _logs.events(tasks=2, seed=7, branches=("C0",))
    for row in rows:
        if row["round"] == 0:
            row["branch"] = "C0"
    round_trip(tmp_path, rows)


def test_the_last_row_wins(tmp_path: Path) -> None:
    rows = _logs.events(tasks=1, branches=("A0",), seed=8)
    again = dict(rows[7])
    other = dict(rows[8], public="Harbour" if rows[8]["public"] != "Harbour" else "East Town")
    loaded = round_trip(tmp_path, [*rows, again, other])
    assert loaded.record.height == len(rows)
    (repeated,) = [w for w in loaded.warnings if w.kind == "repeated_row"]
    assert (repeated.count, repeated.line) == (1, len(rows) + 1)
    (conflict,) = loaded.faults
    assert (conflict.kind, conflict.count, conflict.line) == ("conflicting_duplicate", 1, len(rows) + 2)
    said = loaded.record.filter(
        (pl.col("round") == other["round"]) & (pl.col("agent") == str(other["agent"]))
    )
    assert said["public"].to_list() == [other["public"]]


def test_shared_round_0_goes_to_every_branch(tmp_path: Path) -> None:
    rows = _logs.events(tasks=2, branches=("A0", "C4"))
    record = read_events(_logs.write_lines(tmp_path / "events.jsonl", rows)).record
    first = record.filter(pl.col("round") == 0)
    assert first.group_by("instruction").len().sort("instruction").rows() == [("A", 10), ("C", 10)]
    lines = _logs.read_lines(write_events(record, tmp_path / "out"))
    assert sum(r["branch"] == "r0" for r in lines) == 10


def test_meta_and_items(tmp_path: Path) -> None:
    rows = _logs.events(tasks=2, branches=("C0",))
    for row in rows:
        row["answer"] = None
    _logs.write_lines(tmp_path / "events.jsonl", rows)
    (tmp_path / "events.meta.json").write_text('{"args": {"bench": "hp", "reasoning": false}, "seed": 3}')
    items = [
        {"id": f"hp-{i:03d}", "kind": "k", "answer": "Harbour", "design": {"p_design": 0.2}} for i in (0, 1)
    ]
    (tmp_path / "items.json").write_text(json.dumps(items))
    loaded = read_events(tmp_path)
    record = loaded.record
    assert record["benchmark"].unique().to_list() == ["hp"]
    assert record["reasoning"].unique().to_list() == ["off"]
    assert record["truth"].unique().to_list() == ["Harbour"]
    assert record["designed_accuracy"].unique().to_list() == [0.2]
    (meta,) = loaded.metadata.values()
    assert meta["seed"] == 3
    out = write_events(record, tmp_path / "out", meta=meta)
    assert [r["answer"] for r in _logs.read_lines(out)] == [None] * len(rows)


def test_round_0_that_does_not_name_its_run(tmp_path: Path) -> None:
    rows = _logs.events(tasks=2, seed=9)
    for row in rows:
        if row["round"] == 0:
            del row["topology"], row["neighbours"], row["nb_public"]
            row["intervention"] = None
    loaded = round_trip(tmp_path, rows)
    assert len(derive(loaded.record).settings) == 3
    assert loaded.record["topology"].unique().to_list() == ["complete"]


def test_probe_ok(tmp_path: Path) -> None:
    rows = _logs.events(tasks=1, branches=("C0",), rounds=1)
    later = [r for r in rows if r["round"] == 1]
    later[0]["probe_ok"], later[1]["probe_ok"], later[2]["probe_ok"] = True, False, None
    del later[3]["probe_ok"]
    later[4] |= {"probe_ok": True, "private": None}
    loaded = read_events(_logs.write_lines(tmp_path / "events.jsonl", rows))
    now = loaded.record.filter(pl.col("round") == 1).sort("agent")
    assert now["private_source"].to_list() == ["probe", "joint", "joint", None, "probe"]
    assert now["private_status"].to_list() == ["ok"] * 4 + ["missing"]
    assert {w.kind for w in loaded.warnings} >= {"no_probe", "source_unknown"}
    (data,) = derive(loaded.record).settings
    assert data.rows.dropped["private_from_joint"] == 2
    assert data.rows.dropped["private_missing"] == 1
    assert "private_from_joint" not in derive(loaded.record, include_joint=True).settings[0].rows.dropped


def test_mixed_team_is_one_setting(tmp_path: Path) -> None:
    rows = _logs.events(tasks=2, branches=("C0",))
    for row in rows:
        row["model"] = "big" if row["agent"] == 0 else "small"
    loaded = round_trip(tmp_path, rows)
    assert loaded.record["model"].unique().to_list() == ["big+small"]
    assert loaded.record.filter(pl.col("agent") == "0")["agent_model"].unique().to_list() == ["big"]


def test_several_runs_in_one_file_stay_apart(tmp_path: Path) -> None:
    one = _logs.events(tasks=2, branches=("C0",), seed=1)
    other = [dict(r, model="other") for r in _logs.events(tasks=2, branches=("C0",), seed=2)]
    loaded = read_events(_logs.write_lines(tmp_path / "events.jsonl", [*one, *other]))
    assert loaded.record.height == len(one) + len(other)
    assert len(derive(loaded.record).settings) == 2
    assert not loaded.faults


def test_without_text_the_counts_are_the_same(tmp_path: Path) -> None:
    path = _logs.write_lines(tmp_path / "events.jsonl", _logs.events(tasks=5))
    full, light = read_events(path), read_events(path, text=False)
    for column in ("public_raw", "share_text", "extra"):
        assert light.record[column].is_null().all()
    for one, other in zip(derive(full.record).settings, derive(light.record).settings, strict=True):
        assert (one.counts, one.rows) == (other.counts, other.rows)


def test_a_record_of_our_own_survives(tmp_path: Path) -> None:
    rows = [
        Row(
            task="t1",
            round=t,
            agent=str(i),
            truth="x",
            epoch=2,
            private=None if (t, i) == (1, 1) else "x",
            private_status="refused" if (t, i) == (1, 1) else "ok",
            private_source="round0" if t == 0 else "joint" if i == 2 else "probe",
            public="y",
            public_status="multiple" if i == 0 else "ok",
            observed=None if t == 0 else tuple(str(j) for j in range(3) if j != i),
            designed_accuracy=0.4,
            view_favors="y",
            private_raw=None if t == 0 else "ANSWER: x",
            reasoning_tokens=0,
        )
        for t in range(3)
        for i in range(3)
    ]
    setting = {
        "benchmark": "hp",
        "model": "behavioural/agent",
        "instruction": "my own words",
        "reasoning": "off",
    }
    record = pl.concat([frame(rows, setting), frame(rows, setting | {"instruction": "A0", "team": "n3"})])
    again = read_events(write_events(record, tmp_path / "out")).record
    same = [c for c in COLUMNS if c not in ("observed_public", "extra")]
    order = ["instruction", "round", "agent"]
    assert_frame_equal(again.select(same).sort(order), record.select(same).sort(order))
    for one, other in zip(derive(record).settings, derive(again).settings, strict=True):
        assert (one.setting, one.counts, one.rows) == (other.setting, other.counts, other.rows)


def test_unequal_round_0_of_two_instructions_is_not_folded(tmp_path: Path) -> None:
    rows = [
        frame(
            [
                Row(task="t", round=t, agent=str(i), truth="x", private=z, public=z)
                for t in (0, 1)
                for i in (0, 1)
            ],
            {"instruction": name},
        )
        for name, z in (("B", "x"), ("C", "y"))
    ]
    again = read_events(write_events(pl.concat(rows), tmp_path)).record
    first = again.filter(pl.col("round") == 0)
    assert set(first.select("instruction", "public").rows()) == {("B", "x"), ("C", "y")}


def test_nothing_is_left_behind_when_writing_fails(tmp_path: Path) -> None:
    record = frame([Row(task="t", round=0, agent="0", truth="x", extra="not json")], {})
    with pytest.raises(Exception, match="JSON"):
        write_events(record, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_no_log(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no events log"):
        read_events(tmp_path)
