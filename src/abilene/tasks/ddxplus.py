"""Pairs of cases in MedEinst's row format from patients of DDXPlus (CC BY 4.0).

MedEinst's counterfactual cases were written; here both cases of a pair are real records with different
diagnoses, put side by side. Two patients *differ* in an evidence if only one of them has it, or if both have it and
share none of its values. A narrative lists the patient's evidences as findings, with these rules:

* a value that is the evidence's default ("no", "nowhere", 0) is no finding;
* of an evidence that both have, the values that both have are listed;
* the grade on a numeric scale (0 to 10) is a finding only where it is the same: it does not make a difference.

So the lines in which the two narratives of a pair differ are exactly the evidences in which the patients differ, and
nothing is said of a patient that is not in the record.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from abilene.errors import InputError, UsageError
from abilene.tasks.files import read_json
from abilene.tasks.structure import is_whole

#: Every pair of patients is compared, so their number is limited.
MAX_PATIENTS = 5000

_COLUMNS = {
    "age": ("age", "AGE"),
    "sex": ("sex", "SEX"),
    "diagnosis": ("diagnosis", "PATHOLOGY"),
    "features": ("features", "EVIDENCES"),
}
_CODE = r"E_\d+(?:_@_\w+)?"
_ITEM = rf"(?:'{_CODE}'|\"{_CODE}\")"
_FEATURES = re.compile(rf"\[\s*(?:{_ITEM}\s*(?:,\s*{_ITEM}\s*)*)?\]")
_MAX_FEATURES = 20_000  # characters; a real list has some hundreds
_WORDS = {"Y": "Yes", "N": "No"}


@dataclass(frozen=True, slots=True)
class _Evidence:
    text: str
    section: str
    default: str
    scale: str | None  # highest grade of a numeric scale
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Patient:
    number: int
    age: str
    sex: str
    diagnosis: str
    evidences: Mapping[str, frozenset[str]]


def from_ddxplus(
    patients_csv: str | Path,
    evidences_json: str | Path,
    conditions_json: str | Path,
    *,
    max_difference: int = 5,
) -> list[dict[str, object]]:
    """Rows of MedEinst's format for all pairs of patients that differ little and in their diagnosis.

    Parameters
    ----------
    patients_csv : str or Path
        One patient a line with age, sex, diagnosis and features (a list of evidence codes as text), or the same
        under the release's names AGE, SEX, PATHOLOGY and EVIDENCES. At most `MAX_PATIENTS`.
    evidences_json, conditions_json : str or Path
        ``release_evidences.json`` and ``release_conditions.json``.
    max_difference : int
        Evidences in which the two may differ, at least 1.

    Returns
    -------
    list of dict
        Two rows a pair, first the control. The trap is the patient that adds exactly one finding, where there is
        one (the later line if both do); only such pairs make tasks. Pairs with a patient of whom nothing is left
        to tell are passed over.

    Raises
    ------
    InputError
        A file, row or field cannot be used.
    UsageError
        `max_difference` below 1.
    """
    if max_difference < 1:
        raise UsageError(f"max_difference {max_difference}: patients that differ in nothing make no pair.")
    evidences = _evidences(evidences_json)
    names = _conditions(conditions_json)
    patients = _patients(patients_csv, evidences, names)
    rows: list[dict[str, object]] = []
    for k, one in enumerate(patients):
        for two in patients[k + 1 :]:
            if one.diagnosis == two.diagnosis:
                continue
            # At least as many differ as the numbers of evidences do: cheap, and rules out most pairs.
            if abs(len(one.evidences) - len(two.evidences)) > max_difference:
                continue
            first, second = _only(one, two, evidences), _only(two, one, evidences)
            if not 0 < len(first | second) <= max_difference:
                continue
            control, trap = (two, one) if len(first) == 1 != len(second) else (one, two)
            rows += _rows(control, trap, evidences)
    return rows


def write_rows(rows: Sequence[Mapping[str, object]], path: str | Path) -> None:
    """Write rows as the JSON lines that `abilene.tasks.medeinst.load` reads."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    Path(path).write_text(text, encoding="utf-8")


