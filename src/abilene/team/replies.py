"""Reading replies: which answer a reply gives, and with what status. A reply is never guessed at.

The rules, in order. Thought blocks are removed first. An answer is what follows ``TAG:`` on a line that
*starts* with the tag (decoration such as bold, bullets, quotes or a table bar may stand before it; letter
case and the colon's width do not matter). The last such line with something after the tag counts; an earlier
line with another answer makes the status `multiple`. The value must be on the tag's own line: what stands
below an empty tag may as well be commentary. A reply that is one JSON object counts as one line per key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from abilene.records.schema import ANSWERED, Status
from abilene.tasks.freetext import normalise
from abilene.team.call import Completion, Line
from abilene.team.lines import own_part, strip_thought, tagged
from abilene.team.matching import abstains, is_placeholder, matcher, peel, refuses, tidy

ShareStatus = Literal["none", "ok", "several", "unknown", "repeated", "missing"]


@dataclass(frozen=True, slots=True)
class Reading:
    """One line of a reply, read.

    Parameters
    ----------
    value : str or None
        The answer: an option exactly as listed, or a cleaned string where the answer is free. None unless
        the status is ok or multiple.
    status : Status
        What became of the line.
    """

    value: str | None
    status: Status

    @property
    def flagged(self) -> bool:
        """Whether an answer was read although the reply broke the format's rule of one answer."""
        return self.status is Status.MULTIPLE


@dataclass(frozen=True, slots=True)
class ShareReading:
    """The SHARE line, read.

    Parameters
    ----------
    id : str or None
        Own note to put on the table; None where nothing new is shared.
    status : str
        ``none`` (declined), ``ok``, ``several`` (more than one named; the first counts), ``unknown`` (not a
        note of this agent), ``repeated`` (already on the table) or ``missing`` (no such line).
    """

    id: str | None
    status: ShareStatus


Reply = dict[str, Reading]
"""A reading for every line that the format asks for, by tag."""


# One answer ----------------------------------------------------------------------------------------------


def read_line(
    reply: Completion | str,
    tag: str,
    options: Sequence[str] = (),
    stop: str = "stop",
    error: str | None = None,
) -> Reading:
    """Answer that a reply gives on one tagged line.

    Parameters
    ----------
    reply : Completion or str
        A completion brings its own `stop` and `error`.
    tag : str
        ``ANSWER``, ``PRIVATE``, ``PUBLIC``.
    options : sequence of str
        Admissible answers, single-line texts; empty where the answer is free text.
    stop : str
        Why the reply ended: ``stop``, ``length``, ``refusal`` or ``other``.
    error : str, optional
        The call failed: the status is `failed` whatever the text.

    Returns
    -------
    Reading

    Notes
    -----
    A reply cut by the length limit counts as answered only where more text could not have changed the
    answer: "Mr. X" at the very end may have become "Mr. X's son".

    Examples
    --------
    >>> read_line("Thinking it over ...\\n**PUBLIC:** east town.", "PUBLIC", ("West City", "East Town"))
    Reading(value='East Town', status=<Status.OK: 'ok'>)
    >>> read_line("PUBLIC: not East Town", "PUBLIC", ("West City", "East Town")).status
    <Status.AMBIGUOUS: 'ambiguous'>
    """
    if isinstance(reply, Completion):
        return read_line(reply.text, tag, options, reply.stop, reply.error)
    if error is not None:
        return Reading(None, Status.FAILED)
    text, unclosed = strip_thought(reply)
    found = tagged(text, tag)
    options = tuple(options)
    values = {value: _value(value, tag, options) for value in {line.value for line in found}}
    readings = [(line, *values[line.value]) for line in found]
    readings = [r for r in readings if r[2] is not None]
    # A format line that is merely echoed is no answer beside a real one.
    solid = [r for r in readings if not _echo(r[0].value, tag, options)] or readings
    if not solid:
        return Reading(None, _why_nothing(text, stop, unclosed))
    line, value, status = solid[-1]
    assert status is not None
    if stop == "length" and line.at_end and not _settled(line.value, value, options):
        return Reading(None, Status.TRUNCATED)
    if status is Status.OFF_LIST and stop == "refusal":
        status = Status.REFUSED
    if value is not None and any(v is not None and _differs(v, value, options) for _, v, _ in solid[:-1]):
        status = Status.MULTIPLE
    return Reading(value, status)


