import asyncio
from collections import Counter

import pytest

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.tasks.hidden_profile import make_tasks
from abilene.tasks.task import Note, Task
from abilene.team.behavioural import BehaviouralAgent
from abilene.team.call import Completion
from abilene.team.protocol import Protocol, discuss
from abilene.theory.kernel import outcomes


def talk(task, agent, **options):
    async def ask(call):
        return Completion(agent.reply(call.system, call.user, call.metadata))

    return asyncio.run(discuss(task, ask, Protocol(**options)))


def test_it_counts_the_findings_in_view():
    agent = BehaviouralAgent()
    for task in make_tasks(per_level=5, seed=3):
        for row in talk(task, agent, rounds=1)[:5]:
            assert row.count_correct is True
            assert row.private == row.view_favors is not None


def ask_once(agent, own, seen, *, t=1, n=1, truth="x"):
    user = "\n".join(f"- Member {j + 2} says: {s}" for j, s in enumerate(seen))
    meta = {
        "kind": "public", "round": t, "agent": 0, "task": f"t{n}", "epoch": 1, "seed": 0, "truth": truth,
        "options": ["x", "y", "z", "w"], "own": own, "shared": [], "instruction": "B", "team_size": 5,
    }  # fmt: skip
    said = agent.reply("", user, meta | {"format": [{"tag": "PUBLIC"}]})
    thought = agent.reply("", user, meta | {"format": [{"tag": "ANSWER"}], "kind": "probe"})
    return said.removeprefix("PUBLIC: "), thought.removeprefix("ANSWER: ")


@pytest.mark.parametrize(
    ("own", "seen"),
    [("x", "yyyx"), ("y", "xxxy"), ("y", "xxyy"), ("y", "xzzw"), ("z", "zzzz"), ("y", "xxxx"), ("x", "yzww")],
)
def test_statement_and_belief_follow_the_kernel(own, seen):
    """4,000 draws of (statement, next belief) against the kernel's distribution; a bound of |z| < 4.5
    on at most 6 outcomes in 7 cases fails by chance with probability 3e-4."""
    rates = Rates(c=0.4, a=0.3, rho=0.9, r=0.7)
    agent = BehaviouralAgent((rates,))
    drawn = Counter(ask_once(agent, own, list(seen), n=i) for i in range(4000))
    expected = {(s, b): p for s, b, p in outcomes(own, list(seen), "x", rates)}
    assert set(drawn) <= set(expected)
    for pair, p in expected.items():
        spread = (4000 * p * (1 - p)) ** 0.5
        assert abs(drawn[pair] - 4000 * p) <= 4.5 * max(spread, 1e-9)


def test_it_is_a_pure_function_and_reads_the_prompt():
    agent = BehaviouralAgent((Rates(c=1, a=1, rho=0, r=0),))
    assert ask_once(agent, "x", "yyyy") == ask_once(agent, "x", "yyyy") == ("y", "y")
    assert ask_once(agent, "x", ["y", "(no answer)", "(no answer)", "x"]) == ("x", "x")


def test_per_agent_rates():
    mixed = BehaviouralAgent((Rates(1, 1, 0, 0), *[Rates(0, 0, 0, 0)] * 4))
    task = make_tasks(informed=(1,), per_level=1, seed=1)[0]
    rows = talk(task, mixed)
    zealots = [r for r in rows if r.agent != "0"]
    assert all(r.public == r.private == zealots[int(r.agent) - 1].private for r in zealots)
    with pytest.raises(UsageError, match="team of 5"):
        BehaviouralAgent((Rates(0, 0, 0, 0),) * 3).check(5)


def test_accuracy_sets_the_independent_answer():
    """2,000 independent answers at accuracy .3 over 4 options; |z| < 4.5 on five counts: 3e-5 by chance."""
    agent = BehaviouralAgent(accuracy=0.3)
    notes = tuple((Note("n"),) for _ in range(4))
    drawn = Counter()
    for i in range(500):
        task = Task(f"t{i}", "hiddenbench", "Q?", ("x", "y", "z", "w"), "x", (), notes)
        drawn.update(r.private for r in talk(task, agent, rounds=1)[:4])
    for option, p in {"x": 0.3, "y": 0.7 / 3, "z": 0.7 / 3, "w": 0.7 / 3}.items():
        assert abs(drawn[option] - 2000 * p) < 4.5 * (2000 * p * (1 - p)) ** 0.5


def test_every_note_is_shared_in_turn_and_then_none():
    task = make_tasks(informed=(0,), per_level=1, seed=2)[0]
    rows = [r for r in talk(task, BehaviouralAgent(), rounds=5) if r.agent == "3"]
    assert [r.share for r in rows] == [None, "P1", "P2", "P3", None, None]


def test_bad_accuracy():
    with pytest.raises(UsageError):
        BehaviouralAgent(accuracy=1.5)


def test_an_oracle_is_right_exactly_when_it_sees_everything():
    oracle = BehaviouralAgent((Rates(1, 1, 1, 0),), oracle=True)
    meta = {"round": 2, "agent": 0, "task": "t", "epoch": 1, "seed": 0, "truth": "x", "options": ["x", "y", "z"],
            "own": "y", "shared": ["P1"], "instruction": "B", "team_size": 3,
            "format": [{"tag": "PRIVATE"}, {"tag": "PUBLIC"}, {"tag": "SHARE", "values": ["P1", "NONE"]}]}  # fmt: skip
    user = "- Member 2 says: y\n- Member 3 says: y"
    assert oracle.reply("", user, meta | {"complete": True}) == "PRIVATE: x\nPUBLIC: x\nSHARE: NONE"
    blind = {
        oracle.reply("", user, meta | {"complete": False, "task": f"t{i}"}).split("\n")[1] for i in range(40)
    }
    assert blind == {"PUBLIC: y", "PUBLIC: z"}
    with pytest.raises(UsageError, match="oracle"):
        BehaviouralAgent(accuracy=0.5, oracle=True)


def test_answers_without_names_are_answers_too():
    agent = BehaviouralAgent((Rates(c=1, a=1, rho=0, r=0),))
    meta = {"round": 1, "agent": 0, "task": "t", "epoch": 1, "seed": 0, "truth": "x", "options": ["x", "y"],
            "own": "x", "shared": [], "instruction": "B", "team_size": 4,
            "format": [{"tag": "PUBLIC"}, {"tag": "DOUBT"}]}  # fmt: skip
    user = "- Somebody says: x\n- Somebody says: y\n- Somebody says: y"
    assert agent.reply("", user, meta).startswith("PUBLIC: y\nDOUBT: ")
    # A reason that another agent gave is no answer, whatever it says.
    user = "- Member 2 says: x\n  Member 2 on why the leading answer may be wrong: Member 3 says: y"
    assert agent.reply("", user, meta).startswith("PUBLIC: x\n")


def test_arms_are_drawn_apart():
    agent = BehaviouralAgent((Rates(0.5, 0.5, 0.5, 0.5),))
    task = make_tasks(informed=(2,), per_level=1, seed=1)[0]
    arms = [[(r.private, r.public) for r in talk(task, agent, intervention=i, rounds=6)] for i in
            ("none", "share_all", "informed_asymmetry")]  # fmt: skip
    assert arms[0][:5] == arms[1][:5] == arms[2][:5]
    assert len({tuple(arm) for arm in arms}) == 3
