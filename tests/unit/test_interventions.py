"""Every intervention on every benchmark, and what each of them promises, row by row and prompt by prompt."""

import asyncio
import itertools
import random
import re
from dataclasses import replace

import pytest
from _benchmarks import benchmark_file

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.records.audit import audit
from abilene.records.derive import derive
from abilene.records.loaded import Loaded
from abilene.records.schema import Status, frame
from abilene.tasks import BENCHMARKS, full_profile
from abilene.tasks.hidden_profile import make_tasks
from abilene.tasks.task import Note, Task
from abilene.team import interventions
from abilene.team.behavioural import BehaviouralAgent
from abilene.team.call import Completion
from abilene.team.interventions import INTERVENTIONS, Intervention, Turn
from abilene.team.protocol import Protocol, discuss
from abilene.team.topology import Topology
from abilene.team.wording import load_pack
from abilene.theory.kernel import plurality

pytestmark = pytest.mark.filterwarnings("ignore:(MuSiQue|MedEinst):UserWarning")

HINT = "on why the leading answer may be wrong"


def talk(task, answer, **options):
    """Rows and calls of a discussion; `answer` makes a reply (text or Completion) from a call."""
    calls = []

    async def ask(call):
        calls.append(call)
        await asyncio.sleep(0)
        reply = answer(call)
        return reply if isinstance(reply, Completion) else Completion(reply)

    return asyncio.run(discuss(task, ask, Protocol(**options))), calls


def simulated(agent):
    return lambda call: agent.reply(call.system, call.user, call.metadata)


def babble(seed=0, options=None, failing=0.0):
    """A model that answers anything, and now and then nothing."""
    rng = random.Random(seed)

    def answer(call):
        lines = []
        for line in call.format:
            values = line.values or options or ("Paris", "the paris", "Lyon.", "Ghent")
            text = " ".join(f"{name}=1" for name in line.counts) or rng.choice(values)
            lines.append(f"{line.tag}: {text}")
        return Completion("", error="down") if rng.random() < failing else "\n".join(lines)

    return answer


def some_task(n=5, options=("yes", "no"), benchmark="hiddenbench", answer="yes", **more):
    notes = tuple((Note(f"first note of {i}"), Note(f"second note of {i}")) for i in range(n))
    return Task("t", benchmark, "Q?", tuple(options), answer, (Note("A briefing."),), notes, **more)


def of(rows, t):
    return [row for row in rows if row.round == t]


