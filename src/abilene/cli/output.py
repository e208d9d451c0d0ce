"""How the command line prints: one JSON document or readable text on stdout, talk on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

# No markup anywhere: names and paths of strangers may hold brackets.
talk = Console(stderr=True, highlight=False, markup=False)
out = Console(highlight=False, markup=False)


def finite(value: Any) -> Any:
    """The value with tuples as lists; a NaN or infinity anywhere is a defect and raises ValueError."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite reached the output")
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [finite(v) for v in value]
    return value


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on stdout and nothing else there."""
    sys.stdout.write(json.dumps(finite(document), ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def number(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """A number for people; an em dash where it is not known."""
    if value is None:
        return "—"
    # Adding 0 turns a negative zero, and what rounds to it, into 0.
    return f"{round(value, digits) + 0.0:{'+' if sign else ''}.{digits}f}"


def interval(lower: float | None, upper: float | None, sign: bool = False) -> str:
    """An interval for people; an em dash where it is not known."""
    if lower is None or upper is None:
        return "—"
    return f"{number(lower, sign=sign)} to {number(upper, sign=sign)}"
