"""Running the task factory: candidates are written, executed in two conditions, and filtered.

Calls go through two injected functions, so that nothing here depends on how a model is reached; `connect` makes
them for an Inspect model.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from abilene.errors import UsageError
from abilene.records.loaded import replacing
from abilene.tasks.factory import (
    CONDITIONS,
    Condition,
    Filter,
    Reason,
    Recipe,
    Trial,
    count,
    duplicate_of,
    full_view,
    hidden_view,
    trial_agent,
)
from abilene.tasks.journal import Answered, Generated, Journal
from abilene.tasks.structure import Candidate
from abilene.team.call import Completion
from abilene.team.lines import strip_thought
from abilene.team.prompts import PromptPack, View, load_pack, render
from abilene.team.replies import read_reply

Generate = Callable[[str], Awaitable[str]]
"""Sends a request for a candidate and returns the reply. It may raise: the candidate is then left open."""
Answer = Callable[[str, str], Awaitable[Completion]]
"""Sends a system and a user prompt. An exception counts as a failed call."""

JOURNAL, TASKS, REJECTED = "journal.jsonl", "tasks.json", "rejected.jsonl"
AHEAD = 8  # candidates asked for before the one being decided
GIVE_UP = 5  # candidates in a row whose calls failed


class CallFailed(Exception):
    """A call that brought no reply; the message is fit to be shown."""


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
        By candidate number; none is missing between the first and the last.
    calls : int
        Calls sent by this start.
    stopped : str, optional
        Why it gave up before all candidates were tried.
    """

    out: Path
    outcomes: tuple[Outcome, ...]
    calls: int
    stopped: str | None = None

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


