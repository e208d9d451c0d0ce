"""Which option a piece of text names: exact where possible, never a guess.

Two questions are kept apart. *Equality*: is the whole text one option, but for decoration (bold, quotes,
brackets, letter case, punctuation, a leading article, a lead-in such as "my answer is") or by the option's
own label ("Site B" of "Site B (Sports center)")? *Mention*: which options occur in a longer text? A longer
text is an answer only if it mentions exactly one option and nothing in it turns the meaning round.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache

from abilene.records.schema import Status

_QUOTES = str.maketrans("‘’‚‛′´`“”„‟″«»‐‑‒–—―−", "'''''''" + '"' * 7 + "-" * 7)
_EDGE = " \t\n\r\f\v*_`\"'“”‘’«»‹›()[]{}「」『』【】.,;:!?¿¡|。！？、，；：…·•"
# Tokens of chat templates and plain HTML that models leave in a reply.
_MARKUP = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|</?s>|<eos>|<end_of_turn>|\[/?INST\]"
    r"|</?(?:b|strong|em|i|u|code|span|p|mark|answer|response|final|output|solution)(?:\s[^<>]*)?>|<br\s*/?>",
    re.IGNORECASE,
)
_BOXED = re.compile(r"^\$*\s*\\(?:boxed|text|textbf|mathbf|mathrm)\{(.*)\}\s*\$*$", re.DOTALL)
_ANGLE = re.compile(r"^[\s*_`\"']*<([^<>]*)>[\s*_`\"'.,]*$")
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)")
_SIGNED = re.compile(r"[-+<>≤≥±~^%$€£=]\s?\d|\d\s?[%$€£+<>]|\d[.,:/]\d")

_NUMBER_EDGE = (r"(?<!\d[.,:/])(?<![-+<>≤≥±~$€£])", r"(?![.,:/]?\d|\s?%)")

_LEAD_IN = re.compile(
    r"""^(?:(?:so|thus|therefore|hence|okay|ok|well|finally|overall|still|definitely|probably|maybe|currently)
          ,?\s+){0,3}
      (?:
        (?:(?:my|the|our)\s+)?
        (?:(?:final|public|private|own|honest|genuine|best|true|correct|right|current|recommended)\s+){0,3}
        (?:answer|choice|option|pick|vote|recommendation|candidate|diagnosis|decision|selection|opinion|position
          |statement|label|number|guess|conclusion)
        \s*(?:is|would\ be|remains|:|=|-)?\s*(?:still\s+)?(?:(?:option|candidate|number|label)\s+)?
      | (?:i|we)(?:'d|'ll|'m|\s+am)?\s+
        (?:(?:would|will|still|now|also|personally|strongly|really)\s+){0,3}
        (?:choose|pick|select|recommend|recommending|vote\ for|voting\ for|go\ with|going\ with|use|take|trust|prefer
          |say|support|favou?r|stick\ with|stay\ with|endorse|propose|suggest|think\ it\ is|believe\ it\ is)\s+
        (?:(?:option|candidate|number|label)\s+)?
      | (?:it\ is|it's|it\ should\ be|it\ must\ be|vote\ for|go\ with|choose|select|pick|recommend)\s+
      | [=→:\#]+\s*|[-=]+>\s*
      )(?=\S)""",
    re.IGNORECASE | re.VERBOSE,
)
# Words that may turn a mention (\0) round, make it conditional, weigh it against something or add to it ...
_TURN = re.compile(
    r"""\b(?:not|no|never|nor|neither|nobody|without|except|excluding|against|other\ than|rather\ than|instead
      |unless|if|or|either|both|versus|vs|than|between|cannot|\w+n't|non|anti|ex|undecided|unsure|opposite
      |(?:any|every|no)(?:one|body|thing)\ but|(?:all|none)\ but
      |nicht|kein\w*|oder|weder|pas|jamais|ou|ni|não|nunca|nie|ikke|inte|niet|geen|не|нет|или|ни)\b
      |不|非|没|或
      |\0\s?(?:'|&|/|\+|,?\ and\b)|(?:&|/|\+|\band)\s?\0""",
    re.IGNORECASE | re.VERBOSE,
)
# ... and words that speak against what stands in the same clause.
_AGAINST = re.compile(
    r"""\b(?:avoid\w*|reject\w*|rul(?:e|es|ed|ing)\ out|eliminat\w*|exclud\w*|dismiss\w*|drop(?:s|ped)?|wrong
      |incorrect|false|bad|unsafe|unsuitable|unacceptable|blocked|closed|worse|worst|weaker|weakest|inferior
      |oppos\w*|disagree\w*|doubt\w*|unlikely|uncertain|undetermined|tie|tied|lost|loses|lacks?|fail\w*|out)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_REASON = re.compile(r"\s(?:because|since|given|as|due\s+to)\s", re.IGNORECASE)
_TAIL = re.compile(r"\s*(?:[).:;,]\s|[(\[]|\s[-–—]+\s|\s(?:because|since|is|as)\s)")

_ABSTAINS = re.compile(
    r"""(?:n/?a|none|null|nil|unknown|undecided|unsure|uncertain|undetermined|inconclusive|tbd|idk|undefined
      |(?:i\s)?abstain(?:ed)?
      |no\s(?:answer|opinion|preference|recommendation|decision|choice|comment|idea)(?:\s(?:yet|given))?
      |(?:i'?m\s|i\sam\s)?(?:not\s|un)(?:sure|decided|known|certain|applicable|available)(?:\syet)?
      |(?:there\sis\s)?(?:not\senough|insufficient)\s(?:information|evidence|data)(?:\sto\s\w+)?
      |(?:i\s|we\s|it\s)?(?:do\snot|don'?t|dont)\s(?:yet\s)?know(?:\syet)?
      |(?:i\s|we\s|it\s)?(?:could\snot|couldn't|cannot|can't|can\snot|unable\sto)\s
        (?:be\s)?(?:determine|decide|say|tell|choose|answer|know|conclude)d?n?(?:\syet)?)""",
    re.IGNORECASE | re.VERBOSE,
)
_REFUSES = re.compile(
    r"""^(?:(?:i'?m|i\sam|we\sare)\s(?:very\s|so\s|truly\s)?sorry|sorry|i\sapologi[sz]e|my\sapologies|unfortunately
        |as\san\s(?:ai|artificial)[\w\s]{0,30}|as\sa\s(?:large\s)?language\smodel)?[\s,.:;-]*(?:but\s)?(?:unfortunately,?\s)?
      (?:(?:i|we)\s(?:simply\s|really\s|just\s)?
          (?:can\s?not|can't|won't|will\snot|am\s(?:un|not\s)able\sto|'m\s(?:un|not\s)able\sto|am\snot\sallowed\sto
            |must\sdecline\sto|have\sto\sdecline\sto|decline\sto|refuse\sto|am\snot\scomfortable)\s
          (?:\w+ly\s)?(?:to\s)?(?:help|assist|comply|participate|engage|provide|fulfil|support|do\s(?:that|this|so)|take\spart
            |continue|discuss|answer|recommend|respond|give|generate|process|make|with)
        |(?:i|we)\s(?:must\s(?:respectfully\s)?decline|respectfully\sdecline|decline|refuse)\b
        |i'm\s(?:un|not\s)able\sto\s(?:help|assist|comply|participate|provide|answer|recommend|take|continue|make)
        |(?:this|that|the)\s(?:request|content)\s(?:violates|is\sagainst|goes\sagainst))
      |^(?:lo\ssiento|je\ssuis\sdésolée?|es\stut\smir\sleid|mi\sdispiace|desculpe|sinto\smuito)\b
      |^(?:很?抱歉|对不起|申し訳|죄송)""",
    re.IGNORECASE | re.VERBOSE,
)


def tidy(text: str) -> str:
    """Text without template tokens, entities, Markdown marks and odd characters; letter case kept."""
    text = _MARKUP.sub(" ", text)
    text = html.unescape(text)
    text = re.sub(r"\\([\\`*_{}\[\]()#+.!|<>~-])", r"\1", text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_QUOTES)
        text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    # Underscores are emphasis at the edge of a word and part of it inside.
    text = re.sub(r"\*+|~~|(?<![^\W_])_+|_+(?![^\W_])", "", text)
    return re.sub(r"\s+", " ", text).strip()


def peel(text: str) -> str:
    """Text without decoration at its two ends; unchanged where nothing else is in it."""
    text = text.strip()
    if boxed := _BOXED.match(text):
        text = boxed.group(1)
    if angle := _ANGLE.match(text):
        text = angle.group(1)
    text = re.sub(r"^(?:~~)+|(?:~~)+$", "", _MARKUP.sub(" ", text))
    return text.strip(_EDGE) or text.strip()


def _fold(text: str) -> str:
    return peel(tidy(peel(text))).casefold()


def _bare(text: str) -> str:
    return _ARTICLE.sub("", _fold(text))


def _words(text: str) -> str:
    """Letters and digits only; empty where a sign belongs to a number (-3 is not 3)."""
    folded = _bare(text)
    if _SIGNED.search(folded):
        return ""
    return " ".join(re.sub(r"[\W_]+", " ", folded.replace("'", "")).split())


_TIERS: tuple[Callable[[str], str], ...] = (str.strip, peel, lambda s: tidy(peel(s)), _fold, _bare, _words)


def abstains(text: str) -> bool:
    """Whether the whole text says that there is no answer ("could not determine", "N/A")."""
    return _ABSTAINS.fullmatch(_fold(text)) is not None


def refuses(text: str) -> bool:
    """Whether the text opens by declining to take part. Conservative: other wordings are no refusal."""
    return _REFUSES.match(tidy(text[:400]).lstrip("\"'#>- ")) is not None


def is_placeholder(text: str, free: bool) -> bool:
    """Whether the text is the blank of a format line, echoed: ``<A or B>``, ``[your answer]``."""
    inner = _ANGLE.match(text)
    if inner and not free:
        return True
    bracketed = inner or re.match(r"^[\s*_`\"']*[\[{(]([^\[\]{}()]*)[\]})][\s*_`\"'.,]*$", text)
    if not bracketed:
        return False
    return (
        re.match(
            r"\s*(?:your|the (?:answer|id|public|private|option|name|single)|one of|insert|answer|option"
            r"|name of|text|value|id of|an? (?:answer|option|id)|\.\.\.|…|\s*$)",
            bracketed.group(1),
            re.IGNORECASE,
        )
        is not None
    )


class OptionMatcher:
    """Names of one list of options.

    Parameters
    ----------
    options : sequence of str
        Single-line texts. Two that differ in nothing but decoration or letter case can still be told apart
        when they are written exactly as listed.

    Examples
    --------
    >>> m = OptionMatcher(("Mr. X", "Mr. X's son"))
    >>> m.match("**mr x**")
    ('Mr. X', <Status.OK: 'ok'>)
    >>> m.match("Mr. X or his son")
    (None, <Status.AMBIGUOUS: 'ambiguous'>)
    """

    def __init__(self, options: Iterable[str]) -> None:
        self.options = tuple(options)
        self._tiers: list[dict[str, set[str]]] = []
        for tier in _TIERS:
            index: dict[str, set[str]] = {}
            for option in self.options:
                index.setdefault(tier(option), set()).add(option)
            index.pop("", None)
            self._tiers.append(index)
        self._longest = 400 + 8 * max(map(len, self.options), default=0)
        self._labels = _labels(self.options, self._tiers[-1])
        self._short: dict[str, str] = {}
        self._mention, self._of_form = self._compile()

    def _compile(self) -> tuple[re.Pattern[str] | None, dict[str, str]]:
        """One pattern of everything that names an option, longest first, found at every position."""
        forms: dict[str, set[str]] = {}
        for option in self.options:
            forms.setdefault(peel(tidy(option)), set()).add(option)
        for label, option in self._labels.values():
            forms.setdefault(peel(tidy(label)), set()).add(option)
        own = {f: next(iter(o)) for f, o in forms.items() if len(o) == 1 and re.search(r"\w", f)}
        parts, of_group = [], {}
        for k, form in enumerate(sorted(own, key=len, reverse=True)):
            body = re.escape(form).replace(r"\ ", r"[\s_-]+").replace(r"\.", r"\.?").replace("'", "'?")
            left = (r"(?<!\w)" if form[0].isalnum() else "") + (
                _NUMBER_EDGE[0] if form[0].isdecimal() else ""
            )
            right = (r"(?!\w)" if form[-1].isalnum() else "") + (
                _NUMBER_EDGE[1] if form[-1].isdecimal() else ""
            )
            # One or two letters are common words in another case ("a", "me"): only as they are written.
            if form in ("A", "I"):
                right += r"(?!\s[a-z])"
            group = f"(?P<f{k}>{body})" if len(form) <= 2 else f"(?P<f{k}>(?i:{body}))"
            parts.append(left + group + right)
            of_group[f"f{k}"] = own[form]
            if len(form) <= 2 or form.casefold() in _COMMON:
                self._short[f"f{k}"] = own[form]
        return (re.compile("(?=" + "|".join(parts) + ")") if parts else None), of_group

    def equal(self, text: str) -> tuple[str | None, Status] | None:
        """The option that the whole text is; ambiguous if it is several; None if it is none."""
        if len(text) > self._longest:
            return None  # decoration is never that long
        for tier, index in zip(_TIERS, self._tiers, strict=True):
            if found := index.get(tier(text)):
                return _one(found)
        label = self._labels.get(_words(text))
        return (label[1], Status.OK) if label else None

    def mentions(self, text: str) -> tuple[set[str], set[str], str]:
        """Options in a tidied text, those named by more than a short or common word, and the rest."""
        if self._mention is None:
            return set(), set(), text
        spans = []
        for m in self._mention.finditer(text):
            group = m.lastgroup
            if group is not None:
                spans.append((*m.span(group), group))
        # A mention inside a longer one is part of it; partial overlaps both count.
        kept, reach = [], -1
        for a, b, group in sorted(spans, key=lambda s: (s[0], -s[1])):
            if b > reach:
                kept.append((a, b, group))
                reach = b
        rest, last = [], 0
        for a, b, _ in kept:
            rest.append(text[last:a])
            last = max(last, b)
        rest.append(text[last:])
        return (
            {self._of_form[g] for *_, g in kept},
            {self._of_form[g] for *_, g in kept if g not in self._short},
            " \0 ".join(rest),
        )

    def _half_named(self, option: str, rest: str) -> bool:
        """Whether the rest holds what makes the option another, longer one: "Mr. X (his son)"."""
        own, around = _tokens(option), _tokens(rest)
        return any(
            own < _tokens(other) and any(len(w) > 2 and w in around for w in _tokens(other) - own)
            for other in self.options
        )

    def match(self, text: str) -> tuple[str | None, Status]:
        """Option named by a value, and what became of it.

        Returns
        -------
        option : str or None
            As listed.
        status : Status
            ok, ambiguous, off_list, missing (the text abstains) or refused.
        """
        if whole := self.equal(text):
            return whole
        text = " ".join(text.split())
        if abstains(text):
            return None, Status.MISSING
        plain = tidy(peel(text))
        named, firmly, rest = self.mentions(plain)
        if len(named) > 1:
            return None, Status.AMBIGUOUS
        short = _LEAD_IN.sub("", plain, count=1)
        head = _TAIL.split(short, maxsplit=1)[0]
        found = self.equal(short) or (self.equal(head) if head else None)
        option = next(iter(firmly), None) or (found[0] if found else None)
        if option is None:
            if found:
                return None, Status.AMBIGUOUS
            return None, Status.REFUSED if refuses(text) else Status.OFF_LIST
        if named - {option}:
            return None, Status.AMBIGUOUS
        # A reason after the choice may use any words; the choice itself must be plain.
        claim = _REASON.split(rest, maxsplit=1)[0] if "\0" in rest else rest
        if "\0" not in claim:
            claim = rest
        clauses = [c for c in re.split(r"[,;.!?]\s", claim) if "\0" in c]
        if self._half_named(option, rest):
            return None, Status.AMBIGUOUS
        if _TURN.search(claim) or _AGAINST.search(" ".join(clauses)):
            return None, Status.AMBIGUOUS
        return option, Status.OK


#: Words that are rarely meant as an option when they occur inside a sentence.
_COMMON = frozenset(
    re.findall(
        r"\w+", "yes no none all both any may will can one the and for not who how now new see true false"
    )
)


def _tokens(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _one(found: set[str]) -> tuple[str | None, Status]:
    return (next(iter(found)), Status.OK) if len(found) == 1 else (None, Status.AMBIGUOUS)


_LABELED = (
    re.compile(r"(\S.*?)\s*[(\[]([^()\[\]]+)[)\]]\s*"),  # Site B (Sports center)
    re.compile(r"(\S.{0,40}?)\s*(?::|\s[-–—])\s+(\S.*)"),  # Option A: Biomedical startup
    re.compile(r"([A-Za-z]|\d{1,3})[.)]\s+(\S.*)"),  # 1. West City
)


def _labels(options: tuple[str, ...], taken: dict[str, set[str]]) -> dict[str, tuple[str, str]]:
    """Short names that the options carry themselves, each of exactly one option: words to (name, option)."""
    forms: dict[str, dict[str, str]] = {}

    def add(form: str, option: str) -> None:
        if (words := _words(form)) and words not in taken:
            forms.setdefault(words, {})[option] = form

    heads = []
    for option in options:
        head = option
        if m := next(filter(None, (p.fullmatch(option) for p in _LABELED)), None):
            head = m.group(1)
            add(head, option)
            add(m.group(2), option)
        heads.append(head.split())
    # "Site A", "Site B", ...: what all have in front says nothing, so the last part alone is a label.
    common = 0
    while heads and all(len(h) > common + 1 and h[common] == heads[0][common] for h in heads):
        common += 1
    if common and len(options) > 1:
        for head_words, option in zip(heads, options, strict=True):
            add(" ".join(head_words[common:]), option)
    return {
        words: (form, option)
        for words, found in forms.items()
        if len(found) == 1
        for option, form in found.items()
    }


@lru_cache(maxsize=512)
def matcher(options: tuple[str, ...]) -> OptionMatcher:
    """`OptionMatcher` of a list of options, kept for the next reply."""
    return OptionMatcher(options)
