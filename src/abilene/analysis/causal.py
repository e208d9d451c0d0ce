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
from scipy.stats import binom

from abilene.analysis.estimate import SettingEstimate
from abilene.analysis.whatif import Scenario, drawn_rates, predict
from abilene.inference.summary import Summary, from_draws, unidentified
from abilene.rates import Rates
from abilene.records.schema import KEY
from abilene.seeds import child_rng
from abilene.team.interventions import INTERVENTIONS
from abilene.theory.chain import solve
from abilene.theory.kernel import binary_outcomes

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
        Gain of the model with c set, with the posterior's 95 % interval (`abilene.analysis.whatif.predict`).
    predictive : (float, float) or None
        95 % of the gains that these discussions would show by it: the posterior and the luck of so many discussions.
    gain_as_run : Summary
        The same for the arm as it is run, see Notes of `predict_arms`.
    predictive_as_run : (float, float) or None
        Its 95 % of the gains.
    change : Summary
        `gain` minus that of the control arm by the model, draw by draw.
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
    gain_as_run: Summary
    predictive_as_run: tuple[float, float] | None
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
    The model with c = 0 and the transparent arm are not quite the same thing. In the model a change of mind shows in
    the next round's statement, and an agent that does not withhold does not internalize. In the arm the statement is
    this round's private answer, one round ahead, and the agents, who are not told, keep internalizing as in the
    control arm. `gain_as_run` follows the arm: beliefs move by all four rates of the control arm, statements are the
    new beliefs. In the forced arm both are the same.

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
            change = _WHY_NO_CHANGE if base is None else from_draws(-base.gains)
            zero = _Expected(_point(0.0), (0.0, 0.0))
            arms_out.append(_prediction(arm, zero, zero, change, (_EXACT,), exact=True))
            continue
        scenario = Scenario(name=arm, withholding=c)
        found = predict(posterior, starts, rounds=rounds, scenario=scenario, draws=draws, seed=seed)
        if not found.gain.identified:
            arms_out.append(_unpredicted(arm, found.gain))
            continue
        solved = _Solved.of(control, c, draws, seed)
        model = _Expected(found.gain, solved.predictive(child_rng(seed, "causal", arm)))
        as_run = model
        if c == 0.0:
            as_run = _Expected(_WHY_NOT_AS_RUN, None)
            if base is not None:
                chances = _Solved(base.kinds, base.number, _transparent(base, rounds), base.rates)
                luck = child_rng(seed, "causal", arm, "as run")
                as_run = _Expected(from_draws(chances.gains), chances.predictive(luck))
        change = _WHY_NO_CHANGE if base is None else from_draws(solved.gains - base.gains)
        arms_out.append(_prediction(arm, model, as_run, change, (*found.assumptions, *notes)))
    return Predictions(control=as_modelled.gain, arms=tuple(arms_out))


def _set_rate(arm: str) -> float:
    c = INTERVENTIONS[arm].withholding
    assert c is not None
    return c


def _point(value: float) -> Summary:
    return Summary(identified=True, reason=None, mean=value, median=value, lower=value, upper=value, sd=0.0)


@dataclass(frozen=True, slots=True)
class _Expected:
    gain: Summary
    limits: tuple[float, float] | None


_WHY_NO_CHANGE = unidentified("the control arm does not identify what the model would expect of it")
_WHY_NOT_AS_RUN = unidentified("the control arm does not identify all that moves beliefs")


def _unpredicted(arm: str, why: Summary) -> ArmPrediction:
    nothing = _Expected(why, None)
    return _prediction(arm, nothing, nothing, why, ())


def _prediction(
    arm: str,
    model: _Expected,
    as_run: _Expected,
    change: Summary,
    assumptions: tuple[str, ...],
    *,
    exact: bool = False,
) -> ArmPrediction:
    return ArmPrediction(
        arm=arm,
        withholding=_set_rate(arm),
        gain=model.gain,
        predictive=model.limits,
        gain_as_run=as_run.gain,
        predictive_as_run=as_run.limits,
        change=change,
        direction=direction(change.lower, change.upper),
        exact=exact,
        assumptions=assumptions,
    )


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
    rates: tuple[Rates, ...]  # by draw

    @classmethod
    def of(cls, control: SettingEstimate, c: float | None, draws: int, seed: int) -> _Solved:
        """The draws are those that `whatif.predict` takes, so that levels and changes belong together."""
        drawn = tuple(drawn_rates(control.posterior.posterior, draws=draws, seed=seed, withholding=c))
        counts = Counter(control.starts)
        kinds = tuple(sorted(counts))
        chance = np.empty((len(drawn), len(kinds)))
        for i, rates in enumerate(drawn):
            by_size = {n: solve(n, control.data.rounds, rates).correct for n in {n for _, n in kinds}}
            chance[i] = [by_size[n][k] for k, n in kinds]
        return cls(kinds, np.array([counts[kind] for kind in kinds]), np.clip(chance, 0.0, 1.0), drawn)

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


def _transparent(team: _Solved, rounds: int) -> Floats:
    """Chances of being correct in the transparent arm as it is run, by draw and kind of start."""
    out = np.empty_like(team.chance)
    for i, rates in enumerate(team.rates):
        by_size = {n: transparent_team(n, rounds, rates) for n in {n for _, n in team.kinds}}
        out[i] = [by_size[n][k] for k, n in team.kinds]
    return out


def transparent_team(team_size: int, rounds: int, rates: Rates) -> Floats:
    """Probability that a team of the transparent arm ends correct, by number of agents that start correct.

    Beliefs move by the four rules, and every statement is the new belief: the number of correct agents is a Markov
    chain, k' ~ Binomial(k, P(correct stays)) + Binomial(N - k, P(incorrect turns)).

    Parameters
    ----------
    team_size, rounds : int
        N >= 1 and T >= 0, complete topology.
    rates : Rates
        Of all agents.

    Returns
    -------
    ndarray, shape (N + 1,)
        A tie is incorrect.

    Examples
    --------
    >>> transparent_team(5, 3, Rates(c=0, a=0, rho=0, r=0)).tolist()
    [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    """
    n = team_size
    table = binary_outcomes(rates, n - 1)
    turns = table[..., 1] + table[..., 3]  # next belief correct, by belief and correct others
    each = np.arange(n + 1)
    step = np.zeros((n + 1, n + 1))
    for k in range(n + 1):
        stay = binom.pmf(each[: k + 1], k, turns[1, k - 1]) if k else np.ones(1)
        turn = binom.pmf(each[: n - k + 1], n - k, turns[0, k]) if k < n else np.ones(1)
        step[k] = np.convolve(stay, turn)
    correct = (2 * each > n).astype(float)
    for _ in range(rounds):
        correct = step @ correct
    return np.asarray(np.clip(correct, 0.0, 1.0))


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
    "transparent_team",
]
