"""Phase diagram: where a team ends, by withholding rate c and single-agent accuracy p.

For every c, teams are simulated from every starting number k0 of correct agents, and every p mixes them with
Binomial(N, p) weights, so all accuracies of a row share one set of teams. With M_k teams from k0 = k, where
M_k = teams x max_p Binomial(k; N, p), the standard error at every point is at most that of `teams`
independent teams simulated there: sum_k w_k^2 v_k / M_k <= sum_k w_k v_k / teams <= f (1 - f) / teams.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from abilene.errors import InputError, UsageError
from abilene.rates import Rates
from abilene.seeds import child_seed
from abilene.theory.agents import crowd_table
from abilene.theory.crowd import Observed, check_crowd, check_share, check_whole
from abilene.theory.meanfield import MeanField, binomial_weights
from abilene.theory.thresholds import thresholds

Floats = NDArray[np.float64]

#: Version of the data set's layout.
SCHEMA = 1


def phase_diagram(
    team_size: int,
    rounds: int,
    a: float,
    rho: float,
    r: float,
    observed: Observed = "complete",
    *,
    withholding: ArrayLike | None = None,
    accuracy: ArrayLike | None = None,
    teams: int = 1000,
    seed: int = 0,
    threads: int = 1,
    part: tuple[int, int] = (0, 1),
) -> xr.Dataset:
    """Simulate a phase diagram, or one part of its rows.

    Parameters
    ----------
    team_size, rounds : int
        N >= 1 and T >= 0.
    a, rho, r : float
        Internalization, reconsideration, correction, in [0, 1].
    observed : int or "complete"
        Number of distinct others seen, redrawn every round.
    withholding, accuracy : array_like of float, optional
        Values of c and p in [0, 1], ascending and distinct; by default 0, 0.01, ..., 1.
    teams : int
        Every point is at least as precise as this number of independent teams.
    seed : int
        A row depends on the seed and on its c alone: not on the other rows, the part, or the threads.
    threads : int
        Rows computed at once.
    part : (int, int)
        (i, n): only the i-th (from 0) of n blocks of rows. `merge` puts the parts together again.

    Returns
    -------
    xarray.Dataset
        Dimensions withholding, accuracy. Variables: ``correct`` (share of teams whose final plurality is
        correct), ``tie``, ``standard_error`` of ``correct``, ``vote`` (exact probability of a correct initial
        plurality; by accuracy), ``gain`` = correct - vote, and ``boundary``, the mean-field p*(c) by
        withholding (missing where degenerate). Attributes: all parameters; ``critical_withholding``,
        ``jump_withholding`` and ``jump_kind`` (absent where not defined).

    Raises
    ------
    UsageError
        Parameters out of range.

    Examples
    --------
    >>> ds = phase_diagram(10, 5, 0.5, 1.0, 0.8, 3, withholding=[0.2, 0.9], accuracy=[0.4, 0.6])
    >>> ds.correct.dims, ds.correct.shape
    (('withholding', 'accuracy'), (2, 2))
    >>> bool(ds.correct.sel(withholding=0.2, accuracy=0.4) > ds.correct.sel(withholding=0.9, accuracy=0.4))
    True
    """
    n, q = check_crowd(team_size, observed)
    rounds = check_whole("rounds (T)", rounds, 0)
    teams, threads = check_whole("teams", teams, 1), check_whole("threads", threads, 1)
    cs, ps = _axis("withholding", withholding), _axis("accuracy", accuracy)
    index, count = part
    count = check_whole("part (how many)", count, 1)
    if check_whole("part (which)", index, 0) >= count:
        raise UsageError(f"part {index} of {count} does not exist: parts are numbered 0 to {count - 1}.")
    # The limit of the mean field: a complete graph of ever larger teams, or q of them.
    limit = math.inf if observed == "complete" else q
    found = thresholds(a, rho, r, limit)
    attrs: dict[str, Any] = {
        "schema": SCHEMA,
        "team_size": n,
        "rounds": rounds,
        "a": float(a),
        "rho": float(rho),
        "r": float(r),
        "observed": str(observed),
        "teams": teams,
        "seed": str(seed),
        "net_correction": found.net_correction,
        "jump_kind": found.kind,
        "all_withholding": json.dumps(cs.tolist()),
    }
    for name in ("critical_withholding", "jump_withholding", "all_correct_stable_above"):
        if getattr(found, name) is not None:
            attrs[name] = float(getattr(found, name))

    mine = np.array_split(cs, count)[index]
    if len(mine) == 0:
        raise UsageError(f"There are fewer rows ({len(cs)}) than parts ({count}).")
    weights = binomial_weights(n, ps)
    vote = weights @ (2 * np.arange(n + 1) > n)
    starts = teams_by_start(n, teams)

    def row(c: float) -> tuple[Floats, Floats, Floats, float]:
        rates = Rates(c, a, rho, r)
        correct, tie = _row(rates, n, rounds, observed, starts, seed)
        variance = weights**2 @ (correct * (1.0 - correct) / starts)
        star = MeanField(rates, limit).separatrix
        return weights @ correct, weights @ tie, np.sqrt(variance), math.nan if star is None else star

    if threads == 1:
        done = [row(float(c)) for c in mine]
    else:
        row(float(mine[0]))  # compile once, before the threads start
        with ThreadPoolExecutor(threads) as pool:
            done = list(pool.map(row, (float(c) for c in mine)))
    correct, tie, error, boundary = (np.array(x) for x in zip(*done, strict=True))
    grid = ("withholding", "accuracy")
    return xr.Dataset(
        {
            "correct": (grid, correct, {"long_name": "share of teams with a correct final plurality"}),
            "tie": (grid, tie, {"long_name": "share of teams with a tied final plurality"}),
            "standard_error": (grid, error, {"long_name": "Monte Carlo standard error of correct"}),
            "gain": (grid, correct - vote, {"long_name": "correct minus vote"}),
            "vote": ("accuracy", vote, {"long_name": "probability of a correct initial plurality"}),
            "boundary": ("withholding", boundary, {"long_name": "mean-field separatrix p*(c)"}),
        },
        coords={
            "withholding": ("withholding", mine, {"long_name": "withholding rate c"}),
            "accuracy": ("accuracy", ps, {"long_name": "single-agent accuracy p"}),
        },
        attrs=attrs,
    )


def teams_by_start(team_size: int, teams: int) -> NDArray[np.int64]:
    """Number of teams M_k to simulate from each k0 = 0..N; see the module's docstring."""
    k = np.arange(team_size + 1)
    highest = binomial_weights(team_size, k / team_size)[k, k]  # Binomial(k; N, p) is largest at p = k/N
    return np.asarray(np.ceil(teams * highest), dtype=np.int64)


