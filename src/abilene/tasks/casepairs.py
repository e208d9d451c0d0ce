"""Pairs of a typical and a counterfactual case, read from MedEinst's rows and taken apart into findings.

A finding is a top-level bullet of a section; sub-bullets are its details. Two narratives are compared by their
top-level lines, and spaces at line ends do not count (in the published file they mark most traps and no control).
A finding that both cases have is common to them even where its details differ; agents read the details of both.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal

import msgspec

from abilene.errors import InputError
from abilene.tasks.rows import read_rows

#: Similarity from which a finding resembles another one.
RESEMBLES = 0.6

_WHAT = "a MedEinst file (test.jsonl) with pairs of control and trap cases"
_HEADER = re.compile(r"Sex:\s*(?P<sex>[^,]*?)\s*,\s*Age:\s*(?P<age>.*?)\s*", re.IGNORECASE)
_NOTHING = re.compile(r"\s*(?:[-*•]\s+)?None\.?", re.IGNORECASE)  # under a heading: the section is empty
_BULLET = re.compile(r"(?P<indent>\s*)[-*•]\s+(?P<text>\S.*)")


class _Row(msgspec.Struct, frozen=True):
    case_id: str | int
    case_type: Literal["control", "trap"]
    age: int | float | str
    sex: str
    narrative: str
    ground_truth: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One top-level bullet.

    Parameters
    ----------
    section : str
        Heading that it stands under, such as ``"Symptoms"``.
    line : str
        The bullet's own line.
    details : tuple of str
        Its sub-bullets.
    """

    section: str
    line: str
    details: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, str]:
        """What tells findings apart: section and line."""
        return self.section, self.line

    @property
    def text(self) -> str:
        """The line; details follow in brackets, separated by semicolons."""
        return self.line + (f" ({'; '.join(self.details)})" if self.details else "")

    def note_text(self) -> str:
        """As agents read it."""
        return f"[{self.section}] {self.text}"


@dataclass(frozen=True, slots=True)
class Narrative:
    """A case, taken apart.

    Parameters
    ----------
    person : tuple of str
        Lines about sex and age.
    findings : tuple of Finding
        In the order of the text, each line once in its section (with the details of all its bullets).
    """

    person: tuple[str, ...]
    findings: tuple[Finding, ...]


def parse_narrative(text: str) -> Narrative:
    """Person and findings of a narrative.

    Parameters
    ----------
    text : str
        ``Sex: F, Age: 30``, then sections: a heading that ends in a colon, a line of hyphens, bullets with
        sub-bullets indented. An indented line without a bullet continues the line before, and "None" stands for
        an empty section.

    Raises
    ------
    ValueError
        A line is none of these, or there is no finding. The message quotes the line.

    Examples
    --------
    >>> case = parse_narrative("Sex: F, Age: 30\\nSymptoms:\\n---\\n- Cough\\n- Pain\\n  - left arm\\n  - jaw")
    >>> case.person, [f.note_text() for f in case.findings]
    (('Sex: F', 'Age: 30'), ['[Symptoms] Cough', '[Symptoms] Pain (left arm; jaw)'])
    """
    person: tuple[str, ...] = ()
    blocks: list[tuple[str, list[str]]] = []
    section, depth, open_block = "", 0, False
    for raw in text.splitlines():
        line = raw.expandtabs(4).rstrip()
        if not line or re.fullmatch(r"\s*-{3,}", line) or (section and _NOTHING.fullmatch(line)):
            continue
        if bullet := _BULLET.fullmatch(line):
            if not section:
                raise ValueError(f"a bullet before the first heading: {line!r}")
            indent = len(bullet["indent"])
            if not open_block or indent <= depth:
                blocks.append((section, [bullet["text"]]))
                depth, open_block = indent, True
            else:
                blocks[-1][1].append(bullet["text"])
        elif line[0].isspace() and open_block:
            blocks[-1][1][-1] += " " + line.strip()
        elif not person and not section and (header := _HEADER.fullmatch(line)):
            person = (f"Sex: {header['sex']}", f"Age: {header['age']}")
        elif line.endswith(":"):
            section, open_block = line.rstrip(":").strip(), False
        else:
            raise ValueError(f"neither sex and age, nor a heading, nor a bullet: {line!r}")
    if not blocks:
        raise ValueError("no finding")
    details: dict[tuple[str, str], list[str]] = {}
    for where, (top, *subs) in blocks:
        details.setdefault((where, " ".join(top.split())), []).extend(subs)
    findings = (Finding(*place, tuple(dict.fromkeys(subs))) for place, subs in details.items())
    return Narrative(person, tuple(findings))


