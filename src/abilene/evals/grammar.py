"""Grammars (GBNF) that let a model write a reply format and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from abilene.team.call import Line

#: Greatest length of a free-text answer, in characters.
_LONGEST = 120


def gbnf(lines: Sequence[Line]) -> str:
    """Grammar of a reply format.

    Parameters
    ----------
    lines : sequence of Line
        At least one. Counts are whole numbers from 0 to 99: unbounded digits would run to the token limit.

    Returns
    -------
    str
        Its only sentences are the format's lines, in order, without anything around them.

    Examples
    --------
    >>> print(gbnf([Line("COUNT", counts=("Ada", "Bo")), Line("ANSWER", ("Ada", "Bo"))]))
    root ::= "COUNT: Ada=" count " Bo=" count "\\nANSWER: " ("Ada" | "Bo")
    count ::= [0-9] | [1-9] [0-9]
    """
    parts: list[str] = []
    text = ""
    for i, line in enumerate(lines):
        text += ("\n" if i else "") + f"{line.tag}: "
        if line.counts:
            for k, name in enumerate(line.counts):
                text += (" " if k else "") + f"{name}="
                parts += [_quote(text), "count"]
                text = ""
        elif line.values:
            parts += [_quote(text), "(" + " | ".join(_quote(v) for v in line.values) + ")"]
            text = ""
        else:
            parts += [_quote(text), f"[^\\n]{{1,{_LONGEST}}}"]
            text = ""
    rules = ["root ::= " + " ".join(parts)]
    if any(line.counts for line in lines):
        rules.append("count ::= [0-9] | [1-9] [0-9]")
    return "\n".join(rules)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
