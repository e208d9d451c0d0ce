"""Prompt packs: the wording of instructions, calls and interventions, read from TOML and checked."""

from __future__ import annotations

import hashlib
import re
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from abilene.errors import InputError, UsageError

_PLACEHOLDER = re.compile(r"\{([a-z0-9_]+)\}")
_ALWAYS = frozenset({"member", "agent", "n", "question", "options", "shared", "notes", "a", "b"})
_ROUND = _ALWAYS | {"board", "others", "own"}
# What a template may use, and what it must use for the measurement to mean what it says.
_ALLOWED: dict[str, frozenset[str]] = {
    "system": frozenset({"member", "agent", "n", "framing"}),
    "round0": _ALWAYS,
    "public": _ROUND,
    "probe": _ROUND,
    "share": _ROUND,
    "alone_system": frozenset({"member", "agent", "n", "framing"}),
    "alone": _ALWAYS - {"shared", "notes"} | {"facts"},
}
_REQUIRED: dict[str, frozenset[str]] = {
    "system": frozenset({"framing"}),
    "round0": frozenset({"question", "shared", "notes"}),
    "public": frozenset({"question", "shared", "notes", "board", "others"}),
    "probe": frozenset({"question", "shared", "notes", "board", "others"}),
    "share": frozenset({"question", "shared", "notes", "board"}),
    "alone_system": frozenset({"framing"}),
    "alone": frozenset({"question", "facts"}),
}
# Lines by which replies are read: a template that does not ask for them gets replies that nobody can read.
_LINES: dict[str, tuple[str, ...]] = {
    "round0": ("ANSWER",),
    "public": ("PUBLIC", "SHARE"),
    "probe": ("ANSWER",),
    "share": ("SHARE",),
    "alone": ("ANSWER",),
    "first": ("ANSWER",),
    "final": ("ANSWER",),
}
_OPTIONAL = ("share", "alone_system", "alone")
_OPEN = frozenset({"member", "agent", "n", "question", "options", "facts"})
_OPEN_ROUND = _OPEN | {"vote", "rationale", "others"}
_OPEN_ALLOWED: dict[str, frozenset[str]] = {
    "system": _ALLOWED["system"],
    "first": _OPEN,
    "message": _OPEN_ROUND,
    "final": _OPEN_ROUND,
}
_OPEN_REQUIRED: dict[str, frozenset[str]] = {
    "system": frozenset({"framing"}),
    "first": frozenset({"question", "options", "facts"}),
    "message": frozenset({"question", "options", "facts", "vote", "rationale", "others"}),
    "final": frozenset({"question", "options", "facts", "vote", "rationale", "others"}),
}
#: Parts of an intervention whose wording changes with the round.
_PHASES = ("first", "later", "last")


@dataclass(frozen=True, slots=True)
class Section:
    """The wording of one benchmark (or of a family of them)."""

    member: str
    system: str
    round0: str
    public: str
    probe: str
    share: str | None = None  # a round in which notes are shared and no answer is asked for
    alone_system: str | None = (
        None  # where nothing is said of who knows what: full profile, trials of a factory
    )
    alone: str | None = None

    @property
    def lists_options(self) -> bool:
        """Whether a template places the options, which free-text tasks do not have."""
        used = _PLACEHOLDER.findall(self.round0 + self.public + self.probe)
        return bool({"options", "a", "b"} & set(used))


