"""Small logs for tests, made by hand-written rules and not by the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

OPTIONS = ("East Town", "West Town", "Harbour")


def events(
    *,
    tasks: int = 4,
    agents: int = 5,
    rounds: int = 3,
    branches: tuple[str, ...] = ("A0", "C0", "C4"),
    seed: int = 0,
    options: tuple[str, ...] = OPTIONS,
) -> list[dict[str, Any]]:
    """Rows of an events log in the published format; round 0 once, under branch r0."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for task in range(tasks):
        truth = str(rng.choice(options))
        first = [str(x) for x in rng.choice(options, agents)]
        common = {"task_id": f"hp-{task:03d}", "topology": "complete", "model": "openai/gpt-x"}
        common |= {"intervention": "none", "answer": truth}
        rows += [
            common
            | {"agent": i, "round": 0, "branch": "r0", "private": first[i], "public": first[i]}
            | {"share": None, "share_about": None, "share_text": None, "probe_ok": None}
            | {"neighbours": [], "nb_public": [], "raw": f"ANSWER: {first[i]}"}
            | {"count": {"A": int(rng.integers(5)), "B": 2}, "count_correct": bool(rng.random() < 0.5)}
            for i in range(agents)
        ]
        for branch in branches:
            held, said = list(first), list(first)
            for t in range(1, rounds + 1):
                before, new_held, new_said = list(said), [], []
                for i in range(agents):
                    others = [j for j in range(agents) if j != i]
                    private = str(rng.choice([held[i], str(rng.choice(options))], p=[0.7, 0.3]))
                    public = str(rng.choice([held[i], before[others[0] if others else i]]))
                    share = None if rng.random() < 0.5 else int(rng.integers(1, 4))
                    rows.append(
                        common
                        | {"agent": i, "round": t, "branch": branch, "private": private, "public": public}
                        | {
                            "share": share,
                            "share_about": share and options[0],
                            "share_text": share and "a — b",
                        }
                        | {"probe_ok": bool(rng.random() < 0.95), "neighbours": others}
                        | {"nb_public": [before[j] for j in others], "raw": f"PUBLIC: {public}\u2028end"}
                    )
                    new_held.append(private)
                    new_said.append(public)
                held, said = new_held, new_said
    return rows


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in rows))
    return path


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def table(
    *, tasks: int = 3, agents: int = 4, rounds: int = 2, seed: int = 0, withhold: float = 0.4
) -> list[dict[str, str]]:
    """Rows of a plain table, everything text."""
    rng = np.random.default_rng(seed)
    rows = []
    for task in range(tasks):
        held = [str(x) for x in rng.choice(OPTIONS, agents)]
        said = list(held)
        for t in range(rounds + 1):
            if t:
                seen = [[said[j] for j in range(agents) if j != i] for i in range(agents)]
                said = [
                    str(rng.choice(s)) if rng.random() < withhold else h
                    for s, h in zip(seen, held, strict=True)
                ]
                held = [str(rng.choice(OPTIONS)) if rng.random() < 0.3 else h for h in held]
            rows += [
                {"task": f"{task:02d}", "round": str(t), "agent": f"a{i}", "private": held[i]}
                | {"public": held[i] if t == 0 else said[i], "truth": OPTIONS[task % 3]}
                for i in range(agents)
            ]
    return rows


def write_csv(path: Path, rows: list[dict[str, str]]) -> Path:
    import csv

    with path.open("w", encoding="utf-8", newline="") as f:
        writer = csv.DictWriter(f, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
