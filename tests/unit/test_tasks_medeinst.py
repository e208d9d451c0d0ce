import csv
import json
import warnings
from collections import Counter
from itertools import combinations

import pytest
from _data import data_file

from abilene.errors import InputError, UsageError
from abilene.tasks import medeinst
from abilene.tasks.casepairs import parse_narrative, read_pairs, resembles
from abilene.tasks.ddxplus import from_ddxplus, write_rows
from abilene.tasks.task import Note, Task

pytestmark = pytest.mark.filterwarnings("ignore:MedEinst")

# Findings that do not resemble each other, so that every one of them can be neutral.
WORDS = (
    "Cough with phlegm", "Fever since Monday", "Night sweats", "Swollen ankles", "Itching palms", "Blurred vision",
    "Joint stiffness", "Dark urine", "Hoarse voice", "Dizzy spells", "Muscle cramps", "Weight loss", "Ringing ears",
    "Stuffy nose", "Loose stools", "Cold fingers", "Brittle nails", "Thirst", "Hiccups", "Bruises easily",
    "Vaccinated", "Lives near a farm", "Jogs every day", "Flew abroad in June", "Keeps parrots", "Quit alcohol",
    "Uncle had gout", "Works underground",
)  # fmt: skip
DECISIVE = ["- Zigzag rash:", "  - left jaw", "  - upper axilla"]
DECISIVE_NOTE = "[Symptoms] Zigzag rash: (left jaw; upper axilla)"


def narrative(symptoms, antecedents=("- Smokes a pipe",), person="Sex: F, Age: 30", end=""):
    lines = [person, "", "Symptoms:", "---", *symptoms, "", "Antecedents:", "---", *antecedents]
    return "\n".join(line + end for line in lines)


def pair(number=0, common=20, *, control_lines=("- Old sign",), trap_lines=tuple(DECISIVE), **changes):
    """Two rows. The trap's lines end in spaces, as most of the published ones do, which must not matter."""
    bullets = [f"- {text}" for text in WORDS[: common - 1]]
    rows = {
        "control": narrative([*bullets, *control_lines]),
        "trap": narrative([*bullets[:3], *trap_lines, *bullets[3:]], end="  "),
    }
    return [
        {
            "case_id": f"case_{number}",
            "case_type": kind,
            "age": 30,
            "sex": "F",
            "narrative": text,
            "ground_truth": f"Disease {number % 7 if kind == 'control' else 7 + number % 5}",
        }
        | changes.get(kind, {})
        for kind, text in rows.items()
    ]


@pytest.fixture
def file(tmp_path):
    def write(*rows):
        path = tmp_path / "pairs.jsonl"
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
        return path

    return write


@pytest.fixture
def many(file):
    return file(*(row for i in range(48) for row in pair(i)))


# Narratives -------------------------------------------------------------------------------------------------


def test_bullets_keep_their_sub_bullets_and_sections():
    case = parse_narrative(
        "Sex: M , Age: 61 \r\n\r\nSymptoms:  \n---\n- Pain:  \n  - chest\n    - left\n- Very long\n  line of text\n"
        "\t- tabbed\n\nAntecedents:\n-----\n* Gout \n\nExtra:\nNone\n"
    )
    assert case.person == ("Sex: M", "Age: 61")
    assert [f.note_text() for f in case.findings] == [
        "[Symptoms] Pain: (chest; left)",
        "[Symptoms] Very long line of text (tabbed)",
        "[Antecedents] Gout",
    ]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no finding"),
        ("Sex: F, Age: 3\nSymptoms:\n---\n", "no finding"),
        ("- Cough", "before the first heading"),
        ("Sex: F, Age: 3\nSymptoms:\n---\n- Cough\nplain words", "plain words"),
        ("Symptoms:\n- Cough\nSex: F, Age: 3", "Sex: F"),
    ],
)
def test_what_is_no_narrative_is_told(text, match):
    with pytest.raises(ValueError, match=match):
        parse_narrative(text)


# Pairs ------------------------------------------------------------------------------------------------------


def test_the_added_finding_is_found_with_its_sub_bullets(file):
    [one], left_out, diagnoses = read_pairs(file(*pair(3)))
    assert one.decisive.note_text() == DECISIVE_NOTE
    assert (one.control, one.trap) == ("Disease 3", "Disease 10")
    assert (len(one.common), one.removed) == (20, 1)
    assert one.person == ("Sex: F", "Age: 30")
    assert not left_out
    assert diagnoses == ("Disease 10", "Disease 3")


