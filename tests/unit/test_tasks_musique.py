import json
import warnings
from collections import Counter

import pytest
from _data import data_file

from abilene.errors import InputError, UsageError
from abilene.tasks import musique
from abilene.tasks.freetext import strict_match
from abilene.tasks.task import Note, Task

pytestmark = pytest.mark.filterwarnings("ignore:MuSiQue")


def row(number=0, hops=2, distractors=10, **changes):
    """A question whose paragraphs say what they are."""
    supporting = [
        3 * k + 1 for k in range(hops)
    ]  # their places, not at the ends and not in the order of the steps
    paragraphs = []
    for idx in range(hops + distractors):
        k = supporting.index(idx) if idx in supporting else None
        text = f"fact {k} of {number} is city{number}x{k}" if k is not None else f"other {idx} of {number}"
        paragraphs.append(
            {"idx": idx, "title": f"Title {idx}", "paragraph_text": text, "is_supporting": k is not None}
        )
    steps = [
        {"id": k, "question": "?", "answer": f"city{number}x{k}", "paragraph_support_idx": supporting[-1 - k]}
        for k in range(hops)
    ]
    made = {
        "id": f"{hops}hop__{number}",
        "paragraphs": paragraphs,
        "question": f"Which city is it, number {number}?",
        "question_decomposition": steps,
        "answer": f"city{number}x0",
        "answer_aliases": [f"alias{number}"],
        "answerable": True,
    }
    return made | changes