class Executor:
    """Sends the calls of a factory, a limited number at a time, and keeps each in the journal as it returns.

    Parameters
    ----------
    journal : Journal
        Calls found there are not sent again.
    answer : Answer
        Who answers.
    seed : int
        Root of the order of the clues where one agent has them all.
    pack : PromptPack, optional
        The wording of round 0; the built-in one when left out.
    connections : int
        Calls at a time.
    on_call : callable, optional
        Called with the number of calls sent so far, whenever one returns.
    """

    def __init__(
        self,
        journal: Journal,
        answer: Answer,
        *,
        seed: int = 0,
        pack: PromptPack | None = None,
        connections: int = 20,
        on_call: Callable[[int], None] | None = None,
    ) -> None:
        if connections < 1:
            raise UsageError(f"connections must be at least 1, found {connections}.")
        self.journal, self.answer, self.seed = journal, answer, seed
        self.pack = load_pack() if pack is None else pack
        self.calls = 0
        self._slots = asyncio.Semaphore(connections)
        self._on_call = on_call

    async def generate(self, number: int, prompt: str, generate: Generate) -> str:
        """Reply for a candidate, from the journal or the generator; failures raise `CallFailed`."""
        if number in self.journal.replies:
            return self.journal.replies[number]
        async with self._slots:
            try:
                reply = _whole(await generate(prompt))
            except Exception as e:
                raise CallFailed(_told(e)) from e
            finally:
                self._sent()
        self.journal.add(Generated(number, reply))
        return reply

    async def execute(
        self, candidate: Candidate, key: str, trials: int
    ) -> tuple[tuple[Trial, ...], str | None]:
        """Answer a candidate `trials` times in each condition.

        Parameters
        ----------
        candidate : Candidate
            The task; its structure must be sound.
        key : str
            Its id in the journal.
        trials : int
            Per condition. Trial k shows agent k mod N.

        Returns
        -------
        trials : tuple of Trial
            Those that were answered, readably or not.
        error : str or None
            A failure, where calls failed.
        """
        jobs = [self._trial(candidate, key, c, k) for c in CONDITIONS for k in range(trials)]
        group = [asyncio.ensure_future(job) for job in jobs]
        try:
            done = await asyncio.gather(*group)
        finally:
            await _cancel(group)
        return (
            tuple(t for t in done if isinstance(t, Trial)),
            next((t for t in done if isinstance(t, str)), None),
        )

    async def _trial(self, candidate: Candidate, key: str, condition: Condition, k: int) -> Trial | str:
        agent = trial_agent(k, len(candidate.clues))
        found = self.journal.answers.get((key, condition, k))
        if found is None:
            view = (
                full_view(candidate, key, k, self.seed)
                if condition == "full"
                else hidden_view(candidate, key)
            )
            system, user, format = render(self.pack, view, agent, "round0", "", View())
            async with self._slots:
                try:
                    done = await self.answer(system, user)
                except Exception as e:
                    return _told(e)
                finally:
                    self._sent()
            if done.error is not None:
                return done.error
            reading = read_reply(done, format)["ANSWER"]
            found = Answered(key, condition, k, reading.value, str(reading.status), _whole(done.text))
            self.journal.add(found)
        return Trial(condition, agent, None if found.value is None else found.value == candidate.answer)

    def _sent(self) -> None:
        self.calls += 1
        if self._on_call:
            self._on_call(self.calls)


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
        The folder. A folder of the same factory is continued: no finished call is made again. Bounds, trials and
        numbers may differ from the last start; what was answered is judged anew.
    candidates : int
        Candidates to ask for, at least 1.
    keep : int, optional
        Stop once so many are kept.
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
        The folder holds another factory or cannot be written.

    Notes
    -----
    Candidates are decided one after the other, so that which of two copies is kept does not depend on which call
    returned first; the calls of one candidate, and the requests for the next ones, run at the same time. Duplicates
    of kept candidates are not executed. An open candidate is neither kept nor rejected, and later candidates are not
    compared with it before it is decided; after five in a row the factory gives up.
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
    outcomes: list[Outcome] = []
    asked: dict[int, asyncio.Future[str]] = {}
    stopped = None
    with Journal(out / JOURNAL, identity) as journal:
        run = Executor(journal, answer, seed=recipe.seed, pack=pack, connections=connections, on_call=on_call)
        try:
            for number in range(1, candidates + 1):
                kept = {o.number: o.candidate for o in outcomes if o.status == "kept" and o.candidate}
                if keep is not None and len(kept) >= keep:
                    break
                if len(outcomes) >= GIVE_UP and all(o.status == "open" for o in outcomes[-GIVE_UP:]):
                    stopped = f"calls failed for {GIVE_UP} candidates in a row, last: {outcomes[-1].error}"
                    break
                ahead = AHEAD if keep is None else min(AHEAD, keep - len(kept))
                for k in range(number, min(number + ahead, candidates + 1)):
                    if k not in asked:
                        asked[k] = asyncio.ensure_future(run.generate(k, recipe.prompt(k), generate))
                before = run.calls
                outcomes.append(await _decide(run, recipe, sieve, number, asked[number], kept))
                if run.calls > before:
                    _save(out, outcomes)
            # Requests under way are paid for: their replies serve the next start.
            await asyncio.gather(*asked.values(), return_exceptions=True)
        finally:
            await _cancel(asked.values())
        _save(out, outcomes)
        return Made(out, tuple(outcomes), run.calls, stopped)


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
    found = recipe.read(number, strip_thought(text)[0])
    if isinstance(found, Reason):
        return Outcome(number, "rejected", reasons=(found,), reply=text)
    if twin := duplicate_of(found, kept):
        return Outcome(number, "rejected", found, (twin,), reply=text)
    trials, error = await run.execute(found, f"{number:02d}", sieve.trials)
    if error is not None:
        return Outcome(number, "open", found, trials=trials, reply=text, error=error)
    reasons = tuple(sieve.judge(trials))
    return Outcome(number, "rejected" if reasons else "kept", found, reasons, trials, text)


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


async def _cancel(group: Any) -> None:
    pending = [t for t in group if not t.done()]
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


def _whole(text: str) -> str:
    # Half a character (a lone surrogate) cannot be written as UTF-8; as an escape it stays visible.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _told(error: Exception) -> str:
    lines = str(error).split("\n")
    return lines[0][:300] if isinstance(error, CallFailed) else f"{type(error).__name__}: {lines[0][:300]}"
