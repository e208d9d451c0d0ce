"""One run of many settings: shared calls, names, forecasts; variants of benchmarks; runs that were cut short."""

from __future__ import annotations

import json

import polars as pl
import pytest
from _benchmarks import benchmark_file
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from abilene.analysis.conditions import conditions
from abilene.analysis.estimate import estimate
from abilene.cli.main import app
from abilene.errors import InputError, UsageError
from abilene.evals.config import RunConfig
from abilene.evals.drive import run
from abilene.evals.forecast import forecast
from abilene.records.audit import audit
from abilene.records.files import load
from abilene.records.schema import KEY


def cached(folder):
    return sum(p.is_file() for p in (folder / "cache").rglob("*"))


@pytest.mark.parametrize("protocol", ["structured", "open"])
def test_a_sweep_asks_what_settings_share_once_and_is_forecast_exactly(tmp_path, protocol):
    config = RunConfig(
        benchmark="hiddenbench", data=benchmark_file("hiddenbench"), tasks=4, protocol_name=protocol,
        model_args={"accuracy": 0.3}, vary={"rounds": (1, 2, 4), "team_size": (2, 5)}, out=tmp_path / "sweep",
    )  # fmt: skip
    result = run(config, progress=False)
    assert result.complete and len(result.finished) == len(config.plans) == 6
    assert "B · rounds 4 · team_size 5" in result.finished
    record = result.loaded.record
    assert {s.setting["team"] for s in estimate(record).settings} == {"N=2", "N=5"}
    assert len(estimate(record).settings) == 6
    # Only the deepest run of each team size is paid for; in open discussions each depth has its own final vote.
    per_agent = 1 + 2 * 4 if protocol == "structured" else 1 + 4 + 3
    assert cached(tmp_path / "sweep") == forecast(config).calls == 4 * (2 + 5) * per_agent
    # Alone, each asks for everything.
    alone = [RunConfig(benchmark="hiddenbench", data=config.data, tasks=4, protocol_name=protocol, rounds=t,
                       team_size=n) for t in (1, 2, 4) for n in (2, 5)]  # fmt: skip
    assert sum(forecast(c).calls for c in alone) > forecast(config).calls
    if protocol == "structured":
        # A deeper discussion goes on from the shallower one.
        deep, flat = (
            record.filter((pl.col("team") == "N=5") & pl.col("setting").str.ends_with(f"; {label}"))
            for label in ("4 rounds", "2 rounds")
        )
        shared = deep.filter(pl.col("round") <= 2)
        columns = ["task", "round", "agent", "private", "public", "share"]
        assert_frame_equal(shared.select(columns).sort(columns[:3]), flat.select(columns).sort(columns[:3]))


def test_runs_of_different_depth_are_settings_of_their_own(tmp_path):
    for t in (3, 5):
        run(RunConfig(tasks=4, rounds=t, out=tmp_path / str(t)), progress=False)
    both = load([tmp_path / "3", tmp_path / "5"])
    assert not both.faults and not both.warnings
    assert [s.data.rounds for s in estimate(both.record).settings] == [3, 5]


def test_arms_in_one_run(tmp_path):
    config = RunConfig(
        tasks=8, vary={"intervention": ("none", "transparent", "forced_majority")}, out=tmp_path / "x"
    )
    found = {
        s.setting["intervention"]: s for s in estimate(run(config, progress=False).loaded.record).settings
    }
    assert found["forced_majority"].gain.mean == 0.0
    assert cached(tmp_path / "x") == forecast(config).calls


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"vary": {"seed": (1, 2)}}, "cannot differ in 'seed'"),
        ({"vary": {"rounds": (1, 1)}}, "only once"),
        ({"vary": {"rounds": ()}}, "at least one"),
        ({"benchmark_options": {"findings": 3}}, "hidden_profile has no option 'findings'.*per_level"),
        ({"benchmark_options": {"per_level": "x"}}, "whole number, found 'x'"),
        ({"benchmark_options": {"per_level": True}}, "whole number"),
        ({"benchmark_options": {"source": 1}}, "no option 'source'"),
    ],
)
def test_a_wrong_sweep_or_variant_is_refused_before_anything_is_asked(tmp_path, changes, says):
    with pytest.raises(UsageError, match=says):
        run(RunConfig(tasks=4, out=tmp_path / "x", **changes), progress=False)
    assert not (tmp_path / "x").exists()


