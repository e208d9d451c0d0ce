"""The causal test (E1): what setting the withholding rate to 0 and to 1 should do to the gain, and what it did.

The control arm leaves statements alone. Its estimate and its independent answers predict the gain of two further arms,
in which statements are set: `transparent` (c = 0) and `forced_majority` (c = 1). `predict_arms` makes the predictions,
`abilene.analysis.arms` holds an arm against them, and `abilene.evals.causal` runs the arms in between.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from abilene.analysis.estimate import SettingEstimate
from abilene.analysis.whatif import Scenario, predict
from abilene.inference.summary import Summary, from_draws, unidentified
from abilene.rates import Rates
from abilene.records.schema import KEY
from abilene.seeds import child_rng
from abilene.team.interventions import INTERVENTIONS
from abilene.theory.chain import solve

Floats = NDArray[np.float64]
Direction = Literal["up", "down", "none", "unclear"]

#: Arms in which statements are set, in the order in which they run.
ARMS = ("transparent", "forced_majority")
CONTROL = "control"

_EXACT = (
    "with two options on a complete topology everybody's statement becomes the majority of round 0 (half and half "
    "stays so), whatever the agents answer: this is arithmetic, not an estimate"
)
#: Numerical zero of a gain.
TINY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPrediction:
    """What is expected of one arm.

    Attributes
    ----------
    arm : str
        ``transparent`` or ``forced_majority``.
    withholding : float
        The rate that is set.
    gain : Summary
        Expected gain, with the posterior's 95 % interval (`abilene.analysis.whatif.predict`).
    predictive : (float, float) or None
        95 % of the gains that these discussions would show: the posterior and the luck of so many discussions.
    change : Summary
        Expected gain minus that of the control arm *by the model*, draw by draw.
    direction : str or None
        Of the change: ``up``, ``down``, ``none`` (exactly 0) or ``unclear`` (its interval contains 0); None where
        it is not identified.
    exact : bool
        Whether the gain follows without any estimate.
    assumptions : tuple of str
        What the prediction rests on.
    """

    arm: str
    withholding: float
    gain: Summary
    predictive: tuple[float, float] | None
    change: Summary
    direction: Direction | None
    exact: bool
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """Predictions for one control arm.

    Attributes
    ----------
    control : Summary
        The control arm's own gain by the model: how far the model describes what is known already.
    arms : tuple of ArmPrediction
        In the order of `ARMS`.
    """

    control: Summary
    arms: tuple[ArmPrediction, ...]


def predict_arms(
    control: SettingEstimate, *, options: int | None, draws: int = 200, seed: int = 0
) -> Predictions:
    """Predict the gain of both arms from the control arm alone.

    Parameters
    ----------
    control : SettingEstimate
        Of the control arm, complete topology.
    options : int or None
        Greatest number of options of its tasks; None where answers are free text.
    draws : int
        Posterior draws that are solved.
    seed : int
        Root of the choice of draws and of the discussions' luck.

    Returns
    -------
    Predictions
        Where the control does not identify the flows u and v, an arm is not predicted, with the reason; the
        forced arm of two-option tasks needs no rates.

    Notes
    -----
    With two options and a complete round 0 the forced gain is exactly 0. With k of N agents for the larger
    opinion, k > N - k, an agent of the minority sees k against N - k - 1 and states the majority; an agent of the
    majority sees k - 1 against N - k, which is the same majority or a tie, and on a tie it repeats the answer it
    entered with. With k = N - k everybody sees its own opinion outnumbered by one, all swap, and the tie stays.
    """
    starts, rounds = control.starts, control.data.rounds
    if not starts:
        why = unidentified("no discussion of the control arm has a complete round 0")
        arms = tuple(_unpredicted(arm, why) for arm in ARMS)
        return Predictions(control=why, arms=arms)
    posterior = control.posterior.posterior
    notes = _notes(control, options)
    as_modelled = predict(posterior, starts, rounds=rounds, draws=draws, seed=seed)
    base = _Solved.of(control, None, draws, seed) if as_modelled.gain.identified else None
    arms_out = []
    for arm in ARMS:
        c = _set_rate(arm)
        if c == 1.0 and options == 2 and len(starts) == control.data.discussions:
            gains = None if base is None else np.zeros_like(base.gains)
            arms_out.append(_prediction(arm, _point(0.0), (0.0, 0.0), gains, base, (_EXACT,), exact=True))
            continue
        scenario = Scenario(name=arm, withholding=c)
        found = predict(posterior, starts, rounds=rounds, scenario=scenario, draws=draws, seed=seed)
        if not found.gain.identified:
            arms_out.append(_unpredicted(arm, found.gain))
            continue
        solved = _Solved.of(control, c, draws, seed)
        limits = solved.predictive(child_rng(seed, "causal", arm))
        arms_out.append(
            _prediction(arm, found.gain, limits, solved.gains, base, (*found.assumptions, *notes))
        )
    return Predictions(control=as_modelled.gain, arms=tuple(arms_out))


def _set_rate(arm: str) -> float:
    c = INTERVENTIONS[arm].withholding
    assert c is not None
    return c


def _point(value: float) -> Summary:
    return Summary(identified=True, reason=None, mean=value, median=value, lower=value, upper=value, sd=0.0)


def _unpredicted(arm: str, why: Summary) -> ArmPrediction:
    return ArmPrediction(
        arm=arm, withholding=_set_rate(arm), gain=why, predictive=None, change=why, direction=None,
        exact=False, assumptions=(),
    )  # fmt: skip


def _prediction(
    arm: str,
    gain: Summary,
    limits: tuple[float, float],
    gains: Floats | None,
    base: _Solved | None,
    assumptions: tuple[str, ...],
    *,
    exact: bool = False,
) -> ArmPrediction:
    change = unidentified("the control arm does not identify what the model would expect of it")
    if gains is not None and base is not None:
        change = from_draws(gains - base.gains)
    return ArmPrediction(
        arm=arm, withholding=_set_rate(arm), gain=gain, predictive=limits, change=change,
        direction=direction(change.lower, change.upper), exact=exact, assumptions=assumptions,
    )  # fmt: skip


def _notes(control: SettingEstimate, options: int | None) -> tuple[str, ...]:
    out = []
    if options != 2:
        many = "free-text answers" if options is None else f"tasks with up to {options} options"
        out.append(
            f"binary projection: {many} are predicted as correct against incorrect, as if all incorrect answers "
            "were one; incorrect answers that differ from each other make a weaker majority than that"
        )
    absent = control.data.discussions - len(control.starts)
    if absent:
        out.append(
            f"{absent} of {control.data.discussions} discussions have no complete round 0 to start from"
        )
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Solved:
    """One scenario solved for every draw: chances of being correct, by kind of start."""

    kinds: tuple[tuple[int, int], ...]  # (correct agents, team size)
    number: NDArray[np.int64]  # discussions of each kind
    chance: Floats  # (draws, kinds)

    @classmethod
    def of(cls, control: SettingEstimate, c: float | None, draws: int, seed: int) -> _Solved:
        """The draws are those that `whatif.predict` takes, so that levels and changes belong together."""
        source = control.posterior.posterior
        rng = child_rng(seed, "whatif")
        total = int(source.sizes["chain"] * source.sizes["draw"])
        pick = rng.choice(total, size=min(draws, total), replace=False)

        def column(name: str) -> Floats:
            return np.asarray(source[name].values, dtype=float).reshape(-1)[pick]

        known = "internalization" in source
        a = column("internalization") if known else rng.random(len(pick))
        cs = column("withholding") if c is None else np.full(len(pick), c)
        u, v = column("flow_to_correct"), column("flow_to_wrong")
        rho = np.minimum(u + v, 1.0)
        r = np.clip(np.divide(u, u + v, out=np.full_like(u, 0.5), where=u + v > 0.0), 0.0, 1.0)
        counts = Counter(control.starts)
        kinds = tuple(sorted(counts))
        chance = np.empty((len(pick), len(kinds)))
        for i, rates in enumerate(zip(cs, a, rho, r, strict=True)):
            by_size = {
                n: solve(n, control.data.rounds, Rates(*map(float, rates))).correct
                for n in {n for _, n in kinds}
            }
            chance[i] = [by_size[n][k] for k, n in kinds]
        return cls(kinds, np.array([counts[kind] for kind in kinds]), np.clip(chance, 0.0, 1.0))

    @property
    def _vote(self) -> float:
        right = np.array([2 * k > n for k, n in self.kinds])
        return float(right @ self.number / self.number.sum())

    @property
    def gains(self) -> Floats:
        """Expected gain of each draw."""
        return np.asarray(self.chance @ self.number / self.number.sum() - self._vote)

    def predictive(self, rng: np.random.Generator) -> tuple[float, float]:
        """Central 95 % of the gain that so many discussions show; each draw is used 50 times."""
        many = np.repeat(self.chance, 50, axis=0)
        shown = rng.binomial(self.number, many).sum(axis=1) / self.number.sum() - self._vote
        # Gains are multiples of 1/n: limits that are gains themselves, never between two of them.
        lower = np.quantile(shown, 0.025, method="lower")
        upper = np.quantile(shown, 0.975, method="higher")
        return float(lower), float(upper)


def direction(lower: float | None, upper: float | None) -> Direction | None:
    """Where an interval lies: up or down of 0, exactly at 0, or unclear (None without an interval).

    Examples
    --------
    >>> direction(0.02, 0.2), direction(-0.1, 0.2), direction(0.0, 0.0), direction(None, None)
    ('up', 'unclear', 'none', None)
    """
    if lower is None or upper is None:
        return None
    if lower > TINY:
        return "up"
    if upper < -TINY:
        return "down"
    return "none" if max(-lower, upper) <= TINY else "unclear"


def record_digest(record: pl.DataFrame) -> str:
    """SHA-256 of a record's content: every value that is there, by key, whatever the order of the rows.

    Examples
    --------
    >>> from abilene.records.schema import Row, frame
    >>> rows = [Row(task="t", round=0, agent=i, truth="x", public="x") for i in "ab"]
    >>> record_digest(frame(rows, {})) == record_digest(frame(rows[::-1], {}))
    True
    """
    digest = hashlib.sha256()
    for row in record.sort(KEY).iter_rows(named=True):
        there = {k: v for k, v in row.items() if v is not None}
        digest.update(json.dumps(there, sort_keys=True, ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()


__all__ = [
    "ARMS",
    "CONTROL",
    "ArmPrediction",
    "Direction",
    "Predictions",
    "direction",
    "predict_arms",
    "record_digest",
]
