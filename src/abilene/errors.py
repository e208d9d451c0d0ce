"""One family of errors. The command line prints the message and exits with the code; nothing else does."""

from __future__ import annotations

from pathlib import Path


class AbileneError(Exception):
    """Base of every error that is the user's to mend (exit code 1)."""

    exit_code = 1


class UsageError(AbileneError):
    """The call itself is wrong: an unknown name, a value out of range (exit code 2)."""

    exit_code = 2


class MissingExtraError(AbileneError):
    """A feature needs an optional dependency that is not installed.

    Parameters
    ----------
    extra : str
        Name of the extra, for example ``"run"``.
    purpose : str
        What needed it, as the start of a sentence.
    """

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the extra '{extra}'. Install it with: pip install 'abilene[{extra}]'"
        )


class InputError(AbileneError):
    """A file or one of its fields cannot be used.

    The message always names the place, what was found there and what to do.

    Parameters
    ----------
    path : str or Path
        The file (or folder).
    found : str
        What was found, in words.
    hint : str
        What the user can do about it.
    line : int, optional
        Line in the file, from 1.
    field : str, optional
        Field or column.
    """

    def __init__(
        self, path: str | Path, found: str, hint: str, *, line: int | None = None, field: str | None = None
    ) -> None:
        self.path, self.found, self.hint, self.line, self.field = str(path), found, hint, line, field
        place = str(path)
        if line is not None:
            place += f", line {line}"
        if field is not None:
            place += f", field '{field}'"
        super().__init__(f"{place}: {found}. {hint}")
