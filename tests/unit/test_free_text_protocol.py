"""Free-text answers: the record counts opinions, agents read what was said."""

import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abilene.records.derive import derive
from abilene.records.schema import frame
from abilene.tasks.freetext import normalise, same_opinion, strict_match
from abilene.tasks.task import Note, Task
from abilene.team.behavioural import INVENTED, BehaviouralAgent
from abilene.team.call import Completion, Line
from abilene.team.prompts import View, render
from abilene.team.protocol import Protocol, discuss
from abilene.team.replies import read_line
from abilene.team.wording import load_pack

TASK = Task(
    id="q",
    benchmark="musique",
    question="Which club?",
    options=(),
    answer="New York Mets",
    aliases=("NY Mets", "The Mets", "Metropolitans"),
    shared=(Note("[A] About clubs."),),
    private=tuple((Note(f"[B{i}] Document {i}."),) for i in range(3)),
)
ALIASES = (TASK.answer, *TASK.aliases)


def talk(said, task=TASK, **options):
    """Rows and calls where agent i gives `said[i]` every time it is asked."""
    calls = []

    async def ask(call):
        calls.append(call)
        lines = [f"{line.tag}: {'NONE' if line.tag == 'SHARE' else said[call.agent]}" for line in call.format]
        return Completion("\n".join(lines))

    return asyncio.run(discuss(task, ask, Protocol(rounds=2, **options))), calls


def dressed(base):
    """The same answer written in other ways."""
    ways = [str, str.upper, str.lower, lambda s: f"the {s}", lambda s: f'"{s}".', lambda s: f"**{s}**",
            lambda s: s.replace(" ", "  ")]  # fmt: skip
    return st.sampled_from(ways).map(lambda way: way(base))


SAID = st.sampled_from([*ALIASES, "Yankees", "New York", "Mets of New York", "14", "1.4", "Ghent"]).flatmap(
    dressed
)


@settings(max_examples=150, deadline=None)
@given(st.lists(SAID, min_size=3, max_size=3))
def test_equal_strings_in_the_record_are_equal_opinions(said):
    rows, calls = talk(said)
    for t in range(3):
        now = [row for row in rows if row.round == t]
        assert all(row.private == row.public for row in now)
        assert t == 0 or all(row.joint_private == row.private for row in now)
        for i, one in enumerate(now):
            assert (one.public == one.truth) == strict_match(said[i], TASK.answer, TASK.aliases)
            for j, other in enumerate(now):
                assert (one.public == other.public) == same_opinion(said[i], said[j], ALIASES)
    # Prompts: what was said, cleaned of decoration only, and never the answer in another's mouth.
    for call in calls:
        if call.round:
            shown = re.findall(r"^- Researcher (\d) says: (.*)$", call.user, re.MULTILINE)
            assert len(shown) == 2
            for who, text in shown:
                own_words = said[int(who) - 1]
                assert " ".join(text.split()) in " ".join(own_words.split())
                assert normalise(text) == normalise(own_words)
        if not any("new york mets" in " ".join(s.casefold().split()) for s in said):
            assert "new york mets" not in (call.system + call.user).casefold()


def test_counts_see_aliases_as_one_majority():
    """Two wordings of the right answer outvote a wrong one, and agreeing with them in a third is withholding."""

    async def ask(call):
        at0 = {0: "NY Mets", 1: "the mets", 2: "Yankees"}
        if call.round == 0 or call.agent < 2:
            return Completion("\n".join(f"{line.tag}: {at0[call.agent]}" for line in call.format))
        text = "PRIVATE: yankees\nPUBLIC: METROPOLITANS!\nSHARE: P1"
        return Completion(text if call.kind == "public" else "ANSWER: The Yankees")

    rows = asyncio.run(discuss(TASK, ask, Protocol(rounds=1)))
    (setting,) = derive(frame(rows, {})).settings
    assert (setting.counts.opportunities, setting.counts.withheld, setting.counts.internalized) == (1, 1, 0)
    assert setting.rows.off_rule == 0
    assert setting.vote_correct.tolist() == setting.discussion_correct.tolist() == [True]


