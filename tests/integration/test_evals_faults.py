"""A server that misbehaves: the run ends, failures are no behaviour, and the audit adds up."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
import tenacity
from _mock_server import Config, call_key, fault_of, mock_server, requests
from inspect_ai.log import read_eval_log

from abilene.evals.config import RunConfig
from abilene.evals.drive import run
from abilene.records.audit import audit
from abilene.records.derive import derive
from abilene.records.files import load

FAULTS = {"429": 0.10, "hang": 0.05, "500": 0.02, "empty": 0.05, "garbage": 0.05, "think": 0.05}
#: What a reply of each kind of fault reads as, where the fault stays; think blocks are no fault of the answer.
FAILED = ("429", "500", "hang")


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(
        "inspect_ai.model._retry.wait_exponential_jitter", lambda **_: tenacity.wait_fixed(0.05)
    )


def config(url: str, tmp_path, **options) -> RunConfig:
    return RunConfig(
        **{
            "model": "openai-api/mock/m",
            "base_url": url,
            "tasks": 8,
            "rounds": 2,
            "out": tmp_path / "run",
            "attempt_timeout": 1,
            "connections": 40,
        }
        | options
    )


def test_faults_that_pass_are_retried_and_those_that_stay_are_missing(tmp_path):
    """Empty and garbled replies stay; calls that were refused, failed or hung are asked again."""
    log = tmp_path / "requests.jsonl"
    with mock_server(faults=FAULTS, log=str(log)) as url:
        result = run(config(url, tmp_path, model_args={"max_retries": 0}), progress=False)
    asked = requests(log)
    met = Counter(r["fault"] for r in asked)
    assert result.complete and result.stopped is None
    assert all(met[name] > 0 for name in FAULTS), met
    record = result.loaded.record
    assert record["public_error"].null_count() == record["private_error"].null_count() == record.height
    # Every request that failed or hung was asked once more; nothing else was.
    again = Counter(r["key"] for r in asked)
    for r in asked:
        assert (r["attempt"] + 1 < again[r["key"]]) == (r["fault"] in FAILED), r
    check_rows(result, seed=0, every_attempt=False)
    check_audit(result)


def test_faults_that_stay_end_as_missing_answers(tmp_path):
    faults = {"429": 0.04, "hang": 0.03, "500": 0.05, "empty": 0.05, "garbage": 0.05, "think": 0.1}
    faults |= {"length": 0.05, "refusal": 0.05}
    with mock_server(faults=faults, every_attempt=True, seed=4) as url:
        result = run(config(url, tmp_path, max_retries=1, model_args={"max_retries": 0}), progress=False)
    assert result.complete
    assert result.loaded.record["public_error"].drop_nulls().len() > 0
    check_rows(result, seed=4, every_attempt=True, faults=faults)
    check_audit(result)
    report = audit(load(result.out))
    assert not report.passes  # far more than 2 % of the public answers are missing


def check_rows(result, *, seed: int, every_attempt: bool, faults: dict | None = None) -> None:
    """Every row against the fault its call met: an independent reading of the log's prompts."""
    server = Config(faults=faults or FAULTS, seed=seed, every_attempt=every_attempt)
    rows = {(r["task"], r["round"], r["agent"]): r for r in result.loaded.record.iter_rows(named=True)}
    expected_status = {
        "empty": {"missing"},
        "garbage": {"missing", "off_list"},
        "length": {"truncated"},
        "refusal": {"refused"},
        "429": {"failed"},
        "500": {"failed"},
        "hang": {"failed"},
        "think": {"ok"},
        None: {"ok"},
    }
    checked = Counter()
    for sample in read_eval_log(str(result.logs[0]), resolve_attachments=True).samples:
        for event in (e for e in sample.events if e.event == "model"):
            data = event.input[-1].metadata
            key = call_key(event.input[0].text, event.input[-1].text)
            attempt = 0
            while not every_attempt and fault_of(server, key, attempt) in FAILED:
                attempt += 1
            fault = fault_of(server, key, attempt)
            row = rows[data["task"], data["round"], str(data["agent"])]
            side = "private" if data["kind"] == "probe" else "public"
            assert row[f"{side}_status"] in expected_status[fault], (fault, side, row)
            if fault not in (None, "think"):
                joint = side == "private" and row["private_source"] == "joint"
                assert row[side] is None or joint, row
            assert (row[f"{side}_error"] is not None) == (fault in FAILED), (fault, row)
            checked[fault] += 1
    assert set(checked) >= set(server.faults) - (set() if every_attempt else set(FAILED)), checked


def check_audit(result) -> None:
    record = result.loaded.record
    report = audit(load(result.out))
    for setting in report.settings:
        rows = setting.data.rows
        assert rows.expected == rows.used + sum(rows.dropped.values())
        assert rows.expected == 8 * 2 * 5
    # No used row rests on an answer that failed: counted here from the statuses alone.
    used = derive(record).rows().filter(pl.col("drop_reason").is_null())
    joined = used.join(record, on=["task", "round", "agent"], suffix="_row")
    assert joined.height == used.height > 0
    answered = pl.col("status_x").is_in(["ok", "multiple"])
    for side in ("public", "private"):
        assert joined.with_columns(status_x=pl.col(f"{side}_status")).filter(~answered).is_empty()
    assert joined.filter(pl.col("private_source") == "joint").is_empty()


def test_a_hung_call_is_bounded_by_its_timeout(tmp_path):
    """Without the bound this test would not end."""
    with mock_server(faults={"hang": 1.0}) as url:
        result = run(
            config(url, tmp_path, tasks=1, rounds=1, max_retries=1, model_args={"max_retries": 0}),
            progress=False,
        )
    record = result.loaded.record
    assert record["public"].null_count() == record.height and set(record["public_status"]) == {"failed"}
    assert set(record["public_error"]) != {None}