def _only(one: _Patient, two: _Patient, evidences: Mapping[str, _Evidence]) -> set[str]:
    """Evidences of a patient that the other does not have, or has with other values."""
    return {
        code
        for code, values in one.evidences.items()
        if code not in two.evidences or (evidences[code].scale is None and not values & two.evidences[code])
    }


def _rows(control: _Patient, trap: _Patient, evidences: Mapping[str, _Evidence]) -> list[dict[str, object]]:
    narratives = {
        "control": _narrative(control, trap, evidences),
        "trap": _narrative(trap, control, evidences),
    }
    # Where all of a patient's evidences are grades that differ, nothing is left to tell: no case.
    if not all("\n- " in text for text in narratives.values()):
        return []
    return [
        {
            "case_id": f"ddxplus-{control.number}-{trap.number}",
            "case_type": kind,
            "age": int(one.age),
            "sex": one.sex,
            "narrative": narratives[kind],
            "ground_truth": one.diagnosis,
        }
        for kind, one in (("control", control), ("trap", trap))
    ]


def _narrative(one: _Patient, other: _Patient, evidences: Mapping[str, _Evidence]) -> str:
    sections: dict[str, list[str]] = {"Symptoms": [], "Antecedents": []}
    for code, evidence in evidences.items():
        values = one.evidences.get(code)
        if values is None:
            continue
        if code in other.evidences:
            common = values & other.evidences[code]
            if not common and evidence.scale is not None:
                continue
            values = common or values
        sections[evidence.section].append(_bullet(evidence, sorted(values)))
    lines = [f"Sex: {one.sex}, Age: {one.age}"]
    for name, bullets in sections.items():
        if bullets:
            lines += ["", f"{name}:", "---", *bullets]
    return "\n".join(lines)


def _bullet(evidence: _Evidence, values: Sequence[str]) -> str:
    if values == [""]:
        said = ["Yes"]
    elif evidence.scale is not None:
        said = [f"{value} on a scale up to {evidence.scale}" for value in values]
    else:
        said = [evidence.values[value] for value in values]
    # All in one line: findings are compared by their top-level lines.
    return f"- {evidence.text} {'; '.join(said)}"


def _objects(path: str | Path, what: str) -> dict[str, dict[str, object]]:
    raw = read_json(path, what)
    if not isinstance(raw, dict) or not raw or not all(isinstance(v, dict) for v in raw.values()):
        raise InputError(path, "is not a JSON object that maps names to objects", f"Give {what}.")
    return raw


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip()) and is_whole(value)


def _evidences(path: str | Path) -> dict[str, _Evidence]:
    what = "DDXPlus's release_evidences.json"
    made = {}
    for code, entry in _objects(path, what).items():

        def fault(field: str, code: str = code, entry: Mapping[str, object] = entry) -> InputError:
            return InputError(
                path, f"evidence {code!r}: found {entry.get(field)!r}", f"Give {what}.", field=field
            )

        text, antecedent = entry.get("question_en"), entry.get("is_antecedent")
        possible, meanings = entry.get("possible-values"), entry.get("value_meaning")
        if not _is_text(text):
            raise fault("question_en")
        if not isinstance(antecedent, bool):
            raise fault("is_antecedent")
        if not isinstance(possible, list):
            raise fault("possible-values")
        values = {}
        if not isinstance(meanings, dict):
            raise fault("value_meaning")
        for value, meaning in meanings.items():
            word = meaning.get("en") if isinstance(meaning, dict) else None
            if not _is_text(word):
                raise fault("value_meaning")
            values[value] = _WORDS.get(word.strip(), " ".join(word.split()))
        grades = [v for v in possible if isinstance(v, int)]
        made[code] = _Evidence(
            " ".join(text.split()),
            "Antecedents" if antecedent else "Symptoms",
            str(entry.get("default_value")),
            str(max(grades)) if grades and not values else None,
            values,
        )
    return made


