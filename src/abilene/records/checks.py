"""Cross-checks between rows, by joins."""

from __future__ import annotations

import polars as pl

from abilene.records.loaded import Notes, fold
from abilene.records.schema import KEY, SETTING_PARTS

_DISCUSSION = [*SETTING_PARTS, "task", "epoch"]


def visible_disagreements(record: pl.DataFrame) -> pl.DataFrame:
    """Rows whose `observed_public` are not the public answers of the round before.

    Compared are rows that name the agents they observed, or observe everybody else, as bags of answers:
    the order in which answers were shown is not kept by every log.

    Returns
    -------
    polars.DataFrame
        The key of each such row.
    """
    given = record.filter(pl.col("observed_public").is_not_null() & (pl.col("round") > 0))
    if given.is_empty():
        return record.clear().select(KEY)
    said = record.select(
        *_DISCUSSION,
        (pl.col("round") + 1).alias("round"),
        pl.col("agent").alias("other"),
        pl.when(pl.col("round") == 0)
        .then(pl.coalesce("public", "private"))
        .otherwise("public")
        .alias("said"),
    )
    rows = given.select(*KEY, "observed", "observed_public").with_row_index("i")
    named = rows.filter(pl.col("observed").is_not_null())
    some = named.filter(pl.col("observed").list.len() > 0)
    on = [*_DISCUSSION, "round"]
    shown = (
        some.select("i", *on, pl.col("observed").alias("other"))
        .explode("other")
        .join(said, on=[*on, "other"], how="left", nulls_equal=True)
    )
    rest = rows.filter(pl.col("observed").is_null()).select("i", *on, "agent")
    others = rest.join(said, on=on, how="left", nulls_equal=True).filter(pl.col("other") != pl.col("agent"))
    mark = pl.col("said").fill_null("\0")
    expected = (
        pl.concat([shown.select("i", mark), others.select("i", mark)])
        .group_by("i")
        .agg(pl.col("said").sort().str.join("\1").alias("expected"))
    )
    bag = pl.element().fill_null("\0").sort()
    found = rows.with_columns(pl.col("observed_public").list.eval(bag).list.join("\1").alias("found"))
    joined = found.join(expected, on="i", how="left").with_columns(pl.col("expected").fill_null(""))
    return joined.filter(pl.col("found") != pl.col("expected")).select(KEY)


def answers_alike(record: pl.DataFrame, notes: Notes) -> None:
    """Note answers of one task that differ in case or space only: they count as different answers."""
    given = pl.concat(
        [
            record.select("benchmark", "task", pl.col(c).alias("answer")).unique()
            for c in ("private", "public")
        ]
    )
    given = given.unique().drop_nulls("answer")
    folded = given.with_columns(pl.col("answer").map_elements(fold, return_dtype=pl.String).alias("fold"))
    alike = (
        folded.group_by("benchmark", "task", "fold")
        .agg(pl.col("answer").sort())
        .filter(pl.col("answer").list.len() > 1)
    ).sort("task", "fold")
    if alike.height:
        one = alike.row(0, named=True)
        notes.add(
            "answers_alike",
            f"task {one['task']}: the answers {one['answer'][0]!r} and {one['answer'][1]!r}",
            "They count as different answers. If they are one, write them in one way.",
            count=alike.height,
        )


def without_self(record: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """The record without what agents are said to have seen of themselves: nobody observes itself.

    Only rows with the answers seen (`observed_public`) beside the agents seen (`observed`) are concerned; where there
    are no answers, the agent is left out when its neighbours' answers are looked up.
    """
    rows = record.with_row_index("_row").filter(
        pl.col("observed_public").is_not_null() & pl.col("observed").list.contains(pl.col("agent"))
    )
    if rows.is_empty():
        return record
    answers = record["observed_public"].to_list()
    for at, agent, seen, given in rows.select("_row", "agent", "observed", "observed_public").iter_rows():
        found = f"an agent among those it observes (agent {agent})"
        if len(seen) != len(given):
            notes.add(
                "observes_itself_unclear",
                f"{found}, and as many answers as agents are not given",
                "Its own answer cannot be told from the others'; all are counted. Mend the list.",
                field="observed",
                fault=True,
            )
            continue
        notes.add("observes_itself", found, "Its own answer is left out.", field="observed")
        answers[at] = [a for a, other in zip(given, seen, strict=True) if other != agent]
    return record.with_columns(pl.Series("observed_public", answers, dtype=pl.List(pl.String)))


#: Texts that people write where there is no answer.
_NOTHING = ("nan", "na", "n/a", "null", "none", "-", "?", "missing")


def suspicious(record: pl.DataFrame, notes: Notes) -> None:
    """Note what is probably not meant: marks for a missing answer read as answers, and rounds that start at 1."""
    for name in ("private", "public"):
        marks = record.filter(pl.col(name).str.strip_chars().str.to_lowercase().is_in(_NOTHING))
        marks = marks.filter(pl.col(name) != pl.col("truth").fill_null(""))
        if marks.height:
            notes.add(
                "looks_missing",
                f"the answer {marks[name][0]!r} (task {marks['task'][0]}, agent {marks['agent'][0]})",
                "It counts as an answer. Leave the field empty where there is none.",
                field=name,
                count=marks.height,
            )
    late = record.group_by(SETTING_PARTS).agg(pl.col("round").min()).filter(pl.col("round") > 0)
    if late.height:
        notes.add(
            "no_round_0",
            f"a setting whose first round is {late['round'][0]}",
            "Round 0 is the independent answer; without it there is no vote, and the first round's rows are dropped. "
            "If the rounds start at 1, count them from 0.",
            field="round",
            count=late.height,
        )
