"""Free-text answers: when two of them are one opinion, and when one of them is correct.

Two rules are kept apart and never mixed. *Strict* is the benchmark's own: equal after `normalise`, to the answer or
to one of its aliases. *Lenient* also takes another form of the same content: a date written differently, a
number in words, a percent sign. Neither takes more or less content ("1929" is not "11 February 1929"), and
neither looks for the answer inside a longer text.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache, partial

_ARTICLES = frozenset({"a", "an", "the"})
_THOUSAND = re.compile(r"\d{3}(?!\d)")


def normalise(text: str) -> str:
    """Text in the form in which answers are compared.

    Compatibility characters are unified (NFKC), letter case is folded, punctuation is removed (not replaced by a
    space), articles are dropped and spaces are collapsed. Three exceptions keep different answers apart: a point or
    comma inside a number stays unless it separates thousands, the minus in front of a number stays, and an article
    that is the last word stays ("Hepatitis A").

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        Empty where the text has neither letter nor digit. Normalising twice changes nothing.

    Examples
    --------
    >>> normalise("  The  Hudson's Bay. ")
    'hudsons bay'
    >>> normalise("16th - century") == normalise("16th century")
    True
    >>> normalise("-1.5"), normalise("Vitamin A")
    ('-1.5', 'vitamin a')
    """
    while (shorter := _strip(_fold(text))) != text:
        text = shorter
    return text


def _strip(text: str) -> str:
    kept = []
    for i, c in enumerate(text):
        before, rest = text[i - 1 : i] if i else "", text[i + 1 :]
        inside = before.isdecimal() and rest[:1].isdecimal()
        if c in ".,":
            stays = inside and not (c == "," and _THOUSAND.match(rest))
        elif c in "-−":
            stays = (not before or before.isspace()) and rest[:1].isdecimal()
        else:
            stays = c.isspace() or (c not in string.punctuation and unicodedata.category(c)[0] not in "PC")
        if stays:
            kept.append("-" if c == "−" else c)
    words = "".join(kept).split()
    # An article stands before something; the last word is none.
    return " ".join([*(w for w in words[:-1] if w not in _ARTICLES), *words[-1:]])


def _fold(text: str) -> str:
    # Folding can undo composition and the other way round, so twice.
    for _ in range(2):
        text = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", text)


def same_opinion(a: str, b: str, aliases: Iterable[str] = ()) -> bool:
    """Whether two answers are one opinion: they normalise alike, or both are aliases of one answer.

    Parameters
    ----------
    a, b : str
        Two answers.
    aliases : iterable of str
        Everything that means one and the same answer, that answer included.

    Returns
    -------
    bool
        False where either text is empty after normalising: no answer agrees with nothing.

    Examples
    --------
    >>> same_opinion("The Pirates", "pirates!")
    True
    >>> same_opinion("NY Mets", "New York Mets", ["New York Mets", "NY Mets"])
    True
    """
    x, y = normalise(a), normalise(b)
    if not x or not y:
        return False
    if x == y:
        return True
    known = {normalise(s) for s in aliases}
    return x in known and y in known


def canonical(text: str, answer: str, aliases: Iterable[str] = ()) -> str:
    """One string for each opinion, so that equal strings are equal opinions.

    For records and counting only. It returns the answer itself for whatever matches it, so showing it to an agent
    would tell which of the statements is correct.

    Parameters
    ----------
    text : str
        What an agent answered.
    answer : str
        The correct answer.
    aliases : iterable of str
        Other strings that mean the answer.

    Returns
    -------
    str
        `answer` where the text matches it strictly, else the normalised text (empty if there is nothing in it).

    Examples
    --------
    >>> canonical("the mets", "New York Mets", ["Mets"]), canonical("The Yankees", "New York Mets", ["Mets"])
    ('New York Mets', 'yankees')
    """
    return answer if strict_match(text, answer, aliases) else normalise(text)


def strict_match(text: str, answer: str, aliases: Iterable[str] = ()) -> bool:
    """Whether a text equals the answer or an alias after normalising (exact match, best over the aliases).

    Examples
    --------
    >>> strict_match("Hudson Bay", "Hudson's Bay", ["Hudson Bay", "HB"])
    True
    >>> strict_match("sixteenth century", "16th century")
    False
    """
    given = normalise(text)
    return bool(given) and any(given == normalise(s) for s in (answer, *aliases))


def lenient_match(text: str, answer: str, aliases: Iterable[str] = ()) -> bool:
    """Whether a text says the same as the answer or an alias in another form.

    Whatever matches strictly matches here. Beyond it, these are one: dates in different orders and with months in
    words or digits, numbers in words and in digits (ordinals and thousands too), percent and common currencies as
    signs or words, letters with and without accents, hyphens, joined and separate words, "&" and "and", a leading
    "in", "on", "at" or "during". A day and a month in digits that could be read either way around ("03/04/1990")
    are not read as a date.

    Examples
    --------
    >>> lenient_match("February 11, 1929", "11 February 1929"), lenient_match("in 1929", "11 February 1929")
    (True, False)
    >>> lenient_match("sixteenth century", "16th - century"), lenient_match("forty-eight percent", "48%")
    (True, True)
    """
    if strict_match(text, answer, aliases):
        return True
    given = _form(text)
    return bool(given) and any(given == _form(s) for s in (answer, *aliases))


_UNITS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_CARDINALS = {w: i for i, w in enumerate(_UNITS)} | {w: 10 * i for i, w in enumerate(_TENS, start=2)}
_IRREGULAR = {
    "first": "one", "second": "two", "third": "three", "fifth": "five", "eighth": "eight", "ninth": "nine",
    "twelfth": "twelve",
}  # fmt: skip
_ORDINALS = (
    {w + "th": w for w in (*_UNITS, *_SCALES)} | {w[:-1] + "ieth": w for w in _TENS} | _IRREGULAR
)  # "twoth" and the like are harmless: nobody writes them
_MONTHS = {
    name: i
    for i, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sep sept", "october oct", "november nov", "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_DAY, _YEAR = r"(\d{1,2})(?:st|nd|rd|th)?", r"(\d{4})"
_DATES = tuple(
    (re.compile(rf"\b{pattern}(?![\w/]|[-.]\d)"), order)
    for pattern, order in (
        (rf"{_DAY}(?:\s+of)?[\s-]+({_MONTH}),?[\s-]+{_YEAR}", "dmy"),
        (rf"({_MONTH})\s+{_DAY},?\s+{_YEAR}", "mdy"),
        (rf"{_YEAR}[-/.](\d{{1,2}})[-/.](\d{{1,2}})", "ymd"),
        (r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})", "??y"),
        (rf"({_MONTH}),?(?:\s+of)?\s+{_YEAR}", "my"),
        (rf"{_YEAR}-(\d{{2}})", "ym"),
        (r"(\d{1,2})/(\d{4})", "my"),
        (rf"{_DAY}(?:\s+of)?\s+({_MONTH})", "dm"),
        (rf"({_MONTH})\s+{_DAY}", "md"),
    )
)
_SIGNS = {"%": " percent ", "&": " and ", "$": " dollar ", "€": " euro ", "£": " pound ", "¥": " yen "}
_WORDS = {"dollars": "dollar", "euros": "euro", "pounds": "pound", "percentage": "percent", "usd": "dollar"}
_MARK = "\ue000"  # private use: cannot be typed by accident, and the text is stripped of it first


@lru_cache(maxsize=4096)
def _form(text: str) -> str:
    """Content of a text: words without spaces, with numbers and dates as marked tokens."""
    text = unicodedata.normalize("NFD", _fold(text.replace(_MARK, "")))
    text = "".join(c for c in text if unicodedata.category(c) not in ("Mn", "Cf"))
    text = re.sub(r"[‐‑‒–—−]", "-", text)
    text = re.sub(r"['’‘`´]", "", text)
    for pattern, order in _DATES:
        text = pattern.sub(partial(_date, order), text)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    for sign, word in _SIGNS.items():
        text = text.replace(sign, word)
    text = re.sub(r"\b(?:us|u\.s\.)\s+dollars?\b", "dollar", text.replace("per cent", "percent"))
    tokens = re.findall(
        rf"{_MARK}[^{_MARK}]+{_MARK}|(?:(?<![^\s(])-)?\d+(?:\.\d+)?(?:st|nd|rd|th)?\b|[^\W\d_]+|\d+", text
    )
    words = [_WORDS.get(t, t) for t in tokens]
    words = [*(w for w in words[:-1] if w not in _ARTICLES), *words[-1:]]
    while len(words) > 1 and words[0] in ("in", "on", "at", "during"):
        del words[0]
    out = _numbers(words)
    # "$5" and "5 dollars": the currency goes behind its number.
    for i in range(len(out) - 1):
        if out[i] in ("dollar", "euro", "pound", "yen") and out[i + 1].startswith(_MARK):
            out[i], out[i + 1] = out[i + 1], out[i]
    return "".join(out)


def _date(order: str, match: re.Match[str]) -> str:
    parts = dict(zip(order, match.groups(), strict=True)) if "?" not in order else {}
    if not parts:
        one, two, year = match.groups()
        if (int(one) > 12) == (int(two) > 12) and one != two:
            return match.group()  # either way around: not guessed
        day, month = (one, two) if int(one) > 12 else (two, one)
        parts = {"d": day, "m": month, "y": year}
    word = parts["m"].rstrip(".")
    month_number = _MONTHS.get(word) or (int(word) if word.isdecimal() else 0)
    day_number = int(parts.get("d", 1))
    if not (1 <= month_number <= 12 and 1 <= day_number <= 31):
        return match.group()
    pieces = [parts.get("y", "?"), str(month_number), str(day_number) if "d" in parts else "?"]
    return f" {_MARK}date {':'.join(pieces)}{_MARK} "


def _numbers(words: list[str]) -> list[str]:
    """Words with every run of number words or digits replaced by one marked number."""
    out: list[str] = []
    i = 0
    while i < len(words):
        length, token = _number(words, i)
        out.append(token or words[i])
        i += length or 1
    return out


def _number(words: list[str], start: int) -> tuple[int, str | None]:
    """Longest number that begins at a word: how many words it takes, and its token (0, None if there is none)."""
    total = part = Decimal(0)
    ordinal = False
    last: str | None = None  # kind of the word before: unit, ten, digits or scale
    i = start
    while i < len(words) and not ordinal:
        word = words[i]
        if (
            word == "and"
            and last == "scale"
            and i + 1 < len(words)
            and _kind(words[i + 1]) in ("unit", "ten")
        ):
            i += 1
            continue
        kind = _kind(word)
        fits = {
            None: kind is not None,
            "scale": kind in ("unit", "ten", "scale"),
            "unit": kind == "scale",
            "digits": kind == "scale",
            "ten": kind == "scale" or (kind == "unit" and 0 < _value(word) < 10),
        }[last]
        if not fits or (i == start and kind == "scale" and word in _ORDINALS):
            break
        ordinal = word in _ORDINALS or (word[-2:] in ("st", "nd", "rd", "th") and word[0].isdecimal())
        if kind == "scale":
            scale = Decimal(_SCALES[_ORDINALS.get(word, word)])
            if scale == 100:
                part = (part or 1) * scale
            else:
                total += (part or 1) * scale
                part = Decimal(0)
        else:
            part += _value(word)
        last = kind
        i += 1
    if i == start:
        return 0, None
    value = format((total + part).normalize(), "f")
    return i - start, f"{_MARK}{'nth' if ordinal else 'n'} {value}{_MARK}"


def _kind(word: str) -> str | None:
    if re.fullmatch(r"-?\d+(?:\.\d+)?(?:st|nd|rd|th)?", word):
        return "digits"
    word = _ORDINALS.get(word, word)
    if word in _SCALES:
        return "scale"
    if word in _CARDINALS:
        return "unit" if _CARDINALS[word] < 20 else "ten"
    return None


def _value(word: str) -> Decimal:
    word = _ORDINALS.get(word, word)
    return Decimal(_CARDINALS[word]) if word in _CARDINALS else Decimal(re.sub(r"(?:st|nd|rd|th)$", "", word))
