"""The four behavioural rates of an agent and what follows from them in closed form.

=========  ===================  ==============================================================
symbol     name                 meaning
=========  ===================  ==============================================================
c          withholding          probability of stating the majority against one's own answer
a          internalization      probability that a withheld answer's owner adopts what it stated
rho        reconsideration      scale of reconsidering, times the dissent seen
r          correction           probability that reconsidering lands on the correct answer
gamma      net_correction       rho (2r - 1) = u - v
u, v       flow_to_correct, flow_to_wrong     rho r, rho (1 - r)
c*         critical_withholding gamma / (gamma + a); 0 when gamma <= 0
=========  ===================  ==============================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from abilene.errors import UsageError


@dataclass(frozen=True, slots=True)
class Rates:
    """The four rates of one agent (or of every agent of a team), each in [0, 1].

    Parameters
    ----------
    c, a, rho, r : float
        Withholding, internalization, reconsideration, correction.

    Raises
    ------
    UsageError
        A rate is not a finite number in [0, 1].

    Examples
    --------
    >>> rates = Rates(c=0.3, a=0.5, rho=1.0, r=0.8)
    >>> round(rates.net_correction, 12), round(rates.critical_withholding, 10)
    (0.6, 0.5454545455)
    """

    c: float
    a: float
    rho: float
    r: float

    def __post_init__(self) -> None:
        names = {"c": "withholding", "a": "internalization", "rho": "reconsideration", "r": "correction"}
        for f in fields(self):
            value = getattr(self, f.name)
            if not (isinstance(value, int | float) and math.isfinite(value) and 0.0 <= value <= 1.0):
                raise UsageError(f"{f.name} ({names[f.name]}) must be a number from 0 to 1, found {value!r}.")

    @property
    def flow_to_correct(self) -> float:
        """u = rho r."""
        return self.rho * self.r

    @property
    def flow_to_wrong(self) -> float:
        """v = rho (1 - r)."""
        return self.rho * (1.0 - self.r)

    @property
    def net_correction(self) -> float:
        """gamma = rho (2r - 1)."""
        return self.rho * (2.0 * self.r - 1.0)

    @property
    def critical_withholding(self) -> float | None:
        """c*, or None where it is degenerate (gamma = 0 and a = 0)."""
        return critical_withholding(self.net_correction, self.a)


def critical_withholding(net_correction: float, internalization: float) -> float | None:
    """Critical withholding rate c* = gamma / (gamma + a).

    Parameters
    ----------
    net_correction : float
        gamma in [-1, 1].
    internalization : float
        a in [0, 1].

    Returns
    -------
    float or None
        c* in [0, 1]; 0 for gamma < 0, and for gamma = 0 with a > 0; None for gamma = 0 and a = 0,
        where every state with agreeing belief and statement is a fixed point and no threshold exists.

    Examples
    --------
    >>> critical_withholding(0.6, 0.0)
    1.0
    >>> critical_withholding(-0.2, 0.5)
    0.0
    >>> critical_withholding(0.0, 0.0) is None
    True
    """
    if net_correction > 0.0:
        return net_correction / (net_correction + internalization)
    if net_correction == 0.0 and internalization == 0.0:
        return None
    return 0.0
