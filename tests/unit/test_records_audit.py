"""The audit: what is known, what fails, and what contradicts itself."""

from __future__ import annotations

import json
from pathlib import Path

import _logs
import polars as pl
import pytest

from abilene.errors import UsageError
from abilene.records.adapters.events import read_events
from abilene.records.audit import Audit, audit
from abilene.records.derive import derive
from abilene.records.loaded import Loaded


def loaded(tmp_path: Path, **kwargs: int) -> Loaded:
    return read_events(_logs.write_lines(tmp_path / "events.jsonl", _logs.events(tasks=10, **kwargs)))


def kinds(report: Audit) -> set[str]:
    return {n.kind for n in (*report.warnings, *report.faults)}


def test_a_clean_log(tmp_path: Path) -> None:
    report = audit(loaded(tmp_path))
    assert report.passes
    assert len(report.settings) == 3
    assert not report.faults
    assert kinds(report) == {"unknown_field"}  # COUNT of the format's hidden-profile rows
    for s in report.settings:
        assert (s.agents, s.data.rounds, len(s.data.tasks)) == ((5,), 3, 10)
        assert [k.known for k in s.known] == [True] * 4
        assert sum(s.sources.values()) == 10 * 5 * 4
        assert s.statuses["public"] == {t: {"ok": 50} for t in range(4)}
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    rows = document["settings"][0]["rows"]
    assert rows["expected"] == rows["used"] + sum(rows["dropped"].values()) == 150
    assert "150 expected = " in report.plain()


@pytest.mark.parametrize(("unanswered", "passes"), [(3, True), (4, False)])
def test_more_than_two_percent_unparsed_fails(tmp_path: Path, unanswered: int, passes: bool) -> None:
    rows = _logs.events(tasks=10, branches=("C0",))
    for row in [r for r in rows if r["round"]][:unanswered]:
        row["public"] = None
    report = audit(read_events(_logs.write_lines(tmp_path / "events.jsonl", rows)))
    (s,) = report.settings
    assert (s.unparsed, s.replies) == (unanswered, 150)
    assert s.passes is report.passes is passes
    assert ("FAILS" in report.plain()) is not passes


def test_reasoning_tokens_although_off(tmp_path: Path) -> None:
    data = loaded(tmp_path)
    off = data.record.with_columns(
        pl.lit("off").alias("reasoning"), pl.lit(0).cast(pl.Int64).alias("reasoning_tokens")
    )
    assert audit(Loaded(record=off)).passes
    some = off.with_columns(pl.lit(12).cast(pl.Int64).alias("reasoning_tokens"))
    report = audit(Loaded(record=some))
    assert not report.passes
    assert "reasoning is off" in report.settings[0].failures[0]


def test_contradictions_between_rows(tmp_path: Path) -> None:
    rows = _logs.events(tasks=10, branches=("C0",))
    rows[30]["nb_public"] = ["Elsewhere", *rows[30]["nb_public"][1:]]
    rows[0]["private"] = "Elsewhere"
    rows[-1]["private"] = "harbour "
    data = read_events(_logs.write_lines(tmp_path / "events.jsonl", rows))
    found = {n.kind: n for n in audit(data).warnings}
    assert found["observed_public_differs"].count == 1
    assert found["round0_differs"].count == 1
    assert "answers_alike" in found


def test_order_of_shown_answers_is_no_contradiction(tmp_path: Path) -> None:
    rows = _logs.events(tasks=3)
    for row in rows:
        row["nb_public"] = row["nb_public"][::-1]
    data = read_events(_logs.write_lines(tmp_path / "events.jsonl", rows))
    assert "observed_public_differs" not in kinds(audit(data))


def test_answer_keys_of_two_settings(tmp_path: Path) -> None:
    data = loaded(tmp_path)
    record = data.record.with_columns(
        pl.when(pl.col("instruction") == "A").then(pl.lit("Elsewhere")).otherwise("truth").alias("truth")
    )
    (note,) = [w for w in audit(Loaded(record=record)).warnings if w.kind.startswith("answer_key_differs")]
    assert note.count == 10


def test_simulated_agents_are_labelled(tmp_path: Path) -> None:
    record = loaded(tmp_path).record.with_columns(pl.lit("behavioural/agent").alias("model"))
    report = audit(Loaded(record=record))
    assert all(s.simulated for s in report.settings)
    assert "simulated" in report.plain()


def test_counts_of_another_record(tmp_path: Path) -> None:
    data = loaded(tmp_path)
    other = data.record.with_columns(pl.lit("other").alias("model"))
    with pytest.raises(UsageError):
        audit(data, derived=derive(other))


def test_empty_record() -> None:
    from abilene.records.schema import frame

    report = audit(Loaded(record=frame([], {})))
    assert report.settings == ()