# All of them together --------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", INTERVENTIONS)
@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_with_every_intervention(name, change):
    """End to end with simulated agents: complete rows, a record that can be counted and passes its audit."""
    bench = BENCHMARKS[name]
    agent = BehaviouralAgent((Rates(0.5, 0.5, 0.9, 0.8),), accuracy=None if name == "hidden_profile" else 0.4)
    rows, n_expected = [], 0
    for task in bench.make(data=benchmark_file(name), tasks=3, seed=4):
        rows += talk(task, simulated(agent), intervention=change, rounds=2)[0]
        n_expected += 3 * task.team_size
        n_opinions = {r.public for r in rows if r.public is not None and r.task == task.id}
        assert not task.options or n_opinions <= set(task.options)
    assert len(rows) == n_expected
    silent = INTERVENTIONS[change].silent
    assert {r.public_status for r in rows} == ({"ok", "not_asked"} if silent else {"ok"})
    assert {r.private_status for r in rows} == {"ok"}
    assert {r.share_status for r in rows if r.round} <= {"ok", "none"}
    record = frame(rows, {"benchmark": name, "model": "behavioural/agent", "intervention": change})
    counted = derive(record)
    (setting,) = counted.settings
    assert setting.undefined == {} and len(setting.vote_correct) == 3
    expected = {"public_not_asked": n_expected // 3} if silent else {}
    dropped = dict(setting.rows.dropped)
    dropped.pop("changed_without_dissent", None)
    assert dropped == expected
    (audited,) = audit(Loaded(record=record), derived=counted).settings
    assert audited.passes


def test_names_descriptions_and_unknown_ones():
    for name, change in INTERVENTIONS.items():
        assert change.name == name == Protocol(intervention=name).change.name
        assert change.description.endswith(".") and "\n" not in change.description
    with pytest.raises(UsageError, match=r"'reveal'.*reveal_all"):
        Protocol(intervention="reveal")
    for name in ("disclose_first", "structured_exchange", "exchange_then_decide"):
        with pytest.raises(UsageError, match="at least 2 rounds"):
            Protocol(intervention=name, rounds=1)


@pytest.mark.parametrize("change", INTERVENTIONS)
def test_round_0_is_the_same_in_every_arm(change):
    """Prompts and metadata alike, so that a cache serves one independent answer to all arms."""
    task = some_task()
    _, plain = talk(task, babble())
    _, other = talk(task, babble(), intervention=change, instruction="C", rounds=2, instruction_share=0.5)
    assert [(c.system, c.user, c.format, c.metadata) for c in plain[:5]] == [
        (c.system, c.user, c.format, c.metadata) for c in other[:5]
    ]
    later = [[(c.system, c.user, dict(c.metadata)) for c in calls if c.round] for calls in (plain, other)]
    assert later[0] != later[1]


@pytest.mark.parametrize("change", INTERVENTIONS)
@pytest.mark.parametrize("bench", ["hidden_profile", "hiddenbench", "medeinst"])
def test_no_prompt_depends_on_the_key(change, bench):
    """The same replies with another key give the same prompts: nothing but metadata knows the key."""
    task = some_task(options=("East Town", "West City"), benchmark=bench, answer="East Town")
    _, one = talk(task, babble(3), intervention=change)
    _, two = talk(replace(task, answer="West City"), babble(3), intervention=change)
    assert [(c.system, c.user, c.format) for c in one] == [(c.system, c.user, c.format) for c in two]


@pytest.mark.parametrize("change", INTERVENTIONS)
def test_free_text_prompts_hold_only_what_was_said(change):
    """With another answer and aliases the prompts are the same, but for the grouping in the forced arm."""
    said = ("The Mets", "mets!", "NY Mets", "Yankees", "the yankees")
    task = some_task(options=(), benchmark="musique", answer="New York Mets", aliases=("NY Mets", "Mets"))
    rows, one = talk(task, babble(5, said), intervention=change)
    assert not any("New York" in c.system + c.user for c in one)
    assert {r.public for r in rows} - {None} <= {"New York Mets", "yankees"}
    for call in one:
        assert set(re.findall(r" says: (.*)", call.user)) <= set(map(str.rstrip, said)) | {
            "mets",
            "(no answer)",
        }
    if change != "forced_majority":
        _, two = talk(replace(task, answer="Quito", aliases=()), babble(5, said), intervention=change)
        assert [(c.system, c.user) for c in one] == [(c.system, c.user) for c in two]


# Set statements --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", ["complete", "ring", "star", "random:3"])
@pytest.mark.parametrize("options", [("yes", "no"), ("x", "y", "z"), ()])
def test_the_transparent_arm_states_the_private_answer_in_every_row(options, topology):
    task = some_task(options=options, benchmark="hiddenbench" if options else "musique", answer="yes" if
                     "yes" in options else "x")  # fmt: skip
    missing = other = 0
    for seed in range(6):
        rows, _ = talk(
            task,
            babble(seed, failing=0.3),
            intervention="transparent",
            topology=Topology.parse(topology),
            rounds=4,
        )
        assert all(row.public == row.private for row in rows)
        later = [row for row in rows if row.round]
        assert all(row.public_set for row in later) and not any(row.public_set for row in of(rows, 0))
        assert all(row.public_status == "failed" for row in later if row.public is None)
        missing += sum(row.public is None for row in later)
        # The model's own statement stays in the raw text, also where it said something else.
        said = [re.search("PUBLIC: (.*)", row.public_raw) for row in later]
        other += sum(bool(m and m[1] != row.public) for m, row in zip(said, later, strict=True))
    assert missing and other


@pytest.mark.parametrize("topology", ["complete", "ring", "star", "random:3"])
@pytest.mark.parametrize("options", [("yes", "no"), ("x", "y", "z")])
def test_the_forced_arm_states_the_visible_majority_in_every_row(options, topology):
    task = some_task(options=options, answer=options[0])
    ties = 0
    for seed in range(8):
        rows, _ = talk(
            task,
            babble(seed, failing=0.15),
            intervention="forced_majority",
            topology=Topology.parse(topology),
            rounds=4,
        )
        at = {(row.round, row.agent): row for row in rows}
        for row in rows:
            if row.round == 0:
                continue
            seen = [at[row.round - 1, j].public for j in row.observed]
            majority = plurality([answer for answer in seen if answer is not None])
            ties += majority is None
            entering = at[row.round - 1, row.agent].private
            assert row.public == (majority if majority is not None else entering)
            assert row.public_set is True
    assert ties


def gain(start, seed, rule_name="forced_majority", rounds=3):
    """Accuracy of the last round's majority minus that of round 0, from given independent answers."""
    any_answer = babble(seed)

    def answer(call):
        return f"ANSWER: {start[call.agent]}" if call.round == 0 else any_answer(call)

    rows, _ = talk(some_task(), answer, intervention=rule_name, rounds=rounds)
    first, last = (plurality([r.public for r in of(rows, t)]) == "yes" for t in (0, rounds))
    return last - first


@pytest.mark.parametrize("start", list(itertools.product(("yes", "no"), repeat=5)), ids="".join)
def test_the_forced_gain_is_exactly_0(start):
    """Five agents, two options, all 32 starts, whatever the model replies and for any number of rounds.

    Why: with k against 5 - k, k > 5 - k, an agent of the minority sees k of 4 for the majority, which is more than
    half, and one of the majority sees k - 1 of 4: a majority too, or a tie (k = 3) on which it repeats the answer
    it entered with. After one round all state the first majority, and stay.
    """
    for seed in range(5):
        for rounds in (1, 3):
            assert gain(start, seed, rounds=rounds) == 0


def test_another_rule_on_ties_would_not_do(monkeypatch):
    """Mutant: stating this round's private answer on a tie lets the model move the team."""

    def mutant(turn: Turn):
        out = interventions.forced_majority(turn)
        return turn.thought if out is turn.own else out

    monkeypatch.setitem(INTERVENTIONS, "mutant", Intervention("mutant", "x.", statement=mutant))
    starts = [s for s in itertools.product(("yes", "no"), repeat=5) if s.count("yes") in (2, 3)]
    assert any(gain(s, seed, "mutant") != 0 for s in starts for seed in range(5))


def test_what_the_estimator_reads_in_the_set_arms():
    """Transparent: withheld = internalized = changed to the majority. Forced: c = 1 (see docs/interventions.md)."""
    for name in ("transparent", "forced_majority"):
        rows = []
        for task in make_tasks(per_level=4, seed=1):
            agent = BehaviouralAgent((Rates(0.5, 0.5, 0.9, 0.8),))
            rows += talk(task, simulated(agent), intervention=name)[0]
        (setting,) = derive(frame(rows, {"intervention": name})).settings
        counts = setting.counts
        assert counts.opportunities > 30
        if name == "transparent":
            assert 0 < counts.withheld == counts.internalized < counts.opportunities
        else:
            assert counts.withheld == counts.opportunities


# What agents see -------------------------------------------------------------------------------------------


def test_evidence_only_shows_notes_and_no_answers():
    rows, calls = talk(some_task(), babble(), intervention="evidence_only")
    later = [c for c in calls if c.round]
    assert all("(you see nobody's answer)" in c.user and "says:" not in c.user for c in later)
    assert any("put there by Member" in c.user for c in later)
    assert all(row.observed == () for row in rows if row.round)
    # Topology still decides whose notes can be read.
    _, calls = talk(some_task(), babble(), intervention="evidence_only", topology=Topology.parse("star"))
    leaf = [c.user for c in calls if c.agent == 3 and c.round > 1]
    assert not any(f"note of {j} (put" in user for user in leaf for j in (1, 2, 4))


def test_disclose_first_asks_for_no_answer_before_evidence_is_out():
    rows, calls = talk(some_task(), babble(1), intervention="disclose_first")
    first = [c for c in calls if (c.round, c.kind) == (1, "public")]
    assert all([line.tag for line in c.format] == ["SHARE"] for c in first)
    assert not any("PUBLIC" in c.user or "says:" in c.user for c in first)
    assert not any("says:" in c.user for c in calls if c.round == 2)
    assert all("says:" in c.user for c in calls if c.round == 3)
    one = of(rows, 1)
    assert {(r.public, r.public_status, r.joint_private) for r in one} == {(None, Status.NOT_ASKED, None)}
    assert all(r.private is not None and r.private_source == "probe" and r.observed == () for r in one)
    assert any(r.share for r in one)
    assert all(r.observed == () for r in of(rows, 2)) and all(len(r.observed) == 4 for r in of(rows, 3))
    assert all(r.public is not None for t in (2, 3) for r in of(rows, t))


def test_hidden_votes_name_nobody_and_keep_no_order():
    said = {0: "no", 1: "yes", 2: "yes", 3: "no", 4: "yes"}

    def answer(call):
        text = said[call.agent]
        return f"PRIVATE: {text}\nPUBLIC: {text}\nSHARE: P1" if call.kind == "public" else f"ANSWER: {text}"

    rows, calls = talk(some_task(), answer, intervention="hidden_votes")
    for call in calls:
        if call.round:
            lines = re.findall(r"^- (.*) says: (.*)$", call.user, re.MULTILINE)
            assert [who for who, _ in lines] == ["Somebody"] * 4
            assert [what for _, what in lines] == sorted(s for i, s in said.items() if i != call.agent)
    assert all(len(row.observed) == 4 for row in rows if row.round)


def test_no_board_passes_answers_and_no_notes():
    rows, calls = talk(some_task(), babble(2), intervention="no_board")
    assert all("ON THE TABLE SO FAR:\n(nothing yet)" in c.user for c in calls if c.round)
    assert all("says:" in c.user for c in calls if c.round)
    assert all(r.share is None and r.share_text is None for r in rows)
    assert any(r.share_status == "ok" for r in rows)


def test_reveal_all_puts_every_note_before_everybody_in_round_1():
    for task in make_tasks(per_level=2, seed=7):
        full = full_profile(task)
        for topology in ("complete", "star"):
            rows, calls = talk(task, babble(), intervention="reveal_all", topology=Topology.parse(topology))
            everything = {n.text for own in task.private for n in own}
            for call in calls:
                if call.round:
                    assert all(text in call.user for text in everything)
                    assert call.metadata["complete"] is True
            assert all(r.share is None for r in rows)
        # A counting agent that looks at round 1 alone counts what it counts in the full profile.
        agent = BehaviouralAgent()
        rows_full, calls_full = talk(full, babble(), rounds=1)
        for i in range(task.team_size):
            ask = next(c for c in calls if (c.agent, c.round, c.kind) == (i, 1, "probe"))
            as_round0 = {**ask.metadata, "own": None, "format": calls_full[i].metadata["format"]}
            counted = agent.reply(ask.system, ask.user, as_round0)
            assert counted == agent.reply("", calls_full[i].user, calls_full[i].metadata)
            assert counted.endswith(f"ANSWER: {task.answer}")
            assert of(rows, 1)[i].view_favors == of(rows_full, 0)[i].view_favors == task.answer


def test_an_oracle_finds_the_ceiling_of_hiddenbench():
    """Full profile 1.000, hidden 0.000 before discussion; reveal_all reaches the full profile in round 1."""
    bench, oracle = BENCHMARKS["hiddenbench"], simulated(BehaviouralAgent(oracle=True))
    tasks = bench.make(data=benchmark_file("hiddenbench"))
    assert len(tasks) == 65
    for task in tasks:
        full, _ = talk(full_profile(task), oracle, rounds=1)
        assert all(row.private == task.answer for row in of(full, 0))
        revealed, _ = talk(task, oracle, rounds=1, intervention="reveal_all")
        assert all(row.private != task.answer for row in of(revealed, 0))
        assert all(row.private == row.public == task.answer for row in of(revealed, 1))
        hidden, _ = talk(task, oracle, rounds=2, intervention="no_board")
        assert not any(row.private == task.answer for row in hidden)


# Wording ---------------------------------------------------------------------------------------------------


def test_wording_is_added_behind_the_instruction_and_only_for_those_it_is_meant_for():
    pack = load_pack()
    for name, change in INTERVENTIONS.items():
        if change.text is None:
            continue
        _, calls = talk(some_task(), babble(), intervention=name, instruction="A", rounds=3)
        for call in calls:
            meant = call.round > 0 and (change.agents is None or call.agent in change.agents)
            text = pack.directive(change.text, max(call.round, 1), 3)
            assert call.system.endswith(text) is meant
            assert (pack.framing("A") in call.system) is (call.round > 0)
    assert INTERVENTIONS["devils_advocate"].agents == (0,)


def test_structured_exchange_changes_its_wording_with_the_round():
    _, calls = talk(some_task(), babble(), intervention="structured_exchange", rounds=4)
    by_round = [{c.system.split("put on the table. ")[1] for c in calls if c.round == t and c.agent == 0}
                for t in range(1, 5)]  # fmt: skip
    assert [len(texts) for texts in by_round] == [1, 1, 1, 1]
    assert by_round[1] == by_round[2] and len({*by_round[0], *by_round[1], *by_round[3]}) == 3


def test_doubts_are_asked_for_until_the_last_round_and_read_in_the_next():
    def answer(call):
        if call.kind != "public":
            return "ANSWER: yes"
        return f"PRIVATE: yes\nPUBLIC: yes\nSHARE: NONE\nDOUBT: doubt {call.agent} of round {call.round}"

    star = Topology.parse("star")
    _, calls = talk(some_task(), answer, intervention="exchange_then_decide", topology=star)
    for call in calls:
        asks = call.kind == "public" and 0 < call.round < 3
        assert ("DOUBT" in [line.tag for line in call.format]) is asks is ("DOUBT:" in call.user)
        assert (HINT in call.user) is (call.round > 1)
        if call.round > 1:
            assert f"doubt 0 of round {call.round - 1}" in call.user or call.agent == 0
            assert "doubt 2" not in call.user or call.agent == 0
            assert f"round {call.round}" not in call.user
    _, calls = talk(some_task(), babble(), intervention="none")
    assert not any(HINT in c.user or "DOUBT" in c.user for c in calls)


def test_a_pack_without_the_wording_is_refused_by_name(tmp_path):
    body = "{question}{shared}{notes}{board}{others}"
    text = (
        'name = "mine"\n[instructions]\nB = ""\n[options]\nmember = "M"\nsystem = "{framing}"\n'
        f'round0 = "{{question}}{{shared}}{{notes}}{{options}}"\npublic = "{body}"\nprobe = "{body}"\n'
    )
    path = tmp_path / "mine.toml"
    path.write_text(text)
    pack = load_pack(path)
    needy = {n for n, c in INTERVENTIONS.items() if c.text or c.doubt}
    for name in needy:
        with pytest.raises(UsageError, match="'mine' has no wording"):
            Protocol(intervention=name, pack=pack)
    for name in set(INTERVENTIONS) - needy - {"disclose_first"}:
        talk(some_task(), babble(), intervention=name, pack=pack)
    with pytest.raises(UsageError, match="'mine' has no wording for a round that only shares"):
        talk(some_task(), babble(), intervention="disclose_first", pack=pack)
    with pytest.raises(UsageError, match=r"'mine' lists options.*\[musique\]"):
        talk(some_task(options=(), benchmark="musique"), babble(), pack=pack)


@pytest.mark.parametrize("name", ["none", "transparent", "forced_majority"])
def test_replies_that_cannot_be_read_fail_the_audit_in_every_arm(name):
    """The statement is set, but the model's own replies tell whether it keeps to the format."""
    task = some_task()

    def mute(call):
        return "I cannot tell." if call.kind == "public" else babble()(call)

    rows, _ = talk(task, mute, intervention=name)
    report = audit(Loaded(record=frame(rows, {"intervention": name}))).settings[0]
    assert report.unparsed == report.replies == 15
    assert not report.passes
    rows, _ = talk(task, babble(), intervention=name)
    report = audit(Loaded(record=frame(rows, {"intervention": name}))).settings[0]
    assert (report.unparsed, report.passes) == (0, True)


# Who is told what ------------------------------------------------------------------------------------------


def test_a_share_of_the_team_gets_the_instruction():
    task, who = some_task(), {}
    for share in (0.2, 0.4, 0.7, 1.0):
        _, calls = talk(task, babble(), instruction="conflictual", instruction_share=share)
        text = load_pack().framing("conflictual")
        told = [{c.agent for c in calls if c.round == t and text in c.system} for t in range(4)]
        assert told[0] == set() and told[1] == told[2] == told[3]
        who[share] = told[1]
        assert all(c.metadata["instruction"] == ("conflictual" if c.agent in told[1] else "")
                   for c in calls if c.round)  # fmt: skip
    assert [len(w) for w in who.values()] == [1, 2, 4, 5]
    assert who[0.2] < who[0.4] < who[0.7] < who[1.0]
    many = {frozenset(_told(replace(task, id=f"t{k}"))) for k in range(30)}
    assert len(many) == 5  # every agent in turn, by task
    for wrong in (0.0, 1.5, -1.0, float("nan")):
        with pytest.raises(UsageError, match="share"):
            Protocol(instruction_share=wrong)


def _told(task):
    design = Protocol(instruction="A", instruction_share=0.2)
    return [i for i in range(5) if design.instruction_of(i, task)]


def test_single_agents_can_have_instructions_and_personas_of_their_own():
    task = some_task()
    _, calls = talk(
        task, babble(), instruction="A", agent_instructions={2: "C"}, personas={1: "You are a nurse."}
    )
    pack = load_pack()
    for call in calls:
        assert ("You are a nurse." in call.system) is (call.agent == 1)
        assert (pack.framing("C") in call.system) is (call.agent == 2 and call.round > 0)
        assert (pack.framing("A") in call.system) is (call.agent != 2 and call.round > 0)
    with pytest.raises(UsageError, match="not both"):
        Protocol(agent_instructions={0: "C"}, instruction_share=0.5)
    with pytest.raises(UsageError, match="Unknown instruction"):
        Protocol(agent_instructions={0: "Z"})
    for wrong in ({"agent_instructions": {5: "C"}}, {"personas": {-1: "x"}}):
        with pytest.raises(UsageError, match="numbered 0 to 4"):
            talk(task, babble(), **wrong)
