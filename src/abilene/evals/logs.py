"""Reading `.eval` files into the record. Importing this module lets `abilene.records.files.load` read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from inspect_ai.log import (
    EvalLog,
    EvalSample,
    read_eval_log,
    read_eval_log_sample,
    read_eval_log_sample_summaries,
)

from abilene.errors import InputError
from abilene.evals.ask import clean
from abilene.evals.behavioural import describe, parse_agent
from abilene.evals.plan import TEMPERATURE
from abilene.evals.solver import STORE, unpack_rows
from abilene.records.files import register_reader
from abilene.records.loaded import Loaded, Notes
from abilene.records.schema import SCHEMA_VERSION, Row, Status, frame, is_simulated
from abilene.tasks.task import Task

_HINT = "Only logs of discussions that Abilene ran can be read: abilene run, or inspect eval abilene/..."
#: Fields of a sample that rows do not come from.
_HEAVY = {"events", "attachments", "messages", "timelines", "events_data", "output", "metadata"}
_TEXT = ("public_raw", "private_raw", "share_text", "extra")


def read_eval(path: str | Path, *, text: bool = True) -> Loaded:
    """Read one Inspect log of discussions.

    Parameters
    ----------
    path : str or Path
        A ``.eval`` file.
    text : bool
        False leaves raw replies out.

    Returns
    -------
    Loaded
        All rows that were written, also of discussions that were cut short; what was cut short, and what
        should not have happened, is noted.

    Raises
    ------
    InputError
        Not an Inspect log, one of something else, or one of a newer version of the record.
    """
    path = Path(path)
    header = _header(path)
    facts = (header.eval.metadata or {}).get("abilene")
    if not isinstance(facts, dict) or not isinstance(facts.get("setting"), dict):
        raise InputError(path, f"an Inspect log of another task ('{header.eval.task}')", _HINT)
    if not isinstance(facts.get("schema"), int) or facts["schema"] > SCHEMA_VERSION:
        raise InputError(
            path,
            f"a log of schema version {facts.get('schema')}; this program knows versions up to {SCHEMA_VERSION}",
            "Update abilene: pip install -U abilene",
        )
    notes = Notes(path)
    rows: list[Row] = []
    free: list[bool] = []
    finished = 0
    for sample in _samples(path, _HEAVY):
        kept = sample.store.get(STORE) or {}
        try:
            held = unpack_rows(kept.get("rows", []))
        except TypeError as e:
            raise InputError(path, f"sample {sample.id} holds rows that cannot be read ({e})", _HINT) from e
        free += [bool(x) for x in kept.get("unconstrained", [])]
        if sample.error is not None or sample.limit is not None:
            notes.add(
                "discussion_cut_short",
                f"discussion of {sample.id} ended early ({_why(sample)})",
                "The rounds it finished are kept; the same run command goes on from there.",
                fault=True,
            )
            last = facts.get("last_round", facts.get("rounds"))
            held += _not_held(held, last if isinstance(last, int) else 0)
        else:
            finished += 1
        rows += held
    planned = header.eval.dataset.sample_ids
    expected = (facts["tasks"] if planned is None else len(planned)) * (header.eval.config.epochs or 1)
    absent = max(0, expected - finished)
    if absent:
        notes.add(
            "discussions_absent",
            f"{finished} of {expected} discussions are finished (status of the log: {header.status})",
            "The same run command goes on from there.",
            fault=True,
        )
    setting = model_setting(facts["setting"], header.eval.model, header.eval.model_args)
    temperature = header.plan.config.temperature
    real = any(not is_simulated(r.agent_model or setting["model"]) for r in rows)
    if temperature not in (None, TEMPERATURE) and real:
        setting["setting"] = "; ".join(filter(None, [setting["setting"], f"temperature {temperature:g}"]))
    own = {r.agent_model for r in rows if r.agent_model is not None}
    if own:
        # A mixed team: its setting is named by all its models, each once.
        setting["model"] = "+".join(sorted(own))
    record = frame(rows, setting)
    if not text:
        record = record.with_columns(pl.lit(None, dtype=pl.String).alias(c) for c in _TEXT)
    told = {
        **facts,
        "packages": header.eval.packages,
        "created": header.eval.created,
        "status": header.status,
    }
    told |= {"model": header.eval.model, "finished": finished, "expected": expected}
    if free:
        told["unconstrained"] = {"calls": len(free), "read": sum(free)}
    return Loaded(record=record, warnings=notes.warnings, faults=notes.faults, metadata={str(path): told})


def read_tasks(path: str | Path) -> list[Task]:
    """The tasks that a log's discussions were about.

    Raises
    ------
    InputError
        Not a log of Abilene's discussions.
    """
    path = Path(path)
    header = _header(path)
    if "abilene" not in (header.eval.metadata or {}):
        raise InputError(path, f"an Inspect log of another task ('{header.eval.task}')", _HINT)
    light = _HEAVY - {"metadata"} | {"store"}
    found = {
        sample.id: sample.metadata for sample in _samples(path, light)
    }  # one task for all its repetitions
    return [Task.from_item(item) for item in found.values()]


def _not_held(rows: list[Row], last_round: int) -> list[Row]:
    """Rows of the rounds that a discussion did not come to.

    Without them a log in which no discussion came to its end would look like one of fewer rounds, and what was said
    in the middle like the outcome.
    """
    if not rows:
        return []
    end = max(r.round for r in rows)
    return [
        Row(
            task=row.task, epoch=row.epoch, round=t, agent=row.agent, truth=row.truth, agent_model=row.agent_model,
            private_status=Status.NOT_ASKED, public_status=Status.NOT_ASKED,
        )
        for t in range(end + 1, last_round + 1)
        for row in rows
        if row.round == end
    ]  # fmt: skip


def _why(sample: EvalSample) -> str:
    if sample.limit is not None:
        return f"{sample.limit.type} limit"
    lines = (sample.error.message if sample.error else "").splitlines() or ["unknown"]
    return clean(lines[0].removeprefix("RunStopped(").strip("()'\""))


def model_setting(setting: dict[str, Any], model: str, arguments: dict[str, Any]) -> dict[str, str | None]:
    """The setting with its model; simulated agents are told apart by their rates."""
    out = {**setting, "model": model}
    if model.startswith("behavioural/"):
        rates = describe(parse_agent(arguments))
        out["setting"] = f"{rates}; {setting['setting']}" if setting.get("setting") else rates
    return out


@contextmanager
def renewable(path: Path) -> Iterator[None]:
    """Say of a damaged log of a run's own folder what to do about it."""
    try:
        yield
    except InputError as e:
        raise InputError(
            path,
            e.found,
            "Move it away: the same command then makes it again from the replies in the run's cache.",
        ) from e


