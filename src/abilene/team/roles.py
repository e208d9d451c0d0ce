"""Who is told what: instructions for some agents, and personas from a file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from abilene.errors import InputError, UsageError
from abilene.seeds import child_rng
from abilene.tasks.files import read_json

_HINT = (
    'Write JSON like {"0": "You are ...", "3": "You are ..."} or a list with one text per agent; in TOML, lines '
    'like 0 = "You are ...". Agents are numbered from 0.'
)


def instructed(share: float, team_size: int, seed: int, task: str) -> frozenset[int]:
    """Agents that get the instruction where only a share of the team does.

    Parameters
    ----------
    share : float
        In (0, 1]; the number of agents is share times N, rounded, halves up.
    team_size : int
        N.
    seed : int
        Of the run. Which agents they are depends on seed and task only; a smaller share is part of a larger one.
    task : str
        Its id.

    Raises
    ------
    UsageError
        The share is less than half an agent.

    Examples
    --------
    >>> len(instructed(0.5, 5, seed=1, task="t")), len(instructed(1.0, 5, seed=1, task="t"))
    (3, 5)
    """
    if int(share * team_size + 0.5) < 1:
        raise UsageError(
            f"An instruction for {share:g} of a team of {team_size} (task {task}) is an instruction for nobody. "
            f"Give at least {1 / (2 * team_size):.3g}, which is one agent."
        )
    order = child_rng(seed, "instructed", task).permutation(team_size)
    return frozenset(int(i) for i in order[: int(share * team_size + 0.5)])


def load_personas(path: str | Path) -> Mapping[int, str]:
    """Personas by agent from a TOML or JSON file.

    Parameters
    ----------
    path : str or Path
        An object whose keys are agents (from 0), or a list with one text per agent. Agents left out have none.

    Raises
    ------
    InputError
        The file is neither, a key is no agent, or a text is empty.
    """
    path = Path(path)
    try:
        data = (
            tomllib.loads(path.read_text(encoding="utf-8"))
            if path.suffix == ".toml"
            else read_json(path, "a file of personas")
        )
    except OSError as e:
        raise InputError(
            path, f"cannot be read ({e.strerror})", "Give the path of a file of personas."
        ) from e
    except ValueError as e:  # of the text and of TOML
        raise InputError(path, f"is not TOML ({e})", _HINT) from e
    if isinstance(data, list):
        data = {str(i): text for i, text in enumerate(data)}
    if not isinstance(data, dict) or not data:
        raise InputError(path, "holds no personas", _HINT)
    for key, value in data.items():
        if not (key.isascii() and key.isdecimal()) or str(int(key)) != key:
            raise InputError(path, f"{key!r} is no agent", _HINT)
        if not isinstance(value, str) or not value.strip():
            raise InputError(path, f"found {value!r}", "Write the persona's text.", field=key)
    return {int(key): value.strip() for key, value in data.items()}


__all__ = ["instructed", "load_personas"]
