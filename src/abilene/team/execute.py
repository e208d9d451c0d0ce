"""Executing candidate tasks: the prompts of round 0, a limited number of calls at a time, and a journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from abilene.errors import UsageError
from abilene.tasks.factory import full_view, hidden_view, trial_agent
from abilene.tasks.hiddenbench import BENCHMARK
from abilene.tasks.journal import Answered, Generated, Journal
from abilene.tasks.sieve import CONDITIONS, Condition, Trial
from abilene.tasks.structure import Candidate
from abilene.team.call import Completion
from abilene.team.prompts import View, render
from abilene.team.replies import read_reply
from abilene.team.wording import PromptPack, check_alone, load_pack

Generate = Callable[[str], Awaitable[str]]
"""Sends a request for a candidate and returns the reply. It may raise: the candidate is then left open."""
Answer = Callable[[str, str], Awaitable[Completion]]
"""Sends a system and a user prompt. An exception counts as a failed call."""


class CallFailed(Exception):
    """A call that brought no reply; the message is fit to be shown."""


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
        check_alone(self.pack, BENCHMARK)
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
            await cancel(group)
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
            system, user, format = render(self.pack, view, agent, "round0", "", View(), alone=True)
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


async def cancel(group: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel what is not done, and wait for it to end."""
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
