"""`abilene run`: several settings in one resumable run, and its record."""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import polars as pl
from inspect_ai import eval_set
from inspect_ai._util.error import (
    PrerequisiteError,  # Inspect's one error for wrong use; it has no public name
)
from inspect_ai.log import EvalLog
from inspect_ai.model import GenerateConfig, Model, get_model

from abilene.errors import AbileneError, InputError, UsageError
from abilene.evals import registry
from abilene.evals.behavioural import BehaviouralAPI
from abilene.evals.cache import json_cache
from abilene.evals.client import use_fast_client
from abilene.evals.config import RunConfig, check_folder, lock, write_facts
from abilene.evals.logs import check_logs, read_eval, renewable
from abilene.evals.plan import Plan, agent_role, by_agent, digest
from abilene.evals.progress import bar
from abilene.evals.reasoning import reasoning_config
from abilene.evals.session import Budget, Session, environment, watching
from abilene.records.files import write_record
from abilene.records.loaded import Loaded
from abilene.records.schema import frame, is_simulated

RECORD = "rows.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run left behind.

    Attributes
    ----------
    out : Path
        The run's folder.
    record : Path
        All rows, schema v1.
    logs : tuple of Path
        Inspect logs, one per setting.
    loaded : Loaded
        The same rows, with what was noticed.
    finished : dict
        (finished, expected) discussions by setting, named by its instruction and whatever else differs
        (`RunConfig.names`).
    calls : int
        Calls of this process; replies from the run's own cache count too.
    spent : tuple of (float or None, int)
        USD and tokens of the whole run, restarts included; no USD where the price is not known.
    stopped : str, optional
        Why the run ended before its time.
    notes : tuple of str
        What a reader must know besides.
    """

    out: Path
    record: Path
    logs: tuple[Path, ...]
    loaded: Loaded
    finished: dict[str, tuple[int, int]]
    calls: int
    spent: tuple[float | None, int]
    stopped: str | None
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every discussion was held to its end."""
        return all(done >= expected for done, expected in self.finished.values())


def run(config: RunConfig, *, progress: bool = True) -> RunResult:
    """Hold the discussions of a run, or what is left of them, and write the record.

    Parameters
    ----------
    config : RunConfig
        Checked as a whole before the first call.
    progress : bool
        Whether to show progress on stderr.

    Returns
    -------
    RunResult
        Also for a run that was stopped by a limit; the same command goes on from there.

    Raises
    ------
    UsageError
        The configuration is wrong.
    InputError
        The folder holds another run, or a file cannot be used.

    Notes
    -----
    Settings run one after the other over one cache, which lives in the run's folder: what two settings ask alike is
    asked once. Round 0 carries no instruction and no intervention, so that they all share its answers, a deeper
    discussion goes on where a shorter one ended, and a run that was killed asks no finished call again. Within a
    setting several discussions run at a time, so few that they finish one by one.
    """
    plans = config.plans
    for plan in plans:
        plan.items  # noqa: B018  made and checked here, before anything is asked
    model = _model(config, config.model, config.model_args)
    named = by_agent(config.agent_models, "agent_models")
    others = {agent: _model(config, name, {}) for agent, name in named.items()}
    out = config.folder
    check_folder(config)
    _answers(config)
    with lock(out):
        check_logs(out)
        write_facts(config)
        budget = _budget(config, out)
        calls = config.epochs * sum(p.calls_by_agent * t.team_size for p in plans for t in p.items)
        with bar(calls, f"{config.benchmark}, {model}", show=progress) as on_call:
            session = Session(budget=budget, on_call=on_call)
            logs = _evaluate(config, plans, model, others, session)
        result = _collect(config, plans, model, session, logs)
    if len(logs) < len(plans) or any(log.status == "cancelled" for log in logs):
        # Inspect ends an interrupted set quietly; what is finished has been collected.
        raise KeyboardInterrupt
    return result


