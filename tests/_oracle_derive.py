"""Counts from rows by dictionaries and loops, written from the definitions alone.

Slow and plain on purpose; it shares no code with `abilene.records.derive`. `mutant` switches on one known
mistake, so that a test can show that it would be caught.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

UNANSWERED = ("missing", "truncated", "refused", "ambiguous", "off_list", "failed")
SETTING = ("benchmark", "model", "instruction", "reasoning", "intervention", "topology", "team", "setting")


def plurality(answers: list[str | None]) -> str | None:
    counts = Counter(a for a in answers if a is not None)
    if not counts:
        return None
    most = max(counts.values())
    leaders = [a for a, n in counts.items() if n == most]
    return leaders[0] if len(leaders) == 1 else None


def derive(
    rows: list[dict[str, Any]], *, include_joint: bool = False, mutant: str | None = None
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """By setting: counts, rows, per-task counts, correction rows, verdicts, and a line for each expected row."""
    table: dict[tuple[Any, ...], dict[str, Any]] = {}
    keys: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    agents: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    last: dict[tuple[Any, ...], int] = defaultdict(int)
    epochs: dict[tuple[Any, ...], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        row = dict(row)
        s = tuple(row[p] for p in SETTING)
        if row["round"] == 0:
            if row["public"] is None:
                row["public"] = row["private"]
            elif row["private"] is None:
                row["private"] = row["public"]
        table[s, row["task"], row["epoch"], row["round"], row["agent"]] = row
        agents[s, row["task"], row["epoch"]].add(row["agent"])
        last[s] = max(last[s], row["round"])
        epochs[s][row["task"]].add(row["epoch"])
        if row["truth"] is not None:
            keys[s, row["task"]].add(row["truth"])

    out: dict[tuple[Any, ...], dict[str, Any]] = {}
    for s, tasks in epochs.items():
        result: dict[str, Any] = {
            "dropped": Counter(),
            "undefined": Counter(),
            "by_task": defaultdict(Counter),
            "correction": [],
            "verdicts": [],
            "rows": {},
            **dict.fromkeys(("expected", "used", "off_rule", "ties"), 0),
        }
        for task in tasks:
            for epoch in tasks[task]:
                team = agents[s, task, epoch]
                for t in range(1, last[s] + 1):
                    for agent in team:
                        result["expected"] += 1
                        line = _row(
                            table, keys[s, task], s, task, epoch, t, agent, team, include_joint, mutant
                        )
                        result["rows"][task, epoch, t, agent] = line
                        if isinstance(line, str):
                            result["dropped"][line] += 1
                            continue
                        result["used"] += 1
                        result["off_rule"] += line["off_rule"]
                        result["ties"] += line["tie"]
                        for name in ("opportunity", "withheld", "internalized"):
                            result["by_task"][task][name] += line[name]
                        if line["correction"]:
                            result["correction"].append(
                                (task, line["enters_correct"], line["dissent"], line["changed"])
                            )
                verdict = _verdict(table, keys[s, task], s, task, epoch, team, last[s])
                if isinstance(verdict, str):
                    result["undefined"][verdict] += 1
                else:
                    result["verdicts"].append((task, epoch, *verdict))
        out[s] = result
    return out


def _row(
    table: dict[tuple[Any, ...], dict[str, Any]],
    keys: set[str],
    s: tuple[Any, ...],
    task: str,
    epoch: int,
    t: int,
    agent: str,
    team: set[str],
    include_joint: bool,
    mutant: str | None,
) -> str | dict[str, Any]:
    now, before = (table.get((s, task, epoch, u, agent)) for u in (t, t - 1))
    if now is None:
        return "row_absent"
    if len(keys) > 1:
        return "conflicting_answer_key"
    if not keys:
        return "truth_missing"
    (truth,) = keys
    if before is None:
        return "previous_round_absent"
    z = before["private"]
    if z is None:
        return "previous_private_missing"
    for kind in ("public", "private"):
        if now[kind] is None:
            status = now[f"{kind}_status"]
            return f"{kind}_{status if status in UNANSWERED else 'missing'}"
    if not include_joint and "joint" in (now["private_source"], before["private_source"]):
        return "private_from_joint"

    if now["observed_public"] is not None:
        visible = list(now["observed_public"])
        listed = now["observed"]
        if listed is not None and len(listed) == len(visible):  # nobody observes itself
            visible = [v for v, other in zip(visible, listed, strict=True) if other != agent]
    else:
        others = now["observed"] if now["observed"] is not None else team
        visible = [
            (table.get((s, task, epoch, t - 1, other)) or {"public": None})["public"]
            for other in sorted(set(others) - {agent})
        ]
    answers = [a for a in visible if a is not None]
    if visible and not answers:
        return "nothing_seen"
    dissent = sum(a != z for a in answers) / len(answers) if answers else 0.0
    if dissent == 0 and now["private"] != z:
        return "changed_without_dissent"

    m = plurality(answers)
    opportunity = m is not None and m != z
    withheld = opportunity and now["public"] == m
    if mutant == "project first":  # right or wrong is counted, and only then compared
        right = plurality([str(a == truth) for a in answers])
        opportunity = right is not None and right != str(z == truth)
        withheld = opportunity and str(now["public"] == truth) == right
    if mutant == "binary dissent" and answers:
        dissent = sum((a == truth) != (z == truth) for a in answers) / len(answers)
    right_before, right_now = z == truth, now["private"] == truth
    return {
        "majority": m,
        "dissent": dissent,
        "opportunity": opportunity,
        "withheld": withheld,
        "internalized": withheld and now["private"] == now["public"],
        "enters_correct": right_before,
        "changed": right_before != right_now,
        "correction": dissent > 0 and (not withheld or mutant == "withheld rows counted"),
        "off_rule": now["public"] not in (z, m),
        "off_rule_own": now["public"] not in (z, m) and now["public"] == now["private"],
        "tie": bool(answers) and m is None,
    }


def _verdict(
    table: dict[tuple[Any, ...], dict[str, Any]],
    keys: set[str],
    s: tuple[Any, ...],
    task: str,
    epoch: int,
    team: set[str],
    last: int,
) -> str | tuple[bool, bool]:
    if len(keys) > 1:
        return "conflicting_answer_key"
    if not keys:
        return "truth_missing"
    (truth,) = keys
    if last == 0:
        return "no_discussion_rounds"
    verdicts = []
    for t, name in ((0, "round0"), (last, "final_round")):
        rows = [r for a in team if (r := table.get((s, task, epoch, t, a)))]
        answers = [r["public"] for r in rows]
        if not rows:
            return f"{name}_absent"
        if not any(a is not None for a in answers):
            return f"{name}_unanswered"
        verdicts.append(plurality(answers) == truth)
    return verdicts[0], verdicts[1]