@pytest.fixture
def file(tmp_path):
    def write(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n")
        return path

    return write


@pytest.fixture
def many(file):
    return file(*(row(i, hops) for hops in (2, 3, 4) for i in range(100 * hops, 100 * hops + 12)))


def step_holders(task):
    return {
        int(n.about.split()[1]): i for i, own in enumerate(task.private) for n in own if n.about is not None
    }


def test_each_step_is_held_by_another_agent_in_the_order_of_the_question(file):
    task = musique.load(file(row(7, 3)), seed=3)[0]
    assert task.team_size == 5
    assert task.options == ()
    assert [len(own) for own in task.private].count(2) == 3
    held = {n.about: n.text for own in task.private for n in own if n.about}
    # The fixture's steps name the supporting paragraphs from the last to the first.
    assert held == {
        f"step {k + 1}": f"[Title {3 * (2 - k) + 1}] fact {2 - k} of 7 is city7x{2 - k}" for k in range(3)
    }
    holders = step_holders(task)
    assert len(set(holders.values())) == 3
    assert task.design["holders"] == ",".join(str(holders[k]) for k in (1, 2, 3))
    assert (task.answer, task.aliases) == ("city7x0", ("alias7",))
    everything = [n.text for n in (*task.shared, *(n for own in task.private for n in own))]
    assert len(everything) == len(set(everything)) == 3 + 5 + 3
    assert len(task.shared) == 3
    assert all(n.text.startswith("[Title ") and " other " in n.text for n in task.shared)


def test_the_sample_is_sound_and_its_shortfall_is_said():
    path = data_file("musique_sample60.jsonl")
    with pytest.warns(UserWarning, match=r"20 questions of 2 steps instead of 40") as caught:
        tasks = musique.load(path)
    assert "no supporting paragraph as shown" in str(caught[0].message)
    assert Counter(t.design["hops"] for t in tasks) == {2: 20, 3: 20, 4: 20}
    assert [fault for t in tasks for fault in musique.check(t)] == []
    assert max(len(n.text.split()) for t in tasks for own in t.private for n in own) == 90
    assert all(strict_match(t.answer, t.answer, t.aliases) for t in tasks)
    rows = {f"mq-{r['id']}": r for r in map(json.loads, path.read_text().splitlines())}
    for t in tasks:
        source = {
            " ".join(f"[{p['title']}] {p['paragraph_text']}".split()): p for p in rows[t.id]["paragraphs"]
        }
        for own in (t.shared, *t.private):
            for n in own:
                kinds = {
                    p["is_supporting"] for text, p in source.items() if f"{text} ".startswith(f"{n.text} ")
                }
                assert kinds == {n.about is not None}


def test_no_warning_when_nothing_is_amiss(file):
    rows = [row(i, hops) for hops in (2, 3, 4) for i in range(100 * hops, 100 * hops + 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(musique.load(file(*rows), per_hop=2)) == 6
        assert len(musique.load(file(*rows), tasks=6)) == 6


def test_tasks_depend_on_the_seed_the_team_and_their_row_alone(many, file):
    one = musique.load(many, seed=1)
    assert one == musique.load(many, seed=1)
    shuffled = many.read_text().splitlines()[::-1]
    assert one == musique.load(file(*shuffled), seed=1)
    assert all(a.digest != b.digest for a, b in zip(one, musique.load(file(*shuffled), seed=2), strict=True))
    alone = musique.load(file(row(205, 2)), seed=1)[0]
    assert alone in one


def test_a_number_of_tasks_is_spread_evenly_and_grows_by_addition(many):
    seen = set()
    for n in range(1, 37):
        tasks = musique.load(many, tasks=n, seed=4)
        assert len(tasks) == n
        counts = Counter(t.design["hops"] for t in tasks)
        assert max(counts.values()) - min(counts.get(h, 0) for h in (2, 3, 4)) <= 1
        assert seen <= {t.id for t in tasks}
        seen = {t.id for t in tasks}
    with pytest.warns(UserWarning, match="36 questions instead of 40"):
        assert len(musique.load(many, tasks=40)) == 36
    assert Counter(t.design["hops"] for t in musique.load(many, per_hop=5)) == {2: 5, 3: 5, 4: 5}


def test_who_holds_what_is_random(many):
    """Holders of step 1 over 720 tasks: each agent Binomial(720, 1/5), within 5 sd; false alarms below 1e-5.

    So is the place of the supporting note among the agent's two (Binomial, 1/2).
    """
    tasks = [t for seed in range(20) for t in musique.load(many, seed=seed)]
    first = Counter(step_holders(t)[1] for t in tasks)
    n = len(tasks)
    assert all(abs(first[i] - n / 5) < 5 * (n * 0.2 * 0.8) ** 0.5 for i in range(5))
    places = [own[0].about is not None for t in tasks for own in t.private if len(own) == 2]
    assert abs(sum(places) - len(places) / 2) < 5 * (len(places) / 4) ** 0.5


def test_what_cannot_be_dealt_out_is_left_out_and_counted(file):
    same = row(2, 2)
    same["question_decomposition"][0]["paragraph_support_idx"] = 1
    same["paragraphs"][4]["is_supporting"] = False
    twins = row(3, 2)
    twins["paragraphs"][4] |= {"title": "Title 1", "paragraph_text": twins["paragraphs"][1]["paragraph_text"]}
    unanswerable = [row(k, answerable=False) for k in (1, 4)]
    path = file(row(1), same, *unanswerable, row(5, distractors=7), row(6, 5), twins)
    with pytest.warns(UserWarning, match="rows left out") as caught:
        tasks = musique.load(path)
    assert [t.id for t in tasks] == ["mq-2hop__1"]
    said = str(caught[0].message)
    for part in (
        "2 are marked as unanswerable",
        "1 have fewer than the 8",
        "1 have other than",
        "2 have two steps",
    ):
        assert part in said
    with pytest.raises(UsageError, match=r"no question for a team of 5: 1 have fewer than the 8 distractors"):
        musique.load(file(row(5, distractors=7)))


def test_a_distractor_that_reads_like_a_supporting_paragraph_is_not_shown(file):
    twin = row(1)
    twin["paragraphs"][0] |= {key: twin["paragraphs"][1][key] for key in ("title", "paragraph_text")}
    for seed in range(20):
        assert musique.check(musique.load(file(twin), seed=seed)[0]) == []


@pytest.mark.parametrize("size", [4, 5, 7])
def test_other_team_sizes(file, size):
    task = musique.load(file(row(1, 4, distractors=12)), team_size=size)[0]
    assert task.team_size == size
    assert musique.check(task) == []


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"team_size": 3}, "up to 4 steps"),
        ({"tasks": 0}, "at least 1"),
        ({"per_hop": 0}, "at least 1"),
    ],
)
def test_impossible_wishes_are_refused(many, options, match):
    with pytest.raises(UsageError, match=match):
        musique.load(many, **options)


def broken(**paths):
    r = row(1)
    for path, value in paths.items():
        at = r
        *front, last = path.split("__")
        for part in front:
            at = at[int(part) if part.isdecimal() else part]
        key = int(last) if last.isdecimal() else last
        if value is None and isinstance(at, dict):
            del at[key]
        else:
            at[key] = value
    return r


