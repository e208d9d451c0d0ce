import json
from dataclasses import replace

import pytest
from _data import data_file

from abilene.errors import InputError, UsageError
from abilene.tasks import full_profile
from abilene.tasks.files import file_digest
from abilene.tasks.hiddenbench import check, load


def entry(**changes):
    made = {
        "id": 1,
        "name": "bridge",
        "description": "Which way?\n- Left\n- Right",
        "shared_information": ["It rains.", "The sun is hidden."],
        "hidden_information": ["Left is flooded.", "Right is dry.", "The boat has left."],
        "possible_answers": ["Left", "Right"],
        "correct_answer": "Right",
    }
    made.update(changes)
    return {k: v for k, v in made.items() if v is not ...}


def write(tmp_path, content):
    path = tmp_path / "tasks.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_a_task_keeps_every_text_and_deals_out_the_clues(tmp_path):
    (task,) = load(write(tmp_path, [entry()]))
    assert (task.id, task.benchmark, task.team_size) == ("hb-01", "hiddenbench", 3)
    assert task.question == "Which way?\n- Left\n- Right"
    assert (task.options, task.answer) == (("Left", "Right"), "Right")
    assert [n.text for n in task.shared] == ["It rains.", "The sun is hidden."]
    assert sorted(own[0].text for own in task.private) == sorted(entry()["hidden_information"])
    assert "p_design" not in task.design
    assert check(task) == []


def test_the_seed_decides_who_holds_which_clue(tmp_path):
    path = write(tmp_path, [entry()])
    held = {tuple(own[0].text for own in load(path, seed=s)[0].private) for s in range(40)}
    assert len(held) == 6
    assert load(path, seed=7) == load(path, seed=7)


def test_tasks_of_one_seed_are_dealt_independently(tmp_path):
    tasks = load(write(tmp_path, [entry(id=i) for i in range(40)]), seed=1)
    assert len({tuple(own[0].text for own in t.private) for t in tasks}) == 6


def test_a_clue_deal_does_not_depend_on_other_entries(tmp_path):
    alone = load(write(tmp_path, [entry(id=2)]), seed=3)[0]
    assert load(write(tmp_path, [entry(id=1), entry(id=2)]), seed=3)[1] == alone


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        ("[{]", "not JSON"),
        (b"\xff\xfe\x00[", "not UTF-8"),
        ('{"tasks": []}', "an object instead of a list"),
        ("[]", "list is empty"),
        ("[1]", "entry 1 is a number"),
        ('[{"id": 1, "id": 2}]', "'id' occurs twice"),
        ([entry(id=...)], "field 'id': entry 1 lacks it"),
        ([entry(id=True)], "found True"),
        ([entry(id=" ")], "field 'id'"),
        ([entry(), entry()], "entry 2 repeats the id 1"),
        ([entry(), entry(id="01")], "repeats the id"),
        ([entry(), entry(id="1")], "field 'id': entry 2 repeats the id '1'"),
        ([entry(id="7"), entry(id="007")], "repeats the id '007'"),
        ([entry(id="a\nb")], r"field 'id': entry 1: found 'a\\nb'"),
        ([entry(id="a\u2028b")], "field 'id'.*one line"),
        ([entry(id="../x")], r"field 'id': entry 1: found '\.\./x'"),
        ([entry(id="a\\b")], "field 'id'.*one line"),
        ([entry(id="\ud800")], r"field 'id': entry 1: found '\\ud800'"),
        ([entry(name="\ud800")], "field 'name': task 01.*half a character"),
        ([entry(description="x\udc00")], "field 'description': task 01.*half a character"),
        ([entry(correct_answer="\ud800")], "field 'correct_answer': task 01.*half a character"),
        ([entry(possible_answers=["Left", "\ud800"])], r"possible_answers\[1\].*task 01.*half a character"),
        ([entry(shared_information=["\ud800"])], r"shared_information\[0\].*task 01.*half a character"),
        ([entry(hidden_information=["a", "\ud800"])], r"hidden_information\[1\].*task 01.*half"),
        ([entry(hidden_information=["a", "b", "a"])], r"hidden_information\[2\].*task 01: 'a' is hidden_inf"),
        (
            [entry(hidden_information=["a", "it  RAINS."])],
            r"hidden_information\[1\].*is shared_information\[0\]",
        ),
        (
            [entry(shared_information=["a", "b", "b "])],
            r"shared_information\[2\].*is shared_information\[1\]",
        ),
        ([entry(possible_answers=["Left", "Right", "a|b"])], r"possible_answers\[2\].*task 01.*one line"),
        ([entry(possible_answers=["Le\nft", "Right"])], r"possible_answers\[0\].*task 01.*one line"),
        ([{"a\nb": 1}], r"entry 1 lacks it \(fields found: 'a\\nb'"),
        ([entry(description=...)], "field 'description': task 01 lacks it"),
        ([entry(description="  ")], "the text is empty"),
        ([entry(name=3)], "field 'name': task 01: found a number"),
        ([entry(correct_answer="right")], "none of the possible answers"),
        ([entry(correct_answer=None)], "field 'correct_answer': task 01: found null"),
        ([entry(possible_answers=["Left", "Right", "left "])], "two answers are the same"),
        ([entry(possible_answers=["Right"])], "At least 2"),
        ([entry(possible_answers="Left, Right")], "found text. It must be a list"),
        ([entry(hidden_information=[])], "field 'hidden_information'"),
        ([entry(hidden_information=["a", ""])], r"hidden_information\[1\]"),
        ([entry(hidden_information=["a", 5])], r"hidden_information\[1\].*a number"),
        ([entry(shared_information=...)], "field 'shared_information'"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_a_faulty_file_gives_one_clear_error(tmp_path, content, says):
    path = write(tmp_path, content)
    with pytest.raises(InputError, match=says) as error:
        load(path)
    assert str(path) in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    str(error.value).encode()


def test_a_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "no.json")
    with pytest.raises(InputError):
        file_digest(tmp_path / "no.json")