def test_own_answers_are_repeated_in_the_agents_own_words():
    _, calls = talk(["ny  mets", "the Mets.", "Metropolitans"])
    own = [re.search(r"Your own answer after the last round: (.*)", c.user)[1] for c in calls if c.round]
    assert set(own) == {"ny mets", "the Mets", "Metropolitans"}


def test_a_forced_statement_is_in_the_words_of_somebody_who_said_it():
    task = Task("q", "musique", "Q?", (), TASK.answer, (), TASK.private * 2, TASK.aliases)
    _, calls = talk(
        ["Lyon", "ny mets", "NY METS", "Mets", "Ghent", "Lyon"], task, intervention="forced_majority"
    )
    later = [c.user for c in calls if c.round == 2]
    assert all("ny mets" in user or "NY METS" in user for user in later)
    assert not any("New York Mets" in user for user in later)


def test_a_joint_line_stands_in_with_its_opinion():
    async def ask(call):
        if call.kind == "probe":
            return Completion("no idea at all")
        return Completion("\n".join(f"{line.tag}: the mets" for line in call.format))

    rows = asyncio.run(discuss(TASK, ask, Protocol(rounds=1)))
    assert {(r.private, r.private_source, r.private_status) for r in rows if r.round} == {
        (TASK.answer, "joint", "missing")
    }


def test_the_built_in_wording_lists_no_options_and_its_blanks_are_no_answers():
    pack = load_pack()
    for kind in ("round0", "public", "probe"):
        _, user, lines = render(pack, TASK, 0, kind, "", View())
        assert "[P1] [B0] Document 0." in user and "POSSIBLE" not in user
        for line in lines:
            if line.tag != "SHARE":
                assert line == Line(line.tag)
                blank = re.search(rf"{line.tag}: (<.*>)", user)[0]
                assert read_line(blank, line.tag).status == "missing"


def test_simulated_agents_answer_free_text():
    for name in (TASK.answer, *INVENTED):
        assert read_line(f"ANSWER: {name}", "ANSWER").value == name
        assert strict_match(name, TASK.answer, TASK.aliases) is (name == TASK.answer)
    for accuracy, right in ((0.0, 0), (1.0, 60), (None, None)):
        agent = BehaviouralAgent(accuracy=accuracy)
        meta = {"round": 0, "seed": 1, "epoch": 1, "agent": 0, "options": [], "truth": TASK.answer,
                "format": [{"tag": "ANSWER"}]}  # fmt: skip
        said = [agent.reply("", "", meta | {"task": f"t{i}"}).removeprefix("ANSWER: ") for i in range(60)]
        assert set(said) <= {TASK.answer, *INVENTED}
        assert right is None or said.count(TASK.answer) == right
        assert accuracy != 0.0 or len(set(said)) == 3


@pytest.mark.parametrize("spelling", ["ny mets", "The NY Mets", "Metropolitans."])
def test_a_simulated_agent_knows_an_alias_for_the_answer(spelling):
    """In a mixed team others may write the answer in any way: an agent that holds it meets no dissent."""
    agent = BehaviouralAgent()
    meta = {"round": 1, "seed": 1, "epoch": 1, "agent": 0, "options": [], "truth": TASK.answer, "team_size": 3,
            "aliases": list(TASK.aliases), "own": "the mets", "task": "t", "instruction": "B",
            "format": [{"tag": "PUBLIC"}, {"tag": "ANSWER"}]}  # fmt: skip
    user = "\n".join(f"- Researcher {i} says: {spelling}" for i in (2, 3))
    assert agent.reply("", user, meta) == f"PUBLIC: {TASK.answer}\nANSWER: {TASK.answer}"
