"""Lines of a reply: thought blocks removed, one JSON object unfolded, tagged lines found."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache

# Thought blocks ------------------------------------------------------------------------------------------

_WORDS = (
    r"(?:antml:|seed:)?"
    r"(?:think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis|internal_monologue)"
)
_OPEN_CLOSE = (
    (rf"(?:<|&lt;){_WORDS}(?:\s[^<>]{{0,200}})?(?:>|&gt;)", rf"(?:<|&lt;)/\s*{_WORDS}\s*(?:>|&gt;)"),
    (r"\[(?:THINK|THINKING|THOUGHT|REASONING)\]", r"\[/(?:THINK|THINKING|THOUGHT|REASONING)\]"),
    (r"<\|(?:begin_of_thought|START_THINKING)\|>", r"<\|(?:end_of_thought|END_THINKING)\|>"),
    (r"◁think▷", r"◁/think▷"),
    (r"<unused94>", r"<unused95>"),
    (r"<\|channel>\s*thought", r"<channel\|>"),
    (r"<\|channel\|>\s*(?:analysis|commentary)", r"<\|channel\|>\s*final(?:\s*<\|message\|>)?"),
)
_MARKS = re.compile(
    "|".join(f"(?P<o{k}>{o})|(?P<c{k}>{c})" for k, (o, c) in enumerate(_OPEN_CLOSE)), re.IGNORECASE
)


def strip_thought(text: str) -> tuple[str, bool]:
    """Text without thought blocks.

    Parameters
    ----------
    text : str
        A reply.

    Returns
    -------
    text : str
        What is left. A closing mark without an opening one ends a thought that began with the reply.
    open : bool
        Whether a block was never closed; everything after its opening is dropped.

    Examples
    --------
    >>> strip_thought("<think>ANSWER: A</think>ANSWER: B")
    ('\\nANSWER: B', False)
    >>> strip_thought("<think>ANSWER: A")
    ('\\n', True)
    """
    kept: list[str] = []
    inside, last = "", 0
    for m in _MARKS.finditer(text):
        mark, kind = m.lastgroup or "", (m.lastgroup or " ")[1:]
        if inside:
            if mark == f"c{inside}":
                inside, last = "", m.end()
        elif mark.startswith("o"):
            kept += [text[last : m.start()], "\n"]
            inside = kind
        else:
            kept, last = ["\n"], m.end()
    if not inside:
        kept.append(text[last:])
    return "".join(kept), bool(inside)


# Tagged lines --------------------------------------------------------------------------------------------

_NEWLINE = re.compile(r"\r\n|\r|\n")
_OTHER_TAG = re.compile(r"(?<!\w)(?:ANSWER|PRIVATE|PUBLIC|SHARE|COUNT|RATIONALE)[*_~`\"')\]]{0,4}\s?[:：]")


@lru_cache(maxsize=64)
def _tag_pattern(tag: str) -> re.Pattern[str]:
    decoration = r"[\W_]{0,40}"
    return re.compile(
        rf"^{decoration}(?:\d{{1,2}}[.)][\W_]{{0,10}})?{re.escape(tag)}"
        r"[\s*_~`\"'”’)\]}>]{0,10}(?:\([^()]{0,60}\)[\s*_~`]{0,10})?(?P<colon>[:：﹕∶|])",
        re.IGNORECASE,
    )


@dataclass(frozen=True, slots=True)
class Tagged:
    """What follows a tag on its line."""

    value: str  # everything after the colon
    at_end: bool  # nothing follows, not even a line break


def tagged(text: str, tag: str) -> list[Tagged]:
    """Lines that start with the tag and have something after it."""
    pattern, found = _tag_pattern(tag), []
    lines = _NEWLINE.split(_unfold_json(text))
    for i, line in enumerate(lines):
        m = pattern.match(line)
        if m is None or (m["colon"] == "|" and not line.lstrip().startswith("|")):
            continue
        if value := line[m.end() :].strip():
            found.append(Tagged(value, i == len(lines) - 1))
    return found


class _Pairs(list[tuple[str, object]]):
    """A JSON object with its keys in order, repeated ones included."""


def _unfold_json(text: str) -> str:
    """One JSON object as tagged lines; any other text as it is."""
    body = re.sub(r"^```\w*", "", text.strip()).removesuffix("```").strip()
    if not (body.startswith("{") and body.endswith("}")):
        return text
    try:
        pairs = json.loads(body, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return text
    return "".join(f"{key}: {_flat(value)}\n" for key, value in pairs)


def _flat(value: object) -> str:
    if isinstance(value, _Pairs):
        return " ".join(f"{k}={v}" for k, v in value if isinstance(v, str | int | float))
    if isinstance(value, list):
        return ", ".join(str(v) for v in value if isinstance(v, str | int | float))
    return "" if value is None else _NEWLINE.sub(" ", str(value))


def own_part(value: str, tag: str) -> str:
    """The value without other tagged parts on the same line, and without its own tag repeated."""
    value = re.sub(rf"^[\s*_`]*{re.escape(tag)}[\s*_`]*[:：]", "", value, flags=re.IGNORECASE)
    return _OTHER_TAG.split(value, maxsplit=1)[0]
