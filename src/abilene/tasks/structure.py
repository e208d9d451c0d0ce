"""Candidate tasks in the published HiddenBench format, and what can be told about one without a model.

Read here: the form (one clue per agent, one correct option among three or more, nothing twice) and clues or facts
that give the answer away *in so many words*. Whether a clue settles the question by what it implies, whether the
briefing misleads and whether all facts together suffice, only execution tells (see `abilene.tasks.factory`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "field",
    "empty",
    "text",
    "shared_count",
    "clue_count",
    "option_count",
    "option_form",
    "duplicate_option",
    "answer",
    "duplicate_fact",
    "answer_stated",
    "decisive_clue",
    "rules_out_all",
]

MIN_CLUES, MIN_OPTIONS = 3, 3
_TEXTS = ("name", "description", "correct_answer")
_LISTS = ("shared_information", "hidden_information", "possible_answers")


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a candidate.

    Parameters
    ----------
    code : str
        What kind of fault; see `check_structure`.
    field : str
        Where, such as ``hidden_information[2]``.
    detail : str
        What was found and what to do, in words.
    """

    code: Code
    field: str
    detail: str

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task as HiddenBench publishes it, not yet dealt to agents.

    Parameters
    ----------
    name, description : str
        A short title (no prompt shows it), and what the team has to decide.
    shared : tuple of str
        ``shared_information``: every agent reads it.
    clues : tuple of str
        ``hidden_information``: one for each agent.
    options : tuple of str
        ``possible_answers``.
    answer : str
        ``correct_answer``, letter for letter one of the options.
    rationale : str, optional
        The author's reasoning; no prompt shows it.
    """

    name: str
    description: str
    shared: tuple[str, ...]
    clues: tuple[str, ...]
    options: tuple[str, ...]
    answer: str
    rationale: str | None = None

    @property
    def facts(self) -> tuple[str, ...]:
        """Shared facts, then clues."""
        return (*self.shared, *self.clues)

    def to_entry(self, key: int | str) -> dict[str, object]:
        """The entry of a HiddenBench file, JSON-ready."""
        entry: dict[str, object] = {
            "id": key,
            "name": self.name,
            "description": self.description,
            "shared_information": list(self.shared),
            "hidden_information": list(self.clues),
            "possible_answers": list(self.options),
            "correct_answer": self.answer,
        }
        return entry if self.rationale is None else {**entry, "rationale": self.rationale}


def read_entry(entry: object) -> Candidate | list[Problem]:
    """A candidate out of a decoded JSON value, or everything that keeps it from being one.

    Parameters
    ----------
    entry : object
        An object with name, description, shared_information, hidden_information, possible_answers and
        correct_answer. Texts are taken letter for letter; a text ``rationale`` is kept, other fields are ignored.

    Examples
    --------
    >>> [str(p) for p in read_entry({"name": "x"})][:1]
    ['description: is missing; it must be text']
    """
    if not isinstance(entry, Mapping):
        return [Problem("field", "task", f"is {_kind(entry)}; it must be an object with the task's fields")]
    faults: list[Problem] = []
    for name in _TEXTS:
        faults += _text_faults(name, entry[name]) if name in entry else [_missing(name, "text")]
    for name in _LISTS:
        if name not in entry:
            faults.append(_missing(name, "a list of texts"))
        elif not isinstance(entry[name], list):
            faults.append(Problem("field", name, f"is {_kind(entry[name])}; it must be a list of texts"))
        else:
            for k, value in enumerate(entry[name]):
                faults += _text_faults(f"{name}[{k}]", value)
    if faults:
        return faults
    rationale = entry.get("rationale")
    return Candidate(
        name=entry["name"],
        description=entry["description"],
        shared=tuple(entry["shared_information"]),
        clues=tuple(entry["hidden_information"]),
        options=tuple(entry["possible_answers"]),
        answer=entry["correct_answer"],
        rationale=rationale
        if isinstance(rationale, str) and not _text_faults("rationale", rationale)
        else None,
    )


def _missing(name: str, what: str) -> Problem:
    return Problem("field", name, f"is missing; it must be {what}")


def fits_one_line(option: str) -> bool:
    """Whether an option has neither a line break nor a vertical bar, which separate options in prompts.

    Examples
    --------
    >>> fits_one_line("West"), fits_one_line("West | East"), fits_one_line("West\\nEast")
    (True, False, False)
    """
    return not re.search(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029|]", option)


def is_whole(text: str) -> bool:
    r"""Whether a text can be written as UTF-8, which half a character (a lone surrogate) cannot.

    Examples
    --------
    >>> is_whole("é"), is_whole("\ud800")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text_faults(name: str, value: object) -> list[Problem]:
    if not isinstance(value, str):
        return [Problem("field", name, f"is {_kind(value)}; it must be text")]
    if not value.strip():
        return [Problem("empty", name, "is empty; write the text")]
    if not is_whole(value):
        return [Problem("text", name, "holds half a character (a lone surrogate); write it whole")]
    return []


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


