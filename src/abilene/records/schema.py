"""The record, schema v1: one row per agent and round. Everything that produces or reads rows meets here.

Answers are option texts of the task (or canonical opinions, where answers are free text). An answer that is
missing is null and its status says why; null never means "wrong".
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

import polars as pl

SCHEMA_VERSION = 1


class Status(StrEnum):
    """What became of one reply. Only `OK` and `MULTIPLE` carry an answer."""

    OK = "ok"
    MULTIPLE = "multiple"  # several answers given; the last one counts, flagged
    MISSING = "missing"  # no answer in the reply
    TRUNCATED = "truncated"  # cut by the length limit before an answer
    REFUSED = "refused"
    AMBIGUOUS = "ambiguous"  # names several options and chooses none
    OFF_LIST = "off_list"  # an answer that is none of the options
    FAILED = "failed"  # the call itself failed
    NOT_ASKED = "not_asked"  # a round in which this answer was not asked for


ANSWERED = (Status.OK, Status.MULTIPLE)


class Source(StrEnum):
    """Where the private answer of a row comes from."""

    PROBE = "probe"  # a call of its own on the same input
    JOINT = "joint"  # the PRIVATE line of the public reply, because the probe failed
    ROUND0 = "round0"  # the independent answer: private and public are the same


#: The parts of a setting, in the order of grouping and display.
SETTING_PARTS: tuple[str, ...] = (
    "benchmark",
    "model",
    "instruction",
    "reasoning",
    "intervention",
    "topology",
    "team",
    "setting",
)

#: Columns of the record and their polars types. A missing column reads as all null.
COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {
    # setting
    **dict.fromkeys(SETTING_PARTS, pl.String),
    # key
    "task": pl.String,
    "epoch": pl.Int32,
    "round": pl.Int32,
    "agent": pl.String,
    # behaviour
    "private": pl.String,
    "private_status": pl.String,
    "private_source": pl.String,
    "joint_private": pl.String,  # the PRIVATE line of the public reply, where it could be read
    "public": pl.String,
    "public_status": pl.String,
    "public_set": pl.Boolean,  # true: an intervention put this statement in the place of the agent's (see public_raw)
    "public_reply_status": pl.String,  # then: status of the statement in the agent's own reply, which was not used
    "truth": pl.String,
    # what the agent saw of others: agents observed (null: everybody else) and, where it is not simply their
    # public answers of the round before, the answers this very call saw (nulls inside: seen as missing)
    "observed": pl.List(pl.String),
    "observed_public": pl.List(pl.String),
    # disclosure: note put on the table by this row (id in the agent's own notes, such as P1; null: none)
    "share": pl.String,
    "share_status": pl.String,
    "share_about": pl.String,
    "share_text": pl.String,
    # design and manipulation checks
    "designed_accuracy": pl.Float64,  # p of the task by construction, null where none is designed
    "view_favors": pl.String,  # option best supported by what the agent can see; null: none or not countable
    "count_correct": pl.Boolean,  # did the agent count its findings right (round 0, hidden profile)
    # text and accounting
    "public_raw": pl.String,
    "private_raw": pl.String,
    "public_error": pl.String,
    "private_error": pl.String,
    "agent_model": pl.String,  # in mixed teams
    "input_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "reasoning_tokens": pl.Int64,
    "extra": pl.String,  # JSON object of fields of a foreign log that have no column
}

KEY: tuple[str, ...] = (*SETTING_PARTS, "task", "epoch", "round", "agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One agent in one round, as a discussion produces it. Field meanings: see `COLUMNS`."""

    task: str
    round: int
    agent: str
    truth: str | None
    epoch: int = 1
    private: str | None = None
    private_status: str | None = None
    private_source: str | None = None
    joint_private: str | None = None
    public: str | None = None
    public_status: str | None = None
    public_set: bool | None = None
    public_reply_status: str | None = None
    observed: tuple[str, ...] | None = None
    observed_public: tuple[str | None, ...] | None = None
    share: str | None = None
    share_status: str | None = None
    share_about: str | None = None
    share_text: str | None = None
    designed_accuracy: float | None = None
    view_favors: str | None = None
    count_correct: bool | None = None
    public_raw: str | None = None
    private_raw: str | None = None
    public_error: str | None = None
    private_error: str | None = None
    agent_model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    extra: str | None = None


ROW_FIELDS: tuple[str, ...] = tuple(f.name for f in fields(Row))


def frame(rows: list[Row], setting: dict[str, str | None]) -> pl.DataFrame:
    """Rows of one setting as a record.

    Parameters
    ----------
    rows : list of Row
        Any number, also none.
    setting : dict
        Setting parts by name; parts left out are null.

    Returns
    -------
    polars.DataFrame
        All columns of `COLUMNS`, in order.
    """
    data: dict[str, list[object]] = {name: [getattr(row, name) for row in rows] for name in ROW_FIELDS}
    for name in ("observed", "observed_public"):
        data[name] = [None if v is None else list(v) for v in data[name]]  # type: ignore[call-overload]
    body = pl.DataFrame(data, schema={n: COLUMNS[n] for n in ROW_FIELDS})
    return body.with_columns(
        pl.lit(setting.get(part), dtype=pl.String).alias(part) for part in SETTING_PARTS
    ).select(*COLUMNS)


def is_simulated(model: str | None) -> bool:
    """True where a model name stands for simulated agents, whose results must be labelled as such."""
    return model is not None and any(
        part.strip().startswith(("behavioural/", "theory/")) for part in model.split("+")
    )
