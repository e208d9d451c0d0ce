"""Who observes whom. Edges may be directed; nobody observes itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from abilene.errors import InputError, UsageError
from abilene.seeds import child_rng
from abilene.tasks.files import read_json

NAMED = ("complete", "ring", "star", "chain")


@dataclass(frozen=True, slots=True)
class Topology:
    """A rule that gives each agent the agents it observes.

    Parameters
    ----------
    name : str
        ``complete``, ``ring`` (both neighbours), ``star`` (agent 0 is the hub), ``chain`` (a line),
        ``random:Q`` (Q distinct others, redrawn every round), or the path of an adjacency file.
    q : int, optional
        Number of observed agents of a random topology.
    adjacency : mapping, optional
        Observed agents by observer, from a file.
    """

    name: str
    q: int | None = None
    adjacency: Mapping[int, tuple[int, ...]] | None = field(default=None)

    @classmethod
    def parse(cls, spec: str) -> Topology:
        """Read a topology as the command line takes it.

        An adjacency file is JSON: ``{"0": [1, 2], "1": [0]}`` says that agent 0 observes 1 and 2. An agent
        that is not named observes nobody.

        Raises
        ------
        UsageError, InputError
            An unknown name, a bad number, a file that is not an adjacency.

        Examples
        --------
        >>> Topology.parse("chain").observed(0, 5)
        (1,)
        """
        if spec in NAMED:
            return cls(spec)
        if spec.startswith("random:"):
            text = spec.removeprefix("random:")
            if not text.isdecimal() or int(text) < 1:
                raise UsageError(f"Topology {spec!r}: Q must be a whole number from 1, as in random:3.")
            return cls(spec, q=int(text))
        path = Path(spec)
        if not path.is_file():
            raise UsageError(
                f"Unknown topology {spec!r}: neither {', '.join(NAMED)} or random:Q, nor the path of a file."
            )
        return cls(spec, adjacency=_read_adjacency(path))

    def check(self, team_size: int) -> None:
        """Refuse a topology that does not fit a team, before anything is asked.

        Raises
        ------
        UsageError
            Q is not smaller than the team, or the file names an agent the team does not have.
        """
        if self.q is not None and self.q >= team_size:
            raise UsageError(
                f"Topology {self.name}: an agent of a team of {team_size} observes at most {team_size - 1}."
            )
        if self.adjacency is not None:
            for i, seen in self.adjacency.items():
                for j in (i, *seen):
                    if not 0 <= j < team_size:
                        raise UsageError(
                            f"Topology {self.name}: agent {j} does not exist in a team of {team_size} "
                            f"(agents are numbered 0 to {team_size - 1})."
                        )

    def observed(
        self, agent: int, team_size: int, *, seed: int = 0, key: tuple[str | int, ...] = ()
    ) -> tuple[int, ...]:
        """Agents that `agent` observes, ascending.

        Parameters
        ----------
        agent : int
            From 0.
        team_size : int
            N.
        seed, key
            What a random draw depends on (task, epoch, round); ignored by fixed topologies.
        """
        n = team_size
        if self.adjacency is not None:
            return self.adjacency.get(agent, ())
        if self.q is not None:
            rng = child_rng(seed, "topology", *key, agent)
            others = [j for j in range(n) if j != agent]
            return tuple(sorted(int(j) for j in rng.choice(others, size=self.q, replace=False)))
        if self.name == "ring":
            return tuple(sorted({(agent - 1) % n, (agent + 1) % n} - {agent}))
        if self.name == "chain":
            return tuple(j for j in (agent - 1, agent + 1) if 0 <= j < n)
        if self.name == "star" and agent != 0:
            return (0,)
        return tuple(j for j in range(n) if j != agent)


def _read_adjacency(path: Path) -> dict[int, tuple[int, ...]]:
    hint = 'Write JSON like {"0": [1, 2], "1": [0]}: agent 0 observes agents 1 and 2.'
    data = read_json(path, f"an adjacency. {hint}")
    if not isinstance(data, dict) or not data:
        raise InputError(path, "names nobody" if data == {} else f"holds a {type(data).__name__}", hint)
    out: dict[int, tuple[int, ...]] = {}
    for key, seen in data.items():
        if not key.isdecimal() or not isinstance(seen, list) or not all(type(j) is int for j in seen):
            raise InputError(path, f"found {seen!r}", hint, field=key)
        if int(key) in out:
            raise InputError(path, f"agent {int(key)} occurs twice", hint, field=key)
        if int(key) in seen or len(set(seen)) != len(seen):
            raise InputError(path, f"lists itself or somebody twice: {seen!r}", hint, field=key)
        out[int(key)] = tuple(sorted(seen))
    return out