# Structure -----------------------------------------------------------------------------------------------


def check_structure(candidate: Candidate, clues: int | None = None) -> list[Problem]:
    """What is wrong with a candidate, as far as it can be told without a model; empty if nothing.

    Parameters
    ----------
    candidate : Candidate
        The task.
    clues : int, optional
        Exact number of clues, which is the team's size; left out: at least 3.

    Returns
    -------
    list of Problem

    Notes
    -----
    ================  ===================================================================================
    code              the fault
    ================  ===================================================================================
    empty, text       a text without content, or one that is not whole Unicode
    shared_count      no shared fact
    clue_count        not one clue for each agent
    option_count      fewer than 3 options
    option_form       an option has a line break, a vertical bar, space at an end, or no letter or digit:
                      prompts list options on one line, and replies must repeat one
    duplicate_option  two options are the same up to letter case, spaces and a final period
    answer            not exactly one option is the correct answer, letter for letter
    duplicate_fact    two facts (clues included) are the same up to letter case, spaces and punctuation
    answer_stated     the description or a shared fact says which option to choose ("the right choice is ...")
    decisive_clue     a clue says so
    rules_out_all     a clue names every wrong option and not the correct one: read alone it leaves one over
    ================  ===================================================================================

    The last three look at words only. On the 65 published tasks they find nothing, and a clue that decides by what
    it implies passes them.

    Examples
    --------
    >>> task = Candidate("t", "Where to?", ("East has hotels.",), ("The west road is dry.", "It is late.",
    ...                  "North and East are flooded."), ("West", "East", "North"), "West")
    >>> [p.code for p in check_structure(task)]
    ['rules_out_all']
    """
    return [*_forms(candidate, clues), *_twins(candidate), *_giveaways(candidate)]


def _forms(task: Candidate, clues: int | None) -> list[Problem]:
    faults: list[Problem] = []
    texts = {
        "name": task.name,
        "description": task.description,
        **{f"shared_information[{k}]": t for k, t in enumerate(task.shared)},
        **{f"hidden_information[{k}]": t for k, t in enumerate(task.clues)},
        **{f"possible_answers[{k}]": t for k, t in enumerate(task.options)},
    }
    for field, text in texts.items():
        faults += _text_faults(field, text)
    if not task.shared:
        faults.append(Problem("shared_count", "shared_information", "is empty; give at least one fact"))
    n = len(task.clues)
    if (clues is None and n < MIN_CLUES) or (clues is not None and n != clues):
        want = f"at least {MIN_CLUES}" if clues is None else str(clues)
        faults.append(
            Problem("clue_count", "hidden_information", f"holds {n} clues; one for each agent makes {want}")
        )
    if len(task.options) < MIN_OPTIONS:
        found = f"holds {len(task.options)} options; at least {MIN_OPTIONS} are needed"
        faults.append(Problem("option_count", "possible_answers", found))
    for k, option in enumerate(task.options):
        if option.strip() and (option != option.strip() or not fits_one_line(option) or not _words(option)):
            found = (
                f"{option!r}: an option is one line with a letter or digit, without '|' or space at its ends"
            )
            faults.append(Problem("option_form", f"possible_answers[{k}]", found))
    same = task.options.count(task.answer)
    if same != 1:
        found = "none of the possible answers" if not same else f"{same} of the possible answers"
        faults.append(
            Problem("answer", "correct_answer", f"{task.answer!r} is {found}; exactly one must equal it")
        )
    return faults


def _twins(task: Candidate) -> list[Problem]:
    return [
        *_repeats("duplicate_option", "possible_answers", task.options, _option_key),
        *_repeats("duplicate_fact", "shared_information or hidden_information", task.facts, fact_key),
    ]


def _repeats(code: Code, field: str, texts: Iterable[str], key: Callable[[str], str]) -> list[Problem]:
    faults: list[Problem] = []
    seen: dict[str, str] = {}
    for text in texts:
        if not text.strip():
            continue
        if key(text) in seen:
            faults.append(Problem(code, field, f"{text!r} repeats {seen[key(text)]!r}; keep one"))
        seen.setdefault(key(text), text)
    return faults


def _giveaways(task: Candidate) -> list[Problem]:
    if task.answer not in task.options or len(set(task.options)) < 3:
        return []
    wrong = [o for o in task.options if o != task.answer]
    stated = {"description": task.description}
    stated |= {f"shared_information[{k}]": t for k, t in enumerate(task.shared)}
    faults = []
    for field, text in stated.items():
        if _states(text, task.answer, task.options):
            found = f"tells the answer in so many words: {text!r}; leave that to be found out"
            faults.append(Problem("answer_stated", field, found))
    for k, clue in enumerate(task.clues):
        field = f"hidden_information[{k}]"
        if _states(clue, task.answer, task.options):
            found = f"tells the answer in so many words: {clue!r}; no clue may decide alone"
            faults.append(Problem("decisive_clue", field, found))
        named = _named(clue, task.options)
        if named.issuperset(wrong) and task.answer not in named:
            found = f"names every wrong option and leaves {task.answer!r} over: {clue!r}; split it"
            faults.append(Problem("rules_out_all", field, found))
    return faults


