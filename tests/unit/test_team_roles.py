import pytest

from abilene.errors import InputError, UsageError
from abilene.tasks.hidden_profile import make_tasks
from abilene.team.protocol import Protocol
from abilene.team.roles import instructed, load_personas


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", '{"0": "A nurse.", "2": " A clerk. "}'),
        ("p.toml", '0 = "A nurse."\n2 = "A clerk."\n'),
    ],
)
def test_personas_by_agent(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    assert load_personas(path) == {0: "A nurse.", 2: "A clerk."}


def test_a_list_of_personas(tmp_path):
    path = tmp_path / "p.json"
    path.write_text('["A.", "B."]')
    assert load_personas(path) == {0: "A.", 1: "B."}


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("p.json", "{", "is not JSON"),
        ("p.toml", "0 = ", "is not TOML"),
        ("p.json", "3", "no personas"),
        ("p.json", "{}", "no personas"),
        ("p.json", '{"nurse": "A."}', "'nurse' is no agent"),
        ("p.json", '{"01": "A."}', "'01' is no agent"),
        ("p.json", '{"²": "A."}', "is no agent"),
        ("p.json", '{"1": "  "}', "1"),
        ("p.toml", "1 = 2", "found 2"),
    ],
)
def test_faulty_files_are_refused_with_their_place(tmp_path, name, text, match):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=match) as caught:
        load_personas(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_personas(tmp_path / "absent.json")


def test_everybody_is_chosen_equally_often():
    """Each agent is instructed in 2 of 5 cases over 1,000 tasks: Binomial(1000, .4), |z| < 5 on five counts fails by
    chance with probability 3e-6."""
    counts = [0] * 5
    for k in range(1000):
        for i in instructed(0.4, 5, 3, f"t{k}"):
            counts[i] += 1
    assert sum(counts) == 2000
    assert all(abs(c - 400) < 5 * (1000 * 0.4 * 0.6) ** 0.5 for c in counts)


def test_a_share_of_less_than_half_an_agent_is_refused_before_anything_is_asked():
    assert len(instructed(0.125, 4, 0, "t")) == 1
    with pytest.raises(UsageError, match=r"for nobody. Give at least 0.125"):
        instructed(0.12, 4, 0, "t")
    task = make_tasks(per_level=1)[0]
    Protocol(instruction="C", instruction_share=0.1).check(task)
    with pytest.raises(UsageError, match=f"task {task.id}"):
        Protocol(instruction="C", instruction_share=0.09).check(task)
