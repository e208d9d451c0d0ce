"""Discussions under Inspect: what is registered, asked, logged, scored and read back."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from _data import data_file
from inspect_ai import eval as inspect_eval
from inspect_ai.log import read_eval_log
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
)
from polars.testing import assert_frame_equal

from abilene.errors import InputError, UsageError
from abilene.evals.ask import clean, describe_error, read_output
from abilene.evals.behavioural import parse_agent
from abilene.evals.logs import read_eval
from abilene.evals.plan import Plan
from abilene.evals.registry import hidden_profile, hiddenbench
from abilene.evals.scorer import verdict
from abilene.evals.solver import pack_rows, unpack_rows
from abilene.records.files import load
from abilene.records.schema import KEY, Row, frame
from abilene.team.call import Completion
from abilene.team.protocol import discuss
from abilene.team.wording import load_pack

RATES = {"c": 0.4, "a": 0.5, "rho": 0.9, "r": 0.7}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """One log by `inspect eval`'s own machinery: 4 tasks, instruction C."""
    folder = tmp_path_factory.mktemp("inspect")
    logs = inspect_eval(
        hidden_profile(instruction="C", tasks=4, seed=3, rounds=2),
        model="behavioural/agent",
        model_args=RATES,
        log_dir=str(folder),
        display="none",
        log_level="error",
    )
    assert logs[0].status == "success"
    return Path(logs[0].location.removeprefix("file://"))


def direct(instruction: str = "C", seed: int = 3, rounds: int = 2) -> pl.DataFrame:
    """The same discussions without Inspect."""
    plan = Plan(benchmark="hidden_profile", instruction=instruction, tasks=4, seed=seed, rounds=rounds)
    agent = parse_agent(RATES)

    async def ask(call):
        return Completion(agent.reply(call.system, call.user, call.metadata))

    async def everything() -> list[Row]:
        return [row for task in plan.items for row in await discuss(task, ask, plan.protocol)]

    return frame(asyncio.run(everything()), {})


def test_log_reads_back_as_the_discussion_it_was(log):
    found, expected = load(log).record, direct()
    behaviour = [c for c in expected.columns if c not in (*KEY[:8], "input_tokens", "output_tokens")]
    key = ["task", "round", "agent"]
    assert_frame_equal(found.sort(key).select(behaviour), expected.sort(key).select(behaviour))
    assert found["model"].unique().to_list() == ["behavioural/agent"]
    assert found["setting"].unique().to_list() == ["c=0.4 a=0.5 rho=0.9 r=0.7; 2 rounds"]
    assert found["team"].unique().to_list() == ["N=5"]


def test_text_is_left_out_on_wish(log):
    slim = read_eval(log, text=False).record
    assert slim["public_raw"].null_count() == slim.height
    assert slim["public"].null_count() == 0


def test_samples_say_what_they_are(log):
    header = read_eval_log(str(log), header_only=True)
    plan = Plan(benchmark="hidden_profile", instruction="C", tasks=4, seed=3, rounds=2)
    facts = header.eval.metadata["abilene"]
    assert facts["prompt_hash"] == load_pack().digest
    assert facts["seed"] == 3 and facts["schema"] == 1
    assert header.eval.task_version == plan.version
    sample = read_eval_log(str(log)).samples[0]
    task = {t.id: t for t in plan.items}[sample.id]
    assert (sample.input, sample.target) == (task.question, task.answer)
    assert sample.metadata["agent_facts"] == task.to_item()["agent_facts"]


def test_key_reaches_agents_by_metadata_only(log):
    for sample in read_eval_log(str(log)).samples:
        for event in (e for e in sample.events if e.event == "model"):
            user = event.input[-1]
            assert user.metadata["truth"] == sample.target
            assert {"task", "epoch", "agent", "round", "kind"} <= set(user.metadata)
            # Both names occur as options; nothing marks one of them as the answer.
            assert "correct answer" not in (user.text + event.input[0].text).casefold()