# Words ---------------------------------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


def fact_key(text: str) -> str:
    """A text without letter case, spaces and punctuation, for comparison (itself where nothing is left).

    Examples
    --------
    >>> fact_key("It's  late.")
    'it s late'
    """
    return " ".join(_words(text)) or " ".join(text.split())


def _option_key(option: str) -> str:
    # Punctuation stays: C++ and C# are two options.
    squeezed = " ".join(unicodedata.normalize("NFKC", option).split()).casefold()
    return squeezed.rstrip(".") or squeezed


def _marked(text: str, options: Sequence[str]) -> str:
    """A text with each option's name, however it is spaced, replaced by one character of its own (see `_mark`).

    Longest names first, so that "Mr. X" is not found in "Mr. X's son"; and no full stop of a name is left that could
    be taken for the end of a sentence.
    """
    for option in sorted({o for o in options if o.strip()}, key=len, reverse=True):
        words = r"\s+".join(re.escape(w) for w in option.split())
        text = re.sub(rf"(?<!\w){words}(?!\w)", _mark(options.index(option)), text, flags=re.IGNORECASE)
    return text


def _mark(k: int) -> str:
    return chr(0xE000 + k % 6400)  # the private use area


def _short_name(option: str, options: Sequence[str]) -> str | None:
    """The one word in which an option differs from all the others (B of "Site B"), where they are built alike."""
    split = [o.split() for o in options]
    if len({len(words) for words in split}) != 1 or len(split[0]) < 2:
        return None
    differ = [k for k in range(len(split[0])) if len({words[k].casefold() for words in split}) > 1]
    return option.split()[differ[0]] if len(differ) == 1 else None


def _named(text: str, options: Sequence[str]) -> set[str]:
    """Options that a text names, in full or by the word that sets them apart."""
    marked = _marked(text, options)
    found = {o for k, o in enumerate(options) if _mark(k) in marked}
    for option in options:
        if short := _short_name(option, options):
            # In its own case, and "A" and "I" in the middle of a sentence only, where they are no article or pronoun.
            before = r"(?<=[\w,] )" if short in ("A", "I") else r"(?<!\w)"
            if re.search(rf"{before}{re.escape(short)}(?!\w)", marked):
                found.add(option)
    return found


_RIGHT = (
    r"(?:correct|right|best|(?:only|single)(?:\s+(?:correct|right|remaining|viable|valid|possible|feasible|"
    r"sensible|acceptable|suitable|safe|good))?)"
)
_CHOICE = r"(?:answer|choice|option|solution|decision|pick|conclusion|alternative|recommendation)"
_IS = r"(?:is|was|must\s+be|has\s+to\s+be|would\s+be|remains)"
_ADVERB = r"(?:(?:therefore|thus|hence|clearly|indeed|really|in\s+fact)\s+)?"
_CHOOSE = (
    r"(?:choose|pick|select|vote\s+for|go\s+with|go\s+for|decide\s+on|decide\s+for|opt\s+for|settle\s+on)"
)
_NOT = re.compile(r"\b(?:not|never|avoid|against|rather\s+than|instead\s+of)\b|n['’]t\b", re.IGNORECASE)
_END = re.compile(r"[.!?](?:\s|$)|\n")


def _states(text: str, answer: str, options: Sequence[str]) -> bool:
    """Whether a text says in so many words that an option is the one to choose."""
    text = _marked(text, options)
    own = _mark(options.index(answer))
    others = {_mark(k) for k, o in enumerate(options) if o != answer}
    name = rf"[\"'“‘*]*{own}[\"'”’*]*"
    ways = (
        rf"{name}\s+{_IS}\s+{_ADVERB}the\s+{_RIGHT}\s+{_CHOICE}\b",
        rf"{name}\s+{_IS}\s+{_ADVERB}(?:the\s+)?(?:correct|right|answer|solution)(?=\s*(?:[.,;!)]|$))",
        rf"\b(?:{_RIGHT}\s+{_CHOICE}|the\s+answer|the\s+solution)\s*(?:{_IS}|:|=)\s*{_ADVERB}(?:the\s+)?{name}",
        rf"{name}\s+(?:should|must|ought\s+to|has\s+to|needs\s+to)\s+be\s+(?:chosen|picked|selected)\b",
        rf"\b{_CHOOSE}\s+(?:the\s+)?{name}",
    )
    for k, way in enumerate(ways):
        for m in re.finditer(way, text, re.IGNORECASE):
            start = max((e.end() for e in _END.finditer(text, 0, m.start())), default=0)
            end = next((e.start() for e in _END.finditer(text, m.end())), len(text))
            # "Choose West, East or North" is the question, and "do not choose West" the opposite.
            asks = k == len(ways) - 1 and not others.isdisjoint(text[start:end])
            if not asks and not _NOT.search(text[start : m.end()]):
                return True
    return False
