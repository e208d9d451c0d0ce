"""One suite for every benchmark. A new entry in `BENCHMARKS` gets it for free."""

import asyncio
import json
import sys
import types
from dataclasses import replace

import pytest
from _benchmarks import benchmark_file

from abilene.errors import InputError, UsageError
from abilene.tasks import BENCHMARKS, benchmark
from abilene.tasks.task import Task
from abilene.team.call import Completion
from abilene.team.protocol import Protocol, discuss
from abilene.team.wording import load_pack

#: Fewer tasks than asked for is what small sample files give.
pytestmark = pytest.mark.filterwarnings("ignore:(MuSiQue|MedEinst):UserWarning")


@pytest.fixture(params=sorted(BENCHMARKS))
def bench(request):
    return BENCHMARKS[request.param]


def make(bench, **options):
    return bench.make(data=benchmark_file(bench.name), **options)


def test_same_seed_same_tasks_other_seed_other_tasks(bench):
    one = make(bench, seed=1)
    assert one == make(bench, seed=1)
    assert [t.digest for t in one] == [t.digest for t in make(bench, seed=1)]
    other = {t.id: t.digest for t in make(bench, seed=2)}
    assert sum(other.get(t.id) != t.digest for t in one) > 0.8 * len(one)


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
    if bench.name == "hiddenbench":
        pytest.skip("published order of options, kept as it is")
    if bench.prompts == "musique":
        pytest.skip("no options")
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
    with pytest.raises(UsageError, match="hidden, full"):
        bench.make(data=data, condition="half")
    if not bench.needs_data:
        with pytest.raises(UsageError, match="--data"):
            bench.make(data="x.json")
    with pytest.raises(UsageError, match="hidden_profile"):
        benchmark("hiden_profile")
    assert benchmark(bench.name) is bench


def test_without_a_file_the_hub_is_asked_and_its_silence_is_told(bench, monkeypatch):
    if not bench.needs_data:
        pytest.skip("makes its own tasks")
    asked = []

    def hf_hub_download(repo, filename, *, revision, repo_type):
        asked.append((repo, filename, revision))
        raise ConnectionError("offline")

    client = types.ModuleType("huggingface_hub")
    client.hf_hub_download = hf_hub_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    with pytest.raises(InputError, match=r"Hugging Face hub.*offline.*--data FILE"):
        bench.make()
    assert asked == [(bench.hub.repo, bench.hub.filename, bench.hub.revision)]
    with pytest.raises(UsageError, match="--data PATH"):
        replace(bench, hub=None).make()


def test_everybody_reads_every_fact_in_the_full_profile(bench):
    dealt, full = make(bench, tasks=6, seed=2), make(bench, tasks=6, seed=2, condition="full")
    assert [t.id for t in full] == [t.id for t in dealt]
    for hidden, open_ in zip(dealt, full, strict=True):
        facts = {n.text for own in (hidden.shared, *hidden.private) for n in own}
        assert {n.text for n in open_.shared} == facts and len(open_.shared) == len(facts)
        assert open_.shared[: len(hidden.shared)] == hidden.shared and open_.answer == hidden.answer
        assert open_.private == ((),) * hidden.team_size
        assert "p_design" not in open_.design and open_.digest != hidden.digest
        assert bench.check(open_) == [] == bench.check(hidden)
        assert bench.check(replace(open_, private=((open_.shared[0],), *open_.private[1:]))) != []
        assert bench.check(replace(open_, shared=(*open_.shared, open_.shared[-1]))) != []


def test_the_full_profile_is_told_of_no_knowledge_that_others_lack(bench):
    """Agents that hold everything must not read that something is missing from their view, in any round."""
    task = make(bench, tasks=1, seed=2, condition="full")[0]
    seen = []

    async def ask(call):
        seen.append((call.round, call.system, call.user))
        return Completion("\n".join(f"{line.tag}: {task.answer}" for line in call.format))

    asyncio.run(discuss(task, ask, Protocol(rounds=1)))
    for t, system, user in seen:
        assert all(note.text in user for note in task.shared)
        for words in ("have not seen", "not be enough", "have not read", "also has documents"):
            assert words not in system + user
        assert t or "nobody else" not in user
    section = load_pack().section(bench.name)
    for words in ("only you", "own", "nobody", "colleague", "other", "team", "group"):
        assert words not in f"{section.alone_system} {section.alone}".casefold().split()
