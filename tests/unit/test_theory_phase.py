"""Phase diagram: layout, parts, agreement with the exact chain."""

import json

import numpy as np
import pytest
import xarray as xr

from abilene.errors import InputError, UsageError
from abilene.rates import Rates
from abilene.theory.chain import solve
from abilene.theory.meanfield import binomial_weights
from abilene.theory.phase import load, merge, phase_diagram, save, teams_by_start
from abilene.theory.thresholds import separatrix

CS, PS = [0.0, 0.3, 0.5454, 0.7, 1.0], [0.0, 0.2, 0.45, 0.5, 0.8, 1.0]


def diagram(**more: object) -> xr.Dataset:
    call = {"team_size": 12, "rounds": 6, "a": 0.5, "rho": 1.0, "r": 0.8, "observed": 3, "teams": 300}
    return phase_diagram(**(call | {"withholding": CS, "accuracy": PS} | more))  # type: ignore[arg-type]


def test_layout() -> None:
    ds = diagram()
    assert ds.correct.dims == ("withholding", "accuracy") and ds.correct.shape == (5, 6)
    assert ds.attrs["critical_withholding"] == pytest.approx(6 / 11)
    assert ds.attrs["jump_withholding"] == pytest.approx(0.5419648432, abs=1e-9)
    assert ds.attrs["jump_kind"] == "fold"
    assert {"team_size", "rounds", "a", "rho", "r", "observed", "teams", "seed"} <= set(ds.attrs)
    assert ds.boundary.values.tolist() == [separatrix(c, 0.5, 1.0, 0.8, 3) for c in CS]
    np.testing.assert_allclose(ds.gain, ds.correct - ds.vote, atol=0)
    # agreement at the start is final and exact
    assert (ds.correct.sel(accuracy=1.0) == 1).all() and (ds.correct.sel(accuracy=0.0) == 0).all()
    assert (ds.standard_error.sel(accuracy=[0.0, 1.0]) == 0).all()


def test_default_grid_is_the_papers() -> None:
    ds = phase_diagram(4, 1, 0.5, 1.0, 0.8, teams=2)
    assert ds.correct.shape == (101, 101) and ds.withholding.values[29] == 0.29


def test_parts_merge_to_the_whole_bit_for_bit() -> None:
    whole = diagram()
    parts = [diagram(part=(i, 3)) for i in range(3)]
    assert merge(reversed(parts)).identical(whole)
    assert merge([whole]).identical(whole)
    assert diagram(threads=2).identical(whole)
    row = diagram(withholding=[0.7])  # a row on its own is the same row
    assert row.correct.values.tolist() == whole.correct.sel(withholding=[0.7]).values.tolist()
    assert not diagram(seed=1).correct.equals(whole.correct)


def test_merging_what_does_not_belong_together() -> None:
    parts = [diagram(part=(i, 2)) for i in range(2)]
    with pytest.raises(UsageError, match="missing or was given twice"):
        merge(parts[:1])
    with pytest.raises(UsageError, match="missing or was given twice"):
        merge([*parts, parts[0]])
    with pytest.raises(UsageError, match="seed differ"):
        merge([parts[0], diagram(part=(1, 2), seed=5)])
    with pytest.raises(UsageError, match="accuracies"):
        merge([parts[0], diagram(part=(1, 2), accuracy=[0.1])])
    with pytest.raises(UsageError, match="nothing"):
        merge([])


def test_netcdf_keeps_everything(tmp_path) -> None:  # type: ignore[no-untyped-def]
    parts = []
    for i in range(2):
        save(diagram(part=(i, 2)), tmp_path / f"{i}.nc")
        parts.append(load(tmp_path / f"{i}.nc"))
    assert merge(parts).identical(diagram())
    assert json.loads(parts[0].attrs["all_withholding"]) == CS
    (tmp_path / "bad.nc").write_text("no")
    for name in ("bad.nc", "absent.nc"):
        with pytest.raises(InputError, match=name):
            load(tmp_path / name)
    xr.Dataset({"x": 1}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(InputError, match="not a phase diagram"):
        load(tmp_path / "other.nc")


def test_every_point_is_as_precise_as_that_many_teams() -> None:
    """The promise of `teams`, computed from exact probabilities at every point of a fine grid."""
    n, teams = 12, 300
    size = teams_by_start(n, teams)
    f = solve(n, 6, Rates(0.5, 0.5, 1.0, 0.8), 3).correct
    for p in np.linspace(0, 1, 501):
        w = binomial_weights(n, p)
        mean = w @ f
        assert w**2 @ (f * (1 - f) / size) <= mean * (1 - mean) / teams + 1e-15


def test_degenerate_diagrams_leave_out_what_is_not_defined() -> None:
    ds = diagram(a=0.0, rho=0.0)
    assert ds.attrs["jump_kind"] == "degenerate"
    assert "critical_withholding" not in ds.attrs and "jump_withholding" not in ds.attrs
    assert np.isnan(ds.boundary).any()


@pytest.mark.parametrize(
    "change",
    [
        {"withholding": []}, {"withholding": [0.2, 0.1]}, {"withholding": [0.2, 0.2]}, {"withholding": [1.2]},
        {"accuracy": [float("nan")]}, {"accuracy": [[0.1]]}, {"teams": 0}, {"threads": 0}, {"part": (2, 2)},
        {"part": (0, 6)}, {"observed": 12}, {"a": 2.0}, {"team_size": 0},
    ],
)  # fmt: skip
def test_bad_input(change: dict[str, object]) -> None:
    if change == {"part": (0, 6)}:
        change = {"part": (5, 6)}
    with pytest.raises(UsageError):
        diagram(**change)
