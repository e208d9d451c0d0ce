"""Runs: several instructions over one cache, resuming, limits, configuration, record."""

from __future__ import annotations

import json
import os
import pickle
import random
from collections import Counter

import polars as pl
import pytest
from _mock_server import mock_server, requests
from inspect_ai.model import ModelOutput
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from abilene.cli.main import app
from abilene.errors import InputError, UsageError
from abilene.evals.config import RunConfig
from abilene.evals.drive import run
from abilene.evals.reasoning import reasoning_config
from abilene.evals.scorer import verdict
from abilene.evals.session import Budget, Price
from abilene.records.derive import derive
from abilene.records.files import load, read_metadata
from abilene.records.schema import KEY, Row, frame

BEHAVIOUR = [*KEY, "private", "private_status", "public", "public_status", "share", "truth", "public_raw"]


def behaviour(record: pl.DataFrame) -> pl.DataFrame:
    return record.select(BEHAVIOUR).sort(KEY)


@pytest.fixture
def calls(monkeypatch):
    """Counts what really reaches the simulated agents, cache hits not included."""
    from abilene.evals.behavioural import BehaviouralAPI

    counted: Counter[tuple] = Counter()
    real = BehaviouralAPI.generate

    async def generate(self, input, tools, tool_choice, config):
        data = input[-1].metadata
        counted[tuple(data.get(k) for k in ("task", "round", "agent", "kind", "instruction"))] += 1
        return await real(self, input, tools, tool_choice, config)

    monkeypatch.setattr(BehaviouralAPI, "generate", generate)
    return counted


def test_instructions_share_round_0_and_a_second_start_asks_nothing(tmp_path, calls, capsys):
    config = RunConfig(instructions=("A", "C"), tasks=4, rounds=1, out=tmp_path / "x", model_args={"c": 0.7})
    result = run(config)
    assert capsys.readouterr().out == ""  # stdout is for results
    assert result.complete and result.finished == {"A": (4, 4), "C": (4, 4)}
    assert set(calls.values()) == {1} and len(calls) == 4 * 5 * (1 + 2 * 2)
    first = result.loaded.record.filter(pl.col("round") == 0).sort(KEY)
    sides = [first.filter(pl.col("instruction") == i).drop("instruction") for i in ("A", "C")]
    assert_frame_equal(*sides)
    assert any("imulated" in note for note in result.notes)
    again = run(config, progress=False)
    assert again.calls == 0 and sum(calls.values()) == len(calls)
    assert_frame_equal(behaviour(again.loaded.record), behaviour(result.loaded.record))
    # The folder reads by its record, and its logs say the same.
    assert_frame_equal(behaviour(load(tmp_path / "x").record), behaviour(result.loaded.record))
    assert_frame_equal(behaviour(load(list(result.logs)).record), behaviour(result.loaded.record))
    facts = read_metadata(result.record)
    assert facts["run"]["identity"]["seed"] == 0 and len(facts["logs"]) == 2


def test_every_argument_is_part_of_the_setting_or_of_the_identity(tmp_path):
    edges = tmp_path / "edges.json"
    edges.write_text(json.dumps({str(i): [(i + 1) % 4] for i in range(4)}))
    config = RunConfig(
        instructions=("Please be brief.",), tasks=4, rounds=2, team_size=4, topology=str(edges),
        reasoning="off", seed=7, out=tmp_path / "x",
    )  # fmt: skip
    record = run(config, progress=False).loaded.record
    assert record["instruction"].unique().to_list() == ["Please be brief."]
    assert record["topology"].unique().to_list() == [str(edges)]
    assert record["team"].unique().to_list() == ["N=4"] and record["reasoning"].unique().to_list() == ["off"]
    seen = record.filter(pl.col("round") > 0).select("agent", pl.col("observed").list.join(",")).unique()
    assert sorted(seen.rows()) == [("0", "1"), ("1", "2"), ("2", "3"), ("3", "0")]


