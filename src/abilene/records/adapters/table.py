"""The plain table, CSV or Parquet: one row per agent and round.

Columns ``task, round, agent, private, public, truth``; optional are ``setting`` or any part of it, ``epoch``,
``observed`` (agents seen, separated by ``;``; a lone ``;`` says nobody, empty says everybody else), ``share``,
``private_status``, ``public_status``, ``private_source``, and ``observed_public`` (a JSON list of the answers
seen, where these are not simply the answers of the round before). Round 0 is the independent answer. Empty is
missing. Everything is read as text, so ids keep their leading zeros.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from abilene.errors import InputError
from abilene.records.checks import visible_disagreements
from abilene.records.loaded import Loaded, Notes, conform, drop_repeats, plain_id, replacing
from abilene.records.schema import KEY, SETTING_PARTS, Source, Status

REQUIRED = ("task", "round", "agent", "private", "public", "truth")
OPTIONAL = (
    *SETTING_PARTS,
    "epoch",
    "observed",
    "share",
    "private_status",
    "public_status",
    "private_source",
    "observed_public",
)
_WHOLE = re.compile(r"[0-9]{1,6}(\.0+)?")
_BLOCK = 50_000


def read_table(path: str | Path) -> Loaded:
    """Read a table.

    Parameters
    ----------
    path : str or Path
        `.csv`, or `.parquet` without the marks of a record.

    Returns
    -------
    Loaded
        Columns the format does not know are named in a warning and left out.

    Raises
    ------
    InputError
        A required column is missing, a round is no whole number, a status is unknown, a row has too many or
        too few cells, or the file is empty or not text.
    """
    path = Path(path)
    notes = Notes(path)
    df = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path, notes)
    missing = [c for c in REQUIRED if c not in df.columns]
    if missing:
        raise InputError(
            path,
            f"no column {', '.join(missing)}; found: {', '.join(c for c in df.columns if c != 'line') or 'none'}",
            "A table needs the columns "
            + ", ".join(REQUIRED)
            + " (comma-separated, names in the first line).",
        )
    unknown = [c for c in df.columns if c not in (*REQUIRED, *OPTIONAL, "line")]
    notes.add(
        "unknown_column",
        f"columns the format does not know: {', '.join(unknown[:10])}",
        "They were left out.",
        count=len(unknown),
    )
    df = df.drop(unknown)
    if df.is_empty():
        raise InputError(path, "a table without rows", "Give a table that holds at least one discussion.")
    df = df.with_columns(
        pl.when(pl.col(c).str.strip_chars() != "").then(pl.col(c)).alias(c)
        for c, kind in df.schema.items()
        if kind == pl.String
    )
    for c in ("task", "agent"):
        at = df.filter(pl.col(c).is_null())
        if at.height:
            raise InputError(path, "empty", f"Every row needs its {c}.", line=at["line"][0], field=c)
    df = df.with_columns(
        _whole(df, "round", path),
        _whole(df, "epoch", path) if "epoch" in df.columns else pl.lit(1, dtype=pl.Int32).alias("epoch"),
    )
    df = _ids(df, notes)
    df = _statuses(df, path)
    df = _seen(df, path)
    for part in SETTING_PARTS:
        if part not in df.columns:
            df = df.with_columns(pl.lit(None, dtype=pl.String).alias(part))
    seen = [c for c in ("observed", "observed_public", "private_source") if c in df.columns]
    df = drop_repeats(df, list(KEY), ["private", "public", "truth", *seen], notes)
    return Loaded(record=conform(df), warnings=notes.warnings, faults=notes.faults)


def _read_csv(path: Path, notes: Notes) -> pl.DataFrame:
    head = path.open("rb").read(3)
    if not head:
        raise InputError(path, "the file is empty", "Give a table that holds at least one discussion.")
    if head == b"\xef\xbb\xbf":
        notes.add("byte_order_mark", "a byte order mark", "It was skipped.", line=1)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(path, "UTF-16 text", "Save the table as UTF-8.")
    try:
        # Only \n, \r and \r\n end a line: U+2028 inside a cell does not.
        with path.open(encoding="utf-8-sig", newline="") as f:
            reader = csv.reader(f, strict=True)
            header = [name.strip() for name in next(reader, [])]
            if len(set(header)) < len(header):
                raise InputError(path, "two columns of one name", "Name every column once.", line=1)
            frames = []
            for rows, lines in _blocks(path, reader, len(header), notes):
                columns = zip(*rows, strict=True)
                data = {n: pl.Series(list(c), dtype=pl.String) for n, c in zip(header, columns, strict=True)}
                frames.append(pl.DataFrame({**data, "line": pl.Series(lines, dtype=pl.UInt32)}))
    except UnicodeDecodeError as e:
        raise InputError(
            path, f"bytes that are not UTF-8 ({e.reason})", "Save the table as UTF-8.", line=_bad_line(path)
        ) from e
    except csv.Error as e:
        raise InputError(
            path, f"not a CSV table ({e})", "Check the quotes and the separators.", line=reader.line_num
        ) from e
    if not frames:
        return pl.DataFrame(schema={**dict.fromkeys(header, pl.String), "line": pl.UInt32})
    return pl.concat(frames)


def _blocks(
    path: Path, reader: Iterator[list[str]], width: int, notes: Notes
) -> Iterator[tuple[list[list[str]], list[int]]]:
    rows: list[list[str]] = []
    lines: list[int] = []
    short: tuple[int, int] | None = None
    for row in reader:
        number: int = reader.line_num  # type: ignore[attr-defined]
        if short is not None:
            break
        if not row:
            continue
        if len(row) > width:
            raise InputError(
                path,
                f"{len(row)} cells where the header names {width} columns",
                "Put text that holds a comma into quotes.",
                line=number,
            )
        if len(row) < width:
            short = number, len(row)
            continue
        if any("\0" in cell for cell in row):
            raise InputError(path, "a NUL byte", "Write the table again; its file is damaged.", line=number)
        rows.append(row)
        lines.append(number)
        if len(rows) == _BLOCK:
            yield rows, lines
            rows, lines = [], []
    else:
        if short is not None:
            notes.add(
                "truncated_last_line",
                f"the last row has {short[1]} of {width} cells",
                "It was left out.",
                line=short[0],
                fault=True,
            )
            short = None
    if short is not None:
        raise InputError(
            path,
            f"{short[1]} cells where the header names {width} columns",
            "Give every row a cell for each column; leave it empty where the value is missing.",
            line=short[0],
        )
    if rows:
        yield rows, lines


def _bad_line(path: Path) -> int | None:
    with path.open("rb") as f:
        for number, line in enumerate(f, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return None


def _read_parquet(path: Path) -> pl.DataFrame:
    try:
        df = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as e:
        raise InputError(
            path, f"not a readable Parquet file ({str(e).splitlines()[0][:80]})", "Write it again."
        ) from e
    columns = []
    for c, kind in df.schema.items():
        if kind.is_float():
            whole = pl.when(pl.col(c).is_finite() & (pl.col(c) == pl.col(c).round())).then(
                pl.col(c).cast(pl.Int64, strict=False).cast(pl.String)
            )
            columns.append(
                pl.when(pl.col(c).is_finite()).then(pl.coalesce(whole, pl.col(c).cast(pl.String))).alias(c)
            )
        elif isinstance(kind, pl.List) and c in ("observed", "observed_public"):
            columns.append(pl.col(c).cast(pl.List(pl.String)))
        elif c in (*REQUIRED, *OPTIONAL) and kind.is_nested():
            raise InputError(path, f"values of type {kind}", "Give text or numbers.", field=c)
        elif c in (*REQUIRED, *OPTIONAL):
            columns.append(pl.col(c).cast(pl.String))
    return df.with_columns(columns).with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.UInt32).alias("line"))


def _whole(df: pl.DataFrame, name: str, path: Path) -> pl.Series:
    text = df[name].str.strip_chars()
    bad = ~text.str.contains(f"^(?:{_WHOLE.pattern})$").fill_null(False)
    if bad.any():
        i = bad.arg_true()[0]
        raise InputError(
            path,
            f"{df[name][i]!r}" if df[name][i] is not None else "empty",
            f"{name} is a whole number: "
            + ("0 for the independent answer, then 1, 2, ..." * (name == "round")),
            line=df["line"][i],
            field=name,
        )
    return text.str.replace(r"\.0+$", "").cast(pl.Int32)


def _ids(df: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """Agents as plain ids; each spelling is looked at once."""
    spelled = {a: plain_id(a) for a in df["agent"].unique()}
    changed = {a: b for a, b in spelled.items() if a != b}
    if changed:
        hit = df["agent"].is_in(list(changed))
        notes.add(
            "mixed_agent_ids",
            f"the agent {next(iter(changed))!r}",
            f"It is agent {next(iter(changed.values()))!r}: 1 and 1.0 are one agent, 01 is another.",
            field="agent",
            line=df["line"][hit.arg_true()[0]],
            count=int(hit.sum()),
        )
        df = df.with_columns(pl.col("agent").replace(changed))
    if "observed" not in df.columns:
        return df
    if df.schema["observed"] == pl.String:
        df = df.with_columns(pl.col("observed").str.split(";"))
    names = df["observed"].explode().drop_nulls().unique()
    plain = {a: b for a in names if (b := plain_id(a)) != a}
    item = pl.element().replace(plain) if plain else pl.element()
    return df.with_columns(pl.col("observed").list.eval(item.filter(item != "")))


def _statuses(df: pl.DataFrame, path: Path) -> pl.DataFrame:
    allowed = {
        "private_status": tuple(Status),
        "public_status": tuple(Status),
        "private_source": tuple(Source),
    }
    for name, values in allowed.items():
        if name not in df.columns:
            continue
        df = df.with_columns(pl.col(name).str.strip_chars().str.to_lowercase())
        bad = df.filter(pl.col(name).is_not_null() & ~pl.col(name).is_in(list(values)))
        if bad.height:
            raise InputError(
                path,
                f"{bad[name][0]!r}",
                f"{name} is one of: {', '.join(values)}.",
                line=bad["line"][0],
                field=name,
            )
    for x in ("private", "public"):
        plain = pl.when(pl.col(x).is_null()).then(pl.lit(Status.MISSING)).otherwise(pl.lit(Status.OK))
        given = [f"{x}_status"] if f"{x}_status" in df.columns else []
        df = df.with_columns(pl.coalesce(*given, plain).alias(f"{x}_status"))
    return df


def _seen(df: pl.DataFrame, path: Path) -> pl.DataFrame:
    if df.schema.get("observed_public") != pl.String:
        return df
    lists: list[list[str | None] | None] = []
    for text, line in df.select("observed_public", "line").iter_rows():
        try:
            seen = None if text is None else json.loads(text)
        except (ValueError, RecursionError):
            seen = text
        if seen is not None and not (
            isinstance(seen, list) and all(x is None or isinstance(x, str) for x in seen)
        ):
            raise InputError(
                path,
                f"{str(text)[:40]!r}",
                'observed_public is a JSON list of texts, such as ["East Town", null].',
                line=line,
                field="observed_public",
            )
        lists.append(seen)
    return df.with_columns(pl.Series("observed_public", lists, dtype=pl.List(pl.String)))


def write_table(record: pl.DataFrame, path: str | Path) -> Path:
    """Write a record as a table (`.csv` or `.parquet`) that yields the same counts when read.

    Optional columns are written where they say something. Raw replies and token counts have no place in a
    table.
    """
    path = Path(path)
    columns: list[pl.Expr] = [pl.col(p) for p in SETTING_PARTS if record[p].is_not_null().any()]
    columns.append(pl.col("task"))
    if (record["epoch"] != 1).any():
        columns.append(pl.col("epoch"))
    columns += [pl.col(c) for c in ("round", "agent", "private", "public", "truth")]
    if record["observed"].is_not_null().any():
        joined = pl.col("observed").list.join(";")
        columns.append(
            pl.when(pl.col("observed").list.len() > 0)
            .then(joined)
            .when(pl.col("observed").is_not_null())
            .then(pl.lit(";"))
            .alias("observed")
        )
    only_answers = record["observed"].is_null() & record["observed_public"].is_not_null()
    if only_answers.any() or visible_disagreements(record).height:
        seen = [
            None if v is None else json.dumps(list(v), ensure_ascii=False) for v in record["observed_public"]
        ]
        columns.append(pl.lit(pl.Series("observed_public", seen, dtype=pl.String)))
    if record["share"].is_not_null().any():
        columns.append(pl.col("share"))
    for x in ("private", "public"):
        plain = pl.when(pl.col(x).is_null()).then(pl.lit(Status.MISSING)).otherwise(pl.lit(Status.OK))
        says = record.select((pl.col(f"{x}_status") != plain).any()).item()
        if says:
            columns.append(pl.col(f"{x}_status"))
    if (record["private_source"] == Source.JOINT).any():
        columns.append(pl.col("private_source"))
    table = record.select(columns)
    with replacing(path) as temporary:
        if path.suffix.lower() == ".parquet":
            table.write_parquet(temporary)
        else:
            table.write_csv(temporary)
    return path
