"""A sound candidate passes the structure check; any single fault is found and named."""

import json

import pytest
from _data import data_file
from hypothesis import given, settings
from hypothesis import strategies as st

from abilene.tasks import hiddenbench
from abilene.tasks.factory import Recipe, check_file, read_reply
from abilene.tasks.sieve import SAME_FACTS, Reason, duplicate_of, likeness
from abilene.tasks.structure import Candidate, check_structure, read_entry

WORD = st.text("abcdefghijklmnopqrstuvwxyzäßé東", min_size=2, max_size=8)
# Option names: alike in all but one word, of one word, or of several; one inside another; with full stops.
NAMES = st.sampled_from(
    [
        ("Site A", "Site B", "Site C"),
        ("Lab Alpha", "Lab Beta", "Lab Gamma", "Lab Delta"),
        ("Mr. X", "Mr. X's son", "Mrs. Y"),
        ("Town Hall (old)", "C++", "C#"),
        ("東京", "Zürich", "O'Hare", "100%"),
    ]
)


@st.composite
def candidates(draw) -> Candidate:
    options = draw(st.permutations(draw(NAMES)))
    serial = iter(range(100))

    def fact() -> str:
        words = draw(st.lists(WORD, min_size=2, max_size=6))
        # Facts may name one option, also the correct one, and may say what is best, only not that this is.
        start = draw(
            st.sampled_from(["", *(f"{o} has " for o in options), "The best weather: ", "It is right that "])
        )
        return f"{start}{' '.join(words)} n{next(serial)}."

    return Candidate(
        name=draw(WORD),
        description=f"{draw(WORD)}? Choose {options[0]}, {', '.join(options[1:-1])} or {options[-1]}.",
        shared=tuple(fact() for _ in range(draw(st.integers(1, 4)))),
        clues=tuple(fact() for _ in range(draw(st.integers(3, 6)))),
        options=tuple(options),
        answer=draw(st.sampled_from(options)),
        rationale=draw(st.none() | WORD),
    )


def changed(task: Candidate, **changes) -> Candidate:
    return Candidate(**{**{f: getattr(task, f) for f in Candidate.__slots__}, **changes})


def put(texts: tuple[str, ...], k: int, text: str) -> tuple[str, ...]:
    k %= len(texts)
    return (*texts[:k], text, *texts[k + 1 :])


TELLS = [
    "{answer} is the right choice.",
    "Experts agree: {answer} is clearly the best option.",
    "The correct answer is {answer}.",
    "The only viable option is therefore the {answer}.",
    "{answer} should be chosen.",
    "It is late. So pick {answer}!",
    "the answer: {answer}",
    '"{answer}" is correct.',
]