def test_variants_of_medeinst(tmp_path):
    config = RunConfig(
        benchmark="medeinst", data=benchmark_file("medeinst"), tasks=4, team_size=3,
        benchmark_options={"findings": 2, "options": 2}, model_args={"accuracy": 0.3}, out=tmp_path / "x",
    )  # fmt: skip
    for task in config.plans[0].items:
        assert len(task.options) == 2 and {len(own) for own in task.private} == {2}
    (setting,) = estimate(run(config, progress=False).loaded.record).settings
    assert setting.setting["setting"].endswith("findings=2; options=2")


@pytest.mark.parametrize("changes", [{"instruction_share": 0.5}, {"agent_instructions": {"0": "Be bold."}}])
def test_a_run_with_instructions_for_some_is_complete(tmp_path, changes):
    result = run(RunConfig(tasks=4, instructions=("C",), out=tmp_path / "x", **changes), progress=False)
    assert result.complete and list(result.finished.values()) == [(4, 4)]


def test_a_run_that_was_stopped_early_has_no_outcome(tmp_path):
    out = tmp_path / "x"
    result = run(RunConfig(tasks=6, max_total_tokens=30_000, out=out), progress=False)
    assert result.stopped and not result.complete
    for loaded in (result.loaded, load(out)):
        (found,) = audit(loaded).settings
        assert found.data.rounds == 3
        (setting,) = estimate(loaded.record).settings
        held = loaded.record.filter(pl.col("round") == 3)["public"].is_not_null().sum() // 5
        assert setting.gain.n == held < loaded.record["task"].n_unique()
        after = conditions(None, loaded.record)
        assert (after.average.after.mean is None) == (held == 0)
        assert any(f.kind == "discussions_absent" for f in loaded.faults)
    # Going on makes it whole, and nothing of the gap is left.
    whole = run(RunConfig(tasks=6, out=out), progress=False)
    assert whole.complete
    straight = run(RunConfig(tasks=6, out=tmp_path / "y"), progress=False).loaded.record
    columns = [*KEY, "private", "public", "public_status"]
    assert_frame_equal(whole.loaded.record.select(columns).sort(KEY), straight.select(columns).sort(KEY))


def test_an_early_stop_is_forecast_at_its_most(tmp_path):
    config = RunConfig(
        benchmark="hiddenbench", data=benchmark_file("hiddenbench"), tasks=3, rounds=4, protocol_name="open",
        early_stop=True, out=tmp_path / "x", model_args={"c": 1, "a": 0, "rho": 0},
    )  # fmt: skip
    most = forecast(config).calls
    run(config, progress=False)  # stubborn agents: no team ever agrees, unless it did from the start
    assert (
        cached(tmp_path / "x")
        <= most
        == sum(p.calls_by_agent * t.team_size for p in config.plans for t in p.items)
    )


def test_the_command_line_sweeps_lists_and_leaves_out(tmp_path):
    runner = CliRunner()
    ask = [
        "run",
        "hidden_profile",
        "--tasks",
        "8",
        "--rounds",
        "1",
        "--rounds",
        "2",
        "--out",
        str(tmp_path / "x"),
    ]
    done = runner.invoke(app, [*ask, "-M", "accuracy=0.9", "--json"])
    document = json.loads(done.stdout)
    assert set(document["finished"]) == {"B · rounds 1", "B · rounds 2"}
    # Agents that are right without counting do not do what the design assumes.
    left = runner.invoke(app, ["estimate", str(tmp_path / "x"), "--exclude", "picks", "--json"])
    document = json.loads(left.stdout)
    assert document["settings"] == [] and len(document["excluded"]) == 2
    assert all(e["reasons"][0].startswith("picks: ") for e in document["excluded"])
    kept = json.loads(
        runner.invoke(app, ["estimate", str(tmp_path / "x"), "--exclude", "audit", "--json"]).stdout
    )
    assert len(kept["settings"]) == 2 and kept["excluded"] == []
    assert "excluded" not in json.loads(
        runner.invoke(app, ["estimate", str(tmp_path / "x"), "--json"]).stdout
    )
    wrong = runner.invoke(app, ["estimate", str(tmp_path / "x"), "--exclude", "mood"])
    assert isinstance(wrong.exception, UsageError) and "manipulation" in str(wrong.exception)
    listed = json.loads(runner.invoke(app, ["interventions", "--json"]).stdout)
    assert {"A", "B", "C", "C1", "C2", "C3", "PS", "conflictual"} <= set(listed["instructions"])
    assert listed["withholding_set"] == {"transparent": 0.0, "forced_majority": 1.0}
    shown = runner.invoke(app, ["estimate", str(tmp_path / "x")]).stdout
    assert "side by side" in shown and shown.index("1 rounds") < shown.index("2 rounds")


