"""The causal test (E1) as a resumable experiment: control arms, a registered prediction, arms, comparison.

Layout of the folder::

    prediction.json                     written once, before any arm runs; never rewritten
    comparison.json                     written anew each time
    <benchmark>-<model>-<hash>/control  run folders, as `abilene run` makes them
                              /transparent
                              /forced_majority
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from abilene.analysis.arms import ArmComparison, compare_arm, gain_json
from abilene.analysis.causal import ARMS, CONTROL, ArmPrediction, Predictions
from abilene.analysis.estimate import SettingEstimate, estimate
from abilene.analysis.manipulation import checks_by_setting, gate
from abilene.errors import InputError, UsageError
from abilene.evals.config import RunConfig, check_folder, lock, write_facts
from abilene.evals.drive import RunResult, run
from abilene.evals.forecast import Forecast, forecast
from abilene.evals.plan import digest
from abilene.evals.registered import (
    NEW,
    PREDICTION,
    SCHEMA,
    check_design,
    check_logs,
    read_prediction,
    register,
)
from abilene.records.audit import audit
from abilene.records.derive import derive
from abilene.records.loaded import replacing
from abilene.records.schema import is_simulated

COMPARISON = "comparison.json"
_NO_PREDICTION = "A prediction made now would not be one. Put the file back, or choose a new --out."
_SEAL = "prediction.sha256"  # in each arm's folder: the prediction it was started under


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One benchmark and model: the control arm, and each further arm against its prediction.

    Attributes
    ----------
    benchmark, model, folder : str
        Which, and where below the experiment's folder.
    simulated : bool
        Whether agents were simulated.
    control : SettingEstimate
        Of the control arm.
    predictions : Predictions
        As registered.
    arms : tuple of ArmComparison
        In the order of `abilene.analysis.causal.ARMS`.
    manipulation : str
        Verdict of the manipulation checks in the control arm.
    faults : tuple of str
        What fails the audit, or breaks the arm's rule; by arm.
    """

    benchmark: str
    model: str
    folder: str
    simulated: bool
    control: SettingEstimate
    predictions: Predictions
    arms: tuple[ArmComparison, ...]
    manipulation: str
    faults: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "benchmark": self.benchmark,
            "model": self.model,
            "folder": self.folder,
            "simulated": self.simulated,
            "control": {
                "gain": gain_json(self.control),
                "gain_by_model": self.predictions.control.as_dict(),
                "withholding": {"set": None, "read": self.control.posterior.withholding.as_dict()},
                "manipulation": self.manipulation,
            },
            "arms": [a.to_json() for a in self.arms],
            "faults": list(self.faults),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalResult:
    """What the experiment left behind.

    Attributes
    ----------
    out : Path
        Its folder.
    registered : dict or None
        Contents of prediction.json; None where the control arms are not complete yet.
    comparisons : tuple of Comparison
        Empty where an arm is not complete yet.
    stopped : str or None
        Why it ended before its time; the same call goes on from there.
    """

    out: Path
    registered: dict[str, Any] | None
    comparisons: tuple[Comparison, ...]
    stopped: str | None

    def to_json(self) -> dict[str, Any]:
        """The document of comparison.json and of ``abilene experiment causal --json``."""
        told = None
        if self.registered is not None:
            told = {
                "file": PREDICTION,
                "written": self.registered["written"],
                "sha256": self.registered["sha256"],
            }
        return {
            "schema": SCHEMA,
            "out": str(self.out),
            "prediction": told,
            "cells": [c.to_json() for c in self.comparisons],
            "stopped": self.stopped,
        }


class _Stop(Exception):
    """A run ended before its time."""


@dataclass(slots=True)
class _Purse:
    """Limits of the whole experiment, shared out run by run."""

    usd: float | None
    tokens: int | None
    spent: dict[Path, tuple[float | None, int]]

    def share(self, config: RunConfig) -> RunConfig:
        """The run with what is left for it; its own earlier spending is in its own ledger."""
        others = [s for folder, s in self.spent.items() if folder != config.folder]
        usd = None if self.usd is None else self.usd - sum(s[0] or 0.0 for s in others)
        tokens = None if self.tokens is None else self.tokens - sum(s[1] for s in others)
        if (usd is not None and usd <= 0) or (tokens is not None and tokens < 1):
            raise _Stop(f"The experiment's limit is used up before {config.folder}.")
        return replace(config, max_cost=usd, max_total_tokens=tokens)


