"""The causal test end to end in miniature: behavioural agents, two benchmarks, few tasks."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from _benchmarks import benchmark_file
from typer.testing import CliRunner

from abilene.cli.experiment import app, data_files
from abilene.errors import InputError, UsageError
from abilene.evals import causal as module
from abilene.evals.causal import COMPARISON, PREDICTION, causal
from abilene.evals.config import RunConfig
from abilene.evals.registered import seal
from abilene.records.files import load

SMALL = {"tasks": 4, "rounds": 2, "model_args": {"c": 0.6}}


def cells(both=False):
    one = [RunConfig(**SMALL)]
    return (
        one
        if not both
        else [*one, RunConfig(benchmark="hiddenbench", data=benchmark_file("hiddenbench"), **SMALL)]
    )


@pytest.fixture(scope="module")
def calls():
    """What really reaches the simulated agents."""
    from abilene.evals.behavioural import BehaviouralAPI

    counted: Counter[tuple] = Counter()
    real = BehaviouralAPI.generate

    async def generate(self, input, tools, tool_choice, config):
        data = input[-1].metadata
        counted[tuple(data.get(k) for k in ("task", "round", "agent", "kind", "intervention"))] += 1
        return await real(self, input, tools, tool_choice, config)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BehaviouralAPI, "generate", generate)
        yield counted


@pytest.fixture(scope="module")
def done(tmp_path_factory, calls):
    """One whole experiment of one cell, not to be changed."""
    out = tmp_path_factory.mktemp("e1") / "one"
    return causal(cells(), out, draws=20, progress=False), dict(calls)


@pytest.fixture
def copy(done, tmp_path):
    """The same experiment in a folder that a test may spoil."""
    return shutil.copytree(done[0].out, tmp_path / "copy", symlinks=True)


def again(out, todo=None):
    return causal(cells() if todo is None else todo, out, draws=20, progress=False)


def reseal(path, change):
    """A prediction file changed so that its own hash fits."""
    document = json.loads(path.read_text())
    change(document)
    document["sha256"] = seal(document)
    path.write_text(json.dumps(document))
    return path.read_bytes()


def test_the_forced_arm_gains_exactly_nothing_and_every_arm_keeps_its_rule(done):
    (cell,) = done[0].comparisons
    transparent, forced = cell.arms
    assert forced.observed.gain.mean == 0.0 and forced.inside and forced.predicted.exact
    assert transparent.rule_kept == (40, 40) and forced.rule_kept[0] == forced.rule_kept[1] > 0
    assert all(a.same_start == (20, 20) for a in cell.arms) and not cell.faults
    record = load(done[0].out / cell.folder / "transparent").record.filter(pl.col("round") > 0)
    assert record.select((pl.col("public") == pl.col("private")).all()).item()


def test_independent_answers_are_asked_once_and_everything_else_once_per_arm(done):
    counted = done[1]
    assert set(counted.values()) == {1}
    by_round = Counter((key[1], key[4]) for key in counted)
    arms = (None, "transparent", "forced_majority")
    assert by_round == {(0, None): 20, **{(t, a): 40 for t in (1, 2) for a in arms}}


def test_the_file_of_the_comparison_is_the_document_and_labels_simulation(done):
    told = json.loads((done[0].out / COMPARISON).read_text())
    assert told == json.loads(json.dumps(done[0].to_json()))
    (cell,) = told["cells"]
    assert cell["simulated"] is True
    assert [a["withholding"]["set"] for a in cell["arms"]] == [0.0, 1.0]
    assert all(a["withholding"]["read"]["median"] is not None for a in cell["arms"])
    registered = json.loads((done[0].out / PREDICTION).read_text())
    assert told["prediction"]["sha256"] == registered["sha256"]
    for arm, before in zip(cell["arms"], registered["cells"][0]["predictions"]["arms"], strict=True):
        assert arm["predicted"]["gain"]["median"] == before["gain"]["median"]
    assert registered["packages"]["abilene"] and registered["cells"][0]["control"]["rows"] == 60


def test_a_second_start_asks_nothing_and_leaves_the_prediction(copy, calls):
    before, asked = (copy / PREDICTION).read_bytes(), calls.total()
    result = causal(cells(), copy, draws=5, seed=9, progress=False)  # other draws would predict otherwise
    assert (copy / PREDICTION).read_bytes() == before and calls.total() == asked
    assert (
        result.comparisons[0].arms[0].predicted.gain.median
        == json.loads(before)["cells"][0]["predictions"]["arms"][0]["gain"]["median"]
    )


def test_the_prediction_is_there_whole_before_the_first_arm_and_survives_a_kill(tmp_path, monkeypatch, calls):
    out, seen = tmp_path / "x", []

    def killed(*args):
        seen.append(json.loads((out / PREDICTION).read_text()))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "_run_arm", killed)
        with pytest.raises(KeyboardInterrupt):
            again(out)
    (registered,) = seen
    assert registered["sha256"] == seal(registered)
    (folder,) = [p for p in out.iterdir() if p.is_dir()]
    assert [p.name for p in folder.iterdir()] == ["control"]
    before, control = (out / PREDICTION).read_bytes(), sum(n for k, n in calls.items() if k[4] is None)
    assert again(out).comparisons
    assert (out / PREDICTION).read_bytes() == before
    assert sum(n for k, n in calls.items() if k[4] is None) == control


def test_a_killed_write_leaves_no_prediction(tmp_path, monkeypatch):
    real, out = os.replace, tmp_path / "x"

    def full(source, target):
        if Path(target).name == PREDICTION:
            raise OSError("disk full")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="disk full"):
            again(out)
    assert not [p for p in out.iterdir() if "prediction" in p.name]
    assert len([p for p in out.glob("*/*") if p.is_dir()]) == 1  # the control arm alone


def refused(copy, match, calls, todo=None):
    before = {p: p.read_bytes() for p in copy.glob("*.json")}
    asked = calls.total()
    with pytest.raises(InputError, match=match):
        again(copy, todo)
    assert {p: p.read_bytes() for p in copy.glob("*.json")} == before and calls.total() == asked


def test_a_prediction_of_other_control_logs_is_refused(copy, calls):
    reseal(copy / PREDICTION, lambda d: d["cells"][0]["control"].update(sha256="0" * 64))
    arms = [p for p in copy.glob("*/*") if p.name != "control"]
    for arm in arms:
        shutil.rmtree(arm)
    refused(copy, "does not belong to the control log", calls)
    assert not any(arm.exists() for arm in arms)


def test_a_changed_prediction_is_refused(copy, calls):
    text = (copy / PREDICTION).read_text()
    (copy / PREDICTION).write_text(text.replace('"draws": 20', '"draws": 200'))
    refused(copy, "was changed after it was written", calls)


def test_a_prediction_that_took_another_ones_place_is_refused(copy, calls):
    reseal(copy / PREDICTION, lambda d: d.update(written="2030-01-01T00:00:00+00:00"))
    refused(copy, "started under another", calls)


def test_a_prediction_after_the_arms_is_refused(copy, calls):
    (copy / PREDICTION).unlink()
    refused(copy, "A prediction made now would not be one", calls)
    assert not (copy / PREDICTION).exists()


def test_arms_from_elsewhere_are_refused(copy, calls):
    for path in copy.glob("*/transparent/prediction.sha256"):
        path.unlink()
    refused(copy, "was not started by this experiment", calls)


@pytest.mark.parametrize("change", [{"tasks": 5}, {"rounds": 3}, {"seed": 1}])
def test_other_arguments_are_refused_before_anything_is_asked(copy, calls, change):
    refused(copy, "written for other runs", calls, [replace(cells()[0], **change)])


def test_garbage_is_refused(copy, calls):
    (copy / PREDICTION).write_text("{}")
    refused(copy, "cannot be read as a prediction", calls)
    (copy / "notes.txt").write_text("mine")
    refused(copy, "holds something else", calls)


def test_designs_that_cannot_be(tmp_path):
    one = cells()[0]
    for wrong, match in (
        ([], "at least one"),
        ([one, one], "given twice"),
        ([replace(one, instructions=("A", "B"))], "one instruction"),
        ([replace(one, topology="ring")], "complete topology"),
        ([replace(one, intervention="no_board")], "sets the interventions itself"),
        ([one, replace(one, model_args={}, max_total_tokens=9)], "must be equal"),
    ):
        with pytest.raises(UsageError, match=match):
            again(tmp_path / "x", wrong)
    assert not (tmp_path / "x").exists()


def test_a_limit_holds_for_the_whole_experiment(tmp_path):
    out, small = tmp_path / "x", replace(cells()[0], tasks=2, rounds=1)

    def limited(tokens):
        return again(out, [replace(small, max_total_tokens=tokens)])

    assert limited(500).stopped and not (out / PREDICTION).exists()
    need = json.loads(next(out.glob("*/control/run.json")).read_text())["result"]["spent"]["tokens"]
    assert need <= 500
    # Tokens of simulated agents: the whole costs what three runs cost.
    whole = limited(10**7)
    assert whole.stopped is None
    spent = [json.loads(p.read_text())["result"]["spent"]["tokens"] for p in sorted(out.glob("*/*/run.json"))]
    assert len(spent) == 3 and min(spent) > 0
    other = tmp_path / "y"
    stopped = again(other, [replace(small, max_total_tokens=int(sum(spent) * 0.7))])
    assert stopped.stopped and stopped.registered is not None and not stopped.comparisons
    used = [json.loads(p.read_text())["result"]["spent"]["tokens"] for p in other.glob("*/*/run.json")]
    assert sum(used) <= sum(spent) * 0.7


def test_the_command_runs_two_benchmarks_and_prints_both(tmp_path):
    args = ["causal", "--out", str(tmp_path / "x"), "--benchmark", "hidden_profile", "--benchmark", "hiddenbench",
            "--data", str(benchmark_file("hiddenbench")), "--tasks", "3", "--rounds", "2", "-M", "c=0.6",
            "-M", "accuracy=0.4"]  # fmt: skip
    first = CliRunner().invoke(app, args)
    assert first.exit_code == 0, first.output
    for words in (
        "[simulated agents]",
        "hiddenbench",
        "forced_majority: c set to 1",
        "binary projection",
        "direction",
    ):
        assert words in first.stdout
    second = CliRunner().invoke(app, [*args, "--json"])
    told = json.loads(second.stdout)
    assert [c["benchmark"] for c in told["cells"]] == ["hidden_profile", "hiddenbench"]
    exact = [[a["predicted"]["exact"] for a in c["arms"]] for c in told["cells"]]
    assert exact == [[False, True], [False, False]]


def test_which_file_is_whose():
    assert data_files(
        [
            "a",
        ],
        ["hiddenbench"],
    ) == {"hiddenbench": "a"}
    assert data_files(["musique=a", "hiddenbench=b"], ["hiddenbench", "musique"]) == {
        "musique": "a",
        "hiddenbench": "b",
    }
    assert data_files(["x=y.json"], ["hiddenbench"]) == {"hiddenbench": "x=y.json"}
    for given, which in (
        (["a"], ["hiddenbench", "musique"]),
        (["a"], ["hidden_profile"]),
        (["a", "b"], ["musique"]),
    ):
        with pytest.raises(UsageError):
            data_files(given, which)
