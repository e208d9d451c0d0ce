"""Lines of an events log, decoded in blocks at the speed of C, and one by one where something is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from abilene.errors import InputError
from abilene.records.loaded import Notes

BLOCK = 4 << 20
LONGEST_LINE = 64 << 20
LAST_ROUND = 100_000

_Id = str | int | float
_Answer = str | int | float | bool | None


class Own(msgspec.Struct, gc=False, omit_defaults=True):
    """Columns of the record that the format has no field for; they travel under the key ``abilene``."""

    epoch: int = 1
    instruction: str | UnsetType | None = UNSET
    benchmark: str | UnsetType | None = UNSET
    reasoning: str | UnsetType | None = UNSET
    team: str | UnsetType | None = UNSET
    setting: str | UnsetType | None = UNSET
    private_status: str | None = None
    private_source: str | None = None
    joint_private: str | None = None
    public_status: str | None = None
    public_set: bool | None = None
    public_reply_status: str | None = None
    share_status: str | None = None
    designed_accuracy: float | None = None
    view_favors: str | None = None
    private_raw: str | None = None
    public_error: str | None = None
    private_error: str | None = None
    agent_model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


#: Fields of the format in the order in which they are written, and what they may hold.
FIELDS: dict[str, Any] = {
    "task_id": _Id,
    "agent": _Id | UnsetType,
    "round": int | float,
    "branch": str,
    "topology": str | UnsetType | None,
    "model": str | UnsetType | None,
    "private": _Answer | UnsetType,
    "public": _Answer | UnsetType,
    "share": int | str | float | None | UnsetType,
    "share_about": str | UnsetType | None,
    "share_text": str | UnsetType | None,
    "probe_ok": bool | None | UnsetType,
    "neighbours": list[_Id] | None | UnsetType,
    "nb_public": list[_Answer] | None | UnsetType,
    "intervention": str | UnsetType | None,
    "answer": _Answer | UnsetType,
    "raw": str | UnsetType | None,
}
OTHER: dict[str, Any] = {
    "seat": _Id | UnsetType,
    "count_correct": bool | None | UnsetType,
    "abilene": Own | None | UnsetType,
}
KEY_FIELDS = ("task_id", "agent", "seat", "round", "branch", "abilene")
_MOST_FOREIGN = 200
_UNKNOWN = re.compile(r"unknown field `(.*)`")


@dataclass(slots=True)
class Batch:
    """Some rows of the file: structs with a line number each, and what had to be mended in which row."""

    rows: list[Any]
    lines: list[int]
    originals: dict[int, dict[str, object]] = field(default_factory=dict)  # row -> field -> value in the file
    more: dict[int, dict[str, object]] = field(default_factory=dict)  # fields beyond the foreign columns


class LineReader:
    """Iterates over the batches of one file.

    Foreign fields are added to the struct as they turn up, so that a log that has them in every line is still
    decoded in blocks.
    """

    def __init__(self, path: Path, notes: Notes) -> None:
        self.path, self.notes = path, notes
        self.foreign: list[str] = []
        self.events = 0
        self._first_keys: list[str] | None = None
        self._define()

    def _define(self) -> None:
        fields: list[Any] = []
        for name, kind in (FIELDS | OTHER).items():
            required = name in ("task_id", "round", "branch")
            fields.append((name, kind) if required else (name, kind, UNSET))
        fields += [(f"x{i}", Raw | UnsetType, UNSET) for i in range(len(self.foreign))]
        fields.sort(key=len)
        self.struct = msgspec.defstruct(
            "Event",
            fields,
            rename={f"x{i}": name for i, name in enumerate(self.foreign)},
            forbid_unknown_fields=True,
            gc=False,
        )
        self._decoder = msgspec.json.Decoder(self.struct)

    def __iter__(self) -> Iterator[Batch]:
        number = 0  # lines before this block
        with self.path.open("rb") as f:
            while block := f.read(BLOCK):
                if number == 0:
                    block = self._head(block)
                if not block.endswith(b"\n"):
                    block += f.readline(LONGEST_LINE)
                    if not block.endswith(b"\n") and f.read(1):
                        raise InputError(
                            self.path,
                            f"a line longer than {LONGEST_LINE >> 20} MB",
                            "An events log has one JSON object a line.",
                            line=number + block.count(b"\n") + 1,
                        )
                batch = self._fast(block, number) or self._slow(block, number)
                number += block.count(b"\n") + (not block.endswith(b"\n"))
                self.events += len(batch.rows)
                yield batch
        if number == 0:
            raise InputError(self.path, "the file is empty", "Give a log that holds at least one discussion.")
        if self.events == 0:
            what = self.notes.faults[0].found if self.notes.faults else "only blank lines"
            if self._first_keys is not None:
                what += f"; the fields of its first object are: {', '.join(self._first_keys[:20]) or 'none'}"
            raise InputError(
                self.path,
                f"no line of it is an event ({what})",
                "An events log has one JSON object a line with task_id, agent, round, branch and answers.",
            )

    def _head(self, block: bytes) -> bytes:
        if block.startswith(b"\xef\xbb\xbf"):
            self.notes.add("byte_order_mark", "a byte order mark", "It was skipped.", line=1)
            block = block[3:] or b"\n"
        elif block.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(self.path, "UTF-16 text", "Save the log as UTF-8.")
        return block

    def _fast(self, block: bytes, before: int) -> Batch | None:
        """The whole block at once, or None where any line needs a closer look."""
        try:
            block.decode()
        except UnicodeDecodeError:
            return None
        while True:
            try:
                rows = self._decoder.decode_lines(block)
                break
            except msgspec.ValidationError as e:
                unknown = _UNKNOWN.search(str(e))
                if "` - at" in str(e) or unknown is None or not self._learn([unknown.group(1)]):
                    return None
            except (msgspec.MsgspecError, RecursionError):
                return None
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        if len(rows) != lines:  # blank lines, or two objects on one line
            return None
        if not all(map(_sound, rows)):
            return None
        return Batch(rows, list(range(before + 1, before + 1 + len(rows))))

    def _learn(self, names: list[str]) -> bool:
        new = [n for n in names if n not in self.foreign and n not in FIELDS and n not in OTHER]
        if not new or len(self.foreign) + len(new) > _MOST_FOREIGN:
            return False
        self.foreign += new
        self._define()
        return True

    def _slow(self, block: bytes, before: int) -> Batch:
        batch = Batch([], [])
        last = None if block.endswith(b"\n") else before + block.count(b"\n") + 1
        for number, line in enumerate(block.split(b"\n"), before + 1):
            if not line.strip():
                continue
            try:
                line.decode()
                row = self._decoder.decode(line)
                if _sound(row):
                    batch.rows.append(row)
                    batch.lines.append(number)
                    continue
            except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
                pass
            obj = self._parse(line, number, truncated=number == last)
            if obj is not None:
                self._learn(list(obj))
                self._mend(obj, number, batch)
        return batch

    def _fault(self, kind: str, found: str, line: int, field: str | None = None) -> None:
        hint = "The line was left out." if field is None else "The row was left out."
        self.notes.add(kind, found, hint, line=line, field=field, fault=True)

    def _parse(self, line: bytes, number: int, truncated: bool) -> dict[str, Any] | None:
        try:
            text = line.decode()
        except UnicodeDecodeError as e:
            self._fault("invalid_utf8", f"bytes that are not UTF-8 ({e.reason})", number)
            return None

        def finite(token: str) -> float | None:
            value = float(token)
            if value != value or value in (float("inf"), float("-inf")):
                self.notes.add(
                    "not_a_number",
                    f"the value {token[:20]}",
                    "It is read as missing.",
                    line=number,
                    fault=True,
                )
                return None
            return value

        try:
            obj = json.loads(text, parse_float=finite, parse_constant=finite)
        except (ValueError, RecursionError) as e:
            if truncated:
                self._fault("truncated_last_line", "the file ends in the middle of a line", number)
            elif b"\0" in line:
                self._fault("nul_byte", "a NUL byte outside of a string", number)
            else:
                what = str(e).splitlines()[0] if isinstance(e, ValueError) else "nested too deeply"
                self._fault("malformed_line", f"not JSON ({what[:80]})", number)
            return None
        if not isinstance(obj, dict):
            self._fault("not_an_object", f"a JSON {type(obj).__name__} instead of an object", number)
            return None
        if self._first_keys is None:
            self._first_keys = [str(k) for k in obj]
        return obj

    def _mend(self, obj: dict[str, Any], number: int, batch: Batch) -> None:
        """Add a row, with what does not fit set to missing and its original kept; or none, with a fault."""
        originals: dict[str, object] = {}
        if obj.get("agent") is None and obj.get("seat") is None:
            obj = obj | {"agent": None}
        for name in KEY_FIELDS:
            if name in obj and not _fits(obj[name], name):
                self._fault("bad_key", f"{name} is {json.dumps(obj[name])[:60]}", number, name)
                return
        for name in ("task_id", "round", "branch"):
            if name not in obj:
                self._fault("missing_key", f"no {name}", number, name)
                return
        t = obj["round"]
        if not 0 <= t <= LAST_ROUND or t != int(t):
            self._fault("bad_key", f"round is {json.dumps(t)[:60]}", number, "round")
            return
        if isinstance(t, float):
            originals["round"] = t
        row: dict[str, Any] = {}
        for name, value in obj.items():
            if name in FIELDS or name in OTHER:
                if not _fits(value, name):
                    what = f"a {type(value).__name__} where {name} should be"
                    self.notes.add(
                        "wrong_type", what, "It is read as missing.", line=number, field=name, fault=True
                    )
                    originals[name], value = value, None
                row[name] = int(value) if name == "round" else value
            elif name in self.foreign:
                row[name] = Raw(msgspec.json.encode(value))
            else:
                batch.more.setdefault(len(batch.rows), {})[name] = value
        if originals:
            batch.originals[len(batch.rows)] = originals
        batch.rows.append(msgspec.convert(row, self.struct))
        batch.lines.append(number)


def _sound(row: Any) -> bool:
    """Whether the key of a decoded row is complete and in range."""
    return (
        type(row.round) is int
        and 0 <= row.round <= LAST_ROUND
        and (row.agent is not UNSET or row.seat is not UNSET)
        and row.task_id != ""
        and row.agent != ""
    )


_TYPES = FIELDS | OTHER


def _fits(value: object, name: str) -> bool:
    if name in ("task_id", "agent", "seat") and (value is None or value == ""):
        return False
    try:
        msgspec.convert(value, _TYPES[name])
    except (msgspec.ValidationError, OverflowError):
        return False
    return True
