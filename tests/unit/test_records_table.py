"""The plain table: defaults, ids as text, the observed column, and writing."""

from __future__ import annotations

from pathlib import Path

import _logs
import polars as pl
import pytest

from abilene.errors import InputError
from abilene.records.adapters.events import read_events
from abilene.records.adapters.table import read_table, write_table
from abilene.records.derive import derive
from abilene.records.schema import COLUMNS, Row, frame

HEAD = "task,round,agent,private,public,truth"


def read(tmp_path: Path, *lines: str, head: str = HEAD) -> pl.DataFrame:
    path = tmp_path / "t.csv"
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return read_table(path).record


def test_defaults(tmp_path: Path) -> None:
    record = read(tmp_path, "007,0,01,x,x,y", "007,1,01,,x,y", "007,1.0,02,x,,y")
    assert record.schema == COLUMNS
    assert record["task"].to_list() == ["007"] * 3
    assert record["agent"].to_list() == ["01", "01", "02"]
    assert record["round"].to_list() == [0, 1, 1]
    assert record["epoch"].to_list() == [1, 1, 1]
    assert record["private"].to_list() == ["x", None, "x"]
    assert record["private_status"].to_list() == ["ok", "missing", "ok"]
    assert record["private_source"].is_null().all()
    assert record["observed"].is_null().all()


def test_options(tmp_path: Path) -> None:
    record = read(
        tmp_path,
        't,0,1,x,x,y,m1,2,1;3,P2,ok,Refused,"a, b"',
        "t,0,2,x,x,y,m1,2,;,,,,",
        "t,0,3,x,x,y,m1,2,,,,,",
        "t,0,4,x,x,y,m1,2, 1 ; 2.0 ;,,,,",
        head=HEAD + ",model,epoch,observed,share,private_status,public_status,setting",
    )
    assert record["observed"].to_list() == [["1", "3"], [], None, ["1", "2"]]
    assert record["model"].unique().to_list() == ["m1"]
    assert record["setting"].to_list() == ["a, b", None, None, None]
    assert record["epoch"].to_list() == [2] * 4
    assert record["share"].to_list() == ["P2", None, None, None]
    assert record["public_status"].to_list()[0] == "refused"


def test_unknown_status_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2, field 'public_status'.*maybe.*one of: ok"):
        read(tmp_path, "t,0,1,x,x,y,maybe", head=HEAD + ",public_status")


def test_columns_in_any_order_and_quoted_newlines(tmp_path: Path) -> None:
    record = read(tmp_path, '"a\nb",1,x,x,t,0', head="truth,agent,private,public,task,round")
    assert record["truth"].to_list() == ["a\nb"]


def test_parquet_table_with_numbers(tmp_path: Path) -> None:
    df = pl.DataFrame(
        {
            "task": [1, 1],
            "round": [0.0, 1.0],
            "agent": [1.0, 1.0],
            "private": ["x", None],
            "public": ["x", "y"],
            "truth": ["y", "y"],
            "observed": [[2, 3], None],
        }
    )
    df.write_parquet(tmp_path / "t.parquet")
    record = read_table(tmp_path / "t.parquet").record
    assert record["task"].to_list() == ["1", "1"]
    assert record["agent"].to_list() == ["1", "1"]
    assert record["round"].to_list() == [0, 1]
    assert record["observed"].to_list() == [["2", "3"], None]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_writing_keeps_the_counts(tmp_path: Path, name: str) -> None:
    rows = _logs.events(tasks=5, seed=11)
    rows[20]["public"] = None
    rows[40]["nb_public"] = ["Harbour"] * 4  # what was shown is not what was said
    record = read_events(_logs.write_lines(tmp_path / "events.jsonl", rows)).record
    again = read_table(write_table(record, tmp_path / name)).record
    for one, other in zip(derive(record).settings, derive(again).settings, strict=True):
        assert (one.setting, one.rows, one.counts) == (other.setting, other.rows, other.counts)


def test_writing_keeps_isolated_agents_and_statuses(tmp_path: Path) -> None:
    rows = [
        Row(task="0", round=t, agent=a, truth="x", private="x", public=None if t else "x", epoch=3)
        for t in (0, 1)
        for a in ("0", "1")
    ]
    record = frame(rows, {}).with_columns(
        pl.when(pl.col("round") == 1).then(pl.lit([], dtype=pl.List(pl.String))).alias("observed"),
        pl.when(pl.col("public").is_null()).then(pl.lit("refused")).alias("public_status"),
    )
    again = read_table(write_table(record, tmp_path / "t.csv")).record
    assert again["observed"].to_list() == record["observed"].to_list()
    assert derive(again).settings[0].rows.dropped == {"public_refused": 2}
    assert again["epoch"].to_list() == [3] * 4
