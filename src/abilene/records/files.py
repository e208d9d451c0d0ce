"""Record files, and one door for every kind of log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import polars as pl

from abilene.errors import InputError, MissingExtraError
from abilene.records.adapters.events import read_events
from abilene.records.adapters.table import read_table
from abilene.records.loaded import Fault, Loaded, Notes, conform, replacing
from abilene.records.schema import COLUMNS, KEY, SCHEMA_VERSION, SETTING_PARTS

Reader = Callable[[Path, bool], Loaded]
"""Reads one file; the flag says whether raw texts are wanted."""

_MARK = "abilene.schema"
_METADATA = "abilene.metadata"
_TEXT = ("public_raw", "private_raw", "share_text", "extra")
_PACKAGES = ("abilene", "polars", "numpy", "inspect-ai")
_readers: dict[str, Reader] = {}
#: Extras that bring the reader of an ending.
_EXTRAS = {".eval": "run"}


def register_reader(suffix: str, reader: Reader) -> None:
    """Let `load` read files of another ending; a later registration replaces an earlier one.

    Parameters
    ----------
    suffix : str
        The ending with its dot, such as ``".eval"``.
    reader : callable
        Takes the path and whether raw texts are wanted.
    """
    _readers[suffix.lower()] = reader


def write_record(
    record: pl.DataFrame, path: str | Path, metadata: Mapping[str, object] | None = None
) -> Path:
    """Write a record as Parquet, whole or not at all.

    Parameters
    ----------
    record : polars.DataFrame
        Columns of schema v1; missing ones are written as null.
    path : str or Path
        Ends in `.parquet`; written beside itself first and then renamed.
    metadata : mapping, optional
        JSON-ready facts about the run: prompt hash, task hash, seed. Schema version and package versions are
        added.

    Raises
    ------
    InputError
        The record has a column that the schema does not know.
    """
    path = Path(path)
    unknown = [c for c in record.columns if c not in COLUMNS]
    if unknown:
        raise InputError(path, f"columns {', '.join(unknown)}", "They are not part of the record's schema.")
    facts = {"packages": _versions(), **(metadata or {})}
    marks = {_MARK: str(SCHEMA_VERSION), _METADATA: json.dumps(facts, ensure_ascii=False)}
    with replacing(path) as temporary:
        conform(record).write_parquet(temporary, metadata=marks)
    return path


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def read_metadata(path: str | Path) -> dict[str, object] | None:
    """What a record file says about itself, with its schema version; None where it is no record.

    Raises
    ------
    InputError
        Not a Parquet file, or a record of a newer version.
    """
    try:
        marks = pl.read_parquet_metadata(path)
    except (pl.exceptions.PolarsError, OSError) as e:
        raise InputError(
            path,
            f"not a readable Parquet file ({str(e).splitlines()[0][:80]})",
            "It may have been cut off while it was copied; copy or write it again.",
        ) from e
    if _MARK not in marks:
        return None
    if not marks[_MARK].isdecimal() or int(marks[_MARK]) > SCHEMA_VERSION:
        raise InputError(
            path,
            f"a record of schema version {marks[_MARK]}; this program knows versions up to {SCHEMA_VERSION}",
            "Update abilene: pip install -U abilene",
        )
    try:
        facts = json.loads(marks.get(_METADATA, "{}"))
    except ValueError:
        facts = {}
    return {"schema": int(marks[_MARK]), **(facts if isinstance(facts, dict) else {})}


def read_record(path: str | Path, *, text: bool = True) -> pl.DataFrame:
    """Read a record written by `write_record`, of this or an older version.

    Parameters
    ----------
    path : str or Path
        A Parquet file.
    text : bool
        False leaves raw texts out (null).

    Raises
    ------
    InputError
        Not a record, or one of a newer version.
    """
    if read_metadata(path) is None:
        raise InputError(path, "a Parquet file without the marks of a record", "Read it as a table.")
    columns = [c for c in pl.read_parquet_schema(path) if c in COLUMNS and (text or c not in _TEXT)]
    try:
        return conform(pl.read_parquet(path, columns=columns))
    except pl.exceptions.PolarsError as e:
        raise InputError(
            path, f"columns that are not those of a record ({str(e).splitlines()[0][:80]})", "Write it again."
        ) from e


def load(paths: str | Path | Iterable[str | Path], *, text: bool = True) -> Loaded:
    """Read any number of logs into one record.

    Parameters
    ----------
    paths : path or iterable of paths
        A record or table (`.parquet`), a table (`.csv`), an events log (`.jsonl`), a file of a registered
        ending (`.eval`), or a folder. In a folder records are read where there are any, else `events.jsonl`,
        else files of a registered ending; where there is none of these, its direct subfolders are searched.
    text : bool
        False leaves raw replies out: enough for estimating, and lighter.

    Returns
    -------
    Loaded
        Rows that two files share are kept once. Where two files disagree on a row, the discussion (setting,
        task, epoch) is taken from the first of them alone, and that is reported as a fault.

    Raises
    ------
    InputError
        There is no such path, or nothing readable in it.
    MissingExtraError
        The reader of an ending is not installed.
    """
    chosen = [paths] if isinstance(paths, str | Path) else list(paths)
    files: list[Path] = []
    for path in chosen:
        for file in _files(Path(path)):
            if not any(file.resolve() == other.resolve() for other in files):
                files.append(file)
    if not files:
        raise InputError("paths", "no path", "Give at least one log.")
    return _merge([_load_file(file, text) for file in files], files)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(path, "there is no such file or folder", "Check the path.")
    for folders in ([path], sorted(p for p in path.iterdir() if p.is_dir() and not p.is_symlink())):
        found = [file for folder in folders for file in _in_folder(folder)]
        if found:
            return found
    here = ", ".join(sorted(p.name for p in path.iterdir())[:10]) or "nothing"
    raise InputError(path, f"no log in this folder (it holds: {here})", _KINDS)


_KINDS = "A log is a run folder, a .eval, an events.jsonl, or a CSV or Parquet table."


def _in_folder(folder: Path) -> list[Path]:
    tables = [f for f in sorted(folder.glob("*.parquet")) if not f.name.startswith(".")]
    records = [f for f in tables if read_metadata(f) is not None]
    if records:
        return records
    events = folder / "events.jsonl"
    if events.is_file():
        return [events]
    endings = {*_readers, *_EXTRAS}
    return sorted(p for p in folder.iterdir() if p.is_file() and p.suffix.lower() in endings)


def _load_file(path: Path, text: bool) -> Loaded:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        if path.stat().st_size == 0:
            raise InputError(path, "the file is empty", _KINDS)
        facts = read_metadata(path)
        if facts is None:
            return read_table(path)
        unknown = [c for c in pl.read_parquet_schema(path) if c not in COLUMNS]
        notes = Notes(path)
        notes.add(
            "unknown_column",
            f"columns the record does not know: {', '.join(unknown[:10])}",
            "They were left out.",
            count=len(unknown),
        )
        _unfinished(facts, notes)
        return Loaded(
            record=read_record(path, text=text),
            warnings=notes.warnings,
            faults=notes.faults,
            metadata={str(path): facts},
        )
    if suffix == ".csv":
        return read_table(path)
    if suffix == ".jsonl":
        return read_events(path, text=text)
    if suffix in _readers:
        return _readers[suffix](path, text)
    if suffix in _EXTRAS:
        raise MissingExtraError(_EXTRAS[suffix], f"Reading {path.name}")
    raise InputError(path, f"a file of unknown kind ({suffix or 'no ending'})", _KINDS)


def _unfinished(facts: Mapping[str, object], notes: Notes) -> None:
    """Note discussions of a run that were not held to their end, as far as the record tells."""
    logs = facts.get("logs")
    told = [x for x in logs.values() if isinstance(x, dict)] if isinstance(logs, dict) else []
    counts = [(x.get("finished"), x.get("expected")) for x in told]
    pairs = [(a, b) for a, b in counts if isinstance(a, int) and isinstance(b, int)]
    finished, expected = sum(a for a, _ in pairs), sum(b for _, b in pairs)
    if finished < expected:
        notes.add(
            "discussions_absent",
            f"{finished} of {expected} discussions are finished",
            "The same run command goes on from there.",
            fault=True,
        )


def _merge(parts: list[Loaded], files: list[Path]) -> Loaded:
    if len(parts) == 1:
        return parts[0]
    warnings = [w for p in parts for w in p.warnings]
    faults = [f for p in parts for f in p.faults]
    df = pl.concat(
        p.record.with_columns(pl.lit(i, dtype=pl.Int32).alias("_file")) for i, p in enumerate(parts)
    )
    df, more = _across_files(df, files)
    for fault in more:
        (faults if fault.kind == "conflicting_files" else warnings).append(fault)
    metadata = {name: facts for p in parts for name, facts in p.metadata.items()}
    return Loaded(record=df.drop("_file"), warnings=warnings, faults=faults, metadata=metadata)


def _across_files(df: pl.DataFrame, files: list[Path]) -> tuple[pl.DataFrame, list[Fault]]:
    repeated = df.select(pl.struct(KEY).is_duplicated()).to_series()
    if not repeated.any():
        return df, []
    behaviour = ["private", "public", "truth", "private_source"]
    groups = (
        df.filter(repeated)
        .group_by(KEY, maintain_order=True)
        .agg(
            pl.struct(behaviour).n_unique().alias("_kinds"),
            pl.col("_file").min(),
            pl.col("_file").n_unique().alias("_files"),
        )
    )
    notes = []
    differ = groups.filter((pl.col("_kinds") > 1) & (pl.col("_files") > 1))
    if differ.height:
        discussion = [*SETTING_PARTS, "task", "epoch"]
        first = differ.group_by(discussion, maintain_order=True).agg(pl.col("_file").min().alias("_keep"))
        df = df.join(first, on=discussion, how="left", nulls_equal=True, maintain_order="left")
        lost = df.filter(pl.col("_file") != pl.col("_keep"))
        df = df.filter(pl.col("_keep").is_null() | (pl.col("_file") == pl.col("_keep"))).drop("_keep")
        one = differ.row(0, named=True)
        named = [str(files[i]) for i in (one["_file"], lost["_file"][0])]
        where = ", ".join(f"{k} {one[k]}" for k in KEY if one[k] is not None)
        notes.append(
            Fault(
                path=named[1],
                kind="conflicting_files",
                found=f"rows that {named[0]} has with other values ({where})",
                hint="These discussions were taken from the first file alone. If they are two runs, give each "
                "a setting of its own, or read them separately.",
                count=lost.height,
            )
        )
    before = df.height
    df = df.unique(subset=list(KEY), keep="first", maintain_order=True)
    if before > df.height:
        notes.append(
            Fault(
                path=str(files[-1]),
                kind="repeated_row",
                found="rows that another file has too, unchanged",
                hint="They count once.",
                count=before - df.height,
            )
        )
    return df, notes


__all__ = [
    "Fault",
    "Loaded",
    "Reader",
    "load",
    "read_metadata",
    "read_record",
    "register_reader",
    "write_record",
]
