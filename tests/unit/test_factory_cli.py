"""`abilene tasks`: what the commands print and how they end."""

import json

import pytest
from _data import data_file
from _factory import Scripted, candidate
from typer.testing import CliRunner

from abilene.cli.tasks import app
from abilene.errors import InputError, UsageError
from abilene.tasks import hiddenbench, medeinst
from abilene.tasks.ddxplus import from_ddxplus


@pytest.fixture
def run(monkeypatch):
    def call(script, *arguments):
        monkeypatch.setattr("abilene.evals.factory.connect", lambda *a, **k: (script.generate, script.answer))
        return CliRunner().invoke(app, [str(a) for a in arguments])

    return call


@pytest.fixture
def template(tmp_path):
    def write(kinds):
        topics = json.dumps([f"<{k}:{kind}>" for k, kind in enumerate(kinds, start=1)])
        path = tmp_path / "template.toml"
        path.write_text(f'name = "t"\nprompt = "{{topic}} {{clues}} {{options}}"\ntopics = {topics}')
        return path

    return write


def write(path, *tasks):
    path.write_text(json.dumps([t.to_entry(k) for k, t in enumerate(tasks, start=1)]))
    return path


def test_make_prints_one_document_and_writes_a_benchmark(run, template, tmp_path):
    kinds = ["good", "hard", "good", "prose"]
    given = (
        "make",
        "--model",
        "x/y",
        "--out",
        tmp_path / "out",
        "--candidates",
        4,
        "--template",
        template(kinds),
    )
    done = run(Scripted(kinds), *given, "--json", "--seed", 3)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["calls"] == 4 + 3 * 20
    assert [len(document[k]) for k in ("kept", "rejections", "open")] == [2, 2, 0]
    assert {r["reasons"][0]["code"] for r in document["rejections"]} == {"full", "unreadable_reply"}
    assert [t.design["name"] for t in hiddenbench.load(document["tasks"])] == [
        k["name"] for k in document["kept"]
    ]
    again = run(Scripted(kinds), *given, "--seed", 3)
    assert again.exit_code == 0
    assert "2 kept" in again.stdout and "full: right in 0 of 10" in again.stdout.replace("\n", " ")


def test_make_ends_with_1_where_calls_failed(run, template, tmp_path):
    kinds = ["good", "gone"]
    given = (
        "make",
        "--model",
        "x/y",
        "--out",
        tmp_path / "out",
        "--candidates",
        2,
        "--template",
        template(kinds),
    )
    done = run(Scripted(kinds), *given, "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["open"][0]["error"] == "TimeoutError: no reply"
    assert "goes on from here" in done.stderr


def test_make_names_what_smaller_numbers_leave_undecided(run, template, tmp_path):
    kinds = ["good"] * 3
    given = ("make", "--model", "x/y", "--out", tmp_path / "out", "--template", template(kinds))
    assert run(Scripted(kinds), *given, "--candidates", 3, "--trials", 5).exit_code == 0
    fewer = run(Scripted(kinds), *given, "--candidates", 1, "--trials", 5)
    assert fewer.exit_code == 0 and "3 kept" in fewer.stdout and "In neither file" not in fewer.stderr
    more = run(Scripted(kinds), *given, "--candidates", 1, "--json")
    assert more.exit_code == 0 and json.loads(more.stdout)["untried"] == [2, 3]
    assert "candidates 2, 3." in " ".join(more.stderr.split())


RELEASE = ("patients_sample300.csv", "release_evidences.json", "release_conditions.json")


def test_pairs_writes_what_the_benchmark_reads(run, tmp_path):
    release = [data_file(f"ddxplus/{name}") for name in RELEASE]
    path = tmp_path / "my pairs.jsonl"
    done = run(None, "pairs", *release, "--out", path)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        f"{path}: 81 pairs, 15 of them with a trap that adds exactly one finding",
        f"Next: abilene run medeinst --data '{path}'",
    ]
    assert path.read_text("utf-8").splitlines() == [
        json.dumps(row, ensure_ascii=False) for row in from_ddxplus(*release)
    ]
    assert len(medeinst.load(path, tasks=4)) == 4
    assert [p.name for p in tmp_path.iterdir()] == [path.name]  # nothing temporary is left
    before = path.read_bytes()
    again = run(None, "pairs", *release, "--out", path)
    assert isinstance(again.exception, InputError) and "already" in str(again.exception)
    assert path.read_bytes() == before
    other = run(
        None, "pairs", *release, "--out", tmp_path / "new" / "p.jsonl", "--max-difference", 4, "--json"
    )
    document = json.loads(other.stdout)
    rows = from_ddxplus(*release, max_difference=4)
    assert 0 < document["pairs"] == len(rows) // 2 < 81
    assert document["path"] == str(tmp_path / "new" / "p.jsonl")


