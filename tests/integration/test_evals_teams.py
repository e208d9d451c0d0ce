"""Mixed models, per-agent instructions, personas and the full-profile condition through a run."""

from __future__ import annotations

import json

import polars as pl
import pytest
from _data import data_file

from abilene.analysis.estimate import estimate
from abilene.errors import InputError, UsageError
from abilene.evals.drive import RunConfig, run


def held(tmp_path, **options):
    return run(RunConfig(tasks=4, out=tmp_path / "run", **options), progress=False)


def test_mixed_models(tmp_path):
    result = held(tmp_path, model_args={"c": 0, "rho": 0}, agent_models={"1": "behavioural/agent"})
    record = result.loaded.record
    assert record["model"].unique().to_list() == ["behavioural/agent"]
    assert record["agent_model"].null_count() == 0
    stubborn = record.filter(pl.col("agent") != "1")
    assert stubborn.group_by("task", "agent").agg(pl.col("private").n_unique())["private"].max() == 1
    free = record.filter(pl.col("agent") == "1")
    assert free.group_by("task").agg(pl.col("private").n_unique())["private"].max() == 2


def test_the_setting_of_a_mixed_team_names_all_its_models(tmp_path):
    result = held(tmp_path, agent_models={"0": "mockllm/model", "3": "mockllm/model"})
    record = result.loaded.record
    assert record["model"].unique().to_list() == ["behavioural/agent+mockllm/model"]
    assert set(record.filter(pl.col("agent_model") == "mockllm/model")["agent"]) == {"0", "3"}
    (setting,) = estimate(record).settings
    assert setting.simulated
    # The mock answers nonsense: its agents' rows are missing, not wrong.
    mock = record.filter(pl.col("agent_model") == "mockllm/model")
    assert mock["private"].null_count() == mock.height


def test_instructions_of_single_agents_and_shares_are_part_of_the_setting(tmp_path):
    result = held(tmp_path, instructions=("B",), agent_instructions={"2": "C"})
    assert result.loaded.record["instruction"].unique().to_list() == ["B; agent 2: C"]
    shared = run(
        RunConfig(tasks=4, instructions=("C",), instruction_share=0.4, out=tmp_path / "s"), progress=False
    )
    assert shared.loaded.record["instruction"].unique().to_list() == ["C (for 0.4 of the agents)"]


def test_personas_are_part_of_the_setting(tmp_path):
    path = tmp_path / "who.json"
    path.write_text(json.dumps({"0": "You are a retired judge."}))
    result = held(tmp_path, personas=path)
    assert result.loaded.record["team"][0].startswith("N=5, personas ")


def test_full_profile_with_an_oracle_is_solved_by_everyone(tmp_path):
    result = run(
        RunConfig(
            benchmark="hiddenbench", data=data_file("hiddenbench.json"), condition="full", rounds=1,
            model_args={"oracle": True}, out=tmp_path / "run",
        ),
        progress=False,
    )  # fmt: skip
    record = result.loaded.record
    assert record["task"].n_unique() == 65
    assert (
        record.filter(pl.col("round") == 0)["private"] == record.filter(pl.col("round") == 0)["truth"]
    ).all()
    assert record["setting"].unique().to_list()[0].endswith("; full profile; 1 rounds")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"agent_models": {"9": "behavioural/agent"}}, UsageError),
        ({"agent_models": {"x": "behavioural/agent"}}, UsageError),
        ({"agent_models": {"1": "nonsense"}}, UsageError),
        ({"agent_instructions": {"7": "C"}}, UsageError),
        ({"agent_instructions": {"1": "Z"}}, UsageError),
        ({"instruction_share": 0.0}, UsageError),
        ({"condition": "half"}, UsageError),
        ({"personas": "nowhere.json"}, InputError),
        ({"model_args": {"oracle": "perhaps"}}, UsageError),
    ],
)
def test_mistakes_are_found_before_anything_is_asked(tmp_path, options, error):
    with pytest.raises(error):
        held(tmp_path, **options)
    assert not (tmp_path / "run" / "rows.parquet").exists()


def test_an_open_discussion_has_a_gain_and_no_rates(tmp_path):
    result = run(
        RunConfig(
            benchmark="hiddenbench", data=data_file("hiddenbench.json"), tasks=4, protocol_name="open", rounds=2,
            model_args={"accuracy": 0.3}, out=tmp_path / "run",
        ),
        progress=False,
    )  # fmt: skip
    assert result.complete
    (setting,) = estimate(result.loaded.record).settings
    assert setting.posterior.verdict == "unidentified"
    assert setting.posterior.withholding.mean is None
    assert setting.gain.n == 4
    assert setting.setting["setting"].endswith("open discussion of 2 rounds")
    assert result.calls == sum(n * 4 for _, n in setting.starts)


@pytest.mark.parametrize("options", [{"protocol_name": "loud"}, {"early_stop": True}])
def test_unknown_protocols_and_misplaced_stops(tmp_path, options):
    with pytest.raises(UsageError):
        held(tmp_path, **options)