def _row(
    rates: Rates, n: int, rounds: int, observed: Observed, starts: NDArray[np.int64], seed: int
) -> tuple[Floats, Floats]:
    """Shares of correct and tied verdicts by k0."""
    from abilene.theory._sim import crowd

    table = crowd_table(rates, n, observed)
    # The row's own seed: the bits of c, so that neither its place nor its neighbours matter.
    key = np.uint64(child_seed(seed, "theory", "phase", rates.c.hex()) & (2**64 - 1))
    share = np.empty((n + 1, 2))
    sums = np.zeros((rounds + 2, 2), dtype=np.int64)
    first = 0
    for k0, size in enumerate(starts):
        sums[:] = 0
        crowd(table, n, k0, 0.0, rounds, True, key, first, first + int(size), sums)
        share[k0] = sums[-1] / size
        first += int(size)
    return share[:, 0], share[:, 1]


def _axis(name: str, values: ArrayLike | None) -> Floats:
    if values is None:
        return np.arange(101) / 100.0
    axis = np.atleast_1d(np.asarray(values, dtype=float))
    if axis.ndim != 1 or len(axis) == 0:
        raise UsageError(f"{name} must be a list of numbers from 0 to 1.")
    for x in axis:
        check_share(f"Each value of {name}", x)
    if (np.diff(axis) <= 0).any():
        raise UsageError(f"The values of {name} must be ascending and distinct.")
    return axis


def merge(parts: Iterable[xr.Dataset]) -> xr.Dataset:
    """Put the parts of a phase diagram together; equal to the whole bit for bit.

    Parameters
    ----------
    parts : iterable of xarray.Dataset
        All parts of one diagram, in any order.

    Raises
    ------
    UsageError
        Parts of different diagrams, a part given twice, or a missing one.
    """
    pieces: Sequence[xr.Dataset] = sorted(parts, key=lambda ds: float(ds.withholding[0]))
    if not pieces:
        raise UsageError("There is nothing to merge.")
    first = pieces[0]
    for piece in pieces[1:]:
        if piece.attrs != first.attrs:
            names = {*piece.attrs, *first.attrs}
            differ = sorted(k for k in names if piece.attrs.get(k) != first.attrs.get(k))
            raise UsageError(f"The parts belong to different phase diagrams: {', '.join(differ)} differ.")
        if not np.array_equal(piece.accuracy, first.accuracy):
            raise UsageError("The parts belong to different phase diagrams: their accuracies differ.")
    whole = xr.concat(
        pieces, "withholding", data_vars="minimal", coords="minimal", compat="override", join="override",
        combine_attrs="override",
    )  # fmt: skip
    expected = np.array(json.loads(first.attrs["all_withholding"]))
    if not np.array_equal(whole.withholding, expected):
        raise UsageError(
            f"The parts hold {whole.sizes['withholding']} rows, the diagram has {len(expected)}: "
            "a part is missing or was given twice."
        )
    return whole


def save(diagram: xr.Dataset, path: str | Path) -> None:
    """Write a phase diagram as netCDF."""
    diagram.to_netcdf(path, engine="h5netcdf")


def load(path: str | Path) -> xr.Dataset:
    """Read a phase diagram written by `save`.

    Raises
    ------
    InputError
        The file is missing, is not netCDF, or holds something else.
    """
    hint = "Give a file written by `abilene theory phase`."
    try:
        diagram = xr.load_dataset(path, engine="h5netcdf")
    except (OSError, ValueError) as e:
        raise InputError(path, f"cannot be read as netCDF ({e})", hint) from e
    if diagram.attrs.get("schema") != SCHEMA or "correct" not in diagram:
        raise InputError(path, "is not a phase diagram of a known version", hint)
    # netCDF returns NumPy scalars; plain numbers compare and print like those of a fresh diagram.
    diagram.attrs = {k: v.item() if isinstance(v, np.generic) else v for k, v in diagram.attrs.items()}
    return diagram
