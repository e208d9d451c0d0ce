"""kill -9 at random moments: the same command goes on, no finished call is asked again, the record is the same."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from abilene.records.derive import derive
from abilene.records.files import load
from abilene.records.schema import KEY

WORKER = Path(__file__).parents[1] / "_kill_worker.py"
TOTAL = 12 * 5 * (1 + 2 * 2 * 2)  # tasks, agents, round 0 once and two rounds of two calls per instruction
#: A call whose answer left the agent in the last moments before the kill may not have been stored yet.
MOMENT = 0.05


def start(out: Path, calls: Path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, str(WORKER), str(out), str(calls)], stderr=subprocess.DEVNULL)


def lines(calls: Path) -> list[dict]:
    return [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []


def finish(out: Path, calls: Path) -> pl.DataFrame:
    assert start(out, calls).wait(timeout=120) == 0
    return load(out).record.drop("input_tokens", "output_tokens").sort(KEY)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> pl.DataFrame:
    folder = tmp_path_factory.mktemp("undisturbed")
    record = finish(folder / "run", folder / "calls")
    assert len(lines(folder / "calls")) == TOTAL
    return record


@pytest.mark.parametrize(
    ("kills", "seed"),
    [(2, 0), pytest.param(5, 1, marks=pytest.mark.slow), pytest.param(5, 2, marks=pytest.mark.slow)],
)
def test_a_killed_run_goes_on_as_if_nothing_had_been(tmp_path, undisturbed, kills, seed):
    rng = random.Random(seed)
    out, calls = tmp_path / "run", tmp_path / "calls"
    moments = sorted(rng.uniform(0.02, 0.98) * TOTAL for _ in range(kills))
    killed: list[float] = []
    for moment in moments:
        process = start(out, calls)
        while process.poll() is None and len(lines(calls)) < moment:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.1))
        killed.append(time.time())
        process.kill()
        assert process.wait() != 0, "the run ended before it was killed"
    record = finish(out, calls)
    assert_frame_equal(record, undisturbed)
    seen: dict[str, float] = {}
    repeated = 0
    for entry in lines(calls):
        key = json.dumps(entry["key"])
        if key in seen:
            repeated += 1
            stop = min(k for k in killed if k >= seen[key])
            assert seen[key] > stop - MOMENT, (
                f"{key} had been answered {stop - seen[key]:.3f} s before the kill"
            )
        seen[key] = entry["time"]
    assert len(seen) == TOTAL and repeated <= 3 * kills, Counter(map(str, seen))
    rows = derive(record).settings[0].rows
    assert rows.used + sum(rows.dropped.values()) == rows.expected == 12 * 2 * 5


def test_an_interrupted_run_keeps_what_is_finished(tmp_path, undisturbed):
    out, calls = tmp_path / "run", tmp_path / "calls"
    process = start(out, calls)
    while process.poll() is None and len(lines(calls)) < TOTAL * 0.7:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) != 0
    part = load(out).record.drop("input_tokens", "output_tokens").sort(KEY)
    assert 0 < part.height < undisturbed.height
    # Rounds that a discussion did not come to are there without an answer: it has no outcome yet.
    not_held = part["public_status"] == "not_asked"
    assert (
        part.filter(not_held)["public"].is_null().all() and part.filter(not_held)["private"].is_null().all()
    )
    assert part.filter(pl.col("round") == pl.col("round").max())["round"][0] == undisturbed["round"].max()
    part = part.filter(~not_held)
    kept = undisturbed.join(part.select(KEY), on=KEY, how="semi", nulls_equal=True, maintain_order="left")
    assert_frame_equal(part, kept)
    assert_frame_equal(finish(out, calls), undisturbed)
    assert len(lines(calls)) == len({json.dumps(entry["key"]) for entry in lines(calls)}) == TOTAL