def test_other_sub_bullets_alone_add_no_finding(file):
    rows = pair(control_lines=("- Pain", "  - arm"), trap_lines=("- Pain", "  - arm", "  - jaw"))
    pairs, left_out, _ = read_pairs(file(*rows))
    assert (pairs, left_out) == ([], {"have a trap that adds no finding": 1})


def test_of_a_common_finding_only_the_common_details_are_read(file):
    rows = pair(
        control_lines=("- Pain", "  - arm", "  - hip", "- Rash", "  - crimson"),
        trap_lines=("- Pain", "  - jaw", "  - arm", "- Rash", "  - azure", "- Fever", "  - high"),
    )
    [one], left_out, _ = read_pairs(file(*rows))
    assert (one.decisive.text, one.removed, one.altered) == ("Fever (high)", 0, 2)
    assert {f.text for f in one.common if f.line in ("Pain", "Rash")} == {"Pain (arm)", "Rash"}
    assert not left_out
    notes = [n.text for t in medeinst.load(file(*rows), per_level=1) for n in t.shared]
    assert not any(word in text for text in notes for word in ("jaw", "hip", "crimson", "azure"))


def test_one_line_twice_is_one_finding():
    case = parse_narrative(
        "Sex: F, Age: 3\nSymptoms:\n- Pain\n  - arm\n- Pain\n  - leg\n  - arm\nAntecedents:\n- Pain"
    )
    assert [f.text for f in case.findings] == ["Pain (arm; leg)", "Pain"]


def test_persons_are_kept_as_far_as_they_agree(file):
    rows = pair()
    rows[1]["narrative"] = rows[1]["narrative"].replace("Age: 30", "Age: 31")
    [one], *_ = read_pairs(file(*rows))
    assert one.person == ("Sex: F",)
    assert medeinst.load(file(*rows), per_level=1)[0].shared[0].text == "[Patient] Sex: F"


def test_unusable_pairs_are_counted_with_their_reason(file):
    path = file(
        *pair(0),
        *pair(1, trap_lines=()),
        *pair(2, trap_lines=("- One thing", "- Another thing")),
        *pair(3)[:1],
        *pair(4, control={"ground_truth": "Same"}, trap={"ground_truth": "same "}),
        *pair(5, common=10),
    )
    pairs, left_out, _ = read_pairs(path)
    assert [p.case_id for p in pairs] == ["case_0", "case_5"]
    assert sum(left_out.values()) == len(left_out) == 4
    with pytest.warns(UserWarning, match=r"1 tasks instead of 120.*1 have fewer than 11 common findings"):
        medeinst.load(path)
    with pytest.raises(UsageError, match=r"no usable pair.*fewer than 11 common findings.*fewer agents"):
        medeinst.load(file(*pair(5, common=10)))
    assert len(medeinst.load(file(*pair(5, common=10)), team_size=2, informed=[0])) == 1  # the hint holds


@pytest.mark.parametrize(
    "rows",
    [
        pair(2, trap_lines=("- One thing", "- Another thing")),
        pair(4, control={"ground_truth": "Same"}, trap={"ground_truth": "same "}),
        pair(1, trap_lines=()),
        pair(5, common=5),  # too few findings even for two agents
    ],
)
def test_fewer_agents_are_not_advised_where_the_file_is_at_fault(file, rows):
    path = file(*rows)
    with pytest.raises(InputError, match=r"no usable pair \(pairs left out: 1 have") as caught:
        medeinst.load(path)
    assert "two different diagnoses" in caught.value.hint and "exactly one finding" in caught.value.hint
    assert "fewer agents" not in str(caught.value)
    with pytest.raises(InputError):
        medeinst.load(path, team_size=2, informed=[0])
    # One pair with room enough makes the advice right again.
    with pytest.raises(UsageError, match="fewer agents"):
        medeinst.load(file(*rows, *pair(9, common=10)))


def test_resembling_findings_are_never_neutral(file):
    alike = [f"- Zigzag rash on the {k}" for k in ("foot", "hand", "back", "chin")]
    rows = pair(control_lines=alike, trap_lines=(*alike, "- Zigzag rash on the knee"))
    [one], *_ = read_pairs(file(*rows))
    assert len(one.common) - len(one.neutral()) == 4
    for seed in range(20):
        for task in medeinst.load(file(*rows), seed=seed):
            assert not any("Zigzag" in n.text for own in task.private for n in own if not n.decisive)
            assert sum("Zigzag" in n.text for n in task.shared) == 4