@dataclass(frozen=True, slots=True)
class Pair:
    """A usable pair: the trap adds exactly one finding.

    Parameters
    ----------
    case_id : str
        Of the file.
    control, trap : str
        The two diagnoses.
    person : tuple of str
        Sex and age, as far as they are the same.
    common : tuple of Finding
        Findings of both, with the details that both have.
    decisive : Finding
        The one that only the trap has.
    removed : int
        Findings that only the control has (what the decisive one replaces); shown to nobody.
    altered : int
        Common findings whose details differ; the details that differ are shown to nobody.
    """

    case_id: str
    control: str
    trap: str
    person: tuple[str, ...]
    common: tuple[Finding, ...]
    decisive: Finding
    removed: int
    altered: int = 0

    def neutral(self) -> tuple[Finding, ...]:
        """Common findings that do not resemble the decisive one."""
        return tuple(f for f in self.common if not resembles(f.text, self.decisive.text))


def resembles(a: str, b: str) -> bool:
    """Whether two findings are too alike for one to be neutral beside the other (ratio of difflib >= 0.6).

    The ratio depends on the order of its arguments; the larger one counts. Letter case does not.

    Examples
    --------
    >>> resembles("Pain in the left arm", "pain in the left leg"), resembles("Pain in the left arm", "Fever")
    (True, False)
    """
    a, b = a.casefold(), b.casefold()
    matchers = (SequenceMatcher(None, x, y, autojunk=False) for x, y in ((a, b), (b, a)))
    # The two quick ratios are upper bounds, and nearly always enough.
    return any(
        m.real_quick_ratio() >= RESEMBLES and m.quick_ratio() >= RESEMBLES and m.ratio() >= RESEMBLES
        for m in matchers
    )


def read_pairs(path: str | Path) -> tuple[list[Pair], Counter[str], tuple[str, ...]]:
    """Usable pairs of a file.

    Parameters
    ----------
    path : str or Path
        JSON lines with case_id, case_type ("control" or "trap"), age, sex, narrative, ground_truth.

    Returns
    -------
    pairs : list of Pair
        In the order of the file.
    left_out : Counter
        Why other pairs are not usable, with counts.
    diagnoses : tuple of str
        Every diagnosis of the file, sorted.

    Raises
    ------
    InputError
        The file or a row cannot be used.
    """
    cases: dict[str, dict[str, tuple[_Row, Narrative]]] = {}
    for line, row in read_rows(path, _Row, _WHAT):
        key = str(row.case_id).strip()
        for name, text in (("case_id", key), ("ground_truth", row.ground_truth)):
            if not text.strip():
                raise InputError(path, "the text is empty", f"Give {_WHAT}.", line=line, field=name)
        try:
            narrative = parse_narrative(row.narrative)
        except ValueError as e:
            raise InputError(
                path,
                f"case {key!r}: {e}",
                "A narrative is: sex and age, headings that end in a colon, bullets.",
                line=line,
                field="narrative",
            ) from e
        sides = cases.setdefault(key, {})
        if row.case_type in sides:
            raise InputError(
                path,
                f"case {key!r} has two rows of type {row.case_type!r}",
                "A case has one control and one trap.",
                line=line,
                field="case_type",
            )
        sides[row.case_type] = (row, narrative)
    pairs, left_out = [], Counter[str]()
    for key, sides in cases.items():
        if len(sides) < 2:
            left_out["have a control or a trap only"] += 1
            continue
        pair = _pair(key, *sides["control"], *sides["trap"])
        if isinstance(pair, Pair):
            pairs.append(pair)
        else:
            left_out[pair] += 1
    diagnoses = {row.ground_truth.strip() for sides in cases.values() for row, _ in sides.values()}
    return pairs, left_out, tuple(sorted(diagnoses))


def _pair(key: str, control: _Row, typical: Narrative, trap: _Row, altered: Narrative) -> Pair | str:
    """The pair, or why it is not usable."""
    was = {f.place: f for f in typical.findings}
    now = {f.place: f for f in altered.findings}
    added = [f for f in altered.findings if f.place not in was]
    names = control.ground_truth.strip(), trap.ground_truth.strip()
    if names[0].casefold() == names[1].casefold():
        return "have one diagnosis for both cases"
    if not added:
        return "have a trap that adds no finding"
    if len(added) > 1:
        return "have a trap that adds several findings"
    common = tuple(
        replace(f, details=tuple(d for d in f.details if d in was[place].details))
        for place, f in now.items()
        if place in was
    )
    person = tuple(line for line in altered.person if line in typical.person)
    return Pair(
        key,
        *names,
        person,
        common,
        added[0],
        removed=len(was.keys() - now.keys()),
        altered=sum(set(now[p].details) != set(was[p].details) for p in now.keys() & was.keys()),
    )
