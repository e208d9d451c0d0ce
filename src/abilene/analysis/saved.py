"""Posteriors on disk: one netCDF file, one group per setting, ready for ArviZ and for predictions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from abilene.analysis.estimate import Estimate
from abilene.errors import InputError
from abilene.records.loaded import replacing

_MARK = "abilene posteriors 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSetting:
    """One setting of a saved estimate.

    Attributes
    ----------
    label : str
        The setting's known parts, for display.
    setting : dict
        Its parts by name.
    posterior : xarray.Dataset
        Joint draws, see `SettingPosterior.posterior`.
    starts : list of (int, int)
        Agents correct at round 0 and team size, by discussion.
    rounds : int
        T.
    simulated : bool
        Whether simulated agents took part.
    measured : tuple of float or None
        Vote, discussion and gain as observed, and the gain's interval.
    answers : int
        K: the most different answers that occur in one task, at least 2.
    """

    label: str
    setting: dict[str, str | None]
    posterior: xr.Dataset
    starts: list[tuple[int, int]]
    rounds: int
    simulated: bool
    measured: tuple[float | None, ...]
    answers: int


def save_posteriors(estimate: Estimate, path: str | Path) -> None:
    """Write the joint draws of every setting, whole or not at all."""
    groups: dict[str, xr.Dataset] = {"/": xr.Dataset(attrs={"abilene": _MARK})}
    for i, s in enumerate(estimate.settings):
        groups[f"setting_{i}"] = s.posterior.posterior.assign_attrs(
            starts=json.dumps(s.starts),
            measured=json.dumps(
                [s.gain.vote.mean, s.gain.discussion.mean, s.gain.mean, s.gain.lower, s.gain.upper]
            ),
            label=s.label,
            setting=json.dumps(s.setting, ensure_ascii=False),
            rounds=s.data.rounds,
            simulated=int(s.simulated),
            answers=s.answers,
        )
    with replacing(Path(path)) as temporary:
        xr.DataTree.from_dict(groups).to_netcdf(temporary, engine="h5netcdf")


def load_posteriors(path: str | Path) -> list[SavedSetting]:
    """Read what `save_posteriors` wrote.

    Raises
    ------
    InputError
        The file is missing, is not netCDF, or holds something else.
    """
    hint = "Give a file written by: abilene estimate LOG --posterior FILE.nc"
    try:
        tree = xr.open_datatree(path, engine="h5netcdf").load()
    except (OSError, ValueError) as e:
        raise InputError(path, f"cannot be read as netCDF ({e})", hint) from e
    if tree.attrs.get("abilene") != _MARK:
        raise InputError(path, "holds no posteriors", hint)
    out = []
    for name in sorted(tree.children, key=lambda n: int(n.rsplit("_", 1)[1])):
        data = tree[name].to_dataset()
        out.append(
            SavedSetting(
                label=str(data.attrs["label"]),
                setting=json.loads(data.attrs["setting"]),
                posterior=data,
                starts=[(int(k), int(n)) for k, n in json.loads(data.attrs["starts"])],
                measured=tuple(json.loads(data.attrs["measured"])),
                rounds=int(data.attrs["rounds"]),
                simulated=bool(data.attrs["simulated"]),
                answers=int(data.attrs["answers"]),
            )
        )
    return out
