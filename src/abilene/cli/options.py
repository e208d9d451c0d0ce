"""Options that several commands share."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import typer

from abilene.errors import UsageError

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")
]
Seed = Annotated[int, typer.Option("--seed", help="Root of everything random.")]

C = Annotated[
    float, typer.Option("-c", "--withholding", help="c: stating the majority against one's own answer.")
]
A = Annotated[float, typer.Option("-a", "--internalization", help="a: adopting what was stated that way.")]
Rho = Annotated[float, typer.Option("--rho", help="Scale of reconsidering, times the dissent seen.")]
R = Annotated[float, typer.Option("-r", "--correction", help="r: reconsidering lands on the correct answer.")]
N = Annotated[int, typer.Option("-n", "--team-size", help="N, number of agents.")]
T = Annotated[int, typer.Option("-t", "--rounds", help="T, number of discussion rounds.")]


def limit_observed(text: str) -> float:
    """q of the mean field: a whole number, or inf for the complete-graph limit."""
    if text in ("inf", "complete"):
        return math.inf
    if text.isdecimal():
        return int(text)
    raise UsageError(f"-q must be a whole number from 1, or inf, found {text!r}.")


def crowd_observed(text: str) -> int | Literal["complete"]:
    """q of a finite team: a whole number, or complete."""
    if text == "complete":
        return "complete"
    if text.isdecimal():
        return int(text)
    raise UsageError(f"-q must be a whole number from 1, or complete, found {text!r}.")
