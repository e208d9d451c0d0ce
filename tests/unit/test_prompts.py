import re
import warnings
from importlib import resources
from itertools import pairwise

import pytest

from abilene.errors import InputError, UsageError
from abilene.tasks import full_profile
from abilene.tasks.hidden_profile import make_tasks
from abilene.tasks.task import Note, Task
from abilene.team.prompts import View, render
from abilene.team.protocol import Protocol
from abilene.team.wording import load_pack

PACK = load_pack()
TASK = Task(
    id="t",
    benchmark="hidden_profile",
    question="Who {own}?",
    options=("Ada Lind", "Bo Falk"),
    answer="Bo Falk",
    shared=(Note("Ada Lind: kept {board} tidy.", "Ada Lind"),),
    private=(
        (Note("Bo Falk: wrote the guide.", "Bo Falk"),),
        (Note("Bo Falk: calmed a client.", "Bo Falk"),),
    ),
)


def texts(kind, agent=0, framing="", view=View()):
    return render(PACK, TASK, agent, kind, framing, view)


def test_an_agent_reads_its_own_notes_only():
    for kind in ("round0", "public", "probe"):
        _, user, _ = texts(kind)
        assert "[P1] Bo Falk: wrote the guide." in user
        assert "calmed a client" not in user


def test_braces_inside_a_task_are_text():
    _, user, _ = texts("public", view=View(own="Ada Lind"))
    assert "Who {own}?" in user
    assert "kept {board} tidy" in user
    assert not re.search(r"\{(member|agent|n|question|options|shared|notes|others|a|b)\}", user)


def test_others_and_table_are_listed():
    view = View(
        others=[(1, "Bo Falk"), (2, None)], board=[(1, "Bo Falk: x."), (0, "Bo Falk: y.")], own="Ada Lind"
    )
    _, user, _ = texts("public", view=view)
    assert "- Panelist 2 says: Bo Falk\n- Panelist 3 says: (no answer)" in user
    assert "- Bo Falk: x. (put there by Panelist 2)\n- Bo Falk: y. (put there by you)" in user
    assert "after the last round: Ada Lind" in user


def test_hidden_profile_probe_does_not_repeat_the_own_answer():
    _, user, _ = texts("probe", view=View(own="Ada Lind"))
    assert "after the last round" not in user


def test_formats():
    assert [line.tag for line in texts("round0")[2]] == ["COUNT", "ANSWER"]
    assert [line.tag for line in texts("public")[2]] == ["PRIVATE", "PUBLIC", "SHARE"]
    assert texts("public")[2][2].values == ("P1", "NONE")
    assert [line.tag for line in texts("probe")[2]] == ["ANSWER"]


def test_framing_ends_the_system_prompt():
    system, _, _ = texts("public", framing="Be frank now.")
    assert system.endswith("Be frank now.")


def test_instructions_are_names_or_sentences():
    assert PACK.framing("B") == ""
    assert PACK.framing("Say it all.") == "Say it all."
    with pytest.raises(UsageError, match="A, B, C"):
        PACK.framing("D")


BUILT_IN = 'name = "x"\n[instructions]\nB = ""\n[options]\nmember = "M"\nsystem = "{framing}"\n'
ROUND0 = 'round0 = "{question}{shared}{notes}"\n'
BODY = "{question}{shared}{notes}{board}{others}"
REST = f'public = "{BODY}"\nprobe = "{BODY}"\n'


