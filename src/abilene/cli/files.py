"""Reading logs and writing them, for the commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from abilene.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from abilene.records.loaded import Loaded


def read_logs(paths: list[Path], *, text: bool = False) -> Loaded:
    """Read logs of any kind; Inspect's reader is loaded only where an .eval may be met."""
    from abilene.errors import MissingExtraError
    from abilene.records.files import load

    try:
        return load(paths, text=text)
    except MissingExtraError:
        import importlib.util

        if importlib.util.find_spec("inspect_ai") is None:
            raise
        import abilene.evals.logs  # noqa: F401  registers the reader

        return load(paths, text=text)


def save_table(record: pl.DataFrame, path: Path) -> None:
    """Write a record: .parquet keeps every column, .csv the columns of the table format.

    Raises
    ------
    UsageError
        Another ending.
    """
    from abilene.records.adapters.table import write_table
    from abilene.records.files import write_record

    if path.suffix.lower() == ".parquet":
        write_record(record, path)
    elif path.suffix.lower() == ".csv":
        write_table(record, path)
    else:
        raise UsageError(f"--out ends in .parquet or .csv; found {str(path)!r}.")
