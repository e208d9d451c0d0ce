"""Benchmarks: each makes frozen tasks and can check them. A new one plugs in by an entry in `BENCHMARKS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from abilene.errors import UsageError
from abilene.tasks import hidden_profile, hiddenbench
from abilene.tasks.evidence import favored, view_counts
from abilene.tasks.files import file_digest
from abilene.tasks.task import Note, Task


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A source of tasks.

    Parameters
    ----------
    name : str
        As on the command line and in the record.
    description : str
        One line.
    source : callable
        Makes the tasks; takes keyword options, and the data's path first where `needs_data`.
    check : callable
        Faults of one task, in words; empty if it is sound.
    needs_data : bool
        Whether the tasks come from a file.
    prompts : str
        Section of the prompt pack.
    """

    name: str
    description: str
    source: Callable[..., tuple[Task, ...]]
    check: Callable[[Task], list[str]]
    needs_data: bool
    prompts: str

    def make(self, *, data: str | Path | None = None, **options: object) -> tuple[Task, ...]:
        """Tasks of this benchmark.

        Parameters
        ----------
        data : str or Path, optional
            The data file; required exactly where `needs_data`.
        **options
            Options of the source, such as seed, tasks and team_size. None means: the source's default.

        Raises
        ------
        UsageError
            Data missing or given in vain, or an option that this benchmark does not have.
        InputError
            The data cannot be used.

        Examples
        --------
        >>> len(BENCHMARKS["hidden_profile"].make(tasks=8, seed=1))
        8
        """
        known = [k for k, p in inspect.signature(self.source).parameters.items() if p.kind is p.KEYWORD_ONLY]
        if unknown := sorted(set(options) - set(known)):
            raise UsageError(f"{self.name} has no option '{unknown[0]}'. It has: {', '.join(known)}.")
        given = {key: value for key, value in options.items() if value is not None}
        if self.needs_data:
            if data is None:
                raise UsageError(
                    f"{self.name} reads its tasks from a file. Give its path as data (--data PATH)."
                )
            return self.source(data, **given)
        if data is not None:
            raise UsageError(
                f"{self.name} makes its own tasks and takes no data file. Leave out data (--data)."
            )
        return self.source(**given)


#: All benchmarks, by name.
BENCHMARKS: dict[str, Benchmark] = {
    b.name: b
    for b in (
        Benchmark(
            name=hidden_profile.BENCHMARK,
            description="Two candidates; only the pooled findings favor the stronger. Made on the spot, any team size.",
            source=hidden_profile.make_tasks,
            check=hidden_profile.check,
            needs_data=False,
            prompts="hidden_profile",
        ),
        Benchmark(
            name=hiddenbench.BENCHMARK,
            description="The published HiddenBench tasks from a file; one clue per agent, teams of 3 or 4.",
            source=hiddenbench.load,
            check=hiddenbench.check,
            needs_data=True,
            prompts="options",
        ),
    )
}


def benchmark(name: str) -> Benchmark:
    """The benchmark of a name.

    Raises
    ------
    UsageError
        There is none.
    """
    if name not in BENCHMARKS:
        raise UsageError(f"Unknown benchmark {name!r}. Known: {', '.join(BENCHMARKS)}.")
    return BENCHMARKS[name]


__all__ = ["BENCHMARKS", "Benchmark", "Note", "Task", "benchmark", "favored", "file_digest", "view_counts"]
