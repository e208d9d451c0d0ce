"""`abilene conditions` and `abilene scores` on real runs of simulated agents, as a user meets them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import polars as pl
import pytest
from _benchmarks import benchmark_file
from typer.testing import CliRunner

from abilene.cli.main import app
from abilene.errors import UsageError
from abilene.evals.drive import RunConfig, run
from abilene.records.files import load, write_record


def abilene(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of the two conditions (a hidden one for each of two depths), by simulated agents that are told apart."""
    out = tmp_path_factory.mktemp("conditions")
    base = RunConfig(
        benchmark="hiddenbench", data=benchmark_file("hiddenbench"), tasks=6, protocol_name="open",
        model_args={"oracle": True}, rounds=2,
    )  # fmt: skip
    configs = {
        "full": replace(base, condition="full", rounds=0),
        "hidden": base,
        "sweep": replace(base, vary={"rounds": (10, 2)}),
        "other": replace(base, model_args={"oracle": True, "c": 0.5}),
        "structured": replace(base, protocol_name="structured"),
        "small": replace(base, tasks=2),
    }
    for name, config in configs.items():
        run(replace(config, out=out / name), progress=False)
    return out


def test_one_setting_keeps_its_document(runs):
    told = json.loads(abilene("conditions", runs / "hidden", "--full", runs / "full", "--json").stdout)
    assert set(told) == {"schema", "setting", "simulated", "scoring", "missing", "reasons"}
    average = told["scoring"]["average"]
    assert (average["full"]["mean"], average["before"]["mean"], average["full"]["tasks"]) == (1.0, 0.0, 6)
    assert average["gap"]["mean"] == average["after"]["mean"] - 1.0


@pytest.mark.parametrize("hidden", ["structured", "small"])
def test_other_protocols_and_fewer_tasks_have_the_same_ceiling(runs, hidden):
    result = abilene("conditions", runs / hidden, "--full", runs / "full")
    assert result.exit_code == 0, result.exception
    assert re.search(r"full profile +1\.000", result.stdout)


def test_a_sweep_is_printed_depth_by_depth(runs):
    args = ("conditions", runs / "sweep", "--full", runs / "full")
    shown = abilene(*args).stdout
    assert [int(n) for n in re.findall(r"discussion of\s+(\d+)\s+rounds", shown)] == [2, 10]
    assert shown.count("gap to the ceiling") == 2 == shown.count("[simulated agents]")
    told = json.loads(abilene(*args, "--json").stdout)
    assert set(told) == {"schema", "settings"} and told["schema"] == 1 and len(told["settings"]) == 2
    alone = json.loads(abilene("conditions", runs / "hidden", "--full", runs / "full", "--json").stdout)
    assert {"schema": 1, **told["settings"][0]} == alone


@pytest.mark.parametrize(
    ("hidden", "full", "told"),
    [
        ("full", "hidden", "The two are swapped"),
        ("hidden", "hidden", "hidden was run with --condition hidden; --full needs a run with --condition full."),
        ("full", "full", "full was run with --condition full; HIDDEN needs a run with --condition hidden"),
        ("full", None, "full was run with --condition full; HIDDEN needs"),
        ("other", "full", "Only the same agents on the same benchmark can be compared."),
    ],
)  # fmt: skip
def test_what_is_no_ceiling_is_refused_in_one_line(runs, hidden, full, told):
    args = ["conditions", runs / hidden, *(() if full is None else ("--full", runs / full))]
    result = abilene(*args)
    assert isinstance(result.exception, UsageError) and not result.stdout
    assert told in str(result.exception) and "\n" not in str(result.exception)


# Scores ----------------------------------------------------------------------------------------------------


def scored(tmp_path, benchmark, accuracy):
    """Folder of a run in which nobody answers one of the tasks at the end."""
    config = RunConfig(
        benchmark=benchmark, data=benchmark_file(benchmark), tasks=6, rounds=1, model_args={"accuracy": accuracy},
        out=tmp_path / "run",
    )  # fmt: skip
    out = run(config, progress=False).out
    record = load(out).record
    silent = (record["task"] == record["task"].min()) & (record["round"] == 1)
    gone = [pl.when(silent).then(None).otherwise(pl.col(c)).alias(c) for c in ("public", "public_raw")]
    write_record(record.with_columns(gone), out / "rows.parquet")
    return out


def test_third_diagnoses_ties_and_the_unanswered_are_shown(tmp_path):
    out = scored(tmp_path, "medeinst", 0.3)
    shown = abilene("scores", out).stdout
    stages = json.loads(abilene("scores", out, "--json").stdout)["bias_trap"]
    assert [s["unanswered"] for s in stages] == [0, 1, 0]
    assert sum(s["other"] + s["ties"] for s in stages) > 0
    for s in stages:
        n = s["accuracy"]["n"]
        (line,) = re.findall(rf"^{s['stage']} .*$", shown, re.MULTILINE)
        assert line.split()[-2:] == [f"{s['other'] / n:.3f}", f"{s['ties'] / n:.3f}"]
        total = s["bias_trap_rate"]["k"] + s["accuracy"]["k"] + s["other"] + s["ties"]
        assert total == n == 6 - s["unanswered"]
    assert "left out as unanswered: vote 0, discussion 1, beliefs 0" in shown


def test_the_unanswered_of_musique_are_shown(tmp_path):
    shown = abilene("scores", scored(tmp_path, "musique", 0.5)).stdout
    assert "left out as unanswered: vote 0, discussion 1, beliefs 0" in shown and "third" not in shown