def _value(raw: str, tag: str, options: tuple[str, ...]) -> tuple[str | None, Status | None]:
    """Answer and status of one tagged value; status None where there is nothing in it."""
    if options:
        for option in options:
            if raw == option.strip():  # first, so that nothing in an option can be taken for decoration
                return option, Status.OK
        part = own_part(raw, tag)
        whole = matcher(options).equal(part) if part.strip() else None
        if whole:
            return whole
        if not re.search(r"\w", part):
            return None, None
        return matcher(options).match(part)
    value = clean(own_part(raw, tag))
    if not re.search(r"[^\W_]", value):
        return None, None
    if abstains(value):
        return None, Status.MISSING
    if refuses(value):
        return None, Status.REFUSED
    return (None, Status.MISSING) if is_placeholder(own_part(raw, tag), free=True) else (value, Status.OK)


def _echo(raw: str, tag: str, options: tuple[str, ...]) -> bool:
    if options and _value(raw, tag, options)[0] is not None:
        return False
    return is_placeholder(own_part(raw, tag), free=not options)


def _settled(raw: str, value: str | None, options: tuple[str, ...]) -> bool:
    """Whether a value at the point where the reply was cut could not have become another one."""
    if value is None or not options:
        return False
    start = _plain(value)
    return not any(_plain(o) != start and _plain(o).startswith(start) for o in options)


def _plain(option: str) -> str:
    return tidy(option).casefold()


def _differs(a: str, b: str, options: tuple[str, ...]) -> bool:
    return a != b if options else normalise(a) != normalise(b)


def _why_nothing(text: str, stop: str, unclosed: bool) -> Status:
    if stop == "refusal":
        return Status.REFUSED
    if stop == "length" or unclosed:
        return Status.TRUNCATED
    return Status.REFUSED if refuses(text) else Status.MISSING


# Free text -----------------------------------------------------------------------------------------------

_WRAPS = [tuple(pair) for pair in ('""', "''", "“”", "‘’", "«»", "()", "[]", "<>", "{}", "$$")]
_ABBREVIATION = re.compile(r"(?:\.\w|\b\w|\b(?:Jr|Sr|Inc|Ltd|Co|Corp|St|No|Mt|Dr|Mr|Mrs|Ms))\.$")


def clean(text: str) -> str:
    """Free answer without decoration at its ends: bold, quotes, brackets, a final period.

    Examples
    --------
    >>> clean("**“Washington, D.C.”**.")
    'Washington, D.C.'
    """
    text = " ".join(re.sub(r"<\|[^|<>\n]{1,40}\|>|</?s>|<end_of_turn>|<br\s*/?>", " ", text).split())
    while True:
        before = text
        text = text.strip(" *_~`|#").strip(",;:!。、！")
        if text.endswith(".") and not _ABBREVIATION.search(text):
            text = text.rstrip(". ")
        for left, right in _WRAPS:
            inner = text[len(left) : -len(right)]
            if (
                text.startswith(left)
                and text.endswith(right)
                and inner
                and left not in inner
                and right not in inner
            ):
                text = inner.strip()
        if text == before:
            return text


# Other lines ---------------------------------------------------------------------------------------------

_ID = r"(?<![\w-])[a-z]{1,3}\d{1,4}(?![\w-])"
_ID_LIST = re.compile(
    rf"^[\s\"'(\[<{{*_`#]*(?:notes?|ids?)?[\s:#]*({_ID}(?:[\s\"'()\[\]<>,;&+/]|and|-|–)*)+", re.I
)
_DECLINES = re.compile(r"^(?:none|nothing|null|nil|n/?a|no|no notes?|not sharing)(?!\w)", re.IGNORECASE)


def read_share(
    reply: Completion | str, own_ids: Sequence[str], shared_ids: Iterable[str] = ()
) -> ShareReading:
    """Note that a reply puts on the table.

    Parameters
    ----------
    reply : Completion or str
        The reply.
    own_ids : sequence of str
        Ids of this agent's notes, such as P1.
    shared_ids : iterable of str
        Those already on the table.

    Examples
    --------
    >>> read_share("SHARE: [p1]", ["P1", "P2"])
    ShareReading(id='P1', status='ok')
    >>> read_share("SHARE: P1, P2", ["P1", "P2"])
    ShareReading(id='P1', status='several')
    >>> read_share("SHARE: NONE.", ["P1", "P2"])
    ShareReading(id=None, status='none')
    """
    text = _text(reply)
    lines = [t.value for t in tagged(text, "SHARE") if re.search(r"\w", own_part(t.value, "SHARE"))]
    own = {i.casefold(): i for i in own_ids}
    named = [ids for line in lines if (ids := _ids(line, own)) is not None]
    if not named:
        return ShareReading(None, "missing")
    ids = named[-1]
    if not ids:
        return ShareReading(None, "none")
    first = own.get(ids[0])
    if first is None:
        return ShareReading(None, "unknown")
    if first in set(shared_ids):
        return ShareReading(None, "repeated")
    return ShareReading(first, "several" if len({i for line in named for i in line}) > 1 else "ok")


