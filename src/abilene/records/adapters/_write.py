"""Writing a record as an events log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from abilene.records.adapters._columns import (
    BOOKKEEPING,
    INSTRUCTIONS,
    OWN_COLUMNS,
    OWN_SETTING,
    SHARED_BRANCH,
    is_int,
)
from abilene.records.adapters._lines import FIELDS
from abilene.records.loaded import replacing
from abilene.records.schema import SETTING_PARTS, Source, Status

_BRANCHES = {name: branch for branch, name in INSTRUCTIONS.items()}
_RUN = tuple(p for p in SETTING_PARTS if p != "instruction")
_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])


def write_events(record: pl.DataFrame, path: str | Path, *, meta: Mapping[str, object] | None = None) -> Path:
    """Write a record in the events format.

    Parameters
    ----------
    record : polars.DataFrame
        Schema v1. A record read with its texts is reproduced field by field; what the format has no field
        for is written under the key ``abilene``.
    path : str or Path
        A file ending in `.jsonl`, or a folder, in which `events.jsonl` is written.
    meta : mapping, optional
        Run arguments for `events.meta.json`; benchmark, reasoning, team and setting are added where they
        are the same throughout.

    Returns
    -------
    Path
        The file written. It appears whole or not at all.
    """
    path = Path(path)
    if path.suffix != ".jsonl":
        path.mkdir(parents=True, exist_ok=True)
        path = path / "events.jsonl"
    run = dict(meta or {})
    common = set()
    for part in OWN_SETTING:
        values = record[part].unique().to_list() if record.height else []
        if len(values) == 1 and values[0] is not None and str(run.get(part, values[0])) == values[0]:
            common.add(part)
            run.setdefault(part, values[0])
    writer = _Writer(record, common)
    with replacing(path) as temporary, temporary.open("wb") as f:
        for line in writer.lines():
            f.write(line + b"\n")
    if run:
        with replacing(path.with_name(path.stem + ".meta.json")) as temporary:
            temporary.write_text(json.dumps(run, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return path


class _Writer:
    def __init__(self, record: pl.DataFrame, common: set[str]) -> None:
        self.record, self.common = record, common
        self.encode = msgspec.json.Encoder().encode
        said = record.select(
            *SETTING_PARTS,
            "task",
            "epoch",
            "round",
            "agent",
            pl.when(pl.col("round") == 0)
            .then(pl.coalesce("public", "private"))
            .otherwise("public")
            .alias("said"),
        )
        needs = record["observed"].is_not_null() & record["observed_public"].is_null()
        self.said = {row[:-1]: row[-1] for row in said.iter_rows()} if needs.any() else {}
        later = record.filter(pl.col("round") > 0).select(*_RUN, "instruction").unique()
        self.instructions: dict[tuple[Any, ...], set[str | None]] = {}
        for *run, instruction in later.iter_rows():
            self.instructions.setdefault(tuple(run), set()).add(instruction)

    def lines(self) -> Any:
        """Encoded lines: round 0 first, folded where every instruction of the run shares it."""
        first: dict[tuple[Any, ...], list[tuple[str | None, dict[str, Any]]]] = {}
        start = self.record.filter(pl.col("round") == 0)
        for row in start.iter_rows(named=True):
            key = (*(row[p] for p in _RUN), row["task"], row["epoch"], row["agent"])
            first.setdefault(key, []).append((row["instruction"], self._object(row)))
        written: set[bytes] = set()
        for key, copies in first.items():
            bodies = {self.encode({k: v for k, v in o.items() if k != "branch"}) for _, o in copies}
            needed = self.instructions.get(key[: len(_RUN)], set())
            if len(bodies) == 1 and needed <= {i for i, _ in copies}:
                branches = {o["branch"] for _, o in copies}
                kept = branches.pop() if len(copies) == 1 and self._kept_branch(copies[0][1]) else None
                line = self._line(copies[0][1] | {"branch": kept or SHARED_BRANCH})
                if line not in written:  # one round 0 may serve several runs
                    written.add(line)
                    yield line
            else:
                for _, o in copies:
                    yield self._line(o)
        for row in self.record.filter(pl.col("round") > 0).iter_rows(named=True):
            yield self._line(self._object(row))

    @staticmethod
    def _kept_branch(obj: dict[str, Any]) -> bool:
        return "branch" in obj["\0as"]

    def _line(self, obj: dict[str, Any]) -> bytes:
        """The object with bookkeeping applied: original spellings back, absent fields gone."""
        as_, absent = obj.pop("\0as"), obj.pop("\0absent")
        if obj["branch"] == SHARED_BRANCH and isinstance(own := obj.get("abilene"), dict):
            own = {k: v for k, v in own.items() if k != "instruction"}
            obj = {k: v for k, v in obj.items() if k != "abilene"} | ({"abilene": own} if own else {})
        if "seat" in as_:
            obj = {("seat" if k == "agent" else k): v for k, v in obj.items()}
        for name in absent:
            obj.pop(name, None)
        return self.encode(obj | as_)

    def _object(self, row: dict[str, Any]) -> dict[str, Any]:
        """One row in the fields of the format, with its bookkeeping under two keys of its own."""
        foreign: dict[str, Any] = {}
        book: dict[str, Any] = {}
        if row["extra"] is not None:
            foreign = dict(_DECODER.decode(row["extra"].encode()))
            if BOOKKEEPING in foreign:
                book = json.loads(bytes(foreign.pop(BOOKKEEPING)))
        own = self._own(row)
        obj: dict[str, Any] = {
            "task_id": row["task"],
            "agent": _number(row["agent"]),
            "round": row["round"],
            "branch": self._branch(row["instruction"], own),
            "topology": row["topology"],
            "model": self._model(row, own),
            "private": row["private"],
            "public": row["public"],
            "share": int(row["share"][1:]) if row["share"] and row["share"][1:].isdecimal() else row["share"],
            "share_about": row["share_about"],
            "share_text": row["share_text"],
            "probe_ok": self._probe_ok(row, own),
            "neighbours": None if row["observed"] is None else [_number(x) for x in row["observed"]],
            "nb_public": self._seen(row),
            "intervention": row["intervention"],
            "answer": row["truth"],
            "raw": row["public_raw"],
        }
        if row["round"] > 0 and row["private_source"] is None:
            del obj["probe_ok"]
        if row["count_correct"] is not None:
            obj["count_correct"] = row["count_correct"]
        obj |= {k: v for k, v in foreign.items() if k not in FIELDS}
        as_ = book.get("as", {})
        if "probe_ok" in as_:
            own.pop("private_source", None)
        if own:
            obj["abilene"] = own
        obj["\0as"], obj["\0absent"] = as_, book.get("absent", [])
        return obj

    def _own(self, row: dict[str, Any]) -> dict[str, Any]:
        own = {name: row[name] for name in OWN_COLUMNS if row[name] is not None}
        for x in ("private", "public"):
            plain = Status.MISSING if row[x] is None else Status.OK
            if own.get(f"{x}_status") == plain:
                del own[f"{x}_status"]
        own |= {p: row[p] for p in OWN_SETTING if p not in self.common and row[p] is not None}
        if row["epoch"] != 1:
            own["epoch"] = row["epoch"]
        return own

    @staticmethod
    def _branch(instruction: str | None, own: dict[str, Any]) -> str:
        if instruction is None or instruction in INSTRUCTIONS or instruction == SHARED_BRANCH:
            own["instruction"] = instruction
            return instruction or "-"
        return _BRANCHES.get(instruction, instruction)

    @staticmethod
    def _model(row: dict[str, Any], own: dict[str, Any]) -> str | None:
        team, model = row["model"], row["agent_model"]
        if team is not None and model is not None and "+" in team and model in team.split("+"):
            own.pop("agent_model", None)
            return str(model)
        return None if team is None else str(team)

    @staticmethod
    def _probe_ok(row: dict[str, Any], own: dict[str, Any]) -> bool | None:
        source = row["private_source"]
        if row["round"] == 0:
            if source not in (None, Source.ROUND0):
                own["private_source"] = source
            return None
        if source == Source.PROBE and row["private"] is not None:
            return True
        if source not in (None, Source.JOINT):
            own["private_source"] = source
        return False

    def _seen(self, row: dict[str, Any]) -> list[str | None] | None:
        if row["observed_public"] is not None or row["observed"] is None:
            return None if row["observed_public"] is None else list(row["observed_public"])
        before = (*(row[p] for p in SETTING_PARTS), row["task"], row["epoch"], row["round"] - 1)
        return [self.said.get((*before, agent)) for agent in row["observed"]]


def _number(agent: str) -> int | str:
    return int(agent) if is_int(agent) else agent
