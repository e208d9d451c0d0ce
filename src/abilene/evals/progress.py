"""Progress of a run, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def bar(total: int, title: str, *, show: bool = True) -> Iterator[Callable[[int], None] | None]:
    """A bar on a terminal, a line every tenth elsewhere; yields what to call with the number of calls so far."""
    if not show:
        yield None
        return
    if not sys.stderr.isatty():
        shown = 0

        def line(done: int) -> None:
            nonlocal shown
            if done * 10 // max(1, total) > shown:
                shown = done * 10 // max(1, total)
                print(f"{title}: {done} of {total} calls", file=sys.stderr, flush=True)

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)
