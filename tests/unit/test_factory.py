"""The task factory keeps exactly the candidates it should, and goes on where it was stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from _factory import Scripted, candidate, text

from abilene.errors import InputError, UsageError
from abilene.evals.factory import make_tasks, try_tasks
from abilene.tasks import hiddenbench
from abilene.tasks.factory import Recipe, check_file, full_view, hidden_view, load_template, read_reply
from abilene.tasks.sieve import Filter, Reason, Trial, count
from abilene.tasks.structure import Candidate

CODES = {
    "good": None, "fenced": None, "thought": None, "border": None, "quiet": None,
    "prose": "unreadable_reply", "broken": "unreadable_reply", "twoTasks": "unreadable_reply",
    "noClues": "unreadable_reply", "tells": "structure", "threeClues": "structure", "copy": "duplicate",
    "hard": "full", "vague": "full", "easy": "hidden", "leaky": "decisive_view", "mute": "unreadable_answers",
}  # fmt: skip
KINDS = list(CODES)


async def make(script, out, sieve=None, seed=0, **options):
    options.setdefault("candidates", len(script.kinds))
    return await make_tasks(
        script.recipe(seed=seed), sieve or Filter(), script.generate, script.answer, out, **options
    )


def by_kind(made, script):
    """First reason code (None: kept) by kind; the topic's number is in the candidate's text."""
    recipe = script.recipe()
    found = {}
    for o in made.outcomes:
        kind = recipe.prompt(o.number).split(":")[1].split(">")[0]
        found[kind] = {"kept": None, "open": "open"}.get(o.status, o.reasons and o.reasons[0].code)
    return found


def files(out):
    return {name: (out / name).read_text("utf-8") for name in ("tasks.json", "rejected.jsonl")}


async def test_exactly_the_right_candidates_are_kept_each_other_one_with_its_reason(tmp_path):
    script = Scripted(KINDS)
    made = await make(script, tmp_path)
    # "copy" repeats the first kind: whichever of the two comes later is the duplicate.
    found = by_kind(made, script)
    assert {found.pop("copy"), found.pop("good")} == {None, "duplicate"}
    assert found == {k: v for k, v in CODES.items() if k not in ("copy", "good")}
    kept, rejected = made.of("kept"), made.of("rejected")
    assert len(kept) + len(rejected) == len(KINDS)
    entries = json.loads((tmp_path / "tasks.json").read_text("utf-8"))
    assert [e["id"] for e in entries] == [o.number for o in kept]
    lines = [json.loads(line) for line in (tmp_path / "rejected.jsonl").read_text("utf-8").splitlines()]
    assert [line["candidate"] for line in lines] == [o.number for o in rejected]
    assert all(line["reasons"][0]["detail"] and line["reply"] for line in lines)
    executed = {"full", "hidden", "decisive_view", "unreadable_answers"}
    for line in lines:
        assert (line["trials"] is not None) == (line["reasons"][0]["code"] in executed)
    # Only candidates that are executed cost calls: ten trials in two conditions each.
    assert len(script.answered) == 20 * (len(kept) + sum(r.reasons[0].code in executed for r in rejected))


async def test_counts_are_kept_and_unreadable_is_neither_right_nor_wrong(tmp_path):
    made = await make(Scripted(["vague"]), tmp_path)
    (line,) = [json.loads(x) for x in (tmp_path / "rejected.jsonl").read_text("utf-8").splitlines()]
    assert line["trials"]["full"] == {"right": 7, "wrong": 2, "unreadable": 1, "accuracy": 7 / 9}
    assert line["trials"]["hidden"] == {"right": 0, "wrong": 10, "unreadable": 0, "accuracy": 0.0}
    assert [c["wrong"] for c in line["trials"]["hidden_by_agent"]] == [3, 3, 2, 2]
    assert made.of("rejected")[0].reasons[0].code == "full"


async def test_what_is_kept_reads_as_a_benchmark(tmp_path):
    made = await make(Scripted(["good"] * 6 + ["fenced", "thought"]), tmp_path)
    tasks = hiddenbench.load(tmp_path / "tasks.json")
    assert len(tasks) == 8
    for task, outcome in zip(tasks, made.of("kept"), strict=True):
        assert hiddenbench.check(task) == []
        assert task.answer == outcome.candidate.answer
        assert sorted(n.text for own in task.private for n in own) == sorted(outcome.candidate.clues)
    assert len({o.candidate.options.index(o.candidate.answer) for o in made.of("kept")}) > 1
    assert all(not e.problems for e in check_file(tmp_path / "tasks.json", clues=4))


async def test_strict_bounds_and_others_judge_anew_without_a_call(tmp_path):
    script = Scripted(["border", "good"])
    assert len((await make(script, tmp_path)).of("kept")) == 2
    before = files(tmp_path)
    strict = await make(script, tmp_path, Filter(strict=True))
    assert strict.calls == 0
    (lost,) = strict.of("rejected")
    assert {r.code for r in lost.reasons} == {"full", "hidden"}
    assert len((await make(script, tmp_path, Filter(full=0.81))).of("kept")) == 1
    assert len((await make(script, tmp_path, Filter(hidden=0.19))).of("kept")) == 1
    assert (await make(script, tmp_path)).calls == 0
    assert files(tmp_path) == before


async def test_it_stops_at_the_wanted_number(tmp_path):
    script = Scripted(["good"] * 12)
    made = await make(script, tmp_path, keep=2)
    assert len(made.of("kept")) == 2
    assert len(script.generated) == 2
    more = await make(script, tmp_path, keep=5)
    assert len(more.of("kept")) == 5
    assert len(script.generated) == 5  # the first two were not asked for again


# Views ---------------------------------------------------------------------------------------------------


def test_the_two_conditions_differ_in_the_clues_alone():
    task = candidate(1)
    hidden, full = hidden_view(task, "1"), full_view(task, "1", 0, 0)
    assert [[n.text for n in own] for own in hidden.private] == [[c] for c in task.clues]
    assert all(sorted(n.text for n in own) == sorted(task.clues) for own in full.private)
    assert (hidden.question, hidden.options, hidden.shared, hidden.team_size) == (
        full.question, full.options, full.shared, full.team_size,
    )  # fmt: skip
    assert len({full_view(task, "1", k, 0).private[0] for k in range(40)}) > 10
    assert full_view(task, "1", 3, 5) == full_view(task, "1", 3, 5)


async def test_prompts_show_one_part_or_all_and_never_the_key(tmp_path):
    script = Scripted(["good"])
    await make(script, tmp_path)
    clues = [sorted(int(i) for i in set(p.split("Clue1x")[1:] and [x[0] for x in p.split("Clue1x")[1:]]))
             for p in script.answered]  # fmt: skip
    assert clues.count([0, 1, 2, 3]) == 10
    assert [clues.count([i]) for i in range(4)] == [3, 3, 2, 2]
    assert not any("correct_answer" in p or "rationale" in p for p in script.answered)


# Judging -------------------------------------------------------------------------------------------------


def trials(full, hidden, agents=5):
    """Trials from strings of r (right), w (wrong), u (unreadable)."""
    read = {"r": True, "w": False, "u": None}
    return [
        Trial(c, k % agents, read[x])
        for c, xs in (("full", full), ("hidden", hidden))
        for k, x in enumerate(xs)
    ]


@pytest.mark.parametrize(
    ("full", "hidden", "strict", "codes"),
    [
        ("r" * 8 + "ww", "rr" + "w" * 8, False, []),
        ("r" * 8 + "ww", "rr" + "w" * 8, True, ["full", "hidden"]),
        ("r" * 9 + "w", "r" + "w" * 9, True, []),
        ("r" * 7 + "www", "w" * 10, False, ["full"]),
        ("r" * 10, "rrr" + "w" * 7, False, ["hidden"]),
        ("r" * 8 + "uu", "w" * 8 + "uu", False, []),
        ("r" * 7 + "uuu", "w" * 10, False, ["unreadable_answers"]),
        ("r" * 10, "w" * 7 + "uuu", False, ["unreadable_answers"]),
        ("u" * 10, "u" * 10, False, ["unreadable_answers"]),
        ("r" * 7 + "wwu", "w" * 10, False, ["full"]),  # 7 of 9 < .80
        ("r" * 8 + "wwu"[:2], "rrwwwwwwww", False, []),
        ("r" * 7 + "wuu", "w" * 10, False, ["unreadable_answers"]),  # 7 of 8, but perhaps 7 of 10
        ("r" * 10, "rwwwwwwwuu", False, ["unreadable_answers"]),  # 1 of 8, but perhaps 3 of 10
        ("r" * 8 + "wu", "rwwwwwwwwu", False, []),  # 8 of 10 and 2 of 10 at worst
        ("r" * 8 + "wu", "rwwwwwwwwu", True, ["unreadable_answers"]),
        ("r" * 10, "rwwwwrwwww", False, ["decisive_view"]),  # agent 0 right twice of twice
        ("r" * 10, "rwwwwuwwww", False, []),  # once is no pattern
    ],
)
def test_bounds(full, hidden, strict, codes):
    assert [r.code for r in Filter(strict=strict).judge(trials(full, hidden))] == codes


def test_every_bound_is_exact():
    """Every count of every number of trials agrees with whole-number arithmetic, also where floats would not."""
    for n in range(1, 31):
        for right in range(n + 1):
            for percent in (10, 20, 30, 55, 70, 80, 90):
                bound = percent / 100
                given = trials("r" * right + "w" * (n - right), "w" * n, agents=n)
                low = [r.code for r in Filter(trials=n, full=bound, strict=False).judge(given)]
                assert ("full" in low) == (100 * right < percent * n)
                low = [r.code for r in Filter(trials=n, full=bound, strict=True).judge(given)]
                assert ("full" in low) == (100 * right <= percent * n)


def test_counts():
    given = trials("rwu", "rruw", agents=2)
    assert count(given, "full").as_dict() == {"right": 1, "wrong": 1, "unreadable": 1, "accuracy": 0.5}
    assert count(given, "hidden", 1).as_dict() == {"right": 1, "wrong": 1, "unreadable": 0, "accuracy": 0.5}
    assert count([], "full").accuracy is None


@pytest.mark.parametrize(
    "bad",
    [
        {"trials": 0},
        {"full": 1.1},
        {"hidden": -0.1},
        {"full": float("nan")},
        {"min_readable": 11},
        {"min_readable": 0},
    ],
)
def test_bounds_out_of_range_are_refused(bad):
    with pytest.raises(UsageError):
        Filter(**bad)


def test_needed_answers_round_up():
    assert [Filter(trials=n).needed for n in (1, 2, 3, 5, 10, 11)] == [1, 2, 3, 4, 8, 9]
    assert Filter(min_readable=3).needed == 3


# Replies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("", "no JSON object"),
        ("{}", "no JSON object with possible_answers"),
        ("[1, 2]", "no JSON object"),
        (text(candidate(1))[:-1], "no JSON object"),
        (text(candidate(1)) + text(candidate(2)), "2 different tasks"),
        (text(candidate(1)).replace('"name"', '"name": "x", "name"'), "'name' occurs twice"),
        (text(candidate(1)).replace('"task1"', "7"), "name: is a number"),
        (
            text(candidate(1)).replace('["Ash1", "Birch1", "Cedar1"]', '"Ash1, Birch1"'),
            "possible_answers: is text",
        ),
        (text(candidate(1)).replace('"Birch1"', "null"), r"possible_answers\[1\]: is null"),
        (text(candidate(1)).replace('"correct_answer"', '"answer"'), "correct_answer: is missing"),
        (text(candidate(1)).replace('"task1"', '" "'), "name: is empty"),
        (text(candidate(1)).replace('"task1"', r'"\ud800"'), "half a character"),
        ('{"possible_answers": ' + "[" * 100_000, "no JSON object|too deep"),
    ],
)
def test_unreadable_replies_say_why(reply, says):
    found = read_reply(reply)
    assert isinstance(found, Reason) and found.code == "unreadable_reply"
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(found.detail)


def test_the_same_task_twice_counts_once_and_fences_win():
    good = text(candidate(1))
    assert read_reply(f"{good}\n{good}") == candidate(1)
    assert read_reply(f"Draft {text(candidate(2))}\n```json\n{good}\n```") == candidate(1)
    assert read_reply(json.dumps([json.loads(good)])) == candidate(1)


# Asking --------------------------------------------------------------------------------------------------


def test_the_built_in_template_asks_for_the_format_that_is_read():
    prompt = Recipe(clues=5, options=4).prompt(1)
    for field in (
        "name",
        "description",
        "shared_information",
        "hidden_information",
        "possible_answers",
        "correct_answer",
    ):
        assert f'"{field}"' in prompt
    assert "team of 5 people" in prompt and "one of 4 options" in prompt
    assert not any(f"{{{x}}}" in prompt for x in ("clues", "options", "topic"))


def test_topics_come_in_turn_and_by_the_seed():
    n = len(load_template().topics)
    first = [Recipe().prompt(k) for k in range(1, n + 1)]
    assert len(set(first)) == n
    assert [Recipe(seed=1).prompt(k) for k in range(1, n + 1)] != first
    assert {Recipe().prompt(k) for k in range(n + 1, 2 * n + 1)} == set(first)


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("name = ", "is not TOML"),
        ('name = "x"', "field 'prompt'"),
        ('name = "x"\nprompt = "{clues} {options} {topic}"', "field 'topics'"),
        ('name = "x"\nprompt = "{clues} {topic}"\ntopics = ["a"]', r"lacks \{options\}"),
        ('name = "x"\nprompt = "{clues} {options} {topic}"\ntopics = ["a", 1]', "field 'topics'"),
        (
            'name = "x"\nprompt = "{clues} {options} {topic}"\ntopics = ["a"]\ncolor = 1',
            "unknown entry 'color'",
        ),
    ],
)
def test_a_faulty_template_gives_one_clear_error(tmp_path, toml, says):
    path = tmp_path / "t.toml"
    path.write_text(toml)
    with pytest.raises(InputError, match=says):
        load_template(path)
    with pytest.raises(InputError, match="cannot be read"):
        load_template(tmp_path / "no.toml")


def test_recipes_out_of_range_are_refused():
    with pytest.raises(UsageError):
        Recipe(clues=2)
    with pytest.raises(UsageError):
        Recipe(options=2)


# Going on ------------------------------------------------------------------------------------------------

STEADY = ["good", "prose", "hard", "copy", "fenced", "tells", "leaky", "mute"]


async def test_a_journal_cut_anywhere_is_continued_without_a_repeated_call(tmp_path):
    whole = await make(Scripted(STEADY), tmp_path / "whole")
    data = (tmp_path / "whole" / "journal.jsonl").read_bytes()
    lines = data.splitlines(keepends=True)
    assert len(lines) == 1 + whole.calls
    ends = [sum(map(len, lines[:k])) for k in range(len(lines) + 1)]
    cuts = sorted({*ends[::9], ends[-1], *(e - 1 for e in ends[1::13]), *(e + 5 for e in ends[:-1:11]), 0, 3})
    for cut in cuts:
        out = tmp_path / f"cut{cut}"
        out.mkdir()
        (out / "journal.jsonl").write_bytes(data[:cut])
        script = Scripted(STEADY)
        again = await make(script, out)
        finished = max(0, data[:cut].count(b"\n") - 1)
        assert again.calls == whole.calls - finished == len(script.generated) + len(script.answered)
        assert files(out) == files(tmp_path / "whole")
        assert sorted((out / "journal.jsonl").read_bytes().splitlines()) == sorted(data.splitlines())


async def test_the_result_does_not_depend_on_how_many_calls_run_at_once(tmp_path):
    for n in (1, 3, 50):
        await make(Scripted(STEADY), tmp_path / str(n), connections=n)
    assert files(tmp_path / "1") == files(tmp_path / "3") == files(tmp_path / "50")


async def test_failed_calls_leave_a_candidate_open_and_only_they_are_made_again(tmp_path):
    kinds = ["good", "down", "hard"]
    made = await make(Scripted(kinds, fail={"down"}), tmp_path)
    (left,) = made.of("open")
    assert left.error == "rate limit"
    assert len(made.of("kept")) == 1 and len(made.of("rejected")) == 1
    again = Scripted(kinds)
    made = await make(again, tmp_path)
    assert (made.calls, len(again.generated)) == (1, 0)
    assert len(made.of("kept")) == 2 and not made.of("open")


async def test_it_gives_up_where_no_call_comes_through(tmp_path):
    script = Scripted(["gone"] * 30)
    made = await make(script, tmp_path)
    assert "5 candidates in a row" in made.stopped and "TimeoutError: no reply" in made.stopped
    assert len(made.outcomes) == 5 and not made.of("rejected")
    assert len(script.generated) < 20
    assert files(tmp_path)["rejected.jsonl"] == ""


async def test_another_factory_is_not_continued(tmp_path):
    script = Scripted(["good"])
    await make(script, tmp_path)
    before = (tmp_path / "journal.jsonl").read_bytes()
    with pytest.raises(InputError, match=r"other arguments \(seed: 0 there, 1 now"):
        await make(script, tmp_path, seed=1)
    with pytest.raises(InputError, match="model"):
        await make(script, tmp_path, facts={"model": "x"})
    assert (tmp_path / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "content", ["hello\n", "hello", "{}\n", '{"kind":"generated","candidate":1,"reply":""}\n', "[]\n"]
)
async def test_a_file_that_is_no_journal_is_left_alone(tmp_path, content):
    (tmp_path / "journal.jsonl").write_text(content)
    with pytest.raises(InputError, match="journal"):
        await make(Scripted(["good"]), tmp_path)
    assert (tmp_path / "journal.jsonl").read_text() == content


def snapshot(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.mark.parametrize("name", ["tasks.json", "rejected.jsonl", "notes.txt"])
@pytest.mark.parametrize("journal", [None, b"", b'{"kind":"iden'])
async def test_files_that_no_journal_accounts_for_are_left_alone(tmp_path, name, journal):
    (tmp_path / name).write_text("mine")
    if journal is not None:
        (tmp_path / "journal.jsonl").write_bytes(journal)
    before = snapshot(tmp_path)
    script = Scripted(["good"])
    with pytest.raises(InputError, match=rf"holds {name} and no journal.*Choose a new --out\.") as caught:
        await make(script, tmp_path)
    assert caught.value.path == str(tmp_path)
    assert snapshot(tmp_path) == before and not script.generated


@pytest.mark.parametrize("journal", [None, b"", b'{"kind":"iden'])
async def test_a_folder_of_a_factory_killed_at_once_is_used(tmp_path, journal):
    (tmp_path / ".DS_Store").write_text("")
    if journal is not None:
        (tmp_path / "journal.jsonl").write_bytes(journal)
    assert len((await make(Scripted(["good"]), tmp_path)).of("kept")) == 1


async def test_a_file_in_place_of_the_folder_is_told(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(InputError, match="cannot be used as a folder"):
        await make(Scripted(["good"]), tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("numbers", [{"candidates": 1}, {"keep": 1}, {"candidates": 3, "keep": 2}])
async def test_smaller_numbers_lose_nothing_and_send_nothing(tmp_path, numbers):
    whole = await make(Scripted(STEADY), tmp_path)
    before = snapshot(tmp_path)
    script = Scripted(STEADY)
    made = await make(script, tmp_path, **numbers)
    assert (made.calls, script.generated, script.answered) == (0, [], [])
    assert (made.outcomes, made.untried) == (whole.outcomes, ())
    assert snapshot(tmp_path) == before
    # Other bounds judge all of them anew, those beyond the numbers too.
    strict = await make(Scripted(STEADY), tmp_path, Filter(full=1.0, hidden=0.0), **numbers)
    assert len(strict.outcomes) == len(STEADY) and strict.calls == 0


async def test_candidates_that_smaller_numbers_leave_undecided_are_named(tmp_path):
    kinds = ["good", "hard", "good", "prose"]
    await make(Scripted(kinds), tmp_path, Filter(trials=5))
    before = snapshot(tmp_path)
    script = Scripted(kinds)
    made = await make(script, tmp_path, Filter(trials=10), candidates=1)
    recipe = script.recipe()
    prose = {k for k in range(1, 5) if ":prose>" in recipe.prompt(k)}
    # Only candidate 1 may be tried further; a reply that cannot be read needs no trial.
    assert len(script.answered) == made.calls == (0 if 1 in prose else 10)
    assert set(made.untried) == {2, 3, 4} - prose
    assert {o.number for o in made.outcomes} == {1} | prose
    again = await make(Scripted(kinds), tmp_path, Filter(trials=5))
    assert again.calls == 0 and again.untried == ()
    now = snapshot(tmp_path)
    assert {n: now[n] for n in ("tasks.json", "rejected.jsonl")} == {
        n: before[n] for n in ("tasks.json", "rejected.jsonl")
    }


async def test_giving_up_keeps_what_was_decided(tmp_path):
    kinds = ["good"] * 7
    await make(Scripted(kinds), tmp_path, Filter(trials=5))

    class Down(Scripted):
        async def answer(self, system, user):
            raise TimeoutError("no reply")

    script = Down(["good"] * 7)
    made = await make(script, tmp_path, Filter(trials=6))
    assert made.stopped and len(made.of("open")) == 5 and set(made.untried) == {6, 7}
    made = await make(Scripted(kinds), tmp_path, Filter(trials=5))
    assert made.calls == 0 and len(made.of("kept")) == 7


async def test_the_files_stay_whole_until_everything_is_judged_again(tmp_path):
    kinds = ["good"] * 6
    await make(Scripted(kinds), tmp_path, Filter(trials=5))
    before = files(tmp_path)
    seen = []

    class Watching(Scripted):
        async def answer(self, system, user):
            seen.append(files(tmp_path) == before)
            return await super().answer(system, user)

    await make(Watching(kinds), tmp_path, Filter(trials=10))
    assert len(seen) == 60 and all(seen)
    assert files(tmp_path) != before


async def test_two_processes_do_not_share_a_folder(tmp_path):
    from abilene.tasks.journal import Journal

    with Journal(tmp_path / "journal.jsonl", {}), pytest.raises(InputError, match="in use"):
        Journal(tmp_path / "journal.jsonl", {})
    Journal(tmp_path / "journal.jsonl", {}).close()


SLOW = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from _factory import Scripted
from abilene.evals.factory import make_tasks
from abilene.tasks.sieve import Filter
script = Scripted(["good", "hard", "good", "easy"])
async def slow(*prompt):
    await asyncio.sleep(0.05)
    with open({out!r} + ".returned", "ab", buffering=0) as f:
        f.write(b"x")
    return await script.answer(*prompt)
asyncio.run(make_tasks(script.recipe(), Filter(), script.generate, slow, Path({out!r}), candidates=4, connections=2))
"""


