"""The events log: `events.jsonl` with an optional `events.meta.json`, one object a line, append-only.

How its fields become columns of the record:

===============================  =================================================================
events                           record
===============================  =================================================================
task_id, agent (or seat), round  task, agent, round
branch A0, C0, C4; any other     instruction A, B, C; the same name
branch r0 (round 0)              one row for every branch of the same run; folded again on writing
share 2                          share P2
probe_ok true, false or null     private_source probe, joint; at round 0 (null): round0
neighbours, nb_public            observed, observed_public
answer, raw                      truth, public_raw
abilene {...}                    columns the format has no field for, written by this package
anything else                    extra
===============================  =================================================================

A null ``probe_ok`` after round 0 says that no probe was asked: the private answer can only be the line of the
joint reply. Where ``probe_ok`` is absent the source of the private answer is unknown (null).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from abilene.errors import InputError
from abilene.records.adapters._columns import OWN_SETTING, RUN_FIELDS, SHARED_BRANCH, batch_frame
from abilene.records.adapters._lines import LineReader
from abilene.records.adapters._write import write_events
from abilene.records.loaded import Loaded, Notes, conform, drop_repeats, plain_id
from abilene.records.schema import SETTING_PARTS, Source


def find(path: Path) -> Path | None:
    """The events log at a path: the file itself, or `events.jsonl` in the folder."""
    if path.is_dir():
        path = path / "events.jsonl"
    return path if path.is_file() else None


def read_events(path: str | Path, *, text: bool = True) -> Loaded:
    """Read an events log.

    Parameters
    ----------
    path : str or Path
        The file, or a folder that holds `events.jsonl`. Beside it `events.meta.json` (for `x.jsonl`:
        `x.meta.json`) and `items.json` or `items.jsonl` are read where they exist.
    text : bool
        False leaves out raw replies, note texts and `extra`: enough for estimating, and lighter. Such a
        record cannot be written back without loss.

    Returns
    -------
    Loaded
        The key (task_id, agent, round, branch) may repeat: the last row wins, and repeats that disagree are
        reported. A line that cannot be read is left out and reported.

    Raises
    ------
    InputError
        There is no such log, it is empty, or none of its lines is an event.
    """
    path = Path(path)
    file = find(path)
    if file is None:
        raise InputError(path, "no events log there", "Give an events.jsonl file or a folder that holds one.")
    notes = Notes(file)
    reader = LineReader(file, notes)
    kinds = {"int": 0, "text": 0, "float": 0}
    meta, items = _meta(file, notes), _items(file, notes)
    filled = [p for p in RUN_FIELDS if _setting_part(meta, p) is not None]
    filled += [] if items is None else ["answer"]
    frames = [
        batch_frame(b, reader.foreign, notes, text=text, kinds=kinds, filled=filled) for b in reader if b.rows
    ]
    if kinds["float"] or (kinds["int"] and kinds["text"]):
        count = kinds["float"] + min(kinds["int"], kinds["text"])
        notes.add(
            "mixed_agent_ids",
            'agent ids written in several ways (1, 1.0, "1")',
            "They were read as one agent.",
            field="agent",
            count=count,
        )
    if reader.foreign:
        notes.add(
            "unknown_field",
            f"fields the format does not know: {', '.join(reader.foreign[:10])}",
            "They are kept when the log is converted, and not used.",
            count=len(reader.foreign),
        )
    df = pl.concat(frames)
    del frames
    df = _models(_sources(df, notes))
    setting = [p for p in SETTING_PARTS if p != "instruction"]
    for part in setting:
        value = _setting_part(meta, part)
        if value is not None:
            df = df.with_columns(pl.col(part).fill_null(value))
    if items is not None:
        df = _with_items(df, items)
    df = drop_repeats(
        df,
        [*setting, "instruction", "task", "epoch", "round", "agent"],
        ["private", "public", "truth", "private_source", "observed", "observed_public", "share"],
        notes,
    )
    df = _expand(df, setting)
    return Loaded(
        record=conform(df), warnings=notes.warnings, faults=notes.faults, metadata={str(file): meta}
    )


def _sources(df: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    no_probe = df.filter((pl.col("probe") == 2) & pl.col("private").is_not_null())
    notes.add(
        "no_probe",
        "probe_ok is null after round 0: no probe was asked",
        "The private answer counts as one of the joint reply; estimates leave such rows out by default.",
        line=_low(no_probe["line"]),
        field="probe_ok",
        count=no_probe.height,
    )
    unknown = df.filter(pl.col("probe").is_null() & (pl.col("round") > 0) & pl.col("private").is_not_null())
    notes.add(
        "source_unknown",
        "no probe_ok: whether the private answer comes from a probe is unknown",
        "The private answer is used as it is.",
        line=_low(unknown["line"]),
        field="probe_ok",
        count=unknown.height,
    )
    source = (
        pl.when(pl.col("round") == 0)
        .then(pl.lit(Source.ROUND0))
        .when(pl.col("probe") == 1)
        .then(pl.lit(Source.PROBE))
        .when(pl.col("probe").is_not_null())
        .then(pl.lit(Source.JOINT))
    )
    return df.with_columns(pl.coalesce("source", source).alias("private_source")).drop("probe", "source")


def _low(lines: pl.Series) -> int | None:
    low = lines.min()
    return low if isinstance(low, int) else None


def _models(df: pl.DataFrame) -> pl.DataFrame:
    """One name for a team of several models; each agent keeps its own in `agent_model`."""
    if df["model"].n_unique() < 2:
        return df
    call = ["task", "epoch", "branch", "round", "topology", "intervention", *OWN_SETTING]
    named = df.filter(pl.col("model").is_not_null())
    by_agent = named.group_by([*call, "agent"]).agg(pl.col("model").n_unique().alias("n"))
    by_round = named.group_by(call).agg(pl.col("model").n_unique().alias("n"))
    if by_agent["n"].max() != 1 or by_round["n"].max() == 1:
        return df  # several runs in one file, each of one model
    team = [c for c in call if c not in ("branch", "round")]
    names = df.group_by(team).agg(
        pl.col("model").drop_nulls().unique().sort().str.join("+").alias("team_model")
    )
    df = df.join(names, on=team, how="left", nulls_equal=True, maintain_order="left")
    return df.with_columns(
        pl.coalesce("agent_model", "model").alias("agent_model"), pl.col("team_model").alias("model")
    ).drop("team_model")


def _meta(file: Path, notes: Notes) -> dict[str, object]:
    path = file.with_name(file.stem + ".meta.json")
    if not path.is_file():
        return {}
    try:
        meta = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as e:
        notes.add("bad_meta", f"{path.name} is not JSON ({str(e)[:80]})", "It was not used.", fault=True)
        return {}
    if not isinstance(meta, dict):
        notes.add("bad_meta", f"{path.name} holds a {type(meta).__name__}", "It was not used.", fault=True)
        return {}
    return meta


_ALIASES = {"benchmark": ("benchmark", "bench"), "reasoning": ("reasoning", "reasoning_effort")}


def _setting_part(meta: Mapping[str, object], part: str) -> str | None:
    """A setting part from the run's arguments, which may lie one level down."""
    nested = [v for k in ("setting", "args", "arguments") if isinstance(v := meta.get(k), dict)]
    for level in (*nested, meta):
        for name in _ALIASES.get(part, (part,)):
            value = level.get(name)
            if isinstance(value, bool):
                return "on" if value else "off"
            if isinstance(value, str | int | float) and str(value).strip():
                return str(value)
    return None


