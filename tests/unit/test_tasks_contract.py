"""One suite for every benchmark. A new entry in `BENCHMARKS` gets it for free."""

import json

import pytest
from _data import data_file

from abilene.errors import UsageError
from abilene.tasks import BENCHMARKS, benchmark
from abilene.tasks.task import Task
from abilene.team.prompts import load_pack

#: Data of the benchmarks that need some.
DATA = {"hiddenbench": "hiddenbench.json"}


@pytest.fixture(params=sorted(BENCHMARKS))
def bench(request):
    return BENCHMARKS[request.param]


def make(bench, **options):
    data = data_file(DATA[bench.name]) if bench.needs_data else None
    return bench.make(data=data, **options)


def test_same_seed_same_tasks_other_seed_other_tasks(bench):
    one = make(bench, seed=1)
    assert one == make(bench, seed=1)
    assert [t.digest for t in one] == [t.digest for t in make(bench, seed=1)]
    other = {t.id: t.digest for t in make(bench, seed=2)}
    assert sum(other[t.id] != t.digest for t in one) > 0.8 * len(one)


def test_the_self_check_passes(bench):
    assert [fault for t in make(bench, seed=5) for fault in bench.check(t)] == []


def test_ids_are_unique_and_say_their_benchmark(bench):
    tasks = make(bench)
    assert len({t.id for t in tasks}) == len(tasks) > 0
    assert {t.benchmark for t in tasks} == {bench.name}


def test_items_round_trip_through_json(bench):
    for t in make(bench):
        again = Task.from_item(json.loads(json.dumps(t.to_item())))
        assert again == t
        assert again.digest == t.digest


def test_no_note_question_or_option_is_empty(bench):
    for t in make(bench):
        notes = (*t.shared, *(n for own in t.private for n in own))
        assert all(n.text.strip() for n in notes)
        assert t.question.strip()
        assert len(t.options) == len(set(t.options))
        assert all(o == o.strip() and o and "\n" not in o for o in t.options)


def test_the_position_of_the_answer_tells_nothing(bench):
    """Each position's count is Binomial(n, 1/k) and must lie within 5 sd: false alarms below 1e-5 in all.

    Only where the benchmark orders the options itself; a published order is kept as it is.
    """
    if bench.needs_data:
        pytest.skip("published order of options, kept as it is")
    tasks = [t for seed in range(5) for t in make(bench, seed=seed)]
    for k in {len(t.options) for t in tasks}:
        at = [t.options.index(t.answer) for t in tasks if len(t.options) == k]
        for position in range(k):
            assert abs(at.count(position) - len(at) / k) < 5 * (len(at) * (1 / k) * (1 - 1 / k)) ** 0.5


def test_a_number_of_tasks_can_be_asked_for(bench):
    assert len(make(bench, tasks=5)) == 5


def test_the_prompt_pack_has_its_section(bench):
    pack = load_pack()
    assert bench.prompts in pack.sections
    assert pack.section(bench.name) is pack.sections[bench.prompts]


def test_wrong_options_are_refused(bench):
    data = "x.json" if bench.needs_data else None
    with pytest.raises(UsageError, match="has no option 'colour'"):
        bench.make(data=data, colour="red")
    with pytest.raises(UsageError, match="--data"):
        bench.make(data=None if bench.needs_data else "x.json")
    with pytest.raises(UsageError, match="hidden_profile"):
        benchmark("hiden_profile")
    assert benchmark(bench.name) is bench