def test_pairs_writes_nothing_where_there_is_none(run, tmp_path):
    release = [data_file(f"ddxplus/{name}") for name in RELEASE]
    head = release[0].read_text().splitlines()[:2]
    (tmp_path / "one.csv").write_text("\n".join(head) + "\n")
    done = run(None, "pairs", tmp_path / "one.csv", *release[1:], "--out", tmp_path / "p.jsonl")
    assert isinstance(done.exception, InputError) and "--max-difference" in str(done.exception)
    done = run(None, "pairs", *release, "--out", tmp_path / "p.jsonl", "--max-difference", 0)
    assert isinstance(done.exception, UsageError)
    assert not (tmp_path / "p.jsonl").exists()


def test_check_without_a_model_is_about_structure_only(run, tmp_path):
    script = Scripted([])
    path = write(tmp_path / "t.json", candidate(1), candidate(2))
    done = run(script, "check", path, "--json")
    assert done.exit_code == 0
    tasks = json.loads(done.stdout)["tasks"]
    assert [(t["id"], t["problems"], t["executed"], t["trials"]) for t in tasks] == [
        ("01", [], None, None), ("02", [], None, None),
    ]  # fmt: skip
    bad = run(script, "check", write(path, candidate(1), candidate(2, answer="Oak")))
    assert bad.exit_code == 1
    assert "01: sound" in bad.stdout and "02: answer: correct_answer: 'Oak'" in bad.stdout
    assert bad.stdout.splitlines()[-1] == "2 tasks: 1 sound, 1 with faults"
    assert run(script, "check", write(path, candidate(1))).stdout.splitlines()[-1] == (
        "1 task: 1 sound, 0 with faults"
    )
    assert not script.answered


def test_check_with_a_model_tries_sound_tasks(run, tmp_path):
    script = Scripted(["good", "easy", "good"])
    path = write(tmp_path / "t.json", candidate(1), candidate(2), candidate(3, n=2))
    done = run(script, "check", path, "--model", "x/y", "--json", "--trials", 5)
    assert done.exit_code == 1
    tasks = json.loads(done.stdout)["tasks"]
    assert [t["executed"] for t in tasks] == ["kept", "rejected", None]
    assert tasks[0]["trials"]["full"]["right"] == 5
    assert len(script.answered) == 20
    told = run(Scripted(["good", "easy", "good"]), "check", path, "--model", "x/y", "--trials", 5)
    assert told.stdout.splitlines()[-1] == "3 tasks: 1 sound, 2 with faults"
    down = Scripted(["down"], fail={"down"})
    told = run(down, "check", write(path, candidate(1)), "--model", "x/y")
    assert told.stdout.splitlines()[-1] == "1 task: 0 sound, 0 with faults, 1 open" and told.exit_code == 1
    assert run(script, "check", write(path, candidate(1)), "--model", "x/y").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("make", "--model", "x/y", "--out", "o", "--full", "2"),
        ("make", "--model", "x/y", "--out", "o", "--clues", "2"),
        ("make", "--model", "x/y", "--out", "o", "-M", "novalue"),
        ("check", "FILE", "--out", "o"),
    ],
)
def test_usage_errors(run, tmp_path, arguments):
    path = write(tmp_path / "t.json", candidate(1))
    done = run(Scripted([]), *(path if a == "FILE" else a for a in arguments))
    assert isinstance(done.exception, UsageError)


async def test_an_inspect_model_is_reached_and_simulated_agents_are_refused():
    from inspect_ai.model import ModelOutput, ModelUsage

    from abilene.evals.factory import CallFailed, connect

    outputs = [
        ModelOutput.from_content("m", "hello"),
        ModelOutput.from_content("m", "ANSWER: A", stop_reason="max_tokens"),
    ]
    for output in outputs:
        output.usage = ModelUsage(
            input_tokens=1, output_tokens=1
        )  # else the provider counts, over the network
    generate, answer = connect("mockllm/model", model_args={"custom_outputs": outputs})
    assert await generate("write") == "hello"
    done = await answer("system", "user")
    assert (done.text, done.stop, done.error) == ("ANSWER: A", "length", None)
    with pytest.raises(CallFailed):  # no output is left
        await generate("write")
    with pytest.raises(UsageError, match="does not read facts"):
        connect("behavioural/agent")
    with pytest.raises(UsageError, match="provider/model"):
        connect("gpt")
    with pytest.raises(UsageError, match="cannot be set up"):
        connect("nobody/model")