def test_other_arguments_into_the_same_folder_change_nothing(tmp_path):
    run(RunConfig(tasks=4, rounds=1, out=tmp_path), progress=False)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    for other in (
        {"seed": 1},
        {"instructions": ("C",)},
        {"model_args": {"c": 0.1}},
        {"rounds": 2},
        {"tasks": 5},
    ):
        with pytest.raises(InputError, match="other arguments") as error:
            run(RunConfig(**{"tasks": 4, "rounds": 1, "out": tmp_path, **other}), progress=False)
        assert next(iter(other)) in str(error.value)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        run(RunConfig(tasks=4, out=tmp_path), progress=False)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_default_folder_is_the_same_for_the_same_command(tmp_path, monkeypatch, calls):
    monkeypatch.chdir(tmp_path)
    first = run(RunConfig(tasks=4, rounds=1), progress=False)
    n = sum(calls.values())
    assert run(RunConfig(tasks=4, rounds=1), progress=False).out == first.out and sum(calls.values()) == n
    assert RunConfig(tasks=4, rounds=1, seed=1).folder != first.out


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"benchmark": "nonesuch"}, "benchmark"),
        ({"model": "gpt"}, "provider/model"),
        ({"model": "nonesuch/x"}, "set up"),
        ({"model": "behavioural/other"}, "behavioural/agent"),
        ({"model": "local/nowhere.gguf"}, "GGUF"),
        ({"model_args": {"c": 3}}, "from 0 to 1"),
        ({"model_args": {"c": "0.1,0.2"}}, "team of 5"),
        ({"instructions": ()}, "instruction"),
        ({"instructions": ("B", "B ")}, "twice"),
        ({"instructions": ("Q",)}, "Unknown instruction"),
        ({"topology": "random:5"}, "at most 4"),
        ({"topology": "moebius"}, "topology"),
        ({"rounds": 0}, "rounds"),
        ({"reasoning": "high"}, "does not reason"),
        ({"max_cost": -1}, "cost"),
        ({"max_cost": 1, "model": "openai-api/x/y"}, "price"),
        ({"data": "x.json"}, "no data file"),
        ({"connections": 0}, "at least 1"),
    ],
)
def test_wrong_configurations_are_refused_before_anything_is_made(tmp_path, wrong, match):
    with pytest.raises((UsageError, InputError), match=match):
        run(RunConfig(**{"tasks": 4, "out": tmp_path / "x", **wrong}), progress=False)
    assert not (tmp_path / "x").exists()


def test_secrets_reach_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MOCK_API_KEY", "sk-topsecret-0123456789")
    with mock_server(faults={"500": 0.3}, every_attempt=True) as url:
        run(
            RunConfig(
                model="openai-api/mock/m", base_url=url, tasks=2, rounds=1, max_retries=0,
                out=tmp_path, model_args={"api_key": "sk-another-0123456789"},
            ),
            progress=False,
        )  # fmt: skip
    record = load(tmp_path).record
    assert record["public_error"].drop_nulls().len() > 0  # failures there were, whose text holds a key
    for path in [p for p in tmp_path.rglob("*") if p.is_file()]:
        data = path.read_bytes()
        assert b"topsecret" not in data and b"sk-another" not in data, path
    errors = " ".join(record["public_error"].drop_nulls())
    assert "verysecretkey" not in errors, errors


def test_a_token_limit_stops_the_run_and_a_higher_one_finishes_it(tmp_path):
    log = tmp_path / "requests.jsonl"
    with mock_server(log=str(log)) as url:

        def config(limit: int | None) -> RunConfig:
            return RunConfig(
                model="openai-api/mock/m", base_url=url, instructions=("A", "C"), tasks=4, rounds=2,
                out=tmp_path / "x", max_total_tokens=limit, connections=10,
            )  # fmt: skip

        part = run(config(40_000), progress=False)
        assert not part.complete and "limit" in part.stopped
        assert part.spent[1] <= 40_000 and part.spent[1] == 520 * len(requests(log))
        # Rows are kept of whole rounds only, and nothing that was not sent is counted as behaviour.
        assert part.loaded.record.filter(pl.col("public_error").is_not_null()).is_empty()
        assert part.loaded.faults
        paid = len(requests(log))
        again = run(config(40_000), progress=False)
        assert len(requests(log)) == paid and not again.complete
        whole = run(config(10_000_000), progress=False)
        assert whole.complete and whole.stopped is None and not whole.loaded.faults
        assert Counter(r["key"] for r in requests(log)).most_common(1)[0][1] == 1  # no call was paid twice
        assert whole.spent[1] == 520 * len(requests(log))
    assert json.loads((tmp_path / "x" / "run.json").read_text())["result"]["stopped"] is None


def test_a_cost_limit_counts_money(tmp_path):
    with mock_server(log=str(tmp_path / "r.jsonl")) as url:
        result = run(
            RunConfig(
                model="openai-api/mock/m", base_url=url, tasks=4, rounds=2, out=tmp_path / "x",
                max_cost=0.02, price=(1.0, 10.0), connections=10,
            ),
            progress=False,
        )  # fmt: skip
    n = len(requests(tmp_path / "r.jsonl"))
    assert result.spent[0] == pytest.approx(n * (500 * 1.0 + 20 * 10.0) / 1e6, rel=1e-6)
    assert 0.01 < result.spent[0] <= 0.02 and not result.complete


