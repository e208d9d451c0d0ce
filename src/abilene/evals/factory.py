"""Running the task factory: candidates are written, executed in two conditions, and filtered.

Calls go through two injected functions, so that nothing here depends on how a model is reached; `connect` makes
them for an Inspect model.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from abilene.errors import InputError, UsageError
from abilene.records.loaded import replacing
from abilene.tasks.factory import Entry, Recipe, trial_agent
from abilene.tasks.journal import Journal
from abilene.tasks.sieve import CONDITIONS, Filter, Reason, Trial, count, duplicate_of
from abilene.tasks.structure import Candidate
from abilene.team.call import Completion
from abilene.team.execute import Answer, CallFailed, Executor, Generate, cancel
from abilene.team.lines import strip_thought
from abilene.team.wording import PromptPack, load_pack

JOURNAL, TASKS, REJECTED = "journal.jsonl", "tasks.json", "rejected.jsonl"
AHEAD = 8  # candidates asked for before the one being decided
GIVE_UP = 5  # candidates in a row whose calls failed


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one candidate.

    Parameters
    ----------
    number : int
        From 1, in the order in which candidates were asked for.
    status : str
        ``kept``, ``rejected``, or ``open``: calls failed, and the next start makes them again.
    candidate : Candidate, optional
        None where the reply could not be read.
    reasons : tuple of Reason
        Why it was rejected.
    trials : tuple of Trial
        Answers so far.
    reply : str, optional
        What the generator wrote.
    error : str, optional
        One of the failures of an open candidate.
    """

    number: int
    status: Literal["kept", "rejected", "open"]
    candidate: Candidate | None = None
    reasons: tuple[Reason, ...] = ()
    trials: tuple[Trial, ...] = ()
    reply: str | None = None
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, as in rejected.jsonl: a candidate that was not executed has no trials, which is null."""
        return {
            "candidate": self.number,
            "reasons": [{"code": r.code, "detail": r.detail} for r in self.reasons],
            "trials": counts(self.trials),
            "task": None if self.candidate is None else self.candidate.to_entry(self.number),
            "reply": self.reply,
        }


@dataclass(frozen=True, slots=True)
class Made:
    """What a factory has made so far.

    Parameters
    ----------
    out : Path
        Its folder, with tasks.json, rejected.jsonl and journal.jsonl.
    outcomes : tuple of Outcome
        By candidate number, those of earlier starts included.
    calls : int
        Calls sent by this start.
    stopped : str, optional
        Why it gave up before all candidates were tried.
    untried : tuple of int
        Candidates that earlier starts asked for and that cannot be decided without calls, which `candidates` and
        `keep` of this start rule out. They are in the journal, and in neither of the other files.
    """

    out: Path
    outcomes: tuple[Outcome, ...]
    calls: int
    stopped: str | None = None
    untried: tuple[int, ...] = ()

    def of(self, status: str) -> tuple[Outcome, ...]:
        """Outcomes of one status."""
        return tuple(o for o in self.outcomes if o.status == status)


def counts(trials: Sequence[Trial]) -> dict[str, Any] | None:
    """Counts by condition, and by agent in the hidden one; None where nothing was executed."""
    if not trials:
        return None
    agents = sorted({t.agent for t in trials if t.condition == "hidden"})
    return {
        **{c: count(trials, c).as_dict() for c in CONDITIONS},
        "hidden_by_agent": [count(trials, "hidden", i).as_dict() for i in agents],
    }


async def make_tasks(
    recipe: Recipe,
    sieve: Filter,
    generate: Generate,
    answer: Answer,
    out: str | Path,
    *,
    candidates: int = 20,
    keep: int | None = None,
    facts: Mapping[str, Any] | None = None,
    pack: PromptPack | None = None,
    connections: int = 20,
    on_call: Callable[[int], None] | None = None,
) -> Made:
    """Generate candidates, execute them, and keep those that pass.

    Parameters
    ----------
    recipe, sieve
        What to ask for, and what to keep.
    generate, answer
        The two kinds of call.
    out : path
        The folder: new, empty, or of the same factory. The last is continued: no finished call is made again. Bounds,
        trials and numbers may differ from the last start; what was answered is judged anew.
    candidates : int
        Candidates to ask for, at least 1.
    keep : int, optional
        Send no more calls once so many are kept.
    facts : mapping, optional
        JSON-ready facts about the models; a folder made with others is not continued.
    pack, connections, on_call
        See `Executor`.

    Returns
    -------
    Made

    Raises
    ------
    UsageError
        A number out of range.
    InputError
        The folder holds another factory or files that are no factory's, or cannot be written.

    Notes
    -----
    Candidates are decided one after the other, so that which of two copies is kept does not depend on which call
    returned first; the calls of one candidate, and the requests for the next ones, run at the same time. Duplicates
    of kept candidates are not executed. An open candidate is neither kept nor rejected, and later candidates are not
    compared with it before it is decided; after five in a row the factory gives up.

    `candidates`, `keep` and giving up end the calls, not the judging: whatever an earlier start asked for and answered
    stays in the files, so that with smaller numbers than before more than `keep` may be kept.
    """
    if candidates < 1 or (keep is not None and keep < 1):
        raise UsageError(f"The numbers of candidates must be at least 1, found {candidates} and {keep}.")
    out = Path(out)
    pack = load_pack() if pack is None else pack
    identity = {
        "clues": recipe.clues,
        "options": recipe.options,
        "seed": recipe.seed,
        "template": recipe.template.digest,
        "prompts": pack.digest,
        **(facts or {}),
    }
    _check_folder(out)
    outcomes: list[Outcome] = []
    untried: list[int] = []
    asked: dict[int, asyncio.Future[str]] = {}
    stopped = None
    with Journal(out / JOURNAL, identity) as journal:
        run = Executor(journal, answer, seed=recipe.seed, pack=pack, connections=connections, on_call=on_call)
        earlier = dict(journal.replies)
        last = max(earlier, default=0)
        try:
            for number in range(1, max(candidates, last) + 1):
                kept = {o.number: o.candidate for o in outcomes if o.status == "kept" and o.candidate}
                if stopped is None and number <= candidates and _failing(outcomes):
                    stopped = f"calls failed for {GIVE_UP} candidates in a row, last: {outcomes[-1].error}"
                if stopped is not None or number > candidates or (keep is not None and len(kept) >= keep):
                    if number in earlier:
                        found = _recall(journal, recipe, sieve, number, earlier[number], kept)
                        if found is None:
                            untried.append(number)
                        else:
                            outcomes.append(found)
                    continue
                ahead = AHEAD if keep is None else min(AHEAD, keep - len(kept))
                for k in range(number, min(number + ahead, candidates + 1)):
                    if k not in asked:
                        asked[k] = asyncio.ensure_future(run.generate(k, recipe.prompt(k), generate))
                before = run.calls
                outcomes.append(await _decide(run, recipe, sieve, number, asked[number], kept))
                # The files of the last start stay until everything it decided is judged again: a kill on the way
                # must not leave fewer tasks than there were.
                if run.calls > before and number >= last:
                    _save(out, outcomes)
            # Requests under way are paid for: their replies serve the next start.
            await asyncio.gather(*asked.values(), return_exceptions=True)
        finally:
            await cancel(asked.values())
        _save(out, outcomes)
        return Made(out, tuple(outcomes), run.calls, stopped, tuple(untried))


def _failing(outcomes: Sequence[Outcome]) -> bool:
    return len(outcomes) >= GIVE_UP and all(o.status == "open" for o in outcomes[-GIVE_UP:])


def _check_folder(out: Path) -> None:
    """Refuse a folder with files that no journal accounts for: they are somebody's work.

    A factory that was killed before the first line of its journal was whole leaves nothing else behind. Hidden files
    (of a file manager, of a write that was cut) are nobody's work.
    """
    try:
        with suppress(FileNotFoundError), (out / JOURNAL).open("rb") as f:
            if f.readline().endswith(b"\n"):
                return  # the journal itself decides whether it is continued
        there = sorted(p.name for p in out.iterdir()) if out.exists() else []
    except OSError as e:
        raise InputError(out, f"cannot be used as a folder ({e.strerror})", "Choose a new --out.") from e
    if others := [name for name in there if name != JOURNAL and not name.startswith(".")]:
        told = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
        raise InputError(
            out,
            f"the folder holds {told} and no journal of a factory ({JOURNAL}), so it cannot be continued",
            "Choose a new --out.",
        )


async def try_tasks(
    entries: Sequence[Entry],
    sieve: Filter,
    answer: Answer,
    *,
    out: str | Path | None = None,
    facts: Mapping[str, Any] | None = None,
    seed: int = 0,
    pack: PromptPack | None = None,
    connections: int = 20,
    on_call: Callable[[int], None] | None = None,
) -> dict[str, Outcome]:
    """Execute the entries of a file that have no problem, as `make_tasks` executes candidates.

    Parameters
    ----------
    entries : sequence of Entry
        From `abilene.tasks.factory.check_file`. Their texts are left as they are, the order of options included.
    sieve, answer
        What to keep, and who answers.
    out : path, optional
        A folder whose journal keeps the answers, so that a stopped check goes on; an edited task is tried anew.
    facts, seed, pack, connections, on_call
        See `make_tasks`.

    Returns
    -------
    dict
        Outcome by the entry's key; entries with problems are left out.
    """
    pack = load_pack() if pack is None else pack
    identity = {"seed": seed, "prompts": pack.digest, **(facts or {})}
    with Journal(None if out is None else Path(out) / JOURNAL, identity) as journal:
        run = Executor(journal, answer, seed=seed, pack=pack, connections=connections, on_call=on_call)
        outcomes = {}
        for number, entry in enumerate(entries, start=1):
            if entry.candidate is not None and not entry.problems:
                key = f"{entry.key} {entry.digest}"
                outcomes[entry.key] = await _execute(run, sieve, number, entry.candidate, key, None)
        return outcomes


async def _decide(
    run: Executor,
    recipe: Recipe,
    sieve: Filter,
    number: int,
    reply: Awaitable[str],
    kept: Mapping[int, Candidate],
) -> Outcome:
    try:
        text = await reply
    except CallFailed as e:
        return Outcome(number, "open", error=str(e))
    found = _read(recipe, number, text, kept)
    if isinstance(found, Outcome):
        return found
    return await _execute(run, sieve, number, found, _key(number), text)


def _recall(
    journal: Journal, recipe: Recipe, sieve: Filter, number: int, reply: str, kept: Mapping[int, Candidate]
) -> Outcome | None:
    """What `_decide` finds, out of the journal alone; None where calls would be needed."""
    found = _read(recipe, number, reply, kept)
    if isinstance(found, Outcome):
        return found
    trials = []
    for condition in CONDITIONS:
        for k in range(sieve.trials):
            answered = journal.answers.get((_key(number), condition, k))
            if answered is None:
                return None
            right = None if answered.value is None else answered.value == found.answer
            trials.append(Trial(condition, trial_agent(k, len(found.clues)), right))
    return _judged(sieve, number, found, tuple(trials), reply)


def _read(recipe: Recipe, number: int, reply: str, kept: Mapping[int, Candidate]) -> Candidate | Outcome:
    """The candidate to execute, or the outcome of one that need not be."""
    found = recipe.read(number, strip_thought(reply)[0])
    if isinstance(found, Reason):
        return Outcome(number, "rejected", reasons=(found,), reply=reply)
    if twin := duplicate_of(found, kept):
        return Outcome(number, "rejected", found, (twin,), reply=reply)
    return found


def _key(number: int) -> str:
    return f"{number:02d}"


async def _execute(
    run: Executor, sieve: Filter, number: int, candidate: Candidate, key: str, reply: str | None
) -> Outcome:
    trials, error = await run.execute(candidate, key, sieve.trials)
    if error is not None:
        return Outcome(number, "open", candidate, trials=trials, reply=reply, error=error)
    return _judged(sieve, number, candidate, trials, reply)


def _judged(
    sieve: Filter, number: int, candidate: Candidate, trials: tuple[Trial, ...], reply: str | None
) -> Outcome:
    reasons = tuple(sieve.judge(trials))
    return Outcome(number, "rejected" if reasons else "kept", candidate, reasons, trials, reply)


def _save(out: Path, outcomes: Sequence[Outcome]) -> None:
    kept = [
        {**o.candidate.to_entry(o.number), "trials": counts(o.trials)}
        for o in outcomes
        if o.status == "kept" and o.candidate
    ]
    rejected = [
        json.dumps(o.as_dict(), ensure_ascii=False) + "\n" for o in outcomes if o.status == "rejected"
    ]
    for name, text in (
        (TASKS, json.dumps(kept, ensure_ascii=False, indent=1) + "\n"),
        (REJECTED, "".join(rejected)),
    ):
        with replacing(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


# Inspect -------------------------------------------------------------------------------------------------


def connect(
    model: str,
    *,
    base_url: str | None = None,
    model_args: Mapping[str, Any] | None = None,
    temperature: float = 0.7,
    max_tokens: int | None = None,
    connections: int = 20,
) -> tuple[Generate, Answer]:
    """The two kinds of call for an Inspect model.

    Parameters
    ----------
    model : str
        Any Inspect model, such as ``openai/gpt-4o-mini``. Simulated agents are refused: they do not read facts.
    base_url, model_args, temperature, max_tokens, connections
        As of a run (`abilene.evals.config.RunConfig`).

    Raises
    ------
    UsageError
        The model cannot be set up.

    Notes
    -----
    Nothing is cached: each trial is a draw of its own. With temperature 0 all trials of one agent's part are one.
    """
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig, get_model

    from abilene.errors import AbileneError
    from abilene.evals.ask import describe_error, read_output
    from abilene.evals.config import RunConfig
    from abilene.records.schema import is_simulated

    if is_simulated(model):
        raise UsageError(
            f"{model} does not read facts, so it can neither write nor try a task. Name a model."
        )
    config = RunConfig(model=model, base_url=base_url, model_args=model_args or {}, connections=connections)
    try:
        with config.environment():
            made = get_model(
                model,
                base_url=base_url,
                config=GenerateConfig(
                    max_connections=connections,
                    temperature=temperature,
                    max_tokens=max_tokens,
                    max_retries=config.max_retries,
                    attempt_timeout=config.attempt_timeout,
                ),
                memoize=False,
                **config.model_args,
            )
    except AbileneError:
        raise
    except Exception as e:
        text = " ".join(str(getattr(e, "message", e)).split())
        raise UsageError(f"The model {model!r} cannot be set up: {text}") from e

    async def send(messages: list[Any]) -> Completion:
        try:
            return read_output(await made.generate(messages))
        except Exception as e:
            raise CallFailed(describe_error(e)) from e

    async def answer(system: str, user: str) -> Completion:
        return await send([ChatMessageSystem(content=system), ChatMessageUser(content=user)])

    async def generate(prompt: str) -> str:
        done = await send([ChatMessageUser(content=prompt)])
        if done.error is not None:
            raise CallFailed(done.error)
        return done.text

    return generate, answer
