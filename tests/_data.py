"""Optional real input for tests. The project ships none of it; tests that need it skip when it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def data_file(name: str) -> Path:
    """Path of an optional data file, or skip the calling test, saying so.

    The folder is taken from ABILENE_TEST_DATA, else ``../shared/data`` beside the checkout.
    """
    root = Path(os.environ.get("ABILENE_TEST_DATA", Path(__file__).parents[1].parent / "shared" / "data"))
    path = root / name
    if not path.exists():
        pytest.skip(f"optional test data not present: {path} (set ABILENE_TEST_DATA)")
    return path
