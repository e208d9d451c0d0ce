"""A simulated LLM agent: reads the same prompts, answers in the same formats, acts by the four rules.

It is a pure function of prompt and metadata. The others' answers and the evidence are read from the prompt,
as a model would; the answer key and the agent's own memory (its previous private answer, what it has shared)
come with the metadata, because no prompt may contain the key and not every prompt repeats the memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.seeds import uniform
from abilene.tasks.freetext import canonical
from abilene.team.prompts import NO_ANSWER, SOMEBODY
from abilene.theory.kernel import outcomes

DEFAULT = Rates(c=0.3, a=0.5, rho=1.0, r=0.8)

#: Wrong answers to a free-text question, where nothing else says what could be answered.
INVENTED = ("Quellonia", "Marvessa", "Torlund")

_SAYS = re.compile(rf"^- (?:.+ \d+|{SOMEBODY}) says: (.*)$", re.MULTILINE)
_WROTE = re.compile(r"^- .+ \d+ wrote: I would answer: (.*)$", re.MULTILINE)
_EVIDENCE = re.compile(r"^((?:- |\[P\d+\] )(.*))$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BehaviouralAgent:
    """Simulated agents of one team.

    Parameters
    ----------
    rates : sequence of Rates
        One entry for all agents, or one per agent.
    accuracy : float, optional
        Probability that the independent answer is correct, in [0, 1]. Left out: the agent counts the findings
        in its view where the prompt asks for counts, and guesses evenly among the options elsewhere (free text:
        among the answer and three invented ones).
    seed : int
        Added to the run's own seed in every draw.
    oracle : bool
        The agent knows what any evidence is worth: in every round it answers correctly exactly when it can see all
        private notes of the task. Rates and `accuracy` do not enter. For the ceiling of a benchmark.

    Notes
    -----
    In an open discussion a message names an answer and nothing else, and only such messages are read. There an agent
    remembers what its prompts tell, its first vote: each message, and the final vote, is one application of the rules
    to that vote and the messages in view.

    Examples
    --------
    >>> agent = BehaviouralAgent((Rates(c=1, a=0, rho=0, r=0),))
    >>> ask = {"kind": "public", "round": 1, "agent": 0, "task": "t", "epoch": 1, "seed": 0, "truth": "yes",
    ...        "options": ["yes", "no"], "own": "yes", "shared": [], "instruction": "B", "team_size": 3,
    ...        "format": [{"tag": "PRIVATE"}, {"tag": "PUBLIC"}, {"tag": "SHARE", "values": ["P1", "NONE"]}]}
    >>> print(agent.reply("", "- Member 2 says: no\\n- Member 3 says: no", ask))
    PRIVATE: yes
    PUBLIC: no
    SHARE: P1
    """

    rates: Sequence[Rates] = (DEFAULT,)
    accuracy: float | None = None
    seed: int = 0
    oracle: bool = False

    def __post_init__(self) -> None:
        if self.oracle and self.accuracy is not None:
            raise UsageError(
                "behavioural agents: an oracle has no accuracy to set. Leave one of the two out."
            )
        if not self.rates:
            raise UsageError("behavioural agents need at least one set of rates.")
        if self.accuracy is not None and not 0.0 <= self.accuracy <= 1.0:
            raise UsageError(f"accuracy must be a number from 0 to 1, found {self.accuracy!r}.")

    def check(self, team_size: int) -> None:
        """Refuse per-agent rates that do not fit the team.

        Raises
        ------
        UsageError
            Neither one set of rates nor one per agent.
        """
        if len(self.rates) not in (1, team_size):
            raise UsageError(
                f"behavioural agents: {len(self.rates)} values given per rate for a team of {team_size}. "
                "Give one value for all agents, or one per agent."
            )

    def reply(self, system: str, user: str, metadata: Mapping[str, Any]) -> str:
        """Answer one call (see `abilene.team.call.Call` for what the metadata hold)."""
        answer: dict[str, str] = {}
        if self.oracle or metadata["round"] == 0 or metadata.get("own") is None:
            # Also in a later round after a lost private answer: without a belief there is only the evidence.
            first, counts = self._independent(user, metadata)
            answer = {"ANSWER": first, "PRIVATE": first, "PUBLIC": first, "COUNT": counts}
        else:
            statement, belief = self._act(user, metadata)
            # The joint PRIVATE line is written before the belief moves; the probe is asked for the new one.
            answer = {"PRIVATE": metadata["own"], "PUBLIC": statement, "ANSWER": belief}
        if metadata.get("kind") == "message":
            return f"I would answer: {answer['PUBLIC']}"
        lines = []
        for line in metadata["format"]:
            if line["tag"] == "SHARE":
                unshared = [v for v in line["values"] if v not in metadata.get("shared", ())]
                lines.append(f"SHARE: {unshared[0]}")  # NONE is the last value
            elif line["tag"] == "DOUBT":
                lines.append("DOUBT: it rests on what some of us have seen")
            elif line["tag"] == "RATIONALE":
                lines.append("RATIONALE: it fits best what I have seen so far")
            else:
                lines.append(f"{line['tag']}: {answer[line['tag']]}")
        return "\n".join(lines)

    def _act(self, user: str, metadata: Mapping[str, Any]) -> tuple[str, str]:
        """Statement and next belief; the public call and the probe of a round draw the same outcome."""
        self.check(metadata["team_size"])
        rates = self.rates[metadata["agent"] if len(self.rates) > 1 else 0]
        said = [*_SAYS.findall(user), *_WROTE.findall(user)]
        seen = [_opinion(s, metadata) for s in said if s != NO_ANSWER]
        what = (metadata["instruction"], *filter(None, [metadata.get("intervention")]), "outcome")
        draw = self._uniform(metadata, *what)
        ways = outcomes(_opinion(metadata["own"], metadata), seen, metadata["truth"], rates)
        for statement, belief, p in ways:
            draw -= p
            if draw < 0.0:
                return statement, belief
        return ways[-1][:2]

    def _independent(self, user: str, metadata: Mapping[str, Any]) -> tuple[str, str]:
        """Independent answer, and the counts where they are asked for."""
        truth = metadata["truth"]
        options = list(metadata["options"]) or [truth, *INVENTED]
        names: list[str] = next((line["counts"] for line in metadata["format"] if line["tag"] == "COUNT"), [])
        lines = [
            text
            for line, text in _EVIDENCE.findall(user)
            if not _SAYS.match(line) and not text.endswith("(put there by you)")
        ]
        # Longest names first, so that a name inside another is not counted for it.
        pattern = re.compile(
            "|".join(re.escape(o) for o in sorted(options, key=len, reverse=True)) or r"(?!)"
        )
        counts = dict.fromkeys(options, 0)
        for text in lines:
            if found := pattern.search(text):
                counts[found.group()] += 1
        told = " ".join(f"{name}={counts[name]}" for name in names)
        draw = self._uniform(metadata, "independent")
        accuracy = float(metadata["complete"]) if self.oracle else self.accuracy
        if accuracy is not None:
            wrong = [o for o in options if o != truth]
            if draw < accuracy or not wrong:
                return truth, told
            return wrong[_index(draw - accuracy, 1.0 - accuracy, len(wrong))], told
        if names:
            best = max(counts.values())
            options = [o for o in options if counts[o] == best]
        return options[_index(draw, 1.0, len(options))], told

    def _uniform(self, metadata: Mapping[str, Any], *what: str) -> float:
        key = (metadata["seed"], metadata["task"], metadata["epoch"], metadata["agent"], metadata["round"])
        return uniform(self.seed, *key, *what)


def _opinion(text: str, metadata: Mapping[str, Any]) -> str:
    """What a free answer counts as; an option counts as itself."""
    if metadata["options"]:
        return text
    return canonical(text, metadata["truth"], metadata.get("aliases", ()))


def _index(draw: float, width: float, n: int) -> int:
    return min(int(draw / width * n), n - 1)
