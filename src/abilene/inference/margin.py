"""From counts to the verdict: joint posterior of the rates, the threshold c*, and the margin c - c*."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abilene.errors import MissingExtraError, UsageError
from abilene.inference.correction import FlowPosterior, flow_posterior
from abilene.inference.summary import Summary, from_draws, unidentified
from abilene.inference.withholding import RatePosterior, counts, rate_posterior
from abilene.seeds import child_rng

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
Verdict = Literal["below", "above", "undecided", "unidentified"]

_CHAINS = 4


def critical_draws(gamma: Floats, a: Floats | float) -> Floats:
    """Critical withholding gamma / (gamma + a) draw by draw; 0 wherever gamma <= 0.

    Examples
    --------
    >>> critical_draws(np.array([0.6, -0.1, 0.6]), np.array([0.5, 0.5, 0.0])).round(6).tolist()
    [0.545455, 0.0, 1.0]
    """
    positive = gamma > 0.0
    return np.divide(gamma, gamma + a, out=np.zeros_like(gamma), where=positive)


@dataclass(frozen=True, kw_only=True)
class SettingPosterior:
    """Joint posterior of one setting; see `setting_posterior`.

    Attributes
    ----------
    withholding, internalization : RatePosterior
        c and a.
    net_correction, u, v : Summary
        gamma = u - v and the two flows.
    critical_withholding, margin : Summary
        c* = gamma / (gamma + a), 0 where gamma <= 0, best read by its median; and c - c*.
    temper : float
        Power of the flows' likelihood, in [0.01, 1].
    probability_above : float or None
        P(c > c*), with c integrated out exactly; None when the margin is not identified.
    verdict : str
        "below", "above" (the margin's 95 % interval lies under or over 0), "undecided", "unidentified".
    reasons : tuple of str
        Plain sentences: what the verdict rests on, what is not identified and what is known all the same.
    """

    withholding: RatePosterior
    internalization: RatePosterior
    net_correction: Summary
    u: Summary
    v: Summary
    critical_withholding: Summary
    margin: Summary
    temper: float
    probability_above: float | None
    verdict: Verdict
    reasons: tuple[str, ...]
    _draws: dict[str, Floats] = field(repr=False, compare=False)

    @cached_property
    def posterior(self) -> xr.Dataset:
        """Joint draws with dimensions (chain, draw), named by the vocabulary.

        The draws are independent; they are cut into four chains so that the usual diagnostics apply.
        Quantities that are not identified are left out, and named in the attribute ``unidentified``.
        """
        import xarray as xr

        size = next(iter(self._draws.values())).size if self._draws else 0
        chains = _CHAINS if size % _CHAINS == 0 else 1
        named = {
            "withholding": self.withholding,
            "internalization": self.internalization,
            "flow_to_correct": self.u,
            "flow_to_wrong": self.v,
            "net_correction": self.net_correction,
            "critical_withholding": self.critical_withholding,
            "margin": self.margin,
        }
        left_out = [f"{name}: {s.reason}" for name, s in named.items() if name not in self._draws]
        return xr.Dataset(
            {name: (("chain", "draw"), d.reshape(chains, -1)) for name, d in self._draws.items()},
            coords={"chain": np.arange(chains), "draw": np.arange(size // chains)},
            attrs={"unidentified": "; ".join(left_out), "temper": self.temper, "verdict": self.verdict},
        )

    def to_arviz(self) -> Any:
        """The draws as ArviZ wants them: InferenceData before its version 1, an xarray DataTree from then on.

        Raises
        ------
        MissingExtraError
            ArviZ is not installed.
        """
        try:
            import arviz
        except ImportError as error:
            raise MissingExtraError("arviz", "Handing the posterior to ArviZ") from error
        if int(arviz.__version__.split(".")[0]) < 1:
            return arviz.InferenceData(posterior=self.posterior)
        import xarray as xr

        return xr.DataTree.from_dict({"posterior": self.posterior})


@dataclass(frozen=True)
class _Decision:
    verdict: Verdict
    reasons: list[str]


def _decide(margin: Summary) -> _Decision:
    """Verdict from an identified margin."""
    assert margin.lower is not None and margin.upper is not None
    interval = f"The margin c - c* has the 95 % interval [{margin.lower:.3f}, {margin.upper:.3f}]"
    if margin.upper < 0.0:
        return _Decision("below", [f"{interval}, wholly below 0."])
    if margin.lower > 0.0:
        return _Decision("above", [f"{interval}, wholly above 0."])
    return _Decision("undecided", [f"{interval}, which contains 0."])


def _decide_without_a(c: RatePosterior, gamma: Summary, c_draws: Floats, gamma_draws: Floats) -> _Decision:
    """Verdict for any internalization: gamma / (gamma + 1) <= c* <= 1 where gamma > 0, c* = 0 elsewhere."""
    assert gamma.upper is not None and gamma.lower is not None
    assert c.upper is not None
    nobody = c.lower == 0.0
    reasons = []
    if nobody:
        reasons.append(
            "Nobody withheld, so internalization cannot be measured: "
            f"withholding is at most {c.upper:.3f} (97.5 %)."
        )
    else:
        reasons.append("Internalization is not identified: no withheld row has a known private answer.")
    highest = float(np.quantile(c_draws - critical_draws(gamma_draws, 1.0), 0.975))
    lowest = float(np.quantile(c_draws - (gamma_draws > 0.0), 0.025))
    if highest < 0.0:
        reasons.append(
            "Withholding is below the threshold whatever internalization is: c - gamma/(gamma + 1), the "
            f"largest margin possible, is under {highest:.3f} with 97.5 % probability."
        )
        return _Decision("below", reasons)
    if gamma.upper <= 0.0:
        reasons.append("Net correction is not positive, so the threshold is 0 whatever internalization is.")
        if not nobody and lowest > 0.0:
            return _Decision("above", [*reasons, "Withholding is above 0."])
    elif nobody:
        reasons.append(
            "If net correction is positive, the threshold is positive too, and a team that does not withhold "
            "cannot be above it; the data do not settle how far below it is."
        )
    return _Decision("unidentified", reasons)


def setting_posterior(
    *,
    k_c: ArrayLike,
    n_c: ArrayLike,
    k_a: ArrayLike,
    task: ArrayLike,
    enters_correct: ArrayLike,
    dissent: ArrayLike,
    changed: ArrayLike,
    n_a: ArrayLike | None = None,
    n_tasks: int | None = None,
    seed: int = 0,
    temper: bool = True,
    draws: int = 4000,
    bootstraps: int = 500,
) -> SettingPosterior:
    """Joint posterior of withholding, internalization, correction, threshold and margin of one setting.

    The three blocks of data (opportunities, withheld rows, correction rows) are disjoint parts of the
    likelihood, so their posteriors are independent and are combined draw by draw.

    Parameters
    ----------
    k_c, n_c : array_like of int, shape (tasks,)
        Statements withheld and opportunities, of each task.
    k_a : array_like of int, shape (tasks,)
        Withheld statements that were internalized, of each task.
    task, enters_correct, dissent, changed : array_like, shape (rows,)
        Correction rows, see `flow_posterior`.
    n_a : array_like of int, shape (tasks,), optional
        Withheld rows whose private answer is known; `k_c` by default.
    n_tasks : int, optional
        Tasks of the setting, for the resampling; by default the larger of the number of counts and the
        number of tasks with correction rows.
    seed : int
        Root seed of draws and resampling.
    temper : bool
        Whether the flows' likelihood is tempered.
    draws, bootstraps : int
        Numbers of posterior draws and of resamplings.

    Returns
    -------
    SettingPosterior
        Whatever is not identified has no numbers but a reason. Nobody withholding leaves internalization,
        c* and margin unidentified; the verdict is "below" only if it holds for every internalization.

    Raises
    ------
    UsageError
        The arrays do not fit together or hold values out of range.

    Examples
    --------
    >>> tasks = np.arange(60)
    >>> setting = setting_posterior(
    ...     k_c=np.full(60, 5), n_c=np.full(60, 6), k_a=np.full(60, 4),
    ...     task=np.repeat(tasks, 2), enters_correct=np.tile([True, False], 60),
    ...     dissent=np.full(120, 0.5), changed=np.tile([False, False, False, True], 30),
    ... )
    >>> setting.verdict
    'above'
    >>> sorted(setting.posterior.sizes.items())
    [('chain', 4), ('draw', 1000)]
    """
    k_c, n_c, k_a = counts("k_c", k_c), counts("n_c", n_c), counts("k_a", k_a)
    followed = k_c if n_a is None else counts("n_a", n_a)
    if not k_c.size == n_c.size == k_a.size == followed.size:
        raise UsageError(
            f"k_c, n_c, k_a, n_a need one count a task; found {k_c.size}, {n_c.size}, {k_a.size}."
        )
    if bool((followed > k_c).any()):
        raise UsageError("n_a must not exceed k_c: only withheld rows can be internalized.")
    if draws < 1:
        raise UsageError(f"draws must be at least 1, found {draws}.")
    c = rate_posterior(k_c, n_c)
    a = rate_posterior(k_a, followed)
    if not a.identified:
        why = "nobody withheld" if c.identified and not k_c.any() else a.reason
        if c.identified and k_c.any():
            why = "no withheld row has a known private answer"
        a = RatePosterior(identified=False, reason=why)
    if n_tasks is None:
        n_tasks = max(k_c.size, int(np.unique(np.asarray(task)).size))
    flows = flow_posterior(
        task, enters_correct, dissent, changed,
        temper=temper, bootstraps=bootstraps, seed=seed, n_tasks=n_tasks,
    )  # fmt: skip
    return _combine(c, a, flows, seed=seed, draws=draws)


def _combine(
    c: RatePosterior, a: RatePosterior, flows: FlowPosterior, *, seed: int, draws: int
) -> SettingPosterior:
    gamma = flows.net_correction
    # Each block has its own child stream: what one draws does not depend on whether another is identified.
    sample: dict[str, Floats] = {}
    if c.identified:
        sample["withholding"] = c.draw(child_rng(seed, "withholding"), draws)
    if a.identified:
        sample["internalization"] = a.draw(child_rng(seed, "internalization"), draws)
    if gamma.identified:
        u, v = flows.draw(child_rng(seed, "flows"), draws)
        sample |= {"flow_to_correct": u, "flow_to_wrong": v, "net_correction": u - v}

    critical = margin = None
    above: float | None = None
    if a.identified and gamma.identified:
        sample["critical_withholding"] = critical_draws(sample["net_correction"], sample["internalization"])
        critical = from_draws(sample["critical_withholding"])
        if c.identified:
            sample["margin"] = sample["withholding"] - sample["critical_withholding"]
            margin = from_draws(sample["margin"])
            above = float(1.0 - c.cdf(sample["critical_withholding"]).mean())
    if critical is None:
        critical = unidentified(
            f"net correction is not identified: {gamma.reason}"
            if not gamma.identified
            else f"internalization is not identified: {a.reason}"
        )
    if margin is None:
        margin = unidentified(
            f"withholding is not identified: {c.reason}" if not c.identified else str(critical.reason)
        )

    if margin.identified:
        decision = _decide(margin)
    elif c.identified and gamma.identified:
        decision = _decide_without_a(c, gamma, sample["withholding"], sample["net_correction"])
    else:
        reasons = []
        if not c.identified:
            reasons.append(f"Withholding is not identified: {c.reason}.")
        if not gamma.identified:
            reasons.append(f"Net correction is not identified, and its sign is not read: {gamma.reason}.")
        decision = _Decision("unidentified", reasons)
    return SettingPosterior(
        withholding=c,
        internalization=a,
        net_correction=gamma,
        u=flows.u,
        v=flows.v,
        critical_withholding=critical,
        margin=margin,
        temper=flows.temper,
        probability_above=above,
        verdict=decision.verdict,
        reasons=tuple(decision.reasons),
        _draws=sample,
    )