@dataclass(frozen=True, slots=True)
class OpenSection:
    """The wording of open (free-text) discussions; `interventions` come before those of the pack."""

    member: str
    system: str
    first: str
    message: str
    final: str
    interventions: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PromptPack:
    """A validated pack.

    Parameters
    ----------
    name : str
        As the pack calls itself.
    digest : str
        Hash of the file's bytes, 16 hex digits; kept in every log.
    instructions : mapping
        Instruction text by name.
    sections : mapping
        Wording by benchmark name; ``options`` serves benchmarks without a section of their own.
    interventions : mapping
        Wording of interventions by name: a text, or texts for the first round, later ones and the last.
    open : OpenSection, optional
        Wording of open discussions (`abilene.team.open_discussion`); None where the pack has none.
    """

    name: str
    digest: str
    instructions: Mapping[str, str]
    sections: Mapping[str, Section]
    interventions: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    open: OpenSection | None = None

    def framing(self, instruction: str) -> str:
        """Text of an instruction: one of the pack's names, or any text of the user (at least two words).

        Raises
        ------
        UsageError
            A single word that is no name of the pack: more likely a slip than an instruction.
        """
        if instruction in self.instructions:
            return self.instructions[instruction].strip()
        if len(instruction.split()) < 2:
            known = ", ".join(self.instructions)
            raise UsageError(
                f"Unknown instruction {instruction!r}. The prompt pack '{self.name}' has: {known}. "
                "Give one of these, or the instruction itself as a sentence."
            )
        return instruction.strip()

    def directive(self, text: str, t: int, rounds: int, *, open: bool = False) -> str:
        """Wording of an intervention in round t of 1..rounds.

        Parameters
        ----------
        text : str
            An entry of [interventions], or ``instructions.NAME``.
        t, rounds : int
            Which round it is, from 1, and how many there are.
        open : bool
            Of an open discussion: the wording of [open.interventions], where it is there, comes first.

        Raises
        ------
        UsageError
            The pack has no such wording; another one never takes its place.
        """
        part, _, name = text.rpartition(".")
        own = self.open.interventions if open and self.open is not None else {}
        found = self.instructions.get(name) if part else own.get(name, self.interventions.get(name))
        if found is None:
            raise UsageError(
                f"The prompt pack '{self.name}' has no wording for this intervention. Add {name} to its "
                f"[{part or 'interventions'}], as the built-in pack has it."
            )
        if isinstance(found, str):
            return found.strip()
        return found["last" if t == rounds else "first" if t == 1 else "later"].strip()

    def section(self, benchmark: str) -> Section:
        """Wording for a benchmark."""
        return self.sections.get(benchmark) or self.sections["options"]


def load_pack(path: str | Path | None = None) -> PromptPack:
    """Read and check a prompt pack.

    Parameters
    ----------
    path : str or Path, optional
        A TOML file; the built-in pack when left out.

    Raises
    ------
    InputError
        The file is not a pack: the message names the section, the field and what is wrong with it.

    Examples
    --------
    >>> pack = load_pack()
    >>> list(pack.instructions)[:3]
    ['A', 'B', 'C']
    """
    where: str | Path = path or "built-in prompt pack"
    try:
        if path:
            data = Path(path).read_bytes()
        else:
            data = (resources.files("abilene.team") / "packs" / "abilene.toml").read_bytes()
        raw = tomllib.loads(data.decode("utf-8"))
    except OSError as e:
        raise InputError(where, f"cannot be read ({e.strerror})", "Give the path of a prompt pack.") from e
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise InputError(where, f"is not TOML ({e})", "Start from the built-in pack's layout.") from e
    instructions, name = raw.pop("instructions", None), raw.pop("name", None)
    interventions = raw.pop("interventions", {})
    raw.pop("version", None)
    if not isinstance(name, str) or not isinstance(instructions, dict):
        raise InputError(where, "has no name or no [instructions]", "A pack starts with both.")
    for key, text in instructions.items():
        if not isinstance(text, str):
            raise InputError(where, f"is {text!r}", "Write the text.", field=f"instructions.{key}")
    _check_interventions(where, interventions)
    spoken = _open_section(where, raw.pop("open")) if "open" in raw else None
    sections = {key: _section(where, key, value) for key, value in raw.items()}
    if "options" not in sections:
        raise InputError(
            where, "has no section [options]", "It serves benchmarks without a section of their own."
        )
    return PromptPack(
        name, hashlib.sha256(data).hexdigest()[:16], instructions, sections, interventions, spoken
    )


