"""Simulated teams (`abilene.theory.agents`) as a record, so that every estimator can be tried on them."""

from __future__ import annotations

import polars as pl

from abilene.records.loaded import conform
from abilene.records.schema import Source, Status
from abilene.theory.agents import Rows


def record_of(rows: Rows, *, topology: str | None = None) -> pl.DataFrame:
    """Record of simulated teams, labelled as simulated by its model name ``theory/agents``.

    Parameters
    ----------
    rows : Rows
        From ``simulate(..., records=True).rows()``.
    topology : str, optional
        Setting part.

    Examples
    --------
    >>> from abilene.rates import Rates
    >>> from abilene.theory.agents import simulate
    >>> team = simulate(3, 1, Rates(0, 0, 1, 1), accuracy=0.5, replicates=2, records=True)
    >>> record_of(team.rows()).shape[0]
    12
    """
    first = pl.col("round") == 0
    df = pl.DataFrame(
        {
            "task": rows.task,
            "round": rows.round,
            "agent": rows.agent,
            "private": rows.private,
            "public": rows.public,
            "truth": rows.truth,
            "observed": [None if seen is None else list(seen) for seen in rows.observed],
        },
        schema_overrides={"observed": pl.List(pl.String)},
    ).with_columns(
        pl.lit("theory/agents").alias("model"),
        pl.lit(topology, dtype=pl.String).alias("topology"),
        pl.lit(1).alias("epoch"),
        pl.lit(str(Status.OK)).alias("private_status"),
        pl.lit(str(Status.OK)).alias("public_status"),
        pl.when(first)
        .then(pl.lit(str(Source.ROUND0)))
        .otherwise(pl.lit(str(Source.PROBE)))
        .alias("private_source"),
    )
    return conform(df)