def test_repetitions_draw_anew_and_count_as_one_unit(tmp_path):
    config = RunConfig(
        benchmark="hiddenbench", data=benchmark_file("hiddenbench"), tasks=5, rounds=1, epochs=3,
        instructions=("A", "C"), model_args={"accuracy": 0.5}, out=tmp_path / "run",
    )  # fmt: skip
    result = run(config, progress=False)
    assert result.finished == {"A": (15, 15), "C": (15, 15)}
    assert cached(tmp_path / "run") == forecast(config).calls
    first = result.loaded.record.filter(pl.col("round") == 0)
    votes = {
        (instruction, epoch): tuple(rows.sort("task", "agent")["public"])
        for (instruction, epoch), rows in first.group_by("instruction", "epoch")
    }
    assert len(votes) == 6 and len({votes["A", e] for e in (1, 2, 3)}) == 3
    assert all(votes["A", e] == votes["C", e] for e in (1, 2, 3))
    for setting in estimate(result.loaded.record).settings:
        assert (setting.data.discussions, len(setting.data.tasks)) == (15, 5)
    again = run(config, progress=False)
    assert again.calls == 0 and again.loaded.record.equals(result.loaded.record)
    with pytest.raises(UsageError, match="epochs must be at least 1, found 0"):
        RunConfig(epochs=0)


def test_defaults_of_the_command_are_the_documented_ones():
    def calls(*options):
        done = CliRunner().invoke(
            app, ["run", "hidden_profile", "--tasks", "4", "--dry-run", "--json", *options]
        )
        return json.loads(done.stdout)["calls"]

    assert calls() == 4 * 5 * (1 + 2 * 3)
    assert calls("--protocol", "open") == 4 * 5 * (1 + 15 + 1)
    assert calls("--epochs", "2", "--rounds", "1") == 2 * 4 * 5 * 3
    assert RunConfig().temperature == 0.7


# What makes two runs two settings -----------------------------------------------------------------------------


def labels(tmp_path, *options):
    """Labels of the settings of runs that differ in one option each, read together."""
    folders = []
    for i, more in enumerate(options):
        config = RunConfig(**{"tasks": 2, "rounds": 1, "informed": (1,), "out": tmp_path / str(i), **more})
        folders.append(run(config, progress=False).out)
    loaded = load(folders)
    return {s.setting["setting"] for s in estimate(loaded.record).settings}, loaded


def test_runs_of_other_wording_levels_topology_and_models_are_settings_of_their_own(tmp_path):
    pack = tmp_path / "mine.toml"
    text = CliRunner().invoke(app, ["prompts"]).stdout
    pack.write_text(
        text.replace('name = "abilene"', 'name = "mine"').replace("one of two people", "one of TWO people")
    )
    copy = tmp_path / "copy.toml"
    copy.write_text(text)
    ring = tmp_path / "ring.json"
    ring.write_text(json.dumps({str(i): [(i + 1) % 5] for i in range(5)}))
    wire = tmp_path / "wire.json"
    wire.write_text(json.dumps({"0": [1, 2]}))
    found, loaded = labels(
        tmp_path,
        {},
        {"prompts": copy, "tasks": 2},  # the same words: the same setting
        {"prompts": pack},
        {"informed": (2,)},
        {"agent_models": {"1": "behavioural/agent"}, "model_args": {"c": 1}},
        {"agent_models": {"2": "behavioural/agent"}, "model_args": {"c": 1}},
        {"topology": str(ring)},
        {"topology": str(wire)},
    )
    assert len(found) == 7
    assert sum("prompts mine " in label for label in found) == 1
    # An agent that is named for itself acts by the default rates, and the label says so.
    assert sum("agent 1: behavioural/agent (c=0.3 " in label for label in found) == 1
    assert not [f for f in loaded.faults if f.code == "conflicting_files"]


