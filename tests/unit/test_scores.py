"""Strict and lenient accuracy side by side; the Bias Trap Rate."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from _benchmarks import benchmark_file
from _pipeline import talk

from abilene.analysis.gain import wilson
from abilene.analysis.scores import SET, bias_trap, control_diagnoses, free_text_scores
from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.records.derive import derive
from abilene.records.schema import Row, frame
from abilene.tasks import benchmark
from abilene.tasks.freetext import canonical
from abilene.tasks.task import Note, Task
from abilene.team.behavioural import BehaviouralAgent

DAY = Task("q", "musique", "When?", (), "11 February 1929", (), ((Note("x"),),) * 3, aliases=("11.2.29",))


def rows(round, said, *, thought=None, task=DAY, set_to=None, raw=True):
    """One round: literal statements, and private answers where they differ."""
    out = []
    for i, text in enumerate(said):
        mind = text if thought is None else thought[i]

        def opinion(t):
            return None if t is None else canonical(t, task.answer, task.aliases)

        first = round == 0
        out.append(
            Row(
                task=task.id, round=round, agent=str(i), truth=task.answer, private=opinion(mind),
                private_source="round0" if first else "probe",
                public=opinion(text if set_to is None else set_to[i]),
                public_set=None if set_to is None else True,
                public_raw=f"{'ANSWER' if first else 'PUBLIC'}: {text}" if raw else None,
                private_raw=None if first or not raw else f"ANSWER: {mind}",
            )
        )  # fmt: skip
    return out


def score(record, tasks=(DAY,)):
    return {s.stage: s for s in free_text_scores(frame(record, {"model": "m"}), tasks)}


def kn(p):
    return p.k, p.n


def test_another_form_is_lenient_only():
    found = score([*rows(0, ["February 11, 1929"] * 2 + ["1930"]), *rows(1, ["11 February 1929"] * 3)])
    assert kn(found["vote"].strict) == (0, 1) and kn(found["vote"].lenient) == (1, 1)
    assert kn(found["discussion"].strict) == kn(found["discussion"].lenient) == (1, 1)
    assert kn(found["beliefs"].lenient) == (1, 1)


def test_the_lenient_plurality_counts_forms_of_a_wrong_answer_together():
    """Strict: three opinions and a tie. Lenient: two for 12, one for the answer. Neither is correct."""
    task = Task("q", "musique", "How many?", (), "13", (), ((Note("x"),),) * 3)
    found = score(
        [*rows(0, ["12", "twelve", "13"], task=task), *rows(1, ["13", "12", "13"], task=task)], [task]
    )
    assert kn(found["vote"].lenient) == (0, 1)
    assert kn(found["discussion"].lenient) == (1, 1)
    # Mutant: without grouping, "12" beside "13", "13" and "twelve" would not outvote ...
    four = score(
        [*rows(0, ["13", "thirteen", "12", "twelve"], task=task), *rows(1, ["13"], task=task)], [task]
    )
    assert kn(four["vote"].lenient) == (0, 1)  # ... two against two is a tie


def test_a_set_statement_has_no_words():
    record = [*rows(0, ["1930"] * 3), *rows(1, ["February 11, 1929"] * 3, set_to=["1930"] * 3)]
    found = score(record)
    said = found["discussion"]
    assert kn(said.strict) == (0, 1) and kn(said.lenient) == (0, 0) and said.without_words == 1
    assert said.reason == SET and said.lenient.share is None and said.lenient.interval is None
    # Mutant: reading the raw reply for the statement would make it lenient-correct. Beliefs are known.
    assert kn(found["beliefs"].lenient) == (1, 1)


def test_words_that_are_not_the_recorded_opinion_do_not_count():
    record = rows(0, ["1930"] * 3) + [
        Row(task="q", round=1, agent=str(i), truth=DAY.answer, private="1930", public="1930",
            private_source="probe", public_raw="PUBLIC: February 11, 1929", private_raw="no line")
        for i in range(3)
    ]  # fmt: skip
    found = score(record)
    assert found["discussion"].without_words == found["beliefs"].without_words == 1
    assert found["discussion"].reason is None and kn(found["discussion"].strict) == (0, 1)


def test_missing_is_never_wrong():
    silent = [Row(task="q", round=1, agent=str(i), truth=DAY.answer) for i in range(3)]
    found = score([*rows(0, ["11 February 1929"] * 3, raw=False), *silent])
    assert kn(found["vote"].strict) == (1, 1) and kn(found["vote"].lenient) == (0, 0)
    assert found["vote"].without_words == 1 and kn(found["vote"].strict_there) == (0, 0)
    assert found["discussion"].unanswered == 1 and kn(found["discussion"].strict) == (0, 0)
    cut = score([*rows(0, ["1930"] * 3), *rows(1, ["1930"] * 3), *rows(0, ["x"], task=OTHER)], (DAY, OTHER))
    assert (
        cut["discussion"].unanswered == 1 and cut["discussion"].strict.n == 1
    )  # never reached the last round


OTHER = Task("p", "musique", "Who?", (), "Ada", (), ((Note("x"),),))


def test_a_joint_private_answer_is_read_from_the_public_reply():
    record = rows(0, ["1930"])
    record += [Row(task="q", round=1, agent="0", truth=DAY.answer, private=canonical("February 11, 1929", DAY.answer),
                   private_source="joint", public="1930",
                   public_raw="PRIVATE: February 11, 1929\nPUBLIC: 1930")]  # fmt: skip
    found = score(record)
    assert kn(found["beliefs"].lenient) == (1, 1) and kn(found["discussion"].lenient) == (0, 1)


@pytest.mark.parametrize(
    ("tasks", "found"),
    [((), "not among the tasks"),
     ((Task("q", "b", "?", ("x", "11 February 1929"), "x", (), ((),)),), "has options"),
     ((Task("q", "b", "?", (), "1930", (), ((),)),), "has the answer '1930'")],
)  # fmt: skip
def test_other_tasks_are_refused(tasks, found):
    with pytest.raises(UsageError, match=found):
        score(rows(0, ["1930"]), tasks)


def test_strict_scores_are_those_of_the_record():
    """Whole discussions of the real questions by simulated agents, against the counts of `derive`."""
    tasks = benchmark("musique").make(data=benchmark_file("musique"), tasks=9)
    record = talk(tasks, BehaviouralAgent((Rates(0.4, 0.5, 0.9, 0.7),)), rounds=2)
    (data,) = derive(record).settings
    found = {s.stage: s for s in free_text_scores(record, tasks)}
    assert found["vote"].strict.k == data.vote_correct.sum()
    assert found["discussion"].strict.k == data.discussion_correct.sum() > 0
    for s in found.values():
        assert s.strict.n == 9 and s.without_words == 0 and s.lenient.k >= s.strict.k
        assert s.strict.interval == wilson(s.strict.k, 9)
    forced = talk(tasks[:3], BehaviouralAgent(), rounds=1, intervention="forced_majority")
    told = {s.stage: s for s in free_text_scores(forced, tasks)}
    assert told["discussion"].reason == SET and told["beliefs"].lenient.n == 3


# The bias trap --------------------------------------------------------------------------------------------


def trap_rows(task, first, last):
    out = [Row(task=task, round=0, agent=str(i), truth="T", private=x, public=x) for i, x in enumerate(first)]
    return out + [Row(task=task, round=1, agent=str(i), truth="T", private=z, public=y)
                  for i, (y, z) in enumerate(last)]  # fmt: skip


CASES = [
    *trap_rows("a", "CCT", [("C", "T"), ("C", "T"), ("T", "T")]),  # trapped, trapped, beliefs correct
    *trap_rows("b", "TTC", [("T", "T")] * 3),
    *trap_rows("c", "CTX", [("X", "X")] * 3),  # tie, then a third diagnosis
    *trap_rows("d", [None] * 3, [("C", "C")] * 3),  # no vote
    *trap_rows("e", "CCC", [("C", "C")] * 3),  # has no pair
]
CONTROL = dict.fromkeys("abcd", "C")


def test_the_bias_trap_rate_counts_the_controls_diagnosis_alone():
    found = {s.stage: s for s in bias_trap(frame(CASES, {}), CONTROL)}
    vote, said, mind = found["vote"], found["discussion"], found["beliefs"]
    assert (
        kn(vote.trapped) == (1, 3) and kn(vote.correct) == (1, 3) and (vote.ties, vote.unanswered) == (1, 1)
    )
    assert kn(said.trapped) == (2, 4) and kn(said.correct) == (1, 4) and said.other == 1
    assert kn(mind.trapped) == (1, 4) and kn(mind.correct) == (2, 4)
    assert vote.trapped.interval == wilson(1, 3)
    assert vote.to_json()["bias_trap_rate"]["share"] == pytest.approx(1 / 3)
    # Mutants: one minus accuracy, and a denominator without ties.
    assert vote.trapped.share not in (1 - vote.correct.share, 1 / 2)


def test_only_cases_whose_control_is_answered_right():
    found = {s.stage: s for s in bias_trap(frame(CASES, {}), CONTROL, control_right={"a", "d"})}
    assert kn(found["vote"].trapped) == (1, 1) and kn(found["discussion"].trapped) == (2, 2)
    assert found["vote"].not_counted == 2 and found["vote"].unanswered == 1


def test_a_trap_needs_a_pair():
    with pytest.raises(UsageError, match="No task"):
        bias_trap(frame(CASES, {}), {"zz": "C"})
    with pytest.raises(UsageError, match="is its correct answer"):
        bias_trap(frame(CASES, {}), {"a": "T"})


@pytest.mark.parametrize("seed", range(4))
def test_real_pairs_against_a_plain_count(seed):
    tasks = benchmark("medeinst").make(data=benchmark_file("medeinst"), tasks=6)
    control = control_diagnoses(tasks)
    assert set(control) == {t.id for t in tasks}
    record = talk(tasks, BehaviouralAgent((Rates(0.4, 0.5, 0.9, 0.4),), seed=seed), rounds=2)
    found = {s.stage: s for s in bias_trap(record, control)}
    for stage, t, column in (("vote", 0, "public"), ("discussion", 2, "public"), ("beliefs", 2, "private")):
        kinds: Counter[str] = Counter()
        for task in tasks:
            answers = record.filter((pl.col("task") == task.id) & (pl.col("round") == t))[column].to_list()
            most = max(Counter(answers).values())
            top = [a for a, n in Counter(answers).items() if n == most]
            name = {task.answer: "correct", control[task.id]: "trapped"}.get(top[0], "other")
            kinds["tie" if len(top) > 1 else name] += 1
        s = found[stage]
        there = {"trapped": s.trapped.k, "correct": s.correct.k, "tie": s.ties, "other": s.other}
        assert there == {name: kinds[name] for name in there}
        assert s.trapped.n == s.correct.n == 6


def test_agents_that_always_fall_into_the_trap():
    """The plain count above could miss a trap that never springs: here everybody names the control's diagnosis."""
    tasks = benchmark("medeinst").make(data=benchmark_file("medeinst"), tasks=6)
    rows = [
        Row(task=t.id, round=r, agent=str(i), truth=t.answer, private=x, public=x)
        for t in tasks for r in (0, 1) for i in range(5) for x in [str(t.design["control_diagnosis"])]
    ]  # fmt: skip
    assert all(
        s.trapped.share == 1.0 and s.correct.k == 0
        for s in bias_trap(frame(rows, {}), control_diagnoses(tasks))
    )
