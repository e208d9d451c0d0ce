import dataclasses
import itertools
import tomllib
from importlib import resources

import pytest

from abilene.errors import UsageError
from abilene.tasks.evidence import favored, view_counts
from abilene.tasks.hidden_profile import check, make_tasks, max_findings
from abilene.tasks.task import Note


def bodies(task):
    return [n.text.split(": ", 1)[1] for n in (*task.shared, *itertools.chain(*task.private))]


def test_the_default_run_is_the_published_design():
    tasks = make_tasks()
    assert len(tasks) == 120
    assert [t.design["n_informed"] for t in tasks] == sorted([0, 1, 2, 3] * 30)
    for t in tasks:
        assert check(t) == []
        n = t.design["n_informed"]
        weaker = next(o for o in t.options if o != t.answer)
        count = lambda notes, who: sum(note.text.startswith(f"{who}: ") for note in notes)  # noqa: E731
        pooled = (*t.shared, *itertools.chain(*t.private))
        assert (count(t.shared, weaker), count(t.shared, t.answer)) == (3, 1)
        assert (count(pooled, weaker), count(pooled, t.answer)) == (8, 11 + 2 * n)
        held = sorted(count(own, t.answer) for own in t.private)
        assert held == [2] * (5 - n) + [4] * n
        assert all(count(own, weaker) == 1 for own in t.private)
        ahead = sum(favored(t.options, (*t.shared, *own)) == t.answer for own in t.private)
        assert ahead / 5 == t.design["p_design"]
        assert favored(t.options, pooled) == t.answer
        assert len(set(bodies(t))) == len(pooled)


@pytest.mark.parametrize(("size", "level"), [(2, 1), (2, 2), (3, 0), (4, 3), (9, 9), (60, 17)])
def test_any_team_size_and_level(size, level):
    for t in make_tasks(team_size=size, informed=[level], per_level=3, seed=5):
        assert t.team_size == size
        assert check(t) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"team_size": 1, "informed": [1]}, "at least 2 agents"),
        ({"team_size": 2, "informed": [0]}, "count 5 for the stronger and 5 for the weaker"),
        ({"informed": [6]}, "between 0 and the team size 5"),
        ({"informed": [-1]}, "between 0"),
        ({"informed": []}, "at least one level"),
        ({"informed": [1, 1]}, "only once"),
        ({"per_level": 0}, "at least 1"),
        ({"tasks": 0}, "at least 1"),
        ({"team_size": 20_000, "informed": [0]}, "distinct findings"),
    ],
)
def test_an_impossible_design_is_refused_with_the_reason(options, says):
    with pytest.raises(UsageError, match=says):
        make_tasks(**options)


def test_a_task_depends_on_seed_and_id_alone():
    full = {t.id: t for t in make_tasks(seed=3)}
    few = make_tasks(seed=3, informed=[2, 0], per_level=2)
    assert [t.id for t in few] == ["hp-2-000", "hp-2-001", "hp-0-000", "hp-0-001"]
    assert all(full[t.id] == t for t in few)
    assert all(full[t.id].digest != t.digest for t in make_tasks(seed=4))


def test_a_total_is_spread_evenly_over_the_levels():
    levels = [t.design["n_informed"] for t in make_tasks(tasks=10)]
    assert levels == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    assert len(make_tasks(tasks=2)) == 2
    assert len(make_tasks(tasks=403)) == 403


def test_no_two_tasks_of_a_run_read_alike():
    """Deterministic for the seeds; 3 common findings of 19 to 25 is the most that 3 seeds show."""
    for seed in range(3):
        tasks = make_tasks(seed=seed)
        found = [set(bodies(t)) for t in tasks]
        assert max(len(a & b) for a, b in itertools.combinations(found, 2)) <= 3
        assert len({frozenset(t.options) for t in tasks}) >= 115
        # Within a task no action occurs twice.
        for t in tasks:
            actions = [b.split(", ")[1] for b in bodies(t)]
            assert len(set(actions)) == len(actions)
    assert max_findings() > 20_000


def test_sides_orders_and_informed_agents_are_random():
    """Each count is Binomial(600, 1/2) or (600, 1/5) and must lie within 5 sd: false alarms below 1e-5."""
    tasks = make_tasks(informed=[1], per_level=600, seed=11)
    first = sum(t.options[0] == t.answer for t in tasks)
    assert abs(first - 300) < 5 * 150**0.5
    for agent in range(5):
        informed = sum(t.design["informed"] == str(agent) for t in tasks)
        assert abs(informed - 120) < 5 * 96**0.5
    opens = sum(t.shared[0].about == t.answer for t in tasks)
    assert abs(opens - 150) < 5 * 112.5**0.5
    assert len({t.answer for t in tasks}) > 100


def test_the_vocabulary_keeps_its_promises():
    raw = tomllib.loads((resources.files("abilene.tasks") / "findings.toml").read_text("utf-8"))
    names, roles, places = raw.pop("names"), raw.pop("roles"), raw.pop("places")
    parts = roles + places + [p for family in raw.values() for p in family["actions"] + family["effects"]]
    text = "\n".join(parts).casefold()
    assert [n for n in names if n.casefold() in text] == []
    assert [(a, b) for a in names for b in names if a != b and a.casefold() in b.casefold()] == []
    assert len(names) == len(set(names)) >= 150
    assert all(len(n) > 3 and n.isalpha() and n.isascii() for n in names)
    assert not any("\n" in p or p != p.strip() for p in parts)
    words = set(text.replace("\n", " ").replace(",", " ").replace("'", " ").split())
    assert not words & {"he", "she", "his", "her", "him"}
    actions = [a for family in raw.values() for a in family["actions"]]
    assert len(actions) == len(set(actions)) >= 140


def swap(task, **changes):
    return dataclasses.replace(task, **changes)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: swap(t, shared=t.shared[1:]),
        lambda t: swap(t, private=(*t.private[:-1], t.private[0])),
        lambda t: swap(t, private=(t.private[0][:-1], *t.private[1:])),
        lambda t: swap(t, answer=next(o for o in t.options if o != t.answer)),
        lambda t: swap(t, options=(*t.options, "Third")),
        lambda t: swap(t, design={**t.design, "p_design": 0.9}),
        lambda t: swap(t, design={**t.design, "informed": "0,1,2,3,4"}),
        lambda t: swap(t, shared=(*t.shared[1:], Note(t.shared[0].text, "Nobody"))),
        lambda t: swap(t, shared=(*t.shared[1:], Note("about no one", t.shared[0].about))),
    ],
)
def test_the_self_check_finds_a_spoiled_task(spoil):
    task = make_tasks(informed=[2], per_level=1)[0]
    assert check(task) == []
    assert check(spoil(task))


def test_counts_and_favored_in_view():
    notes = [Note("1", "x"), Note("2", "y"), Note("3"), Note("4", "elsewhere")]
    assert view_counts(("y", "x", "z"), notes) == {"y": 1, "x": 1, "z": 0}
    assert favored(("x", "y", "z"), notes) is None
    assert favored(("x", "y", "z"), [*notes, Note("5", "y")]) == "y"
    assert favored(("x", "y"), []) is None
    assert favored((), notes) is None
