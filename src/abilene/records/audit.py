"""What a log contains, what can be known from it, and what is broken."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from abilene.errors import UsageError
from abilene.records.checks import visible_disagreements
from abilene.records.derive import Derived, SettingData, derive
from abilene.records.loaded import Fault, Loaded, Notes
from abilene.records.schema import ANSWERED, KEY, SETTING_PARTS, Status, is_simulated

#: Greatest share of public replies after round 0 without an answer; above it the setting fails.
MOST_UNPARSED = 0.02
#: Texts of errors that are listed.
MOST_ERRORS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Whether one quantity can be known from a setting, and why (not)."""

    quantity: str
    known: bool
    why: str

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        return {"quantity": self.quantity, "known": self.known, "why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingAudit:
    """One setting.

    Attributes
    ----------
    data : SettingData
        Counts, with expected = used + dropped.
    agents : tuple of int
        Team sizes that occur.
    sources : dict
        Private answers by where they come from (``unknown`` where the log does not say).
    statuses : dict
        ``{"public": {round: {status: n}}, "private": ...}`` over the rows present.
    unparsed : int
        Public replies after round 0 without an answer, of `replies`.
    passes : bool
        False when more than 2 % of the public replies carry no answer, or reasoning was found where the
        setting says off.
    failures : tuple of str
        Why it does not pass.
    known : tuple of Known
        For c, a, gamma and the gain.
    """

    data: SettingData
    agents: tuple[int, ...]
    sources: dict[str, int]
    statuses: dict[str, dict[int, dict[str, int]]]
    replies: int
    unparsed: int
    reasoning_tokens: int | None
    errors: dict[str, int]
    simulated: bool
    failures: tuple[str, ...]
    known: tuple[Known, ...]

    @property
    def passes(self) -> bool:
        """Whether the setting's log can be trusted."""
        return not self.failures

    @property
    def unparsed_share(self) -> float | None:
        """Share of public replies after round 0 without an answer; None without replies."""
        return self.unparsed / self.replies if self.replies else None

    @property
    def off_rule_share(self) -> float | None:
        """Off-rule rows by used rows; None without used rows."""
        return self.data.rows.off_rule / self.data.rows.used if self.data.rows.used else None

    def to_dict(self) -> dict[str, object]:
        """JSON-ready; what is not known is null."""
        return {
            "setting": dict(self.data.setting),
            "simulated": self.simulated,
            "tasks": len(self.data.tasks),
            "discussions": self.data.discussions,
            "agents": list(self.agents),
            "rounds": self.data.rounds,
            "sources": dict(self.sources),
            "statuses": {
                kind: {str(t): dict(by) for t, by in rounds.items()} for kind, rounds in self.statuses.items()
            },
            "rows": self.data.rows.to_dict(),
            "counts": self.data.counts.to_dict(),
            "off_rule_share": self.off_rule_share,
            "public_unparsed": {
                "replies": self.replies,
                "unparsed": self.unparsed,
                "share": self.unparsed_share,
                "limit": MOST_UNPARSED,
            },
            "undefined_gain": dict(self.data.undefined),
            "reasoning_tokens": self.reasoning_tokens,
            "errors": dict(self.errors),
            "passes": self.passes,
            "failures": list(self.failures),
            "known": [k.to_dict() for k in self.known],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """All settings of a log, with everything that was noticed."""

    settings: tuple[SettingAudit, ...]
    warnings: tuple[Fault, ...]
    faults: tuple[Fault, ...]

    @property
    def passes(self) -> bool:
        """Whether every setting passes; faults are reported beside."""
        return all(s.passes for s in self.settings)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready: settings, warnings, faults."""
        return {
            "settings": [s.to_dict() for s in self.settings],
            "warnings": [w.to_dict() for w in self.warnings],
            "faults": [f.to_dict() for f in self.faults],
            "passes": self.passes,
        }

    def plain(self) -> str:
        """Text for people."""
        lines: list[str] = []
        for s in self.settings:
            lines += _plain(s)
        for title, notes in (("Faults", self.faults), ("Warnings", self.warnings)):
            if notes:
                lines += [f"{title}:", *(f"  {n}" for n in notes), ""]
        return "\n".join(lines).rstrip() + "\n"


def _plain(s: SettingAudit) -> list[str]:
    data, rows = s.data, s.data.rows
    name = ", ".join(f"{k} {v}" for k, v in data.setting.items() if v is not None) or "unnamed setting"
    lines = [name + (" (simulated agents)" if s.simulated else "")]
    lines += [f"  FAILS: {failure}" for failure in s.failures]
    sizes = ", ".join(str(n) for n in s.agents)
    lines.append(
        f"  {len(data.tasks)} tasks, {data.discussions} discussions, teams of {sizes}, {data.rounds} rounds"
    )
    lines.append("  private answers from: " + (_counted(s.sources) or "nowhere"))
    dropped = sum(rows.dropped.values())
    lines.append(f"  rows: {rows.expected} expected = {rows.used} used + {dropped} dropped")
    if rows.dropped:
        lines.append("    dropped: " + _counted(rows.dropped))
    share = "" if s.off_rule_share is None else f" ({100 * s.off_rule_share:.1f} % of the used)"
    own = f", {rows.off_rule_own} of them a new answer of the agent's own" if rows.off_rule_own else ""
    lines.append(f"  off-rule statements: {rows.off_rule}{share}{own}; ties: {rows.ties}")
    if s.unparsed_share is not None:
        lines.append(
            f"  public replies without an answer: {s.unparsed} of {s.replies} ({100 * s.unparsed_share:.1f} %)"
        )
    for kind, rounds in s.statuses.items():
        odd = {t: by for t, by in rounds.items() if set(by) - {"ok"}}
        lines += [f"    {kind}, round {t}: {_counted(by)}" for t, by in odd.items()]
    lines += [f"  {n} failed calls said: {text}" for text, n in s.errors.items()]
    lines += [f"  {k.quantity}: {'yes' if k.known else 'no'}, {k.why}" for k in s.known]
    return [*lines, ""]


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{k} {n}" for k, n in counts.items())


def audit(loaded: Loaded, *, derived: Derived | None = None) -> Audit:
    """Audit a log.

    Parameters
    ----------
    loaded : Loaded
        As `abilene.records.files.load` returns it; raw texts are not needed.
    derived : Derived, optional
        The counts of the same record, where they have been made already.

    Returns
    -------
    Audit
        Every setting, and every warning and fault of reading, counting and cross-checking.

    Raises
    ------
    UsageError
        `derived` belongs to another record.
    """
    record = loaded.record
    counts = derive(record) if derived is None else derived
    notes = Notes("record")
    _cross_check(record, notes)
    parts = record.partition_by(SETTING_PARTS, as_dict=True, include_key=True) if record.height else {}
    settings = []
    for data in counts.settings:
        key = tuple(data.setting[p] for p in SETTING_PARTS)
        if key not in parts:
            raise UsageError("The counts given to audit belong to another record.")
        settings.append(_setting(data, parts[key]))
    return Audit(
        settings=tuple(settings),
        warnings=(*loaded.warnings, *counts.warnings, *notes.warnings),
        faults=(*loaded.faults, *counts.faults, *notes.faults),
    )


def _setting(data: SettingData, rows: pl.DataFrame) -> SettingAudit:
    asked = pl.col("public_status").fill_null("") != Status.NOT_ASKED
    later = rows.filter((pl.col("round") > 0) & asked)
    # Where an intervention set the statement, the reply's own line tells whether the model keeps to the format.
    unread = ~pl.col("public_reply_status").is_in(ANSWERED).fill_null(True)
    unparsed = int(later.select((pl.col("public").is_null() | unread).sum()).item())
    sizes = rows.group_by("task", "epoch").agg(pl.col("agent").n_unique())["agent"].unique().sort()
    held = rows.filter(pl.col("private").is_not_null())
    sources = held.group_by(pl.col("private_source").fill_null("unknown")).len().sort("private_source")
    reasoning = rows["reasoning_tokens"].drop_nulls()
    tokens = int(reasoning.sum()) if len(reasoning) else None
    failures = []
    if later.height and unparsed / later.height > MOST_UNPARSED:
        failures.append(
            f"{unparsed} of {later.height} public replies ({100 * unparsed / later.height:.1f} %) carry no answer; "
            f"the limit is {100 * MOST_UNPARSED:g} %"
        )
    if data.setting["reasoning"] == "off" and tokens:
        failures.append(f"reasoning is off by its name, yet {tokens} reasoning tokens were used")
    return SettingAudit(
        data=data,
        agents=tuple(int(n) for n in sizes),
        sources={str(k): int(n) for k, n in sources.iter_rows()},
        statuses={kind: _statuses(rows, kind) for kind in ("public", "private")},
        replies=later.height,
        unparsed=unparsed,
        reasoning_tokens=tokens,
        errors=_errors(rows),
        simulated=is_simulated(data.setting["model"]),
        failures=tuple(failures),
        known=_known(data),
    )


def _errors(rows: pl.DataFrame) -> dict[str, int]:
    """What failed calls said, the most frequent first; at most `MOST_ERRORS`."""
    said = pl.concat([rows["public_error"], rows["private_error"]]).drop_nulls()
    top = said.value_counts(name="n").sort("n", said.name, descending=[True, False]).head(MOST_ERRORS)
    return {str(text): int(n) for text, n in top.iter_rows()}


def _statuses(rows: pl.DataFrame, kind: str) -> dict[int, dict[str, int]]:
    status = pl.coalesce(
        f"{kind}_status", pl.when(pl.col(kind).is_null()).then(pl.lit("missing")).otherwise(pl.lit("ok"))
    )
    table = rows.group_by("round", status.alias("status")).len().sort("round", "status")
    out: dict[int, dict[str, int]] = {}
    for t, name, n in table.iter_rows():
        out.setdefault(int(t), {})[name] = int(n)
    return out


def _known(data: SettingData) -> tuple[Known, ...]:
    c = data.counts

    def known(quantity: str, yes: bool, why: str, why_not: str) -> Known:
        return Known(quantity=quantity, known=yes, why=why if yes else why_not)

    pairs = int(data.vote_correct.size)
    flows = f"{c.wrong_rows} correction rows enter wrong, {c.correct_rows} correct"
    if not data.rows.expected:
        nothing = "the log holds no discussion round"
    elif not data.rows.used:
        nothing = "no row can be used; see what was dropped"
    else:
        nothing = ""
    if pairs:
        gain = f"{pairs} of {data.discussions} discussions have both verdicts"
    else:
        gain = nothing or "no discussion has both verdicts: " + _counted(data.undefined)
    return (
        known(
            "withholding c",
            c.opportunities > 0,
            f"{c.withheld} withheld of {c.opportunities} opportunities",
            nothing or "nobody met a majority against its own answer",
        ),
        known(
            "internalization a",
            c.withheld > 0,
            f"{c.internalized} internalized of {c.withheld} withheld",
            nothing or "nobody withheld",
        ),
        known(
            "net correction gamma",
            c.wrong_rows > 0 and c.correct_rows > 0,
            flows,
            nothing or f"both directions are needed, and {flows}",
        ),
        known("gain", pairs > 0, gain, gain),
    )


def _cross_check(record: pl.DataFrame, notes: Notes) -> None:
    """Contradictions between rows."""
    if record.is_empty():
        return

    def where(rows: pl.DataFrame) -> str:
        row = rows.select(k for k in KEY if k in rows.columns).row(0, named=True)
        return ", ".join(f"{k} {v}" for k, v in row.items() if v is not None)

    differ = visible_disagreements(record)
    if differ.height:
        notes.add(
            "observed_public_differs",
            f"answers shown to an agent are not the public answers of the round before ({where(differ)})",
            "The answers shown are used.",
            field="observed_public",
            count=differ.height,
        )
    first = record.filter((pl.col("round") == 0) & (pl.col("private") != pl.col("public")))
    if first.height:
        notes.add(
            "round0_differs",
            f"private and public answer of round 0 differ ({where(first)})",
            "The public one is what others saw and what the vote counts; the private one is what was held.",
            field="public",
            count=first.height,
        )
    _missing_rounds(record, notes)
    _keys_across_settings(record, notes)


def _missing_rounds(record: pl.DataFrame, notes: Notes) -> None:
    discussion = [*SETTING_PARTS, "task", "epoch"]
    rounds = record.group_by(discussion).agg(
        pl.col("round").n_unique().alias("n"), (pl.col("round").max() + 1).alias("expected")
    )
    last = record.group_by(SETTING_PARTS).agg((pl.col("round").max() + 1).alias("of_setting"))
    rounds = rounds.join(last, on=SETTING_PARTS, nulls_equal=True).filter(pl.col("n") < pl.col("of_setting"))
    if rounds.height:
        row = rounds.sort("task", "epoch").row(0, named=True)
        notes.add(
            "missing_rounds",
            f"a discussion with {row['n']} of {row['of_setting']} rounds (task {row['task']}, epoch {row['epoch']})",
            "Its missing rows are counted as dropped.",
            field="round",
            count=rounds.height,
            fault=True,
        )


def _keys_across_settings(record: pl.DataFrame, notes: Notes) -> None:
    keys = (
        record.filter(pl.col("truth").is_not_null())
        .group_by(*SETTING_PARTS, "task")
        .agg(pl.col("truth").unique().sort())
        .group_by("benchmark", "task")
        .agg(pl.col("truth").n_unique().alias("n"), pl.col("truth").first())
        .filter(pl.col("n") > 1)
        .sort("task")
    )
    if keys.height:
        notes.add(
            "answer_key_differs_between_settings",
            f"task {keys['task'][0]} has another answer key in another setting",
            "Each setting is counted by its own key. If they are different tasks, name the benchmark.",
            field="truth",
            count=keys.height,
        )


__all__ = ["MOST_UNPARSED", "Audit", "Known", "SettingAudit", "audit"]
