"""Benchmarks: each makes frozen tasks and can check them. A new one plugs in by an entry in `BENCHMARKS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from abilene.errors import UsageError
from abilene.tasks import hidden_profile, hiddenbench, medeinst, musique
from abilene.tasks.evidence import CONDITIONS, check_full, favored, full_profile, is_full, view_counts
from abilene.tasks.files import file_digest
from abilene.tasks.hub import HIDDENBENCH, MEDEINST, MUSIQUE, HubFile
from abilene.tasks.task import Note, Task

#: Options that have a place of their own in a plan.
_COMMON = ("seed", "tasks", "team_size", "informed", "source")


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
    deal : callable
        Faults of one task as it is dealt out (hidden condition).
    needs_data : bool
        Whether the tasks come from a file.
    prompts : str
        Section of the prompt pack.
    hub : HubFile, optional
        Where the file is taken from when none is given.
    """

    name: str
    description: str
    source: Callable[..., tuple[Task, ...]]
    deal: Callable[[Task], list[str]]
    needs_data: bool
    prompts: str
    hub: HubFile | None = None

    @property
    def variant(self) -> dict[str, int]:
        """Further options of the source and their defaults: what makes a variant of the benchmark.

        Examples
        --------
        >>> BENCHMARKS["medeinst"].variant
        {'per_level': 30, 'findings': 1, 'options': 5}
        """
        known = inspect.signature(self.source).parameters.values()
        return {p.name: p.default for p in known if p.kind is p.KEYWORD_ONLY and p.name not in _COMMON}

    def check_variant(self, values: Mapping[str, object]) -> None:
        """Check options that make a variant.

        Raises
        ------
        UsageError
            An option that this benchmark does not have, or one that is no whole number.
        """
        for name, value in values.items():
            if name not in self.variant:
                has = ", ".join(f"{k} ({v})" for k, v in self.variant.items()) or "none"
                raise UsageError(
                    f"{self.name} has no option {name!r}. Its options, with their defaults: {has}."
                )
            if isinstance(value, bool) or not isinstance(value, int):
                raise UsageError(f"{self.name}, option {name}: it must be a whole number, found {value!r}.")

    def check(self, task: Task) -> list[str]:
        """Faults of one task, in words; empty if it is sound, in either condition."""
        return check_full(task) if is_full(task) else self.deal(task)

    def make(
        self, *, data: str | Path | None = None, condition: str = "hidden", **options: object
    ) -> tuple[Task, ...]:
        """Tasks of this benchmark.

        Parameters
        ----------
        data : str or Path, optional
            The data file, only where `needs_data`; left out, it is taken from the hub at a pinned revision.
        condition : str
            ``hidden``: each agent holds its own notes; ``full``: every agent holds every fact
            (`abilene.tasks.evidence.full_profile`).
        **options
            Options of the source, such as seed, tasks and team_size. None means: the source's default.

        Raises
        ------
        UsageError
            Data missing or given in vain, an unknown condition, or an option that this benchmark does not have.
        InputError
            The data cannot be used, or cannot be had from the hub.
        MissingExtraError
            The data is on the hub, and huggingface_hub is not installed.

        Examples
        --------
        >>> len(BENCHMARKS["hidden_profile"].make(tasks=8, seed=1))
        8
        """
        known = [k for k, p in inspect.signature(self.source).parameters.items() if p.kind is p.KEYWORD_ONLY]
        given = {key: value for key, value in options.items() if value is not None}
        if unknown := sorted(set(given) - set(known)):
            raise UsageError(f"{self.name} has no option '{unknown[0]}'. It has: {', '.join(known)}.")
        if condition not in CONDITIONS:
            raise UsageError(f"Condition {condition!r}: choose one of {', '.join(CONDITIONS)}.")
        if self.needs_data:
            if data is None and self.hub is None:
                raise UsageError(
                    f"{self.name} reads its tasks from a file. Give its path as data (--data PATH)."
                )
            made = self.source(data, **given)
        elif data is not None:
            raise UsageError(
                f"{self.name} makes its own tasks and takes no data file. Leave out data (--data)."
            )
        else:
            made = self.source(**given)
        return tuple(map(full_profile, made)) if condition == "full" else made


#: All benchmarks, by name.
BENCHMARKS: dict[str, Benchmark] = {
    b.name: b
    for b in (
        Benchmark(
            name=hidden_profile.BENCHMARK,
            description="Two candidates; only the pooled findings favor the stronger. Made on the spot, any team size.",
            source=hidden_profile.make_tasks,
            deal=hidden_profile.check,
            needs_data=False,
            prompts="hidden_profile",
        ),
        Benchmark(
            name=hiddenbench.BENCHMARK,
            description="The 65 published HiddenBench tasks; one clue per agent in teams of 3 or 4; any other size.",
            source=hiddenbench.load,
            deal=hiddenbench.check,
            needs_data=True,
            prompts="options",
            hub=HIDDENBENCH,
        ),
        Benchmark(
            name=musique.BENCHMARK,
            description="MuSiQue questions of 2 to 4 steps, each step known to another agent; free-text answers.",
            source=musique.load,
            deal=musique.check,
            needs_data=True,
            prompts="musique",
            hub=MUSIQUE,
        ),
        Benchmark(
            name=medeinst.BENCHMARK,
            description="MedEinst case pairs: one finding, held by some, turns the obvious diagnosis into another.",
            source=medeinst.load,
            deal=medeinst.check,
            needs_data=True,
            prompts="options",
            hub=MEDEINST,
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


__all__ = [
    "BENCHMARKS",
    "CONDITIONS",
    "Benchmark",
    "Note",
    "Task",
    "benchmark",
    "favored",
    "file_digest",
    "full_profile",
    "view_counts",
]
