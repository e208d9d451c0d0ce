"""A task: frozen data that every benchmark produces and the protocol discusses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Note:
    """One piece of evidence.

    Parameters
    ----------
    text : str
        What an agent reads.
    about : str, optional
        The option it speaks for, where the benchmark knows.
    decisive : bool
        Whether it settles the question by itself for an agent that also has the shared notes.
    """

    text: str
    about: str | None = None
    decisive: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One question for a team, with what everybody and what each agent alone knows.

    Parameters
    ----------
    id : str
        Unique in its benchmark for a seed; results are keyed on it.
    benchmark : str
        ``"hidden_profile"``, ``"hiddenbench"``, ...
    question : str
        The question, without evidence and without options.
    options : tuple of str
        Answers to choose from; empty where the answer is free text.
    answer : str
        The correct answer; one of the options where there are options. Never shown in a prompt.
    shared : tuple of Note
        Read by every agent.
    private : tuple of tuple of Note
        Entry i belongs to agent i alone; its length is the team size N >= 1.
    aliases : tuple of str
        Other strings that mean the answer (free text).
    design : mapping
        Plain facts of the construction, such as ``n_informed`` and ``p_design``.
    """

    id: str
    benchmark: str
    question: str
    options: tuple[str, ...]
    answer: str
    shared: tuple[Note, ...]
    private: tuple[tuple[Note, ...], ...]
    aliases: tuple[str, ...] = ()
    design: Mapping[str, Scalar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "design", MappingProxyType(dict(self.design)))
        if self.options and self.answer not in self.options:
            raise ValueError(
                f"task {self.id}: the answer {self.answer!r} is none of the options {self.options!r}"
            )
        if not self.private:
            raise ValueError(f"task {self.id}: no agent")

    @property
    def team_size(self) -> int:
        """N, number of agents."""
        return len(self.private)

    def to_item(self) -> dict[str, object]:
        """The task as a JSON-ready item (keys: id, kind, question, choices, answer, shared_facts, ...)."""

        def facts(notes: tuple[Note, ...]) -> list[dict[str, object]]:
            return [
                {"about": n.about, "text": n.text, **({"decisive": True} if n.decisive else {})}
                for n in notes
            ]

        item: dict[str, object] = {
            "id": self.id,
            "kind": self.benchmark,
            "question": self.question,
            "choices": list(self.options),
            "answer": self.answer,
            "shared_facts": facts(self.shared),
            "agent_facts": {str(i): facts(notes) for i, notes in enumerate(self.private)},
            "design": dict(self.design),
        }
        if self.aliases:
            item["answer_aliases"] = list(self.aliases)
        return item

    @classmethod
    def from_item(cls, item: Mapping[str, object]) -> Task:
        """Inverse of `to_item`."""

        def notes(facts: list[dict[str, object]]) -> tuple[Note, ...]:
            return tuple(
                Note(
                    str(f["text"]),
                    None if f.get("about") is None else str(f["about"]),
                    bool(f.get("decisive")),
                )
                for f in facts
            )

        agents: dict[str, list[dict[str, object]]] = item["agent_facts"]  # type: ignore[assignment]
        return cls(
            id=str(item["id"]),
            benchmark=str(item["kind"]),
            question=str(item["question"]),
            options=tuple(item["choices"]),  # type: ignore[arg-type]
            answer=str(item["answer"]),
            shared=notes(item["shared_facts"]),  # type: ignore[arg-type]
            private=tuple(notes(agents[k]) for k in sorted(agents, key=int)),
            aliases=tuple(item.get("answer_aliases") or ()),  # type: ignore[arg-type]
            design=item.get("design") or {},  # type: ignore[arg-type]
        )

    @property
    def content(self) -> str:
        """Hash of what the task is about, however its facts are dealt: equal in the full and the hidden profile."""
        facts = {note.text for own in (self.shared, *self.private) for note in own}
        text = json.dumps(
            [self.question, sorted(self.options), self.answer, sorted(facts)], ensure_ascii=False
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def digest(self) -> str:
        """Hash of the whole task, 16 hex digits."""
        text = json.dumps(self.to_item(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