def test_what_is_given_twice_is_refused(tmp_path):
    for option, one, two in (
        ("--agent-instruction", "00=C", "0=A"),
        ("--agent-model", "0=behavioural/agent", "00=behavioural/agent"),
    ):
        done = CliRunner().invoke(
            app, ["run", "hidden_profile", "--dry-run", option, one, option, two], catch_exceptions=True
        )
        assert "each once" in str(done.exception), option
    wire = tmp_path / "wire.json"
    for text, told in (('{"0": [1], "0": [2]}', "occurs twice"), ('{"0": [1], "00": [2]}', "occurs twice")):
        wire.write_text(text)
        with pytest.raises(InputError, match=told):
            _ = RunConfig(topology=str(wire)).plans[0].items
    personas = tmp_path / "p.json"
    personas.write_text('{"0": "A nurse.", "0": "A clerk."}')
    with pytest.raises(InputError, match="occurs twice"):
        _ = RunConfig(personas=personas).plans[0].items
    with pytest.raises(UsageError, match="accuracy is one number"):
        run(RunConfig(model_args={"accuracy": "0.1,0.9"}, out=tmp_path / "x"), progress=False)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--model", "foo/bar"], "foo"),
        (["-M", "c=2"], "c"),
        (["-M", "nonsense=2"], "nonsense"),
        (["--agent-model", "0=foo/bar"], "foo"),
        (["--tasks", "1000000000"], "at most 100000"),
        (["--rounds", "1000000000"], "at most 1000"),
    ],
)
def test_a_dry_run_finds_what_the_run_would_refuse(options, told):
    done = CliRunner().invoke(app, ["run", "hidden_profile", "--dry-run", *options])
    assert isinstance(done.exception, UsageError) and told in str(done.exception)


def test_a_dry_run_needs_no_key_and_prices_no_mixed_team(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = CliRunner().invoke(
        app,
        ["run", "hidden_profile", "--tasks", "2", "--agent-model", "0=openai/gpt-4o", "--dry-run", "--json"],
    )
    told = json.loads(done.stdout)
    assert told["usd"] is None and "different prices" in told["reason"]


def test_conditions_refuses_another_version_of_a_task(tmp_path):
    source = json.loads(benchmark_file("hiddenbench").read_text())
    for entry in source:
        entry["hidden_information"][0] += " (edited)"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(source))
    base = {"benchmark": "hiddenbench", "tasks": 3, "rounds": 1}
    run(
        RunConfig(**base, data=benchmark_file("hiddenbench"), condition="full", out=tmp_path / "full"),
        progress=False,
    )
    for name, data, code in (("same", benchmark_file("hiddenbench"), None), ("edited", other, InputError)):
        run(RunConfig(**base, data=data, out=tmp_path / name), progress=False)
        done = CliRunner().invoke(app, ["conditions", str(tmp_path / name), "--full", str(tmp_path / "full")])
        assert (done.exception is None) if code is None else isinstance(done.exception, code)
    assert "another question, answer or facts" in str(done.exception)


def test_open_runs_show_what_they_measure(tmp_path):
    base = [
        "run",
        "hiddenbench",
        "--data",
        str(benchmark_file("hiddenbench")),
        "--tasks",
        "4",
        "--protocol",
        "open",
    ]
    base += ["-M", "accuracy=0.5"]
    votes = CliRunner().invoke(
        app, [*base, "--condition", "full", "--rounds", "0", "--out", str(tmp_path / "v")]
    )
    assert "votes" in votes.stdout and "there was no discussion" in votes.stdout
    talk = CliRunner().invoke(app, [*base, "--rounds", "2", "--out", str(tmp_path / "t")])
    for line in ("first votes", "final votes", "gain", "an open discussion has no"):
        assert line in talk.stdout
    for shown in (votes.stdout, talk.stdout):
        assert "dropped" not in shown and "not known" not in shown and "ceiling" not in shown
