import asyncio

import polars as pl
import pytest
from _pipeline import hidden_profile

from abilene.analysis.manipulation import (
    ACCURACY_TOLERANCE,
    LEAST_SHARE,
    MOST_OFF_RULE,
    checks_by_setting,
    gate,
)
from abilene.rates import Rates
from abilene.records.derive import derive
from abilene.records.schema import Row, frame
from abilene.seeds import uniform
from abilene.tasks.hidden_profile import make_tasks
from abilene.team.call import Completion
from abilene.team.protocol import Protocol, discuss


def checks(record):
    (found,) = checks_by_setting(record, derive(record))
    return {c.name: c for c in found}, gate(found)


@pytest.fixture(scope="module")
def counting():
    return hidden_profile(Rates(0.4, 0.4, 0.9, 0.8), seed=5, per_level=5)


def test_a_counting_agent_passes(counting):
    found, verdict = checks(counting)
    assert verdict == "pass"
    assert found["independent accuracy at p = 0.4"].share == pytest.approx(0.4)
    assert found["picks the candidate favored in view"].share == 1
    assert found["counts right"].share == 1


def test_a_guessing_agent_fails(counting):
    """Coin flips in round 0 of 20 tasks: 25 answers at p = 0 are half correct, far outside 0 ± .1. That a fair coin
    passes all four accuracy checks and the picking check has probability below 1e-12."""
    guess = pl.Series([uniform(1, i) < 0.5 for i in range(counting.height)])
    options = counting.group_by("task").agg(pl.col("view_favors").unique().sort().alias("names"))
    record = counting.join(options, on="task", maintain_order="left")
    drawn = pl.when(guess).then(pl.col("names").list.first()).otherwise(pl.col("names").list.last())
    record = record.with_columns(
        pl.when(pl.col("round") == 0).then(drawn).otherwise("private").alias("private")
    )
    found, verdict = checks(record.drop("names"))
    assert verdict == "fail"
    assert found["picks the candidate favored in view"].outcome == "fail"
    assert found["counts right"].outcome == "pass"


def test_reversed_answers_fail(counting):
    other = counting.with_columns(
        pl.when(pl.col("round") == 0)
        .then(pl.when(pl.col("private") == pl.col("truth")).then(pl.lit("nobody")).otherwise("truth"))
        .otherwise("private")
        .alias("private")
    )
    assert checks(other)[1] == "fail"


def test_missing_answers_are_not_wrong_answers(counting):
    """Half of the round-0 answers lost leaves the shares where they were."""
    lost = counting.with_columns(
        pl.when((pl.col("round") == 0) & pl.col("agent").is_in(["0", "1"]))
        .then(None)
        .otherwise("private")
        .alias("private")
    )
    found, _ = checks(lost)
    assert found["picks the candidate favored in view"].share == 1
    assert found["picks the candidate favored in view"].n == 60


def test_few_rows_are_undecided_not_failed():
    rows = [
        Row(
            task="t",
            round=0,
            agent=str(i),
            truth="x",
            private="y",
            public="y",
            designed_accuracy=0.2,
            view_favors="y",
        )
        for i in range(3)
    ]
    found, verdict = checks(frame(rows, {}))
    assert found["independent accuracy at p = 0.2"].outcome == "undecided"
    assert found["counts right"].outcome == "not applicable"
    assert found["counts right"].share is None
    assert verdict == "undecided"


def test_no_design_no_checks():
    record = frame([Row(task="t", round=0, agent="1", truth="x", private="x", public="x")], {})
    assert checks(record) == ({}, "not applicable")


# Statements -------------------------------------------------------------------------------------------------


def of_evidence(call):
    """Counts the findings that it can read, and says in public, in private and to the probe what they support."""
    lines = {
        line for line in call.user.splitlines() if line.startswith(("- ", "[P")) and " says: " not in line
    }
    lines = {line.partition("] ")[2] or line[2:].partition(" (put there by")[0] for line in lines}
    a, b = call.metadata["options"]
    n = {o: sum(o in line for line in lines) for o in (a, b)}
    best = max(n, key=n.get)
    shared = call.metadata.get("shared", ())
    share = next(
        (i for i in ("P1", "P2", "P3", "P4", "P5") if i not in shared and f"[{i}]" in call.user), "NONE"
    )
    said = {"COUNT": f"{a}={n[a]} {b}={n[b]}", "SHARE": share}
    return "\n".join(f"{line.tag}: {said.get(line.tag, best)}" for line in call.format)


def of_coins(call):
    """Counts right and believes what it counts, and states the other candidate in a third of the discussion rounds."""
    reply = of_evidence(call)
    key = (call.metadata["task"], call.agent, call.round)
    if call.kind == "public" and uniform(3, *key) < 1 / 3:
        a, b = call.metadata["options"]
        lines = dict(line.split(": ", 1) for line in reply.splitlines())
        lines["PUBLIC"] = b if lines["PUBLIC"] == a else a
        reply = "\n".join(f"{k}: {v}" for k, v in lines.items())
    return reply


def record_of(answer, *, tasks=None, benchmark="hidden_profile", **options):
    async def ask(call):
        return Completion(answer(call))

    rows = []
    for task in make_tasks(per_level=15, seed=2) if tasks is None else tasks:
        rows += asyncio.run(discuss(task, ask, Protocol(seed=2, **options)))
    return frame(rows, {"benchmark": benchmark})


@pytest.mark.parametrize("intervention", ["none", "transparent", "forced_majority"])
def test_honest_agents_that_follow_evidence_pass(intervention):
    """They change their minds as notes arrive, and say so at once: off-rule against the answer on entering."""
    record = record_of(of_evidence, intervention=intervention)
    (data,) = derive(record).settings
    found, verdict = checks(record)
    assert verdict == "pass"
    assert found["off-rule"].share == 0
    if intervention != "forced_majority":
        assert data.rows.off_rule == data.rows.off_rule_own > 0.1 * data.rows.used
        assert data.vote_correct.mean() == 0.25
        assert data.discussion_correct.mean() > 0.8  # discussion pays, and honesty is the reason


def test_agents_that_say_what_nobody_thinks_fail():
    """A third of 900 statements: that fewer than .15 of them are off-rule has probability below 1e-12."""
    found, verdict = checks(record_of(of_coins))
    assert (verdict, found["off-rule"].outcome) == ("fail", "fail")


def test_bounds_are_the_documented_ones():
    assert (ACCURACY_TOLERANCE, LEAST_SHARE, MOST_OFF_RULE) == (0.10, 0.90, 0.10)


def test_on_medeinst_the_checks_of_the_design_are_for_information():
    """A guessing agent fails every check of the design; the gate rests on its statements alone."""
    record = record_of(of_coins).with_columns(
        pl.when(pl.col("round") == 0).then(pl.lit("nobody")).otherwise("private").alias("private")
    )
    assert checks(record)[1] == "fail"
    found, _ = checks(record.with_columns(benchmark=pl.lit("medeinst")))
    assert {name for name, c in found.items() if c.binding} == {"off-rule"}
    assert found["picks the candidate favored in view"].outcome == "fail"
    honest = record_of(of_evidence).with_columns(benchmark=pl.lit("medeinst"))
    assert checks(honest)[1] == "pass"
