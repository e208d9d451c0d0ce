"""Figures in Altair: one grammar for interactive pages and for PNG, SVG and PDF files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from abilene.errors import MissingExtraError, UsageError
from abilene.theory.thresholds import separatrix

if TYPE_CHECKING:
    import xarray as xr

ENDINGS = (".png", ".svg", ".pdf", ".html")


def _altair() -> Any:
    try:
        import altair
    except ImportError as e:
        raise MissingExtraError("report", "Drawing a figure") from e
    altair.data_transformers.disable_max_rows()
    return altair


def phase_figure(diagram: xr.Dataset) -> Any:
    """Phase diagram: share of teams that end correct over accuracy (across) and withholding (up).

    Parameters
    ----------
    diagram : xarray.Dataset
        From `abilene.theory.phase.phase_diagram`.

    Returns
    -------
    altair.LayerChart
        The heat map, the mean-field boundary p*(c) as a line, and c* and c_jump as labelled rules where they
        are defined.

    Raises
    ------
    MissingExtraError
        The extra ``report`` is not installed.
    """
    alt = _altair()
    c, p = diagram.withholding.values, diagram.accuracy.values
    half_c = float(np.diff(c).mean()) / 2 if len(c) > 1 else 0.5
    half_p = float(np.diff(p).mean()) / 2 if len(p) > 1 else 0.5
    cells = [
        {
            "p": float(x), "c": float(y), "share": float(share),
            "p0": max(float(x) - half_p, 0.0), "p1": min(float(x) + half_p, 1.0),
            "c0": max(float(y) - half_c, 0.0), "c1": min(float(y) + half_c, 1.0),
        }
        for y, row in zip(c, diagram.correct.values, strict=True)
        for x, share in zip(p, row, strict=True)
    ]  # fmt: skip
    unit = alt.Scale(domain=[0, 1], nice=False)
    heat = (
        alt.Chart(alt.Data(values=cells))
        .mark_rect()
        .encode(
            x=alt.X("p0:Q", scale=unit, title="single-agent accuracy p"),
            x2="p1:Q",
            y=alt.Y("c0:Q", scale=unit, title="withholding rate c"),
            y2="c1:Q",
            color=alt.Color(
                "share:Q",
                scale=alt.Scale(scheme="redyellowblue", domain=[0, 1]),
                title=["teams ending", "correct"],
            ),
            tooltip=[
                alt.Tooltip("p:Q", format=".2f"),
                alt.Tooltip("c:Q", format=".2f"),
                alt.Tooltip("share:Q", format=".3f"),
            ],
        )
    )
    layers = [heat]
    boundary = _boundary(diagram)
    if boundary:
        layers.append(
            alt.Chart(alt.Data(values=boundary))
            .mark_line(color="black", strokeWidth=2, clip=True)
            .encode(x=alt.X("p:Q", scale=unit), y=alt.Y("c:Q", scale=unit), order="c:Q")
        )
    marks = [("c*", "critical_withholding", "bottom"), ("c_jump", "jump_withholding", "top")]
    for label, name, baseline in marks:
        if (value := diagram.attrs.get(name)) is None:
            continue
        rule = alt.Chart(
            alt.Data(values=[{"c": float(value), "at": 0.99, "label": f"{label} = {value:.3f}"}])
        )
        layers.append(rule.mark_rule(color="white", strokeDash=[5, 4]).encode(y=alt.Y("c:Q", scale=unit)))
        layers.append(
            rule.mark_text(
                align="right",
                color="white",
                baseline=baseline,
                dy=-3 if baseline == "bottom" else 3,
                fontSize=12,
            ).encode(x=alt.X("at:Q", scale=unit), y=alt.Y("c:Q", scale=unit), text="label:N")
        )
    attrs = diagram.attrs
    seen = "everybody else" if attrs["observed"] == "complete" else f"{attrs['observed']} others"
    subtitle = (
        f"simulated: N = {attrs['team_size']}, T = {attrs['rounds']}, each agent sees {seen}; "
        f"a = {attrs['a']:g}, ρ = {attrs['rho']:g}, r = {attrs['r']:g}"
    )
    title = alt.Title("Where discussion ends on the correct answer", subtitle=subtitle, anchor="start")
    return alt.layer(*layers).properties(width=420, height=420, title=title)


def _boundary(diagram: xr.Dataset) -> list[dict[str, float]]:
    """Points of p*(c), finer than the grid, from where it leaves 0."""
    a, rho, r = (float(diagram.attrs[name]) for name in ("a", "rho", "r"))
    observed = diagram.attrs["observed"]
    q = math.inf if observed == "complete" else int(observed)
    points = []
    for c in np.linspace(float(diagram.withholding.min()), float(diagram.withholding.max()), 201):
        p = separatrix(float(c), a, rho, r, q)
        if p is not None and 0.0 < p < 1.0:
            points.append({"p": p, "c": float(c)})
    return points


def save_figure(chart: Any, path: str | Path) -> None:
    """Write a figure; the ending says the format (.png, .svg, .pdf, .html).

    Raises
    ------
    UsageError
        Another ending.
    """
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"A figure ends in {', '.join(ENDINGS)}; found {str(path)!r}.")
    options = {"ppi": 200} if path.suffix.lower() == ".png" else {}
    chart.save(str(path), **options)