def _model(config: RunConfig, name: str, arguments: Mapping[str, Any]) -> Model:
    reasoning_config(name, config.reasoning)
    try:
        # Inspect's first greeting ("hooks enabled") is meant for its own command.
        with config.environment(), contextlib.redirect_stdout(io.StringIO()):
            model = get_model(
                name,
                base_url=config.base_url if _server(name) == _server(config.model) else None,
                # Inspect gives its own options of a run to the model of most agents only, not to those of single ones.
                config=GenerateConfig(
                    max_connections=config.calls_at_a_time,
                    temperature=config.temperature,
                    max_tokens=config.max_tokens,
                    max_retries=config.max_retries,
                    attempt_timeout=config.attempt_timeout,
                ),
                memoize=False,
                **arguments,
            )
    except AbileneError:
        raise
    except Exception as e:
        text = re.sub(r"\[/?[a-z_ ]+\]", "", " ".join(str(getattr(e, "message", e)).split()))
        raise UsageError(f"The model {name!r} cannot be set up: {text}") from e
    use_fast_client(model)
    if isinstance(model.api, BehaviouralAPI):
        for n in {n for plan in config.plans for n in plan.team_sizes}:
            model.api.agent.check(n)
    return model


def rehearse(config: RunConfig) -> None:
    """See what can be seen of a run without asking or writing: its folder, its models and their arguments.

    A key that is missing is no fault yet, and a model in this process is not loaded.

    Raises
    ------
    UsageError, InputError
        Whatever is wrong with them.
    """
    if config.folder.exists():
        check_folder(config)
    check_models(config)


def check_models(config: RunConfig) -> None:
    """See that the models of a run are known and their arguments right, as far as that needs no key."""
    for name in (config.model, *by_agent(config.agent_models, "agent_models").values()):
        if name.startswith("local/"):
            continue
        try:
            _model(config, name, config.model_args if name == config.model else {})
        except UsageError as e:
            # Of what must be there first, a key can still be set; a package that is missing is told.
            if not isinstance(e.__cause__, PrerequisiteError) or "pip install" in str(e):
                raise


def _server(model: str) -> str:
    """The part of a model's name that says who serves it: the provider, and for openai-api/ the service."""
    parts = model.split("/")
    return "/".join(parts[:2] if parts[0] == "openai-api" else parts[:1])


def _answers(config: RunConfig) -> None:
    """See that something listens at the server's address: a call would be tried again and again for a long time."""
    if config.base_url is None:
        return
    url = urlsplit(config.base_url)
    if url.hostname is None:
        raise UsageError(
            f"The server's address {config.base_url!r} is not a URL like http://localhost:8000/v1."
        )
    if getproxies():  # the address may be known to the proxy only
        return
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        socket.create_connection((url.hostname, port), timeout=10).close()
    except OSError as e:
        raise UsageError(
            f"Nothing answers at {config.base_url} ({e.strerror or e}). Start the server, or give its address with "
            "--base-url."
        ) from e


def _budget(config: RunConfig, out: Path) -> Budget:
    # Without a limit too: a later start may have one.
    return Budget(
        out / "spent.txt", usd=config.max_cost, tokens=config.max_total_tokens, price=config.team_price
    )


def _evaluate(
    config: RunConfig, plans: tuple[Plan, ...], model: Model, others: dict[int, Model], session: Session
) -> list[EvalLog]:
    largest = max(n for plan in plans for n in plan.team_sizes)
    task = registry.TASKS[config.benchmark]
    out = config.folder
    with (
        watching(session),
        config.environment(),
        environment(INSPECT_CACHE_DIR=str((out / "cache").resolve())),
        json_cache(),
        _lean(),
        contextlib.redirect_stdout(sys.stderr),  # stdout is for results
    ):
        try:
            _, logs = eval_set(
                [task(**registry.arguments(config.benchmark, plan)) for plan in plans],
                log_dir=str(out),
                model=model,
                model_roles={agent_role(i): m for i, m in others.items()} or None,
                epochs=config.epochs,
                max_tasks=1,
                max_samples=max(1, round(config.calls_at_a_time / (2 * largest))),
                # A discussion that was cut short must make its log count as unfinished, so that the next run
                # takes it up again; the others go on.
                fail_on_error=True,
                continue_on_fail=True,
                retry_attempts=0,
                retry_immediate=False,
                display="none",
                log_level="error",
                ctl_server=False,
                score_display=False,
                log_realtime=config.live,
                temperature=config.temperature,
                max_tokens=config.max_tokens,
                max_connections=config.calls_at_a_time,
                max_retries=config.max_retries,
                attempt_timeout=config.attempt_timeout,
            )
        except PrerequisiteError as e:
            raise UsageError(" ".join(str(e.message).split())) from e
    return logs