@pytest.mark.parametrize(
    ("a", "b"), list(combinations(("Swollen left foot", "swollen left hand", "Thirst"), 2))
)
def test_resemblance_is_symmetric(a, b):
    assert resembles(a, b) == resembles(b, a) == (a[0].lower() == b[0].lower())


def test_resemblance_begins_at_a_ratio_of_six_tenths():
    """Blocks of 6 of 10 letters match on either side: 2 * 6 / 20; then 5 of 10."""
    assert resembles("abcdefghij", "abcdefklmn")
    assert not resembles("abcdefghij", "abcdeoklmn")


# Tasks ------------------------------------------------------------------------------------------------------


def test_a_task_is_built_as_designed(file):
    for level in range(4):
        [task] = medeinst.load(file(*pair(3), *pair(1)), informed=[level], tasks=1, seed=2)
        [source] = [p for p in read_pairs(file(*pair(3), *pair(1)))[0] if p.case_id == task.design["case_id"]]
        informed = [i for i, own in enumerate(task.private) if any(n.decisive for n in own)]
        assert len(informed) == level == task.design["n_informed"]
        assert task.design["p_design"] == level / 5
        assert task.design["informed"] == ",".join(map(str, informed))
        assert [len(own) for own in task.private] == [1] * 5
        assert {n.text for own in task.private for n in own if n.decisive} <= {DECISIVE_NOTE}
        # Everything common is on the table or with exactly one agent; nothing of the control alone is anywhere.
        texts = [n.text for n in task.shared[1:]] + [
            n.text for own in task.private for n in own if not n.decisive
        ]
        assert sorted(texts) == sorted(f.note_text() for f in source.common)
        assert len(task.shared) == 1 + 20 - (5 - level)
        assert task.shared[0].text == "[Patient] Sex: F, Age: 30"
        assert (task.answer, task.design["control_diagnosis"]) == (source.trap, source.control)
        assert {source.trap, source.control} <= set(task.options)
        assert all(n.about == (task.answer if n.decisive else None) for own in task.private for n in own)


def test_levels_are_even_and_no_pair_serves_twice(many):
    tasks = medeinst.load(many, seed=1)
    assert Counter(t.design["n_informed"] for t in tasks) == {0: 12, 1: 12, 2: 12, 3: 12}
    assert len({t.design["case_id"] for t in tasks}) == 48
    assert [fault for t in tasks for fault in medeinst.check(t)] == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(medeinst.load(many, per_level=3)) == 12


def test_a_number_of_tasks_is_spread_evenly_and_grows_by_addition(many):
    seen = set()
    for n in (*range(1, 10), 22, 23, 47, 48):
        tasks = medeinst.load(many, tasks=n, seed=4)
        assert len(tasks) == n
        counts = Counter(t.design["n_informed"] for t in tasks)
        assert max(counts.values()) - min(counts.get(k, 0) for k in range(4)) <= 1
        assert seen <= {t.digest for t in tasks}
        seen = {t.digest for t in tasks}


def test_tasks_depend_on_the_seed_and_not_on_the_order_of_rows(many, file):
    one = medeinst.load(many, seed=1)
    backwards = file(*map(json.loads, many.read_text().splitlines()[::-1]))
    assert medeinst.load(backwards, seed=1) == one
    assert {t.digest for t in one}.isdisjoint(t.digest for t in medeinst.load(backwards, seed=2))


def test_three_findings_each_and_two_options(file):
    path = file(*(row for i in range(8) for row in pair(i, common=28)))
    tasks = medeinst.load(path, findings=3, options=2)
    assert len(tasks) == 8
    for task in tasks:
        assert [len(own) for own in task.private] == [3] * 5
        assert set(task.options) == {task.answer, task.design["control_diagnosis"]}
        assert len(task.shared) == 1 + 28 - (15 - task.design["n_informed"])
        assert medeinst.check(task) == []
    assert {len(t.options) for t in medeinst.load(path)} == {5}
    assert {len(t.options) for t in medeinst.load(file(*pair(0, common=28)))} == {2}


