"""Which full profile is the ceiling of which hidden one: the same agents, benchmark and teams, or an error."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from abilene.errors import UsageError
from abilene.records.schema import SETTING_PARTS

#: Part of a setting's label where every agent holds every note, as `abilene.evals.plan` writes it.
FULL_PROFILE = "full profile"
# Parts of the label that say how discussions go on after round 0, the only one of the full profile that is used.
_HELD = re.compile(r"\d+ rounds|open discussion of \d+ rounds(, stopping early)?|topology [0-9a-f]{8}")

Setting = dict[str, str | None]


def settings_of(record: pl.DataFrame) -> list[Setting]:
    return list(record.select(SETTING_PARTS).unique().sort(SETTING_PARTS).iter_rows(named=True))


def rows_of(record: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    return record.filter(pl.col(part).eq_missing(pl.lit(setting[part], pl.String)) for part in SETTING_PARTS)


def parts_of(setting: Setting) -> list[str]:
    return [part for part in (setting["setting"] or "").split("; ") if part]


def _agents(setting: Setting) -> str:
    """What the label says about who discusses what, such as the rates of simulated agents."""
    return "; ".join(p for p in parts_of(setting) if p != FULL_PROFILE and not _HELD.fullmatch(p))


def check_held(full: Sequence[Setting] | None, hidden: Sequence[Setting], names: tuple[str, str]) -> None:
    """Refuse records of the other condition: every number would be about something else than its name says."""
    for name, settings in zip(names, (full, hidden), strict=True):
        if settings is not None and not settings:
            raise UsageError(f"{name} holds no rows. Give the log of a run.")
    wrong = full is not None and any(FULL_PROFILE not in parts_of(s) for s in full)
    if any(FULL_PROFILE in parts_of(s) for s in hidden):
        if wrong and full is not None and not any(FULL_PROFILE in parts_of(s) for s in full):
            raise UsageError(
                f"The two are swapped: {names[1]} was run with --condition full, and {names[0]} with --condition "
                "hidden. Give the run with --condition full as --full."
            )
        raise UsageError(
            f"{names[1]} was run with --condition full; HIDDEN needs a run with --condition hidden (the default)."
        )
    if wrong:
        raise UsageError(
            f"{names[0]} was run with --condition hidden; --full needs a run with --condition full. "
            f"(A table of your own says so with {FULL_PROFILE!r} in its column setting.)"
        )


def ceiling_of(
    full: Sequence[tuple[Setting, pl.DataFrame]],
    setting: Setting,
    hidden: pl.DataFrame,
    names: tuple[str, str],
) -> pl.DataFrame:
    """The full record of the same agents."""
    why = [_differ(s, record, setting, hidden, names) for s, record in full]
    same = [f for f, found in zip(full, why, strict=True) if found is None]
    if not same:
        raise UsageError(max(found for found in why if found is not None)[1])
    if len({_first_votes(record) for _, record in same}) > 1:
        raise UsageError(
            f"{names[0]} holds {len(same)} settings of these agents, with different independent answers. "
            "Filter it by its setting first, or give one run."
        )
    return same[0][1]  # round 0 carries no instruction and no intervention: these are the same answers


def _differ(
    full: Setting, ceiling: pl.DataFrame, setting: Setting, hidden: pl.DataFrame, names: tuple[str, str]
) -> tuple[int, str] | None:
    """Why a full record is no ceiling of a hidden one: how far the two agree, and an error's text."""
    pairs = [(part, full[part], setting[part]) for part in ("benchmark", "model", "reasoning")]
    pairs.append(("agents", _agents(full), _agents(setting)))
    for i, (part, there, here) in enumerate(pairs):
        if there != here:
            return i, _not_same(part, there, here)
    if _without_sizes(full) != _without_sizes(setting):
        return len(pairs), _not_same("team", full["team"], setting["team"])
    if full["team"] == setting["team"]:
        return None
    # The label names the sizes of all teams, which can differ because other tasks were drawn.
    sizes, own = _sizes(ceiling), _sizes(hidden)
    if other := sorted(t for t in sizes.keys() & own.keys() if sizes[t] != own[t]):
        t = other[0]
        return len(pairs) + 1, (
            f"Task {t!r} has a team of {own[t]} in {names[1]} and of {sizes[t]} in {names[0]}. "
            "Run both with the same --team-size."
        )
    if absent := sorted(own.keys() - sizes.keys()):
        return len(pairs) + 2, (
            f"The full profile has team {full['team'] or 'not named'!r}, the hidden one "
            f"{setting['team'] or 'not named'!r}, and {len(absent)} of {len(own)} tasks of {names[1]} are not in "
            f"{names[0]}, such as {absent[0]!r}. Run both with the same --tasks, --seed and --team-size."
        )
    return None


def _not_same(part: str, there: str | None, here: str | None) -> str:
    options = "-M, -B, --agent-model, --prompts, --informed and --temperature"
    todo = f" Run both with the same {options}." if part == "agents" else ""
    return (
        f"The full profile has {part} {there or 'not named'!r}, the hidden one {here or 'not named'!r}. "
        f"Only the same agents on the same benchmark can be compared.{todo}"
    )


def _without_sizes(setting: Setting) -> str:
    """What else the team's label says, such as personas."""
    return re.sub(r"^N=\d+(,\d+)*", "", setting["team"] or "")


def _sizes(record: pl.DataFrame) -> dict[str, int]:
    """Agents of each task."""
    found = record.filter(pl.col("round") == 0).group_by("task").agg(pl.col("agent").n_unique())
    return dict(found.iter_rows())


def _first_votes(record: pl.DataFrame) -> tuple[tuple[object, ...], ...]:
    columns = ("task", "epoch", "agent", "truth", "public")
    return tuple(record.filter(pl.col("round") == 0).select(columns).sort(columns).iter_rows())