def test_viewer_gets_swimlanes_tables_and_a_digest(log):
    sample = read_eval_log(str(log), resolve_attachments=True).samples[0]
    names = Counter(e.name for e in sample.events if e.event == "span_begin" and e.type == "agent")
    assert names["r0 agent 0 answer"] == names["r2 agent 4 private"] == names["r1 agent 3 public"] == 1
    assert sum(names.values()) == 5 + 2 * 10
    tables = [e.data for e in sample.events if e.event == "info"]
    assert len(tables) == 3 and all(t.count("\n|") == 2 + 5 for t in tables), tables
    assert [m.role for m in sample.messages] == ["user", "assistant", "assistant", "assistant"]
    assert "Round 2" in sample.messages[-1].text


def test_scores_and_metrics_equal_a_count_by_hand(log):
    header = read_eval_log(str(log))
    rows = load(log).record

    def right(task: str, t: int) -> int:
        said = rows.filter((pl.col("task") == task) & (pl.col("round") == t))
        top = Counter(said["public"].to_list()).most_common(2)
        unique = len(top) == 1 or top[0][1] > top[1][1]
        return int(unique and top[0][0] == said["truth"][0])

    votes = []
    for sample in header.samples:
        value = sample.scores["team_verdict"].value
        votes.append(right(sample.id, 0))
        assert value["vote"] == votes[-1]
        assert value["discussion"] == right(sample.id, 2)
        assert value["gain"] == value["discussion"] - value["vote"]
    metrics = {s.name: s.metrics["mean"].value for s in header.results.scores}
    assert metrics["vote"] == pytest.approx(sum(votes) / 4)
    assert set(metrics) == {"vote", "discussion", "gain"}


def rows_of(*rounds: str, truth: str = "x") -> list[Row]:
    return [
        Row(task="t", round=t, agent=str(i), truth=truth, private=None if a == "-" else a,
            public=None if a == "-" else a)
        for t, answers in enumerate(rounds) for i, a in enumerate(answers)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        (("xxy", "yyx"), (1, 0, -1)),
        (("xy", "xx"), (0, 1, 1)),  # a tie is incorrect
        (("xyz", "x--"), (0, 1, 1)),  # whoever is missing does not count
        (("---", "xxx"), None),  # nobody answered: undefined, not 0
        (("xxx", "---"), None),
        (("xxx",), None),  # the last round is absent
    ],
)
def test_verdict_of_one_discussion(rounds, expected):
    found = verdict(rows_of(*rounds), 1)
    if expected is None:
        assert all(math.isnan(v) for v in found)
    else:
        assert found == expected


def test_rows_survive_packing():
    rows = [
        Row(task="t", round=1, agent="0", truth=None, observed=("1", "2"), observed_public=("x", None)),
        Row(task="t", round=0, agent="1", truth="x", public="x", reasoning_tokens=0, count_correct=False),
    ]
    assert unpack_rows(pack_rows(rows)) == rows
    with pytest.raises(TypeError):
        unpack_rows([{"task": "t", "round": 0, "agent": "0", "surprise": 1}])


def test_version_follows_prompts_and_tasks(tmp_path):
    def version(**changes) -> str:
        return Plan(benchmark="hidden_profile", tasks=4, **changes).version

    pack = tmp_path / "pack.toml"
    built_in = Path(sys.modules["abilene.team.prompts"].__file__).parent / "packs" / "abilene.toml"
    pack.write_text(built_in.read_text().replace("Harmony matters", "Harmony counts"))
    assert version() == version()
    assert version(prompts=str(pack)) != version()
    assert version(seed=1) != version()
    edges = tmp_path / "edges.json"
    edges.write_text('{"0": [1]}')
    first = version(topology=str(edges))
    edges.write_text('{"0": [2]}')
    assert version(topology=str(edges)) != first


