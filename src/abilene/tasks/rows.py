"""Data files with one JSON object a line, and how many tasks of each level to make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from abilene.errors import InputError, UsageError

T = TypeVar("T")


def read_rows(path: str | Path, row: type[T], what: str) -> Iterator[tuple[int, T]]:
    """Rows of a JSON-lines file with their line numbers, each checked against a type.

    Parameters
    ----------
    path : str or Path
        The file: UTF-8, one object a line; empty lines are skipped.
    row : type
        A `msgspec.Struct`; fields that it does not have are ignored.
    what : str
        What the file should be, for the error messages.

    Yields
    ------
    line : int
        From 1.
    value
        The row.

    Raises
    ------
    InputError
        The file cannot be read, holds no row, or a row does not fit: the message names line and field.
    """
    decoder = msgspec.json.Decoder(row)
    hint = f"Give {what}, one JSON object a line."
    some = False
    try:
        with Path(path).open("rb") as lines:
            for number, raw in enumerate(lines, start=1):
                text = raw.removeprefix(b"\xef\xbb\xbf").strip()
                if not text:
                    continue
                some = True
                try:
                    value = decoder.decode(text)
                except msgspec.ValidationError as e:
                    found, field = _where(str(e))
                    raise InputError(path, found, hint, line=number, field=field) from e
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
                    raise InputError(path, f"is not a JSON object ({e})", hint, line=number) from e
                yield number, value
    except OSError as e:
        raise InputError(path, f"cannot be read ({e.strerror})", "Check the path.") from e
    if not some:
        raise InputError(path, "the file is empty", hint)


def _where(message: str) -> tuple[str, str | None]:
    """What was found, and the field, out of a message that ends in "at `$.field[...]`"."""
    text, _, tail = message.partition(" - at `$")
    field = tail.rstrip("`").lstrip(".")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", text):
        return "it is missing", f"{field}.{missing[1]}" if field else missing[1]
    return f"{text[:1].lower()}{text[1:]}", field or None


def spread(available: Sequence[int], per_level: int, tasks: int | None) -> list[int]:
    """How many tasks to take of each level.

    Parameters
    ----------
    available : sequence of int
        How many there are of each level, at least 0.
    per_level : int
        Wanted of each level, at least 1.
    tasks : int, optional
        Wanted in total, at least 1, spread evenly (the first levels get one more); replaces `per_level`. A level
        that has too few is made up for by the others.

    Returns
    -------
    list of int
        Never more than available.

    Raises
    ------
    UsageError
        A wanted number below 1.

    Examples
    --------
    >>> spread([20, 20, 20], 40, None), spread([9, 9, 1], 40, 10)
    ([20, 20, 20], [5, 4, 1])
    """
    if per_level < 1 or (tasks is not None and tasks < 1):
        raise UsageError("the number of tasks must be at least 1.")
    if tasks is None:
        return [min(n, per_level) for n in available]
    taken = [0] * len(available)
    left = min(tasks, sum(available))
    while left:
        for k, n in enumerate(available):
            if left and taken[k] < n:
                taken[k] += 1
                left -= 1
    return taken
