import json

import numpy as np
import polars as pl
import pytest
from _pipeline import hidden_profile

from abilene.analysis.estimate import estimate
from abilene.analysis.saved import load_posteriors, save_posteriors
from abilene.errors import InputError
from abilene.rates import Rates


@pytest.fixture(scope="module")
def record():
    return hidden_profile(Rates(0.6, 0.5, 0.9, 0.8), seed=2, per_level=5)


def test_a_setting_does_not_depend_on_the_others(record):
    two = pl.concat([record, record.with_columns(pl.lit("other").alias("model"))])
    alone, together = estimate(record, seed=5), estimate(two, seed=5)
    mine = next(s for s in together.settings if s.setting["model"] == "behavioural/agent")
    assert json.dumps(mine.to_json()) == json.dumps(alone.settings[0].to_json())


def test_the_order_of_rows_does_not_matter(record):
    shuffled = record.sample(fraction=1.0, shuffle=True, seed=1)
    assert estimate(shuffled).to_json() == estimate(record).to_json()


def test_only_simulated_settings_are_labelled(record):
    labels = [
        estimate(record.with_columns(pl.lit(m).alias("model"), pl.lit(None, pl.String).alias("agent_model")))
        .settings[0]
        .simulated
        for m in ("behavioural/agent", "openai/x", "openai/x+behavioural/agent", "theory/agents")
    ]
    assert labels == [True, False, True, True]


def test_no_number_where_nothing_is_known(record):
    silent = record.with_columns(pl.lit(None, pl.String).alias("public"))
    (s,) = estimate(silent).settings
    entry = json.loads(json.dumps(s.to_json(), allow_nan=False))
    assert entry["verdict"] == "unidentified"
    for name in ("withholding", "internalization", "net_correction", "margin"):
        assert entry[name]["mean"] is None
        assert entry[name]["reason"]
    assert entry["accuracy"]["gain"]["mean"] is None
    assert entry["rows"]["used"] == 0
    assert s.starts == ()


def test_starts_are_the_observed_ones(record):
    (s,) = estimate(record).settings
    expected = (
        record.filter(pl.col("round") == 0)
        .group_by("task")
        .agg((pl.col("public") == pl.col("truth")).sum().alias("k"))
        .sort("task")["k"]
        .to_list()
    )
    assert s.starts == tuple((k, 5) for k in expected)


def test_saved_posteriors_come_back(record, tmp_path):
    result = estimate(record)
    save_posteriors(result, tmp_path / "p.nc")
    (saved,) = load_posteriors(tmp_path / "p.nc")
    (s,) = result.settings
    assert saved.starts == list(s.starts)
    assert saved.setting == s.setting
    assert saved.rounds == 3
    assert saved.simulated
    np.testing.assert_array_equal(saved.posterior["margin"], s.posterior.posterior["margin"])


@pytest.mark.parametrize("content", [None, b"", b"not netCDF"])
def test_something_else_than_posteriors(tmp_path, content):
    path = tmp_path / "p.nc"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"p\.nc"):
        load_posteriors(path)


def test_a_file_of_the_nearest_kind(tmp_path):
    from abilene.theory.phase import phase_diagram, save

    save(
        phase_diagram(5, 2, 0.5, 1, 0.8, withholding=[0.1, 0.2], accuracy=[0.1, 0.2], teams=5),
        tmp_path / "p.nc",
    )
    with pytest.raises(InputError, match="no posteriors"):
        load_posteriors(tmp_path / "p.nc")


def test_a_start_needs_every_agent_of_the_discussion(record):
    lost = record.filter(
        ~((pl.col("round") == 0) & (pl.col("agent") == "2") & (pl.col("task") == "hp-0-000"))
    )
    (s,) = estimate(lost).settings
    assert len(s.starts) == 19
    assert {n for _, n in s.starts} == {5}


def test_rates_that_were_set_are_not_read_as_inclination(record):
    (s,) = estimate(record.with_columns(pl.lit("transparent").alias("intervention"))).settings
    assert any("set withholding to 0" in r for r in s.reasons)
    assert not any("set withholding" in r for r in estimate(record).settings[0].reasons)