@pytest.mark.filterwarnings("ignore:.*asks for no line")
def test_a_pack_of_the_user_replaces_the_wording(tmp_path):
    path = tmp_path / "pack.toml"
    path.write_text(BUILT_IN + ROUND0 + REST)
    pack = load_pack(path)
    assert pack.digest != PACK.digest
    _, user, _ = render(pack, TASK, 0, "round0", "", View())
    assert user.startswith("Who {own}?")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "name"),
        ("name = 3", "name"),
        ("name = 'x'\n[instructions]\nB = 3\n", r"instructions\.B"),
        (BUILT_IN, r"options\.round0"),
        (BUILT_IN + 'round0 = "{question}{shared}{notes}{others}"\n' + REST, r"\{others\}"),
        (BUILT_IN + 'round0 = "{question}{notes}"\n' + REST, r"lacks \{shared\}"),
        (BUILT_IN + ROUND0 + REST + 'colour = "red"\n', "colour"),
        (BUILT_IN + ROUND0 + REST + 'share = "{question}{shared}{notes}"\n', r"lacks \{board\}"),
        (BUILT_IN + ROUND0 + REST + "share = 3\n", r"options\.share"),
        (BUILT_IN + ROUND0 + REST + "[interventions]\nx = 3\n", r"interventions\.x"),
        (BUILT_IN + ROUND0 + REST + "[interventions]\nx = ' '\n", r"interventions\.x"),
        (BUILT_IN + ROUND0 + REST + "[interventions.x]\nfirst = 'a'\nlast = 'b'\n", "first, later, last"),
        ("name = ", "not TOML"),
        (BUILT_IN + ROUND0.replace("{notes}", "{notes} {own") + REST, "brace"),
        (BUILT_IN + ROUND0.replace("{notes}", "{notes}{own.x}") + REST, "brace"),
    ],
)
def test_a_faulty_pack_is_refused_with_its_place(tmp_path, text, where):
    path = tmp_path / "pack.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"pack\.toml.*{where}"):
        load_pack(path)


def test_a_missing_pack_is_refused():
    with pytest.raises(InputError, match="cannot be read"):
        load_pack("nowhere.toml")


def test_the_ladder_grows_by_one_sentence_up_to_c():
    steps = [PACK.framing(name) for name in ("C1", "C2", "C3", "C")]
    for k, (short, longer) in enumerate(pairwise(steps), start=1):
        assert longer.startswith(short + " ")
        assert len(re.findall(r"\.(?: |$)", short)) == k
    assert len(re.findall(r"\.(?: |$)", steps[-1])) == 4


def test_wording_by_round():
    phases = [PACK.directive("structured_exchange", t, 4) for t in range(1, 5)]
    assert phases[1] == phases[2] and len(set(phases)) == 3
    assert PACK.directive("structured_exchange", 1, 1) == phases[3]  # the only round is the last
    assert PACK.directive("instructions.PS", 2, 3) == PACK.framing("PS")
    for text in ("nonsense", "instructions.nonsense"):
        with pytest.raises(UsageError, match=r"no wording.*nonsense"):
            PACK.directive(text, 1, 3)


def test_answers_without_names_are_sorted():
    view = View(others=[(1, "Bo Falk"), (2, None), (3, "Ada Lind")], named=False)
    _, user, _ = texts("public", view=view)
    assert "- Somebody says: (no answer)\n- Somebody says: Ada Lind\n- Somebody says: Bo Falk\n" in user
    assert "Panelist 2" not in user


def test_formats_of_a_silent_round_and_of_a_doubt():
    _, user, lines = render(PACK, TASK, 0, "public", "", View(), silent=True)
    assert [line.tag for line in lines] == ["SHARE"] and "PUBLIC" not in user
    _, user, lines = render(
        PACK, TASK, 0, "public", "", View(doubts={1: "why"}, others=[(1, "x")]), doubt=True
    )
    assert [line.tag for line in lines] == ["PRIVATE", "PUBLIC", "SHARE", "DOUBT"]
    assert user.index("SHARE:") < user.index("DOUBT:")
    assert "- Panelist 2 says: x\n  Panelist 2 on why the leading answer may be wrong: why" in user


def test_a_pack_without_words_for_one_alone_serves_all_but_the_full_profile(tmp_path):
    text = (resources.files("abilene.team") / "packs" / "abilene.toml").read_text()
    for name in ("alone_system", "alone"):
        text = re.sub(rf'(?s)^{name} = """.*?"""\n', "", text, flags=re.M)
    path = tmp_path / "mine.toml"
    path.write_text(text)
    pack, task = load_pack(path), make_tasks(per_level=1)[1]
    assert pack.section("options").alone is None
    Protocol(pack=pack).check(task)
    with pytest.raises(
        UsageError, match="Add alone_system and alone to the section that hidden_profile uses"
    ):
        Protocol(pack=pack).check(full_profile(task))


@pytest.mark.parametrize("line", ["PUBLIC", "SHARE", "ANSWER"])
def test_a_pack_that_asks_for_no_answer_is_warned_of(tmp_path, line):
    text = (resources.files("abilene.team") / "packs" / "abilene.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(re.sub(rf"(?m)^{line}: ", "Now your answer: ", text))
    with pytest.warns(UserWarning, match=rf"mine.toml, field '.*' asks for no line {line}:"):
        load_pack(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_pack()
