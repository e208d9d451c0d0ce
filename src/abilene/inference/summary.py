"""How one estimated quantity is reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Probabilities of the lower limit, the median and the upper limit of an equal-tailed 95 % interval.
LEVELS: NDArray[np.float64] = np.array([0.025, 0.5, 0.975])


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Posterior of one quantity in numbers, or the reason why the data say nothing about it.

    Attributes
    ----------
    identified : bool
        False when the data cannot inform the quantity. All numbers are then None: the prior is not a result.
    reason : str or None
        Why it is not identified; None when it is.
    mean, median, sd : float or None
        Posterior mean, median and standard deviation.
    lower, upper : float or None
        Ends of the equal-tailed 95 % interval.
    """

    identified: bool
    reason: str | None
    mean: float | None = None
    median: float | None = None
    lower: float | None = None
    upper: float | None = None
    sd: float | None = None

    def as_dict(self) -> dict[str, float | bool | str | None]:
        """The summary as the JSON contract of ``abilene estimate`` has it.

        Examples
        --------
        >>> Summary(identified=False, reason="no opportunities").as_dict()["mean"] is None
        True
        """
        names = ("mean", "median", "lower", "upper", "identified", "reason")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        if self.median is None:
            return f"not identified ({self.reason})"
        return f"{self.median:.3f} [{self.lower:.3f}, {self.upper:.3f}]"


def unidentified(reason: str) -> Summary:
    """Summary of a quantity about which the data say nothing."""
    return Summary(identified=False, reason=reason)


def from_draws(draws: NDArray[np.float64]) -> Summary:
    """Summary of a quantity known by draws from its posterior.

    Examples
    --------
    >>> from_draws(np.linspace(0.0, 1.0, 1001)).median
    0.5
    """
    lower, median, upper = np.quantile(draws, LEVELS)
    return Summary(
        identified=True,
        reason=None,
        mean=float(draws.mean()),
        median=float(median),
        lower=float(lower),
        upper=float(upper),
        sd=float(draws.std()),
    )
