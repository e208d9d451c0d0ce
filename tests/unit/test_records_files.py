"""Record files, their versions, and the one door for every kind of log."""

from __future__ import annotations

from pathlib import Path

import _logs
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from abilene.errors import InputError, MissingExtraError
from abilene.records import files
from abilene.records.adapters.events import read_events
from abilene.records.derive import derive
from abilene.records.files import load, read_metadata, read_record, register_reader, write_record
from abilene.records.loaded import Loaded
from abilene.records.schema import COLUMNS, Row, frame

V1 = Path(__file__).parents[1] / "golden" / "record_v1.parquet"


def small(public: str = "x", task: str = "t", **setting: str) -> pl.DataFrame:
    rows = [
        Row(task=task, round=t, agent=a, truth="x", private="x", public=public, public_raw="PUBLIC: x")
        for t in (0, 1)
        for a in ("0", "1")
    ]
    return frame(rows, dict(setting))


def test_round_trip_with_metadata(tmp_path: Path) -> None:
    path = write_record(small(), tmp_path / "deep" / "rows.parquet", {"prompt_hash": "abc", "seed": 3})
    assert_frame_equal(read_record(path), small())
    facts = read_metadata(path)
    assert facts is not None
    assert (facts["schema"], facts["prompt_hash"], facts["seed"]) == (1, "abc", 3)
    assert "polars" in facts["packages"]
    assert [p.name for p in path.parent.iterdir()] == ["rows.parquet"]
    assert read_record(path, text=False)["public_raw"].is_null().all()


def test_version_1_stays_readable() -> None:
    """The file was written when version 1 was made and is never written again."""
    record = read_record(V1)
    assert record.schema == COLUMNS
    (data,) = derive(record).settings
    assert (data.setting["model"], data.rows.expected, data.rows.used) == ("behavioural/agent", 18, 17)
    assert data.rows.dropped == {"private_refused": 1}
    assert (data.counts.opportunities, data.counts.withheld, data.counts.internalized) == (5, 2, 1)
    facts = read_metadata(V1)
    assert facts is not None
    assert facts["seed"] == 7


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    small().write_parquet(path, metadata={"abilene.schema": "2"})
    with pytest.raises(InputError, match=r"schema version 2.*Update abilene"):
        load(path)


def test_an_older_file_lacks_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    small().drop("reasoning_tokens").write_parquet(path, metadata={"abilene.schema": "1"})
    assert read_record(path)["reasoning_tokens"].is_null().all()


def test_unknown_columns(tmp_path: Path) -> None:
    extra = small().with_columns(pl.lit(1).alias("surprise"))
    with pytest.raises(InputError, match="surprise"):
        write_record(extra, tmp_path / "rows.parquet")
    assert not list(tmp_path.iterdir())
    extra.write_parquet(tmp_path / "rows.parquet", metadata={"abilene.schema": "1"})
    loaded = load(tmp_path)
    assert [w.kind for w in loaded.warnings] == ["unknown_column"]
    assert loaded.record.schema == COLUMNS


def test_writing_replaces_the_whole_file_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_record(small(), tmp_path / "rows.parquet")
    before = path.read_bytes()

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.DataFrame, "write_parquet", stop)
    with pytest.raises(KeyboardInterrupt):
        write_record(small("y"), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


def test_damaged_parquet(tmp_path: Path) -> None:
    path = write_record(small(), tmp_path / "rows.parquet")
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InputError, match="not a readable Parquet file"):
        load(path)


def test_folders(tmp_path: Path) -> None:
    run = tmp_path / "out"
    write_record(small(model="a"), run / "one" / "rows.parquet")
    write_record(small(model="b"), run / "two" / "rows.parquet")
    assert load(run).record["model"].unique().sort().to_list() == ["a", "b"]
    assert load(run / "one").record["model"].unique().to_list() == ["a"]
    _logs.write_lines(run / "two" / "events.jsonl", _logs.events(tasks=1))
    assert load(run / "two").record["model"].unique().to_list() == ["b"]
    (tmp_path / "bare").mkdir()
    small().write_parquet(tmp_path / "bare" / "plain.parquet")  # without the marks of a record
    with pytest.raises(InputError, match=r"no log in this folder \(it holds: plain.parquet\)"):
        load(tmp_path / "bare")


def test_no_such_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "nothing")
    with pytest.raises(InputError, match="at least one log"):
        load([])


def test_registered_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_readers", {})
    (tmp_path / "a.eval").write_bytes(b"zip")
    with pytest.raises(MissingExtraError, match=r"abilene\[run\]"):
        load(tmp_path)
    wanted = []

    def reader(path: Path, text: bool) -> Loaded:
        wanted.append((path.name, text))
        return Loaded(record=small())

    register_reader(".eval", reader)
    assert load(tmp_path, text=False).record.height == 4
    assert wanted == [("a.eval", False)]


def test_the_same_file_twice_counts_once(tmp_path: Path) -> None:
    path = write_record(small(), tmp_path / "rows.parquet")
    assert load([path, path]).record.height == 4
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(path.read_bytes())
    loaded = load([path, copy])
    assert loaded.record.height == 4
    assert [(w.kind, w.count) for w in loaded.warnings] == [("repeated_row", 4)]
    assert not loaded.faults


def test_two_files_that_disagree_are_not_mixed(tmp_path: Path) -> None:
    one = write_record(pl.concat([small("x"), small("x", task="u")]), tmp_path / "one.parquet")
    two = write_record(pl.concat([small("y"), small("y", task="v")]), tmp_path / "two.parquet")
    loaded = load([one, two])
    (fault,) = loaded.faults
    assert (fault.kind, fault.count, fault.path) == ("conflicting_files", 4, str(two))
    assert str(one) in fault.found
    said = dict(loaded.record.group_by("task").agg(pl.col("public").unique().first()).rows())
    assert said == {"t": "x", "u": "x", "v": "y"}


def test_several_kinds_together(tmp_path: Path) -> None:
    events = _logs.write_lines(tmp_path / "events.jsonl", _logs.events(tasks=1))
    table = _logs.write_csv(tmp_path / "t.csv", _logs.table())
    record = write_record(small(), tmp_path / "rows.parquet")
    loaded = load([events, table, record])
    assert loaded.record.height == read_events(events).record.height + 36 + 4
    assert len(derive(loaded.record).settings) == 4
    assert set(loaded.metadata) == {str(events), str(record)}