def test_who_is_informed_and_where_the_answer_stands_is_random(many):
    """Over 960 tasks: counts are binomial and must lie within 5 sd; false alarms below 1e-4 in all."""
    tasks = [t for seed in range(20) for t in medeinst.load(many, seed=seed)]
    n = len(tasks)

    def even(counts, p):
        assert all(abs(c - n * p) < 5 * (n * p * (1 - p)) ** 0.5 for c in counts)

    holders = Counter(i for t in tasks for i, own in enumerate(t.private) if own[0].decisive)
    even([holders[i] for i in range(5)], 1.5 / 5)
    for wanted in ("answer", "control"):
        at = Counter(
            t.options.index(t.answer if wanted == "answer" else t.design["control_diagnosis"]) for t in tasks
        )
        even([at[i] for i in range(5)], 1 / 5)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"team_size": 1}, "at least 2 agents"),
        ({"informed": []}, "at least one level"),
        ({"informed": [1, 1]}, "only once"),
        ({"informed": [6]}, "between 0 and the team size 5"),
        ({"findings": 0}, "at least 1"),
        ({"options": 1}, "at least 2"),
        ({"tasks": 0}, "at least 1"),
        ({"findings": 9}, "no usable pair"),
    ],
)
def test_impossible_wishes_are_refused(many, options, match):
    with pytest.raises(UsageError, match=match):
        medeinst.load(many, **options)


@pytest.mark.parametrize(
    ("change", "field", "found"),
    [
        ({"case_type": "both"}, "case_type", "invalid enum value"),
        ({"narrative": 3}, "narrative", "expected `str`"),
        ({"narrative": "Symptoms:\n- Cough\nwhat?"}, "narrative", "'what?'"),
        ({"ground_truth": " "}, "ground_truth", "empty"),
        ({"case_id": ""}, "case_id", "empty"),
        ({"case_id": None}, "case_id", "expected `int | str`"),
        ({"case_id": "case_0"}, "case_type", "two rows of type 'trap'"),
        ({"sex": None}, "sex", "expected `str`"),
    ],
)
def test_a_malformed_row_names_line_and_field(file, change, field, found):
    path = file(*pair(0), *pair(1, trap=change))
    with pytest.raises(InputError) as caught:
        medeinst.load(path)
    error = caught.value
    assert (error.path, error.line, error.field) == (str(path), 4, field)
    assert found in error.found


def test_a_finding_that_names_a_diagnosis_is_pointed_out(file):
    rows = pair(0, control={"ground_truth": "Thirst"}, trap={"ground_truth": "Hic"})
    with pytest.warns(UserWarning, match=r"in 1 of 1 tasks a finding names the control's diagnosis"):
        [task] = medeinst.load(file(*rows))
    assert medeinst.cautions(task) == ["a finding names the control's diagnosis"]


def test_the_self_check_sees_every_fault(file):
    [task] = medeinst.load(file(*pair(0), *pair(1)), informed=[2], tasks=1)
    assert medeinst.check(task) == []
    decisive = next(n for own in task.private for n in own if n.decisive)
    blind = next(i for i, own in enumerate(task.private) if not own[0].decisive)

    def faults(design=(), **changes):
        kept = {
            f: getattr(task, f)
            for f in ("id", "benchmark", "question", "options", "answer", "shared", "private")
        }
        return " ".join(
            medeinst.check(Task(**(kept | {"design": dict(task.design) | dict(design)} | changes)))
        )

    def at_blind(*notes):
        return tuple(notes if i == blind else own for i, own in enumerate(task.private))

    assert "holders of a decisive finding" in faults(private=at_blind(decisive))
    assert "everybody reads" in faults(shared=(*task.shared, decisive))
    assert "findings per agent" in faults(private=at_blind())
    assert "resembles the decisive" in faults(
        private=at_blind(Note("[Symptoms] zigzag rash: (left jaw; lower axilla)"))
    )
    assert "is about" in faults(private=at_blind(Note("[Symptoms] Else", about=task.answer)))
    assert "occurs 2 times" in faults(private=at_blind(task.shared[3]))
    assert "fewer than 6" in faults(shared=task.shared[:6])
    assert "must be two of the options" in faults(design={"control_diagnosis": "Else"})
    assert "must be two of the options" in faults(design={"control_diagnosis": task.answer})
    assert "p_design" in faults(design={"p_design": 0.5})
    assert "n_informed" in faults(design={"n_informed": 1})