@pytest.mark.parametrize(
    ("bad", "field", "found"),
    [
        ("{not json", None, "not a JSON object"),
        ("[1]", None, "expected `object`"),
        (broken(question=3), "question", "expected `str`"),
        (broken(question=None), "question", "missing"),
        (broken(question="  "), "question", "empty"),
        (broken(answer="\t"), "answer", "empty"),
        (broken(id=""), "id", "empty"),
        (broken(answer_aliases="x"), "answer_aliases", "expected `array`"),
        (broken(answerable="yes"), "answerable", "expected `bool`"),
        (broken(paragraphs__2__title=None), "paragraphs[2].title", "missing"),
        (broken(paragraphs__2__paragraph_text=""), "paragraphs[2].paragraph_text", "empty"),
        (broken(paragraphs__2__idx=3), "paragraphs", "same idx"),
        (broken(paragraphs__2__is_supporting=True), "paragraphs", "not the same"),
        (
            broken(question_decomposition__1__paragraph_support_idx=99),
            "question_decomposition[1].paragraph_support_idx",
            "99 is the idx of no paragraph",
        ),
        (row(0), "id", "occurs twice"),
    ],
)
def test_a_malformed_row_names_line_and_field(file, bad, field, found):
    path = file(row(0), "", bad)
    with pytest.raises(InputError) as caught:
        musique.load(path)
    error = caught.value
    assert (error.path, error.line, error.field) == (str(path), 3, field)
    assert found in error.found
    assert error.hint.endswith(".")


def test_a_file_that_is_none_is_told(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        musique.load(tmp_path)
    (tmp_path / "empty").write_text("\n\n")
    with pytest.raises(InputError, match="empty"):
        musique.load(tmp_path / "empty")
    (tmp_path / "latin").write_bytes(json.dumps(row(0)).encode().replace(b"city", b"\xe9"))
    with pytest.raises(InputError, match="line 1"):
        musique.load(tmp_path / "latin")
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbf" + json.dumps(row(0)).encode())
    assert len(musique.load(tmp_path / "bom")) == 1


def test_cautions_see_a_leak_and_a_cut_answer(file):
    task = musique.load(file(row(1)))[0]
    assert musique.cautions(task) == []

    def but(shared=task.shared, private=task.private):
        return Task(**{f: getattr(task, f) for f in ("id", "benchmark", "question", "options", "answer", "aliases")},
                    design=task.design, shared=shared, private=private)  # fmt: skip

    leak = (Note("[x] It is, of course, CITY1x0."), *task.shared[1:])
    assert musique.cautions(but(shared=leak)) == ["the answer occurs in a shared paragraph"]
    assert musique.cautions(but(shared=(Note("It is alias1"), *task.shared))) != []
    assert musique.cautions(but(shared=(Note("It is city1x01"), *task.shared))) == []
    cut = tuple(tuple(Note(n.text[:12], n.about) for n in own) for own in task.private)
    assert musique.cautions(but(private=cut)) == ["the answer occurs in no supporting paragraph as shown"]
    with pytest.warns(UserWarning, match=r"in 1 of 1 tasks the answer occurs in no supporting"):
        musique.load(file(row(1, answer="elsewhere", answer_aliases=[])))


def test_the_self_check_sees_every_fault(file):
    task = musique.load(file(row(1, 3)))[0]
    assert musique.check(task) == []
    holders = step_holders(task)
    own = [list(notes) for notes in task.private]

    def faults(**changes):
        kept = {
            f: getattr(task, f)
            for f in ("id", "benchmark", "question", "options", "answer", "shared", "private")
        }
        return " ".join(musique.check(Task(**({**kept, "design": task.design} | changes))))

    def moved():
        private = [list(notes) for notes in own]
        note = next(n for n in private[holders[1]] if n.about)
        private[holders[1]].remove(note)
        private[holders[2]].append(note)
        return tuple(map(tuple, private))

    assert "holds 2 supporting" in faults(private=moved())
    dropped = tuple(tuple(n for n in notes if n.about != "step 2") for notes in own)
    assert "steps held" in faults(private=dropped)
    twice = tuple(
        (*notes, *(n for n in own[holders[1]] if n.about and i != holders[1])) for i, notes in enumerate(own)
    )
    assert "is held by the agents" in faults(private=twice)
    assert "shared paragraphs" in faults(shared=task.shared[:2])
    assert "everybody reads" in faults(shared=(*task.shared[:2], Note("x", about="step 1")))
    assert "occurs 2 times" in faults(shared=(*task.shared[:2], task.shared[0]))
    assert "of 91 words" in faults(shared=(*task.shared[:2], Note("w " * 91)))
    assert "neither letter nor digit" in faults(answer="?!")
    assert "options" in faults(options=(task.answer, "x"))
    assert "holders" in faults(design={**task.design, "holders": "0,1"})
    assert "decisive" in faults(shared=(*task.shared[:2], Note("x", decisive=True)))
