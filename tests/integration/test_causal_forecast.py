"""What the causal test will take, against what it takes; and a prediction that comes too late."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from abilene.cli.experiment import app
from abilene.errors import InputError, UsageError
from abilene.evals.causal import COMPARISON, PREDICTION, causal, forecast_causal
from abilene.evals.config import RunConfig
from abilene.evals.forecast import forecast

ARGS = ["--tasks", "3", "--rounds", "2", "-M", "c=0.6", "--dry-run"]


def cells():
    """Two benchmarks' worth of cells: teams of other sizes and other agents."""
    return [
        RunConfig(tasks=3, rounds=2, model_args={"c": 0.6}),
        RunConfig(tasks=4, rounds=1, team_size=7, model_args={"c": 0.1, "accuracy": 0.4}),
    ]


def abilene(*args):
    return CliRunner().invoke(app, ["causal", *map(str, args)])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("forecast") / "e1"
    return causal(cells(), out, draws=20, progress=False)


def test_the_forecast_counts_the_calls_that_are_then_made(done):
    made = [sum(p.is_file() for p in c.rglob("*")) for c in sorted(done.out.glob("*/control/cache"))]
    alone = [forecast_causal([cell]).calls for cell in cells()]
    assert sorted(made) == sorted(alone)
    assert forecast_causal(cells()).calls == sum(made)
    # The check can fail: arms that share nothing with their control ask for more.
    apart = [
        forecast(replace(c, intervention=i)).calls
        for c in cells()
        for i in ("none", "transparent", "forced_majority")
    ]
    assert sum(made) == sum(apart) - 2 * (
        3 * 5 + 4 * 7
    )  # independent answers of two arms, by tasks and agents


def test_a_dry_run_asks_nothing_and_makes_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = abilene("--out", "e1", *ARGS)
    assert told.exit_code == 0, told.exception
    calls = (
        3 * 5 * (1 + 2 * 2 * 3)
    )  # tasks, agents; an independent answer, and two calls a round in three arms
    assert f"calls          {calls}\n" in told.stdout
    assert not list(tmp_path.iterdir())


def test_an_unknown_price_is_null_with_the_reason(tmp_path):
    two = ("--model", "openai-api/mine/model", "--model", "behavioural/agent")
    told = abilene("--out", tmp_path / "e1", "--tasks", 2, *two, "--dry-run", "--json")
    document = json.loads(told.stdout)  # one document and nothing else
    assert document["usd"] is None and "openai-api/mine/model are not known" in document["reason"]
    priced = abilene(
        "--out", tmp_path / "e1", "--tasks", 2, *two[:2], "--price", "1,2", "--max-cost", "0.001", "--dry-run"
    )
    assert "over the limit of 0.001 USD" in priced.stderr
    one = forecast_causal([RunConfig(model=two[1], tasks=2, price=(1.0, 2.0))])
    assert one.usd == pytest.approx((one.input_tokens + 2 * one.output_tokens) / 1e6) and one.reason is None


def test_a_prediction_after_the_comparison_is_refused(done, tmp_path):
    """Without the arms' folders nothing but the comparison tells that the arms ran."""
    out = shutil.copytree(done.out, tmp_path / "copy", symlinks=True)
    (out / PREDICTION).unlink()
    for cell in done.comparisons:
        for arm in cell.arms:
            shutil.rmtree(out / cell.folder / arm.predicted.arm)
    with pytest.raises(InputError) as caught:
        causal(cells(), out, draws=20, progress=False)
    assert COMPARISON in str(caught.value) and "Put the file back, or choose a new --out." in str(
        caught.value
    )
    assert not (out / PREDICTION).exists() and not list(out.glob("*/transparent"))
    # Without that trace there is a new experiment over the same control logs.
    (out / COMPARISON).unlink()
    assert causal(cells(), out, draws=20, progress=False).comparisons


def test_simulated_agents_that_are_given_twice(tmp_path):
    told = abilene(
        "--out", tmp_path / "e1", *ARGS, "--model", "behavioural/agent", "--model", "behavioural/agent"
    )
    assert isinstance(told.exception, UsageError)
    assert "hidden_profile with behavioural/agent is given twice. " in str(told.exception)
    for words in ("-M", "abilene.evals.causal.causal", "docs/causal-test.md"):
        assert words in str(told.exception)
    with pytest.raises(UsageError, match=r"m/x is given twice\. Give each benchmark and each model once"):
        forecast_causal([RunConfig(model="m/x", tasks=2)] * 2)
