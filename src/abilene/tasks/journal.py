"""The factory's journal: every finished call on a line of its own, so that nothing is asked twice after a kill."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec

from abilene.errors import InputError
from abilene.tasks.sieve import Condition

TrialKey = tuple[str, Condition, int]


class Identity(msgspec.Struct, tag="identity", tag_field="kind", frozen=True):
    """First line: what decides the calls. A journal with another identity is not continued."""

    facts: dict[str, Any]
    schema: int = 1


class Generated(msgspec.Struct, tag="generated", tag_field="kind", frozen=True):
    """A reply to the request for a candidate (numbered from 1)."""

    candidate: int
    reply: str


class Answered(msgspec.Struct, tag="trial", tag_field="kind", frozen=True):
    """An answer to a candidate: the option read, or null with the status that says why; and the reply itself."""

    key: str
    condition: Condition
    trial: int
    value: str | None
    status: str
    reply: str


class Journal:
    """Finished calls, kept in a file that is only ever appended to.

    Parameters
    ----------
    path : str or Path, optional
        The file; made where there is none. Without a path the journal is kept in memory only.
    identity : mapping
        JSON-ready facts that decide what is asked (models, prompts, seed, ...).

    Raises
    ------
    InputError
        The file is not a journal, has another identity, or is in use by another process.

    Notes
    -----
    A last line without its line break was cut by a kill; it is dropped and its call made again.
    """

    def __init__(self, path: str | Path | None, identity: Mapping[str, Any]) -> None:
        self.replies: dict[int, str] = {}
        self.answers: dict[TrialKey, Answered] = {}
        self._file: BinaryIO | None = None
        if path is None:
            return
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
        except OSError as e:
            raise InputError(path, f"cannot be written ({e.strerror})", "Choose another folder.") from e
        try:
            self._lock(path)
            self._read(path, dict(identity))
        except BaseException:
            self.close()
            raise

    def add(self, entry: Generated | Answered) -> None:
        """Keep one finished call."""
        if isinstance(entry, Generated):
            self.replies[entry.candidate] = entry.reply
        else:
            self.answers[(entry.key, entry.condition, entry.trial)] = entry
        self._write(entry)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, entry: Identity | Generated | Answered) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(entry) + b"\n")
            self._file.flush()  # into the system's hands, where a kill of this process does not reach it

    def _lock(self, path: Path) -> None:
        assert self._file is not None
        with suppress(ImportError):  # no such locks on some systems
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as e:
                raise InputError(path, "is in use by another process", "Wait for it, or stop it.") from e

    def _read(self, path: Path, facts: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        hint = "Choose another folder; this one is left as it is."
        decoder = msgspec.json.Decoder(Identity | Generated | Answered)
        entries = []
        for number, line in enumerate(data[:whole].splitlines(), start=1):
            try:
                entries.append(decoder.decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError) as e:
                raise InputError(path, f"is no line of a factory's journal ({e})", hint, line=number) from e
        if not entries:
            if data[:whole].strip() or not _started(data):
                raise InputError(path, "is no factory's journal", hint)
            self._file.truncate(0)
            self._write(Identity(facts))
            return
        if not isinstance(entries[0], Identity):
            raise InputError(path, "does not begin with the journal's identity", hint, line=1)
        there = entries[0].facts
        if differ := sorted(k for k in {**there, **facts} if there.get(k) != facts.get(k)):
            told = "; ".join(f"{k}: {there.get(k)!r} there, {facts.get(k)!r} now" for k in differ)
            raise InputError(path, f"was made with other arguments ({told})", hint)
        if whole < len(data):
            self._file.truncate(whole)
        for entry in entries:
            if isinstance(entry, Generated):
                self.replies.setdefault(entry.candidate, entry.reply)
            elif isinstance(entry, Answered):
                self.answers.setdefault((entry.key, entry.condition, entry.trial), entry)


def _started(data: bytes) -> bool:
    """Whether a file without a whole line can be a journal whose first line was cut."""
    start = b'{"kind":"identity"'
    return data[: len(start)] == start[: len(data)]
