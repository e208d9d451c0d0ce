"""Cross-checks between rows, by joins."""

from __future__ import annotations

import polars as pl

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