def mutants(task: Candidate, k: int) -> dict[str, tuple[set[str], Candidate]]:
    """One fault each, with the codes that must be found: all of them and no other."""
    wrong = [o for o in task.options if o != task.answer]
    tell = TELLS[k % len(TELLS)].format(answer=task.answer)
    option = task.options[k % len(task.options)]
    fact = task.facts[k % len(task.facts)]
    found = {
        "two clues": ({"clue_count"}, changed(task, clues=task.clues[:2])),
        "no shared fact": ({"shared_count"}, changed(task, shared=())),
        "two options": ({"option_count"}, changed(task, options=(wrong[0], task.answer))),
        "answer unlisted": ({"answer"}, changed(task, answer=task.answer + "x")),
        "answer in other case": ({"answer"}, changed(task, answer=f"{task.answer}.")),
        "answer twice": ({"answer", "duplicate_option"}, changed(task, options=(*task.options, task.answer))),
        "wrong option twice": ({"duplicate_option"}, changed(task, options=(*task.options, wrong[0]))),
        "option in other case": (
            {"duplicate_option"}, changed(task, options=(*task.options, wrong[0].upper().replace(" ", "  "))),
        ),
        "fact twice": ({"duplicate_fact"}, changed(task, shared=(*task.shared, fact))),
        "fact in other case": ({"duplicate_fact"}, changed(task, shared=(*task.shared, f"  {fact.upper()}!"))),
        "empty fact": ({"empty"}, changed(task, shared=put(task.shared, k, " "))),
        "empty clue": ({"empty"}, changed(task, clues=put(task.clues, k, ""))),
        "empty name": ({"empty"}, changed(task, name="\t")),
        "empty description": ({"empty"}, changed(task, description="")),
        "empty option": ({"empty"}, changed(task, options=(*task.options, " "))),
        "half a character": ({"text"}, changed(task, clues=put(task.clues, k, "x\ud800"))),
        "option of two lines": ({"option_form"}, changed(task, options=(*task.options, "two\nlines"))),
        "option with a bar": ({"option_form"}, changed(task, options=(*task.options, "a | b"))),
        "option with space": ({"option_form"}, changed(task, options=(*task.options, " Elsewhere"))),
        "option of signs": ({"option_form"}, changed(task, options=(*task.options, "--"))),
        "clue tells": ({"decisive_clue"}, changed(task, clues=put(task.clues, k, tell))),
        "fact tells": ({"answer_stated"}, changed(task, shared=put(task.shared, k, tell))),
        "description tells": ({"answer_stated"}, changed(task, description=f"{task.description}\n{tell}")),
        "clue rules out all": (
            {"rules_out_all"}, changed(task, clues=put(task.clues, k, f"The way to {' and '.join(wrong)} is shut.")),
        ),
        "a wrong option is recommended": (
            set(), changed(task, shared=put(task.shared, k, f"{wrong[0]} is the right choice.")),
        ),
        "the answer is advised against": (
            set(), changed(task, clues=put(task.clues, k, f"Do not choose {task.answer}.")),
        ),
        "a clue names all options": (
            set(), changed(task, clues=put(task.clues, k, f"{', '.join(task.options)} are all open.")),
        ),
        "a clue names one wrong option": (
            set(), changed(task, clues=put(task.clues, k, f"{wrong[0]} burned down.")),
        ),
        "an option is kept": (set(), changed(task, answer=option)),
    }  # fmt: skip
    return found


@settings(max_examples=200)
@given(candidates())
def test_a_sound_candidate_passes(task):
    assert check_structure(task) == []
    assert check_structure(task, len(task.clues)) == []
    assert [p.code for p in check_structure(task, len(task.clues) + 1)] == ["clue_count"]


@settings(max_examples=200)
@given(candidates(), st.integers(0, 119))
def test_a_single_fault_is_found_and_nothing_else(task, k):
    for what, (codes, mutant) in mutants(task, k).items():
        assert {p.code for p in check_structure(mutant)} == codes, what


def test_short_names_are_read_where_options_are_built_alike():
    def codes(clue, options=("Lab A", "Lab B", "Lab C"), answer="Lab C"):
        task = Candidate("n", "d", ("f",), (clue, "y", "z"), options, answer)
        return [p.code for p in check_structure(task)]

    assert codes("Labs A and B are flooded.") == ["rules_out_all"]
    assert codes("A, and also lab b, are flooded.") == []  # an article? not told apart at the start
    assert codes("A door of B is shut.") == []
    assert codes("B and A are flooded, C is not.") == []
    assert codes("B is flooded.") == []
    assert codes("Alpha and Beta burn.", ("Alpha Inn", "Beta Inn", "Gamma Inn"), "Gamma Inn") == [
        "rules_out_all"
    ]
    assert codes("City and Town burn.", ("City Bank", "Town Hall", "Gym Club"), "Gym Club") == []


@settings(max_examples=200)
@given(
    candidates(),
    st.sampled_from(["{}", "Sure!\n{}\nDone {{.", "```json\n{}\n```", "a\n```\n{}\n```\nb", "[{}]"]),
)
def test_a_candidate_is_read_from_any_wrapping(task, wrapping):
    for indent in (None, 2):
        entry = json.dumps(task.to_entry(3), ensure_ascii=False, indent=indent)
        assert read_reply(wrapping.replace("{{", "{").replace("{}", entry)) == task


