"""What reading a log yields: the record, and everything that was noticed on the way, counted."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from abilene.records.schema import COLUMNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something noticed in the input: the unit of everything reported.

    Parameters
    ----------
    path : str
        File, or ``"record"`` where several files are one by now.
    kind : str
        Short name, stable for programs, such as ``"malformed_line"``.
    found : str
        What was found, in words (the first case, where there are several).
    hint : str
        What was done about it, or what the user can do.
    count : int
        How often, >= 1.
    line : int, optional
        Line of the first case, from 1 (row number in a Parquet table).
    field : str, optional
        Field or column.

    Examples
    --------
    >>> print(Fault(path="x.jsonl", kind="malformed_line", found="not JSON", hint="Left out.", line=7))
    x.jsonl, line 7: not JSON. Left out.
    """

    path: str
    kind: str
    found: str
    hint: str
    count: int = 1
    line: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        place = self.path
        if self.line is not None:
            place += f", line {self.line}"
        if self.field is not None:
            place += f", field '{self.field}'"
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{place}: {self.found}{times}. {self.hint}"

    def to_dict(self) -> dict[str, str | int | None]:
        """JSON-ready, with every field."""
        return {
            "path": self.path,
            "line": self.line,
            "field": self.field,
            "kind": self.kind,
            "found": self.found,
            "count": self.count,
            "hint": self.hint,
        }


@dataclass(slots=True)
class _Tally:
    found: str
    hint: str
    line: int | None
    count: int


class Notes:
    """Collects warnings and faults of one file; equal ones are counted, with the first line shown."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._seen: dict[tuple[bool, str, str | None], _Tally] = {}

    def add(
        self,
        kind: str,
        found: str,
        hint: str,
        *,
        line: int | None = None,
        field: str | None = None,
        count: int = 1,
        fault: bool = False,
    ) -> None:
        """Note `count` cases; a fault is one where rows were lost or are in doubt."""
        if count < 1:
            return
        key = (fault, kind, field)
        tally = self._seen.get(key)
        if tally is None:
            self._seen[key] = _Tally(found, hint, line, count)
            return
        tally.count += count
        if line is not None and (tally.line is None or line < tally.line):
            tally.line, tally.found = line, found

    def _list(self, fault: bool) -> list[Fault]:
        return [
            Fault(
                path=self.path, kind=kind, found=t.found, hint=t.hint, count=t.count, line=t.line, field=name
            )
            for (is_fault, kind, name), t in self._seen.items()
            if is_fault == fault
        ]

    @property
    def warnings(self) -> list[Fault]:
        """Mended without losing a row."""
        return self._list(False)

    @property
    def faults(self) -> list[Fault]:
        """Rows lost, or in doubt."""
        return self._list(True)


@dataclass(slots=True, kw_only=True)
class Loaded:
    """A record with what was noticed while reading it.

    Attributes
    ----------
    record : polars.DataFrame
        Schema v1, all columns.
    warnings : list of Fault
        What was mended without losing a row.
    faults : list of Fault
        What cost rows or leaves them in doubt.
    metadata : dict
        By file: what the file says about itself (prompt hash, run arguments, ...).
    """

    record: pl.DataFrame
    warnings: list[Fault] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    metadata: dict[str, Mapping[str, object]] = field(default_factory=dict)


def conform(df: pl.DataFrame) -> pl.DataFrame:
    """The frame with exactly the columns of the schema, in order; a missing column is all null."""
    missing = [pl.lit(None, dtype=t).alias(n) for n, t in COLUMNS.items() if n not in df.columns]
    return df.with_columns(missing).select(pl.col(n).cast(t) for n, t in COLUMNS.items())


_WHOLE = re.compile(r"-?\d+\.0+")


def plain_id(value: str | int | float) -> str:
    """An id as text: 1, "1", 1.0 and "1.0" are one agent; "01" is another.

    Examples
    --------
    >>> [plain_id(v) for v in (1, "1", 1.0, "1.0", "01", " 1 ")]
    ['1', '1', '1', '1', '01', '1']
    """
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    text = str(value).strip()
    return text.split(".")[0] if _WHOLE.fullmatch(text) else text


def fold(text: str) -> str:
    """Text without the differences that no answer means: case, surrounding space, Unicode composition."""
    return unicodedata.normalize("NFC", text.strip()).casefold()


def drop_repeats(df: pl.DataFrame, key: list[str], behaviour: list[str], notes: Notes) -> pl.DataFrame:
    """Keep the last row of each key; count repeats, and report those that disagree.

    Parameters
    ----------
    df : polars.DataFrame
        In the order of the file, with a column `line`.
    key, behaviour : list of str
        Columns that identify a row, and those in which two such rows must agree.
    notes : Notes
        Where repeats are counted.
    """
    repeated = df.select(pl.struct(key).is_duplicated()).to_series()
    if not repeated.any():
        return df
    twice = df.filter(repeated)
    flat = [
        pl.col(c).list.eval(pl.element().fill_null("\0")).list.join("\1").alias(c)
        if isinstance(df.schema[c], pl.List)
        else pl.col(c)
        for c in behaviour
    ]
    groups = (
        twice.with_columns(flat)
        .group_by(key, maintain_order=True)
        .agg(
            pl.len().alias("_n"),
            pl.struct(behaviour).n_unique().alias("_kinds"),
            pl.col("line").sort().get(1).alias("_second"),
        )
    )
    same = groups.filter(pl.col("_kinds") == 1)
    notes.add(
        "repeated_row",
        "a row that was there already, unchanged",
        "The last one counts.",
        line=_first(same["_second"]),
        count=int((same["_n"] - 1).sum()),
    )
    differ = groups.filter(pl.col("_kinds") > 1)
    if differ.height:
        first = differ.sort("_second").row(0, named=True)
        where = ", ".join(f"{k} {first[k]}" for k in key if first[k] is not None)
        notes.add(
            "conflicting_duplicate",
            f"a row that was there already, with other values ({where})",
            "The last one counts. If two runs were written into one file, separate them.",
            line=first["_second"],
            count=int((differ["_n"] - 1).sum()),
            fault=True,
        )
    return df.unique(subset=key, keep="last", maintain_order=True)


def _first(lines: pl.Series) -> int | None:
    low = lines.min()
    return int(low) if isinstance(low, int) else None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and vanishes otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
