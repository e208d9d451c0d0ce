"""The prediction file of the causal test: written once, checked every time, never rewritten."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from abilene.analysis.causal import ARMS, CONTROL, Predictions, predict_arms, record_digest
from abilene.analysis.estimate import SettingEstimate
from abilene.errors import InputError
from abilene.evals.config import RunConfig
from abilene.evals.drive import RunResult
from abilene.records.loaded import replacing
from abilene.team.interventions import INTERVENTIONS

SCHEMA = 1
PREDICTION = "prediction.json"
NEW = "Choose a new --out; this one is left as it is."
#: The runs of one benchmark and model, by arm.
Cell = dict[str, RunConfig]


def identity(config: RunConfig) -> dict[str, Any]:
    """Everything that decides what a control arm asks, JSON-ready."""
    return json.loads(json.dumps(config.identity, default=str))  # type: ignore[no-any-return]


def check_design(root: Path, registered: dict[str, Any], todo: Sequence[Cell]) -> None:
    """Refuse to go on with a prediction of other benchmarks, models or arguments."""
    there = [(c["folder"], c["identity"]) for c in registered["cells"]]
    here = [(cell[CONTROL].folder.parent.name, identity(cell[CONTROL])) for cell in todo]
    if there != here:
        names = ", ".join(f"{c['benchmark']} with {c['model']}" for c in registered["cells"])
        raise InputError(
            root / PREDICTION,
            f"was written for other runs ({names}; benchmarks, models, order and arguments count)",
            NEW,
        )


def seal(document: dict[str, Any]) -> str:
    """Hash of a prediction, without the hash itself."""
    text = json.dumps(
        {k: v for k, v in document.items() if k != "sha256"}, sort_keys=True, ensure_ascii=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def read_prediction(root: Path) -> dict[str, Any] | None:
    """The registered prediction, None where there is none; refused where it is broken or was changed."""
    path = root / PREDICTION
    if not path.exists():
        return None
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        newer, intact = document["schema"] > SCHEMA, document["sha256"] == seal(document)
        for cell in document["cells"]:
            msgspec.convert(cell["predictions"], Predictions)
            _ = cell["folder"], cell["identity"], cell["control"]["sha256"]
        datetime.fromisoformat(document["written"])
    except (OSError, ValueError, KeyError, TypeError) as e:  # msgspec's errors are ValueErrors
        raise InputError(path, "cannot be read as a prediction", NEW) from e
    if newer:
        raise InputError(path, f"schema version {document['schema']}", "Update abilene.")
    if not intact:
        raise InputError(path, "was changed after it was written (its hash does not fit)", NEW)
    return document


def register(
    root: Path,
    todo: Sequence[Cell],
    controls: Sequence[RunResult],
    found: Sequence[SettingEstimate],
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """Write the prediction, whole or not at all."""
    cells = []
    for cell, control, e in zip(todo, controls, found, strict=True):
        tasks = cell[CONTROL].plans[0].items
        options = None if any(not t.options for t in tasks) else max(len(t.options) for t in tasks)
        cells.append(
            {
                "benchmark": cell[CONTROL].benchmark,
                "model": cell[CONTROL].model,
                "simulated": e.simulated,
                "folder": cell[CONTROL].folder.parent.name,
                "identity": identity(cell[CONTROL]),
                "control": {
                    "sha256": record_digest(control.loaded.record),
                    "logs": [p.name for p in control.logs],
                    "rows": control.loaded.record.height,
                    "estimate": e.to_json(),
                },
                "predictions": msgspec.to_builtins(predict_arms(e, options=options, draws=draws, seed=seed)),
            }
        )
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "what": "Predictions of the causal test, made from the control arms before the other arms ran.",
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "packages": {name: version(name) for name in ("abilene", "inspect-ai", "numpy", "polars")},
        "seed": seed,
        "draws": draws,
        "arms": {arm: INTERVENTIONS[arm].withholding for arm in ARMS},
        "cells": cells,
    }
    document = json.loads(json.dumps(document, allow_nan=False))
    document["sha256"] = seal(document)
    path = root / PREDICTION
    with replacing(path) as temporary:  # nothing is there: seen under the lock
        temporary.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
    return document


def check_logs(root: Path, registered: dict[str, Any], controls: Sequence[RunResult]) -> None:
    """Refuse a prediction that was made from other control logs."""
    for cell, control in zip(registered["cells"], controls, strict=True):
        if record_digest(control.loaded.record) != cell["control"]["sha256"]:
            raise InputError(
                root / PREDICTION,
                f"does not belong to the control log in {control.out}, whose rows are others",
                "The prediction is left as it is, and no arm is run. " + NEW,
            )


__all__ = [
    "NEW",
    "PREDICTION",
    "SCHEMA",
    "Cell",
    "check_design",
    "check_logs",
    "read_prediction",
    "register",
    "seal",
]