def _ids(raw: str, own: dict[str, str]) -> list[str] | None:
    """Ids named by a SHARE value, lower case, in order; empty if it declines; None for an echoed blank."""
    if raw.casefold() in own:
        return [raw.casefold()]
    value = tidy(own_part(raw, "SHARE")).casefold()
    plain = peel(value)
    if _DECLINES.match(plain):
        return []
    # "P1: text of the note" names P1 only, whatever ids the text holds.
    if leading := _ID_LIST.match(value):
        rest = value[leading.end() :]
        undecided = re.match(r"(?:or|/)\b", rest.lstrip())
        return ["?"] if undecided else re.findall(_ID, leading.group())
    if is_placeholder(raw, free=False):
        return None
    ids = re.findall(_ID, value)
    return ids if ids and not re.search(r"\b(?:not|no|or|except|but|none)\b|n't\b", value) else ["?"]


def read_counts(reply: Completion | str, names: Sequence[str]) -> dict[str, int] | None:
    """Counts of a line such as ``COUNT: Ada=3 Bo=4``; None unless every name has exactly one whole number.

    Examples
    --------
    >>> read_counts("**COUNT:** ada: 3, Bo = 4", ["Ada", "Bo"])
    {'Ada': 3, 'Bo': 4}
    """
    lines = tagged(_text(reply), "COUNT")
    if not lines or not names:
        return None
    value = tidy(lines[-1].value)
    by_fold = {tidy(name).casefold(): name for name in names}
    any_name = "|".join(re.escape(n).replace(r"\ ", r"\s+") for n in sorted(by_fold, key=len, reverse=True))
    pattern = re.compile(
        rf"(?<!\w)({any_name})(?!\w)\W{{0,3}}?[\s:=(\"'`-]{{0,6}}([0-9]{{1,6}})(?!\w|[.,/+*-]?[0-9]|\s*[+*/=%-])",
        re.IGNORECASE,
    )
    counts: dict[str, int] = {}
    for name, number in pattern.findall(value):
        key = by_fold.get(" ".join(name.casefold().split()))
        if key is None or counts.setdefault(key, int(number)) != int(number):
            return None
    return {name: counts[name] for name in names} if len(counts) == len(by_fold) else None


def _text(reply: Completion | str) -> str:
    if isinstance(reply, Completion):
        reply = "" if reply.error is not None else reply.text
    return strip_thought(reply)[0]


def read_reply(completion: Completion, format: Sequence[Line]) -> Reply:
    """Readings of all lines of a reply.

    Parameters
    ----------
    completion : Completion
        What the call returned.
    format : sequence of Line
        The lines that were asked for.

    Returns
    -------
    dict
        One `Reading` per tag. SHARE reads as the note's id or NONE; what is already on the table is not known
        here (see `read_share`). COUNT reads as the counts in the format's own notation.
    """
    return {line.tag: _read(completion, line) for line in format}


def _read(completion: Completion, line: Line) -> Reading:
    if line.counts:
        found = read_line(completion, line.tag)
        if found.status not in ANSWERED:
            # A list of counts at the point where the reply was cut may lack a digit.
            return found
        counts = read_counts(completion, line.counts)
        if counts is None:
            return Reading(None, Status.OFF_LIST)
        return Reading(" ".join(f"{name}={n}" for name, n in counts.items()), Status.OK)
    if line.tag == "SHARE":
        if completion.error is not None:
            return Reading(None, Status.FAILED)
        share = read_share(completion, [v for v in line.values if v != "NONE"])
        if share.status == "missing":
            text, unclosed = strip_thought(completion.text)
            return Reading(None, _why_nothing(text, completion.stop, unclosed))
        if share.status == "none":
            return Reading("NONE", Status.OK)
        if share.id is None:
            return Reading(None, Status.OFF_LIST)
        return Reading(share.id, Status.MULTIPLE if share.status == "several" else Status.OK)
    return read_line(completion, line.tag, line.values)
