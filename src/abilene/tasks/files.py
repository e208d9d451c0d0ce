"""Data files of benchmarks: reading JSON with clear errors, and the hash that pins a revision."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from abilene.errors import InputError


def file_digest(path: str | Path) -> str:
    """Hash of a file's bytes, 16 hex digits, kept with results so that they name their data.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    return hashlib.sha256(_read(path)).hexdigest()[:16]


def read_json(path: str | Path, what: str) -> object:
    """Content of a JSON file.

    Parameters
    ----------
    path : str or Path
        The file: UTF-8, with or without a byte-order mark.
    what : str
        What the file should be, for the error messages.

    Raises
    ------
    InputError
        The file cannot be read, is not UTF-8, is not JSON, or an object in it has a key twice.
    """
    data = _read(path)
    if not data.strip():
        raise InputError(path, "the file is empty", f"Give {what}.")
    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_no_twins)
    except UnicodeDecodeError as e:
        raise InputError(path, f"is not UTF-8 text (byte {e.start})", f"Give {what}.") from e
    except json.JSONDecodeError as e:
        raise InputError(path, f"is not JSON ({e.msg})", f"Give {what}.", line=e.lineno) from e
    except (ValueError, RecursionError) as e:
        raise InputError(path, f"is not usable JSON ({e})", f"Give {what}.") from e


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as e:
        raise InputError(path, f"cannot be read ({e.strerror})", "Check the path.") from e


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [k for k, _ in pairs]
        raise ValueError(f"key {next(k for k in keys if keys.count(k) > 1)!r} occurs twice in one object")
    return made