def causal(
    cells: Sequence[RunConfig],
    out: str | Path,
    *,
    draws: int = 200,
    seed: int = 0,
    progress: bool = True,
) -> CausalResult:
    """Run the causal test, or what is left of it.

    Parameters
    ----------
    cells : sequence of RunConfig
        One for each benchmark and model: the control arm, with one instruction, the complete topology and no
        intervention. Their `out` is not used. The limits (`max_cost`, `max_total_tokens`), equal in all, hold
        for the whole experiment.
    out : str or Path
        The experiment's folder.
    draws : int
        Posterior draws behind each prediction.
    seed : int
        Root of estimates and predictions (that of the tasks is in the cells); once there is a prediction, its own.
    progress : bool
        Whether to show progress on stderr.

    Returns
    -------
    CausalResult

    Raises
    ------
    UsageError
        The cells do not make an experiment.
    InputError
        The folder holds another experiment, a prediction that does not belong to these control logs or was
        changed, or arms without a prediction. Nothing in it is touched.

    Notes
    -----
    All control arms are run first. Their estimates predict the arms, the predictions are written to
    prediction.json in one step, and only then is the first arm started. Arms read the control arm's cache, so
    that the independent answers are asked for once.
    """
    root = Path(out)
    todo = _cells(cells, root)
    for cell in todo:
        for config in cell.values():
            for plan in config.plans:
                plan.items  # noqa: B018  made and checked before anything is asked
    _check_root(root, todo)
    root.mkdir(parents=True, exist_ok=True)
    with lock(root):
        registered = read_prediction(root)
        if registered is not None:
            check_design(root, registered, todo)
            seed = registered["seed"]
        elif started := [c for cell in todo for a, c in cell.items() if a != CONTROL and c.folder.exists()]:
            raise InputError(
                started[0].folder,
                f"this arm was started, and there is no {PREDICTION}",
                _NO_PREDICTION,
            )
        elif (root / COMPARISON).exists():
            raise InputError(
                root / COMPARISON,
                f"the arms of this experiment were run and compared, and there is no {PREDICTION}",
                _NO_PREDICTION,
            )
        purse = _Purse(cells[0].max_cost, cells[0].max_total_tokens, {})
        try:
            controls = [_run(cell[CONTROL], purse, progress) for cell in todo]
        except _Stop as e:
            return CausalResult(out=root, registered=registered, comparisons=(), stopped=str(e))
        found = [_estimate(r, seed) for r in controls]
        if registered is None:
            registered = register(root, todo, controls, found, draws, seed)
        else:
            check_logs(root, registered, controls)
        try:
            arms = [
                {a: _run_arm(cell[a], cell[CONTROL], registered, purse, progress) for a in ARMS}
                for cell in todo
            ]
        except _Stop as e:
            return CausalResult(out=root, registered=registered, comparisons=(), stopped=str(e))
        result = CausalResult(
            out=root,
            registered=registered,
            comparisons=tuple(
                _compare(*parts, seed)
                for parts in zip(registered["cells"], controls, found, arms, strict=True)
            ),
            stopped=None,
        )
        with replacing(root / COMPARISON) as temporary:
            text = json.dumps(result.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
            temporary.write_text(text, encoding="utf-8")
    return result


def forecast_causal(cells: Sequence[RunConfig]) -> Forecast:
    """What the whole experiment will take; nothing is asked and no folder is made.

    Parameters
    ----------
    cells : sequence of RunConfig
        As for `causal`.

    Returns
    -------
    Forecast
        Sums over cells. Arms read the control's calls, so that what they share is counted once. Without a price where
        that of one model is not known.

    Raises
    ------
    UsageError, InputError
        The cells do not make an experiment, or one of them is wrong.

    Examples
    --------
    >>> one = RunConfig(tasks=2, rounds=1)  # 5 agents; an independent answer each, and two calls in each of three arms
    >>> forecast_causal([one]).calls
    70
    """
    found = [
        forecast(replace(cell[CONTROL], vary={"intervention": ("none", *ARMS)}))
        for cell in _cells(cells, Path())
    ]
    reasons = list(dict.fromkeys(f.reason for f in found if f.reason is not None))
    return Forecast(
        calls=sum(f.calls for f in found),
        input_tokens=sum(f.input_tokens for f in found),
        output_tokens=sum(f.output_tokens for f in found),
        usd=None if reasons else sum(f.usd or 0.0 for f in found),
        reason=" ".join(reasons) or None,
    )


# Before anything is asked ---------------------------------------------------------------------------------


def _cells(cells: Sequence[RunConfig], root: Path) -> list[dict[str, RunConfig]]:
    """All runs, by cell and arm."""
    if not cells:
        raise UsageError("Give at least one benchmark and one model.")
    out = []
    for config in cells:
        if len(config.instructions) != 1:
            raise UsageError("The causal test takes one instruction; each arm is a setting of its own.")
        if config.topology != "complete":
            raise UsageError("The causal test needs the complete topology: its predictions are for that.")
        if config.vary:
            raise UsageError("The causal test sets the arms itself: nothing can vary within a cell.")
        if config.intervention != "none":
            raise UsageError("The causal test sets the interventions itself. Leave out the intervention.")
        name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{config.benchmark}-{config.model}").strip("-")[:60]
        which = [config.identity[k] for k in ("benchmark", "model", "model_args", "base_url")]
        folder = root / f"{name}-{digest(json.loads(json.dumps(which, default=str)))[:6]}"
        runs = {CONTROL: replace(config, out=folder / CONTROL)}
        runs |= {arm: replace(config, out=folder / arm, intervention=arm) for arm in ARMS}
        out.append(runs)
    seen: set[Path] = set()
    for cell in out:
        config = cell[CONTROL]
        if config.folder in seen:
            raise UsageError(_twice(config))
        seen.add(config.folder)
    if len({(c.max_cost, c.max_total_tokens) for c in cells}) > 1:
        raise UsageError("The limits hold for the whole experiment and must be equal in all cells.")
    return out


def _twice(config: RunConfig) -> str:
    told = f"{config.benchmark} with {config.model} is given twice."
    if is_simulated(config.model):
        return (
            f"{told} On the command line -M sets the rates of simulated agents for all models alike; cells with "
            "different arguments are made in Python, with abilene.evals.causal.causal (see docs/causal-test.md)."
        )
    return f"{told} Give each benchmark and each model once."


def _check_root(root: Path, todo: list[dict[str, RunConfig]]) -> None:
    if root.exists() and not root.is_dir():
        raise InputError(root, "is a file", "Give a folder as --out.")
    own = {PREDICTION, COMPARISON, ".lock", *(cell[CONTROL].folder.parent.name for cell in todo)}
    if root.is_dir() and (found := sorted(p.name for p in root.iterdir() if p.name not in own)):
        raise InputError(root, f"holds something else than this experiment ({found[0]})", NEW)


# Runs -----------------------------------------------------------------------------------------------------


def _run(config: RunConfig, purse: _Purse, progress: bool) -> RunResult:
    result = run(purse.share(config), progress=progress)
    purse.spent[config.folder] = result.spent
    if result.stopped or not result.complete:
        why = result.stopped or "not every discussion was held to its end."
        raise _Stop(f"{config.folder}: {why}")
    return result


def _run_arm(
    config: RunConfig, control: RunConfig, registered: dict[str, Any], purse: _Purse, progress: bool
) -> RunResult:
    check_folder(config)
    folder = config.folder
    seal = folder / _SEAL
    if seal.exists():
        if seal.read_text(encoding="utf-8").strip() != registered["sha256"]:
            raise InputError(folder, f"this arm was started under another {PREDICTION}", NEW)
    elif (folder / "cache").exists() or (folder / "logs.json").exists():
        raise InputError(folder, "this arm was not started by this experiment", NEW)
    else:
        # Facts, seal, cache: each step can be the last one before a kill, and nothing is asked before all three.
        write_facts(config)
        with replacing(seal) as temporary:
            temporary.write_text(registered["sha256"] + "\n", encoding="utf-8")
    _share_cache(control.folder / "cache", folder / "cache")
    return _run(config, purse, progress)


def _share_cache(source: Path, link: Path) -> None:
    """Let an arm read the control arm's calls, so that both have the same independent answers."""
    if link.exists():
        return
    source.mkdir(exist_ok=True)
    try:
        link.symlink_to(os.path.relpath(source, link.parent), target_is_directory=True)
    except OSError:  # a file system without links
        shutil.copytree(source, link)


def _estimate(result: RunResult, seed: int) -> SettingEstimate:
    settings = estimate(result.loaded.record, seed=seed).settings
    if len(settings) != 1:
        raise InputError(result.out, f"holds {len(settings)} settings instead of one", NEW)
    return settings[0]


def _compare(
    cell: dict[str, Any],
    control: RunResult,
    found: SettingEstimate,
    arms: dict[str, RunResult],
    seed: int,
) -> Comparison:
    predictions = msgspec.convert(cell["predictions"], Predictions)
    by_arm: dict[str, ArmPrediction] = {p.arm: p for p in predictions.arms}
    compared = tuple(
        compare_arm(
            by_arm[a],
            found,
            _estimate(arms[a], seed),
            control.loaded.record,
            arms[a].loaded.record,
            seed=seed,
        )
        for a in ARMS
    )
    (checks,) = checks_by_setting(control.loaded.record, derive(control.loaded.record))
    return Comparison(
        benchmark=cell["benchmark"],
        model=cell["model"],
        folder=cell["folder"],
        simulated=found.simulated,
        control=found,
        predictions=predictions,
        arms=compared,
        manipulation=gate(checks),
        faults=tuple(_faults({CONTROL: control, **arms}, compared)),
    )


def _faults(runs: dict[str, RunResult], compared: Sequence[ArmComparison]) -> Iterator[str]:
    for arm, result in runs.items():
        for setting in audit(result.loaded).settings:
            for failure in setting.failures:
                yield f"{arm}: {failure}"
    for c in compared:
        kept, of = c.rule_kept
        if kept < of:
            yield f"{c.predicted.arm}: {of - kept} of {of} statements are not what the arm sets"
        same, all_of = c.same_start
        if same < all_of:
            yield f"{c.predicted.arm}: {all_of - same} of {all_of} independent answers are not the control's"


__all__ = ["COMPARISON", "PREDICTION", "CausalResult", "Comparison", "causal", "forecast_causal"]