# DDXPlus ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def release():
    names = ("patients_sample300.csv", "release_evidences.json", "release_conditions.json")
    return [data_file(f"ddxplus/{name}") for name in names]


@pytest.fixture(scope="module")
def rows(release):
    return from_ddxplus(*release)


def test_real_pairs_become_sound_tasks(rows, tmp_path):
    path = tmp_path / "pairs.jsonl"
    write_rows(rows, path)
    tasks = medeinst.load(path)
    assert len(tasks) == 6
    assert Counter(t.design["n_informed"] for t in tasks) == {0: 2, 1: 2, 2: 1, 3: 1}
    assert [fault for t in tasks for fault in medeinst.check(t)] == []


def test_the_number_of_pairs_is_that_of_the_definition(release, rows):
    """An independent count over codes alone: no narrative, no shortcut."""
    evidences = json.loads(release[1].read_text())
    patients = []
    with release[0].open(newline="") as f:
        for record in csv.DictReader(f):
            values = {}
            for item in record["features"].strip("[]").replace("'", "").split(", "):
                code, _, value = item.partition("_@_")
                if not value or value != str(evidences[code]["default_value"]):
                    values.setdefault(code, set()).add(value)
            patients.append((record["diagnosis"], values))

    def differ(code, a, b):
        if code not in a or code not in b:
            return True
        graded = all(value.isdecimal() for value in a[code])
        return not graded and not a[code] & b[code]

    pairs = sum(
        one != two and sum(differ(code, a, b) for code in {*a, *b}) <= 5
        for (one, a), (two, b) in combinations(patients, 2)
    )
    assert len(rows) // 2 == pairs == 81


def test_narratives_differ_by_at_most_five_findings_a_side_and_say_only_what_is_recorded(release, rows):
    evidences = json.loads(release[1].read_text())
    questions = {" ".join(e["question_en"].split()) for e in evidences.values()}
    for control, trap in zip(rows[::2], rows[1::2], strict=True):
        assert (control["case_type"], trap["case_type"]) == ("control", "trap")
        assert control["ground_truth"] != trap["ground_truth"]
        one, two = (set(parse_narrative(r["narrative"]).findings) for r in (control, trap))
        heads = [
            {next(q for q in questions if f.text.startswith(q)) for f in side}
            for side in (one - two, two - one)
        ]
        assert 0 < len(heads[0] | heads[1]) <= 5  # the lines that differ are the evidences that differ
        for finding in one | two:
            assert any(finding.text.startswith(q) for q in questions)


@pytest.fixture
def tiny(tmp_path):
    evidences = {
        "E_1": ("Do you cough?", False, "0", [], {}),
        "E_2": ("Where is the pain?", False, "V_0", ["V_0", "V_1", "V_2"],
                {"V_0": "nowhere", "V_1": "arm", "V_2": "leg"}),
        "E_3": ("How bad is the pain?", False, "0", list(range(11)), {}),
        "E_4": ("Do you smoke?", True, "0", [], {}),
    }  # fmt: skip
    paths = [tmp_path / name for name in ("patients.csv", "evidences.json", "conditions.json")]
    paths[1].write_text(
        json.dumps(
            {
                code: {
                    "question_en": text,
                    "is_antecedent": antecedent,
                    "default_value": default,
                    "possible-values": possible,
                    "value_meaning": {v: {"en": word} for v, word in values.items()},
                }
                for code, (text, antecedent, default, possible, values) in evidences.items()
            }
        )
    )
    paths[2].write_text(json.dumps({c: {"cond-name-eng": c} for c in ("Flu", "Gout")}))

    def write(*patients, head="age,sex,diagnosis,features"):
        with paths[0].open("w", newline="") as f:
            csv.writer(f).writerows([head.split(","), *patients])
        return paths

    return write