def test_a_byte_order_mark_is_fine_and_changes_the_hash(tmp_path):
    plain = write(tmp_path, [entry()])
    before = (load(plain), file_digest(plain))
    marked = write(tmp_path, b"\xef\xbb\xbf" + plain.read_bytes())
    assert load(marked) == before[0]
    assert file_digest(marked) != before[1]


def test_subsets(tmp_path):
    path = write(tmp_path, [entry(id=i, hidden_information=list("abcd"[: 3 + i % 2])) for i in range(1, 11)])
    three, six = load(path, tasks=3), load(path, tasks=6)
    assert {t.id for t in three} < {t.id for t in six}
    assert [t.id for t in six] == sorted(t.id for t in six)
    assert {t.id for t in load(path, tasks=3, seed=1)} != {t.id for t in three}
    with pytest.raises(UsageError, match="has 10"):
        load(path, tasks=11)
    with pytest.raises(UsageError):
        load(path, tasks=0)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 8, 9])
def test_a_team_of_another_size_still_holds_every_clue(tmp_path, n):
    path = write(tmp_path, [entry(id=i, hidden_information=list("abcd"[: 3 + i % 2])) for i in range(1, 11)])
    tasks = load(path, team_size=n)
    assert len(tasks) == 10
    for k, t in enumerate(tasks, 1):
        clues = 3 + k % 2
        held = [note.text for own in t.private for note in own]
        assert check(t) == [] and t.team_size == n
        assert set(held) == set("abcd"[:clues])
        # Nothing is held twice by one agent, no hand is empty, and hands and holders are as even as can be.
        assert all(len(set(own)) == len(own) >= 1 for own in t.private)
        hands, holders = [len(own) for own in t.private], [held.count(c) for c in set(held)]
        assert max(hands) - min(hands) <= 1 and max(holders) - min(holders) <= 1
        assert len(held) == max(n, clues)
        full = full_profile(t)
        assert [x.text for x in full.shared] == [x.text for x in t.shared] + list(dict.fromkeys(held))
        assert full.private == ((),) * n


def test_a_wrong_deal_is_found(tmp_path):
    (good,) = load(write(tmp_path, [entry(hidden_information=list("abc"))]), team_size=5)
    assert check(good) == []
    hands = good.private
    assert check(replace(good, private=(hands[0], *hands[:4])))  # a clue has one holder too many
    assert check(replace(good, private=(hands[0], hands[0], hands[0], hands[1], hands[1])))  # one is lost
    assert check(replace(good, private=((*hands[0], *hands[1]), *hands[1:])))  # one agent has two
    with pytest.raises(UsageError, match="at least 2"):
        load(write(tmp_path, [entry()]), team_size=1)


def test_the_published_file():
    path = data_file("hiddenbench.json")
    tasks, raw = load(path), json.loads(path.read_text("utf-8"))
    assert len(tasks) == 65
    assert sorted(t.team_size for t in tasks) == [3] * 7 + [4] * 58
    assert sorted(len(t.options) for t in tasks) == [3] * 59 + [4] * 6
    for t, e in zip(tasks, raw, strict=True):
        assert check(t) == []
        assert (t.question, list(t.options)) == (e["description"], e["possible_answers"])
        assert t.answer == e["correct_answer"]
        assert [n.text for n in t.shared] == e["shared_information"]
        assert sorted(own[0].text for own in t.private) == sorted(e["hidden_information"])