def check_logs(folder: Path) -> None:
    """See that the logs of a run can be opened, before anything is changed.

    Raises
    ------
    InputError
        One is damaged.
    """
    for path in sorted(folder.glob("*.eval")):
        with renewable(path):
            _header(path)


def _header(path: Path) -> EvalLog:
    if path.stat().st_size == 0:
        raise InputError(path, "the file is empty", _HINT)
    try:
        return read_eval_log(str(path), header_only=True)
    except Exception as e:  # zip, JSON, validation, compression: whatever Inspect meets in a broken file
        first = (str(e).splitlines() or [""])[0][:160]
        raise InputError(path, f"not a readable Inspect log ({type(e).__name__}: {first})", _HINT) from e


def _samples(path: Path, leave_out: set[str]) -> Iterator[EvalSample]:
    summaries = read_eval_log_sample_summaries(str(path))
    for summary in sorted(summaries, key=lambda s: (str(s.id), s.epoch)):
        try:
            yield read_eval_log_sample(
                str(path), id=summary.id, epoch=summary.epoch, exclude_fields=leave_out
            )
        except Exception as e:
            first = (str(e).splitlines() or [""])[0][:160]
            raise InputError(path, f"sample {summary.id} cannot be read ({first})", _HINT) from e


def _read(path: Path, text: bool) -> Loaded:
    return read_eval(path, text=text)


register_reader(".eval", _read)
__all__ = ["check_logs", "model_setting", "read_eval", "read_tasks"]