def test_values_are_put_into_words_and_defaults_left_out(tiny):
    one = (30, "F", "Flu", "['E_1', 'E_2_@_V_1', 'E_2_@_V_2', 'E_3_@_4']")
    two = (50, "M", "Gout", "['E_1', 'E_2_@_V_2', 'E_3_@_7', 'E_4']")
    control, trap = from_ddxplus(*tiny(one, two))
    # The grades of the pain differ, so that they are left out.
    said = "Symptoms:\n---\n- Do you cough? Yes\n- Where is the pain? leg"
    assert control["narrative"] == f"Sex: F, Age: 30\n\n{said}"
    smokes = "Antecedents:\n---\n- Do you smoke? Yes"
    assert trap["narrative"] == f"Sex: M, Age: 50\n\n{said}\n\n{smokes}"
    assert (control["ground_truth"], trap["ground_truth"]) == ("Flu", "Gout")
    # The release's own column names; the trap is the one that adds a single finding, whatever the order.
    control, trap = from_ddxplus(*tiny(two, one, head="AGE,SEX,PATHOLOGY,EVIDENCES"))
    assert trap["ground_truth"] == "Gout"
    assert from_ddxplus(*tiny(one, (30, "F", "Flu", "['E_1']"))) == []  # the same diagnosis
    assert from_ddxplus(*tiny((30, "F", "Gout", "['E_1', 'E_2_@_V_0']"), (30, "F", "Flu", "['E_1']"))) == []
    lists = from_ddxplus(*tiny(one, (30, "F", "Gout", one[3].replace("'E_1', ", ""))))
    assert (
        "- Where is the pain? arm; leg\n- How bad is the pain? 4 on a scale up to 10" in lists[0]["narrative"]
    )


def test_a_patient_of_whom_nothing_is_left_makes_no_pair(tiny, tmp_path):
    graded = [(30, "F", "Flu", "['E_3_@_4']"), (30, "F", "Gout", "['E_3_@_7', 'E_1']")]
    coughs = (30, "F", "Flu", "['E_1', 'E_4']")
    rows = from_ddxplus(*tiny(*graded, coughs))
    assert [r["case_id"] for r in rows] == ["ddxplus-1-2"] * 2
    write_rows(rows, tmp_path / "pairs.jsonl")
    assert len(read_pairs(tmp_path / "pairs.jsonl")[0]) == 1


def test_half_a_character_in_the_release_is_told(tiny):
    paths = tiny((30, "F", "Flu", "['E_1']"))
    paths[2].write_text(json.dumps({"Flu": {"cond-name-eng": "\ud800"}}))
    with pytest.raises(InputError, match=r"field 'cond-name-eng': condition 'Flu': found '\\ud800'"):
        from_ddxplus(*paths)


@pytest.mark.parametrize(
    ("patient", "field"),
    [
        (("x", "F", "Flu", "['E_1']"), "age"),
        ((30, "", "Flu", "['E_1']"), "sex"),
        ((30, "F", "Plague", "['E_1']"), "diagnosis"),
        ((30, "F", "Flu", "['E_9']"), "features"),
        ((30, "F", "Flu", "['E_1_@_V_1']"), "features"),
        ((30, "F", "Flu", "['E_2']"), "features"),
        ((30, "F", "Flu", "['E_3_@_11']"), "features"),
        ((30, "F", "Flu", "E_1"), "features"),
        ((30, "F", "Flu", "['E_1'"), "features"),
        ((30, "F", "Flu", "__import__('os').system('true')"), "features"),
        ((30, "F", "Flu", "[" * 1000 + "]" * 1000), "features"),
        ((30, "F", "Flu", "[" + ", ".join(["'E_1'"] * 5000) + "]"), "features"),
    ],
)
def test_a_malformed_patient_names_line_and_field(tiny, patient, field):
    paths = tiny((30, "F", "Flu", "['E_1']"), patient)
    with pytest.raises(InputError) as caught:
        from_ddxplus(*paths)
    assert (caught.value.path, caught.value.line, caught.value.field) == (str(paths[0]), 3, field)
    assert len(caught.value.found) < 100


def test_files_that_are_none_of_the_release_are_told(tiny, tmp_path):
    paths = tiny((30, "F", "Flu", "['E_1']"))
    with pytest.raises(UsageError, match="max_difference"):
        from_ddxplus(*paths, max_difference=0)
    with pytest.raises(InputError, match="cannot be read"):
        from_ddxplus(tmp_path / "absent", *paths[1:])
    with pytest.raises(InputError, match="cond-name-eng"):
        from_ddxplus(paths[0], paths[1], paths[1])
    with pytest.raises(InputError, match="question_en"):
        from_ddxplus(paths[0], paths[2], paths[2])
    with pytest.raises(InputError, match=r"field 'features'.*column is missing"):
        from_ddxplus(*tiny((1, 2, 3), head="age,sex,diagnosis"))
    with pytest.raises(InputError, match="no patient"):
        from_ddxplus(*tiny())