async def test_kill_minus_nine(tmp_path):
    """A killed factory goes on: every call that was in the journal is kept, and none of them is made again."""
    kinds = ["good", "hard", "good", "easy"]
    code = SLOW.format(tests=str(Path(__file__).parents[1]), out=str(tmp_path / "killed"))
    process = subprocess.Popen([sys.executable, "-c", code])
    journal = tmp_path / "killed" / "journal.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (journal.exists() and journal.read_bytes().count(b"\n") > 10):
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.3)  # so that the kill does not fall on the moment of a write
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = journal.read_bytes().count(b"\n") - 1
    assert 10 <= done < 84
    # Besides the four candidates, every answer that came back is there, but for those of the two calls under way.
    assert done >= 4 + (tmp_path / "killed.returned").stat().st_size - 2
    script = Scripted(kinds)
    made = await make(script, tmp_path / "killed")
    assert made.calls == 84 - done
    await make(Scripted(kinds), tmp_path / "whole")
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


async def test_numbers_out_of_range_are_refused(tmp_path):
    for options in ({"candidates": 0}, {"keep": 0}, {"connections": 0}):
        with pytest.raises(UsageError):
            await make(Scripted(["good"]), tmp_path, **options)


# Hand-written files --------------------------------------------------------------------------------------


def write(path, *tasks, **changes):
    entries = [
        {**t.to_entry(k), **changes} if isinstance(t, Candidate) else t for k, t in enumerate(tasks, start=1)
    ]
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


