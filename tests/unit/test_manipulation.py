import polars as pl
import pytest
from _pipeline import hidden_profile

from abilene.analysis.manipulation import checks_by_setting, gate
from abilene.rates import Rates
from abilene.records.derive import derive
from abilene.records.schema import Row, frame
from abilene.seeds import uniform


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
