"""Nobody observes itself, in any format; and answers that differ in case or space are said to."""

import polars as pl
import pytest

from abilene.records.adapters.events import read_events, write_events
from abilene.records.adapters.table import read_table
from abilene.records.derive import derive

LINES = """task,round,agent,private,public,truth,observed
t,0,1,x,x,x,
t,0,2,y,y,x,
t,0,3,y,y,x,
t,1,1,x,y,x,1;2
t,1,2,y,y,x,1;2;3
t,1,3,x,x,x,1;3
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "self.csv"
    path.write_text(LINES)
    return read_table(path).record


def counted(record):
    data = derive(record).settings[0]
    return data.counts, data.rows


def test_events_and_table_agree_on_agents_that_list_themselves(table, tmp_path):
    write_events(table, tmp_path / "events")
    again = read_events(tmp_path / "events").record
    # By hand: agent 1 sees y (against x) and states it; agent 2 sees x, y; agent 3 sees x (against y), states x.
    assert counted(table)[0].opportunities == 2
    assert counted(table)[0].withheld == 2
    assert counted(again) == counted(table)


def test_a_foreign_log_in_which_an_agent_sees_itself(table):
    own = table.with_columns(
        pl.when(pl.col("round") == 1)
        .then(pl.when(pl.col("agent") == "1").then(pl.lit("x;y")).otherwise(pl.lit("x;y;y")).str.split(";"))
        .alias("observed_public")
    ).with_columns(
        pl.when(pl.col("agent") == "3")
        .then(pl.lit(["x", "y"]))
        .otherwise("observed_public")
        .alias("observed_public")
    )
    derived = derive(own)
    assert derived.settings[0].counts == counted(table)[0]
    assert [w.count for w in derived.warnings if w.kind == "observes_itself"] == [3]


def test_lists_of_different_length_are_a_fault(table):
    odd = table.with_columns(
        pl.when(pl.col("round") == 1).then(pl.lit(["x"])).otherwise(None).alias("observed_public")
    )
    assert "observes_itself_unclear" in [f.kind for f in derive(odd).faults]


def test_answers_that_differ_in_case_or_space_are_said_to(table):
    spaced = table.with_columns(
        pl.when(pl.col("agent") == "2").then(pl.lit("y ")).otherwise("public").alias("public")
    )
    assert "answers_alike" in [w.kind for w in derive(spaced).warnings]
    assert "answers_alike" not in [w.kind for w in derive(table).warnings]


def test_marks_for_missing_and_late_rounds_are_said_to(table):
    marked = table.with_columns(
        pl.when(pl.col("agent") == "2").then(pl.lit("N/A")).otherwise("private").alias("private")
    )
    assert "looks_missing" in [w.kind for w in derive(marked).warnings]
    late = table.with_columns(pl.col("round") + 1)
    assert "no_round_0" in [w.kind for w in derive(late).warnings]
    assert not {"looks_missing", "no_round_0"} & {w.kind for w in derive(table).warnings}
