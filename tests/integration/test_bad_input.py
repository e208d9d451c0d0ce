"""Bad input: each case ends in one clear error or in a counted note, never in a silently wrong number."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _logs
import polars as pl
import pytest
from _data import data_file

from abilene.errors import AbileneError, InputError
from abilene.records.audit import audit
from abilene.records.derive import Derived, derive
from abilene.records.files import load
from abilene.records.loaded import Fault, Loaded

Rows = list[dict[str, Any]]


def clean(tmp_path: Path, **kwargs: Any) -> tuple[Path, Rows]:
    rows = _logs.events(branches=("C0",), **kwargs)
    return _logs.write_lines(tmp_path / "events.jsonl", rows), rows


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1]


def check(path: Path) -> tuple[Loaded, Derived]:
    """Load, count and audit; whatever is wrong, the rows must add up and the audit must be JSON."""
    loaded = load(path, text=False)
    derived = derive(loaded.record)
    report = audit(loaded, derived=derived)
    json.dumps(report.to_dict(), allow_nan=False)
    assert report.plain()
    for data in derived.settings:
        assert data.rows.expected == data.rows.used + sum(data.rows.dropped.values())
    full = load(path, text=True)
    for one, other in zip(derived.settings, derive(full.record).settings, strict=True):
        assert (one.counts, one.rows) == (other.counts, other.rows)
    return loaded, derived


def only(notes: list[Fault], kind: str) -> Fault:
    (note,) = [n for n in notes if n.kind == kind]
    return note


@pytest.mark.parametrize("name", ["events.jsonl", "table.csv", "table.parquet", "x.xlsx", "noending"])
def test_empty_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError):
        load(tmp_path / name)


@pytest.mark.parametrize("content", [b"\n\n", b"\xef\xbb\xbf", b"\0" * 100, b"[1, 2]\n", b"{}\n", b"null\n"])
def test_nothing_but_rubbish(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "events.jsonl").write_bytes(content)
    with pytest.raises(InputError, match="no line of it is an event"):
        load(tmp_path)


def test_truncated_last_line(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    loaded, derived = check(path)
    fault = only(loaded.faults, "truncated_last_line")
    assert (fault.line, fault.count) == (len(rows), 1)
    assert derived.settings[0].rows.dropped["row_absent"] == 1


def test_last_line_without_newline_is_fine(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    loaded, _ = check(path)
    assert loaded.record.height == len(rows)
    assert not loaded.faults


def test_byte_order_mark(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    loaded, _ = check(path)
    assert only(loaded.warnings, "byte_order_mark").count == 1
    assert loaded.record.height == len(rows)


def test_utf16(tmp_path: Path) -> None:
    path, _ = clean(tmp_path)
    path.write_bytes(path.read_bytes().decode().encode("utf-16"))
    with pytest.raises(InputError, match="UTF-16"):
        load(path)


def damage(path: Path, number: int, line: bytes) -> None:
    found = lines(path)
    found[number - 1] = line
    path.write_bytes(b"\n".join(found) + b"\n")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"task_id": "x"\0}', "nul_byte"),
        (b'{"task_id": "\xff\xfe"}', "invalid_utf8"),
        (b"[1, 2, 3]", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b'{"task_id": "x", ', "malformed_line"),
        (b"[" * 100_000, "malformed_line"),
        (b'{"task_id": "x", "agent": 0, "branch": "C0"}', "missing_key"),
        (b'{"task_id": "x", "agent": null, "round": 1, "branch": "C0"}', "bad_key"),
        (b'{"task_id": "x", "agent": [1], "round": 1, "branch": "C0"}', "bad_key"),
        (b'{"task_id": "x", "agent": 0, "round": -1, "branch": "C0"}', "bad_key"),
        (b'{"task_id": "x", "agent": 0, "round": 1.5, "branch": "C0"}', "bad_key"),
        (b'{"task_id": "x", "agent": 0, "round": 99999999999999999999, "branch": "C0"}', "bad_key"),
        (b'{"task_id": "x", "agent": 0, "round": 1e300, "branch": "C0"}', "bad_key"),
        (b'{"task_id": "x", "agent": 0, "round": NaN, "branch": "C0"}', "bad_key"),
        (b'{"task_id": {}, "agent": 0, "round": 1, "branch": "C0"}', "bad_key"),
    ],
)
def test_one_bad_line(tmp_path: Path, line: bytes, kind: str) -> None:
    path, rows = clean(tmp_path)
    damage(path, 30, line)
    loaded, derived = check(path)
    fault = only(loaded.faults, kind)
    assert (fault.line, fault.count) == (30, 1)
    assert "line 30" in str(fault)
    assert loaded.record.height == len(rows) - 1
    assert derived.settings[0].rows.dropped["row_absent"] == 1


def test_two_objects_on_one_line_and_blank_lines(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    found = lines(path)
    path.write_bytes(b"\n\n".join([*found[:10], found[10] + found[11], *found[12:]]) + b"\n")
    loaded, _ = check(path)
    assert only(loaded.faults, "malformed_line").line == 21
    assert loaded.record.height == len(rows) - 2


def test_line_separators_inside_text(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    for row in rows:
        row["answer"] = "East\u2028Town"
    _logs.write_lines(path, rows)
    loaded, _ = check(path)
    assert loaded.record["truth"].unique().to_list() == ["East\u2028Town"]
    assert not loaded.faults


def test_windows_line_ends(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    loaded, _ = check(path)
    assert loaded.record.height == len(rows)
    assert not loaded.faults


def test_unknown_field(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    _logs.write_lines(path, [r | {"temperature": 0.7} for r in rows])
    loaded, _ = check(path)
    assert "temperature" in only(loaded.warnings, "unknown_field").found


def test_mixed_agent_ids_are_one_agent(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    _, want = check(path)
    for i, row in enumerate(rows):
        row["agent"] = (row["agent"], str(row["agent"]), float(row["agent"]))[i % 3]
        row["neighbours"] = [str(j) if i % 2 else j for j in row["neighbours"]]
    loaded, derived = check(_logs.write_lines(path, rows))
    assert only(loaded.warnings, "mixed_agent_ids").count > 0
    assert derived.settings[0].counts == want.settings[0].counts
    assert derived.settings[0].rows == want.settings[0].rows


@pytest.mark.parametrize("spell", [str.upper, lambda s: f" {s} ", lambda s: s.replace("a", "a\u0301")])
def test_answer_key_spelled_differently(tmp_path: Path, spell: Callable[[str], str]) -> None:
    path, rows = clean(tmp_path, options=("E\u00e1st Town", "W\u00e1st Town"))
    _, want = check(path)
    composed = {"E\u00e1st Town": "E\u00e1st Town", "W\u00e1st Town": "W\u00e1st Town"}
    for row in rows:
        key = composed[row["answer"]]
        row["answer"] = key.replace("\u00e1", "a\u0301") if "\u0301" in spell("a") else spell(key)
    _, derived = check(_logs.write_lines(path, rows))
    assert only(list(derived.warnings), "answer_key_spelling").count == 4
    assert derived.settings[0].counts == want.settings[0].counts
    assert derived.settings[0].vote_correct.tolist() == want.settings[0].vote_correct.tolist()


def test_answer_key_that_fits_two_answers(tmp_path: Path) -> None:
    path, rows = clean(tmp_path, tasks=1, options=("ca", "CA"))
    for row in rows:
        row["answer"] = "Ca"
    _, derived = check(_logs.write_lines(path, rows))
    assert only(list(derived.faults), "ambiguous_answer_key").count == 1
    assert derived.settings[0].rows.dropped == {"ambiguous_answer_key": 15}
    assert derived.settings[0].undefined == {"ambiguous_answer_key": 1}


def test_conflicting_duplicates(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    again = dict(rows[25], public="Elsewhere")
    loaded, _ = check(_logs.write_lines(path, [*rows, again]))
    fault = only(loaded.faults, "conflicting_duplicate")
    assert (fault.count, fault.line) == (1, len(rows) + 1)
    said = loaded.record.filter(pl.col("public") == "Elsewhere")
    assert said.height == 1


def test_conflicting_answer_keys(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    rows[-1]["answer"] = next(o for o in _logs.OPTIONS if o != rows[-1]["answer"])
    _, derived = check(_logs.write_lines(path, rows))
    fault = only(list(derived.faults), "conflicting_answer_key")
    assert (fault.count, "hp-003" in fault.found) == (1, True)
    data = derived.settings[0]
    assert data.rows.dropped["conflicting_answer_key"] == 15
    assert data.undefined == {"conflicting_answer_key": 1}
    assert data.n_c[3] == 0


def test_missing_rounds(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    kept = [r for r in rows if not (r["task_id"] == "hp-001" and r["round"] == 2)]
    loaded, derived = check(_logs.write_lines(path, kept))
    data = derived.settings[0]
    assert data.rows.dropped["row_absent"] == 5
    assert data.rows.dropped["previous_round_absent"] == 5
    assert only(list(audit(loaded).faults), "missing_rounds").count == 1


@pytest.mark.parametrize("shape", [{"tasks": 1}, {"rounds": 1}, {"agents": 2}, {"agents": 1}])
def test_small_logs(tmp_path: Path, shape: dict[str, int]) -> None:
    path, _ = clean(tmp_path, **shape)
    loaded, derived = check(path)
    assert not loaded.faults
    assert derived.settings[0].rows.expected > 0


def test_no_discussion_round(tmp_path: Path) -> None:
    path, _ = clean(tmp_path, rounds=0)
    loaded, derived = check(path)
    data = derived.settings[0]
    assert (data.rows.expected, data.undefined) == (0, {"no_discussion_rounds": 4})
    assert not any(k.known for k in audit(loaded).settings[0].known)


def known(loaded: Loaded) -> dict[str, bool]:
    return {k.quantity: k.known for k in audit(loaded).settings[0].known}


def test_nobody_withholds(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    held = {(r["task_id"], r["agent"], r["round"]): r["private"] for r in rows}
    for row in rows:
        if row["round"]:
            row |= {"public": held[row["task_id"], row["agent"], row["round"] - 1], "probe_ok": True}
    loaded, derived = check(_logs.write_lines(path, rows))
    counts = derived.settings[0].counts
    assert (counts.withheld, counts.opportunities > 0) == (0, True)
    assert known(loaded)["withholding c"]
    assert not known(loaded)["internalization a"]


def test_nobody_enters_correct(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    for row in rows:
        row["answer"] = "Nobody's answer"
    loaded, derived = check(_logs.write_lines(path, rows))
    counts = derived.settings[0].counts
    assert (counts.correct_rows, counts.wrong_rows > 0) == (0, True)
    assert not known(loaded)["net correction gamma"]


def test_all_ties(tmp_path: Path) -> None:
    path, rows = clean(tmp_path, agents=3)
    for row in rows:
        row["nb_public"] = ["East Town", "West Town"] if row["round"] else []
    loaded, derived = check(_logs.write_lines(path, rows))
    data = derived.settings[0]
    assert data.counts.opportunities == 0
    assert data.rows.ties == data.rows.used > 0
    assert not known(loaded)["withholding c"]


def test_numbers_and_nan_as_answers(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    text = path.read_bytes()
    nan = text.replace(json.dumps(rows[30]["raw"], ensure_ascii=False).encode(), b"NaN", 1)
    path.write_bytes(nan)
    loaded, _ = check(path)
    assert only(loaded.faults, "not_a_number").count == 1
    assert loaded.record.height == len(rows)
    huge = [dict(r, answer=10**30, private=10**30, public=10**30, nb_public=[10**30]) for r in rows]
    loaded, derived = check(_logs.write_lines(path, huge))
    assert loaded.record["truth"].unique().to_list() == [str(10**30)]
    assert only([w for w in loaded.warnings if w.field == "answer"], "answer_not_text").count == len(rows)
    assert derived.settings[0].vote_correct.all()


def test_answers_of_the_wrong_type_are_missing(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    rows[-1]["public"] = {"choice": "East Town"}
    loaded, derived = check(_logs.write_lines(path, rows))
    assert only(loaded.faults, "wrong_type").line == len(rows)
    assert derived.settings[0].rows.dropped["public_missing"] == 1


def test_round_numbers_with_absurd_gaps(tmp_path: Path) -> None:
    path, rows = clean(tmp_path, tasks=200)
    rows[-1]["round"] = 99_999
    _logs.write_lines(path, rows)
    with pytest.raises(InputError, match="round"):
        derive(load(path).record)


def test_foreign_code_is_never_run(tmp_path: Path) -> None:
    path, rows = clean(tmp_path)
    (tmp_path / "marker").unlink(missing_ok=True)
    evil = f"__import__('pathlib').Path({str(tmp_path / 'marker')!r}).touch()"
    (tmp_path / "events.meta.json").write_text(json.dumps({"model": evil, "data": "../../etc/passwd"}))
    check(_logs.write_lines(path, [dict(r, raw=evil, task_id="../../" + r["task_id"]) for r in rows]))
    assert not (tmp_path / "marker").exists()


# ------------------------------------------------------------------------------------------------ tables


def write(tmp_path: Path, rows: list[dict[str, str]]) -> Path:
    return _logs.write_csv(tmp_path / "table.csv", rows)


def test_csv_truncated_last_row(tmp_path: Path) -> None:
    path = write(tmp_path, _logs.table())
    path.write_bytes(path.read_bytes().rstrip().rsplit(b",", 2)[0])
    loaded, derived = check(path)
    assert only(loaded.faults, "truncated_last_line").line == 37
    assert derived.settings[0].rows.dropped["row_absent"] == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"00,1,a0", b"00,one,a0", "line 6, field 'round'"),
        (b"00,1,a0", b"00,1.5,a0", "line 6, field 'round'"),
        (b"00,1,a0", b"00,,a0", "line 6, field 'round'"),
        (b"00,1,a0", b"00,-1,a0", "line 6, field 'round'"),
        (b"00,1,a0", b"00,99999999999999999999,a0", "line 6, field 'round'"),
        (b"00,1,a0", b"00,1,", "line 6, field 'agent'"),
        (b"00,1,a0,", b"00,1,a0,more,", "line 6: 7 cells"),
        (b"00,1,a0,", b"00,1,", "line 6: 5 cells"),
        (b"00,1,a0,", b"00,1,a\0,", "line 6: a NUL byte"),
        (b"00,1,a0,", b"00,1,a\xff,", "line 6: bytes that are not UTF-8"),
        (b"task,", b"question,", "no column task; found: question"),
        (b",truth", b",private", "two columns of one name"),
    ],
)
def test_csv_errors_name_the_place(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    path = write(tmp_path, _logs.table())
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    with pytest.raises(InputError) as e:
        load(path)
    assert message in str(e.value)


def test_csv_marks_unknown_columns_and_separators(tmp_path: Path) -> None:
    rows = [r | {"note": "a\u2028b", "truth": r["truth"] + "\u2028"} for r in _logs.table()]
    path = write(tmp_path, rows)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    loaded, _ = check(path)
    assert {w.kind for w in loaded.warnings} == {"byte_order_mark", "unknown_column"}
    assert "note" in only(loaded.warnings, "unknown_column").found
    assert loaded.record.height == len(rows)
    assert loaded.record["truth"].str.ends_with("\u2028").all()


def test_csv_mixed_agent_ids(tmp_path: Path) -> None:
    rows = _logs.table()
    for r in rows:
        r["agent"] = r["agent"][1:]
    _, want = check(write(tmp_path, rows))
    for i, r in enumerate(rows):
        r["agent"] += ".0" * (i % 3 == 0)
    loaded, derived = check(write(tmp_path, rows))
    assert only(loaded.warnings, "mixed_agent_ids").count == 12
    assert derived.settings[0].counts == want.settings[0].counts


def test_csv_conflicts(tmp_path: Path) -> None:
    rows = _logs.table()
    twice = dict(rows[-1], public="Elsewhere")
    other_key = dict(rows[0], truth="Elsewhere")
    loaded, derived = check(write(tmp_path, [other_key, *rows[1:], twice]))
    assert only(loaded.faults, "conflicting_duplicate").line == len(rows) + 2
    assert only(list(derived.faults), "conflicting_answer_key").count == 1
    assert derived.settings[0].rows.dropped["conflicting_answer_key"] == 8


def test_csv_of_header_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("task,round,agent,private,public,truth\n")
    with pytest.raises(InputError, match="without rows"):
        load(tmp_path / "t.csv")


# ---------------------------------------------------------------------------------------- other formats


@pytest.mark.parametrize("folder", ["inspect_ai", "llm_deliberation_negotiation", "mallm", "whowhen_autogen"])
def test_real_logs_of_other_frameworks(tmp_path: Path, folder: str) -> None:
    """They are not ours: one clear error each, also under our endings."""
    for file in sorted(data_file(f"logs/{folder}").iterdir()):
        with pytest.raises(AbileneError):
            load(file)
        for ending in (".jsonl", ".csv", ".parquet"):
            (tmp_path / f"x{ending}").write_bytes(file.read_bytes())
            with pytest.raises(InputError) as e:
                load(tmp_path / f"x{ending}")
            assert len(str(e.value)) < 700
    with pytest.raises(AbileneError):
        load(data_file(f"logs/{folder}"))