def test_a_file_is_checked_as_a_whole(tmp_path):
    bad = candidate(3, options=("Ash3", "Cedar3"))
    path = write(tmp_path / "t.json", candidate(1), {"id": 7, "name": "x"}, bad, 5, candidate(5).to_entry(1))
    entries = check_file(path)
    assert [e.key for e in entries] == ["01", "07", "03", "entry 4", "entry 5"]
    assert [sorted({p.code for p in e.problems}) for e in entries] == [
        [], ["field"], ["option_count"], ["field"], ["field"],
    ]  # fmt: skip
    assert [p.code for p in check_file(write(path, candidate(1)), clues=3)[0].problems] == ["clue_count"]


@pytest.mark.parametrize("key", ["a\nb", "a/b", "a\\b", "\ud800", "", True, None, "2", "02", ...])
def test_ids_are_checked_as_the_loader_checks_them(tmp_path, key):
    entry = {k: v for k, v in {**candidate(1).to_entry(1), "id": key}.items() if v is not ...}
    path = write(tmp_path / "t.json", candidate(3), candidate(2), entry)
    last = check_file(path)[-1]
    assert (last.key, [p.field for p in last.problems]) == ("entry 3", ["id"])
    with pytest.raises(InputError) as caught:
        hiddenbench.load(path)
    assert caught.value.field == "id"