def test_budget_reserves_what_is_under_way(tmp_path):
    budget = Budget(tmp_path / "ledger", usd=1.0, price=Price(1e6, 0.0))  # 1 USD a token
    first = budget.reserve("abc")
    assert first[0] == pytest.approx(1.0) and budget.reserve("abc") is None
    budget.release(first)
    budget.spend(1, 0)
    assert budget.reserve("abc") is None
    assert Budget(tmp_path / "ledger", usd=1.5, price=Price(1e6, 0.0)).spent == (1.0, 1)
    (tmp_path / "ledger").write_text("1 0\n17")  # cut by a kill
    again = Budget(tmp_path / "ledger", price=Price(1e6, 0.0))
    assert again.spent == (1.0, 1)
    again.spend(3, 4)
    assert Budget(tmp_path / "ledger", price=Price(1e6, 0.0)).spent == (4.0, 8)
    for wrong in ("what", "1", "1 nan", "5 -3", "0.5 1", "1 2 3"):
        (tmp_path / "ledger").write_text(wrong + "\n")
        with pytest.raises(InputError, match="ledger"):
            Budget(tmp_path / "ledger")


def test_what_a_start_without_a_limit_spends_counts_later(tmp_path):
    def config(**limit):
        return RunConfig(
            model="openai-api/mock/m", base_url=url, tasks=4, rounds=1, out=tmp_path / "x", **limit
        )

    with mock_server(log=str(tmp_path / "r.jsonl")) as url:
        first = run(config(), progress=False)
        assert first.complete and first.spent == (None, 520 * len(requests(tmp_path / "r.jsonl")))
        later = run(config(max_total_tokens=10_000), progress=False)
        assert later.spent == first.spent


def test_calls_wait_for_those_under_way_before_a_limit_stops_them(tmp_path):
    """Every guess is far above what a call takes: the limit must still be nearly used."""
    with mock_server(log=str(tmp_path / "r.jsonl")) as url:
        result = run(
            RunConfig(
                model="openai-api/mock/m", base_url=url, tasks=8, rounds=1, out=tmp_path / "x",
                max_total_tokens=20_000, connections=40,
            ),
            progress=False,
        )  # fmt: skip
    assert not result.complete and 17_000 < result.spent[1] <= 20_000


def test_a_server_that_refuses_everything_ends_the_run_early(tmp_path):
    log = tmp_path / "r.jsonl"
    with mock_server(log=str(log), faults={"500": 1.0}) as url:
        result = run(
            RunConfig(
                model="openai-api/mock/m", base_url=url, tasks=40, rounds=1, out=tmp_path / "x",
                max_retries=0, connections=10,
            ),
            progress=False,
        )  # fmt: skip
    assert "failed" in result.stopped and not result.complete
    assert len({r["key"] for r in requests(log)}) < 100  # of 600


@pytest.mark.parametrize(
    ("model", "reasoning", "fields"),
    [
        ("openrouter/openai/gpt-5", "off", {"reasoning_effort": "none"}),
        ("openrouter/openai/gpt-5", "on", {"reasoning_effort": "medium"}),
        ("openrouter/x/y", "high", {"reasoning_effort": "high"}),
        ("google/vertex/gemini-2.5-pro", "off", {"reasoning_effort": "low"}),
        ("ollama/qwen3", "off", {"extra_body": {"reasoning_effort": "none"}}),
        ("openai-api/vllm/q", "off", {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}),
        ("openai/gpt-5", "low", {"reasoning_effort": "low"}),
        ("behavioural/agent", "off", {}),
        ("openai/gpt-5", None, {}),
    ],
)
def test_reasoning_switches(model, reasoning, fields):
    assert reasoning_config(model, reasoning).model_dump(exclude_none=True, exclude_defaults=True) == fields


def test_reasoning_that_stays_on_is_told(tmp_path):
    log = tmp_path / "r.jsonl"
    with mock_server(faults={"think": 1.0}, log=str(log)) as url:
        result = run(
            RunConfig(
                model="openai-api/mock/m",
                base_url=url,
                tasks=1,
                rounds=1,
                reasoning="off",
                out=tmp_path / "x",
            ),
            progress=False,
        )
    assert all(r["body"]["chat_template_kwargs"] == {"enable_thinking": False} for r in requests(log))
    assert result.loaded.record["reasoning_tokens"].min() > 0
    assert any("it was not" in note for note in result.notes)
    # The reply behind the thought is read, not the decoy inside it.
    assert result.loaded.record["public"].null_count() == 0
    assert "nobody" not in result.loaded.record["public"].to_list()