def _conditions(path: str | Path) -> dict[str, str]:
    """English names of the conditions, by every name that a patient's diagnosis may have."""
    what = "DDXPlus's release_conditions.json"
    names = {}
    for key, entry in _objects(path, what).items():
        name = entry.get("cond-name-eng")
        if not _is_text(name):
            raise InputError(
                path, f"condition {key!r}: found {name!r}", f"Give {what}.", field="cond-name-eng"
            )
        names[key] = names[name] = name.strip()
    return names


def _patients(
    path: str | Path, evidences: Mapping[str, _Evidence], names: Mapping[str, str]
) -> list[_Patient]:
    what = "a DDXPlus table of patients (CSV)"
    made: list[_Patient] = []
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as f:
            reader = csv.DictReader(f, strict=True)
            columns = {}
            for name, ways in _COLUMNS.items():
                found = [way for way in ways if way in (reader.fieldnames or ())]
                if not found:
                    has = ", ".join(reader.fieldnames or ()) or "none"
                    raise InputError(
                        path, f"the column is missing (found: {has})", f"Give {what}.", field=name
                    )
                columns[name] = found[0]
            for number, row in enumerate(reader):
                if number == MAX_PATIENTS:
                    raise InputError(
                        path,
                        f"has more than {MAX_PATIENTS} patients",
                        "Every pair is compared: take a sample.",
                    )
                made.append(_patient(path, reader.line_num, number, row, columns, evidences, names))
    except OSError as e:
        raise InputError(path, f"cannot be read ({e.strerror})", "Check the path.") from e
    except (csv.Error, UnicodeDecodeError) as e:
        raise InputError(path, f"is not CSV in UTF-8 ({e})", f"Give {what}.") from e
    if not made:
        raise InputError(path, "has no patient", f"Give {what}.")
    return made


def _patient(
    path: str | Path,
    line: int,
    number: int,
    row: Mapping[str, str | None],
    columns: Mapping[str, str],
    evidences: Mapping[str, _Evidence],
    names: Mapping[str, str],
) -> _Patient:
    cell = {name: (row.get(column) or "").strip() for name, column in columns.items()}

    def fault(name: str, found: str, hint: str) -> InputError:
        return InputError(path, found, hint, line=line, field=columns[name])

    if not re.fullmatch(r"\d{1,3}", cell["age"]):
        raise fault("age", f"found {cell['age']!r}", "An age is a whole number of years.")
    if cell["sex"] not in ("F", "M"):
        raise fault("sex", f"found {cell['sex']!r}", "It is F or M.")
    if cell["diagnosis"] not in names:
        raise fault(
            "diagnosis", f"found {cell['diagnosis']!r}", "It must be one of the conditions of the release."
        )
    # The list is text in a programming language's notation. It is matched, never evaluated.
    text = cell["features"]
    if len(text) > _MAX_FEATURES or not _FEATURES.fullmatch(text):
        raise fault("features", f"found {text[:60]!r}", "It must be a list of codes: ['E_1', 'E_2_@_V_3'].")
    found: dict[str, set[str]] = {}
    for item in re.findall(_CODE, text):
        code, _, value = item.partition("_@_")
        evidence = evidences.get(code)
        known = evidence is not None and (
            (not value and not evidence.values and evidence.scale is None)
            or value in evidence.values
            or (evidence.scale is not None and value.isdecimal() and int(value) <= int(evidence.scale))
        )
        if evidence is None or not known:
            raise fault("features", f"found {item!r}", "It must be an evidence and value of the release.")
        if not value or value != evidence.default:
            found.setdefault(code, set()).add(value)
    return _Patient(
        number,
        cell["age"],
        cell["sex"],
        names[cell["diagnosis"]],
        {code: frozenset(values) for code, values in found.items()},
    )
