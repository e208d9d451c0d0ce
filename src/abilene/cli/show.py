"""Estimates and checks as text for people; made to be read at 60 columns too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl
from rich.table import Table
from rich.text import Text

from abilene.analysis.conditions import SCORINGS, Conditions, ends, held_in_text
from abilene.analysis.estimate import Estimate, SettingEstimate
from abilene.analysis.manipulation import Check, gate
from abilene.cli.output import interval, number, out, talk
from abilene.inference.summary import Summary
from abilene.records.loaded import Fault
from abilene.records.schema import SETTING_PARTS

_VERDICT = {
    "below": ("green", "BELOW its threshold: by these rates a team that starts wrong can recover"),
    "above": ("red", "ABOVE its threshold: by these rates a team that starts wrong stays wrong"),
    "undecided": ("yellow", "UNDECIDED: the margin's interval contains 0"),
    "unidentified": ("yellow", "UNIDENTIFIED: this log cannot tell"),
}


def _rate(table: Table, name: str, s: Summary, sign: bool = False, rows: str = "") -> None:
    if s.identified:
        table.add_row(name, number(s.median, sign=sign), interval(s.lower, s.upper, sign=sign), rows)
    else:
        table.add_row(name, "not identified", s.reason or "")


def show_estimate(e: SettingEstimate) -> None:
    """One setting: rates, margin, gain, verdict, and what the reader must know."""
    title = Text(e.label, style="bold")
    if e.simulated:
        title.append("  [simulated agents]", style="magenta")
    out.print(title)
    rows, post, gain = e.data.rows, e.posterior, e.gain
    dropped = rows.expected - rows.used
    out.print(f"{len(e.data.tasks)} tasks, {rows.used} rows used, {dropped} dropped", style="dim")
    table = Table(box=None, pad_edge=False, show_header=True, header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column("estimate", justify="right")
    table.add_column("95 % interval")
    table.add_column("rows")
    n = e.data.counts
    _rate(table, "withholding c", post.withholding, rows=f"{n.withheld} of {n.opportunities}")
    _rate(table, "internalization a", post.internalization, rows=f"{n.internalized} of {n.withheld}")
    flows = f"{n.wrong_to_correct} of {n.wrong_rows}, {n.correct_to_wrong} of {n.correct_rows}"
    _rate(table, "net correction γ", post.net_correction, sign=True, rows=flows)
    _rate(table, "critical c*", post.critical_withholding)
    _rate(table, "margin c − c*", post.margin, sign=True)
    if post.probability_above is not None:
        above = post.probability_above
        shown = "< 0.001" if above < 0.0005 else "> 0.999" if above > 0.9995 else number(above)
        table.add_row("P(c > c*)", shown, "")
    if gain.mean is None:
        table.add_row("gain", "not known", gain.reason or "")
    else:
        table.add_row("vote correct", number(gain.vote.mean), interval(gain.vote.lower, gain.vote.upper))
        table.add_row(
            "discussion correct", number(gain.discussion.mean),
            interval(gain.discussion.lower, gain.discussion.upper),
        )  # fmt: skip
        p = "" if gain.p_value is None else f"p = {gain.p_value:.2g}" if gain.p_value > 1e-15 else "p < 1e-15"
        table.add_row("gain", number(gain.mean, sign=True), interval(gain.lower, gain.upper, sign=True), p)
    out.print(table)
    color, words = _VERDICT[post.verdict]
    if e.withholding_set is not None:
        color, words = (
            "yellow",
            f"none of the agents: the arm set c to {e.withholding_set:g} (as read: {post.verdict})",
        )
    out.print(Text("verdict  ").append(words, style=f"bold {color}"))
    for reason in e.reasons:
        out.print(f"  {reason}", style="dim")
    out.print()


_CONDITIONS = {
    "full": "full profile", "before": "hidden, before", "after": "hidden, after",
    "gain": "collective gain", "gap": "gap to the ceiling",
}  # fmt: skip
_ENDS = {"before": "first votes", "after": "final votes", "gain": "gain"}


def show_conditions(found: Conditions, names: Mapping[str, str] = _CONDITIONS) -> None:
    """Accuracy and differences by both scorings, as far as `names` lists them."""
    label = " · ".join(v for v in found.setting.values() if v)
    out.print(label + ("  [simulated agents]" if found.simulated else ""), style="bold", markup=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("", *(f"{s}  95 % interval" for s in SCORINGS)):
        table.add_column(head)
    for name, shown in names.items():
        sign = name in ("gain", "gap")
        cells = []
        for scoring in SCORINGS:
            value = getattr(getattr(found, scoring), name)
            text = f"{number(value.mean, sign=sign)}  {interval(value.lower, value.upper, sign=sign)}"
            cells.append(text if value.mean is not None else f"not known: {value.reason}")
        table.add_row(shown, *cells)
    out.print(table)
    for reason in found.reasons:
        out.print(f"  {reason}", style="dim", markup=False)


def show_settings(found: Estimate, record: pl.DataFrame, *, seed: int = 0) -> Iterator[SettingEstimate]:
    """Every setting as it deserves; yields each after it was shown.

    An open discussion, and votes without one, have no private answers between two ends: what is known of them is
    how many are correct at either end.
    """
    for e in found.settings:
        if e.data.rounds > 0 and not held_in_text(e.setting):
            show_estimate(e)
        else:
            votes = {"before": "votes"}
            show_conditions(ends(record, e.setting, seed=seed), _ENDS if e.data.rounds else votes)
            why = (
                "there was no discussion"
                if e.data.rounds == 0
                else "an open discussion has no private probes"
            )
            out.print(f"  withholding and the other rates are not identified: {why}", style="dim")
            out.print()
        yield e


def show_summary(settings: Sequence[SettingEstimate]) -> None:
    """Several settings side by side, a line each, named by what they differ in."""
    if len(settings) < 2:
        return
    parts = [p for p in SETTING_PARTS if len({s.setting[p] for s in settings}) > 1]
    named = [(" · ".join(s.setting[p] or "—" for p in parts), s) for s in settings]
    table = Table(box=None, pad_edge=False, header_style="dim", title="side by side", title_justify="left")
    table.add_column("", overflow="fold")
    for head in ("c", "c*", "margin", "gain"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name, s in sorted(named, key=lambda pair: natural(pair[0])):
        post = s.posterior
        rates = (post.withholding, post.critical_withholding, post.margin)
        shown = [number(r.median if r.identified else None, 2, sign=r is post.margin) for r in rates]
        color, _ = _VERDICT[post.verdict]
        arm_sets = s.withholding_set is not None
        verdict = Text(f"({post.verdict})" if arm_sets else post.verdict, style="dim" if arm_sets else color)
        table.add_row(name, *shown, number(s.gain.mean, 2, sign=True), verdict)
    out.print(table)
    if any(s.withholding_set is not None for s in settings):
        out.print(
            "(in brackets: c was set by the arm; rates and verdict say nothing about the agents)",
            style="dim",
        )
    out.print()


def natural(text: str) -> list[tuple[int, str]]:
    """Sorting key that puts 5 before 10.

    Examples
    --------
    >>> sorted(["10 rounds", "5 rounds"], key=natural)
    ['5 rounds', '10 rounds']
    """
    return [(int(x), "") if x.isdecimal() else (-1, x) for x in re.split(r"(\d+)", text)]


def show_checks(checks: tuple[Check, ...], *, brief: bool = False) -> None:
    """Manipulation checks of one setting; brief: only those that do not pass."""
    if not checks:
        return
    verdict = gate(checks)
    color = {"pass": "green", "fail": "red"}.get(verdict, "yellow")
    out.print(Text("manipulation checks: ").append(verdict, style=f"bold {color}"))
    table = Table(box=None, pad_edge=False, show_header=False)
    for c in checks:
        if brief and c.outcome in ("pass", "not applicable"):
            continue
        at = f"{number(c.share, 2)}, expected {c.expected}" if c.n else "no rows"
        table.add_row(f"  {c.name}", c.outcome if c.binding else f"({c.outcome}, for information)", at)
    if table.row_count:
        out.print(table)
    out.print()


def show_faults(faults: Iterable[Fault], title: str) -> None:
    """Faults or warnings, on stderr."""
    for fault in faults:
        talk.print(Text(f"{title}: {fault}"))