@pytest.mark.parametrize("content", ["", "{}", "[]", "nonsense"])
def test_a_file_without_tasks_is_an_input_error(tmp_path, content):
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(InputError):
        check_file(tmp_path / "t.json")


async def test_a_hand_written_file_is_tried_and_an_edited_task_is_tried_anew(tmp_path):
    kinds = ["good", "easy", "hard", "good"]
    path = write(
        tmp_path / "t.json", *(candidate(k) for k in (1, 2, 3)), candidate(4, options=("Ash4", "Cedar4"))
    )
    script = Scripted(kinds)
    found = await try_tasks(check_file(path), Filter(), script.answer, out=tmp_path / "out")
    assert {k: (o.status, [r.code for r in o.reasons]) for k, o in found.items()} == {
        "01": ("kept", []),
        "02": ("rejected", ["hidden", "decisive_view", "decisive_view", "decisive_view", "decisive_view"]),
        "03": ("rejected", ["full"]),
    }
    assert len(script.answered) == 60
    changed = candidate(2, name="another")
    write(path, candidate(1), changed, candidate(3))
    await try_tasks(check_file(path), Filter(), script.answer, out=tmp_path / "out")
    assert len(script.answered) == 80
    await try_tasks(check_file(path), Filter(), script.answer)  # without a folder nothing is kept
    assert len(script.answered) == 140


def test_the_example_file_of_the_docs_is_sound(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "make-tasks.md").read_text("utf-8")
    (tmp_path / "t.json").write_text(page.split("```json\n")[1].split("```")[0], "utf-8")
    assert [(e.key, e.problems) for e in check_file(tmp_path / "t.json")] == [("01", ())]
    assert [t.id for t in hiddenbench.load(tmp_path / "t.json")] == ["hb-01"]
