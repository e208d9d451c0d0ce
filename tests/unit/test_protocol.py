import asyncio
import re

import pytest

from abilene.errors import UsageError
from abilene.tasks.task import Note, Task
from abilene.team.call import Completion
from abilene.team.protocol import Protocol, discuss
from abilene.team.topology import Topology


def make_task(n=3):
    return Task(
        id="t",
        benchmark="hiddenbench",
        question="Where to?",
        options=("East", "West", "North"),
        answer="West",
        shared=(Note("The bridge is open."),),
        private=tuple((Note(f"secret of {i}"), Note(f"second secret of {i}")) for i in range(n)),
    )


class Script:
    """Answers by a function and remembers every call."""

    def __init__(self, answer):
        self.answer, self.calls = answer, []

    async def __call__(self, call):
        self.calls.append(call)
        await asyncio.sleep(0)
        text = self.answer(call)
        return text if isinstance(text, Completion) else Completion(text)

    def of(self, agent, t, kind):
        return next(c for c in self.calls if (c.agent, c.round, c.kind) == (agent, t, kind))


def plain(call):
    if call.kind == "public":
        return f"PRIVATE: East\nPUBLIC: West\nSHARE: P{call.round}"
    return "ANSWER: East" if call.round == 0 else "ANSWER: North"


def run(answer, *, n=3, **options):
    script = Script(answer)
    rows = asyncio.run(discuss(make_task(n), script, Protocol(**options)))
    return script, rows


def test_rows_of_a_plain_discussion():
    script, rows = run(plain, rounds=2)
    assert len(script.calls) == 3 + 2 * 2 * 3
    assert [(r.round, r.agent) for r in rows] == [(t, str(i)) for t in range(3) for i in range(3)]
    first, later = rows[0], rows[-1]
    assert (first.private, first.public, first.private_source) == ("East", "East", "round0")
    assert (later.private, later.public, later.joint_private) == ("North", "West", "East")
    assert (later.private_source, later.share, later.truth) == ("probe", "P2", "West")
    assert later.observed == ("0", "1")


def test_own_is_the_previous_private_answer_and_others_are_last_rounds_public():
    script, _ = run(plain, rounds=2)
    user = script.of(0, 2, "public").user
    assert "after the last round: North" in user
    assert "- Member 2 says: West\n- Member 3 says: West" in user
    assert "says: East" in script.of(0, 1, "public").user


def test_public_and_probe_read_the_same_input():
    script, _ = run(plain)
    block = re.compile(r"ON THE TABLE SO FAR:.*?(?=\n\n(?:Your own|This answer))", re.DOTALL)
    for t in (1, 2, 3):
        public, probe = (script.of(1, t, kind) for kind in ("public", "probe"))
        assert public.system == probe.system
        assert block.search(public.user).group() == block.search(probe.user).group()


def test_notes_reach_the_table_in_the_next_round_and_stay():
    script, _ = run(plain)
    table = [script.of(0, t, "public").user.split("ON THE TABLE")[1] for t in (1, 2, 3)]
    assert "(nothing yet)" in table[0]
    assert "secret of 2 (put there by Member 3)" in table[1]
    assert "- secret of 2 " in table[2]
    assert "second secret of 1" in table[2]


def test_an_agent_reads_only_what_it_and_its_neighbours_shared():
    script, rows = run(plain, topology=Topology.parse("star"))
    leaf = script.of(2, 2, "public").user.split("ON THE TABLE")[1]
    assert "secret of 0" in leaf
    assert "put there by you" in leaf
    assert "secret of 1" not in leaf
    assert "Member 2 says" not in leaf
    assert [r.observed for r in rows if r.agent == "2" and r.round] == [("0",)] * 3


def test_round_0_does_not_depend_on_the_instruction():
    (a, _), (c, _) = run(plain, instruction="A"), run(plain, instruction="C")
    for left, right in zip(a.calls[:3], c.calls[:3], strict=True):
        assert (left.system, left.user, left.metadata) == (right.system, right.user, right.metadata)
    assert a.of(0, 1, "public").system != c.of(0, 1, "public").system


def test_no_prompt_tells_the_key():
    """A task whose options do not hold the key shows it nowhere."""
    task = Task("t", "musique", "Q?", (), "Xanadu", (Note("n"),), ((Note("a"),), (Note("b"),)))
    script = Script(lambda c: "PRIVATE: u\nPUBLIC: u\nSHARE: NONE" if c.kind == "public" else "ANSWER: u")
    asyncio.run(discuss(task, script, Protocol()))
    assert not any("Xanadu" in c.system + c.user for c in script.calls)
    assert all(c.metadata["truth"] == "Xanadu" for c in script.calls)


def test_a_failed_call_is_a_missing_answer_and_nothing_more():
    def answer(call):
        if (call.agent, call.round, call.kind) == (1, 1, "public"):
            raise TimeoutError("too slow\nsecond line")
        return plain(call)

    script, rows = run(answer)
    row = next(r for r in rows if (r.agent, r.round) == ("1", 1))
    assert (row.public, row.public_status, row.public_error) == (None, "failed", "TimeoutError: too slow")
    assert row.private == "North"
    assert "- Member 2 says: (no answer)" in script.of(0, 2, "public").user
    assert len(rows) == 12


def test_the_joint_line_stands_in_for_a_failed_probe_and_the_row_says_so():
    script, rows = run(lambda c: "no idea" if c.kind == "probe" else plain(c))
    row = rows[-1]
    assert (row.private, row.private_source, row.private_status) == ("East", "joint", "missing")
    assert "after the last round: East" in script.of(0, 2, "public").user


def test_no_private_answer_at_all_stays_missing():
    _, rows = run(lambda c: "no idea" if c.round else "ANSWER: East")
    assert rows[-1].private is None
    assert rows[-1].private_source == "probe"


def test_a_note_is_shared_once_and_only_if_it_is_ones_own():
    script, rows = run(lambda c: plain(c).replace(f"P{c.round}", "P1" if c.agent else "P9"))
    assert [r.share for r in rows if r.agent == "1"] == [None, "P1", None, None]
    assert [r.share for r in rows if r.agent == "0"] == [None] * 4
    assert script.of(0, 3, "public").user.count("- secret of 1 ") == 1


def test_all_calls_of_a_round_are_concurrent():
    active, peak = 0, []

    async def ask(call):
        nonlocal active
        active += 1
        peak.append(active)
        await asyncio.sleep(0.001)
        active -= 1
        return Completion(plain(call))

    asyncio.run(discuss(make_task(4), ask, Protocol()))
    assert max(peak[:4]) == 4
    assert max(peak) == 8


def test_rows_are_handed_over_round_by_round():
    seen = []
    asyncio.run(
        discuss(make_task(), Script(plain), Protocol(), on_round=lambda t, rows: seen.append((t, len(rows))))
    )
    assert seen == [(0, 3), (1, 6), (2, 9), (3, 12)]


def test_settings_are_checked_before_anything_is_asked():
    script = Script(plain)
    with pytest.raises(UsageError):
        Protocol(rounds=0)
    with pytest.raises(UsageError):
        Protocol(instruction="Z")
    with pytest.raises(UsageError):
        asyncio.run(discuss(make_task(), script, Protocol(topology=Topology.parse("random:3"))))
    assert script.calls == []