def _check_interventions(where: str | Path, entries: object, table: str = "interventions") -> None:
    if not isinstance(entries, dict):
        raise InputError(where, f"is {entries!r}", "Write a table of texts.", field=table)
    for key, value in entries.items():
        texts = value if isinstance(value, dict) else dict.fromkeys(_PHASES, value)
        if set(texts) != set(_PHASES):
            raise InputError(
                where,
                f"has {', '.join(map(str, texts)) or 'nothing'}",
                f"Write one text, or the texts {', '.join(_PHASES)}.",
                field=f"{table}.{key}",
            )
        if not all(isinstance(text, str) and text.strip() for text in texts.values()):
            raise InputError(where, "is missing or empty", "Write the text.", field=f"{table}.{key}")


def _section(where: str | Path, key: str, value: object) -> Section:
    return Section(**_texts(where, key, value, _ALLOWED, _REQUIRED, optional=_OPTIONAL))


def _open_section(where: str | Path, value: object) -> OpenSection:
    interventions: object = {}
    if isinstance(value, dict):
        value = dict(value)
        interventions = value.pop("interventions", {})
    _check_interventions(where, interventions, "open.interventions")
    texts = _texts(where, "open", value, _OPEN_ALLOWED, _OPEN_REQUIRED)
    return OpenSection(**texts, interventions=interventions)  # type: ignore[arg-type]


def _texts(
    where: str | Path,
    key: str,
    value: object,
    allowed: Mapping[str, frozenset[str]],
    required: Mapping[str, frozenset[str]],
    optional: Sequence[str] = (),
) -> dict[str, str]:
    """The texts of a section, each with the placeholders that it may and must have."""
    fields = ("member", *allowed)
    if not isinstance(value, dict):
        raise InputError(
            where, f"unknown entry {key!r}", "A pack has name, version, [instructions], sections."
        )
    if unknown := set(value) - set(fields):
        raise InputError(where, f"unknown entry {sorted(unknown)}", f"Known: {', '.join(fields)}.", field=key)
    for name in fields:
        text = value.get(name)
        if name in optional and text is None:
            continue
        if not isinstance(text, str) or not text.strip():
            raise InputError(where, "is missing or empty", "Write the text.", field=f"{key}.{name}")
        if name == "member":
            continue
        used = set(_PLACEHOLDER.findall(text))
        if re.search(r"[{}]", _PLACEHOLDER.sub("", text)):
            raise InputError(
                where,
                "has a brace that belongs to no placeholder",
                "Write {name}, or no braces.",
                field=f"{key}.{name}",
            )
        if wrong := used - allowed[name]:
            raise InputError(
                where,
                f"uses {{{min(wrong)}}}",
                f"Allowed here: {', '.join(sorted(allowed[name]))}.",
                field=f"{key}.{name}",
            )
        if gone := [tag for tag in _LINES.get(name, ()) if f"{tag}:" not in text]:
            warnings.warn(
                f"{where}, field '{key}.{name}' asks for no line {gone[0]}:, by which the reply is read. Unless the "
                "model is told elsewhere, its replies will count as missing.",
                UserWarning,
                stacklevel=2,
            )
        if lacking := required[name] - used:
            raise InputError(where, f"lacks {{{min(lacking)}}}", "Place it once.", field=f"{key}.{name}")
    return value


def fill(template: str, values: Mapping[str, str]) -> str:
    """A template with its placeholders filled."""
    # One pass over the template: braces inside the inserted texts are never read as placeholders.
    return _PLACEHOLDER.sub(lambda m: values[m.group(1)], template).strip()


def check_alone(pack: PromptPack, benchmark: str) -> None:
    """Refuse a pack without wording for a question to one agent alone."""
    section = pack.section(benchmark)
    if section.alone is None or section.alone_system is None:
        raise UsageError(
            f"The prompt pack '{pack.name}' has no wording for one agent that holds everything. Add alone_system and "
            f"alone to the section that {benchmark} uses, as the built-in pack has them."
        )
