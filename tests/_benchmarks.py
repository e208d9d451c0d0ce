"""Data files of all benchmarks for tests: real samples where there are some, MedEinst made from DDXPlus patients."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

from _data import data_file

from abilene.tasks.ddxplus import from_ddxplus, write_rows

_FILES = {"hiddenbench": "hiddenbench.json", "musique": "musique_sample60.jsonl"}


@lru_cache
def benchmark_file(name: str) -> Path | None:
    """Path of a benchmark's data, None where it needs none; skips the calling test where it is absent."""
    if name == "hidden_profile":
        return None
    if name != "medeinst":
        return data_file(_FILES[name])
    release = ("patients_sample300.csv", "release_evidences.json", "release_conditions.json")
    path = Path(tempfile.mkdtemp()) / "pairs.jsonl"
    write_rows(from_ddxplus(*(data_file(f"ddxplus/{f}") for f in release)), path)
    return path