def _items(file: Path, notes: Notes) -> pl.DataFrame | None:
    """The run's items, where the folder holds them: task, kind, answer, p_design."""
    for name in ("items.jsonl", "items.json"):
        path = file.with_name(name)
        if path.is_file():
            break
    else:
        return None
    try:
        text = path.read_bytes().decode("utf-8-sig")
        if path.suffix == ".jsonl":
            items = [json.loads(line) for line in text.split("\n") if line.strip()]
        else:
            items = json.loads(text)
        rows = [
            (
                plain_id(item["id"]),
                None if item.get("kind") is None else str(item["kind"]),
                None if item.get("answer") is None else str(item["answer"]),
                (item.get("design") or {}).get("p_design"),
            )
            for item in items
        ]
        text_column = dict.fromkeys(("task", "kind", "answer"), pl.String)
        table = pl.DataFrame(rows, schema={**text_column, "p_design": pl.Float64}, orient="row")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
        notes.add("bad_items", f"{path.name} cannot be read ({str(e)[:80]})", "It was not used.", fault=True)
        return None
    return table.unique("task", keep="last")


def _with_items(df: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """Benchmark, answer key and designed accuracy from the items, where the log leaves them open."""
    df = df.join(items, on="task", how="left", maintain_order="left")
    return df.with_columns(
        pl.coalesce("benchmark", "kind").alias("benchmark"),
        pl.coalesce("truth", "answer").alias("truth"),
        pl.coalesce("designed_accuracy", "p_design").alias("designed_accuracy"),
    ).drop("kind", "answer", "p_design")


def _expand(df: pl.DataFrame, setting: list[str]) -> pl.DataFrame:
    """Give every branch of a run its copy of the shared round 0."""
    shared = (pl.col("branch") == SHARED_BRANCH) & (pl.col("round") == 0)
    first, rest = df.filter(shared), df.filter(~shared)
    if first.is_empty():
        return df
    if rest.is_empty():
        return df.with_columns(pl.when(~shared).then("instruction").alias("instruction"))
    branches = rest.select([*setting, pl.col("instruction").alias("to")]).unique(maintain_order=True)
    # A part that no row of round 0 names is taken from the run it belongs to.
    silent = [p for p in setting if first[p].is_null().all()]
    on = [p for p in setting if p not in silent]
    columns = first.columns
    if on:
        first = first.drop(silent).join(branches, on=on, how="left", nulls_equal=True, maintain_order="left")
    else:
        first = first.drop(silent).join(branches, how="cross")
    first = first.select(*columns, "to")
    first = first.with_columns(pl.col("to").alias("instruction")).drop("to")
    own = rest.filter(pl.col("round") == 0)
    if own.height:
        key = [*setting, "instruction", "task", "epoch", "round", "agent"]
        first = first.join(own.select(key), on=key, how="anti", nulls_equal=True)
    return pl.concat([first, rest.select(first.columns)])


__all__ = ["find", "read_events", "write_events"]