def test_hiddenbench_file_runs_through_the_same_task(tmp_path):
    path = data_file("hiddenbench.json")
    task = hiddenbench(data=str(path), tasks=3, reasoning=False)
    assert {len(s.metadata["agent_facts"]) for s in task.dataset} <= {3, 4}
    assert task.metadata["abilene"]["setting"]["reasoning"] == "off"  # a YAML reader makes off a boolean
    logs = inspect_eval(task, model="behavioural/agent", log_dir=str(tmp_path), display="none")
    record = load(tmp_path).record
    assert logs[0].status == "success"
    assert record["private"].null_count() == 0 and record.height == sum(
        4 * len(s.metadata["agent_facts"]) for s in task.dataset
    )


@pytest.mark.parametrize("name", ["popularity.eval", "log_formats.eval", "mmlu-summary-choices.eval"])
def test_foreign_logs_are_refused_by_name(name):
    with pytest.raises(InputError, match="another task"):
        load(data_file(f"logs/inspect_ai/{name}"))


def test_broken_logs_are_refused(tmp_path, log):
    for name, content in {
        "empty.eval": b"",
        "cut.eval": log.read_bytes()[:900],
        "no.eval": b"PK nonsense",
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match=name):
            load(path)


def test_rates_per_agent_must_fit_the_team(tmp_path):
    task = hidden_profile(tasks=4, rounds=1)
    logs = inspect_eval(
        task, model="behavioural/agent", model_args={"c": [0.1, 0.2]}, log_dir=str(tmp_path), display="none"
    )
    assert all("team of 5" in s.error.message for s in logs[0].samples)


@pytest.mark.parametrize(
    "arguments",
    [{"c": 2}, {"c": "x"}, {"d": 1}, {"c": [0.1, 0.2], "a": [1, 1, 1]}, {"seed": 1.5}, {"accuracy": 7}],
)
def test_wrong_rates_are_refused(arguments):
    with pytest.raises(UsageError):
        parse_agent(arguments)


def test_intervention_and_reasoning_names_are_checked():
    with pytest.raises(UsageError, match="intervention"):
        Plan(benchmark="hidden_profile", intervention="shout").protocol  # noqa: B018
    with pytest.raises(UsageError, match="Reasoning"):
        Plan(benchmark="hidden_profile", reasoning="maximal").protocol  # noqa: B018


def output(content, stop="stop", **usage) -> ModelOutput:
    choice = ChatCompletionChoice(message=ChatMessageAssistant(content=content), stop_reason=stop)
    return ModelOutput(model="m", choices=[choice], usage=ModelUsage(**usage) if usage else None)


def test_outputs_become_completions():
    done = read_output(output("hello", input_tokens=5, output_tokens=2))
    assert (done.text, done.stop, done.error, done.input_tokens) == ("hello", "stop", None, 5)
    assert read_output(output("cut", "max_tokens")).stop == "length"
    assert read_output(output("", "content_filter")).stop == "refusal"
    assert read_output(output("x")).input_tokens is None
    thought = [ContentReasoning(reasoning="hm " * 40), ContentText(text="ANSWER: x")]
    done = read_output(output(thought))
    assert done.text == "ANSWER: x" and done.reasoning_tokens == 30
    assert read_output(output(thought, reasoning_tokens=7)).reasoning_tokens == 7
    assert read_output(ModelOutput(model="m", choices=[])).error


def test_errors_carry_no_secret_and_no_request(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hunter2hunter2")
    assert "hunter2" not in clean("bad key hunter2hunter2") and "sk-" not in clean("sk-abcdefgh1234")

    class Failure(Exception):
        provider_message = "401: Incorrect key hunter2hunter2"

    assert describe_error(Failure("Request:\n{'messages': ...}")) == "Failure: 401: Incorrect key ***"


def test_importing_the_package_stays_free_of_inspect():
    code = "import sys, abilene, abilene.evals; sys.exit('inspect_ai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
