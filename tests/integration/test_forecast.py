"""The forecast of a run against what the run then takes."""

from __future__ import annotations

import pytest
from _data import data_file

from abilene.errors import UsageError
from abilene.evals.drive import RunConfig, run
from abilene.evals.forecast import forecast


def happened(result):
    """Calls answered and tokens used, round 0 once for all instructions."""
    record = result.loaded.record
    first = record.filter((record["round"] == 0) & (record["instruction"] == record["instruction"].min()))
    later = record.filter(record["round"] > 0)
    calls = first.height + 2 * later.height
    return calls, *(int(first[c].sum()) + int(later[c].sum()) for c in ("input_tokens", "output_tokens"))


def within(found, expected, share):
    return abs(found - expected) <= share * expected


@pytest.mark.parametrize("benchmark", ["hidden_profile", "hiddenbench", "musique"])
def test_within_a_tenth(benchmark, tmp_path):
    files = {"hiddenbench": "hiddenbench.json", "musique": "musique_sample60.jsonl"}
    data = data_file(files[benchmark]) if benchmark in files else None
    config = RunConfig(
        benchmark=benchmark, instructions=("A", "C"), tasks=16, data=data, out=tmp_path / "run",
        model_args={} if data is None else {"accuracy": 0.4}, price=(1.0, 2.0),
    )  # fmt: skip
    told = forecast(config)
    calls, read, written = happened(run(config, progress=False))
    assert told.calls == calls
    assert within(told.input_tokens, read, 0.10), (told, read)
    assert within(told.output_tokens, written, 0.10), (told, written)
    assert told.usd == pytest.approx((told.input_tokens + 2 * told.output_tokens) / 1e6)
    # The check can fail: half the rounds are not within a tenth.
    assert not within(
        forecast(RunConfig(benchmark=benchmark, rounds=1, tasks=16, data=data)).calls, calls, 0.10
    )


def test_no_price_is_said():
    told = forecast(RunConfig(model="openai-api/mine/some-model", tasks=4))
    assert told.usd is None
    assert "price" in told.reason.lower()


def test_a_wrong_configuration_is_refused():
    with pytest.raises(UsageError):
        forecast(RunConfig(instructions=("nonsense",)))