@settings(max_examples=300)
@given(
    st.text()
    | st.lists(
        st.sampled_from([*'{}[]",:', '"possible_answers"', "```", "\n", "x", "1", "null"]), max_size=30
    ).map("".join)
)
def test_reading_never_raises(text):
    found = Recipe().read(1, text)
    assert isinstance(found, Candidate) or (isinstance(found, Reason) and found.detail)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300)
@given(candidates(), st.sampled_from(list(Candidate("", "", (), (), (), "").to_entry(0))), JSON)
def test_any_value_in_any_field_is_a_task_or_a_list_of_faults(task, field, value):
    read = read_entry({**task.to_entry(1), field: value})
    if isinstance(read, Candidate):
        check_structure(read)
    else:
        assert read and all(p.field.startswith(field) for p in read)


@settings(max_examples=100)
@given(tasks=st.lists(candidates(), min_size=1, max_size=4))
def test_a_file_without_problems_is_read_by_the_benchmark(tasks, tmp_path_factory):
    path = tmp_path_factory.mktemp("f") / "tasks.json"
    entries = [t.to_entry(k) for k, t in enumerate(tasks, start=1)]
    path.write_text(json.dumps(entries), encoding="utf-8")
    checked = check_file(path)
    assert not any(e.problems for e in checked)
    loaded = hiddenbench.load(path)
    assert [e.candidate for e in checked] == tasks
    assert [f"hb-{e.key}" for e in checked] == [t.id for t in loaded]
    for task, made in zip(tasks, loaded, strict=True):
        assert hiddenbench.check(made) == []
        assert (made.question, made.options, made.answer) == (task.description, task.options, task.answer)
        assert tuple(n.text for n in made.shared) == task.shared
        assert sorted(n.text for own in made.private for n in own) == sorted(task.clues)


@settings(max_examples=150)
@given(candidates(), st.randoms(use_true_random=False))
def test_a_copy_is_a_duplicate_whatever_the_order_case_and_names(task, random):
    facts = [f.upper() for f in task.facts]
    random.shuffle(facts)
    n = len(task.shared)
    new = tuple(f"Novel{k}" for k in range(len(task.options)))
    for old, name in sorted(zip(task.options, new, strict=True), key=lambda p: -len(p[0])):
        facts = [f.replace(old.upper() + " ", name + " ") for f in facts]
    copy = Candidate("other", "Something else?", tuple(facts[:n]), tuple(facts[n:]), new, new[0])
    assert likeness(task, copy) == 1.0
    assert duplicate_of(copy, {4: task}).code == "duplicate"
    renamed = changed(task, name=f" {task.name.upper()}! ", shared=("nothing",), clues=("a", "b", "c"))
    assert duplicate_of(renamed, {4: task}) is not None
    assert duplicate_of(copy, {}) is None


def test_published_tasks_have_no_fault_and_only_versions_of_one_are_duplicates():
    """The wording rules raise no false alarm on 65 tasks, and the likeness parts copies from others with room."""
    entries = check_file(data_file("hiddenbench.json"))
    assert len(entries) == 65
    assert [e.key for e in entries if e.problems] == []
    tasks = {int(e.key): e.candidate for e in entries}
    versions = {1, 2, 3}  # one evacuation story with three correct answers
    for a, first in tasks.items():
        for b in range(a + 1, 66):
            alike = likeness(first, tasks[b])
            assert alike > 0.7 if {a, b} <= versions else alike < 0.2
            assert (duplicate_of(tasks[b], {a: first}) is not None) == ({a, b} <= versions)
    assert 0.2 < SAME_FACTS < 0.7


@pytest.mark.parametrize("text", TELLS)
def test_every_way_of_telling_is_of_the_right_option_only(text):
    task = Candidate(
        "n", "d", ("f",), (text.format(answer="Lab B"), "y", "z"), ("Lab A", "Lab B", "Lab C"), "Lab C"
    )
    assert check_structure(task) == []