@contextlib.contextmanager
def _lean() -> Iterator[None]:
    """Spare two things that cost a fifth of the CPU time.

    Python looks for reference cycles less often (a log holds very many small objects, none of them garbage), and
    Inspect's trace of every single step is not written.
    """
    thresholds, disabled = gc.get_threshold(), logging.root.manager.disable
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    logging.disable(logging.INFO - 1)
    try:
        yield
    finally:
        logging.disable(disabled)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _collect(
    config: RunConfig, plans: tuple[Plan, ...], model: Model, session: Session, logs: list[EvalLog]
) -> RunResult:
    names = config.names
    finished = {names[digest(plan.setting)]: (0, config.epochs * len(plan.items)) for plan in plans}
    found: dict[str, tuple[Path, Loaded]] = {}
    for path, part in _read_logs(config.folder, logs):
        # A second log of a setting is what an interrupted start left behind.
        found.setdefault(digest(part.metadata[str(path)]["setting"]), (path, part))
    facts: dict[str, Any] = {}
    paths, parts = [], []
    for key in names:  # in the order of the settings, so that a run that is read again gives the same record
        if key in found:
            path, part = found[key]
            told: dict[str, Any] = dict(part.metadata[str(path)])
            finished[names[key]] = (told["finished"], told["expected"])
            facts[path.name] = told
            paths.append(path)
            parts.append(part)
    loaded = Loaded(
        record=pl.concat([frame([], {}), *(p.record for p in parts)]),
        warnings=[w for p in parts for w in p.warnings],
        faults=[f for p in parts for f in p.faults],
        metadata={k: v for p in parts for k, v in p.metadata.items()},
    )
    out = config.folder
    notes = tuple(_notes(config, str(model), loaded))
    record = write_record(loaded.record, out / RECORD, {"run": config.facts, "logs": facts, "notes": notes})
    assert session.budget is not None
    spent = session.budget.spent
    write_facts(
        config,
        result={
            "finished": {k: list(v) for k, v in finished.items()},
            "rows": loaded.record.height,
            "spent": {"usd": spent[0], "tokens": spent[1]},
            "stopped": session.stopped,
            "notes": list(notes),
        },
    )
    return RunResult(
        out=out,
        record=record,
        logs=tuple(paths),
        loaded=loaded,
        finished=finished,
        calls=session.calls,
        spent=spent,
        stopped=session.stopped,
        notes=notes,
    )


def _read_logs(out: Path, logs: list[EvalLog]) -> Iterator[tuple[Path, Loaded]]:
    """Logs of this start, then those of a setting that was interrupted before its end, latest first."""
    paths = [Path(log.location.removeprefix("file://")) for log in logs]
    for path in paths:
        with renewable(path):
            loaded = read_eval(path)
        yield path, loaded
    for path in sorted(out.glob("*.eval"), reverse=True):
        if path.name not in {p.name for p in paths}:
            with contextlib.suppress(InputError):  # nothing had been written to it yet
                yield path, read_eval(path)


def _notes(config: RunConfig, model: str, loaded: Loaded) -> Iterator[str]:
    every = [model, *by_agent(config.agent_models, "agent_models").values()]
    if len({is_simulated(m) for m in every}) == 2:
        yield "Some of the agents are simulated: theirs are not the answers of a language model."
    elif is_simulated(model):
        yield "Simulated agents: these are not the answers of a language model."
    tokens = loaded.record["reasoning_tokens"].sum()
    if config.reasoning == "off":
        if tokens:
            yield f"Reasoning was to be off, yet {tokens} reasoning tokens were used: it was not."
        elif not is_simulated(model):
            yield "Reasoning was off: no reasoning tokens and no reasoning text."
    counts = [m["unconstrained"] for m in loaded.metadata.values() if "unconstrained" in m]
    if counts:
        calls, read = sum(c["calls"] for c in counts), sum(c["read"] for c in counts)  # type: ignore[index]
        yield f"Replies are constrained by a grammar. Without it {read} of {calls} replies read well."


__all__ = ["RECORD", "RunConfig", "RunResult", "run"]
