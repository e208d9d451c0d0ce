"""Columns of the record from one batch of event rows."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import UNSET

from abilene.records.adapters._lines import FIELDS, Batch, Own
from abilene.records.loaded import Notes, plain_id
from abilene.records.schema import Status

#: Instruction names of the format and of the record.
INSTRUCTIONS = {"A0": "A", "C0": "B", "C4": "C"}
SHARED_BRANCH = "r0"
BOOKKEEPING = "$events"  # key inside `extra` for what only lossless writing needs

RUN_FIELDS = ("topology", "model", "intervention")
OWN_SETTING = ("benchmark", "reasoning", "team", "setting")
OWN_COLUMNS = tuple(
    f.name
    for f in msgspec.structs.fields(Own)
    if f.name not in (*OWN_SETTING, "epoch", "instruction", "private_source")
)
_OWN_TYPES: dict[str, Any] = {
    "designed_accuracy": pl.Float64,
    "public_set": pl.Boolean,
    **dict.fromkeys(("input_tokens", "output_tokens", "reasoning_tokens"), pl.Int64),
}
_SHARE = re.compile(r"[Pp](\d+)")


class _Extra:
    """What lossless writing needs beyond the columns, by row of a batch."""

    def __init__(self, batch: Batch) -> None:
        self.changed: dict[int, dict[str, object]] = dict(batch.originals)
        self.absent: dict[int, list[str]] = {}

    def original(self, i: int, name: str, value: object) -> None:
        self.changed.setdefault(i, {}).setdefault(name, value)


def batch_frame(
    batch: Batch,
    foreign: list[str],
    notes: Notes,
    *,
    text: bool,
    kinds: dict[str, int],
    filled: Collection[str] = (),
) -> pl.DataFrame:
    """One batch as a frame, with line numbers.

    `kinds` counts how agent ids are written; `filled` names the fields whose nulls will be filled from
    elsewhere, so that the null of the file is remembered.
    """
    rows, extra = batch.rows, _Extra(batch)
    column: dict[str, list[Any]] = {}
    for name in FIELDS:
        values = list(map(attrgetter(name), rows))
        if UNSET in values:
            if text:
                for i, v in enumerate(values):
                    if v is UNSET:
                        extra.absent.setdefault(i, []).append(name)
            if name == "agent":
                seats = [r.seat for r in rows]
                values = [s if v is UNSET else v for v, s in zip(values, seats, strict=True)]
            elif name != "probe_ok":
                values = [None if v is UNSET else v for v in values]
        if text and name in filled:
            for i, v in enumerate(values):
                if v is None:
                    extra.original(i, name, None)
        column[name] = values
    if text:
        # What the writer would otherwise work out from the other columns.
        for i, r in enumerate(rows):
            if r.branch == SHARED_BRANCH:
                for name in RUN_FIELDS:
                    if getattr(r, name) is None:
                        extra.original(i, name, None)
            if r.nb_public is None and isinstance(r.neighbours, list):
                extra.original(i, "nb_public", None)
            if r.probe_ok is True and (r.private is None or r.private is UNSET):
                extra.original(i, "probe_ok", True)

    data: dict[str, pl.Series] = {
        "line": pl.Series(batch.lines, dtype=pl.UInt32),
        "task": _ids(column["task_id"], "task_id", extra, None),
        "agent": _ids(column["agent"], "agent", extra, kinds),
        "round": pl.Series(column["round"], dtype=pl.Int32),
        "branch": pl.Series(column["branch"], dtype=pl.String),
        "share": _share(column["share"], extra),
        "probe": _probe(column["probe_ok"], column["round"], extra),
        "observed": _observed(column["neighbours"], extra, kinds),
        "observed_public": _seen(column["nb_public"], extra, notes, batch.lines),
        "share_about": pl.Series(column["share_about"], dtype=pl.String),
    }
    for name in RUN_FIELDS:
        data[name] = pl.Series(column[name], dtype=pl.String)
    for name, to in (("private", "private"), ("public", "public"), ("answer", "truth")):
        data[to] = _answers(column[name], name, extra, notes, batch.lines)
    counted = [None if r.count_correct is UNSET else r.count_correct for r in rows]
    data["count_correct"] = pl.Series(counted, dtype=pl.Boolean)
    data |= _own([r.abilene for r in rows])
    if text:
        data["share_text"] = pl.Series(column["share_text"], dtype=pl.String)
        data["public_raw"] = pl.Series(column["raw"], dtype=pl.String)
        data["extra"] = pl.Series(_extra_json(batch, foreign, extra), dtype=pl.String)
    df = pl.DataFrame(data)
    renamed = pl.col("branch").replace(INSTRUCTIONS)
    df = df.with_columns(
        pl.when("has_instruction").then("instruction").otherwise(renamed).alias("instruction"),
        *(
            pl.col(f"{x}_status").fill_null(
                pl.when(pl.col(x).is_null()).then(pl.lit(Status.MISSING)).otherwise(pl.lit(Status.OK))
            )
            for x in ("private", "public")
        ),
    )
    return df.drop("has_instruction", *([] if text else ["private_raw"]))


def _ids(values: list[Any], name: str, extra: _Extra, kinds: dict[str, int] | None) -> pl.Series:
    try:
        out = pl.Series(values, dtype=pl.Int64, strict=True).cast(pl.String)
        if kinds is not None:
            kinds["int"] += len(values)
            return out
    except (TypeError, OverflowError):
        pass
    if name == "task_id":
        try:
            return pl.Series(values, dtype=pl.String, strict=True)
        except TypeError:
            pass
    ids = []
    for i, v in enumerate(values):
        plain = v if name == "task_id" and isinstance(v, str) else plain_id(v)
        if kinds is not None:
            kinds["float" if isinstance(v, float) else "int" if isinstance(v, int) else "text"] += (
                not isinstance(v, str) or plain.isdecimal()
            )
        # The writer turns decimal ids of agents into numbers; tasks stay text.
        written: object = int(plain) if name == "agent" and is_int(plain) else plain
        if type(written) is not type(v) or written != v:
            extra.original(i, name, v)
        ids.append(plain)
    return pl.Series(ids, dtype=pl.String)


def is_int(text: str) -> bool:
    return text.isascii() and text.isdecimal() and (text == "0" or text[0] != "0") and len(text) < 19


def _answers(values: list[Any], name: str, extra: _Extra, notes: Notes, lines: list[int]) -> pl.Series:
    try:
        out = pl.Series(values, dtype=pl.String, strict=True)
    except TypeError:
        texts = []
        for i, v in enumerate(values):
            if v is not None and not isinstance(v, str):
                extra.original(i, name, v)
                notes.add(
                    "answer_not_text", f"the answer {v!r}", "It is read as text.", line=lines[i], field=name
                )
                v = json.dumps(v) if isinstance(v, bool) else plain_id(v)
            texts.append(v)
        out = pl.Series(texts, dtype=pl.String)
    blank = out.str.strip_chars() == ""
    if blank.any():
        for i in blank.arg_true():
            extra.original(i, name, values[i])
        out = out.to_frame("x").select(pl.when(~blank.fill_null(False)).then("x").alias("x")).to_series()
    return out


def _share(values: list[Any], extra: _Extra) -> pl.Series:
    out: list[str | None] = []
    for i, v in enumerate(values):
        if v is None:
            out.append(None)
        elif type(v) is int and v >= 0:
            out.append(f"P{v}")
        else:
            found = _SHARE.fullmatch(v.strip()) if isinstance(v, str) else None
            out.append(f"P{int(found.group(1))}" if found else None)
            extra.original(i, "share", v)
    return pl.Series(out, dtype=pl.String)


def _probe(values: list[Any], rounds: list[int], extra: _Extra) -> pl.Series:
    """1 probe, 0 joint, 2 no probe asked, null unknown; at round 0 there is nothing to know."""
    out: list[int | None] = []
    for i, (v, t) in enumerate(zip(values, rounds, strict=True)):
        if t == 0:
            out.append(None)
            if v is not None and v is not UNSET:
                extra.original(i, "probe_ok", v)
        elif v is None:
            out.append(2)
            extra.original(i, "probe_ok", None)
        else:
            out.append(None if v is UNSET else int(v))
    return pl.Series(out, dtype=pl.Int8)


def _lists(values: list[Any], kind: type[pl.DataType]) -> pl.Series:
    """A column of lists made from one flat column, many times faster than list by list."""
    flat = pl.Series([x for v in values if v for x in v], dtype=kind, strict=True).cast(pl.String)
    size = np.array([-1 if v is None else len(v) for v in values], dtype=np.int64)
    owner = np.repeat(np.arange(size.size, dtype=np.uint32), np.maximum(size, 0))
    lists = pl.DataFrame({"i": owner, "v": flat}).group_by("i", maintain_order=True).agg("v")
    out = pl.DataFrame({"i": np.arange(size.size, dtype=np.uint32), "size": size})
    out = out.join(lists, on="i", how="left", maintain_order="left")
    nobody = pl.lit([], dtype=pl.List(pl.String))
    return out.select(pl.when(pl.col("size") == 0).then(nobody).otherwise("v").alias("v")).to_series()


def _observed(values: list[Any], extra: _Extra, kinds: dict[str, int]) -> pl.Series:
    try:
        return _lists(values, pl.Int64)
    except (TypeError, OverflowError):
        pass
    lists: list[list[str] | None] = []
    for i, v in enumerate(values):
        if v is None:
            lists.append(None)
            continue
        ids = [plain_id(x) for x in v]
        if [int(x) if is_int(x) else x for x in ids] != v or any(type(x) is float for x in v):
            extra.original(i, "neighbours", v)
        kinds["float"] += sum(type(x) is float for x in v)
        lists.append(ids)
    return pl.Series(lists, dtype=pl.List(pl.String))


def _seen(values: list[Any], extra: _Extra, notes: Notes, lines: list[int]) -> pl.Series:
    try:
        out = _lists(values, pl.String)
        items = out.filter(out.list.len() > 0).explode()
        if not (items.is_null() | (items.str.strip_chars() == "")).any():
            return out
    except TypeError:
        pass
    lists: list[list[str | None] | None] = []
    for i, v in enumerate(values):
        if v is None:
            lists.append(None)
            continue
        texts: list[str | None] = []
        for x in v:
            if x is not None and not isinstance(x, str):
                notes.add(
                    "answer_not_text",
                    f"the answer {x!r}",
                    "It is read as text.",
                    line=lines[i],
                    field="nb_public",
                )
                x = json.dumps(x) if isinstance(x, bool) else plain_id(x)
            texts.append(None if x is None or not x.strip() else x)
        if texts != v:
            extra.original(i, "nb_public", v)
        lists.append(texts)
    return pl.Series(lists, dtype=pl.List(pl.String))


def _own(values: list[Any]) -> dict[str, pl.Series]:
    """Columns that travel under the key `abilene`."""
    n = len(values)
    if all(v is UNSET or v is None for v in values):
        none = {name: pl.Series([None], dtype=_OWN_TYPES.get(name, pl.String)) for name in OWN_COLUMNS}
        for name in ("instruction", "source", *OWN_SETTING):
            none[name] = pl.Series([None], dtype=pl.String)
        none["epoch"] = pl.Series([1], dtype=pl.Int32)
        none["has_instruction"] = pl.Series([False])
        return {name: s.new_from_index(0, n) for name, s in none.items()}
    default = Own()
    own = [default if v is UNSET or v is None else v for v in values]
    data = {
        name: pl.Series([getattr(o, name) for o in own], dtype=_OWN_TYPES.get(name, pl.String))
        for name in OWN_COLUMNS
    }
    data["source"] = pl.Series([o.private_source for o in own], dtype=pl.String)
    for name in ("instruction", *OWN_SETTING):
        part = [getattr(o, name) for o in own]
        data[name] = pl.Series([None if v is UNSET else v for v in part], dtype=pl.String)
    data["epoch"] = pl.Series([o.epoch for o in own], dtype=pl.Int32)
    data["has_instruction"] = pl.Series([o.instruction is not UNSET for o in own])
    return data


def _extra_json(batch: Batch, foreign: list[str], extra: _Extra) -> list[str | None]:
    out: list[str | None] = [None] * len(batch.rows)
    patterns: dict[tuple[str, ...], str] = {}
    names = [(f"x{i}", json.dumps(name)) for i, name in enumerate(foreign)]
    branch_kept = {
        i
        for i, r in enumerate(batch.rows)
        if (r.round == 0 and r.branch != SHARED_BRANCH) or r.branch in INSTRUCTIONS.values()
    }
    for i, r in enumerate(batch.rows):
        parts = []
        for attribute, name in names:
            raw = getattr(r, attribute, UNSET)
            if raw is not UNSET:
                parts.append(f"{name}:{bytes(raw).decode()}")
        parts += [f"{json.dumps(k)}:{json.dumps(v)}" for k, v in batch.more.get(i, {}).items()]
        if r.count_correct is None:
            parts.append('"count_correct":null')
        if i in branch_kept:
            extra.original(i, "branch", r.branch)
        if r.seat is not UNSET:
            if r.agent is UNSET:
                extra.original(i, "seat", r.seat)
                extra.changed[i].pop("agent", None)
            else:
                parts.append(f'"seat":{json.dumps(r.seat)}')
        absent, changed = extra.absent.get(i), extra.changed.get(i)
        if changed:
            book = {"absent": absent or [], "as": changed}
            parts.append(f'"{BOOKKEEPING}":{json.dumps(book)}')
        elif absent:
            pattern = tuple(absent)
            if pattern not in patterns:
                patterns[pattern] = f'"{BOOKKEEPING}":{json.dumps({"absent": absent})}'
            parts.append(patterns[pattern])
        if parts:
            out[i] = "{" + ",".join(parts) + "}"
    return out
