"""Replies in the run's cache as JSON.

Inspect keeps them as pickles, and loading a pickle runs whatever is in it. A run folder is a thing that people pass
on, and going on with a run opens its cache; so what lies there must be data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import IO, Any

import inspect_ai.model._cache as inspect_cache  # it has no public way to choose how entries are written
from inspect_ai.model import ModelOutput


def dump(entry: tuple[None, ModelOutput], file: IO[bytes]) -> None:
    """Write an entry. Ours never expire."""
    file.write(entry[1].model_dump_json(exclude_none=True).encode())


def load(file: IO[bytes]) -> tuple[None, ModelOutput]:
    """Read an entry; what is none raises ValueError, and Inspect then asks the model."""
    return None, ModelOutput.model_validate_json(file.read())


@contextmanager
def json_cache() -> Iterator[None]:
    """Let Inspect's cache read and write JSON for a while."""
    ours: Any = SimpleNamespace(dump=dump, load=load)
    before, inspect_cache.pickle = inspect_cache.pickle, ours  # type: ignore[attr-defined]
    try:
        yield
    finally:
        inspect_cache.pickle = before  # type: ignore[attr-defined]