def test_scorer_agrees_with_the_record():
    """`verdict` against `derive` on 120 random small discussions."""
    rng = random.Random(0)
    defined = 0
    for _ in range(120):
        n = rng.randint(1, 6)
        rows = [
            Row(task="t", round=t, agent=str(i), truth="x", public=p, private=p)
            for t in (0, 1)
            for i in range(n)
            for p in [rng.choice(["x", "y", "z", None])]
        ]
        data = derive(frame(rows, {})).settings[0]
        found = verdict(rows, 1)
        assert (found[2] == found[2]) == (data.vote_correct.size == 1)
        if data.vote_correct.size:
            defined += 1
            assert found[:2] == (data.vote_correct[0], data.discussion_correct[0])
    assert 40 < defined < 120


def test_a_second_process_is_kept_out(tmp_path):
    import fcntl

    config = RunConfig(tasks=4, rounds=1, out=tmp_path)
    (tmp_path / ".lock").touch()
    with (tmp_path / ".lock").open("w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process"):
            run(config, progress=False)
    assert run(config, progress=False).complete


def test_environment_is_as_before(tmp_path):
    before = dict(os.environ)
    run(RunConfig(tasks=4, rounds=1, out=tmp_path), progress=False)
    assert {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"} == {
        k: v for k, v in before.items() if k != "PYTEST_CURRENT_TEST"
    }


class _Trap:
    """What a pickle of this does when it is loaded, somebody else chose."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_cache_of_a_stranger_is_data(tmp_path):
    """A run folder is passed on with its cache; going on with the run must run nothing that lies there."""
    config = RunConfig(tasks=4, rounds=1, informed=(1,), out=tmp_path / "x")
    whole = run(config, progress=False).loaded.record
    cached = [p for p in (tmp_path / "x" / "cache").rglob("*") if p.is_file()]
    assert len(cached) == 4 * 5 * 3
    assert all(ModelOutput.model_validate_json(p.read_bytes()).completion for p in cached)
    for path in cached:
        path.write_bytes(pickle.dumps((None, _Trap(tmp_path / "sprung"))))
    for log in (tmp_path / "x").glob("*.eval"):
        log.unlink()
    (tmp_path / "x" / "logs.json").unlink()
    again = run(config, progress=False)
    assert not (tmp_path / "sprung").exists() and again.complete
    same = ["task", "round", "agent", "private", "public"]
    assert again.loaded.record.select(same).equals(whole.select(same))
    with cached[0].open("wb") as f:
        pickle.dump(_Trap(tmp_path / "sprung"), f)
    pickle.loads(cached[0].read_bytes()).close()  # noqa: S301  the trap works
    assert (tmp_path / "sprung").exists()


def test_a_damaged_log_is_named_and_nothing_is_lost(tmp_path):
    config = RunConfig(tasks=4, rounds=1, informed=(1,), out=tmp_path / "x")
    run(config, progress=False)
    facts = (tmp_path / "x" / "run.json").read_text()
    (log,) = (tmp_path / "x").glob("*.eval")
    log.write_bytes(log.read_bytes()[:2000])
    with pytest.raises(InputError, match=r"\.eval: not a readable Inspect log .* Move it away"):
        run(config, progress=False)
    assert (tmp_path / "x" / "run.json").read_text() == facts
    log.unlink()
    again = run(config, progress=False)
    assert again.complete and again.spent == (0.0, again.spent[1])


def test_the_temperature_reaches_every_agent_and_names_the_setting(tmp_path):
    log = tmp_path / "r.jsonl"
    with mock_server(log=str(log)) as url:
        base = {"model": "openai-api/mock/m", "base_url": url, "tasks": 2, "rounds": 1, "informed": (1,)}
        team = {"agent_models": {"1": "openai-api/mock/other"}}
        for i, (more, sent) in enumerate(
            [({"temperature": 0.2}, 0.2), ({}, 0.7), ({"temperature": 0.2, **team}, 0.2)]
        ):
            before = len(requests(log))
            result = run(RunConfig(**base, **more, out=tmp_path / str(i)), progress=False)
            asked = requests(log)[before:]
            assert {r["body"]["temperature"] for r in asked} == {sent}
            assert len({r["body"]["model"] for r in asked}) == (2 if "agent_models" in more else 1)
            label = result.loaded.record["setting"][0]
            assert ("temperature 0.2" in label) is (sent == 0.2)
        simulated = base | {"model": "behavioural/agent", "base_url": None, "temperature": 0.2}
        alone = run(RunConfig(**simulated, out=tmp_path / "s"), progress=False)
        assert "temperature" not in alone.loaded.record["setting"][0]


def test_a_dry_run_of_the_experiment_checks_models(tmp_path):
    for args in (["--model", "nosuch/x"], ["-M", "c=7"]):
        done = CliRunner().invoke(
            app, ["experiment", "causal", "--out", str(tmp_path / "x"), "--dry-run", "--tasks", "4", *args]
        )
        assert isinstance(done.exception, UsageError)
        assert not (tmp_path / "x").exists()
